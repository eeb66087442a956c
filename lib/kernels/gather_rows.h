/* Kernels that dequantize runs of consecutive elements of packed storage: rows
 * of an embedding by index, or a whole weight. */
#ifndef NABLA_KERNELS_GATHER_ROWS_H
#define NABLA_KERNELS_GATHER_ROWS_H

#include "lib/kernels/fused_kernel.h"

/* The fewest elements of a run that has a kernel. */
#define NABLA_GATHER_ROWS_SHORTEST 16u

/* Says why there is no kernel. The runs are described by a nabla_fused_spec of
 * one row:
 *   n           1
 *   k, stride_k the elements of a run; 1
 *   stride_n    every run begins at a multiple of it, in the storage
 *   y_type      of the result; x_type and w_type F32
 * @return static text, or NULL if there is a kernel */
const char *nabla_gather_rows_objection(const nabla_fused_spec *spec);

/* Appends the kernel, as nabla_fused_emit does. Its arguments are
 *   NABLA_ARG_X  address of the first element of each run, i64, inside the
 *                storage
 *   NABLA_ARG_Y  address of the result, which has one run after the other
 * and the addresses of codes and scales; its range counts runs. Values are
 * those of nabla_decode, rounded to y_type. */
void nabla_gather_rows_emit(const nabla_fused_spec *spec, const char *name,
                            nabla_text *text);

/* The fewest runs of a call that are worth a task of a thread. */
uint64_t nabla_gather_rows_grain(const nabla_fused_spec *spec);

#endif
