/* Values of batches, and copies of operations with other operands; see
 * batching.h. */
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <string.h>

#include "dialect/control.h"
#include "dialect/verify/checks.h"
#include "transforms/batching/batching.h"

enum { MAX_ATTRIBUTES = 24 };

/* ---- values ---- */

nabla_batched nabla_batch_get(const nabla_batching *s, MlirValue value) {
  return nabla_batch_values_get(&s->map, value);
}

bool nabla_batch_is(const nabla_batching *s, MlirValue value) {
  return nabla_batch_get(s, value).batched;
}

MlirValue nabla_batch_operand(const nabla_batching *s, MlirOperation op,
                              intptr_t index) {
  return nabla_batch_get(s, mlirOperationGetOperand(op, index)).value;
}

nabla_built_shape nabla_batch_shape(const nabla_batching *s,
                                    const nabla_built_shape *one) {
  nabla_built_shape shape = {0};
  if (nabla_is_dynamic(s->size))
    nabla_build_shape_add_value(&shape, s->count);
  else
    nabla_build_shape_add_size(&shape, s->size);
  for (intptr_t i = 0; i < one->rank && shape.rank < NABLA_MAX_RANK; i++)
    nabla_build_shape_add(&shape, one, i);
  return shape;
}

/* Whether an array has room for one more dimension; reported if not. */
static bool has_room(const nabla_batching *s, MlirType type) {
  if (nabla_array_rank(type) < NABLA_MAX_RANK) return true;
  nabla_error_at(mlirOperationIsNull(s->op) ? s->b.before : s->op,
                 "nabla-vmap: an array has %d dimensions already, as many as "
                 "there can be",
                 NABLA_MAX_RANK);
  return false;
}

MlirValue nabla_batch_full(const nabla_batching *s, MlirValue value) {
  int64_t dims[NABLA_MAX_RANK];
  nabla_batched of = nabla_batch_get(s, value);
  if (of.batched || mlirValueIsNull(of.value)) return of.value;
  if (!has_room(s, mlirValueGetType(of.value))) return (MlirValue){NULL};
  nabla_built_shape one = nabla_build_shape_of(&s->b, of.value);
  nabla_built_shape shape = nabla_batch_shape(s, &one);
  for (intptr_t i = 0; i < one.rank; i++) dims[i] = i + 1;
  return nabla_build_broadcast(&s->b, of.value, dims, &shape);
}

MlirValue nabla_batch_materialized(const nabla_batching *s, MlirValue x) {
  if (mlirValueIsNull(x) || !nablaTypeIsAImplicit(mlirValueGetType(x)))
    return x;
  return nabla_build_one(&s->b, "materialize", x);
}

MlirValue nabla_batch_dense(const nabla_batching *s, MlirValue value) {
  return nabla_batch_materialized(s, nabla_batch_full(s, value));
}

bool nabla_batch_set(nabla_batching *s, MlirValue key, nabla_batched to) {
  if (mlirValueIsNull(to.value)) return false;
  nabla_batch_values_set(&s->map, key, to);
  return !s->map.failed;
}

bool nabla_batch_give(nabla_batching *s, MlirOperation op, intptr_t index,
                      MlirValue value) {
  return nabla_batch_set(s, mlirOperationGetResult(op, index),
                         (nabla_batched){value, true});
}

/* ---- types ---- */

MlirType nabla_batch_type(const nabla_batching *s, MlirType type) {
  int64_t dims[NABLA_MAX_RANK + 1] = {s->size};
  intptr_t rank = nabla_array_rank(type);
  if (!has_room(s, type)) return (MlirType){NULL};
  for (intptr_t i = 0; i < rank; i++) dims[i + 1] = nabla_array_dim(type, i);
  return mlirRankedTensorTypeGet(rank + 1, dims, nabla_array_element(type),
                                 mlirAttributeGetNull());
}

MlirType nabla_batch_implicit(int64_t size, MlirType type) {
  MlirType none = {NULL};
  nablaImplicit p = nablaImplicitTypeParts(type);
  nabla_strided strided = nabla_implicit_strided(type);
  if (nabla_is_dynamic(size) || p.rank >= NABLA_MAX_RANK) return none;
  int64_t shape[NABLA_MAX_RANK + 1] = {size}, view[2 * NABLA_MAX_RANK + 3];
  for (intptr_t i = 0; i < p.rank; i++) shape[i + 1] = p.shape[i];
  nablaImplicitType whole = {.rank = p.rank + 1,
                             .shape = shape,
                             .view = view,
                             .elementType = p.elementType,
                             .encoding = p.encoding};
  bool flat = nabla_encoding_read(p.encoding).granularity == NABLA_PER_BLOCK;
  if ((p.storageRank >= 0 || !flat) && p.rank > 0) {
    const int64_t *storage = p.storageRank >= 0 ? p.storage : p.shape;
    intptr_t rank = p.storageRank >= 0 ? p.storageRank : p.rank, at = 0;
    view[at++] = rank;
    for (intptr_t i = 0; i < rank; i++) view[at++] = storage[i];
    if (__builtin_mul_overflow(view[1], size, &view[1])) return none;
    view[at++] = (int64_t)nabla_implicit_storage_elements(type);
    for (intptr_t i = 0; i < p.rank; i++) view[at++] = strided.strides[i];
    view[at++] = strided.offset;
    whole.viewSize = at;
  }
  char message[NABLA_MESSAGE_SIZE];
  nabla_slices slices;
  if (!nablaHookImplicitVerify(&whole, message)) return none;
  MlirType out = nablaHookImplicitCanonical(mlirTypeGetContext(type), &whole);
  return nabla_slices_find(out, type, &slices) ? out : none;
}

/* ---- copies ---- */

static bool is_changed(const nabla_batch_copy *copy, MlirIdentifier name) {
  for (intptr_t i = 0; i < copy->change_count; i++)
    if (mlirIdentifierEqual(copy->changes[i].name, name)) return true;
  return false;
}

MlirOperation nabla_batch_copied(const nabla_batching *s,
                                 const nabla_batch_copy *copy) {
  MlirNamedAttribute list[MAX_ATTRIBUTES];
  intptr_t count = 0;
  for (intptr_t i = 0; i < copy->operand_count; i++)
    if (mlirValueIsNull(copy->operands[i])) return (MlirOperation){NULL};
  for (intptr_t i = 0; i < copy->change_count; i++)
    list[count++] = copy->changes[i];
  intptr_t all = mlirOperationGetNumAttributes(copy->op);
  for (intptr_t i = 0; i < all && count < MAX_ATTRIBUTES; i++) {
    MlirNamedAttribute one = mlirOperationGetAttribute(copy->op, i);
    if (!is_changed(copy, one.name)) list[count++] = one;
  }
  char name[64];
  MlirStringRef full = nabla_name(copy->op);
  size_t length = full.length < sizeof name ? full.length : sizeof name - 1;
  memcpy(name, full.data, length);
  name[length] = 0;
  nabla_op_spec spec = {name,
                        copy->operand_count,
                        copy->operands,
                        copy->result_count,
                        copy->results,
                        count,
                        list};
  return nabla_op_create(s->b.before, &spec);
}

MlirValue nabla_batch_first(MlirOperation op) {
  return mlirOperationIsNull(op) ? (MlirValue){NULL}
                                 : mlirOperationGetResult(op, 0);
}

bool nabla_batch_infer(nabla_batching *s, const nabla_batch_copy *copy) {
  nabla_batch_copy inferred = *copy;
  inferred.result_count = -1;
  MlirOperation made = nabla_batch_copied(s, &inferred);
  if (mlirOperationIsNull(made)) return false;
  bool good = true;
  for (intptr_t i = 0; good && i < mlirOperationGetNumResults(copy->op); i++)
    good = nabla_batch_give(s, copy->op, i, mlirOperationGetResult(made, i));
  return good;
}

nabla_batch_list nabla_batch_read(MlirOperation op, const char *key) {
  nabla_batch_list list = {0};
  MlirAttribute value = mlirOperationGetAttributeByName(op, nabla_ref(key));
  if (mlirAttributeIsNull(value)) return list;
  list.count = mlirDenseArrayGetNumElements(value);
  for (intptr_t i = 0; i < list.count; i++)
    list.values[i] = mlirDenseI64ArrayGetElement(value, i);
  return list;
}

nabla_batch_list nabla_batch_shifted(MlirOperation op, const char *key) {
  nabla_batch_list list = nabla_batch_read(op, key);
  for (intptr_t i = 0; i < list.count; i++) list.values[i]++;
  return list;
}

void nabla_batch_prepend(nabla_batch_list *list, int64_t value) {
  memmove(list->values + 1, list->values,
          (size_t)list->count * sizeof *list->values);
  list->values[0] = value;
  list->count++;
}

MlirNamedAttribute nabla_batch_attribute(const nabla_batching *s,
                                         const char *key,
                                         const nabla_batch_list *list) {
  return nabla_build_list(&s->b, key, list->count, list->values);
}

/* ---- shapes ---- */

MlirValue nabla_batch_cast(const nabla_batching *s, MlirValue x,
                           MlirType type) {
  if (mlirValueIsNull(x) || mlirTypeEqual(mlirValueGetType(x), type)) return x;
  nabla_op_spec spec = {"tensor.cast", 1, &x, 1, &type, 0, NULL};
  return nabla_build_op(&s->b, &spec);
}

MlirValue nabla_batch_move(const nabla_batching *s, MlirValue x, intptr_t from,
                           intptr_t to) {
  if (mlirValueIsNull(x) || from == to) return x;
  int64_t order[NABLA_MAX_RANK];
  intptr_t rank = nabla_array_rank(mlirValueGetType(x)), next = 0;
  for (intptr_t i = 0; i < rank; i++) {
    if (next == from) next++;
    order[i] = i == to ? from : next++;
  }
  return nabla_value_transpose(s->b.before, x, rank, order);
}
