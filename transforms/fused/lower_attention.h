/* nabla.fused_attention on its way to kernels (lib/kernels/attention). */
#ifndef NABLA_TRANSFORMS_FUSED_LOWER_ATTENTION_H
#define NABLA_TRANSFORMS_FUSED_LOWER_ATTENTION_H

#include <mlir-c/IR.h>

#include "lib/kernels/attention/attention.h"
#include "transforms/ir/target.h"

/* Reads a nabla.attention or nabla.fused_attention. Returns why no kernel
 * computes it, as static text, or NULL. */
const char *nabla_attention_spec_of(MlirOperation op, nabla_features features,
                                    nabla_attention_spec *out);

/* The lowering of CPUs: the operation becomes a call of a function that spreads
 * its kernels over threads. False after a diagnostic. */
bool nabla_lower_attention_cpu(MlirOperation op,
                               const nabla_target_settings *settings);

#endif
