/* Quarters of a turn in large f32 (Payne and Hanek), for one element: x 2/pi
 * modulo 4 by 128 of the bits of 2/pi, of which a mantissa of 24 bits leaves
 * more than its rest has. transforms/lower/formula_far.c is that of f64. */
#include <inttypes.h>

#include "transforms/cluster/body.h"

enum {
  LEAST = -6, /* the exponents of mantissas of 24 bits, from 2^17 on */
  MOST = 104, /* and of the largest f32 */
  FIRST = 62, /* zeros in front of those bits that x = 1 leaves out */
  STARTS = 3, /* words in which the bits begin */
  WORDS = 3,  /* that have them */
  UNIT = 126, /* bits behind the point */
  WORD = 64,
};

/* 64 zeros, then the bits of 2/pi. */
static const uint64_t two_over_pi[STARTS + WORDS - 1] = {
    0x0000000000000000, 0xA2F9836E4E441529, 0xFC2757D1F534DDC0,
    0xDB6295993C439041, 0xFE5163ABDEBBC561,
};

static nabla_ssa two(nabla_emitter *e, const char *operation, nabla_ssa a,
                     nabla_ssa b, const char *type) {
  return k_op(e, "arith.%s %%v%u, %%v%u : %s", operation, a, b, type);
}

static nabla_ssa number(nabla_emitter *e, int64_t value, const char *type) {
  return k_op(e, "arith.constant %" PRId64 " : %s", value, type);
}

static nabla_ssa with(nabla_emitter *e, const char *operation, nabla_ssa a,
                      int64_t b) {
  return two(e, operation, a, number(e, b, "i64"), "i64");
}

static nabla_ssa wide_with(nabla_emitter *e, const char *operation, nabla_ssa a,
                           int64_t b) {
  return two(e, operation, a, number(e, b, "i128"), "i128");
}

static nabla_ssa wide(nabla_emitter *e, nabla_ssa x) {
  return k_op(e, "arith.extui %%v%u : i64 to i128", x);
}

/* Word `at` behind the word `first` of the table. */
static nabla_ssa word(nabla_emitter *e, nabla_ssa first, int at) {
  nabla_ssa value = number(e, (int64_t)two_over_pi[at], "i64");
  for (int i = 1; i < STARTS; i++) {
    nabla_ssa is_it = with(e, "cmpi eq,", first, i);
    nabla_ssa other = number(e, (int64_t)two_over_pi[at + i], "i64");
    value = k_choice(e, is_it, other, value);
  }
  return value;
}

/* 128 bits of 2/pi from where x = mantissa 2^exponent makes them less than 4.
 */
static nabla_ssa take_bits(nabla_emitter *e, nabla_ssa exponent) {
  nabla_ssa at = with(e, "addi", exponent, FIRST);
  nabla_ssa first = with(e, "shrui", at, 6);
  nabla_ssa shift = with(e, "andi", at, WORD - 1);
  nabla_ssa back = two(e, "subi", number(e, WORD, "i64"), shift, "i64");
  nabla_ssa high = wide_with(e, "shli", wide(e, word(e, first, 0)), WORD);
  high = two(e, "ori", high, wide(e, word(e, first, 1)), "i128");
  high = two(e, "shli", high, wide(e, shift), "i128");
  nabla_ssa low = wide(e, word(e, first, 2));
  return two(e, "ori", high, two(e, "shrui", low, wide(e, back), "i128"),
             "i128");
}

/* |x| 2/pi modulo 4 as 2 + 126 bits, of an f64 that is an f32. */
static nabla_ssa product(nabla_emitter *e, nabla_ssa x) {
  nabla_ssa bits = k_op(e, "arith.bitcast %%v%u : f64 to i64", x);
  nabla_ssa exponent = with(e, "andi", with(e, "shrui", bits, 52), 0x7FF);
  exponent = with(e, "subi", exponent, 1023 + 23);
  exponent = with(e, "maxsi", exponent, LEAST);
  exponent = with(e, "minsi", exponent, MOST);
  nabla_ssa mantissa = with(e, "andi", with(e, "shrui", bits, 29), 0x7FFFFF);
  mantissa = with(e, "ori", mantissa, 0x800000);
  return two(e, "muli", wide(e, mantissa), take_bits(e, exponent), "i128");
}

static nabla_ssa quarters(nabla_emitter *e, nabla_ssa turns) {
  nabla_ssa half = wide_with(e, "shli", number(e, 1, "i128"), UNIT - 1);
  return wide_with(e, "shrui", two(e, "addi", turns, half, "i128"), UNIT);
}

static nabla_ssa with_sign_of(nabla_emitter *e, nabla_ssa y, nabla_ssa x) {
  nabla_ssa zero = k_op(e, "arith.constant 0.0 : f64");
  nabla_ssa below = two(e, "cmpf olt,", x, zero, "f64");
  nabla_ssa other = k_op(e, "arith.negf %%v%u : f64", y);
  return k_op(e, "arith.select %%v%u, %%v%u, %%v%u : f64", below, other, y);
}

nabla_ssa nabla_cluster_far_turns(nabla_cluster_body *b, nabla_ssa x) {
  nabla_emitter *e = b->e;
  nabla_ssa n =
      k_op(e, "arith.trunci %%v%u : i128 to i64", quarters(e, product(e, x)));
  return with_sign_of(e, k_op(e, "arith.sitofp %%v%u : i64 to f64", n), x);
}

/* Not finite: NaN. The high 64 bits are at least 32 of the rest, as no f32 is
 * nearer to a quarter than 2^-30. */
nabla_ssa nabla_cluster_far_rest(nabla_cluster_body *b, nabla_ssa x) {
  nabla_emitter *e = b->e;
  nabla_ssa turns = product(e, x);
  nabla_ssa whole = wide_with(e, "shli", quarters(e, turns), UNIT);
  nabla_ssa rest =
      wide_with(e, "shrui", two(e, "subi", turns, whole, "i128"), WORD);
  rest = k_op(e, "arith.trunci %%v%u : i128 to i64", rest);
  rest = k_op(e, "arith.sitofp %%v%u : i64 to f64", rest);
  nabla_ssa unit = /* 2^-62 pi / 2 */
      k_op(e, "arith.constant 0x3C1921FB54442D18 : f64");
  rest = with_sign_of(e, two(e, "mulf", rest, unit, "f64"), x);
  return two(e, "addf", rest, two(e, "subf", x, x, "f64"), "f64");
}
