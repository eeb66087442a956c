/* Convolutions of tensors that a kernel of lib/kernels/conv computes: of f32,
 * f16 or bf16, whose sizes are known but for the batch. */
#ifndef NABLA_TRANSFORMS_CLUSTER_CONV_H
#define NABLA_TRANSFORMS_CLUSTER_CONV_H

#include "lib/kernels/conv/conv.h"
#include "transforms/cluster/cluster.h"

enum { NABLA_CONV_STEPS = 8 };

/* The other operand of a step: none, a number, an array of one value, one for
 * each feature, one of the shape of the result. */
typedef enum nabla_conv_other {
  NABLA_CONV_NONE,
  NABLA_CONV_NUMBER,
  NABLA_CONV_SCALAR,
  NABLA_CONV_FEATURES,
  NABLA_CONV_ARRAY,
} nabla_conv_other;

/* An operation of elements, behind the convolution. */
typedef struct nabla_conv_step {
  MlirOperation op;
  const nabla_cluster_element *element;
  int64_t attribute;
  nabla_conv_other kind;
  double number;
  MlirValue given, value; /* the operand; the array that it is made of */
  int operand;            /* of the kernel: that array */
  bool has_size;          /* of the batch, which `size` has to be */
  MlirValue size;
  int is_second; /* the operand of the operation that is the value before */
} nabla_conv_step;

typedef struct nabla_conv {
  MlirOperation op;
  MlirOperation last; /* of its epilogue, or `op` */
  nabla_conv_step steps[NABLA_CONV_STEPS];
  int step_count;
  nabla_conv_spec spec;
  bool is_copied;  /* x with its padding: not all kernels have zeros */
  MlirValue x, w;  /* of f32, in order */
  MlirType result; /* of the kernel: of f32, in order */
} nabla_conv;

/* Whether `op` is such a convolution that is worth a kernel: then `spec` is
 * set, of a CPU with `features`. */
bool nabla_conv_of(MlirOperation op, nabla_features features, nabla_conv *out);

/* conv_epilogue.c: finds the epilogue, which is a part of the kernel; `c` stays
 * where it is. Erases all operations that the kernel computes. */
void nabla_conv_find_epilogue(nabla_conv *c);
void nabla_conv_erase(const nabla_conv *c);

/* Its nabla_conv_epilogue. */
unsigned nabla_conv_write_epilogue(struct nabla_emitter *e, const void *self,
                                   const nabla_conv_place *place,
                                   unsigned value);

/* Of the function behind x and w: what it is called with, at most 2 for each
 * step; the same as text; names of operations; comparisons of sizes with %n. */
intptr_t nabla_conv_arguments(const nabla_conv *c, MlirValue *out);
void nabla_conv_add_arguments(const nabla_conv *c, nabla_text *text);
void nabla_conv_add_globals(const nabla_conv *c, nabla_text *text);
void nabla_conv_add_checks(const nabla_conv *c, nabla_text *text);

/* Puts the operands of the kernel in front of the last operation: converted,
 * transposed, padded if need be. False: an error was reported. */
bool nabla_conv_prepare(nabla_conv *c);

/* The value of the last operation, made in front of it of the kernel's result.
 */
MlirValue nabla_conv_finish(const nabla_conv *c, MlirValue result);

/* Appends "func.func private @NAME", which calls `kernel` with x, w and the
 * operands of the epilogue. */
void nabla_conv_write_call(const nabla_conv *c, const char *name,
                           const char *kernel, nabla_text *text);

#endif
