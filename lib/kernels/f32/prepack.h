/* The weight prepacked for products in f32: for each 16 rows one stream, rows
 * in lanes, which is decoded without being transposed.
 *
 * Of encoded weights a record for each step (pack_b_dwords.h): the scales of
 * all groups, their zero points, the dwords. Of dense ones the elements. */
#ifndef NABLA_KERNELS_F32_PREPACK_H
#define NABLA_KERNELS_F32_PREPACK_H

#include "lib/kernels/f32/pack_b.h"
#include "lib/kernels/f32/pack_b_dwords.h"

/* Is `spec` for a prepacked weight, of which there is such a form? */
int nabla_packed_applies(const nabla_fused_spec *spec);

/* How much memory it takes. */
nabla_kernel_tiles nabla_packed_tiles(const nabla_fused_spec *spec);

/* The inside of `prepack`; the scratch has NABLA_PACK_B_SCRATCH bytes. */
void nabla_emit_prepack(nabla_emitter *e);

/* The address of element k of 16 rows, `row` (of w) the first and k a multiple
 * of a step: of the record, or of the element. Rows beyond the last are the
 * last 16. */
nabla_ssa nabla_emit_packed_at(nabla_emitter *e, nabla_ssa row, nabla_ssa k);

/* What the record at an address has. */
nabla_dwords nabla_packed_dwords(nabla_emitter *e, nabla_ssa record);

/* Bytes of `elements` of 16 rows. */
uint64_t nabla_packed_bytes(const nabla_fused_spec *spec, uint64_t elements);

/* Is it f32 that can be multiplied where it lies? */
int nabla_packed_is_panel(const nabla_fused_spec *spec);

/* Decodes the 16 rows from `row` of the panel on. */
void nabla_emit_packed_panel(nabla_emitter *e, const nabla_panel *panel,
                             nabla_ssa row);

#endif
