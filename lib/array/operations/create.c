/* Operations that create arrays of numbers. */
#include <inttypes.h>
#include <math.h>

#include "lib/array/make.h"

#define TWO_PI 6.283185307179586476925286766559

nabla_array *nabla_iota(nabla_scope *scope, nabla_dtype dtype, uint32_t count,
                        const int64_t *shape, int64_t dim) {
  NABLA_MAKE_IN(m, iota, scope);
  nabla_array_type type;
  int64_t at;
  if (!m->scope || !nabla_make_type(m, dtype, count, shape, &type) ||
      !nabla_make_dim(m, dim, count, &at))
    return NULL;
  return nabla_make_iota(m, at, &type);
}

/* start + i * step of `size` elements, as numbers of type f64 or i64, converted
 * to `dtype`. */
static nabla_array *range(const nabla_making *m, nabla_dtype dtype,
                          int64_t size, double start, double step) {
  nabla_array_type type;
  const nabla_dtype wide =
      nabla_dtype_is_float(dtype) ? NABLA_DTYPE_F64 : NABLA_DTYPE_I64;
  if (!nabla_make_type(m, wide, 1, &size, &type)) return NULL;
  nabla_array *x = nabla_make_iota(m, 0, &type);
  if (step != 1)
    x = nabla_make_binary(m, "nabla.mul", x, nabla_make_full(m, step, &type));
  if (start != 0)
    x = nabla_make_binary(m, "nabla.add", x, nabla_make_full(m, start, &type));
  return nabla_make_convert(m, x, dtype);
}

nabla_array *nabla_arange(nabla_scope *scope, nabla_dtype dtype, double start,
                          double stop, double step) {
  NABLA_MAKE_IN(m, arange, scope);
  if (!m->scope) return NULL;
  const double size = step == 0 ? NAN : ceil((stop - start) / step);
  if (!nabla_dtype_is_known(dtype) || dtype == NABLA_DTYPE_BOOL)
    return NABLA_MAKE_FAIL(m, "numbers of dtype %s", nabla_dtype_name(dtype));
  if (!(size <= 9007199254740992.0))
    return NABLA_MAKE_FAIL(m, "from %g to %g by %g", start, stop, step);
  return range(m, dtype, size > 0 ? (int64_t)size : 0, start, step);
}

nabla_array *nabla_tri(nabla_scope *scope, nabla_dtype dtype, uint32_t count,
                       const int64_t *shape, int64_t diagonal) {
  NABLA_MAKE_IN(m, tri, scope);
  nabla_array_type type;
  if (!m->scope || !nabla_make_type(m, dtype, count, shape, &type)) return NULL;
  const nabla_recorded_attribute attribute =
      nabla_make_i64("diagonal", &diagonal);
  return nabla_make_op(m, "nabla.tri", 0, NULL, 1, &attribute, &type);
}

nabla_array *nabla_eye(nabla_scope *scope, nabla_dtype dtype, int64_t size) {
  NABLA_MAKE_IN(m, eye, scope);
  const int64_t shape[2] = {size, size};
  nabla_array_type type;
  if (!m->scope || !nabla_make_type(m, dtype, 2, shape, &type)) return NULL;
  type.dtype = NABLA_DTYPE_I64;
  nabla_array *is_equal = nabla_make_compare(m, 0, nabla_make_iota(m, 0, &type),
                                             nabla_make_iota(m, 1, &type));
  return nabla_make_convert(m, is_equal, dtype);
}

nabla_array *nabla_hann_window(nabla_scope *scope, nabla_dtype dtype,
                               int64_t size, int periodic) {
  NABLA_MAKE_IN(m, hann_window, scope);
  nabla_array_type type;
  if (!m->scope) return NULL;
  if (!nabla_dtype_is_float(dtype))
    return NABLA_MAKE_FAIL(m, "a window of dtype %s", nabla_dtype_name(dtype));
  if (!nabla_make_type(m, NABLA_DTYPE_F64, 1, &size, &type)) return NULL;
  if (size == 1)
    return nabla_make_convert(m, nabla_make_full(m, 1, &type), dtype);
  const double period = (double)(periodic ? size : size - 1);
  nabla_array *angle =
      range(m, NABLA_DTYPE_F64, size, 0, TWO_PI / (size ? period : 1));
  nabla_array *half = nabla_make_full(m, 0.5, &type);
  nabla_array *wave = nabla_make_binary(
      m, "nabla.mul", half, nabla_make_unary(m, "nabla.cos", angle));
  return nabla_make_convert(m, nabla_make_binary(m, "nabla.sub", half, wave),
                            dtype);
}
