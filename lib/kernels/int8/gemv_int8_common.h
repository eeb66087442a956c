/* Loops that gemv_int8.c and gemv_int8_ggml.c share: few rows of x, quantized
 * in the workspace, times each row of w in place. */
#ifndef NABLA_KERNELS_INT8_GEMV_INT8_COMMON_H
#define NABLA_KERNELS_INT8_GEMV_INT8_COMMON_H

#include "lib/kernels/int8/int8.h"

#define NABLA_INT8_ROWS_MOST  4u
#define NABLA_INT8_SIDES_MOST 4u

/* Rows of w that are multiplied side by side, and the rows of x in the
 * workspace that each is multiplied with. They are read from as many parts of a
 * thread's share: two streams have more memory bandwidth than one. Four share
 * a load of x, which counts where x does not stay in the first cache. */
typedef struct nabla_int8_row {
  nabla_ssa flat[NABLA_INT8_SIDES_MOST]; /* the element of w at k = 0 */
  nabla_ssa x[NABLA_INT8_ROWS_MOST];
  unsigned sides; /* rows of w; 1 if there are several rows of x */
  unsigned count; /* rows of x */
} nabla_int8_row;

/* The code of `prepare`: calls `write` for each row of x, which takes `bytes`
 * bytes of the workspace, with its address and its destination. */
void nabla_emit_int8_pack_a_rows(nabla_emitter *e, nabla_ssa bytes,
                                 void (*write)(nabla_emitter *e,
                                               const void *context,
                                               nabla_ssa row, nabla_ssa to),
                                 const void *context);

/* The code of `run`, with `sides` rows of w at a time where M = 1: `sum` writes
 * a vector of sums for each row of x, of the first row of w and then of the
 * second. */
void nabla_emit_int8_columns(nabla_emitter *e, nabla_ssa bytes, unsigned sides,
                             void (*sum)(nabla_emitter *e, const void *context,
                                         const nabla_int8_row *row,
                                         nabla_ssa *totals),
                             const void *context);

/* The `cost` of such a variant. */
double nabla_int8_rows_cost(const nabla_fused_spec *spec, uint64_t m);

#endif
