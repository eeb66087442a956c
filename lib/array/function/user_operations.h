/* Operations of users: those that were added (user_operations.c), and how one
 * is recorded (apply.c, apply_call.c). */
#ifndef NABLA_ARRAY_USER_OPERATIONS_H
#define NABLA_ARRAY_USER_OPERATIONS_H

#include "lib/array/record.h"
#include "nabla/operation.h"

/* Operands and results of one nabla_apply_all. */
typedef struct nabla_application {
  const nabla_array_call *site;
  nabla_scope *scope;
  const nabla_operation *operation;
  const nabla_attribute_tree *attributes;
  size_t operand_count, result_count;
  nabla_array *operands[NABLA_MAX_RECORDED];
  nabla_dense types[NABLA_MAX_RECORDED];    /* of the operands */
  nabla_dense inferred[NABLA_MAX_RECORDED]; /* of results      */
  bool is_inferred;
  bool takes_cotangent[NABLA_MAX_RECORDED]; /* results: those of floats */
} nabla_application;

nabla_operation_frame nabla_application_frame(
    const nabla_application *application, nabla_array *const *operands);
/* Writes `inferred` where the operation or its kind says it. False after a
 * failure. */
bool nabla_application_infer(nabla_application *application);
/* Whether the operation brings a derivative, and the call of a function with
 * that rule (lib/array/derivative/operation_rules.c). */
bool nabla_application_has_rule(const nabla_application *application);
bool nabla_application_ruled(nabla_application *application, nabla_array **out);
/* Records the custom call of an operation with a handler. */
bool nabla_application_call(nabla_application *application, nabla_array **out);

#endif
