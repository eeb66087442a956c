/* Comparisons of sizes in a large block. */
#ifndef NABLA_TRANSFORMS_FUSION_FUSE_DIMS_H
#define NABLA_TRANSFORMS_FUSION_FUSE_DIMS_H

#include "transforms/fusion/fuse_plan.h"

/* Erases comparisons of a size with itself, and those made before: sizes are
 * those of what a chain begins with (nabla-resolve-dims). */
void nabla_fuse_dims(nabla_fuse_plan *plan);

#endif
