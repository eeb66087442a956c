/* Factors of all parts of a GGUF block at once; see dequantize_ggml.h. */
#include "lib/kernels/dequant/dequantize_ggml.h"

static const nabla_ggml_layout *layout_of(const nabla_emitter *emitter) {
  return emitter->spec->ggml->layout;
}

nabla_ssa nabla_emit_ggml_word(nabla_emitter *emitter, nabla_ssa base,
                               uint32_t at) {
  return nabla_emit_load(emitter, "i32", emitter->codes,
                         nabla_emit_add_constant(emitter, base, at), 1);
}

static nabla_ssa i32_with(nabla_emitter *emitter, const char *operation,
                          nabla_ssa a, uint32_t value) {
  return nabla_emit_i32_with(emitter, NABLA_SCALAR, operation, a, value);
}

nabla_ssa nabla_emit_ggml_first_four(nabla_emitter *emitter, nabla_ssa word) {
  return i32_with(emitter, "andi", word, 0x3f3f3f3f);
}

nabla_ssa nabla_emit_ggml_last_four(nabla_emitter *emitter, nabla_ssa low,
                                    nabla_ssa high) {
  high = i32_with(emitter, "shrui", high, 2);
  high = i32_with(emitter, "andi", high, 0x30303030);
  low = i32_with(emitter, "andi", low, 0x0f0f0f0f);
  return nabla_emit_i32_binary(emitter, NABLA_SCALAR, "ori", low, high);
}

/* Eight numbers of 6 bits, a byte each. */
static nabla_ssa eight(nabla_emitter *emitter, nabla_ssa first,
                       nabla_ssa last) {
  nabla_ssa word[2] = {nabla_emit_ggml_first_four(emitter, first), last};
  for (int i = 0; i < 2; i++)
    word[i] = nabla_emit(emitter, "arith.extui %%v%u : i32 to i64", word[i]);
  word[1] = nabla_emit(emitter, "arith.shli %%v%u, %%v%u : i64", word[1],
                       nabla_emit_i64(emitter, 32));
  nabla_ssa both =
      nabla_emit(emitter, "arith.ori %%v%u, %%v%u : i64", word[0], word[1]);
  return nabla_emit(emitter, "llvm.bitcast %%v%u : i64 to vector<8xi8>", both);
}

nabla_ssa nabla_emit_ggml_bytes(nabla_emitter *emitter, const char *extend,
                                nabla_ssa bytes) {
  nabla_ssa number =
      nabla_emit(emitter, "arith.%s %%v%u : vector<16xi8> to vector<16xi32>",
                 extend, bytes);
  return nabla_emit(
      emitter, "arith.sitofp %%v%u : vector<16xi32> to vector<16xf32>", number);
}

/* Numbers of PACKED6 (quant/codec/ggml_decode.c), factors and minima in turns.
 */
static nabla_ssa packed6(nabla_emitter *emitter, nabla_ssa base) {
  uint32_t at = layout_of(emitter)->sub_at;
  nabla_ssa f = nabla_emit_ggml_word(emitter, base, at),
            m = nabla_emit_ggml_word(emitter, base, at + 4);
  nabla_ssa both = nabla_emit_ggml_word(emitter, base, at + 8);
  nabla_ssa factors =
      eight(emitter, f, nabla_emit_ggml_last_four(emitter, both, f));
  nabla_ssa minima =
      eight(emitter, m,
            nabla_emit_ggml_last_four(emitter,
                                      i32_with(emitter, "shrui", both, 4), m));
  nabla_ssa turns =
      nabla_emit(emitter,
                 "vector.interleave %%v%u, %%v%u : vector<8xi8> -> "
                 "vector<16xi8>",
                 factors, minima);
  return nabla_emit_ggml_bytes(emitter, "extui", turns);
}

nabla_ssa nabla_emit_ggml_half_lanes(nabla_emitter *emitter, nabla_ssa byte) {
  nabla_ssa half = nabla_emit_load(emitter, "i16", emitter->codes, byte, 1);
  return nabla_emit_widen(emitter, NABLA_VECTOR, NABLA_DTYPE_F16,
                          nabla_emit_broadcast(emitter, "i16", half));
}

/* The factor and the minimum of the block, which is behind it, in turns, the
 * minimum negative. */
static nabla_ssa halves_in_turns(nabla_emitter *emitter, nabla_ssa base) {
  uint32_t signs[NABLA_LANES];
  for (uint32_t i = 0; i < NABLA_LANES; i++) signs[i] = i % 2 * 0x80000000u;
  nabla_ssa both = nabla_emit_ggml_word(emitter, base, layout_of(emitter)->d);
  both = nabla_emit(emitter, "vector.broadcast %%v%u : i32 to vector<8xi32>",
                    both);
  both = nabla_emit(
      emitter, "vector.bitcast %%v%u : vector<8xi32> to vector<16xi16>", both);
  both = nabla_emit_widen(emitter, NABLA_VECTOR, NABLA_DTYPE_F16, both);
  both = nabla_emit(
      emitter, "arith.bitcast %%v%u : vector<16xf32> to vector<16xi32>", both);
  both = nabla_emit_i32_binary(emitter, NABLA_VECTOR, "xori", both,
                               nabla_emit_i32_lanes(emitter, signs));
  return nabla_emit(
      emitter, "arith.bitcast %%v%u : vector<16xi32> to vector<16xf32>", both);
}

nabla_ssa nabla_emit_ggml_sub_lanes(nabla_emitter *emitter, nabla_ssa base) {
  const nabla_ggml_layout *l = layout_of(emitter);
  if (l->sub == NABLA_GGML_SUB_PACKED6)
    return nabla_emit_binary(emitter, NABLA_VECTOR, "mulf",
                             packed6(emitter, base),
                             halves_in_turns(emitter, base));
  nabla_ssa raw =
      nabla_emit_load(emitter, "vector<16xi8>", emitter->codes,
                      nabla_emit_add_constant(emitter, base, l->sub_at), 1);
  nabla_ssa by = nabla_emit_ggml_half_lanes(
      emitter, nabla_emit_add_constant(emitter, base, l->d));
  return nabla_emit_binary(emitter, NABLA_VECTOR, "mulf",
                           nabla_emit_ggml_bytes(emitter, "extsi", raw), by);
}
