/* Where an exchange is started and where it is waited for, so that a rank
 * computes meanwhile. */
#ifndef NABLA_TRANSFORMS_SHARD_OVERLAP_H
#define NABLA_TRANSFORMS_SHARD_OVERLAP_H

#include "transforms/ir/ir.h"

/* Moves a collective, and the operation that makes its operand, up behind the
 * operands of the latter, if between there and the first use of the result,
 * `*out_wait`, enough is computed to hide an exchange of this size. Returns
 * false, and moves nothing, if not. */
bool nabla_overlap_find(MlirOperation op, MlirOperation *out_wait);

#endif
