/* Quarters of a turn in numbers of any size (Payne and Hanek): x 2/pi modulo 4
 * by the bits of 2/pi that matter, in integers. */
#include "transforms/lower/formula_far.h"

#include <inttypes.h>

#include "lib/kernels/builder/k.h"

/* 64 zeros, then the bits of 2/pi. */
static const uint64_t two_over_pi[] = {
    0x0000000000000000, 0xA2F9836E4E441529, 0xFC2757D1F534DDC0,
    0xDB6295993C439041, 0xFE5163ABDEBBC561, 0xB7246E3A424DD2E0,
    0x06492EEA09D1921C, 0xFE1DEB1CB129A73E, 0xE88235F52EBB4484,
    0xE99C7026B45F7E41, 0x3991D639835339F4, 0x9C845F8BBDF9283B,
    0x1FF897FFDE05980F, 0xEF2F118B5A0A6D1F, 0x6D367ECF27CB09B7,
    0x4F463F669E5FEA2D, 0x7527BAC7EBE5F17B, 0x3D0739F78A5292EA,
    0x6BFB5FB11F8D5D08, 0x56033046FC7B6BAB, 0xF0CFBC209AF4361D,
};
#define WORDS (sizeof two_over_pi / sizeof *two_over_pi)

static nabla_ssa binary(nabla_template *t, const char *operation, nabla_ssa a,
                        nabla_ssa b) {
  return k_op(&t->emit, "arith.%s %%v%u, %%v%u : i64", operation, a, b);
}

static nabla_ssa with(nabla_template *t, const char *operation, nabla_ssa a,
                      uint64_t b) {
  return binary(t, operation, a, k_i64(&t->emit, b));
}

/* The table as a tensor. */
static nabla_ssa table_of(nabla_template *t) {
  nabla_ssa table = ++t->emit.last;
  nabla_text_add(&t->text, "  %%v%u = arith.constant dense<[", table);
  for (size_t i = 0; i < WORDS; i++)
    nabla_text_add(&t->text, "%s0x%016" PRIX64, i ? ", " : "", two_over_pi[i]);
  nabla_text_add(&t->text, "]> : tensor<%zuxi64>\n", WORDS);
  return table;
}

static nabla_ssa word(nabla_template *t, nabla_ssa table, nabla_ssa index) {
  index = k_op(&t->emit, "arith.index_cast %%v%u : i64 to index", index);
  return k_op(&t->emit, "tensor.extract %%v%u[%%v%u] : tensor<%zuxi64>", table,
              index, WORDS);
}

/* Low and high half of a product. */
static void multiply(nabla_template *t, nabla_ssa a, nabla_ssa b,
                     nabla_ssa out[2]) {
  out[0] = ++t->emit.last;
  out[1] = ++t->emit.last;
  k_line(&t->emit, "%%v%u, %%v%u = arith.mului_extended %%v%u, %%v%u : i64",
         out[0], out[1], a, b);
}

/* 192 bits of 2/pi from where x = mantissa 2^e makes them less than 4: `e` - 2
 * bits are left out. Words from high to low. */
static void take_bits(nabla_template *t, nabla_ssa exponent, nabla_ssa out[3]) {
  nabla_ssa words[4], table = table_of(t);
  nabla_ssa at = with(t, "addi", exponent, 62);
  nabla_ssa first = with(t, "shrui", at, 6), shift = with(t, "andi", at, 63);
  nabla_ssa back = binary(t, "subi", k_i64(&t->emit, 63), shift);
  for (unsigned i = 0; i < 4; i++)
    words[i] = word(t, table, with(t, "addi", first, i));
  for (unsigned i = 0; i < 3; i++) {
    nabla_ssa low = binary(t, "shrui", with(t, "shrui", words[i + 1], 1), back);
    out[i] = binary(t, "ori", binary(t, "shli", words[i], shift), low);
  }
}

/* |x| 2/pi modulo 4 as 2 + 62 bits, and 64 more. */
static void product(nabla_template *t, nabla_ssa x, nabla_ssa out[2]) {
  nabla_ssa bits = k_op(&t->emit, "arith.bitcast %%v%u : f64 to i64", x);
  nabla_ssa exponent =
      with(t, "andi", with(t, "shrui", bits, 52), UINT64_C(0x7FF));
  exponent = with(t, "subi", exponent, 1075);
  exponent = with(t, "maxsi", exponent, (uint64_t)-60);
  nabla_ssa mantissa = with(t, "andi", bits, (UINT64_C(1) << 52) - 1);
  mantissa = with(t, "ori", mantissa, UINT64_C(1) << 52);
  nabla_ssa pi[3], low[2], middle[2];
  take_bits(t, exponent, pi);
  multiply(t, mantissa, pi[2], low);
  multiply(t, mantissa, pi[1], middle);
  out[1] = binary(t, "addi", middle[0], low[1]);
  nabla_ssa carries = binary(t, "cmpi ult,", out[1], low[1]);
  nabla_ssa carry = k_op(&t->emit, "arith.extui %%v%u : i1 to i64", carries);
  out[0] = binary(t, "muli", mantissa, pi[0]);
  out[0] = binary(t, "addi", out[0], middle[1]);
  out[0] = binary(t, "addi", out[0], carry);
}

static nabla_ssa quarters(nabla_template *t, nabla_ssa high) {
  nabla_ssa half = with(t, "addi", high, UINT64_C(1) << 61);
  return with(t, "shrui", half, 62);
}

static nabla_ssa with_sign_of(nabla_template *t, nabla_ssa y, nabla_ssa x) {
  nabla_ssa zero = k_op(&t->emit, "arith.constant 0.0 : f64");
  nabla_ssa below =
      k_op(&t->emit, "arith.cmpf olt, %%v%u, %%v%u : f64", x, zero);
  nabla_ssa other = k_op(&t->emit, "arith.negf %%v%u : f64", y);
  return k_op(&t->emit, "arith.select %%v%u, %%v%u, %%v%u : f64", below, other,
              y);
}

nabla_ssa nabla_emit_far_turns(nabla_template *t, const nabla_ssa *x) {
  nabla_ssa bits[2];
  product(t, x[0], bits);
  nabla_ssa n =
      k_op(&t->emit, "arith.uitofp %%v%u : i64 to f64", quarters(t, bits[0]));
  return with_sign_of(t, n, x[0]);
}

static nabla_ssa times(nabla_template *t, nabla_ssa x, const char *factor) {
  nabla_ssa y = k_op(&t->emit, "arith.constant %s : f64", factor);
  return k_op(&t->emit, "arith.mulf %%v%u, %%v%u : f64", x, y);
}

/* Not finite: NaN. */
nabla_ssa nabla_emit_far_rest(nabla_template *t, const nabla_ssa *x) {
  nabla_ssa bits[2];
  product(t, x[0], bits);
  nabla_ssa whole = with(t, "shli", quarters(t, bits[0]), 62);
  nabla_ssa high = k_op(&t->emit, "arith.sitofp %%v%u : i64 to f64",
                        binary(t, "subi", bits[0], whole));
  nabla_ssa low = k_op(&t->emit, "arith.uitofp %%v%u : i64 to f64", bits[1]);
  high = times(t, high, "0x3C10000000000000"); /* 2^-62 */
  low = times(t, low, "0x3810000000000000");   /* 2^-126 */
  nabla_ssa sum = k_op(&t->emit, "arith.addf %%v%u, %%v%u : f64", high, low);
  sum = with_sign_of(t, times(t, sum, "0x3FF921FB54442D18"), x[0]);
  nabla_ssa nothing =
      k_op(&t->emit, "arith.subf %%v%u, %%v%u : f64", x[0], x[0]);
  return k_op(&t->emit, "arith.addf %%v%u, %%v%u : f64", sum, nothing);
}
