/* Programs of one operation; see ops_program.h. */
#include "bench/nabla-bench/ops_program.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "bench/nabla-bench/limit.h"

#define TEXT_SIZE 4096

/* ---- rows ---- */

static const ops_row rows[] = {
#define SHAPES(...) {__VA_ARGS__}
#define OP(id, peers, shapes, reads, flops, bound, program) \
  {#id, peers, program, shapes},
#include "bench/nabla-bench/ops.def"
#undef OP
#undef SHAPES
};
enum { ROWS = sizeof rows / sizeof *rows };

const ops_row *ops_rows(size_t *out_count) {
  *out_count = ROWS;
  return rows;
}

/* What else a row says of one shape. */
typedef struct numbers {
  double reads, flops; /* elements that are read, 0: all */
  uint32_t bound;
} numbers;

static numbers numbers_of(size_t row, const ops_shape *shape) {
  const double A = shape->a, B = shape->b, C = shape->c, D = shape->d;
  numbers all[] = {
#define SHAPES(...)
#define OP(id, peers, shapes, reads, flops, bound, program) \
  {reads, flops, bound},
#include "bench/nabla-bench/ops.def"
#undef OP
#undef SHAPES
  };
  return all[row];
}

/* Replaces $a to $d and $t. */
static nabla_status text_of(const ops_row *row, const ops_shape *shape,
                            const char *type, char *out, nabla_diag *diag) {
  size_t used = (size_t)snprintf(out, TEXT_SIZE, "func.func @f");
  for (const char *at = row->program; *at && used < TEXT_SIZE; at++) {
    uint32_t number = 0;
    if (*at != '$') {
      out[used++] = *at;
      continue;
    }
    switch (*++at) {
      case 'a':
        number = shape->a;
        break;
      case 'b':
        number = shape->b;
        break;
      case 'c':
        number = shape->c;
        break;
      case 'd':
        number = shape->d;
        break;
      default:
        break;
    }
    if (number)
      used += (size_t)snprintf(out + used, TEXT_SIZE - used, "%u", number);
    else
      used += (size_t)snprintf(out + used, TEXT_SIZE - used, "%s", type);
  }
  if (used >= TEXT_SIZE)
    return nabla_fail(diag, NABLA_TOO_LARGE, "the program of '%s' is too long",
                      row->id);
  out[used] = '\0';
  return NABLA_OK;
}

/* ---- memory ---- */

#define MOST_BLOCKS 64
#define LEAST_PAGED 65536

struct ops_memory {
  nabla_allocator allocator;
  pthread_mutex_t lock;
  struct {
    void *data;
    size_t size;
  } free[MOST_BLOCKS];
};

static void *take(ops_memory *self, size_t size) {
  for (int i = 0; i < MOST_BLOCKS; i++)
    if (self->free[i].data && self->free[i].size == size) {
      void *data = self->free[i].data;
      self->free[i].data = NULL;
      return data;
    }
  return bench_pages(size);
}

static void give_back(ops_memory *self, void *data, size_t size) {
  for (int i = 0; i < MOST_BLOCKS; i++)
    if (!self->free[i].data) {
      self->free[i].data = data;
      self->free[i].size = size;
      return;
    }
  bench_unmap(data, size);
}

static void *resize_locked(ops_memory *self, void *block, size_t old_size,
                           size_t new_size) {
  void *data = NULL;
  if (new_size) {
    data = new_size < LEAST_PAGED ? malloc(new_size) : take(self, new_size);
    if (!data) return NULL;
    if (block) memcpy(data, block, old_size < new_size ? old_size : new_size);
  }
  if (block && old_size < LEAST_PAGED) free(block);
  if (block && old_size >= LEAST_PAGED) give_back(self, block, old_size);
  return data;
}

static void *resize(void *context, void *block, size_t old_size,
                    size_t new_size) {
  ops_memory *self = context;
  pthread_mutex_lock(&self->lock);
  void *data = resize_locked(self, block, old_size, new_size);
  pthread_mutex_unlock(&self->lock);
  return data;
}

ops_memory *ops_memory_create(void) {
  ops_memory *self = calloc(1, sizeof *self);
  if (!self) return NULL;
  pthread_mutex_init(&self->lock, NULL);
  self->allocator = (nabla_allocator){self, resize};
  return self;
}

void ops_memory_destroy(ops_memory *self) {
  if (!self) return;
  for (int i = 0; i < MOST_BLOCKS; i++)
    bench_unmap(self->free[i].data, self->free[i].size);
  pthread_mutex_destroy(&self->lock);
  free(self);
}

const nabla_allocator *ops_memory_allocator(ops_memory *self) {
  return &self->allocator;
}

/* ---- inputs ---- */

static uint64_t next_random(uint64_t *state) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return *state >> 33;
}

static void fill_one(nabla_dense *array, size_t count, uint32_t bound,
                     uint64_t *state) {
  for (size_t i = 0; i < count; i++) {
    const float value = (float)next_random(state) * 0x1p-29f - 2.0f;
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (array->dtype == NABLA_DTYPE_F32)
      ((float *)array->data)[i] = value;
    else if (array->dtype == NABLA_DTYPE_BF16)
      ((uint16_t *)array->data)[i] = (uint16_t)(bits >> 16);
    else /* integers are indices */
      ((int32_t *)array->data)[i] =
          (int32_t)(next_random(state) % (bound ? bound : 1));
  }
}

static size_t bytes_of(const nabla_port *port) {
  size_t count = 1;
  for (uint32_t i = 0; i < port->rank; i++) count *= (size_t)port->shape[i];
  return count * nabla_dtype_bits(port->dtype) / 8;
}

static nabla_status fill_inputs(ops_program *self, uint32_t bound,
                                nabla_diag *diag) {
  uint64_t state = 1;
  for (size_t i = 0; i < self->signature->argument_count; i++) {
    const nabla_port *port = &self->signature->arguments[i];
    nabla_dense *array = &self->inputs[i];
    *array = (nabla_dense){.dtype = port->dtype, .rank = port->rank};
    memcpy(array->shape, port->shape, sizeof array->shape);
    self->bytes[i] = bytes_of(port);
    array->data = bench_pages(self->bytes[i]);
    if (!array->data) return nabla_fail(diag, NABLA_NO_MEMORY, "no memory");
    fill_one(array, self->bytes[i] / (nabla_dtype_bits(port->dtype) / 8), bound,
             &state);
    self->read += (double)self->bytes[i];
  }
  return NABLA_OK;
}

/* ---- programs ---- */

nabla_status ops_program_open(nabla_compiler *compiler, size_t row,
                              const ops_shape *shape, const char *type,
                              uint32_t threads, ops_program *out,
                              nabla_diag *diag) {
  char text[TEXT_SIZE];
  const numbers n = numbers_of(row, shape);
  *out = (ops_program){.threads = threads, .flops = n.flops};
  NABLA_TRY(text_of(&rows[row], shape, type, text, diag));
  NABLA_TRY(nabla_compile_text(compiler, text, strlen(text), rows[row].id, NULL,
                               &out->executable, diag));
  out->signature = nabla_executable_function(out->executable, 0);
  nabla_status status = NABLA_OK;
  if (out->signature->argument_count > OPS_MAX_INPUTS ||
      out->signature->result_count != 1)
    status = nabla_fail(diag, NABLA_UNSUPPORTED,
                        "'%s' has too many inputs or results", rows[row].id);
  if (!status) status = fill_inputs(out, n.bound, diag);
  if (status) {
    ops_program_close(out);
    return status;
  }
  if (n.reads > 0)
    out->read = n.reads * nabla_dtype_bits(out->inputs[0].dtype) / 8;
  out->written = (double)bytes_of(&out->signature->results[0]);
  return NABLA_OK;
}

void ops_program_close(ops_program *self) {
  for (size_t i = 0; i < OPS_MAX_INPUTS; i++)
    bench_unmap(self->inputs[i].data, self->bytes[i]);
  nabla_executable_close(self->executable);
  *self = (ops_program){0};
}

nabla_status ops_program_run(void *context, uint64_t first, uint32_t count,
                             double *out, nabla_diag *diag) {
  ops_program *self = context;
  (void)first;
  for (uint32_t i = 0; i < count; i++) {
    nabla_dense result = {0};
    const double start = bench_now(self->threads);
    NABLA_TRY(nabla_executable_run(
        self->executable, self->signature->name, self->inputs,
        self->signature->argument_count, &result, 1, diag));
    nabla_dense_release(self->executable, &result);
    out[i] = bench_now(self->threads) - start;
  }
  return NABLA_OK;
}
