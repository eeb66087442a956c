/* The functions of operations.def whose bodies are made from its rows. */
#include <inttypes.h>
#include <string.h>

#include "lib/array/make.h"

/* No element is the largest or smallest of none: as NumPy and JAX say. */
static bool has_elements(const nabla_making *m, int64_t kind,
                         const nabla_array *x, uint32_t count,
                         const int64_t *dims) {
  int64_t list[NABLA_ARRAY_MAX_RANK];
  uint32_t used = 0;
  if (kind != NABLA_REDUCE_MAX && kind != NABLA_REDUCE_MIN) return true;
  if (!nabla_make_dims(m, count, dims, x->dense.rank, true, list, &used))
    return false;
  for (uint32_t i = 0; i < used; i++)
    if (!x->dense.shape[list[i]]) {
      (void)NABLA_MAKE_FAIL(m,
                            "dimension %" PRId64
                            " has no elements, of which "
                            "one could be the largest or smallest",
                            list[i]);
      return false;
    }
  return true;
}

static nabla_array *reduce(const nabla_making *m, int64_t kind,
                           nabla_dtype_rule rule, nabla_array *x,
                           uint32_t count, const int64_t *dims, int keep_dims) {
  if (m->scope && !has_elements(m, kind, x, count, dims)) return NULL;
  nabla_array *operand = m->scope ? nabla_make_settle(m, x, rule) : NULL;
  return nabla_make_reduce(m, kind, operand, count, dims, keep_dims);
}

static nabla_array *fill(const nabla_making *m, nabla_dtype dtype,
                         uint32_t count, const int64_t *shape, double value) {
  nabla_array_type type;
  if (!m->scope || !nabla_make_type(m, dtype, count, shape, &type)) return NULL;
  return nabla_make_full(m, value, &type);
}

static nabla_array *fill_like(const nabla_making *m, const nabla_array *x,
                              double value) {
  if (!m->scope) return NULL;
  nabla_array_type type = x->dense;
  type.dtype = nabla_dtype_settle(
      (nabla_operand_dtype){nabla_make_dtype(x), x->is_weak});
  return nabla_make_full(m, value, &type);
}

static nabla_array *draw(const nabla_making *m, const char *op,
                         nabla_array *seed, nabla_dtype dtype, uint32_t count,
                         const int64_t *shape) {
  nabla_array_type type;
  if (!m->scope || !nabla_make_type(m, dtype, count, shape, &type)) return NULL;
  nabla_array *key = nabla_make_convert(m, seed, NABLA_DTYPE_I64);
  return nabla_make_op(m, op, 1, &key, 0, NULL, &type);
}

/* Converts the arrays of a call to one dtype, and joins them. */
static nabla_array *join(const nabla_making *m, const char *op, uint32_t count,
                         nabla_array *const *arrays, int64_t dim) {
  nabla_array *list[NABLA_MAX_RECORDED];
  int64_t at;
  if (!m->scope) return NULL;
  if (!count || count > NABLA_MAX_RECORDED)
    return NABLA_MAKE_FAIL(m, "%u arrays; from 1 to %d", count,
                           NABLA_MAX_RECORDED);
  const uint32_t rank =
      arrays[0]->dense.rank + (strcmp(op, "nabla.stack") ? 0 : 1);
  if (!nabla_make_dim(m, dim, rank, &at)) return NULL;
  const nabla_dtype dtype = nabla_make_promote(count, arrays, NABLA_DTYPES_own);
  for (uint32_t i = 0; i < count; i++)
    list[i] = nabla_make_convert(m, arrays[i], dtype);
  const nabla_recorded_attribute attribute = nabla_make_i64("dim", &at);
  return nabla_make_op(m, op, count, list, 1, &attribute, NULL);
}

#define UNARY(name, op_name, dtypes)                                           \
  nabla_array *nabla_##name(nabla_array *x) {                                  \
    NABLA_MAKE(m, name, x);                                                    \
    return nabla_make_elements(m, NABLA_DTYPES_##dtypes, "nabla." #op_name, 1, \
                               m_arrays, NULL);                                \
  }
#define UNARY_OF(name, op_name, dtypes, key, value)                            \
  nabla_array *nabla_##name(nabla_array *x) {                                  \
    static const int64_t number = value;                                       \
    NABLA_MAKE(m, name, x);                                                    \
    const nabla_recorded_attribute attribute = nabla_make_i32(key, &number);   \
    return nabla_make_elements(m, NABLA_DTYPES_##dtypes, "nabla." #op_name, 1, \
                               m_arrays, &attribute);                          \
  }
#define BINARY(name, op_name, dtypes)                                          \
  nabla_array *nabla_##name(nabla_array *x, nabla_array *y) {                  \
    NABLA_MAKE(m, name, x, y);                                                 \
    return nabla_make_elements(m, NABLA_DTYPES_##dtypes, "nabla." #op_name, 2, \
                               m_arrays, NULL);                                \
  }
#define COMPARISON(name, kind)                                \
  nabla_array *nabla_##name(nabla_array *x, nabla_array *y) { \
    NABLA_MAKE(m, name, x, y);                                \
    return nabla_make_compare(m, kind, x, y);                 \
  }
#define REDUCTION(name, kind, dtypes)                                         \
  nabla_array *nabla_##name(nabla_array *x, uint32_t count,                   \
                            const int64_t *dims, int keep_dims) {             \
    NABLA_MAKE(m, name, x);                                                   \
    return reduce(m, kind, NABLA_DTYPES_##dtypes, x, count, dims, keep_dims); \
  }
#define ACROSS(name, op_name, dtypes)                                       \
  nabla_array *nabla_##name(nabla_array *x, int64_t dim, int keep_dims) {   \
    NABLA_MAKE(m, name, x);                                                 \
    return nabla_make_along(m, "nabla." #op_name, NABLA_DTYPES_##dtypes, x, \
                            dim, keep_dims);                                \
  }
#define ALONG(name, op_name, dtypes)                                        \
  nabla_array *nabla_##name(nabla_array *x, int64_t dim) {                  \
    NABLA_MAKE(m, name, x);                                                 \
    return nabla_make_along(m, "nabla." #op_name, NABLA_DTYPES_##dtypes, x, \
                            dim, 0);                                        \
  }
#define JOIN(name, op_name)                                             \
  nabla_array *nabla_##name(uint32_t count, nabla_array *const *arrays, \
                            int64_t dim) {                              \
    NABLA_MAKE_LIST(m, name, arrays ? count : 0, arrays);               \
    return join(m, "nabla." #op_name, m_site.count, arrays, dim);       \
  }
#define FILLED(name, value)                                         \
  nabla_array *nabla_##name(nabla_scope *scope, nabla_dtype dtype,  \
                            uint32_t count, const int64_t *shape) { \
    NABLA_MAKE_IN(m, name, scope);                                  \
    return fill(m, dtype, count, shape, value);                     \
  }
#define LIKE(name, value)                     \
  nabla_array *nabla_##name(nabla_array *x) { \
    NABLA_MAKE(m, name, x);                   \
    return fill_like(m, x, value);            \
  }
#define RANDOM(name, op_name)                                       \
  nabla_array *nabla_##name(nabla_array *seed, nabla_dtype dtype,   \
                            uint32_t count, const int64_t *shape) { \
    NABLA_MAKE(m, name, seed);                                      \
    return draw(m, "nabla." #op_name, seed, dtype, count, shape);   \
  }
#include "lib/array/operations.def"

nabla_array *nabla_full(nabla_scope *scope, nabla_dtype dtype, uint32_t count,
                        const int64_t *shape, double value) {
  NABLA_MAKE_IN(m, full, scope);
  return fill(m, dtype, count, shape, value);
}

nabla_array *nabla_full_like(nabla_array *x, double value) {
  NABLA_MAKE(m, full_like, x);
  return fill_like(m, x, value);
}

nabla_array *nabla_where(nabla_array *condition, nabla_array *x,
                         nabla_array *y) {
  NABLA_MAKE(m, where, condition, x, y);
  return nabla_make_select(m, condition, x, y);
}

nabla_array *nabla_convert(nabla_array *x, nabla_dtype dtype) {
  NABLA_MAKE(m, convert, x);
  if (!m->scope) return NULL;
  if (!nabla_dtype_is_known(dtype))
    return NABLA_MAKE_FAIL(m, "programs have no arrays of dtype %s",
                           nabla_dtype_name(dtype));
  return nabla_make_convert(m, x, dtype);
}

nabla_array *nabla_stop_gradient(nabla_array *x) {
  NABLA_MAKE(m, stop_gradient, x);
  nabla_array *dense =
      m->scope ? nabla_make_dense(m, nabla_make_settle(m, x, NABLA_DTYPES_own))
               : NULL;
  return nabla_make_op(m, "nabla.stop_gradient", 1, &dense, 0, NULL, NULL);
}

void nabla_minmax(nabla_array *x, uint32_t count, const int64_t *dims,
                  int keep_dims, nabla_array **out) {
  NABLA_MAKE(m, minmax, x);
  out[0] =
      reduce(m, NABLA_REDUCE_MIN, NABLA_DTYPES_own, x, count, dims, keep_dims);
  out[1] =
      reduce(m, NABLA_REDUCE_MAX, NABLA_DTYPES_own, x, count, dims, keep_dims);
}

nabla_array *nabla_constant(nabla_scope *scope, const nabla_dense *value) {
  nabla_array *leaf = nabla_array_leaf(scope, value, false, "nabla_constant",
                                       __builtin_return_address(0));
  if (!leaf) return NULL;
  const nabla_array_call site = NABLA_ARRAY_CALL(constant, 1, &leaf);
  const nabla_recorded_attribute attribute = {
      .key = "value", .kind = NABLA_ATTRIBUTE_DENSE, .type = value};
  const nabla_recording recording = {
      .op = "nabla.constant", .attribute_count = 1, .attributes = &attribute};
  nabla_array *out = nabla_record(&site, scope, &recording, NULL);
  nabla_array_leave(leaf);
  return out;
}
