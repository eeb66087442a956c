/* Inference of result types outside infer.c: one function for each name in the
 * column INFER of ops.def. */
#ifndef NABLA_DIALECT_INFER_INFER_H
#define NABLA_DIALECT_INFER_INFER_H

#include "dialect/verify/checks.h"

/* Infers at most NABLA_MAX_RESULTS types. On failure an error has been reported
 * that names the legal values. */
typedef MlirLogicalResult nabla_inference(const nablaInference *in,
                                          MlirType types[], intptr_t *count);

/* infer_shape.c */
nabla_inference infer_slice, infer_split, infer_pad, infer_flip,
    infer_dynamic_update_slice;
/* infer.c */
nabla_inference infer_binary;
/* scale.c */
nabla_inference infer_neg, infer_mul;
/* infer_join.c */
nabla_inference infer_concatenate, infer_stack;
/* infer_control.c */
nabla_inference infer_barrier;
/* infer_encoding.c */
nabla_inference infer_materialize, infer_unpack, infer_implicit_depth;
/* infer_dot.c */
nabla_inference infer_dot_general, infer_fused_dot;
/* infer_gather.c */
nabla_inference infer_gather, infer_scatter;
/* infer_window.c */
nabla_inference infer_conv_general, infer_pool;
/* infer_composite.c */
nabla_inference infer_linear, infer_rms_norm, infer_layer_norm, infer_rope,
    infer_attention;

/* Whether the result types of the operation of this name are inferred here. */
bool nabla_infer_knows(MlirStringRef op);

/* Begins and ends a guard around MLIR's interpreter of rules, which crashes if
 * it goes on without an operation whose types cannot be inferred. Between the
 * two calls, on this thread, failed inference returns a type that no operation
 * accepts; nabla_infer_unguard returns whether this has happened. */
void nabla_infer_guard(void);
bool nabla_infer_unguard(void);
/* Records another failure that cannot be reported to MLIR. */
void nabla_infer_fail(void);

/* ---- shared functions ---- */

/* Largest padding, and largest windows, strides and dilations. With them sizes
 * that are known only at run time cannot overflow, as no tensor has 2^42
 * elements. */
#define NABLA_MAX_PADDING  (INT64_C(1) << 40)
#define NABLA_MAX_DILATION (INT64_C(1) << 20)

#define NABLA_INFER_ERROR(in, ...) \
  nabla_op_error((in)->location, (in)->op, __VA_ARGS__)

MlirType nabla_infer_operand(const nablaInference *in, intptr_t index);
MlirType nabla_infer_tensor(intptr_t rank, const int64_t *shape,
                            MlirType element);
/* Returns one type as the result of inference. */
MlirLogicalResult nabla_infer_give(MlirType type, MlirType types[],
                                   intptr_t *count);
nabla_shape_text nabla_infer_text(MlirType type);

/* Whether `value` is one of the `count` entries of `list`. */
bool nabla_infer_contains(intptr_t count, const int64_t *list, int64_t value);

/* Returns an integer attribute that ODS requires; -1 if it is missing. */
int64_t nabla_infer_integer(const nablaInference *in, const char *key);

bool nabla_infer_padding_fits(int64_t padding);

/* Reads a list with one entry for each of `rank` dimensions; if `may_be_empty`,
 * an empty list means `initial` for each. Reports a list of any other length
 * and returns false. */
bool nabla_infer_list(const nablaInference *in, const char *key, intptr_t rank,
                      bool may_be_empty, int64_t initial,
                      int64_t out[NABLA_MAX_RANK]);

#endif
