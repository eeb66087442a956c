/* Compiles programs and calls their functions for programs_random.py: many in
 * one process. It reads requests, a line followed by bytes, and answers each
 * alike:
 *
 *   compile POLICY NUMERICS FUSION BYTES the program; FUSION: on, off
 *   STATUS 0 BYTES                       messages, if it failed
 *
 *   call FUNCTION COUNT                  COUNT times an array:
 *   DTYPE RANK DIM... BYTES              and its bytes
 *   STATUS RESULTS BYTES                 messages, then RESULTS arrays alike
 *
 * A function runs three times, the last two into arrays of the caller. All runs
 * have to give the same bytes, and the third may allocate its frame alone. With
 * NABLA_PLAN_GUARD=1 in the environment, plans are checked instead of that.
 *
 * usage: programs_driver THREADS */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nabla/compiler.h"
#include "nabla/dtype.h"

enum { ARRAYS = 512 };

/* An allocator that counts requests. */
static size_t requests;

static void *resize(void *self, void *memory, size_t old_size,
                    size_t new_size) {
  const nabla_allocator *allocator = nabla_allocator_default();
  (void)self;
  requests += new_size > 0;
  return allocator->resize(allocator->self, memory, old_size, new_size);
}

static const nabla_allocator counting = {.resize = resize};

typedef struct driver {
  nabla_environment environment;
  nabla_compiler *compiler;
  int is_guarded;
  nabla_executable *executable;
  char messages[65536];
  size_t length;
} driver;

static void keep_message(void *self, const char *text) {
  driver *d = self;
  int more = snprintf(d->messages + d->length, sizeof d->messages - d->length,
                      "%s\n", text);
  if (more > 0) d->length += (size_t)more;
  if (d->length >= sizeof d->messages) d->length = sizeof d->messages - 1;
}

/* The first line of an answer, and what was said. */
static void answer(driver *d, nabla_status status, const nabla_diag *diag,
                   size_t results) {
  char line[1024];
  if (status) {
    nabla_diag_format(diag, line, sizeof line);
    keep_message(d, line);
  } else {
    d->length = 0;
  }
  printf("%s %zu %zu\n", nabla_status_name(status), status ? 0 : results,
         d->length);
  fwrite(d->messages, 1, d->length, stdout);
}

/* `size` bytes of input in memory of their own; they end the process else. */
static void *read_bytes(size_t size) {
  char *bytes = malloc(size + 1);
  if (!bytes || fread(bytes, 1, size, stdin) != size) exit(3);
  return bytes;
}

static void compile(driver *d, const char *policy, const char *numerics,
                    const char *fusion, size_t size) {
  nabla_diag diag = NABLA_DIAG_INIT;
  const nabla_compile_options options = {
      .struct_size = sizeof options,
      .policy = policy,
      .numerics = numerics,
      .no_fusion = strcmp(fusion, "off") ? NULL : "on",
      .plan_guard = d->is_guarded ? "on" : NULL};
  char *text = read_bytes(size);
  nabla_executable_close(d->executable);
  d->executable = NULL;
  d->length = 0;
  const nabla_status status = nabla_compile_text(
      d->compiler, text, size, "program", &options, &d->executable, &diag);
  answer(d, status, &diag, 0);
  free(text);
}

static void read_array(nabla_dense *out) {
  char dtype[16];
  size_t bytes;
  if (scanf("%15s %" SCNu32, dtype, &out->rank) != 2 ||
      out->rank > NABLA_ARRAY_MAX_RANK ||
      nabla_dtype_find(dtype, strlen(dtype), &out->dtype, NULL))
    exit(3);
  for (uint32_t i = 0; i < out->rank; i++)
    if (scanf("%" SCNd64, &out->shape[i]) != 1) exit(3);
  if (scanf("%zu", &bytes) != 1 || getchar() != '\n') exit(3);
  out->data = read_bytes(bytes);
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

static nabla_status run(driver *d, const char *name, const nabla_dense *inputs,
                        size_t count, nabla_dense *outputs, size_t *results,
                        nabla_diag *diag) {
  const nabla_signature *function =
      d->executable ? nabla_executable_find(d->executable, name) : NULL;
  if (!function || function->result_count > ARRAYS)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT, "no function '%s'", name);
  *results = function->result_count;
  return nabla_executable_run(d->executable, name, inputs, count, outputs,
                              *results, diag);
}

static size_t bytes_of(const nabla_dense *array) {
  size_t bytes = nabla_dtype_bits(array->dtype) / 8;
  for (uint32_t i = 0; i < array->rank; i++) bytes *= (size_t)array->shape[i];
  return bytes;
}

/* Runs a function twice more, into arrays like `outputs`. */
static nabla_status run_again(driver *d, const char *name,
                              const nabla_dense *inputs, size_t count,
                              const nabla_dense *outputs, nabla_diag *diag) {
  static nabla_dense again[ARRAYS];
  const nabla_signature *function = nabla_executable_find(d->executable, name);
  nabla_status status = NABLA_OK;
  size_t results = function->result_count, before = 0;
  for (size_t i = 0; i < results; i++) {
    again[i] = outputs[i];
    again[i].data = aligned_alloc(64, (bytes_of(&outputs[i]) / 64 + 1) * 64);
    if (!again[i].data) exit(3);
  }
  for (int number = 2; number <= 3 && !status; number++) {
    before = requests;
    for (size_t i = 0; i < results; i++)
      memset(again[i].data, 0xcc, bytes_of(&again[i]));
    status = run(d, name, inputs, count, again, &results, diag);
    for (size_t i = 0; i < results && !status; i++)
      if (bytes_of(&again[i]) &&
          memcmp(again[i].data, outputs[i].data, bytes_of(&again[i])))
        status = nabla_fail(diag, NABLA_CORRUPT,
                            "run %d gives another result %zu", number, i);
  }
  if (!status && !d->is_guarded && requests - before != 1)
    status = nabla_fail(diag, NABLA_CORRUPT,
                        "the third run allocates %zu times beside its frame",
                        requests - before - 1);
  for (size_t i = 0; i < results; i++) free(again[i].data);
  return status;
}

static void call(driver *d, const char *name, size_t count) {
  static nabla_dense inputs[ARRAYS], outputs[ARRAYS];
  nabla_diag diag = NABLA_DIAG_INIT;
  size_t results = 0;
  if (count > ARRAYS) exit(3);
  for (size_t i = 0; i < count; i++) read_array(&inputs[i]);
  memset(outputs, 0, sizeof outputs);
  d->length = 0;
  nabla_status status = run(d, name, inputs, count, outputs, &results, &diag);
  if (!status) status = run_again(d, name, inputs, count, outputs, &diag);
  answer(d, status, &diag, results);
  for (size_t i = 0; i < results; i++) {
    if (!status) write_array(&outputs[i]);
    nabla_dense_release(d->executable, &outputs[i]);
  }
  for (size_t i = 0; i < count; i++) free(inputs[i].data);
}

int main(int count, char **arguments) {
  static driver d;
  char line[256], first[64], second[64], fusion[8];
  size_t size;
  nabla_diag diag = NABLA_DIAG_INIT;
  const uint32_t threads =
      count > 1 ? (uint32_t)strtoul(arguments[1], NULL, 10) : 1;
  const nabla_compiler_options options = {.struct_size = sizeof options,
                                          .cache = "",
                                          .diagnostic = keep_message,
                                          .diagnostic_self = &d};
  const char *guard = getenv("NABLA_PLAN_GUARD");
  d.is_guarded = guard && !strcmp(guard, "1");
  d.environment.allocator = &counting;
  if (nabla_pool_create(threads, NULL, &d.environment.pool, &diag) ||
      nabla_compiler_create(&options, &d.environment, &d.compiler, &diag))
    return 2;
  while (fgets(line, sizeof line, stdin)) {
    if (sscanf(line, "compile %63s %63s %7s %zu", first, second, fusion,
               &size) == 4)
      compile(&d, first, second, fusion, size);
    else if (sscanf(line, "call %63s %zu", first, &size) == 2)
      call(&d, first, size);
    else
      return 3;
    fflush(stdout);
  }
  nabla_executable_close(d.executable);
  nabla_compiler_destroy(d.compiler);
  nabla_pool_destroy(d.environment.pool);
  return 0;
}
