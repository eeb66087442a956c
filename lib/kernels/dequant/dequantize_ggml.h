/* Dequantization of elements of GGUF blocks, as dequantize.h for codes and
 * scales. All about the format comes from its layout (quant/codec/ggml.h).
 * Functions are defined in ggml_factors.c too. */
#ifndef NABLA_KERNELS_DEQUANT_DEQUANTIZE_GGML_H
#define NABLA_KERNELS_DEQUANT_DEQUANTIZE_GGML_H

#include "lib/kernels/dequant/dequantize.h"
#include "quant/codec/ggml.h"

/* As nabla_emit_dequantize, which calls it where the spec names such a format.
 */
nabla_ssa nabla_emit_dequantize_ggml(nabla_emitter *e,
                                     const nabla_window *window);

/* The factor of the code of the element at `flat`, f32, and the term that is
 * added then (0: none). */
void nabla_emit_ggml_factors(nabla_emitter *e, nabla_ssa flat,
                             nabla_ssa out[2]);

/* That of its block alone, without the one of its part. */
nabla_ssa nabla_emit_ggml_block_factor(nabla_emitter *e, nabla_ssa flat);

/* The f32 2^(b - 128) of the byte b at `byte` of the blocks. */
nabla_ssa nabla_emit_ggml_e8m0(nabla_emitter *e, nabla_ssa byte);

/* The f16 at a byte of the blocks, broadcast and then widened, which is cheaper
 * than the other order. */
nabla_ssa nabla_emit_ggml_half_lanes(nabla_emitter *e, nabla_ssa byte);

/* vector<16xi8> as f32, extended by "extui" or "extsi". */
nabla_ssa nabla_emit_ggml_bytes(nabla_emitter *e, const char *extend,
                                nabla_ssa bytes);

/* Numbers of 6 bits, a byte each of an i32 (quant/codec/ggml_decode.c,
 * packed6): four bytes of the block, from `at` on; the first four numbers, of
 * the word that holds them; the last four, whose upper bits are the two highest
 * of each byte of `high`. */
nabla_ssa nabla_emit_ggml_word(nabla_emitter *e, nabla_ssa base, uint32_t at);
nabla_ssa nabla_emit_ggml_first_four(nabla_emitter *e, nabla_ssa word);
nabla_ssa nabla_emit_ggml_last_four(nabla_emitter *e, nabla_ssa low,
                                    nabla_ssa high);

/* The factors of the parts of the block at byte `base`, 16 lanes in f32: with
 * BYTES that of part j in lane j; with PACKED6 that of part j in lane 2 * j and
 * the added term, which is negative, in the next lane. */
nabla_ssa nabla_emit_ggml_sub_lanes(nabla_emitter *e, nabla_ssa base);

/* The values of a format's codes of 4 bits, as f32. */
nabla_ssa nabla_emit_ggml_table(nabla_emitter *e);

#endif
