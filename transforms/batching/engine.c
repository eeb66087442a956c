/* Makes the operations of a batch from those of a function; see batching.h. */
#include <string.h>

#include "dialect/control.h"
#include "dialect/ops.h"
#include "transforms/batching/batching.h"
#include "transforms/composite/decompositions.h"

/* How a row of ops.def is applied to a batch. */
typedef struct batch_row {
  nabla_batch_rule word;
  const char *dims; /* BATCH_DIMS */
  nabla_batch_rule_function *by;
} batch_row;

static const batch_row batch_rows[] = {
#define OP(id, columns)  {columns},
#define BATCH(name)      .word = NABLA_BATCH_##name,
#define BATCH_DIMS(keys) .dims = (keys),
#define BATCH_BY(name)   .by = nabla_batch_##name,
#include "dialect/ops.def"
};

static const batch_row *row_of(MlirOperation op) {
  const nabla_op_row *row = nabla_op_find(op);
  size_t count;
  return row ? &batch_rows[row - nabla_op_rows(&count)] : NULL;
}

/* ---- which operations have a batch ---- */

static bool uses_batch(const nabla_batching *s, MlirOperation op) {
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++)
    if (nabla_batch_is(s, mlirOperationGetOperand(op, i))) return true;
  return false;
}

typedef struct search {
  const nabla_batching *s;
  bool (*wants)(const nabla_batching *s, MlirOperation op);
  bool found;
} search;

static MlirWalkResult look(MlirOperation op, void *self) {
  search *all = self;
  all->found = all->wants(all->s, op);
  return all->found ? MlirWalkResultInterrupt : MlirWalkResultAdvance;
}

bool nabla_batch_touches(const nabla_batching *s, MlirOperation op) {
  search all = {s, uses_batch, false};
  mlirOperationWalk(op, look, &all, MlirWalkPreOrder);
  return all.found;
}

/* A size, or what depends on no element, has no batch. */
static bool has_no_batch(MlirOperation op) {
  const batch_row *row = row_of(op);
  return nabla_is(op, "tensor.dim") || (row && row->word == NABLA_BATCH_none);
}

void nabla_batch_flow(const nabla_batching *s, MlirBlock block,
                      const bool *arguments, bool *results) {
  nabla_batching in = *s; /* entries of `in` say what is batched, no more */
  in.map = (nabla_batch_values){0};
  for (size_t i = 0; i < s->map.capacity; i++)
    if (s->map.slots[i].key.ptr && s->map.slots[i].to.batched)
      nabla_batch_values_set(&in.map, s->map.slots[i].key, s->map.slots[i].to);
  for (intptr_t i = 0; i < mlirBlockGetNumArguments(block); i++) {
    MlirValue argument = mlirBlockGetArgument(block, i);
    nabla_batch_values_set(&in.map, argument,
                           (nabla_batched){argument, arguments[i]});
  }
  MlirOperation op = mlirBlockGetFirstOperation(block), next;
  for (; next = mlirOperationGetNextInBlock(op), !mlirOperationIsNull(next);
       op = next) {
    bool batched = nabla_batch_touches(&in, op) && !has_no_batch(op);
    for (intptr_t i = 0; i < mlirOperationGetNumResults(op); i++) {
      MlirValue result = mlirOperationGetResult(op, i);
      nabla_batch_values_set(&in.map, result, (nabla_batched){result, batched});
    }
  }
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++)
    results[i] = nabla_batch_is(&in, mlirOperationGetOperand(op, i));
  nabla_batch_values_deinit(&in.map);
}

/* ---- operations as they are ---- */

static MlirWalkResult remap(MlirOperation op, void *self) {
  const nabla_batching *s = self;
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++) {
    nabla_batched to = nabla_batch_get(s, mlirOperationGetOperand(op, i));
    if (!mlirValueIsNull(to.value)) mlirOperationSetOperand(op, i, to.value);
  }
  return MlirWalkResultAdvance;
}

bool nabla_batch_clone(nabla_batching *s, MlirOperation op) {
  MlirOperation made = mlirOperationClone(op);
  mlirBlockInsertOwnedOperationBefore(mlirOperationGetBlock(s->b.before),
                                      s->b.before, made);
  mlirOperationWalk(made, remap, s, MlirWalkPreOrder);
  bool good = true;
  for (intptr_t i = 0; good && i < mlirOperationGetNumResults(op); i++)
    good = nabla_batch_set(
        s, mlirOperationGetResult(op, i),
        (nabla_batched){mlirOperationGetResult(made, i), false});
  return good;
}

/* ---- operations of other dialects ---- */

/* The same dimension stands one place further. */
static bool batch_dim(nabla_batching *s, MlirOperation op) {
  MlirValue array = nabla_batch_operand(s, op, 0);
  MlirValue index = nabla_batch_operand(s, op, 1);
  index = nabla_build_arith(&s->b, "addi", index, nabla_build_index(&s->b, 1));
  MlirType type = nabla_result_type(op, 0);
  MlirValue operands[] = {array, index};
  nabla_op_spec spec = {"tensor.dim", 2, operands, 1, &type, 0, NULL};
  return nabla_batch_set(s, mlirOperationGetResult(op, 0),
                         (nabla_batched){nabla_build_op(&s->b, &spec), false});
}

static bool batch_cast(nabla_batching *s, MlirOperation op) {
  MlirType type = nabla_batch_type(s, nabla_result_type(op, 0));
  if (mlirTypeIsNull(type)) return false;
  MlirValue x = nabla_batch_dense(s, mlirOperationGetOperand(op, 0));
  return nabla_batch_give(s, op, 0, nabla_batch_cast(s, x, type));
}

/* An operation of arith or math works element by element on tensors. */
static bool is_arithmetic(MlirOperation op) {
  const MlirStringRef name = nabla_name(op);
  return (name.length > 6 && !memcmp(name.data, "arith.", 6)) ||
         (name.length > 5 && !memcmp(name.data, "math.", 5));
}

static bool batch_other(nabla_batching *s, MlirOperation op) {
  if (nabla_is(op, "tensor.dim")) return batch_dim(s, op);
  if (nabla_is(op, "tensor.cast")) return batch_cast(s, op);
  if (nabla_is(op, "func.call")) return nabla_batch_call(s, op);
  if (is_arithmetic(op)) return nabla_batch_arithmetic(s, op);
  nabla_error_at(
      op,
      "has no rule for batches: nabla-vmap knows operations of the "
      "nabla dialect, arith, math, tensor.dim, tensor.cast and func.call; "
      "numbers of examples are tensors of rank 0");
  return false;
}

/* ---- rules ---- */

static bool batch_by_word(nabla_batching *s, MlirOperation op,
                          const batch_row *row) {
  switch (row->word) {
    case NABLA_BATCH_elementwise:
      return nabla_batch_elementwise(s, op);
    case NABLA_BATCH_dims:
      return nabla_batch_dims(s, op, row->dims);
    case NABLA_BATCH_parts:
      return nabla_batch_parts(s, op);
    case NABLA_BATCH_control:
      return nabla_batch_control(s, op);
    case NABLA_BATCH_scan:
      return nabla_batch_each(s, op);
    case NABLA_BATCH_none:
      return nabla_batch_clone(s, op);
    case NABLA_BATCH_empty:
      break;
  }
  nabla_error_at(
      op,
      "has no rule for batches: fill BATCH or BATCH_BY in its row of "
      "dialect/ops.def");
  return false;
}

static bool batch_op(nabla_batching *s, MlirOperation op) {
  s->op = op;
  if (!nabla_batch_touches(s, op)) return nabla_batch_clone(s, op);
  const batch_row *row = row_of(op);
  if (!row) return batch_other(s, op);
  return row->by ? row->by(s, op) : batch_by_word(s, op, row);
}

bool nabla_batch_parts(nabla_batching *s, MlirOperation op) {
  (void)op;
  s->wants_parts = true;
  return true;
}

/* Parts stand where the composite stood, behind `previous`. */
bool nabla_batch_block(nabla_batching *s, MlirBlock block) {
  MlirOperation previous = {NULL}, op = mlirBlockGetFirstOperation(block), next;
  for (; next = mlirOperationGetNextInBlock(op), !mlirOperationIsNull(next);) {
    s->wants_parts = false;
    if (!batch_op(s, op)) return false;
    if (s->wants_parts && !nabla_decompose(op)) return false;
    if (!s->wants_parts) {
      previous = op;
      op = next;
    } else if (mlirOperationIsNull(previous)) {
      op = mlirBlockGetFirstOperation(block);
    } else {
      op = mlirOperationGetNextInBlock(previous);
    }
    s->wants_parts = false;
  }
  return true;
}
