/* Functions in kernels of clusters: formulas of vectors and scalars, in f32 or
 * f64. A row of math.def says how a function of f32 is computed; one without a
 * row is computed by its formula of formulas.def, in f64. No product and sum
 * are fused, so that targets agree. */
#include <stdio.h>
#include <string.h>

#include "lib/kernels/dequant/dequantize.h"
#include "transforms/cluster/body.h"
#include "transforms/formula/formula_tree.h"

typedef struct writer {
  nabla_cluster_body *b;
  bool is_wide; /* f64 */
} writer;

static const char *type_of(const writer *w) {
  static const char *const types[2][2] = {{"f32", "vector<16xf32>"},
                                          {"f64", "vector<16xf64>"}};
  return types[w->is_wide][w->b->shape];
}

static const char *bits_type(const writer *w) {
  static const char *const types[2][2] = {{"i32", "vector<16xi32>"},
                                          {"i64", "vector<16xi64>"}};
  return types[w->is_wide][w->b->shape];
}

static nabla_ssa two(const writer *w, const char *operation, nabla_ssa x,
                     nabla_ssa y) {
  return k_op(w->b->e, "arith.%s %%v%u, %%v%u : %s", operation, x, y,
              type_of(w));
}

static nabla_ssa number(const writer *w, double value) {
  return nabla_cluster_float(
      w->b,
      nabla_cluster_lane_of(w->is_wide ? NABLA_DTYPE_F64 : NABLA_DTYPE_F32),
      value);
}

static nabla_ssa integer(const writer *w, uint64_t value) {
  return k_op(w->b->e,
              w->b->shape == NABLA_SCALAR ? "arith.constant %lld : %s"
                                          : "arith.constant dense<%lld> : %s",
              w->is_wide ? (long long)value : (long long)(int32_t)value,
              bits_type(w));
}

static nabla_ssa with_integer(const writer *w, const char *operation,
                              nabla_ssa bits, uint64_t value) {
  return k_op(w->b->e, "arith.%s %%v%u, %%v%u : %s", operation, bits,
              integer(w, value), bits_type(w));
}

static nabla_ssa bits_of(const writer *w, nabla_ssa x) {
  return k_op(w->b->e, "arith.bitcast %%v%u : %s to %s", x, type_of(w),
              bits_type(w));
}

static nabla_ssa of_bits(const writer *w, nabla_ssa x) {
  return k_op(w->b->e, "arith.bitcast %%v%u : %s to %s", x, bits_type(w),
              type_of(w));
}

/* Of the float type: bits of the mantissa, the bias of the exponent. */
static unsigned mantissa_bits(const writer *w) { return w->is_wide ? 52 : 23; }
static uint64_t bias(const writer *w) { return w->is_wide ? 1023 : 127; }
static uint64_t sign_bit(const writer *w) {
  return UINT64_C(1) << (w->is_wide ? 63 : 31);
}
/* Added to a whole number, its low bits are that number. */
static double magic(const writer *w) {
  return w->is_wide ? 0x1.8p52 : 0x1.8p23;
}

static nabla_ssa choose(const writer *w, nabla_ssa condition, nabla_ssa yes,
                        nabla_ssa no) {
  return k_op(w->b->e, "arith.select %%v%u, %%v%u, %%v%u : %s%s", condition,
              yes, no, w->b->shape == NABLA_SCALAR ? "" : "vector<16xi1>, ",
              type_of(w));
}

static nabla_ssa emit_abs(const writer *w, const nabla_ssa *x) {
  return of_bits(w, with_integer(w, "andi", bits_of(w, x[0]), sign_bit(w) - 1));
}

static nabla_ssa emit_sqrt(const writer *w, const nabla_ssa *x) {
  return k_op(w->b->e, "llvm.intr.sqrt(%%v%u) : (%s) -> %s", x[0], type_of(w),
              type_of(w));
}

/* Of f64 a choice, not bits put together: LLVM would make them its copysign,
 * as transforms/lower/formula.c says. */
static nabla_ssa emit_copysign(const writer *w, const nabla_ssa *x) {
  nabla_ssa above = emit_abs(w, x), bits = bits_of(w, x[1]);
  if (w->is_wide) {
    nabla_ssa below = with_integer(w, "cmpi slt,", bits, 0);
    nabla_ssa minus = k_op(w->b->e, "arith.negf %%v%u : %s", above, type_of(w));
    return choose(w, below, minus, above);
  }
  nabla_ssa sign = with_integer(w, "andi", bits, sign_bit(w));
  return of_bits(w, k_op(w->b->e, "arith.ori %%v%u, %%v%u : %s",
                         bits_of(w, above), sign, bits_type(w)));
}

static nabla_ssa emit_rint(const writer *w, const nabla_ssa *x) {
  nabla_ssa m = number(w, magic(w));
  return two(w, "subf", two(w, "addf", x[0], m), m);
}

/* The bits of x + magic end in x + bias, which becomes the exponent. */
static nabla_ssa emit_power(const writer *w, const nabla_ssa *x) {
  nabla_ssa n = bits_of(w, two(w, "addf", x[0], number(w, magic(w))));
  n = with_integer(w, "addi", n, bias(w));
  return of_bits(w, with_integer(w, "shli", n, mantissa_bits(w)));
}

/* n limited to what two steps reach. */
static nabla_ssa limit(const writer *w, nabla_ssa n) {
  nabla_ssa high = number(w, 2000), low = number(w, -2000);
  n = choose(w, two(w, "cmpf olt,", n, high), n, high);
  return choose(w, two(w, "cmpf ogt,", n, low), n, low);
}

/* In two steps, since 2^n may be out of range while the product is not. Of
 * vectors of f32 AVX-512 has an instruction, with the same result. */
static nabla_ssa emit_scale(const writer *w, const nabla_ssa *x) {
  nabla_emitter *e = w->b->e;
  if (!w->is_wide && w->b->shape == NABLA_VECTOR &&
      NABLA_HAS(e->spec->features, AVX512F))
    return k_op(
        e,
        "llvm.call_intrinsic \"llvm.ldexp\"(%%v%u, %%v%u) : (vector<16xf32>, "
        "vector<16xi32>) -> vector<16xf32>",
        x[0],
        k_op(e, "arith.fptosi %%v%u : vector<16xf32> to vector<16xi32>", x[1]));
  nabla_ssa n = w->is_wide ? limit(w, x[1]) : x[1];
  nabla_ssa half = two(w, "mulf", n, number(w, 0.5));
  half = emit_rint(w, &half);
  nabla_ssa rest = two(w, "subf", n, half);
  return two(w, "mulf", two(w, "mulf", x[0], emit_power(w, &half)),
             emit_power(w, &rest));
}

/* Exponent bits as the low bits of 2^mantissa_bits, from which it is taken. */
static nabla_ssa emit_exponent(const writer *w, const nabla_ssa *x) {
  const double one = w->is_wide ? 0x1p52 : 0x1p23;
  nabla_ssa bits = with_integer(w, "shrui", bits_of(w, x[0]), mantissa_bits(w));
  bits = with_integer(w, "ori", bits,
                      (bias(w) + mantissa_bits(w)) << mantissa_bits(w));
  return two(w, "subf", of_bits(w, bits), number(w, one + (double)bias(w)));
}

static nabla_ssa emit_mantissa(const writer *w, const nabla_ssa *x) {
  nabla_ssa bits = with_integer(w, "andi", bits_of(w, x[0]),
                                (UINT64_C(1) << mantissa_bits(w)) - 1);
  return of_bits(w, with_integer(w, "ori", bits, bias(w) << mantissa_bits(w)));
}

/* 27 low bits of f64 are cleared, 12 of f32. */
static nabla_ssa emit_head(const writer *w, const nabla_ssa *x) {
  return of_bits(w, with_integer(w, "andi", bits_of(w, x[0]),
                                 UINT64_MAX << (w->is_wide ? 27 : 12)));
}

static nabla_ssa emit_far_turns(const writer *w, const nabla_ssa *x) {
  return nabla_cluster_far_turns(w->b, x[0]);
}

static nabla_ssa emit_far_rest(const writer *w, const nabla_ssa *x) {
  return nabla_cluster_far_rest(w->b, x[0]);
}

/* Horner's rule. */
static nabla_ssa polynomial(const writer *w, const nabla_ssa *x, int count) {
  if (count < 2) return x[0];
  nabla_ssa sum = x[count - 1];
  for (int i = count - 2; i > 0; i--)
    sum = two(w, "addf", two(w, "mulf", sum, x[0]), x[i]);
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
  const writer *w = self;
  return of_ssa(k_op(w->b->e, "arith.negf %%v%u : %s", x.ssa, type_of(w)));
}

static nabla_formula_value on_arithmetic(void *self, char sign,
                                         const nabla_formula_value x[2]) {
  return of_ssa(
      two(self, nabla_formula_arithmetic_f(sign), x[0].ssa, x[1].ssa));
}

static nabla_formula_value on_compare(void *self, nabla_formula_comparison how,
                                      const nabla_formula_value x[2]) {
  return of_ssa(two(self, nabla_formula_comparison_f(how), x[0].ssa, x[1].ssa));
}

static nabla_formula_value on_select(void *self,
                                     const nabla_formula_value x[3]) {
  return of_ssa(choose(self, x[0].ssa, x[1].ssa, x[2].ssa));
}

static nabla_formula_value on_word(void *self, nabla_formula_word word,
                                   int count, const nabla_formula_value *x) {
  static nabla_ssa (*const words[])(const writer *w, const nabla_ssa *x) = {
      [NABLA_WORD_abs] = emit_abs,
      [NABLA_WORD_sqrt] = emit_sqrt,
      [NABLA_WORD_copysign] = emit_copysign,
      [NABLA_WORD_rint] = emit_rint,
      [NABLA_WORD_power] = emit_power,
      [NABLA_WORD_scale] = emit_scale,
      [NABLA_WORD_exponent] = emit_exponent,
      [NABLA_WORD_mantissa] = emit_mantissa,
      [NABLA_WORD_head] = emit_head,
      [NABLA_WORD_far_turns] = emit_far_turns,
      [NABLA_WORD_far_rest] = emit_far_rest,
  };
  nabla_ssa operands[NABLA_FORMULA_MAX_OPERANDS] = {0};
  for (int i = 0; i < count; i++) operands[i] = x[i].ssa;
  if (word == NABLA_WORD_poly) return of_ssa(polynomial(self, operands, count));
  return of_ssa(words[word](self, operands));
}

static nabla_ssa convert(writer *w, const char *operation, nabla_ssa x) {
  static const char *const types[2][2] = {{"f32", "vector<16xf32>"},
                                          {"f64", "vector<16xf64>"}};
  const bool up = operation[0] == 'e';
  return k_op(w->b->e, "arith.%s %%v%u : %s to %s", operation, x,
              types[!up][w->b->shape], types[up][w->b->shape]);
}

static nabla_ssa evaluate(nabla_cluster_body *b, const nabla_formula *formula,
                          bool is_wide, const nabla_ssa *x);

/* Of a row in the other type: its arguments and its result are converted. */
static bool on_call(void *self, const nabla_formula *callee, int count,
                    const nabla_formula_value *x, nabla_formula_value *out) {
  writer *w = self;
  const bool is_wide = nabla_formula_is_wide(callee);
  if (is_wide == w->is_wide) return false;
  nabla_ssa operands[NABLA_FORMULA_MAX_OPERANDS] = {0};
  for (int i = 0; i < count; i++)
    operands[i] = convert(w, is_wide ? "extf" : "truncf", x[i].ssa);
  *out = of_ssa(convert(w, is_wide ? "truncf" : "extf",
                        evaluate(w->b, callee, is_wide, operands)));
  return true;
}

/* The first 4 of the last 21 bits and more: lookups take the low bits of 4. */
static nabla_formula_value on_table(void *self, const float *numbers,
                                    nabla_formula_value x) {
  const writer *w = self;
  nabla_emitter *e = w->b->e;
  nabla_ssa at = with_integer(w, "shrui", bits_of(w, x.ssa), 21);
  if (w->b->shape == NABLA_VECTOR)
    return of_ssa(nabla_emit_table_lookup_of(e, numbers, at));
  at = nabla_emit_table_lookup_of(e, numbers, k_broadcast(e, "i32", at));
  return of_ssa(
      k_op(e, "vector.extract %%v%u[0] : f32 from vector<16xf32>", at));
}

static nabla_ssa evaluate(nabla_cluster_body *b, const nabla_formula *formula,
                          bool is_wide, const nabla_ssa *x) {
  static const nabla_formula_emitter emitter = {
      .number = on_number,
      .negate = on_negate,
      .arithmetic = on_arithmetic,
      .compare = on_compare,
      .select = on_select,
      .word = on_word,
      .call = on_call,
      .table = on_table,
  };
  writer w = {.b = b, .is_wide = is_wide};
  nabla_formula_value values[NABLA_FORMULA_MAX_OPERANDS] = {{0}};
  for (int i = 0; i < nabla_formula_argument_count(formula); i++)
    values[i].ssa = x[i];
  return nabla_formula_evaluate(formula, &emitter, &w, values).ssa;
}

/* ---- rows of two ranges ---- */

/* Where a row ID_far begins. */
#define FAR 0x1p17

static const nabla_formula *far_row_of(const char *name) {
  char far[32];
  (void)snprintf(far, sizeof far, "%s_far", name);
  return nabla_formula_of_f32(far);
}

/* Lane `i` of x, or x. */
static nabla_ssa lane(const writer *w, nabla_ssa x, nabla_ssa i) {
  return w->b->shape == NABLA_SCALAR
             ? x
             : k_op(w->b->e,
                    "llvm.extractelement %%v%u[%%v%u : i64] : vector<16xf32>",
                    x, i);
}

static nabla_ssa with_lane(const writer *w, nabla_ssa y, nabla_ssa value,
                           nabla_ssa i) {
  return w->b->shape == NABLA_SCALAR
             ? value
             : k_op(w->b->e,
                    "llvm.insertelement %%v%u, %%v%u[%%v%u : i64] : "
                    "vector<16xf32>",
                    value, y, i);
}

static nabla_ssa is_far(const writer *w, nabla_ssa x) {
  return two(w, "cmpf oge,", emit_abs(w, &x), number(w, FAR));
}

/* y = f(x), with the elements of another row where |x| is large: a loop over
 * lanes, which runs zero times if no lane is far. */
static nabla_ssa with_far(const writer *w, const nabla_formula *far,
                          nabla_ssa x, nabla_ssa y) {
  nabla_emitter *e = w->b->e;
  const nabla_shape shape = w->b->shape;
  const char *const types[] = {type_of(w)};
  nabla_ssa any = is_far(w, x);
  nabla_loop loop;
  if (shape == NABLA_VECTOR)
    any = k_op(e, "vector.reduction <or>, %%v%u : vector<16xi1> into i1", any);
  nabla_ssa lanes = k_i64(e, shape == NABLA_VECTOR ? NABLA_LANES : 1);
  nabla_ssa turns = k_choice(e, any, lanes, k_i64(e, 0));
  k_loop_begin_of(e, &loop, k_i64(e, 0), turns, 1, 1, &y, types);
  nabla_ssa x_i = lane(w, x, loop.induction);
  nabla_ssa y_i = lane(w, loop.carried[0], loop.induction);
  w->b->shape = NABLA_SCALAR;
  writer wide = {.b = w->b, .is_wide = true};
  const nabla_ssa operands[NABLA_FORMULA_MAX_OPERANDS] = {
      convert(&wide, "extf", x_i)};
  nabla_ssa z = evaluate(w->b, far, true, operands);
  y_i = choose(w, is_far(w, x_i), convert(&wide, "truncf", z), y_i);
  w->b->shape = shape;
  nabla_ssa next = with_lane(w, loop.carried[0], y_i, loop.induction);
  k_loop_end(e, &loop, &next);
  return loop.results[0];
}

nabla_ssa nabla_cluster_function(nabla_cluster_body *b, const char *name,
                                 const nabla_ssa *x) {
  const bool is_f64 = b->lane->dtype == NABLA_DTYPE_F64;
  const nabla_formula *formula = is_f64 ? NULL : nabla_formula_of_f32(name);
  writer w = {.b = b};
  nabla_ssa operands[2] = {0};
  if (!formula) formula = nabla_formula_find(name);
  const bool is_wide = nabla_formula_is_wide(formula);
  for (int i = 0; i < nabla_formula_argument_count(formula); i++)
    operands[i] = is_wide && !is_f64 ? convert(&w, "extf", x[i]) : x[i];
  nabla_ssa y = evaluate(b, formula, is_wide, operands);
  if (is_wide && !is_f64) y = convert(&w, "truncf", y);
  const nabla_formula *far = is_f64 ? NULL : far_row_of(name);
  return far ? with_far(&w, far, x[0], y) : y;
}
