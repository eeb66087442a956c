/* Factors of all parts of a GGUF block at once; see dequantize_ggml.h. */
#include "lib/kernels/builder/k.h"
#include "lib/kernels/dequant/dequantize_ggml.h"

static const nabla_ggml_layout *layout_of(const nabla_emitter *e) {
  return e->spec->w.ggml->layout;
}

nabla_ssa nabla_emit_ggml_word(nabla_emitter *e, nabla_ssa base, uint32_t at) {
  return k_load(e, "i32", e->codes, k_add_constant(e, base, at), 1);
}

static nabla_ssa i32_with(nabla_emitter *e, const char *operation, nabla_ssa a,
                          uint32_t value) {
  return k_i32_with(e, NABLA_SCALAR, operation, a, value);
}

nabla_ssa nabla_emit_ggml_first_four(nabla_emitter *e, nabla_ssa word) {
  return i32_with(e, "andi", word, 0x3f3f3f3f);
}

nabla_ssa nabla_emit_ggml_last_four(nabla_emitter *e, nabla_ssa low,
                                    nabla_ssa high) {
  high = i32_with(e, "shrui", high, 2);
  high = i32_with(e, "andi", high, 0x30303030);
  low = i32_with(e, "andi", low, 0x0f0f0f0f);
  return k_i32_binary(e, NABLA_SCALAR, "ori", low, high);
}

/* Eight numbers of 6 bits, a byte each. */
static nabla_ssa eight(nabla_emitter *e, nabla_ssa first, nabla_ssa last) {
  nabla_ssa word[2] = {nabla_emit_ggml_first_four(e, first), last};
  for (int i = 0; i < 2; i++)
    word[i] = k_op(e, "arith.extui %%v%u : i32 to i64", word[i]);
  word[1] = k_op(e, "arith.shli %%v%u, %%v%u : i64", word[1], k_i64(e, 32));
  nabla_ssa both = k_op(e, "arith.ori %%v%u, %%v%u : i64", word[0], word[1]);
  return k_op(e, "llvm.bitcast %%v%u : i64 to vector<8xi8>", both);
}

nabla_ssa nabla_emit_ggml_bytes(nabla_emitter *e, const char *extend,
                                nabla_ssa bytes) {
  nabla_ssa number = k_op(e, "arith.%s %%v%u : vector<16xi8> to vector<16xi32>",
                          extend, bytes);
  return k_op(e, "arith.sitofp %%v%u : vector<16xi32> to vector<16xf32>",
              number);
}

/* Numbers of PACKED6 (quant/codec/ggml_decode.c), factors and minima
 * interleaved. */
static nabla_ssa packed6(nabla_emitter *e, nabla_ssa base) {
  uint32_t at = layout_of(e)->sub_at;
  nabla_ssa f = nabla_emit_ggml_word(e, base, at),
            m = nabla_emit_ggml_word(e, base, at + 4);
  nabla_ssa both = nabla_emit_ggml_word(e, base, at + 8);
  nabla_ssa factors = eight(e, f, nabla_emit_ggml_last_four(e, both, f));
  nabla_ssa minima = eight(
      e, m, nabla_emit_ggml_last_four(e, i32_with(e, "shrui", both, 4), m));
  nabla_ssa interleaved =
      k_op(e,
           "vector.interleave %%v%u, %%v%u : vector<8xi8> -> "
           "vector<16xi8>",
           factors, minima);
  return nabla_emit_ggml_bytes(e, "extui", interleaved);
}

nabla_ssa nabla_emit_ggml_half_lanes(nabla_emitter *e, nabla_ssa byte) {
  nabla_ssa half = k_load(e, "i16", e->codes, byte, 1);
  return k_widen(e, NABLA_VECTOR, NABLA_DTYPE_F16, k_broadcast(e, "i16", half));
}

/* The factor and the minimum of the block, which follows it, interleaved, the
 * minimum negative. */
static nabla_ssa interleaved_halves(nabla_emitter *e, nabla_ssa base) {
  uint32_t signs[NABLA_LANES];
  for (uint32_t i = 0; i < NABLA_LANES; i++) signs[i] = i % 2 * 0x80000000u;
  nabla_ssa both = nabla_emit_ggml_word(e, base, layout_of(e)->d);
  both = k_op(e, "vector.broadcast %%v%u : i32 to vector<8xi32>", both);
  both =
      k_op(e, "vector.bitcast %%v%u : vector<8xi32> to vector<16xi16>", both);
  both = k_widen(e, NABLA_VECTOR, NABLA_DTYPE_F16, both);
  both =
      k_op(e, "arith.bitcast %%v%u : vector<16xf32> to vector<16xi32>", both);
  both = k_i32_binary(e, NABLA_VECTOR, "xori", both, k_i32_lanes(e, signs));
  return k_op(e, "arith.bitcast %%v%u : vector<16xi32> to vector<16xf32>",
              both);
}

nabla_ssa nabla_emit_ggml_sub_lanes(nabla_emitter *e, nabla_ssa base) {
  const nabla_ggml_layout *l = layout_of(e);
  if (l->sub == NABLA_GGML_SUB_PACKED6)
    return k_binary(e, NABLA_VECTOR, "mulf", packed6(e, base),
                    interleaved_halves(e, base));
  nabla_ssa raw = k_load(e, "vector<16xi8>", e->codes,
                         k_add_constant(e, base, l->sub_at), 1);
  nabla_ssa by = nabla_emit_ggml_half_lanes(e, k_add_constant(e, base, l->d));
  return k_binary(e, NABLA_VECTOR, "mulf",
                  nabla_emit_ggml_bytes(e, "extsi", raw), by);
}
