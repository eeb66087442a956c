/* The weight prepacked for products in f32: one stream for each 16 rows, rows
 * in lanes, which is dequantized without a transposition.
 *
 * The stream of an encoded weight is a record for each step (pack_b_dwords.h):
 * the scales of all groups, their zero points, the dwords. That of a dense
 * weight is its elements. */
#ifndef NABLA_KERNELS_F32_PREPACK_H
#define NABLA_KERNELS_F32_PREPACK_H

#include "lib/kernels/f32/pack_b.h"
#include "lib/kernels/f32/pack_b_dwords.h"

/* Whether `spec` has a prepacked weight of this form. */
int nabla_packed_applies(const nabla_fused_spec *spec);

/* The size of the prepacked weight. */
nabla_kernel_tiles nabla_packed_tiles(const nabla_fused_spec *spec);

/* The code of `prepack`; the scratch has NABLA_PACK_B_SCRATCH bytes. */
void nabla_emit_prepack(nabla_emitter *e);

/* The address of element k, or of its record, of the 16 rows from `row` of w
 * on; k is a multiple of a step. Rows beyond the last are the last 16. */
nabla_ssa nabla_emit_packed_at(nabla_emitter *e, nabla_ssa row, nabla_ssa k);

/* The parts of the record at an address. */
nabla_dwords nabla_packed_dwords(nabla_emitter *e, nabla_ssa record);

/* Bytes of `elements` of 16 rows. */
uint64_t nabla_packed_bytes(const nabla_fused_spec *spec, uint64_t elements);

/* Whether the stream is f32 that is multiplied in place. */
int nabla_packed_is_panel(const nabla_fused_spec *spec);

/* Decodes the 16 rows from `row` of the panel on. */
void nabla_emit_packed_panel(nabla_emitter *e, const nabla_panel *panel,
                             nabla_ssa row);

#endif
