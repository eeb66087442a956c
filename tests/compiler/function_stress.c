/* A traced function called from several threads, which make and free its
 * signatures, release arrays of one another, count and print. A plain program:
 * Criterion cannot start under ThreadSanitizer. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "nabla/function.h"

enum { THREADS = 4, ROUNDS = 40, SIZES = 3 };

static nabla_engine *engine;
static nabla_function *function;
static atomic_int failures;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static nabla_array *handed; /* by one thread to the next, under `lock` */

static void fail(const char *what, const nabla_diag *diag) {
  fprintf(stderr, "%s: %s\n", what, diag->what);
  atomic_fetch_add(&failures, 1);
}

static void formula(nabla_scope *scope, const nabla_tree *in, nabla_tree *out,
                    void *self) {
  nabla_array *captured = self;
  nabla_array *x = nabla_mul(in->items[0].array, nabla_scalar(scope, 2));
  out->array = nabla_add(x, captured);
}

/* Takes what another thread has left, and leaves `array`. */
static nabla_array *swap(nabla_array *array) {
  pthread_mutex_lock(&lock);
  nabla_array *other = handed;
  handed = array;
  pthread_mutex_unlock(&lock);
  return other;
}

static nabla_status ignore(void *self, const void *data, size_t size,
                           nabla_diag *diag) {
  (void)data, (void)diag;
  *(size_t *)self += size;
  return NABLA_OK;
}

static void round_of(nabla_scope *scope, int round) {
  nabla_diag diag = NABLA_DIAG_INIT;
  float values[SIZES];
  const int64_t size = 1 + round % SIZES;
  for (int i = 0; i < SIZES; i++) values[i] = (float)(round + i);
  const nabla_dense dense = {values, NABLA_DTYPE_F32, 1, {size}};
  nabla_tree item = nabla_tree_of_array(nabla_array_of(scope, &dense));
  const nabla_tree in = nabla_tree_of_list(1, &item);
  nabla_tree out = nabla_tree_of_array(NULL);
  nabla_dense value;
  if (nabla_function_call(function, &in, &out, &diag) ||
      nabla_array_read(out.array, &value, &diag)) {
    fail("call", &diag);
    return;
  }
  if (((const float *)value.data)[size - 1] !=
      2 * (float)(round + (int)size - 1) + 1)
    fail("a wrong value", &diag);
  nabla_array *other = swap(nabla_retain(out.array));
  if (!other) return;
  nabla_dense theirs;
  if (nabla_array_read(nabla_neg(other), &theirs, &diag)) fail("read", &diag);
  nabla_release(other);
}

static void *work(void *self) {
  (void)self;
  nabla_diag diag = NABLA_DIAG_INIT;
  nabla_scope *scope;
  if (nabla_scope_create(engine, &scope, &diag)) {
    fail("scope", &diag);
    return NULL;
  }
  for (int i = 0; i < ROUNDS; i++) {
    nabla_scope *step;
    nabla_function_statistics counts = {.struct_size = sizeof counts};
    size_t bytes = 0;
    const nabla_sink sink = {ignore, &bytes};
    if (nabla_scope_create(engine, &step, &diag)) {
      fail("scope", &diag);
      break;
    }
    round_of(step, i);
    nabla_scope_end(step);
    if (nabla_function_count(function, &counts, &diag)) fail("count", &diag);
    if (i % 10 == 0 && nabla_function_print(function, &sink, &diag))
      fail("print", &diag);
  }
  nabla_scope_end(scope);
  return NULL;
}

static nabla_status run(nabla_scope *scope, nabla_diag *diag) {
  pthread_t threads[THREADS];
  const nabla_function_options options = {.struct_size = sizeof options,
                                          .name = "formula",
                                          .self = nabla_scalar(scope, 1),
                                          .max_signatures = SIZES - 1,
                                          .max_traces = UINT64_MAX};
  int started = 0;
  nabla_status status =
      nabla_function_create(engine, formula, &options, &function, diag);
  while (!status && started < THREADS &&
         !pthread_create(&threads[started], NULL, work, NULL))
    started++;
  for (int i = 0; i < started; i++) pthread_join(threads[i], NULL);
  nabla_release(swap(NULL));
  nabla_function_destroy(function);
  return status;
}

int main(void) {
  nabla_diag diag = NABLA_DIAG_INIT;
  nabla_scope *scope;
  const nabla_compiler_options compiler = {.struct_size = sizeof compiler,
                                           .cache = ""};
  const nabla_engine_options options = {
      .struct_size = sizeof options, .max_programs = 4, .compiler = &compiler};
  nabla_status status = nabla_engine_create(&options, NULL, &engine, &diag);
  if (!status) status = nabla_scope_create(engine, &scope, &diag);
  if (!status) {
    status = run(scope, &diag);
    nabla_scope_end(scope);
  }
  nabla_engine_destroy(engine);
  if (status) fprintf(stderr, "%s\n", diag.what);
  return status || failures;
}
