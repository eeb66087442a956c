/* Folds where one operand is a constant of one value: identities.def. */
#ifndef NABLA_TRANSFORMS_SIMPLIFY_IDENTITIES_H
#define NABLA_TRANSFORMS_SIMPLIFY_IDENTITIES_H

#include <mlir-c/IR.h>
#include <stdbool.h>

/* Whether it replaced `op`. */
bool nabla_fold_identities(MlirOperation op);
/* Whether there is a row for `op`. */
bool nabla_has_identities(MlirOperation op);

#endif
