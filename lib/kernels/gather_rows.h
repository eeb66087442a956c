/* Kernels that dequantize runs of consecutive elements of packed storage: rows
 * of an embedding by index, or a whole weight. */
#ifndef NABLA_KERNELS_GATHER_ROWS_H
#define NABLA_KERNELS_GATHER_ROWS_H

#include "lib/kernels/fused_kernel.h"

/* Elements of the shortest run that has a kernel. */
#define NABLA_GATHER_ROWS_SHORTEST 16u

/* What is decoded is told by a nabla_fused_spec of one row:
 *   n           1
 *   k, stride_k the elements of a run; 1
 *   stride_n    what every run begins at a multiple of, in the storage
 *   y_type      of the result; x_type and w_type F32
 * Static text, or NULL when there is a kernel for it. */
const char *nabla_gather_rows_objection(const nabla_fused_spec *spec);

/* Appends the kernel as nabla_fused_emit does. Its words are
 *   NABLA_ARG_X  address of where runs begin, i64 each, all inside
 *   NABLA_ARG_Y  address of the result: runs one behind the other
 * and those of codes and scales; its range is one of runs. Values are those of
 * nabla_decode, rounded to y_type. */
void nabla_gather_rows_emit(const nabla_fused_spec *spec, const char *name,
                            nabla_text *text);

/* Runs of one call, at least, for it to be worth a task. */
uint64_t nabla_gather_rows_grain(const nabla_fused_spec *spec);

#endif
