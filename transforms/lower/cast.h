/* tensor.cast of the program's, which may state sizes that an array does not
 * have. */
#ifndef NABLA_TRANSFORMS_LOWER_CAST_H
#define NABLA_TRANSFORMS_LOWER_CAST_H

#include "transforms/lower/lowering.h"

/* A tensor.cast whose result type has a size where its operand's has `?`. */
bool nabla_cast_states_sizes(MlirOperation op);

/* A tensor.cast from or to a tensor without a rank, behind which a size that
 * is not compared could be stated. */
bool nabla_cast_hides_rank(MlirOperation op);

/* Replaces one by comparisons of these sizes and the same cast. */
bool nabla_cast_check(nabla_template *t);

#endif
