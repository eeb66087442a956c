/* See implicitize_uses.h. */
#include "transforms/implicit/implicitize_uses.h"

#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "dialect/bridge.h"
#include "dialect/control.h"
#include "dialect/ops.h"
#include "dialect/verify/checks.h"
#include "transforms/ir/build.h"

/* Materialized values that are still to be handed on. */
typedef struct work {
  MlirOperation *ops;
  size_t count, capacity;
} work;

static bool push(work *w, MlirOperation dense) {
  if (w->count == w->capacity) {
    size_t capacity = w->capacity ? 2 * w->capacity : 16;
    MlirOperation *ops = realloc(w->ops, capacity * sizeof *ops);
    if (!ops) return false;
    w->ops = ops;
    w->capacity = capacity;
  }
  w->ops[w->count++] = dense;
  return true;
}

static MlirLogicalResult swallow(MlirDiagnostic diagnostic, void *self) {
  (void)diagnostic, (void)self;
  return mlirLogicalResultSuccess();
}

#define MAX_ATTRIBUTES 32

/* A copy of `op` with other operands, of the result types given, or inferred
 * where that is NULL; null when there is no such operation. */
static MlirOperation try_copy(MlirOperation op, intptr_t count,
                              const MlirValue *operands,
                              const MlirType *result) {
  MlirNamedAttribute list[MAX_ATTRIBUTES];
  MlirContext context = nabla_op_context(op);
  char name[64];
  MlirStringRef full = nabla_name(op);
  intptr_t attributes = mlirOperationGetNumAttributes(op);
  if (attributes > MAX_ATTRIBUTES) return (MlirOperation){NULL};
  for (intptr_t i = 0; i < attributes; i++)
    list[i] = mlirOperationGetAttribute(op, i);
  (void)snprintf(name, sizeof name, "%.*s", (int)full.length, full.data);
  nabla_op_spec spec = {name,   count,      operands, result ? 1 : -1,
                        result, attributes, list};
  MlirDiagnosticHandlerID handler =
      mlirContextAttachDiagnosticHandler(context, swallow, NULL, NULL);
  MlirOperation made = nabla_op_create(op, &spec);
  bool good = !mlirOperationIsNull(made) && mlirOperationVerify(made);
  mlirContextDetachDiagnosticHandler(context, handler);
  if (good || mlirOperationIsNull(made)) return made;
  nabla_op_erase(made);
  return (MlirOperation){NULL};
}

/* The type of a reshape or broadcast_in_dim as a view of its new operand. */
static bool view_type(MlirOperation op, MlirType from, MlirType *out) {
  MlirType to = nabla_result_type(op, 0);
  nabla_strided old = nabla_implicit_strided(from), view = {.rank = 0};
  int64_t shape[NABLA_MAX_RANK], dims[NABLA_MAX_RANK];
  intptr_t rank = nabla_array_rank(to);
  for (intptr_t i = 0; i < rank; i++) {
    shape[i] = nabla_array_dim(to, i);
    if (nabla_is_dynamic(shape[i])) return false;
  }
  if (nabla_is(op, "nabla.reshape")) {
    if (!nabla_implicit_reshape(from, rank, shape, &view)) return false;
  } else {
    view.rank = rank;
    view.offset = old.offset;
    for (intptr_t i = 0; i < rank; i++) view.shape[i] = shape[i];
    intptr_t count = nabla_op_integers(op, "dims", dims);
    for (intptr_t i = 0; i < count; i++)
      view.strides[dims[i]] =
          old.shape[i] == shape[dims[i]] ? old.strides[i] : 0;
  }
  *out = nabla_implicit_with_view(from, &view);
  return true;
}

/* `op` with `operands`; null when it takes none of them so. */
static MlirOperation copy_with(MlirOperation op, intptr_t count,
                               const MlirValue *operands, MlirType implicit) {
  MlirOperation made = {NULL};
  MlirType type;
  bool is_shaped =
      nabla_is(op, "nabla.reshape") || nabla_is(op, "nabla.broadcast_in_dim");
  if (is_shaped) {
    if (view_type(op, implicit, &type))
      made = try_copy(op, count, operands, &type);
    if (!mlirOperationIsNull(made)) return made;
  }
  bool is_written = is_shaped || nabla_is(op, "nabla.convert") ||
                    nabla_is(op, "nabla.dynamic_slice");
  if (!is_written) return try_copy(op, count, operands, NULL);
  type = nabla_result_type(op, 0);
  return try_copy(op, count, operands, &type);
}

/* nabla.materialize of a value, before `before`. */
static MlirOperation materialize(MlirOperation before, MlirValue value) {
  nabla_op_spec spec = {"nabla.materialize", 1, &value, -1, NULL, 0, NULL};
  return nabla_op_create(before, &spec);
}

/* Puts `made` in the place of `op`; results that became implicit are handed on.
 */
static bool take_place(work *w, MlirOperation op, MlirOperation made) {
  for (intptr_t i = 0; i < mlirOperationGetNumResults(op); i++) {
    MlirValue value = mlirOperationGetResult(made, i);
    if (nablaTypeIsAImplicit(mlirValueGetType(value)) &&
        !nablaTypeIsAImplicit(nabla_result_type(op, i))) {
      MlirOperation dense = materialize(op, value);
      if (!push(w, dense)) return false;
      value = mlirOperationGetResult(dense, 0);
    }
    mlirValueReplaceAllUsesOfWith(mlirOperationGetResult(op, i), value);
  }
  nabla_op_erase(op);
  return true;
}

/* The slices of a scan's input stay implicit when they are whole blocks. */
static bool hand_to_scan(work *w, MlirOperation op, MlirValue dense,
                         MlirValue value) {
  nabla_scan_parts scan = nabla_scan_read(op);
  nablaImplicit parts = nablaImplicitTypeParts(mlirValueGetType(value));
  nabla_slices slices;
  nablaImplicitType stored = {.rank = parts.rank - 1,
                              .shape = parts.shape + 1,
                              .elementType = parts.elementType,
                              .encoding = parts.encoding};
  char message[NABLA_MESSAGE_SIZE];
  if (parts.rank < 2 || parts.storageRank >= 0 ||
      !nablaHookImplicitVerify(&stored, message))
    return true;
  MlirType slice = nablaImplicitTypeGet(nabla_op_context(op), &stored);
  if (!nabla_slices_find(mlirValueGetType(value), slice, &slices)) return true;
  MlirBlock body = nabla_region_block(op, 0);
  for (intptr_t i = scan.carries; i < scan.carries + scan.inputs; i++) {
    if (!mlirValueEqual(mlirOperationGetOperand(op, i), dense)) continue;
    MlirValue argument = mlirBlockGetArgument(body, i);
    if (nablaTypeIsAImplicit(mlirValueGetType(argument))) continue;
    MlirType tensor = mlirValueGetType(argument);
    mlirOperationSetOperand(op, i, value);
    mlirValueSetType(argument, slice);
    MlirOperation decoded =
        materialize(mlirBlockGetFirstOperation(body), argument);
    MlirValue result = mlirOperationGetResult(decoded, 0);
    if (!mlirTypeEqual(mlirValueGetType(result), tensor)) return false;
    mlirValueReplaceAllUsesExcept(argument, result, 1, &decoded);
    if (!push(w, decoded)) return false;
  }
  return true;
}

/* One user of a materialized value. */
static bool hand_on(work *w, MlirOperation user, MlirOperation dense) {
  MlirValue operands[NABLA_MAX_OPERANDS];
  MlirValue decoded = mlirOperationGetResult(dense, 0);
  MlirValue value = mlirOperationGetOperand(dense, 0);
  const nabla_op_row *row = nabla_op_find(user);
  if (nabla_is(user, "nabla.scan"))
    return hand_to_scan(w, user, decoded, value);
  intptr_t count = mlirOperationGetNumOperands(user);
  if (!row || row->implicit == NABLA_IMPLICIT_none ||
      row->implicit == NABLA_IMPLICIT_flows || count > NABLA_MAX_OPERANDS)
    return true;
  for (intptr_t i = 0; i < count; i++) {
    operands[i] = mlirOperationGetOperand(user, i);
    if (mlirValueEqual(operands[i], decoded)) operands[i] = value;
  }
  MlirOperation made =
      copy_with(user, count, operands, mlirValueGetType(value));
  return mlirOperationIsNull(made) || take_place(w, user, made);
}

/* The operations that use a value, each once. */
static MlirOperation *users_of(MlirValue value, size_t *count) {
  MlirOperation *users =
      calloc((size_t)nabla_use_count(value) + 1, sizeof *users);
  *count = 0;
  for (MlirOpOperand use = mlirValueGetFirstUse(value);
       users && !mlirOpOperandIsNull(use); use = mlirOpOperandGetNextUse(use)) {
    MlirOperation owner = mlirOpOperandGetOwner(use);
    bool known = false;
    for (size_t i = 0; i < *count; i++)
      known = known || mlirOperationEqual(users[i], owner);
    if (!known) users[(*count)++] = owner;
  }
  return users;
}

static void warn(MlirOperation user) {
  char text[160];
  MlirStringRef name = nabla_name(user);
  (void)snprintf(text, sizeof text,
                 "'%.*s' op does not take an implicit array here: "
                 "nabla.materialize stays before it",
                 (int)name.length, name.data);
  nablaEmitWarning(mlirOperationGetLocation(user), text);
}

static bool hand_on_all(work *w, MlirOperation dense) {
  MlirValue decoded = mlirOperationGetResult(dense, 0);
  size_t count;
  MlirOperation *users = users_of(decoded, &count);
  bool good = users != NULL;
  for (size_t i = 0; good && i < count; i++) good = hand_on(w, users[i], dense);
  free(users);
  users = good ? users_of(decoded, &count) : NULL;
  for (size_t i = 0; users && i < count; i++) warn(users[i]);
  if (users && count == 0) nabla_op_erase(dense);
  good = users != NULL;
  free(users);
  return good;
}

bool nabla_implicitize_uses(MlirOperation dense) {
  work w = {0};
  bool good = push(&w, dense);
  while (good && w.count > 0) {
    MlirOperation next = w.ops[--w.count];
    good = hand_on_all(&w, next);
  }
  free(w.ops);
  return good;
}
