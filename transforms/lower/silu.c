/* silu of f64, without libm. Narrower types: kernels/epilogue.h. */
#include "lib/kernels/builder/k.h"
#include "transforms/lower/elements.h"
#include "transforms/lower/lowering.h"

static nabla_ssa constant(nabla_template *t, double value) {
  return k_op(&t->emit, "arith.constant %.17e : f64", value);
}

static nabla_ssa choose(nabla_template *t, nabla_ssa condition, nabla_ssa yes,
                        nabla_ssa no) {
  return nabla_emit_select(t, condition, yes, no, "f64");
}

/* 2^exponent of an i64 within +-1000. */
static nabla_ssa power(nabla_template *t, nabla_ssa exponent) {
  nabla_ssa bits = k_i64(&t->emit, 1023);
  bits = nabla_emit_two(t, "addi", exponent, bits, "i64");
  bits = nabla_emit_two(t, "shli", bits, k_i64(&t->emit, 52), "i64");
  return k_op(&t->emit, "arith.bitcast %%v%u : i64 to f64", bits);
}

/* exp of x in [-800, 0] as a product, since its least values are subnormal or
 * 0 while x times them is not. */
typedef struct exponential {
  nabla_ssa mantissa, scale[2];
} exponential;

static nabla_ssa times_exp(nabla_template *t, nabla_ssa factor,
                           const exponential *e) {
  factor = nabla_emit_two(t, "mulf", factor, e->mantissa, "f64");
  factor = nabla_emit_two(t, "mulf", factor, e->scale[0], "f64");
  return nabla_emit_two(t, "mulf", factor, e->scale[1], "f64");
}

/* x = n ln 2 + r with |r| <= ln 2 / 2, ln 2 in two parts (fdlibm, e_exp.c) of
 * which n times the first is exact; then the series, whose rest is < 2^-57. */
static exponential exp_of(nabla_template *t, nabla_ssa x) {
  exponential e;
  nabla_ssa magic = constant(t, 0x1.8p52);
  nabla_ssa n =
      nabla_emit_two(t, "mulf", x, constant(t, 0x1.71547652b82fep0), "f64");
  n = nabla_emit_two(t, "addf", n, magic, "f64");
  n = nabla_emit_two(t, "subf", n, magic, "f64");
  nabla_ssa high = constant(t, 0x1.62e42feep-1);
  nabla_ssa low = constant(t, 0x1.a39ef35793c76p-33);
  nabla_ssa r = nabla_emit_two(
      t, "subf", x, nabla_emit_two(t, "mulf", n, high, "f64"), "f64");
  r = nabla_emit_two(t, "subf", r, nabla_emit_two(t, "mulf", n, low, "f64"),
                     "f64");
  double factorial = 6227020800.0; /* 13! */
  e.mantissa = constant(t, 1 / factorial);
  for (int i = 13; i > 0; i--) {
    factorial /= i;
    e.mantissa = nabla_emit_two(t, "mulf", e.mantissa, r, "f64");
    e.mantissa = nabla_emit_two(t, "addf", e.mantissa,
                                constant(t, 1 / factorial), "f64");
  }
  n = k_op(&t->emit, "arith.fptosi %%v%u : f64 to i64", n);
  nabla_ssa one = k_i64(&t->emit, 1);
  nabla_ssa half = nabla_emit_two(t, "shrsi", n, one, "i64");
  e.scale[0] = power(t, half);
  e.scale[1] = power(t, nabla_emit_two(t, "subi", n, half, "i64"));
  return e;
}

/* x / (1 + e) for x >= 0, x e / (1 + e) below, with e = exp(-|x|), which never
 * overflows. Below -800 the result is -0; NaN passes every comparison. */
nabla_ssa nabla_emit_silu_f64(nabla_template *t, nabla_ssa x) {
  nabla_ssa zero = constant(t, 0), limit = constant(t, -800);
  nabla_ssa inside = nabla_emit_two(t, "cmpf uge,", x, limit, "f64");
  x = choose(t, inside, x, limit);
  nabla_ssa below = nabla_emit_two(t, "cmpf olt,", x, zero, "f64");
  nabla_ssa negative =
      choose(t, below, x, nabla_emit_two(t, "subf", zero, x, "f64"));
  inside = nabla_emit_two(t, "cmpf oge,", negative, limit, "f64");
  negative = choose(t, inside, negative, limit);
  exponential e = exp_of(t, negative);
  nabla_ssa one = constant(t, 1);
  nabla_ssa bottom =
      nabla_emit_two(t, "addf", one, times_exp(t, one, &e), "f64");
  nabla_ssa top = choose(t, below, times_exp(t, x, &e), x);
  return nabla_emit_two(t, "divf", top, bottom, "f64");
}
