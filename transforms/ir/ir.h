/* Small helpers over the MLIR C API that every pass needs. */
#ifndef NABLA_TRANSFORMS_IR_IR_H
#define NABLA_TRANSFORMS_IR_IR_H

#include <mlir-c/IR.h>
#include <stdbool.h>

#include "lib/kernels/builder/text.h"

/* A value as one of another type, which a later pass makes it. */
#define NABLA_CAST "builtin.unrealized_conversion_cast"

MlirStringRef nabla_ref(const char *text);
MlirStringRef nabla_name(MlirOperation op);
bool nabla_is(MlirOperation op, const char *name);
MlirContext nabla_op_context(MlirOperation op);
MlirType nabla_operand_type(MlirOperation op, intptr_t index);
MlirType nabla_result_type(MlirOperation op, intptr_t index);

/* The op that defines `value`; null for a block argument. */
MlirOperation nabla_defining_op(MlirValue value);
/* Number of uses. */
intptr_t nabla_use_count(MlirValue value);

/* Emits "'OP' op TEXT" at the op; returns failure. */
MlirLogicalResult nabla_error_at(MlirOperation op, const char *format, ...)
    NABLA_PRINTF(2, 3);

/* A list of operations, gathered before any is changed. */
typedef struct nabla_op_list {
  MlirOperation *ops;
  size_t count, capacity;
  int failed; /* out of memory */
} nabla_op_list;
/* All ops inside `root` (post-order, as mlirOperationWalk) for which `want` is
 * true. Destroy with nabla_op_list_deinit. */
nabla_op_list nabla_ops_collect(MlirOperation root,
                                bool (*want)(MlirOperation op));
void nabla_op_list_deinit(nabla_op_list *list);

/* Calls `change` for each of those ops, until it returns false: it has reported
 * why. It may erase the op that it is given, no other that `want` wants. */
MlirLogicalResult nabla_ops_each(MlirOperation root,
                                 bool (*want)(MlirOperation op),
                                 bool (*change)(MlirOperation op, void *self),
                                 void *self);

/* Creates an op before `before`. `attributes` may be NULL. Result types:
 * `result_count` of them, or -1 to have them inferred. Null op on failure
 * (reported). */
typedef struct nabla_op_spec {
  const char *name;
  intptr_t operand_count;
  const MlirValue *operands;
  intptr_t result_count;
  const MlirType *results;
  intptr_t attribute_count;
  const MlirNamedAttribute *attributes;
} nabla_op_spec;
MlirOperation nabla_op_create(MlirOperation before, const nabla_op_spec *spec);
MlirNamedAttribute nabla_named(MlirContext context, const char *key,
                               MlirAttribute value);

/* `value`, an array of rank `rank`, with its dimensions in an order: a
 * nabla.transpose before `before`, or as it is where that is its own. */
MlirValue nabla_value_transpose(MlirOperation before, MlirValue value,
                                intptr_t rank, const int64_t *order);

/* Sets an attribute of arguments of a func.func, all at once: values[i] of
 * argument i, nothing where it is null. */
void nabla_arguments_set(MlirOperation function, const char *key,
                         const MlirAttribute *values);
/* The same of its arguments or results: `list` is "arg_attrs" or "res_attrs".
 */
void nabla_ports_set(MlirOperation function, const char *list, const char *key,
                     const MlirAttribute *values);

/* Sets `bufferization.writable = false` on the tensors among the arguments
 * [first, end) of a func.func: the caller's memory, which may be a mapped file,
 * is never written. */
void nabla_arguments_protect(MlirOperation function, intptr_t first,
                             intptr_t end);

/* Replaces all uses of the op's results and erases it. An op that is to be
 * replaced by a result of its own, as is legal in code that is never reached,
 * stays as it is. */
void nabla_op_replace(MlirOperation op, const MlirValue *values);
/* Erases an op that has no uses. */
void nabla_op_erase(MlirOperation op);

/* Appends the text of a type, attribute. */
void nabla_text_add_type(nabla_text *text, MlirType type);
void nabla_text_add_attribute(nabla_text *text, MlirAttribute attribute);

/* Whether the module around `op` has a symbol of this name. */
bool nabla_module_has(MlirOperation op, const char *symbol);

/* Adds the symbols of `text`, a module, that the module around `at` lacks.
 * False when it does not parse, which is reported as a defect of the lowering.
 */
bool nabla_module_add(MlirOperation at, const nabla_text *text);

/* Replaces an op by text. `text` is a module with a function @t of one block
 * whose arguments are `operands`: its body is moved before `op`, what it
 * returns replaces the op's results, the op is erased. Other symbols of the
 * text are added to the module around `op`. False when the text does not parse,
 * which is a defect of the lowering and reported as one. */
bool nabla_template_replace(MlirOperation op, intptr_t count,
                            const MlirValue *operands, const nabla_text *text);

/* Whether `name`, the attribute `key` of argument or result `index` of a
 * function, is null or a string that is not empty; reported with an example. */
bool nabla_name_check(MlirOperation function, MlirAttribute name,
                      const char *key, const char *noun, intptr_t index,
                      const char *example);

/* Attribute of a custom_call with one result: the number of the argument in
 * whose memory the handler leaves it. */
#define NABLA_CALL_IN_PLACE "nabla.in_place"

#endif
