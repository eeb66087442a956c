/* Packing ahead: rows of the next panel are packed between products of the
 * current one, so that vector units and AMX overlap. Accumulators stay in tiles
 * for many panels, as scales are in the weights. For codes of 4 bits a table of
 * 16 weights is made for each line: its upper halves are the first part, those
 * of the remainder the second, and so on; for mxfp4, whose weights are bf16,
 * one of 16 for each half. */
#ifndef NABLA_KERNELS_BF16_PACK_B_BF16_AHEAD_H
#define NABLA_KERNELS_BF16_PACK_B_BF16_AHEAD_H

#include "lib/kernels/bf16/amx_step.h"

/* Whether panels can be packed ahead, and that is faster: tables of 16 with a
 * scale for whole lines of 64, and MX, where rows begin with a block; dense
 * weights of 16 bits, and f32 for up to 8 rows of x. */
int nabla_bf16_is_ahead(const nabla_fused_spec *spec);

/* nabla_macro_kernel.multiply_all. */
void nabla_emit_bf16_ahead(nabla_emitter *e, nabla_macro_block *b,
                           const nabla_macro_tile *square);

/* Row `row` of the panel, to the address `out` (pack_b_bf16.c). */
void nabla_emit_bf16_row(nabla_emitter *e, const nabla_macro_block *p,
                         nabla_ssa row, nabla_ssa out,
                         nabla_bf16_extremes *all);

/* Checks the scales of `p` and marks sums, which are still 0, if weights are
 * out of the range that can be split: to NaN for scales that are too large (one
 * of each 16 columns, which are recomputed together), to 2^-86 for those too
 * small, so that sums of zero are distinguished from sums that AMX flushed to
 * zero (scales_bf16.c). Codes of 4 bits. */
void nabla_emit_bf16_mark_scales(nabla_emitter *e, const nabla_macro_block *p,
                                 const nabla_macro_tile *square);

/* An address behind the scratch of `b->self`; the second function adds the
 * accumulator tiles stored there to the totals (gemm_bf16_amx.c). */
nabla_ssa nabla_emit_bf16_scratch(nabla_emitter *e, const nabla_macro_block *b,
                                  uint64_t byte);
void nabla_emit_bf16_add_sums(nabla_emitter *e, const nabla_macro_tile *square,
                              nabla_ssa scratch);

#endif
