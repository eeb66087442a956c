/* div and mod: integers fail on zero, floats go on. */
#include <stdio.h>
#include <string.h>

#include "lib/kernels/builder/k.h"
#include "transforms/lower/elements.h"
#include "transforms/lower/formula.h"
#include "transforms/lower/list.h"

static nabla_ssa number(nabla_template *t, const nabla_element *in,
                        const char *value) {
  return k_op(&t->emit, "arith.constant %s : %s", value, in->work);
}

/* The number of zeros in an array, as i64. */
static nabla_ssa count_zeros(nabla_template *t, const nabla_ssa_tensor *in) {
  nabla_ssa_tensor one = nabla_ssa_tensor_static("i64", 0, NULL);
  nabla_ssa_tensor out = nabla_ssa_tensor_full(t, &one, "i64", "0");
  nabla_generic g = {.loops = in->rank, .reductions = in->rank};
  nabla_generic_add(&g, in, NULL);
  nabla_generic_add(&g, &out, NULL);
  nabla_generic_begin(t, &g);
  nabla_ssa x = nabla_generic_load(t, &g, 0);
  nabla_ssa is_zero = nabla_emit_two(
      t, "cmpi eq,", x, number(t, in->element, "0"), in->element->work);
  nabla_ssa add = k_op(&t->emit, "arith.extui %%v%u : i1 to i64", is_zero);
  nabla_ssa sum = nabla_emit_two(t, "addi", g.operands[1].element, add, "i64");
  out = nabla_generic_end(t, &g, sum);
  return k_op(&t->emit, "tensor.extract %%v%u[] : tensor<i64>", out.value);
}

static bool lower(nabla_template *t, nabla_element_function *compute) {
  nabla_template_open(t);
  nabla_ssa_tensor divisor = nabla_template_operand(t, 1);
  if (!divisor.element->is_float)
    nabla_template_require_divisors(t, count_zeros(t, &divisor));
  nabla_ssa_tensor out = nabla_elements_emit(t, compute);
  return nabla_template_close(t, out.value);
}

/* A divisor that no machine traps on: 1 for 0, which was refused before, and
 * for -1, of which `is_minus_one` tells. */
static nabla_ssa safe_divisor(nabla_template *t, const nabla_element *in,
                              nabla_ssa y, nabla_ssa *is_minus_one) {
  nabla_ssa one = number(t, in, "1");
  nabla_ssa zero =
      nabla_emit_two(t, "cmpi eq,", y, number(t, in, "0"), in->work);
  y = nabla_emit_select(t, zero, one, y, in->work);
  if (in->is_unsigned) return y;
  *is_minus_one =
      nabla_emit_two(t, "cmpi eq,", y, number(t, in, "-1"), in->work);
  return nabla_emit_select(t, *is_minus_one, one, y, in->work);
}

static nabla_ssa divide(nabla_template *t, const nabla_element *in,
                        const nabla_ssa *x) {
  nabla_ssa is_minus_one = 0;
  if (in->is_float) return nabla_emit_two(t, "divf", x[0], x[1], in->work);
  nabla_ssa y = safe_divisor(t, in, x[1], &is_minus_one);
  if (in->is_unsigned) return nabla_emit_two(t, "divui", x[0], y, in->work);
  nabla_ssa quotient = nabla_emit_two(t, "divsi", x[0], y, in->work);
  nabla_ssa negative =
      nabla_emit_two(t, "subi", number(t, in, "0"), x[0], in->work);
  return nabla_emit_select(t, is_minus_one, negative, quotient, in->work);
}
bool nabla_lower_div(nabla_template *t) { return lower(t, divide); }

/* A binade of an f64 > 0, as i64; those of subnormals too. */
static const char binade[] =
    "  %%v%u = scf.if %%v%u -> (i64) {\n"
    "    %%s = arith.constant 0x4350000000000000 : f64\n"
    "    %%m = arith.mulf %%v%u, %%s : f64\n"
    "    %%b = arith.bitcast %%m : f64 to i64\n"
    "    %%c = arith.constant 52 : i64\n"
    "    %%d = arith.shrui %%b, %%c : i64\n"
    "    %%n = arith.constant 54 : i64\n"
    "    %%e = arith.subi %%d, %%n : i64\n"
    "    scf.yield %%e : i64\n"
    "  } else {\n"
    "    %%b = arith.bitcast %%v%u : f64 to i64\n"
    "    %%c = arith.constant 52 : i64\n"
    "    %%d = arith.shrui %%b, %%c : i64\n"
    "    scf.yield %%d : i64\n"
    "  }\n";

static nabla_ssa binade_of(nabla_template *t, nabla_ssa x) {
  nabla_ssa least = k_op(&t->emit, "arith.constant 0x0010000000000000 : f64");
  nabla_ssa is_small = nabla_emit_two(t, "cmpf olt,", x, least, "f64");
  nabla_ssa out = ++t->emit.last;
  nabla_text_add(&t->text, binade, out, is_small, x, x);
  return out;
}

static nabla_ssa power(nabla_template *t, nabla_ssa exponent) {
  nabla_ssa bits = k_i64(&t->emit, 1023);
  bits = nabla_emit_two(t, "addi", exponent, bits, "i64");
  bits = nabla_emit_two(t, "shli", bits, k_i64(&t->emit, 52), "i64");
  return k_op(&t->emit, "arith.bitcast %%v%u : i64 to f64", bits);
}

/* y 2^n, at most x and more than x / 2, exact; n in three parts. */
static nabla_ssa fitting(nabla_template *t, nabla_ssa x, nabla_ssa y) {
  nabla_ssa n =
      nabla_emit_two(t, "subi", binade_of(t, x), binade_of(t, y), "i64");
  nabla_ssa three = k_i64(&t->emit, 3);
  nabla_ssa third = nabla_emit_two(t, "divsi", n, three, "i64");
  nabla_ssa rest = nabla_emit_two(t, "subi", n, third, "i64");
  rest = nabla_emit_two(t, "subi", rest, third, "i64");
  nabla_ssa z = nabla_emit_two(t, "mulf", y, power(t, rest), "f64");
  z = nabla_emit_two(t, "mulf", z, power(t, third), "f64");
  z = nabla_emit_two(t, "mulf", z, power(t, third), "f64");
  nabla_ssa half = k_op(&t->emit, "arith.constant 0.5 : f64");
  half = nabla_emit_two(t, "mulf", z, half, "f64");
  nabla_ssa above = nabla_emit_two(t, "cmpf ogt,", z, x, "f64");
  return nabla_emit_select(t, above, half, z, "f64");
}

/* x - trunc(x / y) y of x >= 0, y > 0, exact: each step takes away a multiple
 * of y that is at least half of what is left. None for y = inf or NaN. */
static nabla_ssa remainder_of(nabla_template *t, nabla_ssa x, nabla_ssa y) {
  nabla_ssa out = ++t->emit.last, now = ++t->emit.last, left = ++t->emit.last;
  nabla_text_add(&t->text,
                 "  %%v%u = scf.while (%%v%u = %%v%u) : (f64) -> f64 {\n", out,
                 now, x);
  nabla_ssa more = nabla_emit_two(t, "cmpf oge,", now, y, "f64");
  k_line(&t->emit, "scf.condition(%%v%u) %%v%u : f64", more, now);
  nabla_text_add(&t->text, "  } do {\n  ^bb0(%%v%u: f64):\n", left);
  nabla_ssa part = fitting(t, left, y);
  nabla_ssa next = nabla_emit_two(t, "subf", left, part, "f64");
  nabla_text_add(&t->text, "  scf.yield %%v%u : f64\n  }\n", next);
  return out;
}

/* Of the sign of y; a zero too. x infinite or y zero: NaN. */
static nabla_ssa float_modulo(nabla_template *t, nabla_ssa x, nabla_ssa y) {
  nabla_ssa zero = k_op(&t->emit, "arith.constant 0.0 : f64");
  nabla_ssa infinite =
      k_op(&t->emit, "arith.constant 0x7FF0000000000000 : f64");
  nabla_ssa nan = k_op(&t->emit, "arith.constant 0x7FF8000000000000 : f64");
  nabla_ssa a = k_op(&t->emit, "math.absf %%v%u : f64", x);
  nabla_ssa b = k_op(&t->emit, "math.absf %%v%u : f64", y);
  nabla_ssa finite = nabla_emit_two(t, "cmpf olt,", a, infinite, "f64");
  nabla_ssa real = nabla_emit_two(t, "cmpf ogt,", b, zero, "f64");
  nabla_ssa good = nabla_emit_two(t, "andi", finite, real, "i1");
  nabla_ssa r = remainder_of(t, nabla_emit_select(t, good, a, zero, "f64"),
                             nabla_emit_select(t, good, b, infinite, "f64"));
  r = nabla_emit_copysign(t, r, x);
  nabla_ssa some = nabla_emit_two(t, "cmpf une,", r, zero, "f64");
  nabla_ssa r_below = nabla_emit_two(t, "cmpf olt,", r, zero, "f64");
  nabla_ssa y_below = nabla_emit_two(t, "cmpf olt,", y, zero, "f64");
  nabla_ssa other = nabla_emit_two(t, "xori", r_below, y_below, "i1");
  nabla_ssa moved = nabla_emit_two(t, "addf", r, y, "f64");
  nabla_ssa kept = nabla_emit_select(t, other, moved, r, "f64");
  nabla_ssa none = nabla_emit_copysign(t, zero, y);
  return nabla_emit_select(
      t, good, nabla_emit_select(t, some, kept, none, "f64"), nan, "f64");
}

static nabla_ssa modulo(nabla_template *t, const nabla_element *in,
                        const nabla_ssa *x) {
  nabla_ssa is_minus_one = 0;
  if (in->is_float)
    return nabla_emit_from_f64(t, in,
                               float_modulo(t, nabla_emit_to_f64(t, in, x[0]),
                                            nabla_emit_to_f64(t, in, x[1])));
  nabla_ssa y = safe_divisor(t, in, x[1], &is_minus_one);
  if (in->is_unsigned) return nabla_emit_two(t, "remui", x[0], y, in->work);
  nabla_ssa zero = number(t, in, "0");
  nabla_ssa r = nabla_emit_two(t, "remsi", x[0], y, in->work);
  nabla_ssa mixed = nabla_emit_two(t, "xori", r, y, in->work);
  nabla_ssa other = nabla_emit_two(t, "cmpi slt,", mixed, zero, in->work);
  nabla_ssa some = nabla_emit_two(t, "cmpi ne,", r, zero, in->work);
  nabla_ssa move = nabla_emit_two(t, "andi", other, some, "i1");
  nabla_ssa moved = nabla_emit_two(t, "addi", r, y, in->work);
  return nabla_emit_select(t, move, moved, r, in->work);
}
bool nabla_lower_mod(nabla_template *t) { return lower(t, modulo); }
