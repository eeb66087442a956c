/* A tour of lazy arrays (nabla/array.h): docs/ARRAYS.md shows what it prints.
 *
 *   cc main.c $(pkg-config --cflags --libs nabla) -o arrays && ./arrays */
#include <inttypes.h>
#include <nabla/array.h>
#include <nabla/encoding.h>
#include <stdio.h>
#include <stdlib.h>

static nabla_diag diag;

/* Ends the program with the first failure; arrays go with their scope. */
static void check(nabla_status status) {
  char text[1024];
  if (!status) return;
  nabla_diag_format(&diag, text, sizeof text);
  fprintf(stderr, "%s\n", text);
  exit(1);
}

static const float *values_of(nabla_array *array) {
  nabla_dense value;
  check(nabla_array_read(array, &value, &diag));
  return value.data;
}

static void print(const char *name, nabla_array *array) {
  const float *values = values_of(array);
  const nabla_dense *type = nabla_array_dense(array);
  int64_t count = 1;
  for (uint32_t i = 0; i < type->rank; i++) count *= type->shape[i];
  printf("%-22s", name);
  for (int64_t i = 0; i < count; i++) printf(" %g", (double)values[i]);
  printf("\n");
}

/* Operations are recorded, and compiled together when a value is read. */
static void compute(nabla_scope *scope) {
  const float data[6] = {1, 2, 3, 4, 5, 6};
  const nabla_dense matrix = {
      (void *)(uintptr_t)data, NABLA_DTYPE_F32, 2, {2, 3}};
  nabla_array *x = nabla_array_of(scope, &matrix);
  nabla_array *mean = nabla_mean(x, NABLA_DIMS(-1), 1); /* 2 x 1 */
  print("x - mean", nabla_sub(x, mean));
  print("x > 2, counted",
        nabla_convert(nabla_sum(nabla_greater(x, nabla_scalar(scope, 2)),
                                NABLA_ALL_DIMS, 0),
                      NABLA_DTYPE_F32));
  print("x x^T", nabla_matmul(x, nabla_transpose(x, 0, NULL)));
  print("columns 2, 0",
        nabla_take(x, nabla_arange(scope, NABLA_DTYPE_I32, 2, -1, -2), 1));
}

/* Least squares by gradient descent. Each step has a scope of its own, whose
 * arrays end with it; the graph is compiled once, also for another rate. */
static void train(nabla_engine *engine, nabla_scope *scope) {
  nabla_array *seed = nabla_integer(scope, 42);
  nabla_array *x =
      nabla_normal(seed, NABLA_DTYPE_F32, 2, (const int64_t[]){64, 3});
  const float truth[3] = {1, -2, 0.5f};
  const nabla_dense column = {
      (void *)(uintptr_t)truth, NABLA_DTYPE_F32, 2, {3, 1}};
  nabla_array *y = nabla_matmul(x, nabla_array_of(scope, &column));
  nabla_array *w =
      nabla_zeros(scope, NABLA_DTYPE_F32, 2, (const int64_t[]){3, 1});
  nabla_array *start[3] = {x, y, w};
  check(nabla_realize(scope, 3, start, &diag));
  for (int i = 0; i < 200; i++) {
    nabla_scope *step;
    check(nabla_scope_create(engine, &step, &diag));
    nabla_array *error = nabla_sub(nabla_matmul(x, w), y);
    nabla_array *gradient = nabla_matmul(nabla_transpose(x, 0, NULL), error);
    nabla_array *rate = nabla_scalar(step, (i < 100 ? 0.5 : 0.1) / 64);
    nabla_array *next = nabla_sub(w, nabla_mul(rate, gradient));
    check(nabla_realize(step, 1, &next, &diag));
    nabla_keep(next, scope);
    nabla_scope_end(step);
    nabla_release(w);
    w = next;
  }
  print("w after 200 steps",
        nabla_div(nabla_round(nabla_mul(w, nabla_scalar(scope, 1000))),
                  nabla_scalar(scope, 1000)));
}

/* A packed weight is an array like any other; the product decodes it while it
 * computes. */
static void multiply_packed(nabla_scope *scope) {
  const nabla_storage nf4 = {
      .kind = NABLA_STORAGE_PLANES,
      .format = {.encoding = nabla_encoding_find("nf4"), .block = 64}};
  nabla_array *seed = nabla_integer(scope, 7);
  const int64_t shape[2] = {256, 512};
  nabla_array *w = nabla_normal(seed, NABLA_DTYPE_F32, 2, shape);
  nabla_array *packed = nabla_quantize(w, &nf4);
  nabla_weight_desc weight;
  check(nabla_array_weight(packed, &weight, &diag));
  printf("%-22s %" PRIu64 " + %" PRIu64 " bytes\n", "w as nf4",
         weight.components[0].bytes, weight.components[1].bytes);
  nabla_array *x =
      nabla_uniform(seed, NABLA_DTYPE_F32, 2, (const int64_t[]){1, 512});
  nabla_array *exact = nabla_linear(x, w, nabla_none());
  nabla_array *rounded = nabla_linear(x, packed, nabla_none());
  const float *error = values_of(nabla_div(
      nabla_mse(rounded, exact), nabla_mse(exact, nabla_zeros_like(exact))));
  printf("%-22s %.1f %%\n", "squared error of nf4", 100 * (double)*error);
}

int main(void) {
  nabla_engine *engine;
  nabla_scope *scope;
  nabla_engine_statistics counts = {.struct_size = sizeof counts};
  check(nabla_engine_create(NULL, NULL, &engine, &diag));
  check(nabla_scope_create(engine, &scope, &diag));
  compute(scope);
  train(engine, scope);
  multiply_packed(scope);
  check(nabla_engine_count(engine, &counts, &diag));
  printf("%-22s %" PRIu64 " compiled, %" PRIu64 " found\n", "programs",
         counts.misses, counts.hits);
  nabla_scope_end(scope);
  nabla_engine_destroy(engine);
  return 0;
}
