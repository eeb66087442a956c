/* Parts of which the public operations are made: each records operations under
 * the name of a public call. They take NULL arrays, and return NULL for them
 * and after a failure of the scope. */
#ifndef NABLA_ARRAY_MAKE_H
#define NABLA_ARRAY_MAKE_H

#include "lib/array/dtypes.h"
#include "lib/array/packed.h"
#include "lib/array/record.h"

/* A public call that records. */
typedef struct nabla_making {
  const nabla_array_call *site;
  nabla_scope *scope; /* NULL after a failure */
} nabla_making;

/* Declares `m`, the making of nabla_<function>, whose arrays follow. */
#define NABLA_MAKE(m, function, ...)                                     \
  nabla_array *const m##_arrays[] = {__VA_ARGS__};                       \
  NABLA_MAKE_LIST(m, function, sizeof m##_arrays / sizeof m##_arrays[0], \
                  m##_arrays)
/* The same of an array of arrays. */
#define NABLA_MAKE_LIST(m, function, count, arrays)                         \
  const nabla_array_call m##_site =                                         \
      NABLA_ARRAY_CALL(function, (count), (arrays));                        \
  const nabla_making m##_making = {&m##_site, nabla_call_begin(&m##_site)}; \
  const nabla_making *const m = &m##_making

/* The same of a function that takes no arrays, but the scope. */
#define NABLA_MAKE_IN(m, function, in)                                       \
  const nabla_array_call m##_site = NABLA_ARRAY_CALL(function, 0, NULL);     \
  const nabla_making m##_making = {&m##_site, nabla_call_in(&m##_site, in)}; \
  const nabla_making *const m = &m##_making

/* Enters a failure of the call, if it has a scope; gives NULL. */
#define NABLA_MAKE_FAIL(m, ...)                                   \
  (nabla_call_fail((m)->site, (m)->scope, NABLA_INVALID_ARGUMENT, \
                   __VA_ARGS__),                                  \
   (nabla_array *)NULL)

/* ---- attributes ---- */

nabla_recorded_attribute nabla_make_list(const char *key, uint32_t count,
                                         const int64_t *values);
/* `value` lives as long as the attribute, here and below. */
nabla_recorded_attribute nabla_make_i64(const char *key, const int64_t *value);
nabla_recorded_attribute nabla_make_i32(const char *key, const int64_t *value);
nabla_recorded_attribute nabla_make_f64(const char *key, double value);
nabla_recorded_attribute nabla_make_unit(const char *key);

/* ---- checks; false after a failure ---- */

/* Whether a size is one that a trace does not know. */
static inline bool nabla_is_unknown(int64_t size) { return size < -1; }
/* Elements of an array: -1 if a size is unknown. */
int64_t nabla_make_elements_of(const nabla_array *x);

/* `dim`, counted from the end if it is negative, of an array of rank `rank`. */
bool nabla_make_dim(const nabla_making *m, int64_t dim, uint32_t rank,
                    int64_t *out);
/* `count` different dimensions; `all` and a count of 0: all of them. */
bool nabla_make_dims(const nabla_making *m, uint32_t count, const int64_t *dims,
                     uint32_t rank, bool all, int64_t *out,
                     uint32_t *out_count);
/* A list with an entry for each dimension. */
bool nabla_make_count(const nabla_making *m, const char *list, uint32_t count,
                      uint32_t rank);
/* A type of a known dtype and sizes; within a trace sizes may be unknown ones,
 * as arrays have them (lib/array/trace.h). */
bool nabla_make_type(const nabla_making *m, nabla_dtype dtype, uint32_t count,
                     const int64_t *shape, nabla_array_type *out);

/* ---- dtypes and shapes ---- */

/* The dtype of the values. */
static inline nabla_dtype nabla_make_dtype(const nabla_array *x) {
  return nabla_dtype_element(x->dense.dtype);
}
/* The dense array of a packed one; any other array itself. */
nabla_array *nabla_make_dense(const nabla_making *m, nabla_array *x);

nabla_dtype nabla_make_promote(uint32_t count, nabla_array *const *arrays,
                               nabla_dtype_rule rule);
nabla_array *nabla_make_convert(const nabla_making *m, nabla_array *x,
                                nabla_dtype dtype);
/* x as an operation with `rule` takes it alone. */
nabla_array *nabla_make_settle(const nabla_making *m, nabla_array *x,
                               nabla_dtype_rule rule);
nabla_array *nabla_make_broadcast(const nabla_making *m, nabla_array *x,
                                  const nabla_array_type *shape);
/* Dimension i of x becomes dimension dims[i]. */
nabla_array *nabla_make_spread(const nabla_making *m, nabla_array *x,
                               const int64_t *dims,
                               const nabla_array_type *shape);
/* x itself if it has that shape. */
nabla_array *nabla_make_reshape(const nabla_making *m, nabla_array *x,
                                const nabla_array_type *shape);
nabla_array *nabla_make_transpose(const nabla_making *m, nabla_array *x,
                                  const int64_t *permutation);
nabla_array *nabla_make_squeeze(const nabla_making *m, nabla_array *x,
                                uint32_t dim);
nabla_array *nabla_make_unsqueeze(const nabla_making *m, nabla_array *x,
                                  uint32_t dim);

/* ---- operations ---- */

/* An operation of `count` operands, none of which is NULL; `result` NULL:
 * inferred. */
nabla_array *nabla_make_op(const nabla_making *m, const char *op,
                           uint32_t count, nabla_array *const *operands,
                           uint32_t attribute_count,
                           const nabla_recorded_attribute *attributes,
                           const nabla_array_type *result);
/* Element by element: operands are converted and broadcast. `attribute` may be
 * NULL. */
nabla_array *nabla_make_elements(const nabla_making *m, nabla_dtype_rule rule,
                                 const char *op, uint32_t count,
                                 nabla_array *const *operands,
                                 const nabla_recorded_attribute *attribute);
nabla_array *nabla_make_unary(const nabla_making *m, const char *op,
                              nabla_array *x);
nabla_array *nabla_make_binary(const nabla_making *m, const char *op,
                               nabla_array *x, nabla_array *y);
/* `kind`: a number of Nabla_CompareKind. */
nabla_array *nabla_make_compare(const nabla_making *m, int64_t kind,
                                nabla_array *x, nabla_array *y);
nabla_array *nabla_make_select(const nabla_making *m, nabla_array *condition,
                               nabla_array *x, nabla_array *y);
/* `kind`: a number of Nabla_ReduceKind; `dims` as nabla_make_dims takes them.
 */
#define NABLA_REDUCE_SUM  0
#define NABLA_REDUCE_MAX  1
#define NABLA_REDUCE_MIN  3
#define NABLA_REDUCE_MEAN 4
nabla_array *nabla_make_reduce(const nabla_making *m, int64_t kind,
                               nabla_array *x, uint32_t count,
                               const int64_t *dims, int keep_dims);
/* softmax, argmax and their kin: an operation along one dimension. */
nabla_array *nabla_make_along(const nabla_making *m, const char *op,
                              nabla_dtype_rule rule, nabla_array *x,
                              int64_t dim, int keep_dims);
nabla_array *nabla_make_full(const nabla_making *m, double value,
                             const nabla_array_type *type);
nabla_array *nabla_make_iota(const nabla_making *m, int64_t dim,
                             const nabla_array_type *type);

#endif
