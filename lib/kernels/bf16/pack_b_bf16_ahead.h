/* Panels decoded ahead: rows of the next one between products of the one
 * before, so that neither waits for the other. Sums stay in tiles for many
 * panels, as w has its scales in it. Of codes of 4 bits a table of 16 weights
 * is made for each line, of which the upper halves are the first part, those of
 * what is left the second, and so on; of mxfp4, whose weights are bf16, one of
 * 16 for each half.
 */
#ifndef NABLA_KERNELS_BF16_PACK_B_BF16_AHEAD_H
#define NABLA_KERNELS_BF16_PACK_B_BF16_AHEAD_H

#include "lib/kernels/bf16/amx_step.h"

/* Can panels be decoded so, and is that faster? Tables of 16 under scales that
 * whole lines of 64 have, and MX, where rows begin with a block; dense weights
 * of 16 bits, and f32 for up to 8 rows of x. */
int nabla_bf16_is_ahead(const nabla_fused_spec *spec);

/* nabla_macro_kernel.multiply_all. */
void nabla_emit_bf16_ahead(nabla_emitter *e, nabla_macro_block *b,
                           const nabla_macro_tile *square);

/* Row `row` of the panel, to the address `out` (pack_b_bf16.c). */
void nabla_emit_bf16_row(nabla_emitter *e, const nabla_macro_block *p,
                         nabla_ssa row, nabla_ssa out,
                         nabla_bf16_extremes *all);

/* Looks at the scales of `p`, and says in sums, which are 0 as yet, that
 * weights are beyond what can be split: with those that are too large they
 * become NaN (one of each 16 columns, which are computed again together), with
 * those that are too small 2^-86, so that sums of zero are told from sums of
 * what AMX takes for zero (scales_bf16.c). Codes of 4 bits. */
void nabla_emit_bf16_mark_scales(nabla_emitter *e, const nabla_macro_block *p,
                                 const nabla_macro_tile *square);

/* Room behind the scratch of `b->self`, and how sums that tiles have left there
 * are added to those that wait (gemm_bf16_amx.c). */
nabla_ssa nabla_emit_bf16_scratch(nabla_emitter *e, const nabla_macro_block *b,
                                  uint64_t byte);
void nabla_emit_bf16_add_sums(nabla_emitter *e, const nabla_macro_tile *square,
                              nabla_ssa scratch);

#endif
