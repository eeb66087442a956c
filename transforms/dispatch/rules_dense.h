/* Products of tensors that kernels compute; see rules_dense.c. */
#ifndef NABLA_TRANSFORMS_DISPATCH_RULES_DENSE_H
#define NABLA_TRANSFORMS_DISPATCH_RULES_DENSE_H

#include <mlir-c/IR.h>
#include <stdbool.h>

/* Whether the product in a nabla.linear of tensors is large enough for a
 * kernel. */
bool nabla_linear_pays(MlirOperation op);

#endif
