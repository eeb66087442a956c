/* See steps.h. A function is made in a module of its own, so that a failure
 * leaves nothing behind, and moves to the module of the recorder under a name
 * that depends on what it was made from alone: programs that are alike have the
 * same text whatever was recorded before. */
#include "lib/array/derivative/steps.h"

#include <inttypes.h>
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "transforms/batching/batching.h"
#include "transforms/ir/ir.h"

enum { NAME_SIZE = 128 };

/* A call that is built. */
typedef struct building {
  const nabla_stepped *stepped;
  char base[NAME_SIZE]; /* the function of the body */
  XXH128_hash_t hash;   /* of what is made */
  nabla_status status;
  nabla_diag *diag;
} building;

/* ---- steps ---- */

static MlirOperation derive(const nabla_step *step, MlirModule module,
                            MlirOperation function) {
  nabla_derived d = {.module = mlirModuleGetOperation(module)};
  const nabla_derive how = {
      .function = function,
      .count = step->wrt_count,
      .wrt = step->wrt,
      .results = step->results,
      .finite = step->is_finite,
      .suffix = step->kind == NABLA_STEP_VJP ? "vjp" : "jvp"};
  const MlirOperation made = step->kind == NABLA_STEP_VJP
                                 ? nabla_derive_vjp(&d, &how)
                                 : nabla_derive_jvp(&d, &how);
  nabla_derived_deinit(&d);
  return made;
}

static MlirOperation batch(const nabla_step *step, size_t index,
                           MlirModule module, MlirOperation function) {
  char name[40];
  (void)snprintf(name, sizeof name, "nabla.batch.%zu", index);
  nabla_batch_run run = {.module = mlirModuleGetOperation(module)};
  const nabla_batch_function how = {.function = function,
                                    .name = name,
                                    .is_private = true,
                                    .size = step->size == NABLA_DYNAMIC
                                                ? mlirShapedTypeGetDynamicSize()
                                                : step->size,
                                    .in_axes = step->in_axes,
                                    .out_axes = step->out_axes};
  const MlirOperation made = nabla_batch_make(&run, &how);
  while (run.functions) {
    nabla_batched_function *next = run.functions->next;
    free(run.functions);
    run.functions = next;
  }
  return made;
}

static MlirStringRef symbol(MlirOperation function) {
  return mlirStringAttrGetValue(
      mlirOperationGetAttributeByName(function, nabla_ref("sym_name")));
}

/* Runs the steps; null after an error that was reported to MLIR. */
static MlirOperation run(const building *c, MlirModule module) {
  MlirOperation function = nabla_function_in(module, nabla_ref(c->base));
  for (size_t i = 0; i < c->stepped->step_count; i++) {
    const nabla_step *step = &c->stepped->steps[i];
    if (mlirOperationIsNull(function)) return function;
    function = step->kind == NABLA_STEP_VMAP ? batch(step, i, module, function)
                                             : derive(step, module, function);
  }
  return function;
}

/* ---- names ---- */

/* Gives what was made names that no other function of a recorder has. */
static bool rename_made(const building *c, MlirModule module,
                        MlirModule original) {
  unsigned number = 0;
  const MlirOperation whole = mlirModuleGetOperation(module);
  const MlirContext context = nabla_op_context(whole);
  for (MlirOperation op = mlirBlockGetFirstOperation(mlirModuleGetBody(module));
       !mlirOperationIsNull(op); op = mlirOperationGetNextInBlock(op)) {
    char name[NAME_SIZE + 32];
    const MlirStringRef own = symbol(op);
    if (!mlirOperationIsNull(nabla_function_in(original, own))) continue;
    (void)snprintf(name, sizeof name, "%.60s.%016" PRIx64 "%016" PRIx64 ".%u",
                   c->stepped->name, c->hash.high64, c->hash.low64, number++);
    if (mlirLogicalResultIsFailure(
            mlirSymbolTableReplaceAllSymbolUses(own, nabla_ref(name), whole)))
      return false;
    mlirOperationSetAttributeByName(
        op, nabla_ref("sym_name"), mlirStringAttrGet(context, nabla_ref(name)));
    mlirOperationSetAttributeByName(
        op, nabla_ref("sym_visibility"),
        mlirStringAttrGet(context, nabla_ref("private")));
  }
  return true;
}

/* ---- the call ---- */

static MlirOperation make_call(MlirOperation function, MlirOperation before,
                               size_t count, const MlirValue *operands) {
  const MlirContext context = nabla_op_context(before);
  const MlirType type = mlirTypeAttrGetValue(
      mlirOperationGetAttributeByName(function, nabla_ref("function_type")));
  MlirOperationState state = mlirOperationStateGet(
      nabla_ref("func.call"), mlirLocationUnknownGet(context));
  mlirOperationStateAddOperands(&state, (intptr_t)count, operands);
  for (intptr_t i = 0; i < mlirFunctionTypeGetNumResults(type); i++) {
    const MlirType result = mlirFunctionTypeGetResult(type, i);
    mlirOperationStateAddResults(&state, 1, &result);
  }
  const MlirNamedAttribute callee = nabla_named(
      context, "callee", mlirFlatSymbolRefAttrGet(context, symbol(function)));
  mlirOperationStateAddAttributes(&state, 1, &callee);
  const MlirOperation op = mlirOperationCreate(&state);
  if (!mlirOperationIsNull(op))
    mlirBlockInsertOwnedOperationBefore(mlirOperationGetBlock(before), before,
                                        op);
  return op;
}

static MlirOperation build(void *self, MlirOperation before,
                           const MlirValue *operands) {
  building *c = self;
  const nabla_stepped *stepped = c->stepped;
  const MlirContext context = nabla_op_context(before);
  const MlirModule original = nabla_recorder_module(stepped->scope->recorder);
  MlirOperation op = {NULL};
  c->status = nabla_walk_emit(&stepped->body->walk, c->base, c->diag);
  if (c->status) return op;
  const MlirModule module =
      mlirModuleCreateEmpty(mlirLocationUnknownGet(context));
  nabla_function_copy(original, module, nabla_ref(c->base), true);
  const MlirOperation made = run(c, module);
  if (!mlirOperationIsNull(made) && rename_made(c, module, original) &&
      mlirOperationVerify(mlirModuleGetOperation(module))) {
    nabla_function_copy(module, original, symbol(made), true);
    op = make_call(nabla_function_in(original, symbol(made)), before,
                   stepped->operand_count, operands);
  }
  mlirModuleDestroy(module);
  return op;
}

/* ---- keys ---- */

static nabla_status add(nabla_buffer *key, const void *data, size_t count,
                        size_t size, nabla_diag *diag) {
  const uint64_t head = data ? count : UINT64_MAX;
  NABLA_TRY(nabla_buffer_append(key, &head, sizeof head, diag));
  return data && count ? nabla_buffer_append(key, data, count * size, diag)
                       : NABLA_OK;
}

static nabla_status add_step(nabla_buffer *key, const nabla_step *step,
                             nabla_diag *diag) {
  const int64_t head[3] = {(int64_t)step->kind, step->size, step->is_finite};
  NABLA_TRY(add(key, head, 3, sizeof head[0], diag));
  for (size_t i = 0; i < step->wrt_count; i++) {
    const int64_t word[2] = {step->wrt[i].argument, step->wrt[i].component};
    NABLA_TRY(add(key, word, 2, sizeof word[0], diag));
  }
  NABLA_TRY(add(key, step->results, step->result_count, sizeof(bool), diag));
  NABLA_TRY(add(key, step->in_axes, step->in_count, sizeof(intptr_t), diag));
  return add(key, step->out_axes, step->out_count, sizeof(intptr_t), diag);
}

/* The key of the function of the body, then that of what is made from it. */
static nabla_status make_key(building *c, nabla_buffer *key, nabla_diag *diag) {
  static const char label[] = "nabla.steps";
  const nabla_stepped *s = c->stepped;
  NABLA_TRY(nabla_buffer_append(key, label, sizeof label, diag));
  NABLA_TRY(nabla_buffer_append(key, s->name, strlen(s->name) + 1, diag));
  NABLA_TRY(nabla_body_add_key(s->body, key, diag));
  const XXH128_hash_t hash = XXH3_128bits(key->data, key->size);
  (void)snprintf(c->base, sizeof c->base, "%.60s.%016" PRIx64 "%016" PRIx64,
                 s->name, hash.high64, hash.low64);
  for (size_t i = 0; i < s->step_count; i++)
    NABLA_TRY(add_step(key, &s->steps[i], diag));
  for (size_t i = 0; i < s->operand_count; i++) {
    const nabla_array_type *type = &s->operands[i]->dense;
    const int64_t word[2] = {(int64_t)type->dtype, type->rank};
    NABLA_TRY(add(key, word, 2, sizeof word[0], diag));
    NABLA_TRY(add(key, type->shape, type->rank, sizeof type->shape[0], diag));
  }
  c->hash = XXH3_128bits(key->data, key->size);
  return NABLA_OK;
}

static nabla_status find(building *c, nabla_buffer *key, nabla_buffer *types,
                         const nabla_recorded **out, nabla_diag *diag) {
  const nabla_stepped *s = c->stepped;
  for (size_t i = 0; i < s->operand_count; i++) {
    const nabla_array_type *type = &s->operands[i]->dense;
    NABLA_TRY(
        nabla_buffer_append(types, &type, sizeof(nabla_array_type *), diag));
  }
  NABLA_TRY(make_key(c, key, diag));
  const nabla_built built = {
      .key = key->data,
      .key_size = key->size,
      .operand_count = (uint32_t)s->operand_count,
      .direct_count = (uint32_t)s->operand_count,
      .operands = (const nabla_array_type *const *)(void *)types->data,
      .build = build,
      .self = c};
  const nabla_status status =
      nabla_recorder_find_built(s->scope->recorder, &built, out, diag);
  return c->status ? c->status : status;
}

bool nabla_stepped_record(const nabla_stepped *stepped, nabla_array **out) {
  const nabla_recorded *recorded;
  nabla_diag diag = NABLA_DIAG_INIT;
  nabla_buffer key, types;
  const nabla_allocator *allocator =
      nabla_engine_allocator(stepped->scope->engine);
  building c = {.stepped = stepped, .diag = &diag};
  nabla_buffer_init(&key, allocator, "a derivative", SIZE_MAX / 2);
  nabla_buffer_init(&types, allocator, "a derivative", SIZE_MAX / 2);
  const nabla_status status = find(&c, &key, &types, &recorded, &diag);
  nabla_buffer_deinit(&key);
  nabla_buffer_deinit(&types);
  if (!status)
    return nabla_record_recorded(stepped->site, stepped->scope, recorded,
                                 stepped->operands,
                                 (uint32_t)stepped->result_count, out);
  nabla_call_fail(stepped->site, stepped->scope, status, "%s", diag.what);
  for (size_t i = 0; i < stepped->result_count; i++) out[i] = NULL;
  return false;
}
