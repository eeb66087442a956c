/* bench/llama2c/added.h: products by plans in place of a loop over w. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench/llama2c/added.h"

enum { MOST = 200 * 384 };

static float w[3][MOST], x[384], y[200];

static void expect_product(const float *weight, int n, int d, double bound) {
  multiply(y, x, weight, n, d);
  for (int i = 0; i < d; i++) {
    double sum = 0, size = 1e-30;
    for (int j = 0; j < n; j++) {
      const double term = (double)weight[i * n + j] * (double)x[j];
      sum += term;
      size += fabs(term);
    }
    cr_assert_leq(fabs((double)y[i] - sum), bound * size,
                  "%d of %d x %d: %g, %g", i, d, n, (double)y[i], sum);
  }
}

static void fill(void) {
  unsigned state = 1;
  for (int k = 0; k < 3; k++)
    for (int i = 0; i < MOST; i++) {
      state = state * 1664525u + 1013904223u;
      w[k][i] = (float)(state >> 8) / 8388608.f - 1;
    }
  for (int i = 0; i < 384; i++) x[i] = (float)(i % 13 - 6) / 4;
}

Test(llama2c, dense_products_equal_loops) {
  fill();
  /* in the order of a token, twice, then in another */
  for (int token = 0; token < 2; token++) {
    expect_product(w[0], 64, 200, 1e-6);
    expect_product(w[1], 172, 64, 1e-6);
    expect_product(w[2], 384, 3, 1e-6);
  }
  expect_product(w[2], 384, 3, 1e-6);
  expect_product(w[0], 64, 200, 1e-6);
  cr_expect_eq(added.count, 3);
}

Test(llama2c, threads_give_the_same_bytes) {
  static float one[200];
  fill();
  multiply(one, x, w[0], 384, 200);
  /* the plan is made again, with a pool of three */
  nabla_matmul_plan_destroy(added.plans[0].plan);
  nabla_pool_destroy(added.pool);
  added.count = 0;
  added.pool = NULL;
  added.threads = 3;
  multiply(y, x, w[0], 384, 200);
  for (int i = 0; i < 200; i++) cr_assert_eq(one[i], y[i]);
}

/* Values that nf4 holds exactly: -s, 0 and s. */
Test(llama2c, packed_products_are_of_the_packed_values) {
  fill();
  for (int i = 0; i < 128; i++)
    for (int j = 0; j < 384; j++)
      w[0][i * 384 + j] = (float)(((i + j) % 3 - 1) * (i + 1));
  added.encoding = "nf4";
  expect_product(w[0], 384, 128, 1e-6);
  expect_product(w[0], 384, 128, 1e-6);
  /* and others roughly */
  expect_product(w[1], 384, 200, .2);
}

Test(llama2c, an_encoding_that_does_not_exist_ends_the_process,
     .exit_code = EXIT_FAILURE) {
  fill();
  added.encoding = "nf5";
  multiply(y, x, w[0], 64, 200);
}

Test(llama2c, a_program_that_is_not_there_ends_the_process,
     .exit_code = EXIT_FAILURE) {
  added.program = "/nonexistent/program.so";
  added.model = "/nonexistent";
  (void)run_program(1, 0, 512);
}
