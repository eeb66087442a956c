/* Folding of ops on constants whose elements are all equal; the table is
 * splats.def. */
#include <math.h>
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <string.h>

#include "dialect/verify/checks.h"
#include "transforms/ir/ir.h"
#include "transforms/simplify/simplify_views.h"
#include "transforms/simplify/splats.h"

/* Computes the value of the result from `x`, the values of the `count`
 * operands; returns false if it cannot be known. */
typedef bool folding(MlirOperation op, intptr_t count, const nabla_splat *x,
                     nabla_splat *out);

#define MOST 8 /* operands that are read; the rest is compared with them */

/* ---- element by element ---- */

static double rounded(MlirType element, double number) {
  return mlirTypeIsAF64(element) ? number : (double)(float)number;
}

/* Returns the integer with its sign. */
static int64_t signed_of(const nabla_splat *x) {
  unsigned width = nabla_splat_width(x->element);
  if (mlirIntegerTypeIsUnsigned(x->element) || width == 1)
    return (int64_t)x->integer;
  return (int64_t)(x->integer << (64 - width)) >> (64 - width);
}

static uint64_t bits_of(MlirType element, uint64_t bits) {
  unsigned width = nabla_splat_width(element);
  return width < 64 ? bits & (((uint64_t)1 << width) - 1) : bits;
}

#define FLOAT1(op, value)                          \
  static double float_##op(const nabla_splat *a) { \
    const double x = a[0].number;                  \
    return (value);                                \
  }
#define FLOAT2(op, value)                          \
  static double float_##op(const nabla_splat *a) { \
    const double x = a[0].number, y = a[1].number; \
    return (value);                                \
  }
#define INTEGER1(op, bits)                             \
  static uint64_t integer_##op(const nabla_splat *a) { \
    const uint64_t u = a[0].integer;                   \
    const int64_t s = signed_of(&a[0]);                \
    (void)u, (void)s;                                  \
    return (uint64_t)(bits);                           \
  }
#define INTEGER2(op, bits)                                    \
  static uint64_t integer_##op(const nabla_splat *a) {        \
    const uint64_t u = a[0].integer, v = a[1].integer;        \
    const int64_t s = signed_of(&a[0]), t = signed_of(&a[1]); \
    (void)s, (void)t;                                         \
    return (uint64_t)(bits);                                  \
  }
#define SPLAT(op, function)
#include "transforms/simplify/splats.def"
#undef FLOAT1
#undef FLOAT2
#undef INTEGER1
#undef INTEGER2
#undef SPLAT

static const struct {
  const char *op;
  intptr_t operands;
  double (*of_floats)(const nabla_splat *a);
  uint64_t (*of_integers)(const nabla_splat *a);
} arithmetic[] = {
#define FLOAT1(op, value)   {"nabla." #op, 1, float_##op, NULL},
#define FLOAT2(op, value)   {"nabla." #op, 2, float_##op, NULL},
#define INTEGER1(op, value) {"nabla." #op, 1, NULL, integer_##op},
#define INTEGER2(op, value) {"nabla." #op, 2, NULL, integer_##op},
#define SPLAT(op, function)
#include "transforms/simplify/splats.def"
#undef FLOAT1
#undef FLOAT2
#undef INTEGER1
#undef INTEGER2
#undef SPLAT
};
#define ARITHMETIC (sizeof arithmetic / sizeof *arithmetic)

static bool compute(MlirOperation op, intptr_t count, const nabla_splat *x,
                    nabla_splat *out) {
  *out = x[0];
  for (size_t i = 0; i < ARITHMETIC; i++) {
    if (!nabla_is(op, arithmetic[i].op) || arithmetic[i].operands != count)
      continue;
    if (x[0].is_float && arithmetic[i].of_floats) {
      out->number = rounded(out->element, arithmetic[i].of_floats(x));
      return true;
    }
    if (!x[0].is_float && arithmetic[i].of_integers) {
      out->integer = bits_of(out->element, arithmetic[i].of_integers(x));
      return true;
    }
  }
  return false;
}

static bool give_truth(MlirOperation op, bool truth, nabla_splat *out) {
  *out = (nabla_splat){.element = nabla_array_element(nabla_result_type(op, 0)),
                       .integer = truth};
  return true;
}

static bool predicate(MlirOperation op, intptr_t count, const nabla_splat *x,
                      nabla_splat *out) {
  (void)count;
  return give_truth(op,
                    nabla_is(op, "nabla.is_nan") ? isnan(x[0].number) != 0
                                                 : isinf(x[0].number) != 0,
                    out);
}

/* Returns -1, 0 or 1; 2 if one of the values is NaN. */
static int order(const nabla_splat *a, const nabla_splat *b) {
  if (!a->is_float) {
    int64_t s = signed_of(a), t = signed_of(b);
    return (s > t) - (s < t);
  }
  if (isnan(a->number) || isnan(b->number)) return 2;
  return (a->number > b->number) - (a->number < b->number);
}

static bool compare(MlirOperation op, intptr_t count, const nabla_splat *x,
                    nabla_splat *out) {
  (void)count;
  int is = order(&x[0], &x[1]);
  const bool truths[] = {/* in the order of Nabla_CompareKind */
                         is == 0,  is != 0,
                         is == -1, is == -1 || is == 0,
                         is == 1,  is == 1 || is == 0};
  return give_truth(op, truths[nabla_op_integer(op, "kind", 0)], out);
}

static bool choose(MlirOperation op, intptr_t count, const nabla_splat *x,
                   nabla_splat *out) {
  (void)op, (void)count;
  *out = x[0].integer ? x[1] : x[2];
  return true;
}

/* Converts a value that fits in both types; others are left to the program. */
static bool convert(MlirOperation op, intptr_t count, const nabla_splat *x,
                    nabla_splat *out) {
  (void)count;
  MlirType to = nabla_array_element(nabla_result_type(op, 0));
  *out = (nabla_splat){.element = to, .is_float = mlirTypeIsAFloat(to)};
  double number = x->is_float ? x->number : (double)signed_of(x);
  bool small = fabs(number) <= 0x1p53;
  if (out->is_float) {
    out->number = number;
    return x->is_float || small;
  }
  if (nabla_splat_width(to) == 1)
    return give_truth(op, x->is_float ? number != 0 : x->integer != 0, out);
  unsigned width = nabla_splat_width(to);
  bool is_unsigned = mlirIntegerTypeIsUnsigned(to);
  double beyond = ldexp(1, (int)width - (is_unsigned ? 0 : 1));
  if (x->is_float &&
      !(small && number < beyond && number >= (is_unsigned ? 0 : -beyond)))
    return false;
  out->integer = bits_of(
      to, x->is_float ? (uint64_t)(int64_t)number : (uint64_t)signed_of(x));
  return true;
}

/* ---- reductions ---- */

/* Returns the number of elements that are reduced to one; 0 if there are too
 * many. */
static uint64_t reduced_count(MlirOperation op) {
  int64_t dims[NABLA_MAX_RANK];
  uint64_t all = 1;
  intptr_t count = nabla_op_integers(op, "dims", dims);
  for (intptr_t i = 0; i < count; i++)
    if (__builtin_mul_overflow(
            all,
            (uint64_t)nabla_array_dim(nabla_operand_type(op, 0),
                                      (intptr_t)dims[i]),
            &all))
      return 0;
  return all;
}

/* Multiplies x by n if every partial sum of n times x is exact, in any order.
 */
static bool sum_floats(uint64_t n, nabla_splat *x) {
  int exponent;
  if (x->number == 0) {
    x->number = 0; /* 0 + -0 */
    return true;
  }
  if (!isfinite(x->number)) return true;
  double digits = frexp(x->number, &exponent), least = 0x1p53;
  while (digits != trunc(digits)) digits *= 2, exponent--;
  if (!mlirTypeIsAF64(x->element)) least = 0x1p24;
  double total = fabs(digits) * (double)n;
  if (total > least || exponent < -100 || exponent > 60) return false;
  x->number = ldexp(digits * (double)n, exponent);
  return true;
}

static bool reduce(MlirOperation op, intptr_t count, const nabla_splat *x,
                   nabla_splat *out) {
  enum { SUM, MAX, PROD, MIN, MEAN, ANY, ALL }; /* of Nabla_ReduceKind */
  (void)count;
  uint64_t n = reduced_count(op), power = 1;
  *out = *x;
  if (n == 0) return false;
  switch (nabla_op_integer(op, "kind", SUM)) {
    case SUM:
      if (x->is_float) return sum_floats(n, out);
      out->integer = bits_of(x->element, x->integer * n);
      return true;
    case MEAN:
      if (n > 1u << 24 || !sum_floats(n, out)) return false;
      out->number = rounded(x->element, out->number / (double)n);
      return true;
    case PROD:
      if (x->is_float) return x->number == 1;
      for (uint64_t base = x->integer; n; n >>= 1, base *= base)
        if (n & 1) power *= base;
      out->integer = bits_of(x->element, power);
      return true;
    default: /* maximum, minimum, any or all of equal values */
      return true;
  }
}

/* ---- shapes ---- */

static bool rearrange(MlirOperation op, intptr_t count, const nabla_splat *x,
                      nabla_splat *out) {
  (void)op, (void)count;
  *out = *x;
  return true;
}

static bool join(MlirOperation op, intptr_t count, const nabla_splat *x,
                 nabla_splat *out) {
  nabla_splat other;
  *out = *x;
  for (intptr_t i = 1; i < mlirOperationGetNumOperands(op); i++) {
    if (i < count)
      other = x[i];
    else if (!nabla_splat_read(mlirOperationGetOperand(op, i), &other))
      return false;
    if (!nabla_splat_equal(x, &other)) return false;
  }
  return true;
}

/* ---- the table ---- */

static const struct {
  const char *op;
  folding *fold;
} others[] = {
#define FLOAT1(op, value)
#define FLOAT2(op, value)
#define INTEGER1(op, value)
#define INTEGER2(op, value)
#define SPLAT(op, function) {"nabla." #op, function},
#include "transforms/simplify/splats.def"
#undef FLOAT1
#undef FLOAT2
#undef INTEGER1
#undef INTEGER2
#undef SPLAT
};

static folding *find(MlirOperation op) {
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    if (nabla_is(op, others[i].op)) return others[i].fold;
  for (size_t i = 0; i < ARITHMETIC; i++)
    if (nabla_is(op, arithmetic[i].op)) return compute;
  return NULL;
}

bool nabla_folds_splats(MlirOperation op) { return find(op) != NULL; }

/* Ops of which only the first operand is an array of values. */
static intptr_t values_of(MlirOperation op, folding *fold) {
  intptr_t count = fold == rearrange ? 1 : mlirOperationGetNumOperands(op);
  return count < MOST ? count : MOST;
}

bool nabla_fold_splats(MlirOperation op) {
  nabla_splat x[MOST], out;
  folding *fold = find(op);
  if (!fold || mlirOperationGetNumResults(op) != 1) return false;
  MlirType type = nabla_result_type(op, 0);
  if (nablaTypeIsAImplicit(type) || !nabla_array_is_static(type)) return false;
  for (intptr_t i = 0; i < nabla_array_rank(type); i++)
    if (nabla_array_dim(type, i) == 0) return false;
  intptr_t count = values_of(op, fold);
  for (intptr_t i = 0; i < count; i++)
    if (!nabla_splat_read(mlirOperationGetOperand(op, i), &x[i])) return false;
  if (count == 0 || !fold(op, count, x, &out)) return false;
  MlirValue value = nabla_splat_write(op, type, &out);
  if (mlirValueIsNull(value)) return false;
  nabla_op_replace(op, &value);
  return true;
}
