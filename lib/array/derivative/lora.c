/* nabla_lora_init, _merge and _unmerge: adapters beside a weight. */
#include <inttypes.h>
#include <math.h>

#include "lib/array/make.h"
#include "nabla/derivative.h"

/* Whether w is a matrix of floats; false after a failure. */
static bool check_weight(const nabla_making *m, const nabla_array *w) {
  if (!m->scope) return false;
  if (w->dense.rank == 2 && nabla_dtype_is_float(nabla_make_dtype(w)))
    return true;
  (void)NABLA_MAKE_FAIL(m, "a weight of rank 2, of floats, has adapters");
  return false;
}

void nabla_lora_init(nabla_array *w, nabla_array *seed, int64_t rank,
                     nabla_array **out_a, nabla_array **out_b) {
  NABLA_MAKE(m, lora_init, w, seed);
  *out_a = *out_b = NULL;
  if (!check_weight(m, w)) return;
  const int64_t rows = w->dense.shape[0], columns = w->dense.shape[1];
  if (rows < 1 || columns < 1 || rank < 1 || rank > rows || rank > columns) {
    (void)NABLA_MAKE_FAIL(m,
                          "a rank of %" PRId64
                          ": it is 1 to the smaller size, which must be known",
                          rank);
    return;
  }
  const nabla_dtype dtype = nabla_make_dtype(w);
  const int64_t a_shape[2] = {rank, columns}, b_shape[2] = {rows, rank};
  nabla_array *a = nabla_mul(nabla_normal(seed, dtype, 2, a_shape),
                             nabla_scalar(m->scope, 1 / sqrt((double)columns)));
  nabla_array *b = nabla_zeros(m->scope, dtype, 2, b_shape);
  if (!a || !b) return;
  *out_a = a;
  *out_b = b;
}

/* w + scale b a. */
static nabla_array *merge(const nabla_making *m, nabla_array *w, nabla_array *a,
                          nabla_array *b, double scale) {
  if (!check_weight(m, w)) return NULL;
  const int64_t *n = w->dense.shape, *p = a->dense.shape, *q = b->dense.shape;
  if (a->dense.rank != 2 || b->dense.rank != 2 || p[0] != q[1] ||
      p[1] != n[1] || q[0] != n[0])
    return NABLA_MAKE_FAIL(m,
                           "w of N x K has factors a of R x K and b of N x R");
  return nabla_add(
      nabla_make_dense(m, w),
      nabla_mul(nabla_matmul(b, a), nabla_scalar(m->scope, scale)));
}

nabla_array *nabla_lora_merge(nabla_array *w, nabla_array *a, nabla_array *b,
                              double scale) {
  NABLA_MAKE(m, lora_merge, w, a, b);
  return merge(m, w, a, b, scale);
}

nabla_array *nabla_lora_unmerge(nabla_array *w, nabla_array *a, nabla_array *b,
                                double scale) {
  NABLA_MAKE(m, lora_unmerge, w, a, b);
  return merge(m, w, a, b, -scale);
}
