/* Weight panels of the int8 GEMM: packed by pack_b_int8.c, multiplied by
 * gemm_int8_vnni.c. */
#ifndef NABLA_KERNELS_INT8_GEMM_INT8_VNNI_H
#define NABLA_KERNELS_INT8_GEMM_INT8_VNNI_H

#include "lib/kernels/int8/int8.h"

#define NABLA_PANEL_GROUPS  2u
#define NABLA_PANEL_COLUMNS (NABLA_PANEL_GROUPS * NABLA_LANES)
#define NABLA_PANEL_DEPTH   1024u /* elements of k */
#define NABLA_PANEL_WAITING 256u
#define NABLA_PANEL_ROWS    8u

/* Bytes in the scratch of one group of 16 columns. */
#define NABLA_PANEL_GROUP ((uint64_t)NABLA_PANEL_DEPTH * NABLA_LANES)

/* Offsets in the scratch. */
typedef struct nabla_int8_vnni_areas {
  uint64_t spans; /* in a panel */
  uint64_t scales, zeros, sums, size;
} nabla_int8_vnni_areas;

nabla_int8_vnni_areas nabla_int8_vnni_areas_of(const nabla_int8 *self);

/* A panel and the rows of x whose totals are in the scratch. */
typedef struct nabla_int8_panel {
  const nabla_int8 *self;
  nabla_int8_vnni_areas areas;
  nabla_int8_packed layout;
  nabla_ssa row_end;      /* of the rows of x that have totals */
  nabla_ssa row, n, k;    /* the first ones */
  nabla_ssa width, count; /* columns; elements of k */
} nabla_int8_panel;

/* Packs a panel to the scratch, one group of columns after the other. */
void nabla_emit_int8_pack_b(nabla_emitter *e, const nabla_int8_panel *panel);

/* The address `bytes` after `base`. */
nabla_ssa nabla_emit_int8_after(nabla_emitter *e, nabla_ssa base,
                                uint64_t bytes);

#endif
