/* Ties: values that are divided in the same way because they are one value at
 * different times: carries and what regions yield, operands and arguments of a
 * function that is called. */
#ifndef NABLA_TRANSFORMS_SHARD_TIES_H
#define NABLA_TRANSFORMS_SHARD_TIES_H

#include "transforms/shard/layout.h"

/* `leader` decides. `slices`: its first dimension, which is not divided, is
 * that of the slices of nabla.scan, and `other` a slice, -1; or the other way
 * round, 1. `is_argument`: `other` is the argument of a region that begins as
 * the operand of the same number; what a region yields may be an argument too,
 * of another number. */
typedef struct nabla_tie {
  MlirValue leader, other;
  int slices;
  bool is_argument;
} nabla_tie;

/* Calls `visit` for each tie of an operation with regions, or of a barrier:
 * results decide, and the
 * argument of a body that is a slice. */
void nabla_ties_of(MlirOperation op, void (*visit)(void *self, nabla_tie tie),
                   void *self);

/* Whether an operation is one of these, or ends one of their regions. */
bool nabla_ties_has(MlirOperation op);
bool nabla_ties_ends(MlirOperation op);

/* The layout of `tie.other` that follows from that of its leader, and the other
 * way round: a layout whose `type` is null. */
nabla_division nabla_tie_follow(nabla_tie tie, const nabla_division *leader);
nabla_division nabla_tie_lead(nabla_tie tie, const nabla_division *other);

/* The function that a func.call calls, if it has a body and is of the module
 * around; else null. */
MlirOperation nabla_called(MlirOperation call);
MlirBlock nabla_function_body(MlirOperation function);

#endif
