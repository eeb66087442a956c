/* Stores a value in the memory of a state, unless it is there already. */
#ifndef NABLA_TRANSFORMS_STATE_IN_PLACE_H
#define NABLA_TRANSFORMS_STATE_IN_PLACE_H

#include "transforms/ir/ir.h"

/* The functions of the module. */
typedef struct nabla_in_place {
  MlirSymbolTable symbols;
} nabla_in_place;

/* Puts operand `index` of `end`, a terminator, into the memory of `to`: by a
 * store before `end`, or by stores in the loops that compute the value. */
void nabla_in_place_settle(const nabla_in_place *p, MlirOperation end,
                           intptr_t index, MlirValue to);

/* Whether `value` may be in the memory of `to`: on one way through branches at
 * least. */
bool nabla_in_place_is(const nabla_in_place *p, MlirValue value, MlirValue to);

/* The first operation that writes to the memory of `to`, of those that lead to
 * `value`, which is there; null where `value` is `to`. */
MlirOperation nabla_in_place_writer(const nabla_in_place *p, MlirValue value,
                                    MlirValue to);

#endif
