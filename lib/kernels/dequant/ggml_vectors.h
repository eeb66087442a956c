/* Weights of whole GGUF blocks, 16 at a time, for AVX-512 and, of most formats,
 * AVX2. The bytes and bits of an element are known when the code is generated,
 * so that they are constants. */
#ifndef NABLA_KERNELS_DEQUANT_GGML_VECTORS_H
#define NABLA_KERNELS_DEQUANT_GGML_VECTORS_H

#include "lib/kernels/dequant/dequantize_ggml.h"
#include "lib/kernels/variants.h"

/* Whether `spec` is for such a CPU, its weights are not rounded further, and
 * its rows begin and end with whole blocks. */
int nabla_block_weights_apply(const nabla_fused_spec *spec);

/* The factors of a block. */
typedef struct nabla_block_factors {
  nabla_ssa base;        /* its first byte */
  nabla_ssa factor, min; /* of all elements, in all lanes; 0: none */
  nabla_ssa lanes;       /* of each part, then their minima, if it has parts */
  uint32_t size;         /* elements of a part */
} nabla_block_factors;

nabla_block_factors nabla_emit_block_factors(nabla_emitter *e, nabla_ssa base);

/* The codes from `element` on, as f32, of a format whose codes are bytes. */
nabla_ssa nabla_emit_block_bytes(nabla_emitter *e, nabla_ssa base,
                                 uint32_t element);

/* Whether the weights of `spec` are cheaper in transposed order: lane 4 * i + j
 * of 16 holds element 4 * j + i. */
int nabla_block_weights_transpose(const nabla_fused_spec *spec);

/* Called with each 16 weights of a block, in order: those from `element` on;
 * with `transposed` in transposed order, if nabla_block_weights_transpose. */
typedef void nabla_block_use(nabla_emitter *e, uint32_t element,
                             nabla_ssa weights, void *context);
void nabla_emit_block_weights(nabla_emitter *e, nabla_ssa base, int transposed,
                              nabla_block_use *use, void *context);

/* Codes as integers in f32, less the bias and times the factor of their 16 if
 * there are such, of a unit: half a block of q6_k, the one at `half` (0 or 1,
 * known when the kernel runs), or a whole block. */
#define NABLA_BLOCK_HALF 128u
void nabla_emit_block_codes(nabla_emitter *e, nabla_ssa base, nabla_ssa half,
                            nabla_block_use *use, void *context);
/* The elements of a unit; 0 where there is none. */
uint32_t nabla_block_codes_unit(const nabla_fused_spec *spec);

#endif
