/* Arrays on meshes for tests of nabla/shard.h: 6 x 8 and 8 x 4 of small
 * integers, whose sums are exact in any order, and their product. */
#ifndef NABLA_TESTS_SUPPORT_MESH_ARRAYS_H
#define NABLA_TESTS_SUPPORT_MESH_ARRAYS_H

#include <criterion/criterion.h>
#include <string.h>

#include "nabla/shard.h"
#include "tests/support/array_scope.h"

static inline nabla_mesh *make(const char *axes) {
  nabla_mesh *mesh = NULL;
  cr_assert_eq(nabla_mesh_create(axes, NULL, &mesh, &diag), NABLA_OK, "%s",
               diag.what);
  return mesh;
}

enum { M = 6, K = 8, N = 4 };
static float x[M * K], w[K * N], y[M * N];

static inline nabla_array *array(float *data, int64_t rows, int64_t columns) {
  const nabla_dense dense = {data, NABLA_DTYPE_F32, 2, {rows, columns}};
  return nabla_array_of(scope, &dense);
}

/* Small integers: sums are exact in any order. */
static inline void fill(void) {
  for (int i = 0; i < M * K; i++) x[i] = (float)(i * i % 13 - 6);
  for (int i = 0; i < K * N; i++) w[i] = (float)(i * 7 % 11 - 5);
  for (int i = 0; i < M; i++)
    for (int j = 0; j < N; j++) {
      y[i * N + j] = 0;
      for (int k = 0; k < K; k++) y[i * N + j] += x[i * K + k] * w[k * N + j];
    }
}

static inline void expect(nabla_array *array, size_t count, const float *want) {
  nabla_dense out = {0};
  diag = (nabla_diag)NABLA_DIAG_INIT;
  cr_assert_eq(nabla_array_read(array, &out, &diag), NABLA_OK, "%s", diag.what);
  size_t elements = 1;
  for (uint32_t i = 0; i < out.rank; i++) elements *= (size_t)out.shape[i];
  cr_assert_eq(elements, count);
  for (size_t i = 0; i < count; i++)
    cr_expect_eq(((const float *)out.data)[i], want[i], "[%zu]: %g, not %g", i,
                 (double)((const float *)out.data)[i], (double)want[i]);
}

/* The failure of the scope, which is replaced by a new one. */
static inline void expect_failure(nabla_array *array, nabla_status status,
                                  const char *why) {
  nabla_dense out;
  diag = (nabla_diag)NABLA_DIAG_INIT;
  if (array) (void)!nabla_array_read(array, &out, &diag);
  cr_expect_eq(nabla_scope_status(scope, &diag), status, "%s", diag.what);
  cr_expect(strstr(diag.what, why), "'%s', not '%s'", diag.what, why);
  nabla_scope_end(scope);
  cr_assert_eq(nabla_scope_create(engine, &scope, &diag), NABLA_OK);
}

#endif
