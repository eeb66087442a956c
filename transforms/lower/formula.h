/* Formulas as code: arithmetic on f64 in the text of a lowering. */
#ifndef NABLA_TRANSFORMS_LOWER_FORMULA_H
#define NABLA_TRANSFORMS_LOWER_FORMULA_H

#include "transforms/formula/formula_tree.h"
#include "transforms/lower/lowering.h"

/* |size| with the sign of `sign`, both f64; a zero and a NaN have one too. */
nabla_ssa nabla_emit_copysign(nabla_template *t, nabla_ssa size,
                              nabla_ssa sign);

/* A formula's value of f64 arguments. */
nabla_ssa nabla_formula_emit(nabla_template *t, const nabla_formula *formula,
                             const nabla_ssa *arguments);

#endif
