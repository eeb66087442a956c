/* convert: between all element types, rounding once. */
#include <mlir-c/BuiltinTypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/kernels/builder/k.h"
#include "transforms/lower/elements.h"
#include "transforms/lower/list.h"

static int width_of(const nabla_element *element) {
  return (int)strtol(element->work + 1, NULL, 10); /* "i32", "f64" */
}

static nabla_ssa number(nabla_template *t, const char *value,
                        const char *type) {
  return k_op(&t->emit, "arith.constant %s : %s", value, type);
}

/* f32 of an f64 that is to be rounded once more: to odd, so that the second
 * rounding sees what the first one left out. */
static nabla_ssa to_odd_f32(nabla_template *t, nabla_ssa x) {
  nabla_ssa y = k_op(&t->emit, "arith.truncf %%v%u : f64 to f32", x);
  nabla_ssa back = k_op(&t->emit, "arith.extf %%v%u : f32 to f64", y);
  nabla_ssa wide_size = k_op(&t->emit, "math.absf %%v%u : f64", x);
  nabla_ssa size = k_op(&t->emit, "math.absf %%v%u : f64", back);
  nabla_ssa inexact = nabla_emit_two(t, "cmpf one,", wide_size, size, "f64");
  nabla_ssa above = nabla_emit_two(t, "cmpf olt,", wide_size, size, "f64");
  nabla_ssa bits = k_op(&t->emit, "arith.bitcast %%v%u : f32 to i32", y);
  nabla_ssa one = number(t, "1", "i32");
  nabla_ssa step = k_op(&t->emit, "arith.extui %%v%u : i1 to i32", above);
  nabla_ssa odd = nabla_emit_two(t, "subi", bits, step, "i32");
  odd = nabla_emit_two(t, "ori", odd, one, "i32");
  bits = nabla_emit_select(t, inexact, odd, bits, "i32");
  return k_op(&t->emit, "arith.bitcast %%v%u : i32 to f32", bits);
}

static nabla_ssa float_to_float(nabla_template *t, const nabla_element *from,
                                const nabla_element *to, nabla_ssa x) {
  if (!strcmp(from->work, to->work)) return x;
  if (!strcmp(to->work, "f64")) return nabla_emit_to_f64(t, from, x);
  return to->half == NABLA_DTYPE_F32 ? nabla_emit_from_f64(t, to, x)
                                     : to_odd_f32(t, x);
}

/* An i64 with its lowest 12 bits in one where f64 does not hold them all, so
 * that rounding from f64 to 16 bits sees them. */
static nabla_ssa gather_low_bits(nabla_template *t, nabla_ssa x) {
  nabla_ssa mask = k_i64(&t->emit, 0xFFF);
  nabla_ssa low = nabla_emit_two(t, "andi", x, mask, "i64");
  nabla_ssa some =
      nabla_emit_two(t, "cmpi ne,", low, k_i64(&t->emit, 0), "i64");
  nabla_ssa bit = k_op(&t->emit, "arith.extui %%v%u : i1 to i64", some);
  bit = nabla_emit_two(t, "shli", bit, k_i64(&t->emit, 11), "i64");
  nabla_ssa whole = nabla_emit_two(t, "subi", x, low, "i64");
  whole = nabla_emit_two(t, "ori", whole, bit, "i64");
  nabla_ssa shifted = nabla_emit_two(t, "shrsi", x, k_i64(&t->emit, 52), "i64");
  nabla_ssa sign = nabla_emit_two(t, "shrsi", x, k_i64(&t->emit, 63), "i64");
  nabla_ssa large = nabla_emit_two(t, "cmpi ne,", shifted, sign, "i64");
  return nabla_emit_select(t, large, whole, x, "i64");
}

nabla_ssa nabla_emit_integer_to_float(nabla_template *t,
                                      const nabla_element *from,
                                      const nabla_element *to, nabla_ssa x) {
  const char *operation = from->is_unsigned ? "uitofp" : "sitofp";
  if (to->half == NABLA_DTYPE_F32)
    return k_op(&t->emit, "arith.%s %%v%u : %s to %s", operation, x, from->work,
                to->work);
  if (width_of(from) == 64) x = gather_low_bits(t, x);
  nabla_ssa wide =
      k_op(&t->emit, "arith.%s %%v%u : %s to f64", operation, x, from->work);
  return to_odd_f32(t, wide);
}

/* The least and the first too large value of a type, in f64; and the greatest.
 */
typedef struct limits {
  const char *least, *beyond, *minimum, *maximum;
} limits;

static limits limits_of(const nabla_element *to) {
  if (to->is_unsigned) return (limits){"0.0", "256.0", "0", "-1"};
  switch (width_of(to)) {
    case 8:
      return (limits){"-128.0", "128.0", "-128", "127"};
    case 32:
      return (limits){"-2147483648.0", "2147483648.0", "-2147483648",
                      "2147483647"};
    default:
      return (limits){"-9223372036854775808.0", "9223372036854775808.0",
                      "-9223372036854775808", "9223372036854775807"};
  }
}

/* Towards 0, through i64; out of range: the nearest value; NaN: 0. */
static nabla_ssa float_to_integer(nabla_template *t, const nabla_element *from,
                                  const nabla_element *to, nabla_ssa x) {
  limits l = limits_of(to);
  x = nabla_emit_to_f64(t, from, x);
  nabla_ssa high =
      nabla_emit_two(t, "cmpf oge,", x, number(t, l.beyond, "f64"), "f64");
  nabla_ssa low =
      nabla_emit_two(t, "cmpf ole,", x, number(t, l.least, "f64"), "f64");
  nabla_ssa real = nabla_emit_two(t, "cmpf ord,", x, x, "f64");
  nabla_ssa out = nabla_emit_two(t, "ori", high, low, "i1");
  nabla_ssa zero = number(t, "0.0", "f64");
  x = nabla_emit_select(t, out, zero, x, "f64");
  x = nabla_emit_select(t, real, x, zero, "f64");
  nabla_ssa y = k_op(&t->emit, "arith.fptosi %%v%u : f64 to i64", x);
  if (width_of(to) < 64)
    y = k_op(&t->emit, "arith.trunci %%v%u : i64 to %s", y, to->work);
  y = nabla_emit_select(t, high, number(t, l.maximum, to->work), y, to->work);
  return nabla_emit_select(t, low, number(t, l.minimum, to->work), y, to->work);
}

static nabla_ssa to_bool(nabla_template *t, const nabla_element *from,
                         nabla_ssa x) {
  nabla_ssa zero = number(t, from->is_float ? "0.0" : "0", from->work);
  return nabla_emit_two(t, from->is_float ? "cmpf une," : "cmpi ne,", x, zero,
                        from->work);
}

static nabla_ssa integer_to_integer(nabla_template *t,
                                    const nabla_element *from,
                                    const nabla_element *to, nabla_ssa x) {
  int before = width_of(from), after = width_of(to);
  if (before == after) return x;
  const char *operation = before > after      ? "trunci"
                          : from->is_unsigned ? "extui"
                                              : "extsi";
  return k_op(&t->emit, "arith.%s %%v%u : %s to %s", operation, x, from->work,
              to->work);
}

static nabla_ssa convert(nabla_template *t, const nabla_element *from,
                         const nabla_ssa *x) {
  const nabla_element *to = nabla_element_find(
      mlirShapedTypeGetElementType(nabla_result_type(t->op, 0)));
  if (from == to) return x[0];
  if (!strcmp(to->name, "i1")) return to_bool(t, from, x[0]);
  if (from->is_float && to->is_float) return float_to_float(t, from, to, x[0]);
  if (from->is_float) return float_to_integer(t, from, to, x[0]);
  if (to->is_float) return nabla_emit_integer_to_float(t, from, to, x[0]);
  return integer_to_integer(t, from, to, x[0]);
}
bool nabla_lower_convert(nabla_template *t) {
  return nabla_lower_elements(t, convert);
}
