/* Batches of operations that make implicit arrays and take them apart; see
 * batching.h. */
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <stdio.h>

#include "dialect/bridge.h"
#include "dialect/control.h"
#include "transforms/batching/batching.h"

static MlirType type_of(MlirValue value) { return mlirValueGetType(value); }

/* The type of a packed batch, and how an example lies in it; null where it is
 * none. */
static MlirType packed_batch(const nabla_batching *s, MlirType one,
                             nabla_slices *slices) {
  MlirType whole = nabla_batch_implicit(s->size, one);
  if (!mlirTypeIsNull(whole) && !nabla_slices_find(whole, one, slices))
    whole = (MlirType){NULL};
  return whole;
}

static void report_decoded(MlirOperation op, const char *why) {
  char text[320];
  MlirStringRef name = nabla_name(op);
  (void)snprintf(text, sizeof text,
                 "'%.*s' op nabla-vmap: its result is decoded for a batch: %s",
                 (int)name.length, name.data, why);
  nablaEmitWarning(mlirOperationGetLocation(op), text);
}

static bool each_decoded(nabla_batching *s, MlirOperation op) {
  report_decoded(op, nabla_is_dynamic(s->size)
                         ? "packed arrays have static sizes, the batch has "
                           "none: give axis-size"
                         : "blocks, or what all blocks share, would be those "
                           "of several examples");
  return nabla_batch_each(s, op);
}

/* ---- quantize ---- */

/* The storage of a view as an array of its own. */
static MlirType storage_of(MlirType whole) {
  nablaImplicit p = nablaImplicitTypeParts(whole);
  nablaImplicitType storage = {.rank = p.storageRank,
                               .shape = p.storage,
                               .elementType = p.elementType,
                               .encoding = p.encoding};
  return p.storageRank < 0
             ? whole
             : nablaImplicitTypeGet(mlirTypeGetContext(whole), &storage);
}

static MlirValue build(const nabla_batching *s, const char *name,
                       intptr_t count, const MlirValue *operands,
                       MlirType type) {
  nabla_op_spec spec = {name, count, operands, 1, &type, 0, NULL};
  return nabla_build_op(&s->b, &spec);
}

static MlirValue reshaped(const nabla_batching *s, MlirValue x, MlirType type) {
  if (mlirValueIsNull(x) || mlirTypeEqual(type_of(x), type)) return x;
  return build(s, "nabla.reshape", 1, &x, type);
}

/* Blocks of one example after those of another are the blocks of all; where
 * they would cross examples, each is encoded alone. */
bool nabla_batch_quantize(nabla_batching *s, MlirOperation op) {
  nabla_slices slices;
  MlirType whole = packed_batch(s, nabla_result_type(op, 0), &slices);
  if (mlirTypeIsNull(whole) || slices.any_shared) return each_decoded(s, op);
  MlirType storage = storage_of(whole);
  MlirValue x = nabla_batch_dense(s, mlirOperationGetOperand(op, 0));
  x = reshaped(s, x, nabla_dense_type(storage));
  MlirValue q = build(s, "nabla.quantize", 1, &x, storage);
  return nabla_batch_give(s, op, 0, reshaped(s, q, whole));
}

/* ---- materialize ---- */

bool nabla_batch_materialize(nabla_batching *s, MlirOperation op) {
  MlirValue x = nabla_batch_operand(s, op, 0);
  if (!nablaTypeIsAImplicit(type_of(x))) return nabla_batch_give(s, op, 0, x);
  nabla_batch_copy copy = {.op = op, .operand_count = 1, .operands = &x};
  return nabla_batch_infer(s, &copy);
}

bool nabla_batch_implicit_depth(nabla_batching *s, MlirOperation op) {
  const nabla_built_shape none = {0};
  MlirType type = nabla_operand_type(op, 0);
  MlirType element = nabla_array_element(nabla_result_type(op, 0));
  int depth = nablaTypeIsAImplicit(type)
                  ? nabla_encoding_depth(nablaImplicitTypeParts(type).encoding)
                  : 0;
  return nabla_batch_set(
      s, mlirOperationGetResult(op, 0),
      (nabla_batched){nabla_build_full_integer(&s->b, depth, &none, element),
                      false});
}

/* ---- pack and unpack ---- */

/* The type of a component of all examples as a list, and as one list of each
 * example. */
static MlirType list_of_all(const nabla_batching *s,
                            const nabla_implicit_component *all, int64_t each,
                            bool flat) {
  const int64_t dims[] = {s->size, each};
  const int64_t *shape = flat ? &all->count : dims;
  if (!nablaTypeIsAImplicit(all->type))
    return mlirRankedTensorTypeGet(flat ? 1 : 2, shape, all->element,
                                   mlirAttributeGetNull());
  nablaImplicit p = nablaImplicitTypeParts(all->type);
  nablaImplicitType list = {.rank = flat ? 1 : 2,
                            .shape = shape,
                            .elementType = p.elementType,
                            .encoding = p.encoding};
  return nablaImplicitTypeGet(mlirTypeGetContext(all->type), &list);
}

/* The components of one example and of all; their number. */
static uint32_t components_of(MlirType one, MlirType whole,
                              nabla_implicit_component *part,
                              nabla_implicit_component *all) {
  nabla_implicit_components(one, part);
  return nabla_implicit_components(whole, all);
}

/* Examples that are encoded one by one are taken apart one by one. */
static bool is_encoded(const nabla_batching *s, MlirOperation op,
                       MlirOperation *out) {
  *out = nabla_defining_op(mlirOperationGetOperand(op, 0));
  return !nablaTypeIsAImplicit(type_of(nabla_batch_operand(s, op, 0))) &&
         (nabla_is(*out, "nabla.quantize") || nabla_is(*out, "nabla.pack"));
}

bool nabla_batch_unpack(nabla_batching *s, MlirOperation op) {
  MlirValue x = nabla_batch_operand(s, op, 0);
  MlirOperation encode;
  if (is_encoded(s, op, &encode)) return nabla_batch_each_behind(s, encode, op);
  nabla_implicit_component part[NABLA_MAX_PARTS], all[NABLA_MAX_PARTS];
  if (!nablaTypeIsAImplicit(type_of(x)) ||
      nabla_encoding_read(nablaImplicitTypeParts(type_of(x)).encoding).kind ==
          NABLA_KIND_LORA) {
    nabla_error_at(op,
                   "nabla-vmap: the examples of its operand have no components "
                   "of their own: they are not whole blocks of a packed batch");
    return false;
  }
  uint32_t count =
      components_of(nabla_operand_type(op, 0), type_of(x), part, all);
  nabla_op_spec spec = {"nabla.unpack", 1, &x, -1, NULL, 0, NULL};
  MlirOperation made = nabla_op_create(s->b.before, &spec);
  if (mlirOperationIsNull(made)) return false;
  bool good = true;
  for (uint32_t i = 0; good && i < count; i++) {
    MlirValue value = mlirOperationGetResult(made, (intptr_t)i);
    bool shared = part[i].count == all[i].count && s->size != 1;
    if (!shared)
      value = reshaped(s, value, list_of_all(s, &all[i], part[i].count, false));
    good = nabla_batch_set(s, mlirOperationGetResult(op, (intptr_t)i),
                           (nabla_batched){value, !shared});
  }
  return good;
}

/* Components that all examples have in common must be the same. */
static bool can_pack(const nabla_batching *s, MlirOperation op,
                     const nabla_slices *slices) {
  MlirType type = nabla_result_type(op, 0);
  nabla_encoding_kind kind =
      nabla_encoding_read(nablaImplicitTypeParts(type).encoding).kind;
  if (kind == NABLA_KIND_LORA || slices->any_shared) return false;
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++) {
    MlirValue x = nabla_batch_operand(s, op, i);
    MlirType own = nabla_operand_type(op, i);
    if (nablaTypeIsAImplicit(own) &&
        nabla_batch_is(s, mlirOperationGetOperand(op, i)) &&
        !nablaTypeIsAImplicit(type_of(x)))
      return false;
    if (nablaTypeIsAImplicit(own) &&
        !nabla_batch_is(s, mlirOperationGetOperand(op, i)))
      return false; /* repeated blocks are no storage */
  }
  return true;
}

bool nabla_batch_pack(nabla_batching *s, MlirOperation op) {
  nabla_slices slices;
  nabla_implicit_component part[NABLA_MAX_PARTS], all[NABLA_MAX_PARTS];
  MlirValue operands[NABLA_MAX_PARTS];
  MlirType one = nabla_result_type(op, 0);
  MlirType whole = packed_batch(s, one, &slices);
  if (mlirTypeIsNull(whole) || !can_pack(s, op, &slices))
    return each_decoded(s, op);
  uint32_t count = components_of(one, whole, part, all);
  for (uint32_t i = 0; i < count; i++)
    operands[i] = reshaped(
        s, nabla_batch_full(s, mlirOperationGetOperand(op, (intptr_t)i)),
        list_of_all(s, &all[i], part[i].count, true));
  return nabla_batch_give(
      s, op, 0, build(s, "nabla.pack", (intptr_t)count, operands, whole));
}
