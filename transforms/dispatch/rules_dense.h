/* Products of tensors that kernels compute; see rules_dense.c. */
#ifndef NABLA_TRANSFORMS_DISPATCH_RULES_DENSE_H
#define NABLA_TRANSFORMS_DISPATCH_RULES_DENSE_H

#include <mlir-c/IR.h>
#include <stdbool.h>

/* Whether the product in a nabla.linear of tensors is large enough for a
 * kernel. */
bool nabla_linear_pays(MlirOperation op);

/* Whether a kernel pays for a product of so many multiplications of elements of
 * this type. */
bool nabla_dense_product_pays(MlirType element, double products);

#endif
