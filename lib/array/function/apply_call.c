/* Recording an operation of a user as a custom call. */
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <stdio.h>
#include <string.h>

#include "lib/array/engine.h"
#include "lib/array/function/user_operations.h"
#include "lib/array/trace.h"
#include "lib/base/attribute_tree.h"
#include "transforms/ir/ir.h"

#define MAX_ELEMENTS 64 /* of a dictionary or an array */

/* A custom call that is built. */
typedef struct custom {
  const nabla_application *application;
  uint32_t operand_count; /* with sizes */
} custom;

/* ---- attributes ---- */

static MlirAttribute attribute_of(MlirContext context,
                                  const nabla_attribute_tree *tree,
                                  unsigned depth);

static MlirAttribute list_of(MlirContext context,
                             const nabla_attribute_tree *tree, unsigned depth) {
  MlirAttribute elements[MAX_ELEMENTS];
  MlirNamedAttribute named[MAX_ELEMENTS];
  const bool has_names = tree->kind == NABLA_ATTRIBUTE_DICTIONARY;
  if (tree->count > MAX_ELEMENTS || (tree->count && !tree->elements) ||
      depth == NABLA_ATTRIBUTE_TREE_MAX_DEPTH)
    return mlirAttributeGetNull();
  for (size_t i = 0; i < tree->count; i++) {
    const nabla_attribute_tree *element = &tree->elements[i];
    elements[i] = attribute_of(context, element, depth + 1);
    if (mlirAttributeIsNull(elements[i])) return elements[i];
    if (!has_names) continue;
    if (!element->name || !*element->name) return mlirAttributeGetNull();
    named[i] = nabla_named(context, element->name, elements[i]);
  }
  return has_names
             ? mlirDictionaryAttrGet(context, (intptr_t)tree->count, named)
             : mlirArrayAttrGet(context, (intptr_t)tree->count, elements);
}

/* Null where a tree is none. */
static MlirAttribute attribute_of(MlirContext context,
                                  const nabla_attribute_tree *tree,
                                  unsigned depth) {
  switch ((int)tree->kind) {
    case NABLA_ATTRIBUTE_BOOL:
      return mlirBoolAttrGet(context, tree->integer != 0);
    case NABLA_ATTRIBUTE_INTEGER:
      return mlirIntegerAttrGet(mlirIntegerTypeGet(context, 64), tree->integer);
    case NABLA_ATTRIBUTE_FLOAT:
      return mlirFloatAttrDoubleGet(context, mlirF64TypeGet(context),
                                    tree->number);
    case NABLA_ATTRIBUTE_STRING:
      return tree->text || !tree->count
                 ? mlirStringAttrGet(
                       context, mlirStringRefCreate(tree->text, tree->count))
                 : mlirAttributeGetNull();
    case NABLA_ATTRIBUTE_ARRAY:
    case NABLA_ATTRIBUTE_DICTIONARY:
      return list_of(context, tree, depth);
    default:
      return mlirAttributeGetNull();
  }
}

/* Whether a tree is a dictionary without names of the operation's own. */
static bool check_attributes(const nabla_application *a) {
  static const char *const taken[] = {"target", "pure", "parts"};
  const nabla_attribute_tree *tree = a->attributes;
  const char *what = NULL;
  if (!tree) return true;
  if (tree->kind != NABLA_ATTRIBUTE_DICTIONARY)
    what = "the attributes are no dictionary";
  else if (tree->count > MAX_ELEMENTS)
    what = "more than 64 attributes";
  for (size_t i = 0; !what && i < 3; i++)
    if (nabla_attribute_tree_find(tree, taken[i]))
      what = "an attribute is called target, pure or parts";
  if (!what) return true;
  nabla_call_fail(a->site, a->scope, NABLA_INVALID_ARGUMENT, "%s", what);
  return false;
}

/* ---- the operation ---- */

static MlirOperation build(void *self, MlirOperation before,
                           const MlirValue *operands) {
  const custom *c = self;
  const nabla_application *a = c->application;
  const MlirContext context = nabla_op_context(before);
  MlirNamedAttribute attributes[MAX_ELEMENTS + 4];
  MlirType results[NABLA_MAX_RECORDED];
  intptr_t count = 0;
  const size_t given = a->attributes ? a->attributes->count : 0;
  attributes[count++] =
      nabla_named(context, "target",
                  mlirStringAttrGet(context, nabla_ref(a->operation->handler)));
  attributes[count++] = nabla_named(context, "pure", mlirUnitAttrGet(context));
  if (a->operation->factors)
    attributes[count++] = nabla_named(
        context, "nabla.factors",
        mlirStringAttrGet(context, nabla_ref(a->operation->factors)));
  if (a->operation->reduction)
    attributes[count++] = nabla_named(
        context, "nabla.reduction",
        mlirStringAttrGet(context, nabla_ref(a->operation->reduction)));
  for (size_t i = 0; i < given; i++) {
    const nabla_attribute_tree *entry = &a->attributes->elements[i];
    const MlirAttribute attribute = attribute_of(context, entry, 0);
    if (mlirAttributeIsNull(attribute) || !entry->name || !*entry->name) {
      nabla_error_at(before, "attribute %zu is none that MLIR has", i);
      return (MlirOperation){NULL};
    }
    attributes[count++] = nabla_named(context, entry->name, attribute);
  }
  for (size_t i = 0; i < a->result_count; i++)
    results[i] = nabla_recorder_type(context, &a->inferred[i]);
  const nabla_op_spec spec = {"nabla.custom_call",
                              (intptr_t)c->operand_count,
                              operands,
                              (intptr_t)a->result_count,
                              results,
                              count,
                              attributes};
  return nabla_op_create(before, &spec);
}

static nabla_status add_types(nabla_buffer *key, size_t count,
                              const nabla_array_type *const *types,
                              nabla_diag *diag) {
  NABLA_TRY(nabla_buffer_append(key, &count, sizeof count, diag));
  for (size_t i = 0; i < count; i++) {
    const uint32_t word[2] = {(uint32_t)types[i]->dtype, types[i]->rank};
    NABLA_TRY(nabla_buffer_append(key, word, sizeof word, diag));
    if (types[i]->rank)
      NABLA_TRY(nabla_buffer_append(key, types[i]->shape,
                                    types[i]->rank * sizeof types[i]->shape[0],
                                    diag));
  }
  return NABLA_OK;
}

/* A text, which may be NULL. */
static nabla_status add_text(nabla_buffer *key, const char *text,
                             nabla_diag *diag) {
  return nabla_buffer_append(key, text ? text : "", text ? strlen(text) + 1 : 1,
                             diag);
}

static nabla_status find(custom *c, nabla_buffer *key,
                         nabla_array *const *operands,
                         const nabla_recorded **out, nabla_diag *diag) {
  static const char label[] = "custom_call";
  const nabla_application *a = c->application;
  const nabla_array_type *types[NABLA_MAX_RECORDED];
  const char *target = a->operation->handler;
  NABLA_TRY(nabla_buffer_append(key, label, sizeof label, diag));
  NABLA_TRY(nabla_buffer_append(key, target, strlen(target) + 1, diag));
  NABLA_TRY(add_text(key, a->operation->factors, diag));
  NABLA_TRY(add_text(key, a->operation->reduction, diag));
  for (size_t i = 0; i < a->result_count; i++) types[i] = &a->inferred[i];
  NABLA_TRY(add_types(key, a->result_count, types, diag));
  for (uint32_t i = 0; i < c->operand_count; i++)
    types[i] = &operands[i]->dense;
  NABLA_TRY(add_types(key, c->operand_count, types, diag));
  if (a->attributes)
    NABLA_TRY(nabla_attribute_tree_write(a->attributes, key, diag));
  const nabla_built built = {.key = key->data,
                             .key_size = key->size,
                             .operand_count = c->operand_count,
                             .direct_count = c->operand_count,
                             .operands = types,
                             .build = build,
                             .self = c};
  return nabla_recorder_find_built(a->scope->recorder, &built, out, diag);
}

bool nabla_application_call(nabla_application *a, nabla_array **out) {
  nabla_array *operands[NABLA_MAX_RECORDED];
  const nabla_recorded *recorded;
  nabla_diag diag = NABLA_DIAG_INIT;
  nabla_buffer key;
  custom c = {a, (uint32_t)a->operand_count};
  if (!check_attributes(a)) return false;
  for (size_t i = 0; i < a->operand_count; i++) operands[i] = a->operands[i];
  for (size_t i = 0; i < a->result_count; i++)
    if (!nabla_trace_add_sizes(a->site, a->scope, &a->inferred[i],
                               &c.operand_count, operands, NABLA_MAX_RECORDED))
      return false;
  nabla_buffer_init(&key, nabla_engine_allocator(a->scope->engine),
                    "a custom call", SIZE_MAX / 2);
  const nabla_status status = find(&c, &key, operands, &recorded, &diag);
  nabla_buffer_deinit(&key);
  if (status) {
    nabla_call_fail(a->site, a->scope, status, "%s", diag.what);
    return false;
  }
  if (!nabla_record_recorded(a->site, a->scope, recorded, operands,
                             (uint32_t)a->result_count, out))
    return false;
  for (size_t i = 0; i < a->result_count; i++)
    memcpy(out[i]->dense.shape, a->inferred[i].shape,
           a->inferred[i].rank * sizeof(int64_t));
  return true;
}
