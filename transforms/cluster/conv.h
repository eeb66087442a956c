/* Convolutions of tensors that a kernel of lib/kernels/conv computes: of f32,
 * f16 or bf16, whose sizes are known but for the batch. */
#ifndef NABLA_TRANSFORMS_CLUSTER_CONV_H
#define NABLA_TRANSFORMS_CLUSTER_CONV_H

#include "lib/kernels/conv/conv.h"
#include "transforms/cluster/cluster.h"

typedef struct nabla_conv {
  MlirOperation op;
  nabla_conv_spec spec;
  bool is_copied;  /* x with its padding: not all kernels have zeros */
  MlirValue x, w;  /* of f32, in order */
  MlirType result; /* of the kernel: of f32, in order */
} nabla_conv;

/* Whether `op` is such a convolution that is worth a kernel: then `spec` is
 * set, of a CPU with `features`. */
bool nabla_conv_of(MlirOperation op, nabla_features features, nabla_conv *out);

/* Puts the operands of the kernel in front of the operation: converted,
 * transposed, padded if need be. False: an error was reported. */
bool nabla_conv_prepare(nabla_conv *c);

/* The value of the operation, made in front of it of the kernel's result. */
MlirValue nabla_conv_finish(const nabla_conv *c, MlirValue result);

/* Appends "func.func private @NAME", which calls `kernel` with x and w. */
void nabla_conv_write_call(const nabla_conv *c, const char *name,
                           const char *kernel, nabla_text *text);

#endif
