/* The types that kernels of clusters compute in, their constants, and
 * conversions between them, which are those of transforms/lower/convert.c. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "transforms/cluster/body.h"

#define LANE(dtype, element, bits, ...)                           \
  {NABLA_DTYPE_##dtype,                                           \
   {element, "vector<16x" element ">", "vector<64x" element ">"}, \
   {bits, "vector<16x" bits ">", "vector<64x" bits ">"},          \
   __VA_ARGS__}

/* Bytes of an element in memory, whether it is a float, unsigned. */
static const nabla_cluster_lane lanes[] = {
    LANE(F32, "f32", "i32", 4, true, false),
    LANE(F16, "f32", "i32", 2, true, false),
    LANE(BF16, "f32", "i32", 2, true, false),
    LANE(F64, "f64", "i64", 8, true, false),
    LANE(BOOL, "i1", "i1", 1, false, true),
    LANE(I8, "i8", "i8", 1, false, false),
    LANE(U8, "i8", "i8", 1, false, true),
    LANE(I32, "i32", "i32", 4, false, false),
    LANE(I64, "i64", "i64", 8, false, false),
};

const nabla_cluster_lane *nabla_cluster_lane_of(nabla_dtype dtype) {
  for (size_t i = 0; i < sizeof lanes / sizeof *lanes; i++)
    if (lanes[i].dtype == dtype) return &lanes[i];
  return NULL;
}

/* The place of the shape that is written in lists of types. */
static int form_of(const nabla_cluster_body *b) {
  return b->shape == NABLA_SCALAR             ? 0
         : b->lanes_of_vectors == NABLA_LANES ? 1
                                              : 2;
}

const char *nabla_cluster_type_of(const nabla_cluster_body *b,
                                  nabla_dtype dtype) {
  return nabla_cluster_lane_of(dtype)->type[form_of(b)];
}

const char *nabla_cluster_type(const nabla_cluster_body *b) {
  return b->lane->type[form_of(b)];
}

/* ---- constants ----------------------------------------------------------- */

/* By its bits, which have infinities and signs of zeros. */
nabla_ssa nabla_cluster_float(nabla_cluster_body *b,
                              const nabla_cluster_lane *lane, double value) {
  const bool is_wide = lane->dtype == NABLA_DTYPE_F64;
  const float narrow = (float)value;
  uint64_t bits = 0;
  uint32_t narrow_bits;
  memcpy(&narrow_bits, &narrow, sizeof narrow_bits);
  memcpy(&bits, &value, sizeof bits);
  if (!is_wide) bits = narrow_bits;
  return k_op(b->e,
              b->shape == NABLA_SCALAR ? "arith.constant 0x%0*" PRIX64 " : %s"
                                       : "arith.constant dense<0x%0*" PRIX64
                                         "> : %s",
              is_wide ? 16 : 8, bits, lane->type[form_of(b)]);
}

static nabla_ssa integer_of(nabla_cluster_body *b, const char *const *type,
                            int64_t value) {
  if (!strcmp(type[0], "i1")) {
    const char *truth = value & 1 ? "true" : "false";
    return b->shape == NABLA_SCALAR
               ? k_op(b->e, "arith.constant %s", truth)
               : k_op(b->e, "arith.constant dense<%s> : %s", truth,
                      type[form_of(b)]);
  }
  return k_op(b->e,
              b->shape == NABLA_SCALAR ? "arith.constant %" PRId64 " : %s"
                                       : "arith.constant dense<%" PRId64
                                         "> : %s",
              value, type[form_of(b)]);
}

nabla_ssa nabla_cluster_integer(nabla_cluster_body *b, int64_t value) {
  return integer_of(b, b->lane->type, value);
}

nabla_ssa nabla_cluster_number(nabla_cluster_body *b, double value) {
  return b->lane->is_float ? nabla_cluster_float(b, b->lane, value)
                           : nabla_cluster_integer(b, (int64_t)value);
}

/* The highest number of a signed integer type, but -1 is that of ui8. */
static int64_t greatest(const nabla_cluster_lane *lane) {
  if (lane->is_unsigned) return -1;
  return (int64_t)(UINT64_MAX >> (65 - 8 * lane->bytes));
}

nabla_ssa nabla_cluster_initial(nabla_cluster_body *b,
                                nabla_cluster_reduction reduction) {
  static const double values[] = {
#define REDUCTION(id, initial, cost) (double)(initial),
#include "transforms/cluster/reductions.def"
#undef REDUCTION
  };
  const double value = values[reduction];
  if (b->lane->is_float || isfinite(value))
    return nabla_cluster_number(b, value);
  const int64_t most = greatest(b->lane);
  return nabla_cluster_integer(b, value > 0 ? most : -most - 1);
}

nabla_ssa nabla_cluster_choose(nabla_cluster_body *b, nabla_ssa condition,
                               nabla_ssa yes, nabla_ssa no) {
  return k_op(
      b->e, "arith.select %%v%u, %%v%u, %%v%u : %s%s%s", condition, yes, no,
      b->shape == NABLA_SCALAR ? ""
                               : nabla_cluster_type_of(b, NABLA_DTYPE_BOOL),
      b->shape == NABLA_SCALAR ? "" : ", ", nabla_cluster_type(b));
}

/* ---- conversions --------------------------------------------------------- */

#define LANE_OF(dtype) nabla_cluster_lane_of(NABLA_DTYPE_##dtype)

static nabla_ssa cast(nabla_cluster_body *b, const char *operation, nabla_ssa x,
                      const char *const *from, const char *const *to) {
  return k_op(b->e, "arith.%s %%v%u : %s to %s", operation, x, from[form_of(b)],
              to[form_of(b)]);
}

static nabla_ssa two(nabla_cluster_body *b, const char *operation, nabla_ssa x,
                     nabla_ssa y, const char *const *type) {
  return k_op(b->e, "arith.%s %%v%u, %%v%u : %s", operation, x, y,
              type[form_of(b)]);
}

static nabla_ssa choose(nabla_cluster_body *b, const nabla_cluster_lane *lane,
                        nabla_ssa condition, nabla_ssa yes, nabla_ssa no) {
  const nabla_cluster_lane *before = b->lane;
  b->lane = lane;
  nabla_ssa y = nabla_cluster_choose(b, condition, yes, no);
  b->lane = before;
  return y;
}

nabla_ssa nabla_cluster_size(nabla_cluster_body *b, nabla_ssa x) {
  const nabla_cluster_lane *lane = b->lane;
  nabla_ssa bits = cast(b, "bitcast", x, lane->type, lane->bits);
  const int64_t most =
      lane->dtype == NABLA_DTYPE_F64 ? INT64_MAX : (int64_t)INT32_MAX;
  bits = two(b, "andi", bits, integer_of(b, lane->bits, most), lane->bits);
  return cast(b, "bitcast", bits, lane->bits, lane->type);
}

/* f32 of an f64 that is rounded once more: to odd, so that the second rounding
 * sees what the first one left out. */
static nabla_ssa to_odd_f32(nabla_cluster_body *b, nabla_ssa x) {
  const nabla_cluster_lane *f64 = LANE_OF(F64), *f32 = LANE_OF(F32);
  const nabla_cluster_lane *before = b->lane, *i32 = LANE_OF(I32);
  nabla_ssa y = cast(b, "truncf", x, f64->type, f32->type);
  b->lane = f64;
  nabla_ssa wide = nabla_cluster_size(b, x);
  nabla_ssa size =
      nabla_cluster_size(b, cast(b, "extf", y, f32->type, f64->type));
  b->lane = before;
  nabla_ssa inexact = two(b, "cmpf one,", wide, size, f64->type);
  nabla_ssa above = two(b, "cmpf olt,", wide, size, f64->type);
  nabla_ssa bits = cast(b, "bitcast", y, f32->type, i32->type);
  nabla_ssa step = cast(b, "extui", above, LANE_OF(BOOL)->type, i32->type);
  nabla_ssa odd = two(b, "subi", bits, step, i32->type);
  odd = two(b, "ori", odd, integer_of(b, i32->type, 1), i32->type);
  bits = choose(b, i32, inexact, odd, bits);
  return cast(b, "bitcast", bits, i32->type, f32->type);
}

/* An i64 with its lowest 12 bits in one where f64 does not hold them all, so
 * that rounding from f64 to 16 bits sees them. */
static nabla_ssa gather_low_bits(nabla_cluster_body *b, nabla_ssa x) {
  const nabla_cluster_lane *i64 = LANE_OF(I64);
  const char *const *type = i64->type;
  nabla_ssa low = two(b, "andi", x, integer_of(b, type, 0xFFF), type);
  nabla_ssa some = two(b, "cmpi ne,", low, integer_of(b, type, 0), type);
  nabla_ssa bit = cast(b, "extui", some, LANE_OF(BOOL)->type, type);
  bit = two(b, "shli", bit, integer_of(b, type, 11), type);
  nabla_ssa whole = two(b, "ori", two(b, "subi", x, low, type), bit, type);
  nabla_ssa shifted = two(b, "shrsi", x, integer_of(b, type, 52), type);
  nabla_ssa sign = two(b, "shrsi", x, integer_of(b, type, 63), type);
  nabla_ssa large = two(b, "cmpi ne,", shifted, sign, type);
  return choose(b, i64, large, whole, x);
}

static bool is_half(const nabla_cluster_lane *lane) {
  return lane->is_float && lane->bytes == 2;
}

static nabla_ssa integer_to_float(nabla_cluster_body *b, nabla_ssa x,
                                  const nabla_cluster_lane *from,
                                  const nabla_cluster_lane *to) {
  const char *operation = from->is_unsigned ? "uitofp" : "sitofp";
  if (!is_half(to) || from->bytes == 1) /* f32 holds 8 bits */
    return cast(b, operation, x, from->type, to->type);
  if (from->bytes == 8) x = gather_low_bits(b, x);
  return to_odd_f32(b, cast(b, operation, x, from->type, LANE_OF(F64)->type));
}

static nabla_ssa float_to_float(nabla_cluster_body *b, nabla_ssa x,
                                const nabla_cluster_lane *from,
                                const nabla_cluster_lane *to) {
  if (!strcmp(from->type[0], to->type[0])) return x;
  if (to->dtype == NABLA_DTYPE_F64)
    return cast(b, "extf", x, from->type, to->type);
  return is_half(to) ? to_odd_f32(b, x)
                     : cast(b, "truncf", x, from->type, to->type);
}

/* Towards 0; out of range: the nearest value; NaN: 0. The limits are powers of
 * two, and exact. */
static nabla_ssa float_to_integer(nabla_cluster_body *b, nabla_ssa x,
                                  const nabla_cluster_lane *from,
                                  const nabla_cluster_lane *to) {
  const int bits = 8 * (int)to->bytes;
  const bool is_unsigned = to->is_unsigned;
  const nabla_cluster_lane *middle = to->bytes < 8 ? LANE_OF(I32) : to;
  const double beyond = ldexp(1, is_unsigned ? bits : bits - 1);
  nabla_ssa most = nabla_cluster_float(b, from, beyond);
  nabla_ssa least = nabla_cluster_float(b, from, is_unsigned ? 0 : -beyond);
  nabla_ssa high = two(b, "cmpf oge,", x, most, from->type);
  nabla_ssa low = two(b, "cmpf ole,", x, least, from->type);
  nabla_ssa real = two(b, "cmpf ord,", x, x, from->type);
  nabla_ssa out = two(b, "ori", high, low, LANE_OF(BOOL)->type);
  nabla_ssa zero = nabla_cluster_float(b, from, 0);
  x = choose(b, from, out, zero, x);
  x = choose(b, from, real, x, zero);
  nabla_ssa y = cast(b, "fptosi", x, from->type, middle->type);
  if (middle->bytes > to->bytes)
    y = cast(b, "trunci", y, middle->type, to->type);
  const int64_t above = greatest(to), below = is_unsigned ? 0 : -above - 1;
  y = choose(b, to, high, integer_of(b, to->type, above), y);
  return choose(b, to, low, integer_of(b, to->type, below), y);
}

static nabla_ssa to_truth(nabla_cluster_body *b, nabla_ssa x,
                          const nabla_cluster_lane *from) {
  return from->is_float
             ? two(b, "cmpf une,", x, nabla_cluster_float(b, from, 0),
                   from->type)
             : two(b, "cmpi ne,", x, integer_of(b, from->type, 0), from->type);
}

static unsigned width_of(const nabla_cluster_lane *lane) {
  return lane->dtype == NABLA_DTYPE_BOOL ? 1 : 8 * lane->bytes;
}

nabla_ssa nabla_cluster_convert(nabla_cluster_body *b, nabla_ssa x,
                                const nabla_cluster_lane *from,
                                const nabla_cluster_lane *to) {
  if (from == to) return x;
  if (to->dtype == NABLA_DTYPE_BOOL) return to_truth(b, x, from);
  if (from->is_float && to->is_float) return float_to_float(b, x, from, to);
  if (from->is_float) return float_to_integer(b, x, from, to);
  if (to->is_float) return integer_to_float(b, x, from, to);
  if (width_of(from) == width_of(to)) return x;
  return cast(b,
              width_of(from) > width_of(to) ? "trunci"
              : from->is_unsigned           ? "extui"
                                            : "extsi",
              x, from->type, to->type);
}
