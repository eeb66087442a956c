/* Sizes of results of elementwise operations, taken from their operands. */
#ifndef NABLA_TRANSFORMS_FUSE_DIMS_H
#define NABLA_TRANSFORMS_FUSE_DIMS_H

#include "transforms/fuse_plan.h"

/* A tensor.dim of what an elementwise operation gives becomes the size that its
 * tensor.empty has, so that no use of a value in a chain is between two of its
 * operations; comparisons of a size with itself, and those made before, are
 * erased. */
void nabla_fuse_dims(nabla_fuse_plan *plan);

#endif
