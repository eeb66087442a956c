/* Stores a value in the memory of a state, unless it is there already. */
#ifndef NABLA_TRANSFORMS_STATE_IN_PLACE_H
#define NABLA_TRANSFORMS_STATE_IN_PLACE_H

#include "transforms/ir/ir.h"

/* The functions of the module. */
typedef struct nabla_in_place {
  MlirSymbolTable symbols;
} nabla_in_place;

/* Sees to it that operand `index` of `end`, a terminator, is in the memory of
 * `to`: by a store before `end`, or in the loops that the value comes from. */
void nabla_in_place_settle(const nabla_in_place *p, MlirOperation end,
                           intptr_t index, MlirValue to);

#endif
