/* Lowering a gather of whole rows of a dense table, as an embedding look-up is,
 * to a kernel that copies them (lib/kernels/copy_rows.h) on the threads of the
 * caller: the loops of a linalg.generic move one element at a time. */
#ifndef NABLA_TRANSFORMS_LOWER_MOVE_ROWS_H
#define NABLA_TRANSFORMS_LOWER_MOVE_ROWS_H

#include "dialect/gather.h"
#include "transforms/lower/lowering.h"

typedef struct nabla_row_copy {
  nabla_ssa_tensor table, indices, result;
  intptr_t vector_dim;
  int64_t bytes; /* of a row */
  nabla_text name;
} nabla_row_copy;

/* Before the template opens: writes the kernel and the function that calls it.
 * False when the gather is not of whole rows, by one index for each, of the
 * first dimension, or rows are short or few. `sizes`: those of the op. */
bool nabla_row_copy_begin(nabla_template *t, const nabla_gather_numbers *dims,
                          const int64_t *sizes, nabla_row_copy *out);

/* The result: the call of the function, after the checks of the gather. */
nabla_ssa nabla_row_copy_call(nabla_template *t, const nabla_row_copy *copy);

void nabla_row_copy_deinit(nabla_row_copy *copy);

#endif
