/* Decoding elements of the blocks of GGUF files in a kernel: what decode.h is
 * for codes and scales. Everything comes from the layout (quant/ggml.h). */
#ifndef NABLA_TRANSFORMS_KERNELS_DECODE_GGML_H
#define NABLA_TRANSFORMS_KERNELS_DECODE_GGML_H

#include "quant/ggml.h"
#include "transforms/kernels/decode.h"

/* As nabla_emit_decode, which calls it where the spec names such a format. */
nabla_ssa nabla_emit_decode_ggml(nabla_emitter *emitter,
                                 const nabla_window *window);

/* arith.OPERATION of i32. */
nabla_ssa nabla_emit_i32_binary(nabla_emitter *emitter, nabla_shape shape,
                                const char *operation, nabla_ssa a,
                                nabla_ssa b);
nabla_ssa nabla_emit_i32_with(nabla_emitter *emitter, nabla_shape shape,
                              const char *operation, nabla_ssa a, uint32_t b);

/* The f16 (f32) at `byte` of the blocks, and the f32 2^(e - 128) of the byte
 * there. */
nabla_ssa nabla_emit_ggml_half(nabla_emitter *emitter, nabla_ssa byte);
nabla_ssa nabla_emit_ggml_e8m0(nabla_emitter *emitter, nabla_ssa byte);

/* The values of a format's codes of 4 bits, as f32. */
nabla_ssa nabla_emit_ggml_table(nabla_emitter *emitter);

#endif
