/* Decoding panels: pieces of some rows of the weight, lanes along k, for
 * variants that multiply each with many rows of x. Element (row, k) of a panel
 * is at row * NABLA_SMALL_M_DEPTH + k, f32; but of codes of 4 bits the 16
 * elements of a vector are in an order of their own (nabla_small_m_order), in
 * which x must be too. */
#ifndef NABLA_KERNELS_F32_PACK_B_SMALL_M_H
#define NABLA_KERNELS_F32_PACK_B_SMALL_M_H

#include "lib/kernels/variants.h"

/* Elements of k in a panel, at most: 8 rows of x and those of w that are
 * multiplied with them (gemm_small_m.c) fit in the first cache. */
#define NABLA_SMALL_M_DEPTH 512u

/* Which part of the weight. */
typedef struct nabla_small_m_panel {
  nabla_ssa first, rows; /* rows of w; */
  nabla_ssa last;        /* of those beyond this one it is this one again */
  nabla_ssa k;           /* first element of each row: a multiple of 256  */
  nabla_ssa count;       /* elements of each row                          */
  nabla_ssa out;         /* address                                       */
} nabla_small_m_panel;

/* Whether rows of `spec` are consecutive, so that they have panels. */
int nabla_small_m_applies(const nabla_fused_spec *spec);

/* Lane i of a vector holds element out[i] of 16. */
void nabla_small_m_order(const nabla_fused_spec *spec,
                         unsigned out[NABLA_LANES]);

/* Decodes a panel. Lanes beyond K are zero. */
void nabla_emit_pack_b_small_m(nabla_emitter *e,
                               const nabla_small_m_panel *panel);

/* Asks for the codes and scales of a panel, which may lie beyond the storage;
 * `out` means nothing. */
void nabla_emit_pack_b_small_m_prefetch(nabla_emitter *e,
                                        const nabla_small_m_panel *panel);

#endif
