/* A program of an engine's: compiled functions behind their header, as C17 and
 * as C++17. data.h has a weight, and what nabla-run computes with it. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data.h"
#include "dense.h"
#include "linear.h"

enum { N = 37, K = 192, MOST = 37 };

static int failures;

static void check(int holds, const char *what) {
  if (!holds) printf("FAILED: %s\n", what);
  failures += !holds;
}

/* Two threads, cut at a multiple of the grain. */
typedef struct part {
  nabla_object_kernel kernel;
  const uint64_t *arguments;
  uint64_t begin, end;
} part;

static void *run_part(void *self) {
  const part *p = (const part *)self;
  p->kernel(p->arguments, p->begin, p->end);
  return NULL;
}

static int regions;

static void parallel(void *self, nabla_object_kernel kernel,
                     const uint64_t *arguments, uint64_t count,
                     uint64_t grain) {
  pthread_t thread;
  const uint64_t half = count / grain / 2 * grain;
  part first, second;
  (void)self;
  first.kernel = second.kernel = kernel;
  first.arguments = second.arguments = arguments;
  first.begin = 0, first.end = second.begin = half, second.end = count;
  regions++;
  if (pthread_create(&thread, NULL, run_part, &first)) abort();
  run_part(&second);
  pthread_join(thread, NULL);
}

static float x[MOST * K], bias[N];
static float room[MOST * N + 32];

static void fill(void) {
  for (int i = 0; i < MOST * K; i++) x[i] = (float)(i * 7 % 64 - 32) / 16;
  for (int i = 0; i < N; i++) bias[i] = (float)(i - 18) / 4;
}

/* `shift`: results that are aligned to a line are computed in place. */
static void check_linear(int rows, const unsigned *wanted, size_t shift) {
  nabla_object_pool pool;
  const float *weights = (const float *)(const void *)scales;
  float *y = room;
  const size_t bytes = (size_t)rows * N * sizeof *y;
  while ((uintptr_t)y % 64) y++;
  y += shift;
  pool.self = NULL;
  pool.parallel = parallel;
  memset(y, 0xff, bytes);
  check(!linear_linear(x, rows, codes, weights, bias, y, rows, NULL), "status");
  check(!memcmp(y, wanted, bytes), "what nabla-run computes");
  memset(y, 0xff, bytes);
  check(!linear_linear(x, rows, codes, weights, bias, y, rows, &pool),
        "status with a pool");
  check(!memcmp(y, wanted, bytes), "the same with a pool");
  memset(y, 0xff, bytes);
  for (int begin = 0, end; begin < N; begin = end) {
    end = begin + 5 < N ? begin + 5 : N;
    check(
        !linear_linear_rows(x, rows, codes, weights, bias, y, rows, begin, end),
        "status of rows");
    if (end < N) {
      unsigned next;
      memcpy(&next, y + end, sizeof next);
      check(next == 0xffffffffu, "other rows stay as they are");
    }
  }
  check(!memcmp(y, wanted, bytes), "the same by rows");
}

static void check_refusals(void) {
  const float *weights = (const float *)(const void *)scales;
  float *y = room;
  check(linear_linear(x, 1, codes, weights, bias, y, 2, NULL) ==
            NABLA_OBJECT_SHAPE,
        "results of another size");
  check(linear_linear(NULL, 1, codes, weights, bias, y, 1, NULL) ==
            NABLA_OBJECT_ARGUMENT,
        "no x");
  check(linear_linear(x, -1, codes, weights, bias, y, 1, NULL) ==
            NABLA_OBJECT_ARGUMENT,
        "a negative size");
  check(linear_linear(x, INT64_MAX, codes, weights, bias, y, 1, NULL) ==
            NABLA_OBJECT_ARGUMENT,
        "a size that overflows");
  check(
      linear_linear((const float *)(const void *)((const char *)x + 1), 1,
                    codes, weights, bias, y, 1, NULL) == NABLA_OBJECT_ARGUMENT,
      "x that is not aligned");
  check(!linear_linear(NULL, 0, codes, weights, bias, NULL, 0, NULL),
        "no rows");
  check(linear_linear_rows(x, 1, codes, weights, bias, y, 1, 5, 4) ==
                NABLA_OBJECT_ARGUMENT &&
            linear_linear_rows(x, 1, codes, weights, bias, y, 1, -1, 4) ==
                NABLA_OBJECT_ARGUMENT &&
            linear_linear_rows(x, 1, codes, weights, bias, y, 1, 0, 38) ==
                NABLA_OBJECT_ARGUMENT,
        "ranges that cannot be");
  check(!linear_linear_rows(x, 1, codes, weights, bias, y, 1, 4, 4),
        "an empty range");
}

/* Rows of the table are needed whole for any rows of the weight. */
static void check_looked(void) {
  static float whole[3 * N], parts[3 * N];
  const float *weights = (const float *)(const void *)scales;
  const int64_t rows[3] = {36, 0, 7};
  nabla_object_pool pool;
  pool.self = NULL;
  pool.parallel = parallel;
  check(
      !linear_looked(rows, 3, codes, weights, codes, weights, whole, 3, &pool),
      "rows by number, multiplied");
  for (int begin = 0; begin < N; begin += 5)
    check(!linear_looked_rows(rows, 3, codes, weights, codes, weights, parts, 3,
                              begin, begin + 5 < N ? begin + 5 : N),
          "the same by rows of the weight");
  check(!memcmp(whole, parts, sizeof whole) && parts[0] != 0, "equal");
  for (int i = 0; i < 3; i++) {
    float sum = 0;
    for (int k = 0; k < N; k++) sum += whole[i * N + k] * whole[i * N + k];
    check(sum > 0 && whole[i * N + rows[i]] > 0, "a row with itself");
  }
}

static void check_several(void) {
  float a[24], sums[3], transposed[24], s[24];
  int32_t i[4] = {7, 7, 7, 7}, q[4];
  for (int k = 0; k < 24; k++) a[k] = (float)k;
  check(!linear_several(a, 3, a, 3, i, s, 3, sums, 3, transposed, 3, q, NULL),
        "several results");
  for (int k = 0; k < 24; k++)
    check(s[k] == 2 * a[k] && transposed[k % 8 * 3 + k / 8] == s[k],
          "the sum and its transpose");
  check(sums[0] == 56 && sums[1] == 184 && sums[2] == 312, "sums");
  check(q[0] == 1 && q[3] == 1, "a quotient");
  check(linear_several(a, 3, a, 2, i, s, 3, sums, 3, transposed, 3, q, NULL) ==
            NABLA_OBJECT_SHAPE,
        "arguments that do not fit together");
  i[2] = 0;
  check(linear_several(a, 3, a, 3, i, s, 3, sums, 3, transposed, 3, q, NULL) ==
            NABLA_OBJECT_DIVISION,
        "a division by zero");
}

int main(void) {
  const float four[4] = {0, 1, -1, 1000};
  float y[4] = {0, 0, 0, 0};
  fill();
  for (size_t shift = 0; shift < 2; shift++) {
    check_linear(1, y1, shift);
    check_linear(3, y3, shift);
    check_linear(37, y37, shift);
  }
  check(regions > 0, "the pool was used");
  check_refusals();
  check_looked();
  check_several();
  check(!linear_main(four, y, NULL) && !memcmp(y, four, sizeof y),
        "an argument that is a result");
  check(!linear_nothing(NULL), "a function of nothing");
  check(!dense_f(four, 1, y, 1, NULL) && y[0] == 0 && y[3] == 1000,
        "the other object");
  return failures != 0;
}
