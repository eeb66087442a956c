/* sin, cos and tan of large arguments; see formula_far.c. */
#ifndef NABLA_TRANSFORMS_LOWER_FORMULA_FAR_H
#define NABLA_TRANSFORMS_LOWER_FORMULA_FAR_H

#include "transforms/lower/lowering.h"

/* Of an f64 x[0]: the quarters of a turn in it, modulo 4, and what is left, in
 * [-pi / 4, pi / 4]. */
nabla_ssa nabla_emit_far_turns(nabla_template *t, const nabla_ssa *x);
nabla_ssa nabla_emit_far_rest(nabla_template *t, const nabla_ssa *x);

#endif
