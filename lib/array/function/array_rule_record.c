/* Recording a rule: operands as arrays, attributes as a tree, the callback. */
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <string.h>

#include "dialect/attribute_to_tree.h"
#include "dialect/dialect.h"
#include "dialect/encoding/encoding.h"
#include "lib/array/dtypes.h"
#include "lib/array/engine.h"
#include "lib/array/function/array_rules.h"
#include "lib/array/packed.h"
#include "transforms/ir/ir.h"
#include "transforms/user_rules/user_rules.h"

#define MAX_ATTRIBUTES 32

/* ---- the operation of the program ---- */

static bool read_type(MlirType type, nabla_dense *out) {
  if (nablaTypeIsAImplicit(type)) return !nabla_packed_intern(type, out, NULL);
  if (!mlirTypeIsARankedTensor(type) ||
      mlirShapedTypeGetRank(type) > NABLA_ARRAY_MAX_RANK)
    return false;
  *out = (nabla_dense){.rank = (uint32_t)mlirShapedTypeGetRank(type)};
  for (uint32_t d = 0; d < out->rank; d++)
    out->shape[d] = mlirShapedTypeIsDynamicDim(type, (intptr_t)d)
                        ? NABLA_DYNAMIC
                        : mlirShapedTypeGetDimSize(type, (intptr_t)d);
  return nabla_dtype_from_mlir(mlirShapedTypeGetElementType(type), &out->dtype);
}

bool nabla_rule_infers(MlirOperation op) {
  static const struct {
    const char *name;
    bool infers;
  } rows[] = {
#define OP(id, columns) {"nabla." #id, false columns},
#define INFER(word)     || true
#include "dialect/ops.def"
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (nabla_is(op, rows[i].name)) return rows[i].infers;
  return false;
}

/* Whether an attribute is one that rules see. */
static bool is_seen(MlirStringRef name) {
  return !mlirStringRefEqual(name, nabla_ref(NABLA_RULE_DEFAULT)) &&
         !mlirStringRefEqual(name, nabla_ref("operandSegmentSizes"));
}

/* An attribute that is no tree is its text. */
static bool read_attribute(nabla_rule_recording *r, MlirNamedAttribute from,
                           nabla_attribute_tree *out) {
  const MlirStringRef name = mlirIdentifierStr(from.name);
  if (nabla_attribute_to_tree(from.attribute, &r->arena, out)) {
    nabla_text text = {0};
    nabla_text_add_attribute(&text, from.attribute);
    *out = (nabla_attribute_tree){
        .kind = NABLA_ATTRIBUTE_STRING,
        .count = text.size,
        .text =
            nabla_arena_copy(&r->arena, text.data ? text.data : "", text.size)};
    nabla_text_deinit(&text);
    if (!out->text) return false;
  }
  out->name = nabla_arena_copy(&r->arena, name.data, name.length);
  return out->name != NULL;
}

static const char *read_attributes(nabla_rule_recording *r) {
  const intptr_t count = mlirOperationGetNumAttributes(r->op);
  nabla_attribute_tree *list =
      nabla_arena_take(&r->arena, (size_t)count + 1, sizeof *list);
  size_t used = 0;
  if (!list) return "no memory for its attributes";
  if (count > MAX_ATTRIBUTES) return "it has more than 32 attributes";
  for (intptr_t i = 0; i < count; i++) {
    const MlirNamedAttribute from = mlirOperationGetAttribute(r->op, i);
    if (!is_seen(mlirIdentifierStr(from.name))) continue;
    if (!read_attribute(r, from, &list[used++]))
      return "no memory for its attributes";
  }
  for (size_t i = 1; i < used; i++) /* a dictionary is sorted */
    for (size_t k = i; k && strcmp(list[k].name, list[k - 1].name) < 0; k--) {
      const nabla_attribute_tree swap = list[k];
      list[k] = list[k - 1];
      list[k - 1] = swap;
    }
  r->attributes = (nabla_attribute_tree){.name = "",
                                         .kind = NABLA_ATTRIBUTE_DICTIONARY,
                                         .count = used,
                                         .elements = list};
  return NULL;
}

const char *nabla_rule_read(nabla_rule_recording *r) {
  const intptr_t results = mlirOperationGetNumResults(r->op);
  intptr_t operands = mlirOperationGetNumOperands(r->op);
  while (r->has_sizes && operands &&
         mlirTypeIsAIndex(nabla_operand_type(r->op, operands - 1)))
    operands--;
  if (operands > NABLA_MAX_RECORDED || results > NABLA_ARRAY_RULE_RESULTS)
    return "it has more operands or results than rules take";
  r->call.operand_count = (size_t)operands;
  r->call.result_count = (size_t)results;
  for (size_t i = 0; i < r->call.operand_count; i++)
    if (!read_type(
            nabla_operand_type(r->op, (intptr_t)nabla_rule_operand(r, i)),
            &r->types[i]))
      return "sizes are operands, or a dtype that arrays do not have";
  for (size_t i = 0; i < r->call.result_count; i++) {
    nabla_dense *type = &r->result_types[i];
    if (!read_type(nabla_result_type(r->op, (intptr_t)i), type))
      return "the result has a dtype that arrays do not have";
    type->dtype = nabla_dtype_element(type->dtype);
  }
  return read_attributes(r);
}

/* ---- the trace ---- */

static nabla_status add_operands(nabla_rule_recording *r, nabla_diag *diag) {
  for (size_t i = 0; i < r->call.operand_count; i++) {
    r->operands[i] = nabla_trace_argument(&r->trace, &r->types[i], false);
    if (!r->operands[i]) return nabla_scope_status(r->trace.scope, diag);
  }
  return NABLA_OK;
}

/* Checks one result, which gets a dtype of its own. */
static nabla_status take_result(nabla_rule_recording *r, size_t index,
                                nabla_diag *diag) {
  const nabla_array_call site = {r->rule->id, NULL, 1, &r->results[index]};
  nabla_scope *scope = r->trace.scope;
  const nabla_dense *want = &r->result_types[index];
  nabla_array *x = r->results[index];
  if (!x)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "the callback left result %zu NULL", index);
  if (!nabla_call_begin(&site)) return nabla_scope_status(scope, diag);
  if (x->is_weak) x = nabla_record_convert(&site, scope, x, want->dtype);
  if (!x) return nabla_scope_status(scope, diag);
  r->results[index] = x;
  bool same = nabla_dtype_element(x->dense.dtype) == want->dtype &&
              x->dense.rank == want->rank;
  for (uint32_t d = 0; d < want->rank && same; d++)
    same = want->shape[d] < 0 || x->dense.shape[d] < 0 ||
           want->shape[d] == x->dense.shape[d];
  if (same) return NABLA_OK;
  nabla_call_fail(&site, scope, NABLA_INVALID_ARGUMENT,
                  "is result %zu, and has another dtype or shape than that of "
                  "%s",
                  index, r->call.op);
  return nabla_scope_status(scope, diag);
}

static nabla_status run_callback(nabla_rule_recording *r,
                                 nabla_array_rule_outcome *outcome,
                                 nabla_diag *diag) {
  nabla_scope *scope = r->trace.scope;
  NABLA_TRY(add_operands(r, diag));
  *outcome = r->rule->record(scope, &r->call, r->results);
  if (!nabla_scope_is_open(scope))
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "the callback ended the scope that it was given");
  if (nabla_scope_status(scope, diag)) return nabla_scope_status(scope, NULL);
  if (*outcome != NABLA_ARRAY_RULE_TAKES) return NABLA_OK;
  for (size_t i = 0; i < r->call.result_count; i++)
    NABLA_TRY(take_result(r, i, diag));
  nabla_walk_init(&r->walk, scope);
  return nabla_walk_trace(&r->walk, r->call.operand_count, r->operands,
                          r->call.result_count, r->results, diag);
}

nabla_status nabla_rule_record(nabla_rule_recording *r, nabla_engine *engine,
                               nabla_array_rule_outcome *outcome,
                               nabla_diag *diag) {
  const MlirStringRef name = nabla_name(r->op);
  char *op = nabla_arena_copy(&r->arena, name.data, name.length);
  if (!op) return nabla_fail(diag, NABLA_NO_MEMORY, "no memory");
  r->call.op = op;
  r->call.operands = r->operands;
  r->call.results = r->result_types;
  r->call.attributes = &r->attributes;
  NABLA_TRY(nabla_trace_begin(&r->trace, engine, r->rule->id, diag));
  return run_callback(r, outcome, diag);
}

void nabla_rule_forget(nabla_rule_recording *r) {
  if (r->walk.recorder) nabla_walk_deinit(&r->walk);
  nabla_trace_end(&r->trace);
}

/* ---- the default ---- */

/* Builds the operation, of other operands, in the context of the recorder. */
typedef struct rebuilding {
  const nabla_rule_recording *r;
  const nabla_array_type *const *types; /* in the order of the operation */
} rebuilding;

static MlirAttribute copy_attribute(MlirContext context, MlirAttribute from) {
  nabla_text text = {0};
  nabla_text_add_attribute(&text, from);
  const MlirAttribute copy =
      text.data && !text.failed
          ? mlirAttributeParseGet(context,
                                  mlirStringRefCreate(text.data, text.size))
          : mlirAttributeGetNull();
  nabla_text_deinit(&text);
  return copy;
}

/* The list of rules of which the new operation is the default. */
static MlirNamedAttribute mark(MlirContext context,
                               const nabla_rule_recording *r) {
  enum { MAX_IDS = 64 };
  MlirAttribute ids[MAX_IDS];
  intptr_t count = 0;
  const MlirAttribute old =
      mlirOperationGetAttributeByName(r->op, nabla_ref(NABLA_RULE_DEFAULT));
  const intptr_t had =
      mlirAttributeIsNull(old) ? 0 : mlirArrayAttrGetNumElements(old);
  for (intptr_t i = 0; i < had && count < MAX_IDS - 1; i++)
    ids[count++] = copy_attribute(context, mlirArrayAttrGetElement(old, i));
  ids[count++] = mlirStringAttrGet(context, nabla_ref(r->rule->id));
  return nabla_named(context, NABLA_RULE_DEFAULT,
                     mlirArrayAttrGet(context, count, ids));
}

/* The types of the results: NULL where the operation infers them. A result of
 * an operation that has no packed operand is dense. */
static bool copy_types(MlirContext context, const rebuilding *b,
                       MlirType *out) {
  const nabla_rule_recording *r = b->r;
  bool is_packed = false;
  for (size_t i = 0; i < r->call.operand_count; i++)
    is_packed = is_packed || nabla_dtype_is_packed(b->types[i]->dtype);
  for (size_t i = 0; i < r->call.result_count; i++) {
    nabla_text text = {0};
    const MlirType type = nabla_result_type(r->op, (intptr_t)i);
    nabla_text_add_type(&text, is_packed ? type : nabla_dense_type(type));
    out[i] = text.data && !text.failed
                 ? mlirTypeParseGet(context,
                                    mlirStringRefCreate(text.data, text.size))
                 : (MlirType){NULL};
    nabla_text_deinit(&text);
    if (mlirTypeIsNull(out[i])) return false;
  }
  return true;
}

static MlirOperation rebuild(void *self, MlirOperation before,
                             const MlirValue *operands) {
  const rebuilding *b = self;
  const nabla_rule_recording *r = b->r;
  const MlirContext context = nabla_op_context(before);
  MlirNamedAttribute attributes[MAX_ATTRIBUTES + 1];
  MlirType types[NABLA_ARRAY_RULE_RESULTS];
  intptr_t count = 0;
  const intptr_t given = mlirOperationGetNumAttributes(r->op);
  for (intptr_t i = 0; i < given; i++) {
    const MlirNamedAttribute from = mlirOperationGetAttribute(r->op, i);
    const MlirStringRef name = mlirIdentifierStr(from.name);
    if (mlirStringRefEqual(name, nabla_ref(NABLA_RULE_DEFAULT))) continue;
    const MlirAttribute copy = copy_attribute(context, from.attribute);
    if (mlirAttributeIsNull(copy)) return (MlirOperation){NULL};
    attributes[count++] =
        mlirNamedAttributeGet(mlirIdentifierGet(context, name), copy);
  }
  attributes[count++] = mark(context, r);
  const bool infers = nabla_rule_infers(r->op);
  if (!infers && !copy_types(context, b, types)) return (MlirOperation){NULL};
  const nabla_op_spec spec = {
      r->call.op, (intptr_t)r->call.operand_count,
      operands,   infers ? -1 : (intptr_t)r->call.result_count,
      types,      count,
      attributes};
  return nabla_op_create(before, &spec);
}

static nabla_status add_text(nabla_buffer *key, const nabla_text *text,
                             nabla_diag *diag) {
  if (text->failed) return nabla_fail(diag, NABLA_NO_MEMORY, "no memory");
  const uint64_t size = text->size;
  NABLA_TRY(nabla_buffer_append(key, &size, sizeof size, diag));
  return size ? nabla_buffer_append(key, text->data, text->size, diag)
              : NABLA_OK;
}

/* The operation with attributes and results as text, and the new operands. */
static nabla_status add_key(const rebuilding *b, nabla_buffer *key,
                            nabla_diag *diag) {
  const nabla_rule_recording *r = b->r;
  nabla_text text = {0};
  const intptr_t count = mlirOperationGetNumAttributes(r->op);
  nabla_text_add(&text, "default %s of %s\n", r->call.op, r->rule->id);
  for (intptr_t i = 0; i < count; i++) {
    const MlirNamedAttribute from = mlirOperationGetAttribute(r->op, i);
    const MlirStringRef name = mlirIdentifierStr(from.name);
    nabla_text_add(&text, "%.*s ", (int)name.length, name.data);
    nabla_text_add_attribute(&text, from.attribute);
  }
  for (size_t i = 0; i < r->call.result_count; i++)
    nabla_text_add_type(&text, nabla_result_type(r->op, (intptr_t)i));
  nabla_status status = add_text(key, &text, diag);
  nabla_text_deinit(&text);
  for (size_t i = 0; i < r->call.operand_count && !status; i++) {
    const nabla_array_type *type = b->types[i];
    const uint32_t head[2] = {(uint32_t)type->dtype, type->rank};
    status = nabla_buffer_append(key, head, sizeof head, diag);
    if (!status && type->rank)
      status = nabla_buffer_append(key, type->shape,
                                   type->rank * sizeof type->shape[0], diag);
  }
  return status;
}

static bool record_default(const nabla_array_call *site,
                           const nabla_rule_recording *r,
                           nabla_array *const *operands,
                           nabla_array **results) {
  const nabla_array_type *types[NABLA_MAX_RECORDED];
  nabla_array *ordered[NABLA_MAX_RECORDED];
  const nabla_recorded *recorded;
  nabla_buffer key;
  nabla_diag diag = NABLA_DIAG_INIT;
  nabla_scope *scope = nabla_call_begin(site);
  if (!scope) return false;
  const uint32_t count = (uint32_t)r->call.operand_count;
  for (size_t i = 0; i < count; i++)
    ordered[nabla_rule_operand(r, i)] = operands[i];
  for (size_t i = 0; i < count; i++) types[i] = &ordered[i]->dense;
  rebuilding b = {r, types};
  nabla_buffer_init(&key, nabla_engine_allocator(scope->engine), "an operation",
                    SIZE_MAX / 2);
  nabla_status status = add_key(&b, &key, &diag);
  const nabla_built built = {.key = key.data,
                             .key_size = key.size,
                             .operand_count = count,
                             .direct_count = count,
                             .operands = types,
                             .build = rebuild,
                             .self = &b};
  if (!status)
    status =
        nabla_recorder_find_built(scope->recorder, &built, &recorded, &diag);
  nabla_buffer_deinit(&key);
  if (status) nabla_call_fail(site, scope, status, "%s", diag.what);
  return !status &&
         nabla_record_recorded(site, scope, recorded, ordered,
                               (uint32_t)r->call.result_count, results);
}

void nabla_default(const nabla_array_rule_call *call,
                   nabla_array *const *operands, nabla_array **results) {
  const nabla_rule_recording *r = (const nabla_rule_recording *)call;
  if (!call || !results) return;
  if (!operands) operands = call->operands;
  const nabla_array_call site =
      NABLA_ARRAY_CALL(default, (uint32_t)call->operand_count, operands);
  const bool good = nabla_trace_is_open(r->trace.number) &&
                    record_default(&site, r, operands, results);
  for (size_t i = 0; i < call->result_count && !good; i++) results[i] = NULL;
}
