/* Folds of ops with one operand that is a constant of equal elements:
 * identities.def. */
#ifndef NABLA_TRANSFORMS_SIMPLIFY_IDENTITIES_H
#define NABLA_TRANSFORMS_SIMPLIFY_IDENTITIES_H

#include <mlir-c/IR.h>
#include <stdbool.h>

/* Returns whether it replaced `op`. */
bool nabla_fold_identities(MlirOperation op);
/* Returns whether there is a row for `op`. */
bool nabla_has_identities(MlirOperation op);

#endif
