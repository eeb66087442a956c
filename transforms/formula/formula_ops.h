/* Formulas as operations of the dialect, for passes that write derivatives. */
#ifndef NABLA_TRANSFORMS_FORMULA_FORMULA_OPS_H
#define NABLA_TRANSFORMS_FORMULA_FORMULA_OPS_H

#include "transforms/formula/formula_tree.h"
#include "transforms/ir/build.h"

/* Why a formula has no value; a sentence, empty where it has one. */
typedef struct nabla_formula_refusal {
  char text[160];
} nabla_formula_refusal;

/* A formula's value of arrays of one shape and float type, one for each of its
 * arguments, computed in that type. A function with the name of an elementwise
 * operation is that operation; others are expanded. Null where a word changes
 * or reads bits of floats (`refusal`), or what could not be made was reported.
 * copysign takes the sign of a NaN for +. */
MlirValue nabla_formula_build(const nabla_builder *b,
                              const nabla_formula *formula,
                              const MlirValue *arguments,
                              nabla_formula_refusal *refusal);

#endif
