/* Packing of panels by dwords of codes: dwords of 16 rows are transposed, so
 * that rows are in lanes, and dequantized then. */
#ifndef NABLA_KERNELS_F32_PACK_B_DWORDS_H
#define NABLA_KERNELS_F32_PACK_B_DWORDS_H

#include "lib/kernels/f32/pack_b.h"

/* Whether dwords can be transposed: rows start at whole steps of 16 dwords,
 * blocks are whole steps or whole dwords of a step, and the panels' ends are
 * whole steps. */
int nabla_panel_by_dwords(const nabla_fused_spec *spec, unsigned aligned);

/* Codes of a row in a step, and the number of their blocks. */
unsigned nabla_dwords_step(const nabla_fused_spec *spec);
unsigned nabla_dwords_groups(const nabla_fused_spec *spec);

/* A step of 16 rows: addresses of 16 vectors of dwords, and for each group the
 * scales (f32) of all rows, and their zero points where there are. */
typedef struct nabla_dwords {
  nabla_ssa dwords, scales, zeros;
} nabla_dwords;

/* Their offsets in the scratch of a panel, for up to 16 groups. */
#define NABLA_DWORDS_SCALES (NABLA_LANES * NABLA_LANES * 4)
#define NABLA_DWORDS_ZEROS  (2 * NABLA_DWORDS_SCALES)
nabla_dwords nabla_dwords_in_scratch(nabla_emitter *e, nabla_ssa scratch);

/* Copies a step at `k` of the 16 rows from `row` of the panel on to the
 * scratch, one row after the other. */
void nabla_emit_dwords_collect(nabla_emitter *e, const nabla_panel *panel,
                               nabla_ssa row, nabla_ssa k);

/* Transposes 16 rows of 16 dwords at address `from` to `to`, which may be the
 * same. */
void nabla_emit_dwords_transpose(nabla_emitter *e, nabla_ssa from,
                                 nabla_ssa to);

/* The value before scaling (f32) of element `i` of a vector of dwords. */
nabla_ssa nabla_emit_dword_value(nabla_emitter *e, nabla_ssa dword, unsigned i);

/* Dequantizes a transposed step to the panel, from its element `to` on. */
void nabla_emit_dwords_dequantize(nabla_emitter *e, const nabla_dwords *from,
                                  const nabla_panel *panel, nabla_ssa to);

/* Packs the 16 rows from `row` of the panel on. */
void nabla_emit_pack_b_dwords(nabla_emitter *e, const nabla_panel *panel,
                              nabla_ssa row);

#endif
