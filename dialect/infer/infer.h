/* Inference of result types that is not in infer.c: one function for each name
 * in the column INFER of ops.def. */
#ifndef NABLA_DIALECT_INFER_INFER_H
#define NABLA_DIALECT_INFER_INFER_H

#include "dialect/verify/checks.h"

/* Gives at most NABLA_MAX_RESULTS types. Failure after an error was reported,
 * which says what would be legal. */
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
/* infer_encoding.c */
nabla_inference infer_materialize, infer_unpack, infer_implicit_depth;
/* infer_gather.c */
nabla_inference infer_gather, infer_scatter;
/* infer_window.c */
nabla_inference infer_conv_general, infer_pool;
/* infer_composite.c */
nabla_inference infer_linear, infer_rms_norm, infer_layer_norm, infer_rope,
    infer_attention;

/* MLIR's interpreter of rules goes on without an operation whose types cannot
 * be inferred, and crashes. Between these two calls, on this thread, inference
 * that fails gives one type that nothing takes; whether it has, the second
 * says. */
void nabla_infer_guard(void);
bool nabla_infer_unguard(void);
/* Something else has failed that MLIR cannot be told. */
void nabla_infer_fail(void);

/* ---- what they share ---- */

/* What padding, windows, strides and dilations may be, so that the sizes that
 * are known at run time only cannot overflow: no tensor has 2^42 elements. */
#define NABLA_MAX_PADDING  (INT64_C(1) << 40)
#define NABLA_MAX_DILATION (INT64_C(1) << 20)

#define NABLA_INFER_ERROR(in, ...) \
  nabla_op_error((in)->location, (in)->op, __VA_ARGS__)

MlirType nabla_infer_operand(const nablaInference *in, intptr_t index);
MlirType nabla_infer_tensor(intptr_t rank, const int64_t *shape,
                            MlirType element);
/* Gives one type. */
MlirLogicalResult nabla_infer_give(MlirType type, MlirType types[],
                                   intptr_t *count);
nabla_shape_text nabla_infer_text(MlirType type);

/* An integer attribute that ODS requires; -1 where it is missing. */
int64_t nabla_infer_integer(const nablaInference *in, const char *key);

bool nabla_infer_padding_fits(int64_t padding);

/* A list with an entry for each of `rank` dimensions; where it may be empty
 * that means `initial` for each. False, reported, when it has another length.
 */
bool nabla_infer_list(const nablaInference *in, const char *key, intptr_t rank,
                      bool may_be_empty, int64_t initial,
                      int64_t out[NABLA_MAX_RANK]);

#endif
