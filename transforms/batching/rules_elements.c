/* Batches of operations that work element by element, and of those whose
 * attributes name dimensions; see batching.h. */
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <stdlib.h>
#include <string.h>

#include "transforms/batching/batching.h"

/* All operands with the batch in front: tensors of the shape of the result. */
bool nabla_batch_elementwise(nabla_batching *s, MlirOperation op) {
  MlirValue operands[NABLA_MAX_OPERANDS];
  intptr_t count = mlirOperationGetNumOperands(op);
  if (count > NABLA_MAX_OPERANDS) return false;
  for (intptr_t i = 0; i < count; i++)
    operands[i] = nabla_batch_full(s, mlirOperationGetOperand(op, i));
  nabla_batch_copy copy = {
      .op = op, .operand_count = count, .operands = operands};
  return nabla_batch_infer(s, &copy);
}

bool nabla_batch_arithmetic(nabla_batching *s, MlirOperation op) {
  MlirValue operands[NABLA_MAX_OPERANDS];
  MlirType results[NABLA_MAX_RESULTS];
  const intptr_t count = mlirOperationGetNumOperands(op);
  const intptr_t result_count = mlirOperationGetNumResults(op);
  if (count > NABLA_MAX_OPERANDS || result_count > NABLA_MAX_RESULTS)
    return false;
  for (intptr_t i = 0; i < count; i++) {
    const MlirValue operand = mlirOperationGetOperand(op, i);
    operands[i] = mlirTypeIsARankedTensor(mlirValueGetType(operand))
                      ? nabla_batch_full(s, operand)
                      : nabla_batch_operand(s, op, i);
  }
  for (intptr_t i = 0; i < result_count; i++) {
    results[i] = nabla_batch_type(s, nabla_result_type(op, i));
    if (mlirTypeIsNull(results[i])) return false;
  }
  const nabla_batch_copy copy = {.op = op,
                                 .operand_count = count,
                                 .operands = operands,
                                 .result_count = result_count,
                                 .results = results};
  const MlirOperation made = nabla_batch_copied(s, &copy);
  if (mlirOperationIsNull(made)) return false;
  bool good = true;
  for (intptr_t i = 0; good && i < result_count; i++)
    good = nabla_batch_give(s, op, i, mlirOperationGetResult(made, i));
  return good;
}

/* The element type of the result is written. */
bool nabla_batch_convert(nabla_batching *s, MlirOperation op) {
  MlirValue x = nabla_batch_dense(s, mlirOperationGetOperand(op, 0));
  MlirType element = nabla_array_element(nabla_result_type(op, 0));
  return nabla_batch_give(s, op, 0, nabla_build_convert(&s->b, x, element));
}

/* ---- dimensions in attributes ---- */

/* A word of BATCH_DIMS: "dim", "permutation+0", "starts=0". */
typedef struct key {
  char name[32];
  bool leads;   /* the batch stands first in the list */
  bool is_each; /* an entry for each dimension */
  int64_t value;
} key;

/* Reads the word at `*at` and steps behind it; false at the end. */
static bool next_key(const char **at, key *out) {
  while (**at == ' ') ++*at;
  size_t length = strcspn(*at, " ");
  if (length == 0) return false;
  size_t name = strcspn(*at, " +=");
  *out = (key){.leads = (*at)[name] == '+', .is_each = (*at)[name] == '='};
  if (name >= sizeof out->name) return false;
  memcpy(out->name, *at, name);
  if (out->is_each) out->value = strtoll(*at + name + 1, NULL, 10);
  *at += length;
  return true;
}

static MlirNamedAttribute changed(nabla_batching *s, MlirOperation op,
                                  const key *k) {
  MlirAttribute old = mlirOperationGetAttributeByName(op, nabla_ref(k->name));
  if (mlirAttributeIsAInteger(old))
    return nabla_build_integer(&s->b, k->name, 64,
                               mlirIntegerAttrGetValueInt(old) + 1);
  nabla_batch_list list = k->is_each ? nabla_batch_read(op, k->name)
                                     : nabla_batch_shifted(op, k->name);
  if (k->leads) nabla_batch_prepend(&list, 0);
  /* an empty list is the default, but for an array without dimensions */
  bool given = list.count || !nabla_array_rank(nabla_operand_type(op, 0));
  if (k->is_each && given) nabla_batch_prepend(&list, k->value);
  return nabla_batch_attribute(s, k->name, &list);
}

bool nabla_batch_dims(nabla_batching *s, MlirOperation op, const char *keys) {
  enum { MAX_KEYS = 8 };
  MlirNamedAttribute changes[MAX_KEYS];
  MlirValue operands[NABLA_MAX_OPERANDS];
  intptr_t count = mlirOperationGetNumOperands(op), change = 0;
  if (count > NABLA_MAX_OPERANDS) return false;
  for (intptr_t i = 0; i < count; i++)
    operands[i] = nabla_batch_full(s, mlirOperationGetOperand(op, i));
  key k;
  while (change < MAX_KEYS && next_key(&keys, &k))
    if (!mlirAttributeIsNull(
            mlirOperationGetAttributeByName(op, nabla_ref(k.name))))
      changes[change++] = changed(s, op, &k);
  nabla_batch_copy copy = {.op = op,
                           .operand_count = count,
                           .operands = operands,
                           .change_count = change,
                           .changes = changes};
  return nabla_batch_infer(s, &copy);
}
