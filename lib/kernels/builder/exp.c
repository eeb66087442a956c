/* The exponential function of f32; see exp.h. x = n ln 2 + r with |r| at most
 * ln 2 / 2, and e^x = 2^n e^r. */
#include "lib/kernels/builder/exp.h"

#include <stddef.h>

#include "lib/kernels/builder/k.h"

/* e^r is 1 + r + r^2 times this polynomial, highest power first: Cephes, expf.c
 * (S. L. Moshier), whose error is 2^-26 of e^r. */
static const double coefficients[] = {
    1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3,
    4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1,
};
#define COEFFICIENTS (sizeof coefficients / sizeof *coefficients)

/* ln 2 in two parts, of which n times the first is exact (Cephes). */
#define LN2_HIGH 0.693359375
#define LN2_LOW  -2.12194440e-4

/* Adding it to a float below 2^22 in size rounds to an integer. */
#define TO_INTEGER 0x1.8p23

/* Beyond these the result is 0 or infinity. */
#define LEAST -104.0
#define MOST  89.0

/* x where it compares so with `limit`, else `limit`; NaN stays. */
static nabla_ssa clamp(nabla_emitter *e, nabla_shape shape, const char *how,
                       nabla_ssa x, double limit) {
  nabla_ssa bound = k_f32(e, shape, limit);
  nabla_ssa keep = k_op(e, "arith.cmpf %s, %%v%u, %%v%u : %s", how, x, bound,
                        nabla_type_f32[shape]);
  return k_select(e, shape, keep, x, bound);
}

/* 2^n as f32, for n in [-126, 127]. */
static nabla_ssa power(nabla_emitter *e, nabla_shape shape, nabla_ssa n) {
  n = k_i32_with(e, shape, "addi", n, 127);
  n = k_i32_with(e, shape, "shli", n, 23);
  return k_op(e, "arith.bitcast %%v%u : %s to %s", n, nabla_type_i32[shape],
              nabla_type_f32[shape]);
}

/* e^r. */
static nabla_ssa series(nabla_emitter *e, nabla_shape shape, nabla_ssa r) {
  nabla_ssa sum = k_f32(e, shape, coefficients[0]);
  for (size_t i = 1; i < COEFFICIENTS; i++)
    sum = k_fma(e, shape, sum, r, k_f32(e, shape, coefficients[i]));
  nabla_ssa square = k_binary(e, shape, "mulf", r, r);
  sum = k_fma(e, shape, sum, square, r);
  return k_binary(e, shape, "addf", sum, k_f32(e, shape, 1));
}

/* 2^n is multiplied in two halves: it may be subnormal, or beyond the largest
 * float where the product is not. */
nabla_ssa nabla_emit_exp(nabla_emitter *e, nabla_shape shape, nabla_ssa x) {
  x = clamp(e, shape, "uge", x, LEAST);
  x = clamp(e, shape, "ule", x, MOST);
  nabla_ssa magic = k_f32(e, shape, TO_INTEGER);
  nabla_ssa shifted = k_fma(e, shape, x, k_f32(e, shape, 0x1.715476p0), magic);
  nabla_ssa n = k_binary(e, shape, "subf", shifted, magic);
  nabla_ssa r = k_fma(e, shape, n, k_f32(e, shape, -LN2_HIGH), x);
  r = k_fma(e, shape, n, k_f32(e, shape, -LN2_LOW), r);
  nabla_ssa bits = k_op(e, "arith.bitcast %%v%u : %s to %s", shifted,
                        nabla_type_f32[shape], nabla_type_i32[shape]);
  nabla_ssa whole = k_i32_with(e, shape, "subi", bits, 0x4b400000);
  nabla_ssa half = k_i32_with(e, shape, "shrsi", whole, 1);
  nabla_ssa rest = k_i32_binary(e, shape, "subi", whole, half);
  nabla_ssa result =
      k_binary(e, shape, "mulf", series(e, shape, r), power(e, shape, half));
  return k_binary(e, shape, "mulf", result, power(e, shape, rest));
}
