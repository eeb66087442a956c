/* Records operations of nabla/array.h for arrays_c.py, each row of
 * lib/array/operations.def by its C function. It reads requests:
 *
 *   NAME ARRAYS INTEGERS NUMBERS         nabla_NAME of ARRAYS arrays:
 *   INTEGER... NUMBER...                 a line; lists begin with their length
 *   DTYPE RANK DIM... BYTES              each array, and its bytes; DTYPE may
 *                                        be scalar, integer, none
 *   realize                              what was recorded since
 *
 * and answers each request, once it is realized:
 *
 *   STATUS RESULTS TEXT                  TEXT: the failure of the call, to the
 *                                        end of the line
 *   DTYPE RANK DIM... BYTES              each result, and its bytes
 *
 * usage: arrays_driver THREADS */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nabla/array.h"

enum { ARRAYS = 64, INTEGERS = 256, REQUESTS = 256 };

typedef struct request {
  uint32_t in_count, out_count;
  nabla_array *in[ARRAYS], *out[ARRAYS];
  nabla_diag diag;
} request;

/* The request that is read: its integers and numbers are taken one by one. */
static nabla_scope *scope;
static int64_t integers[INTEGERS];
static double numbers[INTEGERS];
static uint32_t next_integer, next_number;
static request requests[REQUESTS];
static size_t request_count;

static int64_t integer(void) { return integers[next_integer++]; }
static double number(void) { return numbers[next_number++]; }
static nabla_dtype dtype(void) { return (nabla_dtype)integer(); }

typedef struct list {
  uint32_t count;
  const int64_t *values; /* NULL for a count of -1 */
} list;

static list take_list(void) {
  const int64_t count = integer();
  list out = {0, NULL};
  if (count < 0) return out;
  out = (list){(uint32_t)count, integers + next_integer};
  next_integer += out.count;
  return out;
}

/* ---- calls ---- */

#define CALL(name) static void call_##name(request *r)
#define X          r->in[0]
#define Y          r->in[1]
#define OUT        r->out[0]

#define UNARY(name, op, dtypes) \
  CALL(name) { OUT = nabla_##name(X); }
#define UNARY_OF(name, op, dtypes, key, value) UNARY(name, op, dtypes)
#define BINARY(name, op, dtypes) \
  CALL(name) { OUT = nabla_##name(X, Y); }
#define COMPARISON(name, kind) BINARY(name, , )
#define REDUCTION(name, kind, dtypes)                               \
  CALL(name) {                                                      \
    const list dims = take_list();                                  \
    OUT = nabla_##name(X, dims.count, dims.values, (int)integer()); \
  }
#define ACROSS(name, op, dtypes)                \
  CALL(name) {                                  \
    const int64_t dim = integer();              \
    OUT = nabla_##name(X, dim, (int)integer()); \
  }
#define ALONG(name, op, dtypes) \
  CALL(name) { OUT = nabla_##name(X, integer()); }
#define JOIN(name, op) \
  CALL(name) { OUT = nabla_##name(r->in_count, r->in, integer()); }
#define FILLED(name, value)                                     \
  CALL(name) {                                                  \
    const nabla_dtype type = dtype();                           \
    const list shape = take_list();                             \
    OUT = nabla_##name(scope, type, shape.count, shape.values); \
  }
#define LIKE(name, value) UNARY(name, , )
#define RANDOM(name, op)                                    \
  CALL(name) {                                              \
    const nabla_dtype type = dtype();                       \
    const list shape = take_list();                         \
    OUT = nabla_##name(X, type, shape.count, shape.values); \
  }
#include "lib/array/operations.def"

CALL(full) {
  const nabla_dtype type = dtype();
  const list shape = take_list();
  OUT = nabla_full(scope, type, shape.count, shape.values, number());
}
CALL(full_like) { OUT = nabla_full_like(X, number()); }
CALL(iota) {
  const nabla_dtype type = dtype();
  const list shape = take_list();
  OUT = nabla_iota(scope, type, shape.count, shape.values, integer());
}
CALL(arange) {
  const nabla_dtype type = dtype();
  const double start = number(), stop = number();
  OUT = nabla_arange(scope, type, start, stop, number());
}
CALL(tri) {
  const nabla_dtype type = dtype();
  const list shape = take_list();
  OUT = nabla_tri(scope, type, shape.count, shape.values, integer());
}
CALL(eye) {
  const nabla_dtype type = dtype();
  OUT = nabla_eye(scope, type, integer());
}
CALL(hann_window) {
  const nabla_dtype type = dtype();
  const int64_t size = integer();
  OUT = nabla_hann_window(scope, type, size, (int)integer());
}
CALL(where) { OUT = nabla_where(X, Y, r->in[2]); }
CALL(convert) { OUT = nabla_convert(X, dtype()); }
CALL(stop_gradient) { OUT = nabla_stop_gradient(X); }
CALL(minmax) {
  const list dims = take_list();
  r->out_count = 2;
  nabla_minmax(X, dims.count, dims.values, (int)integer(), r->out);
}
CALL(dot_general) {
  const list a = take_list(), b = take_list(), c = take_list(), d = take_list();
  const nabla_dot_dims dims = {.batching_count = a.count,
                               .contracting_count = c.count,
                               .x_batching = a.values,
                               .y_batching = b.values,
                               .x_contracting = c.values,
                               .y_contracting = d.values};
  OUT = nabla_dot_general(X, Y, &dims);
}
CALL(matmul) { OUT = nabla_matmul(X, Y); }
CALL(outer) { OUT = nabla_outer(X, Y); }
CALL(linear) { OUT = nabla_linear(X, Y, r->in[2]); }
CALL(conv_general) {
  const list strides = take_list(), low = take_list(), high = take_list();
  const nabla_conv_options options = {.struct_size = sizeof options,
                                      .strides = strides.values,
                                      .low = low.values,
                                      .high = high.values,
                                      .groups = integer()};
  OUT = nabla_conv_general(X, Y, &options);
}
CALL(reduce_window) {
  const nabla_window_kind kind = (nabla_window_kind)integer();
  const list sizes = take_list(), strides = take_list();
  const list dilation = take_list(), low = take_list(), high = take_list();
  const nabla_window_options window = {.struct_size = sizeof window,
                                       .count = sizes.count,
                                       .sizes = sizes.values,
                                       .strides = strides.values,
                                       .dilation = dilation.values,
                                       .low = low.values,
                                       .high = high.values,
                                       .count_padding = (int)integer()};
  OUT = nabla_reduce_window(X, kind, &window);
}
CALL(max_pool) {
  const list sizes = take_list(), strides = take_list();
  OUT = nabla_max_pool(X, sizes.count, sizes.values, strides.values,
                       take_list().values);
}
CALL(avg_pool) {
  const list sizes = take_list(), strides = take_list();
  OUT = nabla_avg_pool(X, sizes.count, sizes.values, strides.values,
                       take_list().values);
}
CALL(transpose) {
  const list dims = take_list();
  OUT = nabla_transpose(X, dims.count, dims.values);
}
CALL(swap_axes) {
  const int64_t first = integer();
  OUT = nabla_swap_axes(X, first, integer());
}
CALL(moveaxis) {
  const int64_t from = integer();
  OUT = nabla_moveaxis(X, from, integer());
}
CALL(reshape) {
  const list shape = take_list();
  OUT = nabla_reshape(X, shape.count, shape.values);
}
CALL(flatten) {
  const int64_t first = integer();
  OUT = nabla_flatten(X, first, integer());
}
CALL(squeeze) {
  const list dims = take_list();
  OUT = nabla_squeeze(X, dims.count, dims.values);
}
CALL(unsqueeze) { OUT = nabla_unsqueeze(X, integer()); }
CALL(broadcast_to) {
  const list shape = take_list();
  OUT = nabla_broadcast_to(X, shape.count, shape.values);
}
CALL(broadcast_in_dim) {
  const list shape = take_list(), dims = take_list();
  OUT = nabla_broadcast_in_dim(X, shape.count, shape.values, dims.count,
                               dims.values);
}
CALL(slice) {
  const list starts = take_list(), limits = take_list();
  OUT = nabla_slice(X, starts.count, starts.values, limits.values,
                    take_list().values);
}
CALL(dynamic_slice) {
  OUT = nabla_dynamic_slice(X, r->in_count - 1, r->in + 1, take_list().values);
}
CALL(dynamic_update_slice) {
  OUT = nabla_dynamic_update_slice(X, Y, r->in_count - 2, r->in + 2);
}
CALL(pad) {
  const list low = take_list(), high = take_list();
  OUT = nabla_pad(X, Y, low.count, low.values, high.values, take_list().values);
}
CALL(flip) {
  const list dims = take_list();
  OUT = nabla_flip(X, dims.count, dims.values);
}
CALL(triu) { OUT = nabla_triu(X, integer()); }
CALL(tril) { OUT = nabla_tril(X, integer()); }
CALL(split) {
  const int64_t dim = integer();
  const list sizes = take_list();
  r->out_count = sizes.count;
  nabla_split(X, dim, sizes.count, sizes.values, r->out);
}
CALL(chunk) {
  const int64_t dim = integer();
  r->out_count = (uint32_t)integer();
  nabla_chunk(X, dim, r->out_count, r->out);
}
CALL(unbind) {
  const int64_t dim = integer();
  r->out_count = (uint32_t)integer();
  nabla_unbind(X, dim, r->out_count, r->out);
}

/* Dimension numbers as gather and scatter take them. */
static nabla_gather_dims take_dims(void) {
  const list offset = take_list(), collapsed = take_list(), map = take_list();
  return (nabla_gather_dims){.struct_size = sizeof(nabla_gather_dims),
                             .offset_count = offset.count,
                             .collapsed_count = collapsed.count,
                             .map_count = map.count,
                             .offset_dims = offset.values,
                             .collapsed_dims = collapsed.values,
                             .index_map = map.values,
                             .vector_dim = integer()};
}
CALL(gather) {
  const nabla_gather_dims dims = take_dims();
  const list sizes = take_list();
  OUT = nabla_gather(X, Y, &dims, sizes.count, sizes.values);
}
CALL(scatter) {
  const nabla_scatter_kind kind = (nabla_scatter_kind)integer();
  const nabla_gather_dims dims = take_dims();
  OUT = nabla_scatter(X, Y, r->in[2], kind, &dims);
}
CALL(take) { OUT = nabla_take(X, Y, integer()); }
CALL(at) {
  const int64_t dim = integer();
  OUT = nabla_at(X, dim, Y, r->in[2], (nabla_scatter_kind)integer());
}
CALL(one_hot) {
  const int64_t size = integer();
  OUT = nabla_one_hot(X, size, dtype());
}
CALL(rms_norm) { OUT = nabla_rms_norm(X, Y, number()); }
CALL(layer_norm) { OUT = nabla_layer_norm(X, Y, r->in[2], number()); }
CALL(rope) {
  const int64_t dim = integer(), halves = integer(), offset = integer();
  const nabla_rope_options options = {.struct_size = sizeof options,
                                      .halves = (int)halves,
                                      .offset = offset,
                                      .theta = number()};
  OUT = nabla_rope(X, Y, dim, &options);
}
CALL(attention) {
  const double scale = number();
  OUT = nabla_attention(X, Y, r->in[2], r->in[3], r->in[4], scale,
                        (int)integer());
}
CALL(mse) { OUT = nabla_mse(X, Y); }
CALL(cross_entropy) { OUT = nabla_cross_entropy(X, Y); }

/* int8 in blocks of 64. The answer of quantize and pack is decoded. */
static nabla_storage layout(void) {
  return (nabla_storage){
      .kind = NABLA_STORAGE_PLANES,
      .format = {.encoding = nabla_encoding_find("int8"), .block = 64}};
}
CALL(quantize) {
  const nabla_storage storage = layout();
  OUT = nabla_materialize(nabla_quantize(X, &storage));
}
CALL(materialize) { OUT = nabla_materialize(X); }
CALL(pack) {
  const nabla_storage storage = layout();
  const list shape = take_list();
  OUT = nabla_materialize(
      nabla_pack(r->in_count, r->in, &storage, shape.count, shape.values));
}
CALL(pack_as) {
  const list shape = take_list();
  OUT = nabla_materialize(nabla_pack_as(r->in_count, r->in,
                                        "#nabla.int8<block = 64>", shape.count,
                                        shape.values));
}
CALL(unpack) {
  const nabla_storage storage = layout();
  r->out_count = 2;
  nabla_unpack(nabla_quantize(X, &storage), 2, r->out);
}
CALL(implicit_depth) { OUT = nabla_implicit_depth(X); }

#define ROW(name)                               {#name, call_##name},
#define UNARY(name, op, dtypes)                 ROW(name)
#define UNARY_OF(name, op, dtypes, key, number) ROW(name)
#define BINARY(name, op, dtypes)                ROW(name)
#define COMPARISON(name, kind)                  ROW(name)
#define REDUCTION(name, kind, dtypes)           ROW(name)
#define ACROSS(name, op, dtypes)                ROW(name)
#define ALONG(name, op, dtypes)                 ROW(name)
#define JOIN(name, op)                          ROW(name)
#define FILLED(name, value)                     ROW(name)
#define LIKE(name, value)                       ROW(name)
#define RANDOM(name, op)                        ROW(name)
#define OTHER(name, op, parameters)             ROW(name)
static const struct {
  const char *name;
  void (*call)(request *r);
} calls[] = {
#include "lib/array/operations.def"
};

/* ---- requests ---- */

/* `size` bytes of input; they end the process if there are fewer. */
static void *read_bytes(size_t size) {
  char *bytes = malloc(size + 1);
  if (!bytes || fread(bytes, 1, size, stdin) != size) exit(3);
  return bytes;
}

static nabla_array *read_array(void) {
  char name[16];
  nabla_dense dense = {0};
  size_t bytes;
  nabla_array *out = NULL;
  if (scanf("%15s %" SCNu32, name, &dense.rank) != 2 ||
      dense.rank > NABLA_ARRAY_MAX_RANK)
    exit(3);
  for (uint32_t i = 0; i < dense.rank; i++)
    if (scanf("%" SCNd64, &dense.shape[i]) != 1) exit(3);
  if (scanf("%zu", &bytes) != 1 || getchar() != '\n') exit(3);
  dense.data = read_bytes(bytes);
  if (!strcmp(name, "none")) {
    out = nabla_none();
  } else if (!strcmp(name, "scalar")) {
    out = nabla_scalar(scope, *(const double *)dense.data);
  } else if (!strcmp(name, "integer")) {
    out = nabla_integer(scope, *(const int64_t *)dense.data);
  } else {
    if (nabla_dtype_find(name, strlen(name), &dense.dtype, NULL)) exit(3);
    out = nabla_array_of(scope, &dense);
  }
  free(dense.data);
  if (!out) exit(3);
  return out;
}

static void read_request(const char *name) {
  request *r = &requests[request_count++];
  uint32_t integer_count, number_count;
  memset(r, 0, sizeof *r);
  if (scanf("%" SCNu32 " %" SCNu32 " %" SCNu32, &r->in_count, &integer_count,
            &number_count) != 3 ||
      r->in_count > ARRAYS || integer_count > INTEGERS ||
      number_count > INTEGERS)
    exit(3);
  for (uint32_t i = 0; i < integer_count; i++)
    if (scanf("%" SCNd64, &integers[i]) != 1) exit(3);
  for (uint32_t i = 0; i < number_count; i++)
    if (scanf("%lf", &numbers[i]) != 1) exit(3);
  for (uint32_t i = 0; i < r->in_count; i++) r->in[i] = read_array();
  next_integer = next_number = 0;
  r->out_count = 1;
  size_t row = 0;
  while (row < sizeof calls / sizeof *calls && strcmp(calls[row].name, name))
    row++;
  if (row == sizeof calls / sizeof *calls) exit(4);
  calls[row].call(r);
  (void)nabla_scope_status(scope, &r->diag);
  nabla_scope_clear(scope);
}

static void write_array(const nabla_dense *array) {
  uint64_t bytes = nabla_dtype_bits(array->dtype) / 8;
  printf("%s %" PRIu32, nabla_dtype_name(array->dtype), array->rank);
  for (uint32_t i = 0; i < array->rank; i++) {
    printf(" %" PRId64, array->shape[i]);
    bytes *= (uint64_t)array->shape[i];
  }
  printf(" %" PRIu64 "\n", bytes);
  if (bytes) fwrite(array->data, 1, bytes, stdout);
}

/* Realizes the results of all requests at once, and answers these. */
static void realize(void) {
  static nabla_array *all[REQUESTS * ARRAYS];
  size_t count = 0;
  nabla_diag diag = NABLA_DIAG_INIT;
  for (size_t i = 0; i < request_count; i++)
    for (uint32_t k = 0; !requests[i].diag.code && k < requests[i].out_count;
         k++)
      all[count++] = requests[i].out[k];
  if (nabla_realize(scope, count, all, &diag)) {
    fprintf(stderr, "realize: %s\n", diag.what);
    exit(5);
  }
  for (size_t i = 0; i < request_count; i++) {
    const request *r = &requests[i];
    printf("%s %" PRIu32 " %s\n", nabla_status_name(r->diag.code),
           r->diag.code ? 0 : r->out_count, r->diag.what);
    for (uint32_t k = 0; !r->diag.code && k < r->out_count; k++)
      write_array(nabla_array_dense(r->out[k]));
  }
  request_count = 0;
}

int main(int argc, char **argv) {
  char name[64];
  nabla_diag diag = NABLA_DIAG_INIT;
  nabla_engine *engine;
  const nabla_compiler_options compiler = {.struct_size = sizeof compiler,
                                           .cache = ""};
  const nabla_engine_options options = {.struct_size = sizeof options,
                                        .compiler = &compiler};
  nabla_environment environment = {0};
  if (argc != 2 ||
      nabla_pool_create((uint32_t)strtoul(argv[1], NULL, 10), NULL,
                        &environment.pool, &diag) ||
      nabla_engine_create(&options, &environment, &engine, &diag))
    return 2;
  while (scanf("%63s", name) == 1) {
    if (!scope && nabla_scope_create(engine, &scope, &diag)) return 2;
    if (strcmp(name, "realize")) {
      if (request_count == REQUESTS) return 3;
      read_request(name);
    } else {
      realize();
      nabla_scope_end(scope);
      scope = NULL;
    }
  }
  nabla_scope_end(scope);
  nabla_engine_destroy(engine);
  nabla_pool_destroy(environment.pool);
  return 0;
}
