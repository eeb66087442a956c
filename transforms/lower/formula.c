/* Formulas as code on f64; see formula.h. */
#include "transforms/lower/formula.h"

#include <string.h>

#include "lib/kernels/builder/k.h"
#include "transforms/lower/elements.h"
#include "transforms/lower/formula_far.h"

static nabla_ssa number(nabla_template *t, double value) {
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  return k_op(&t->emit, "arith.constant 0x%016llX : f64",
              (unsigned long long)bits);
}

static nabla_ssa bits_of(nabla_template *t, nabla_ssa x) {
  return k_op(&t->emit, "arith.bitcast %%v%u : f64 to i64", x);
}

static nabla_ssa of_bits(nabla_template *t, nabla_ssa x) {
  return k_op(&t->emit, "arith.bitcast %%v%u : i64 to f64", x);
}

static nabla_ssa with_bits(nabla_template *t, nabla_ssa x, const char *what,
                           uint64_t mask) {
  return nabla_emit_two(t, what, x, k_i64(&t->emit, mask), "i64");
}

static nabla_ssa emit_abs(nabla_template *t, const nabla_ssa *x) {
  return of_bits(t, with_bits(t, bits_of(t, x[0]), "andi", UINT64_MAX >> 1));
}

static nabla_ssa emit_sqrt(nabla_template *t, const nabla_ssa *x) {
  return k_op(&t->emit, "math.sqrt %%v%u : f64", x[0]);
}

/* A choice, not bits put together: LLVM would make them its copysign, whose
 * sign it rounds to f16 where the result is f16, and f64 to f16 is a function
 * of a library that compiled code does not have. */
nabla_ssa nabla_emit_copysign(nabla_template *t, nabla_ssa size,
                              nabla_ssa sign) {
  nabla_ssa zero = k_i64(&t->emit, 0);
  nabla_ssa below =
      nabla_emit_two(t, "cmpi slt,", bits_of(t, sign), zero, "i64");
  nabla_ssa above = emit_abs(t, &size);
  nabla_ssa minus = k_op(&t->emit, "arith.negf %%v%u : f64", above);
  return k_op(&t->emit, "arith.select %%v%u, %%v%u, %%v%u : f64", below, minus,
              above);
}

static nabla_ssa emit_copysign(nabla_template *t, const nabla_ssa *x) {
  return nabla_emit_copysign(t, x[0], x[1]);
}

/* Adding 1.5 2^52 leaves no bits behind the point. */
static nabla_ssa emit_rint(nabla_template *t, const nabla_ssa *x) {
  nabla_ssa magic = number(t, 0x1.8p52);
  return nabla_emit_two(
      t, "subf", nabla_emit_two(t, "addf", x[0], magic, "f64"), magic, "f64");
}

static nabla_ssa power_of_two(nabla_template *t, nabla_ssa exponent) {
  nabla_ssa bits = with_bits(t, exponent, "addi", 1023);
  return of_bits(t, with_bits(t, bits, "shli", 52));
}

/* In two steps, since 2^n may be out of range while the product is not; n of
 * what is not finite is whatever, but in range. */
static nabla_ssa emit_scale(nabla_template *t, const nabla_ssa *x) {
  nabla_ssa n = nabla_emit_two(t, "maxnumf", x[1], number(t, -2000), "f64");
  n = nabla_emit_two(t, "minnumf", n, number(t, 2000), "f64");
  n = k_op(&t->emit, "arith.fptosi %%v%u : f64 to i64", n);
  nabla_ssa half = with_bits(t, n, "shrsi", 1);
  nabla_ssa rest = nabla_emit_two(t, "subi", n, half, "i64");
  nabla_ssa y = nabla_emit_two(t, "mulf", x[0], power_of_two(t, half), "f64");
  return nabla_emit_two(t, "mulf", y, power_of_two(t, rest), "f64");
}

static nabla_ssa emit_power(nabla_template *t, const nabla_ssa *x) {
  return power_of_two(t,
                      k_op(&t->emit, "arith.fptosi %%v%u : f64 to i64", x[0]));
}

static nabla_ssa emit_exponent(nabla_template *t, const nabla_ssa *x) {
  nabla_ssa bits = with_bits(t, bits_of(t, x[0]), "shrui", 52);
  bits = with_bits(t, bits, "subi", 1023);
  return k_op(&t->emit, "arith.sitofp %%v%u : i64 to f64", bits);
}

static nabla_ssa emit_mantissa(nabla_template *t, const nabla_ssa *x) {
  nabla_ssa bits =
      with_bits(t, bits_of(t, x[0]), "andi", (UINT64_C(1) << 52) - 1);
  return of_bits(t, with_bits(t, bits, "ori", UINT64_C(1023) << 52));
}

static nabla_ssa emit_head(nabla_template *t, const nabla_ssa *x) {
  return of_bits(t, with_bits(t, bits_of(t, x[0]), "andi", UINT64_MAX << 27));
}

/* Horner's rule. */
static nabla_ssa polynomial(nabla_template *t, const nabla_ssa *x, int count) {
  if (count < 2) return x[0];
  nabla_ssa sum = x[count - 1];
  for (int i = count - 2; i > 0; i--)
    sum = nabla_emit_two(t, "addf", nabla_emit_two(t, "mulf", sum, x[0], "f64"),
                         x[i], "f64");
  return sum;
}

/* ---- the emitter ---- */

static nabla_formula_value of_ssa(nabla_ssa ssa) {
  return (nabla_formula_value){.ssa = ssa};
}

static nabla_formula_value on_number(void *self, double value) {
  return of_ssa(number(self, value));
}

static nabla_formula_value on_negate(void *self, nabla_formula_value x) {
  nabla_template *t = self;
  return of_ssa(k_op(&t->emit, "arith.negf %%v%u : f64", x.ssa));
}

static nabla_formula_value on_arithmetic(void *self, char sign,
                                         const nabla_formula_value x[2]) {
  return of_ssa(nabla_emit_two(self, nabla_formula_arithmetic_f(sign), x[0].ssa,
                               x[1].ssa, "f64"));
}

static nabla_formula_value on_compare(void *self, nabla_formula_comparison how,
                                      const nabla_formula_value x[2]) {
  return of_ssa(nabla_emit_two(self, nabla_formula_comparison_f(how), x[0].ssa,
                               x[1].ssa, "f64"));
}

static nabla_formula_value on_select(void *self,
                                     const nabla_formula_value x[3]) {
  nabla_template *t = self;
  return of_ssa(k_op(&t->emit, "arith.select %%v%u, %%v%u, %%v%u : f64",
                     x[0].ssa, x[1].ssa, x[2].ssa));
}

static nabla_formula_value on_word(void *self, nabla_formula_word word,
                                   int count, const nabla_formula_value *x) {
  static nabla_ssa (*const words[])(nabla_template *t, const nabla_ssa *x) = {
      [NABLA_WORD_abs] = emit_abs,
      [NABLA_WORD_sqrt] = emit_sqrt,
      [NABLA_WORD_copysign] = emit_copysign,
      [NABLA_WORD_rint] = emit_rint,
      [NABLA_WORD_power] = emit_power,
      [NABLA_WORD_scale] = emit_scale,
      [NABLA_WORD_exponent] = emit_exponent,
      [NABLA_WORD_mantissa] = emit_mantissa,
      [NABLA_WORD_head] = emit_head,
      [NABLA_WORD_far_turns] = nabla_emit_far_turns,
      [NABLA_WORD_far_rest] = nabla_emit_far_rest,
  };
  nabla_ssa operands[NABLA_FORMULA_MAX_OPERANDS] = {0};
  for (int i = 0; i < count; i++) operands[i] = x[i].ssa;
  if (word == NABLA_WORD_poly) return of_ssa(polynomial(self, operands, count));
  return of_ssa(words[word](self, operands));
}

nabla_ssa nabla_formula_emit(nabla_template *t, const nabla_formula *formula,
                             const nabla_ssa *arguments) {
  static const nabla_formula_emitter emitter = {
      .number = on_number,
      .negate = on_negate,
      .arithmetic = on_arithmetic,
      .compare = on_compare,
      .select = on_select,
      .word = on_word,
  };
  nabla_formula_value x[NABLA_FORMULA_MAX_NAMES] = {{0}};
  for (int i = 0; i < nabla_formula_argument_count(formula); i++)
    x[i].ssa = arguments[i];
  return nabla_formula_evaluate(formula, &emitter, t, x).ssa;
}
