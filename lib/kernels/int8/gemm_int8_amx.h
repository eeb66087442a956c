/* Products in integers by AMX: a block of k is one tile of w and one of x,
 * their sums are multiplied with the scales of both and added in f32. */
#ifndef NABLA_KERNELS_INT8_GEMM_INT8_AMX_H
#define NABLA_KERNELS_INT8_GEMM_INT8_AMX_H

#include "lib/kernels/bf16/gemm_macro_kernel.h"
#include "lib/kernels/int8/int8.h"

#define NABLA_INT8_DEPTH 256u /* elements of k in a panel */

/* Offsets in a panel: tiles of 16 rows along k, then those of the other 16; for
 * each span a scale (f32) of each row, then negative zero points; space for the
 * products of all tiles of w with one of x, in the order of w. */
typedef struct nabla_int8_areas {
  uint64_t half, spans; /* bytes of 16 rows; spans in a panel */
  uint64_t scales, zeros, sums, size;
} nabla_int8_areas;
nabla_int8_areas nabla_int8_areas_of(const nabla_int8 *self);

void nabla_emit_int8_amx_pack_b(nabla_emitter *e,
                                const nabla_macro_block *block);

/* The prepacked weight: for each 16 rows all codes, pieces of the rows
 * interleaved, then scales and negative zero points of each span. */
void nabla_emit_int8_amx_prepack(nabla_emitter *e);

/* Prefetches the codes of row `row` of the panel at k. */
void nabla_emit_int8_amx_prefetch(nabla_emitter *e, const nabla_int8 *self,
                                  nabla_ssa row, nabla_ssa k);

#endif
