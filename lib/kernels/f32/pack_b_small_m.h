/* Packing of weight panels for small M: pieces of some rows of the weight,
 * lanes along k. Element (row, k) of a panel is at row * NABLA_SMALL_M_DEPTH +
 * k, f32; for codes of 4 bits the 16 elements of a vector are permuted
 * (nabla_small_m_order), and x must be permuted alike. */
#ifndef NABLA_KERNELS_F32_PACK_B_SMALL_M_H
#define NABLA_KERNELS_F32_PACK_B_SMALL_M_H

#include "lib/kernels/variants.h"

/* Elements of k in a panel, at most: 8 rows of x and the rows of w that are
 * multiplied with them (gemm_small_m.c) fit in the first-level cache. */
#define NABLA_SMALL_M_DEPTH 512u

/* A part of the weight and the address of its panel. */
typedef struct nabla_small_m_panel {
  nabla_ssa first, rows; /* rows of w; */
  nabla_ssa last;        /* rows beyond this one are this one */
  nabla_ssa k;           /* first element of each row: a multiple of 256  */
  nabla_ssa count;       /* elements of each row                          */
  nabla_ssa out;         /* address                                       */
} nabla_small_m_panel;

/* Whether rows of the weight are consecutive, which these panels need. */
int nabla_small_m_applies(const nabla_fused_spec *spec);

/* Lane i of a vector holds element out[i] of 16. */
void nabla_small_m_order(const nabla_fused_spec *spec,
                         unsigned out[NABLA_LANES]);

/* Packs a panel. Lanes beyond K are zero. */
void nabla_emit_pack_b_small_m(nabla_emitter *e,
                               const nabla_small_m_panel *panel);

/* Prefetches the codes and scales of a panel, which may lie beyond the storage;
 * `out` is not read. */
void nabla_emit_pack_b_small_m_prefetch(nabla_emitter *e,
                                        const nabla_small_m_panel *panel);

#endif
