/* Derivatives of nabla.shard_map: a region that is written per device. */
#ifndef NABLA_TRANSFORMS_AUTODIFF_SHARD_MAP_H
#define NABLA_TRANSFORMS_AUTODIFF_SHARD_MAP_H

#include "transforms/autodiff/forward.h"
#include "transforms/autodiff/reverse.h"

/* The cotangents of a shard_map's operands, and of values that its region uses
 * from outside, from `cotangents` of its results. */
bool nabla_reverse_shard_map(nabla_reverse *r, MlirOperation op,
                             const MlirValue *cotangents);

/* Asks that the gradient to an argument of `function` be divided as the
 * argument is, if it has a sharding: a hint on the operation that computes it.
 */
void nabla_gradient_divide(MlirOperation function, intptr_t argument,
                           MlirValue gradient);
/* `attributes`, a dictionary of a new argument, with the sharding that entry
 * `index` of `list` (NABLA_ARGUMENTS, NABLA_RESULTS) has, if any. */
MlirAttribute nabla_divide_as(MlirOperation function, const char *list,
                              intptr_t index, MlirAttribute attributes);

/* Makes the shard_map again, with tangents beside its values. */
bool nabla_forward_shard_map(nabla_forward *f, MlirOperation op);

#endif
