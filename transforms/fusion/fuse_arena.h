/* Windows of a large block as functions of buffers. */
#ifndef NABLA_TRANSFORMS_FUSION_FUSE_ARENA_H
#define NABLA_TRANSFORMS_FUSION_FUSE_ARENA_H

#include "transforms/fusion/fuse_plan.h"

/* Whether windows of a block become functions: it is large and in a function,
 * shapes are known and have at most NABLA_MAX_RANK dimensions, and bodies take
 * nothing from outside but elements. */
bool nabla_fuse_arena_fits(const nabla_fuse_plan *plan);

/* Makes a private function of each window, which is called in its place. What
 * windows give to later ones is in a single buffer of the block, whose parts
 * are used again; bufferization, whose time grows with the square of the
 * operations, does not see it. False when memory runs out. */
bool nabla_fuse_arena(nabla_fuse_plan *plan);

#endif
