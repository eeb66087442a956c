/* The batch of an operation of a user with a handler: the handler is called
 * once, with the dimensions that `batch` of nabla/operation.h says. */
#include "lib/array/function/operation_batch.h"

#include <inttypes.h>
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <string.h>

#include "lib/array/function/array_rules.h"
#include "nabla/derivative.h"
#include "nabla/mlir.h"
#include "transforms/ir/build.h"
#include "transforms/ir/build_moves.h"
#include "transforms/ir/ir.h"

#define MAX_ATTRIBUTES 64

/* A custom call that is applied to a batch. */
typedef struct batching {
  nabla_call_rule_frame *frame;
  const nabla_operation *operation;
  nabla_builder b;
  nabla_rule_recording read; /* types and attributes of the call */
  nabla_attribute_tree given[MAX_ATTRIBUTES], attributes;
  size_t arrays;     /* operands that are no sizes */
  MlirValue example; /* an operand with a batch, which has its size */
  int64_t size;      /* of the batch; MLIR's number where it is not known */
  int64_t dims[NABLA_MAX_RECORDED], result_dims[NABLA_ARRAY_RULE_RESULTS];
  MlirType types[NABLA_ARRAY_RULE_RESULTS]; /* of results */
} batching;

static bool fail(const batching *b, const char *why) {
  nabla_error_at(b->frame->op, "the batch of the operation '%s': %s",
                 b->operation->name, why);
  return false;
}

/* ---- what the operation says ---- */

/* Attributes that are of the call, not of the operation. */
static bool is_of_call(const char *name) {
  return !strcmp(name, "target") || !strcmp(name, "pure") ||
         !strncmp(name, "nabla.", 6);
}

static bool read_call(batching *b) {
  const char *why = nabla_rule_read(&b->read);
  size_t count = 0;
  if (why) return fail(b, why);
  for (size_t i = 0; i < b->read.attributes.count; i++) {
    const nabla_attribute_tree *entry = &b->read.attributes.elements[i];
    if (!is_of_call(entry->name) && count < MAX_ATTRIBUTES)
      b->given[count++] = *entry;
  }
  b->attributes = (nabla_attribute_tree){.name = "",
                                         .kind = NABLA_ATTRIBUTE_DICTIONARY,
                                         .count = count,
                                         .elements = b->given};
  b->arrays = b->read.call.operand_count;
  return true;
}

/* Gives the types of batched operands the batch in front. */
static bool add_batch(batching *b) {
  for (size_t i = 0; i < b->arrays; i++) {
    nabla_dense *type = &b->read.types[i];
    b->dims[i] = b->frame->batched[i] ? 0 : NABLA_NO_AXIS;
    if (!b->frame->batched[i]) continue;
    if (nablaTypeIsAImplicit(mlirValueGetType(b->frame->operands[i])))
      return fail(b, "a packed operand differs from example to example");
    if (type->rank == NABLA_ARRAY_MAX_RANK)
      return fail(b, "an operand has too many dimensions");
    b->example = b->frame->operands[i];
    b->size = nabla_array_dim(mlirValueGetType(b->example), 0);
    memmove(type->shape + 1, type->shape, type->rank * sizeof type->shape[0]);
    type->shape[0] = nabla_is_dynamic(b->size) ? NABLA_DYNAMIC : b->size;
    type->rank++;
  }
  return true;
}

static bool ask(batching *b) {
  const nabla_operation_frame frame = {.struct_size = sizeof frame,
                                       .operation = b->operation,
                                       .operand_count = b->arrays,
                                       .result_count = b->frame->result_count,
                                       .types = b->read.types,
                                       .attributes = &b->attributes};
  for (size_t i = 0; i < b->frame->result_count; i++)
    b->result_dims[i] = NABLA_NO_AXIS;
  b->operation->batch(&frame, b->dims, b->result_dims);
  for (size_t i = 0; i < b->frame->result_count; i++) {
    const int64_t rank =
        nabla_array_rank(nabla_result_type(b->frame->op, (intptr_t)i));
    const int64_t dim = b->result_dims[i];
    if (dim != NABLA_NO_AXIS && (dim < 0 || dim > rank))
      return fail(b, "'batch' gave a result a dimension that it has not");
  }
  return true;
}

/* ---- the call ---- */

static MlirType type_of_result(const batching *b, size_t index) {
  int64_t shape[NABLA_ARRAY_MAX_RANK];
  const MlirType type = nabla_result_type(b->frame->op, (intptr_t)index);
  const int64_t dim = b->result_dims[index];
  intptr_t rank = nabla_array_rank(type), count = 0;
  if (dim == NABLA_NO_AXIS) return type;
  for (intptr_t d = 0; d <= rank && count < NABLA_ARRAY_MAX_RANK; d++) {
    if (d == dim) shape[count++] = b->size;
    if (d < rank && count < NABLA_ARRAY_MAX_RANK)
      shape[count++] = nabla_array_dim(type, d);
  }
  return mlirRankedTensorTypeGet(count, shape, nabla_array_element(type),
                                 mlirAttributeGetNull());
}

/* Adds the sizes of a result that are not known. */
static void add_sizes(const batching *b, size_t index, MlirValue *operands,
                      intptr_t *count, size_t *next) {
  const MlirType type = b->types[index];
  for (intptr_t d = 0; d < nabla_array_rank(type); d++) {
    if (!nabla_is_dynamic(nabla_array_dim(type, d))) continue;
    if (d == b->result_dims[index]) {
      const nabla_built_shape shape = nabla_build_shape_of(&b->b, b->example);
      operands[(*count)++] = nabla_build_size(&b->b, &shape, 0);
    } else if (*next < b->frame->operand_count) {
      operands[(*count)++] = b->frame->operands[(*next)++];
    }
  }
}

/* How it is divided was said of one example, and its derivatives too. */
static bool stays(MlirStringRef name) {
  static const char *const dropped[] = {"nabla.factors", "nabla.reduction",
                                        "nabla.vjp", "nabla.jvp"};
  for (size_t i = 0; i < sizeof dropped / sizeof *dropped; i++)
    if (mlirStringRefEqual(name, nabla_ref(dropped[i]))) return false;
  return true;
}

static MlirOperation call(batching *b) {
  MlirValue operands[NABLA_MAX_RECORDED + NABLA_ARRAY_RULE_RESULTS];
  MlirNamedAttribute attributes[MAX_ATTRIBUTES];
  const MlirOperation op = b->frame->op;
  intptr_t count = (intptr_t)b->arrays, attribute_count = 0;
  size_t next = b->arrays;
  for (size_t i = 0; i < b->arrays; i++) operands[i] = b->frame->operands[i];
  for (size_t i = 0; i < b->frame->result_count; i++) {
    b->types[i] = type_of_result(b, i);
    add_sizes(b, i, operands, &count, &next);
  }
  for (intptr_t i = 0; i < mlirOperationGetNumAttributes(op); i++) {
    const MlirNamedAttribute attribute = mlirOperationGetAttribute(op, i);
    if (stays(mlirIdentifierStr(attribute.name)) &&
        attribute_count < MAX_ATTRIBUTES)
      attributes[attribute_count++] = attribute;
  }
  const nabla_op_spec spec = {"nabla.custom_call",
                              count,
                              operands,
                              (intptr_t)b->frame->result_count,
                              b->types,
                              attribute_count,
                              attributes};
  return nabla_op_create(b->frame->before, &spec);
}

/* A result with the batch in front. */
static MlirValue with_batch(const batching *b, MlirValue x, int64_t dim) {
  int64_t dims[NABLA_ARRAY_MAX_RANK + 1];
  const intptr_t rank = nabla_array_rank(mlirValueGetType(x));
  if (dim != NABLA_NO_AXIS) {
    dims[0] = dim;
    for (intptr_t d = 0, at = 1; d < rank; d++)
      if (d != dim) dims[at++] = d;
    return nabla_build_transpose(&b->b, x, dims);
  }
  nabla_built_shape shape = {0};
  const nabla_built_shape batch = nabla_build_shape_of(&b->b, b->example),
                          one = nabla_build_shape_of(&b->b, x);
  nabla_build_shape_add(&shape, &batch, 0);
  for (intptr_t d = 0; d < rank; d++) {
    nabla_build_shape_add(&shape, &one, d);
    dims[d] = d + 1;
  }
  return nabla_build_broadcast(&b->b, x, dims, &shape);
}

/* The rule `batch` of nabla_call_rules. */
static bool apply(nabla_call_rule_frame *frame) {
  batching b = {.frame = frame,
                .operation = frame->self,
                .b = {frame->before},
                .read = {.op = frame->op, .has_sizes = true}};
  bool good = frame->result_count <= NABLA_ARRAY_RULE_RESULTS ||
              fail(&b, "more than 16 results");
  good = good && read_call(&b) && add_batch(&b) && ask(&b);
  if (good) {
    const MlirOperation made = call(&b);
    good = !mlirOperationIsNull(made);
    for (size_t i = 0; good && i < frame->result_count; i++)
      frame->out[i] = with_batch(&b, mlirOperationGetResult(made, (intptr_t)i),
                                 b.result_dims[i]);
  }
  nabla_arena_clear(&b.read.arena);
  return good;
}

nabla_status nabla_operation_batch_add(const nabla_operation *operation,
                                       nabla_diag *diag) {
  if (!operation->batch) return NABLA_OK;
  const nabla_call_rules rules = {.struct_size = sizeof rules,
                                  .target = operation->handler,
                                  .batch = apply,
                                  .self = (void *)(uintptr_t)operation};
  return nabla_add_call_rules(&rules, diag);
}
