/* The formulas of partials.def. */
#ifndef NABLA_TRANSFORMS_AUTODIFF_PARTIALS_H
#define NABLA_TRANSFORMS_AUTODIFF_PARTIALS_H

#include "transforms/formula/formula_tree.h"

/* All rows, named "OP.OPERAND", of the arguments "a b c r"; parsed at their
 * first use in the process. Thread-safe. */
const nabla_formula *nabla_partials(size_t *out_count);

/* The row of an operand of an operation ("tanh", 0), or NULL. */
const nabla_formula *nabla_partial_find(const char *op, int operand);

#endif
