/* A slice of an array as an operand that a kernel reads where it is. */
#ifndef NABLA_TRANSFORMS_FUSED_SLICE_OPERAND_H
#define NABLA_TRANSFORMS_FUSED_SLICE_OPERAND_H

#include <mlir-c/IR.h>

/* `value`, or, where it is a nabla.slice of neighbours, or that without leading
 * dimensions of 1, the same as a part of the array: a tensor.extract_slice
 * before `before`, which bufferization does not copy for a callee that takes
 * strides. */
MlirValue nabla_slice_in_place(MlirOperation before, MlirValue value);

#endif
