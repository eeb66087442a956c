/* Putting what a rule recorded into the program that is compiled. */
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <mlir-c/Rewrite.h>
#include <string.h>

#include "dialect/dialect.h"
#include "dialect/ops.h"
#include "lib/array/dtypes.h"
#include "lib/array/emit.h"
#include "lib/array/function/array_rules.h"
#include "lib/array/packed.h"
#include "transforms/ir/ir.h"

#define MAX_CAPTURED ((uint64_t)65536) /* bytes of an array from outside */

typedef struct placing {
  const nabla_rule_recording *r;
  MlirRewriterBase rewriter;
  MlirContext context;
  MlirLocation location;
} placing;

/* Makes an operation of one result before that which is replaced. */
static MlirValue insert(const placing *p, const char *name, MlirValue operand,
                        const MlirNamedAttribute *attribute, MlirType result) {
  MlirOperationState state =
      mlirOperationStateGet(nabla_ref(name), p->location);
  if (!mlirValueIsNull(operand))
    mlirOperationStateAddOperands(&state, 1, &operand);
  if (attribute) mlirOperationStateAddAttributes(&state, 1, attribute);
  mlirOperationStateAddResults(&state, 1, &result);
  const MlirOperation op = mlirOperationCreate(&state);
  if (mlirOperationIsNull(op)) return (MlirValue){NULL};
  (void)mlirRewriterBaseInsert(p->rewriter, op);
  return mlirOperationGetResult(op, 0);
}

/* ---- arguments ---- */

/* An array from outside as a constant. */
static nabla_status add_constant(const placing *p, const nabla_array *array,
                                 MlirValue *out, nabla_diag *diag) {
  const nabla_dense *dense = &array->dense;
  if (nabla_dtype_is_packed(dense->dtype) || !dense->data ||
      nabla_dtype_bytes(dense) > MAX_CAPTURED)
    return nabla_fail(diag, NABLA_UNSUPPORTED,
                      "an array from outside is a constant of the program: a "
                      "dense one of at most %llu bytes, which was realized",
                      (unsigned long long)MAX_CAPTURED);
  const MlirType type = nabla_recorder_type(p->context, dense);
  const MlirAttribute value = nabla_dense_to_mlir(p->context, dense);
  if (mlirTypeIsNull(type) || mlirAttributeIsNull(value))
    return nabla_fail(diag, NABLA_UNSUPPORTED,
                      "an array from outside that is no constant");
  const MlirNamedAttribute attribute = nabla_named(p->context, "value", value);
  *out = insert(p, "nabla.constant", (MlirValue){NULL}, &attribute, type);
  return mlirValueIsNull(*out)
             ? nabla_fail(diag, NABLA_NO_MEMORY, "no memory for a constant")
             : NABLA_OK;
}

/* Puts operands and constants in the place of the block's arguments. */
static nabla_status replace_arguments(const placing *p, MlirBlock block,
                                      nabla_diag *diag) {
  const nabla_rule_recording *r = p->r;
  for (size_t i = 0; i < r->walk.leaf_count; i++) {
    MlirValue value = {NULL};
    if (i < r->call.operand_count)
      value =
          mlirOperationGetOperand(r->op, (intptr_t)nabla_rule_operand(r, i));
    else
      NABLA_TRY(add_constant(p, r->walk.leaves[i], &value, diag));
    mlirValueReplaceAllUsesOfWith(mlirBlockGetArgument(block, (intptr_t)i),
                                  value);
  }
  return NABLA_OK;
}

/* ---- operations ---- */

static MlirWalkResult set_location(MlirOperation op, void *self) {
  mlirOperationSetLocation(op, *(const MlirLocation *)self);
  return MlirWalkResultAdvance;
}

static MlirWalkResult find_call(MlirOperation op, void *self) {
  if (!nabla_is(op, "func.call")) return MlirWalkResultAdvance;
  *(bool *)self = true;
  return MlirWalkResultInterrupt;
}

/* Moves the operations of a block, and gives the values that it returns. */
static void move_body(const placing *p, MlirBlock block, MlirValue *results) {
  MlirLocation location = p->location;
  const MlirOperation end = mlirBlockGetTerminator(block);
  MlirOperation op = mlirBlockGetFirstOperation(block);
  while (!mlirOperationEqual(op, end)) {
    const MlirOperation next = mlirOperationGetNextInBlock(op);
    mlirOperationRemoveFromParent(op);
    mlirOperationWalk(op, set_location, &location, MlirWalkPreOrder);
    (void)mlirRewriterBaseInsert(p->rewriter, op);
    op = next;
  }
  for (size_t i = 0; i < p->r->call.result_count; i++)
    results[i] = mlirOperationGetOperand(end, (intptr_t)i);
}

/* ---- results ---- */

/* The packed value as a dense one: behind the operation that gives it, or, of
 * an argument, where the rule stands. */
static MlirValue decode(const placing *p, MlirValue result, MlirValue packed) {
  if (mlirValueIsAOpResult(packed))
    mlirRewriterBaseSetInsertionPointAfter(p->rewriter,
                                           mlirOpResultGetOwner(packed));
  const MlirValue dense =
      insert(p, "nabla.materialize", packed, NULL, mlirValueGetType(result));
  mlirRewriterBaseSetInsertionPointBefore(p->rewriter, p->r->op);
  return dense;
}

/* Whether an operation takes a packed operand where it had a dense one. */
static bool takes_packed(MlirOperation op) {
  const nabla_op_row *row = nabla_op_find(op);
  return row && (row->implicit == NABLA_IMPLICIT_rules ||
                 row->implicit == NABLA_IMPLICIT_parts ||
                 row->implicit == NABLA_IMPLICIT_views ||
                 nabla_is(op, "nabla.materialize") ||
                 nabla_is(op, "nabla.implicit_depth"));
}

static void give_packed(const placing *p, MlirValue result, MlirValue packed);

/* Replaces an operation that infers its types by one of the packed value, whose
 * results may be packed in turn. False where there is none. */
static bool rebuild_user(const placing *p, MlirOperation user, MlirValue result,
                         MlirValue packed) {
  MlirOperationState state =
      mlirOperationStateGet(nabla_name(user), mlirOperationGetLocation(user));
  const intptr_t attributes = mlirOperationGetNumAttributes(user);
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(user); i++) {
    const MlirValue own = mlirOperationGetOperand(user, i);
    const MlirValue operand = mlirValueEqual(own, result) ? packed : own;
    mlirOperationStateAddOperands(&state, 1, &operand);
  }
  for (intptr_t i = 0; i < attributes; i++) {
    const MlirNamedAttribute attribute = mlirOperationGetAttribute(user, i);
    mlirOperationStateAddAttributes(&state, 1, &attribute);
  }
  mlirOperationStateEnableResultTypeInference(&state);
  const MlirOperation made = mlirOperationCreate(&state);
  if (mlirOperationIsNull(made)) return false;
  mlirRewriterBaseSetInsertionPointBefore(p->rewriter, user);
  (void)mlirRewriterBaseInsert(p->rewriter, made);
  mlirRewriterBaseSetInsertionPointBefore(p->rewriter, p->r->op);
  for (intptr_t i = 0; i < mlirOperationGetNumResults(user); i++) {
    const MlirValue old = mlirOperationGetResult(user, i),
                    value = mlirOperationGetResult(made, i);
    if (mlirTypeEqual(mlirValueGetType(old), mlirValueGetType(value)))
      mlirValueReplaceAllUsesOfWith(old, value);
    else
      give_packed(p, old, value);
  }
  mlirRewriterBaseEraseOp(p->rewriter, user);
  return true;
}

/* Makes every operand of `user` that is `from` another value. */
static void replace_operands(MlirOperation user, MlirValue from, MlirValue to) {
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(user); i++)
    if (mlirValueEqual(mlirOperationGetOperand(user, i), from))
      mlirOperationSetOperand(user, i, to);
}

/* Replaces a dense result by a packed value: operations that have rules get it
 * as it is, views become views of it, all other uses get it decoded: where the
 * value is, which is before them. */
static void give_packed(const placing *p, MlirValue result, MlirValue packed) {
  MlirValue dense = {NULL};
  MlirOpOperand use = mlirValueGetFirstUse(result);
  for (; !mlirOpOperandIsNull(use); use = mlirValueGetFirstUse(result)) {
    const MlirOperation user = mlirOpOperandGetOwner(use);
    const bool takes = takes_packed(user);
    if (takes && nabla_rule_infers(user) &&
        rebuild_user(p, user, result, packed))
      continue;
    if (!takes && mlirValueIsNull(dense)) dense = decode(p, result, packed);
    replace_operands(user, result, takes ? packed : dense);
  }
}

/* A result with the sizes that the operation's has. */
static MlirValue fit(const placing *p, MlirValue value, MlirType type) {
  const MlirType own = mlirValueGetType(value);
  if (mlirTypeEqual(own, type) || nablaTypeIsAImplicit(own) ||
      nablaTypeIsAImplicit(type))
    return value;
  return insert(p, "tensor.cast", value, NULL, type);
}

static void replace_results(const placing *p, MlirValue *values) {
  const MlirOperation op = p->r->op;
  const size_t count = p->r->call.result_count;
  bool same = true;
  for (size_t i = 0; i < count; i++) {
    const MlirType type = nabla_result_type(op, (intptr_t)i);
    values[i] = fit(p, values[i], type);
    same = same && !(nablaTypeIsAImplicit(mlirValueGetType(values[i])) &&
                     !nablaTypeIsAImplicit(type));
  }
  if (same) {
    mlirRewriterBaseReplaceOpWithValues(p->rewriter, op, (intptr_t)count,
                                        values);
    return;
  }
  for (size_t i = 0; i < count; i++) {
    const MlirValue result = mlirOperationGetResult(op, (intptr_t)i);
    if (mlirTypeEqual(mlirValueGetType(result), mlirValueGetType(values[i])))
      mlirValueReplaceAllUsesOfWith(result, values[i]);
    else
      give_packed(p, result, values[i]);
  }
  mlirRewriterBaseEraseOp(p->rewriter, op);
}

/* ---- the module ---- */

static nabla_status place(const placing *p, MlirModule module,
                          nabla_diag *diag) {
  MlirValue results[NABLA_ARRAY_RULE_RESULTS];
  const MlirOperation function =
      mlirBlockGetFirstOperation(mlirModuleGetBody(module));
  const MlirBlock block =
      mlirRegionGetFirstBlock(mlirOperationGetRegion(function, 0));
  bool calls = false;
  mlirOperationWalk(function, find_call, &calls, MlirWalkPreOrder);
  if (calls)
    return nabla_fail(diag, NABLA_UNSUPPORTED,
                      "a rule records no calls of functions: nabla_call, and "
                      "operations of users that have a body");
  NABLA_TRY(replace_arguments(p, block, diag));
  move_body(p, block, results);
  replace_results(p, results);
  return NABLA_OK;
}

nabla_status nabla_rule_place(nabla_rule_recording *r,
                              MlirRewriterBase rewriter, nabla_diag *diag) {
  const placing p = {r, rewriter, nabla_op_context(r->op),
                     mlirOperationGetLocation(r->op)};
  nabla_emitted_program emitted = {.walk = &r->walk};
  nabla_buffer bytecode;
  nabla_buffer_init(&bytecode, r->walk.allocator, "a rule", SIZE_MAX / 2);
  nabla_status status = nabla_program_emit(&emitted, &bytecode, diag);
  if (!status) {
    const MlirModule module = mlirModuleCreateParse(
        p.context,
        mlirStringRefCreate((const char *)bytecode.data, bytecode.size));
    if (mlirModuleIsNull(module)) {
      status = nabla_fail(diag, NABLA_CORRUPT, "the rule cannot be read");
    } else {
      status = place(&p, module, diag);
      mlirModuleDestroy(module);
    }
  }
  nabla_buffer_deinit(&bytecode);
  return status;
}
