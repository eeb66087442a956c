/* Functions that are one product with a packed weight: a caller can compute
 * some of its rows alone. */
#ifndef NABLA_TRANSFORMS_FUSED_SINGLE_GEMM_H
#define NABLA_TRANSFORMS_FUSED_SINGLE_GEMM_H

#include <mlir-c/IR.h>
#include <stdbool.h>

/* Writes their names into an attribute of `module`. They are functions whose
 * result is that of a nabla.fused_dot, the one operation in them that runs on
 * several threads. Before nabla-lower-fused changes them. */
void nabla_single_gemm_mark(MlirOperation module);

/* Whether `function` was among them. */
bool nabla_single_gemm_has(MlirOperation module, const char *function);

#endif
