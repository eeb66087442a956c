/* Packing of weight panels for GEMM: dequantized rows of the weight in lanes.
 * Element (k, lane) of a panel of `width` rows is at k * width + lane, f32. */
#ifndef NABLA_KERNELS_F32_PACK_B_H
#define NABLA_KERNELS_F32_PACK_B_H

#include "lib/kernels/variants.h"

/* Bytes of the scratch that nabla_emit_pack_b uses beside the panel, but for
 * blocks of GGUF files (nabla_pack_b_scratch). */
#define NABLA_PACK_B_SCRATCH 4096u

/* A part of the weight and the address of its panel. */
typedef struct nabla_panel {
  nabla_ssa first;   /* row of w; rows beyond the last are the last again */
  unsigned width;    /* rows: a multiple of NABLA_LANES                   */
  nabla_ssa k;       /* first element of each row: a multiple of `aligned` */
  nabla_ssa count;   /* elements of each row                              */
  unsigned aligned;  /* a power of two                                    */
  nabla_ssa out;     /* address of the panel, `count` rounded up to 16 */
  nabla_ssa scratch; /* address; nabla_pack_b_scratch bytes                */
} nabla_panel;

/* The flat index of element k of the panel's row `row`, or of the last row. */
nabla_ssa nabla_panel_flat(nabla_emitter *e, const nabla_panel *panel,
                           nabla_ssa row, nabla_ssa k);

/* Bytes of scratch for a panel of at most 512 elements of each row. */
uint64_t nabla_pack_b_scratch(const nabla_fused_spec *spec);

/* Packs a panel. Elements beyond `count`, up to the next multiple of 16, may be
 * written too. */
void nabla_emit_pack_b(nabla_emitter *e, const nabla_panel *panel);

/* Cache lines of a panel's codes, approximately. */
uint64_t nabla_panel_cachelines(const nabla_fused_spec *spec, unsigned width,
                                unsigned elements);

/* Prefetches cache line `line` of a panel of `elements` elements of each row;
 * its `count`, `out` and `scratch` are not read. */
void nabla_emit_pack_b_prefetch(nabla_emitter *e, const nabla_panel *panel,
                                unsigned elements, nabla_ssa line);

#endif
