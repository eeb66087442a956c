/* A fused operation on its way to kernels and the function that calls them:
 * lower_fused.c and lower_fused_classes.c. */
#ifndef NABLA_TRANSFORMS_FUSED_LOWER_FUSED_H
#define NABLA_TRANSFORMS_FUSED_LOWER_FUSED_H

#include <mlir-c/IR.h>

#include "transforms/fused/fused_dense.h"
#include "transforms/fused/kernel_call.h"

typedef struct nabla_fused_lowering {
  MlirOperation op;
  nabla_fused_dims dims;
  nabla_fused_spec spec;
  nabla_fused_spec classes[NABLA_FUSED_CLASSES_MAX]; /* by ranges of M */
  nabla_text names[NABLA_FUSED_CLASSES_MAX];         /* of their kernels */
  uint32_t class_count;
  nabla_text name, function, text;
  /* x, components of the weight, extra */
  MlirValue operands[NABLA_KERNEL_ARGS];
  intptr_t count;
  nabla_kernel_args call; /* with the types of these */
  unsigned serial;        /* of values that the text names */
} nabla_fused_lowering;

/* The lowering of CPUs: a nabla.fused_dot becomes a call of a function that
 * spreads its kernels over threads. False after a diagnostic. */
bool nabla_lower_fused_cpu(MlirOperation op, const nabla_target *target,
                           const nabla_target_settings *settings);

/* Appends the kernel of a class, or its declaration when the module has it. */
void nabla_fused_add_kernel(nabla_fused_lowering *l, uint32_t class);

/* Appends %kernelC and %grainC for M, C as nabla_fused_chosen says. */
void nabla_fused_add_classes(nabla_fused_lowering *l);

/* Appends the workspace and the call that fills it, where one is needed. */
void nabla_fused_add_prepare(nabla_fused_lowering *l);

/* Appends %NAME: dimension `dim` of argument `index` as an i64. */
void nabla_fused_add_dim(nabla_fused_lowering *l, const char *name,
                         intptr_t index, int dim);

/* Appends %NAME: the product of dimensions `from` and later of argument `index`
 * as an i64. */
void nabla_fused_add_product(nabla_fused_lowering *l, const char *name,
                             intptr_t index, int64_t from);

/* lower_fused_batches.c: appends the functions that call those of a class's
 * kernel for the batches; their arguments, from %batchI, the sizes of the
 * batch; and of these the bytes between workspaces, %work_step. Nothing where
 * there are no batches. */
void nabla_fused_add_batches(nabla_fused_lowering *l, uint32_t class);
void nabla_fused_add_batch_args(nabla_fused_lowering *l);
void nabla_fused_add_work_step(nabla_fused_lowering *l);

/* The name of the function that calls @KERNEL_SUFFIX for the batches; without
 * batches the kernel's. */
void nabla_fused_batches_name(const nabla_fused_lowering *l, uint32_t class,
                              const char *suffix, nabla_text *out);

/* Appends the call of `nabla_parallel` with the kernel function %KERNEL, for
 * [0, %LIMIT) of each batch in units of %GRAIN. `flags`: bits of the grain. */
void nabla_fused_add_parallel(nabla_fused_lowering *l, const char *kernel,
                              const char *limit, const char *grain,
                              uint64_t flags);

/* What follows the name of a value that differs between classes. */
const char *nabla_fused_chosen(const nabla_fused_lowering *l);

/* Says, in a remark, which variants were chosen. */
void nabla_fused_report(const nabla_fused_lowering *l);

#endif
