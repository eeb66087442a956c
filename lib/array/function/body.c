/* Bodies; see body.h. */
#include "lib/array/function/body.h"

#include <inttypes.h>
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <stdio.h>
#include <string.h>

#include "lib/array/dtypes.h"
#include "lib/array/engine.h"
#include "lib/array/packed.h"
#include "transforms/ir/ir.h"

void nabla_body_init(nabla_body *body, const nabla_array_call *site,
                     nabla_scope *outer, size_t count,
                     nabla_array *const *outside) {
  const nabla_allocator *allocator = nabla_engine_allocator(outer->engine);
  *body = (nabla_body){.site = site,
                       .outer = outer,
                       .argument_count = count,
                       .outside = outside,
                       .whole_count = count};
  nabla_buffer_init(&body->arguments_memory, allocator, "a body", SIZE_MAX / 2);
  nabla_buffer_init(&body->results_memory, allocator, "a body", SIZE_MAX / 2);
}

void nabla_body_deinit(nabla_body *body) {
  if (body->walk.recorder) nabla_walk_deinit(&body->walk);
  for (size_t i = 0; i < body->result_count && body->is_traced; i++)
    nabla_array_drop(body->results[i]);
  for (size_t i = 0; i < body->argument_count && body->is_traced; i++)
    nabla_array_drop(body->arguments[i]);
  nabla_buffer_deinit(&body->arguments_memory);
  nabla_buffer_deinit(&body->results_memory);
}

/* ---- tracing ---- */

static nabla_status add_arguments(nabla_body *body, nabla_diag *diag) {
  nabla_buffer *memory = &body->arguments_memory;
  if (body->argument_count)
    NABLA_TRY(nabla_buffer_append(
        memory, NULL, body->argument_count * sizeof(nabla_array *), diag));
  body->arguments = (nabla_array **)(void *)memory->data;
  for (size_t i = 0; i < body->argument_count; i++) {
    nabla_array_type type =
        body->types ? body->types[i] : body->outside[i]->dense;
    if (i >= body->whole_count && nabla_dtype_is_packed(type.dtype)) {
      const MlirContext context =
          nabla_recorder_context(body->trace.scope->recorder);
      NABLA_TRY(nabla_packed_slice(context, &type, diag));
    } else if (i >= body->whole_count) {
      type.rank--;
      memmove(type.shape, type.shape + 1, type.rank * sizeof type.shape[0]);
    }
    body->arguments[i] =
        nabla_trace_argument(&body->trace, &type, body->outside[i]->is_weak);
    if (!body->arguments[i]) return nabla_scope_status(body->trace.scope, diag);
  }
  return NABLA_OK;
}

static nabla_status add_result(void *self, const char *name,
                               nabla_array **place, nabla_diag *diag) {
  nabla_body *body = self;
  nabla_array *x = *place;
  nabla_scope *scope = body->trace.scope;
  if (!x)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "a callback left the result '%s' NULL", name);
  const nabla_array_call checked = {body->site->function, body->site->place, 1,
                                    &x};
  if (!nabla_call_begin(&checked)) return nabla_scope_status(scope, diag);
  if (x->is_weak) {
    const nabla_operand_dtype weak = {x->dense.dtype, true};
    x = nabla_record_convert(body->site, scope, x, nabla_dtype_settle(weak));
    if (!x) return nabla_scope_status(scope, diag);
  }
  body->result_count++;
  return nabla_buffer_append(&body->results_memory, &x, sizeof(nabla_array *),
                             diag);
}

static nabla_status run(nabla_body *body, const nabla_body_source *source,
                        nabla_tree_copy *in, nabla_tree_copy *out,
                        nabla_diag *diag) {
  nabla_scope *scope = body->trace.scope;
  const nabla_tree *values = source->values;
  if (!values) {
    NABLA_TRY(nabla_tree_unflatten(&in->tree, body->argument_count,
                                   body->arguments, diag));
    values = &in->tree;
  }
  source->callback(scope, values, &out->tree, source->self);
  if (!nabla_scope_is_open(scope))
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "a callback ended the scope that it was given");
  if (nabla_scope_status(scope, diag)) return nabla_scope_status(scope, NULL);
  NABLA_TRY(nabla_tree_same(source->results, &out->tree, diag));
  NABLA_TRY(nabla_tree_settle(source->results, &out->tree, diag));
  NABLA_TRY(nabla_tree_visit(&out->tree, add_result, body, diag));
  body->results = (nabla_array **)(void *)body->results_memory.data;
  nabla_walk_init(&body->walk, scope);
  return nabla_walk_trace(&body->walk, body->argument_count, body->arguments,
                          body->result_count, body->results, diag);
}

static nabla_status trace(nabla_body *body, const nabla_body_source *source,
                          nabla_diag *diag) {
  nabla_tree_copy in = {.blocks = NULL}, out = {.blocks = NULL};
  const nabla_allocator *allocator =
      nabla_engine_allocator(body->outer->engine);
  if (!source->callback)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT, "%s: a callback is NULL",
                      body->site->function);
  NABLA_TRY(nabla_trace_begin(&body->trace, body->outer->engine,
                              body->site->function, diag));
  NABLA_TRY(add_arguments(body, diag));
  nabla_status status =
      nabla_tree_copy_init(&out, allocator, source->results, diag);
  if (!status && !source->values)
    status = nabla_tree_copy_init(&in, allocator, source->shape, diag);
  if (!status) status = run(body, source, &in, &out, diag);
  nabla_tree_copy_deinit(&in);
  nabla_tree_copy_deinit(&out);
  return status;
}

bool nabla_body_trace(nabla_body *body, const nabla_body_source *source) {
  nabla_diag diag = NABLA_DIAG_INIT;
  body->is_traced = !trace(body, source, &diag);
  for (size_t i = 0; i < body->result_count && body->is_traced; i++)
    nabla_array_hold(body->results[i]);
  for (size_t i = 0; i < body->argument_count && body->is_traced; i++)
    nabla_array_hold(body->arguments[i]);
  /* the cause, which may be a failure of the body's scope with its own place */
  if (!body->is_traced) nabla_scope_fail(body->outer, &diag, body->site->place);
  nabla_trace_end(
      &body->trace); /* arrays that are held go to the outer scope */
  return body->is_traced;
}

/* ---- captures and keys ---- */

size_t nabla_body_capture_count(const nabla_body *body) {
  return body->walk.leaf_count - body->argument_count;
}

nabla_array *nabla_body_capture(const nabla_body *body, size_t index) {
  return body->walk.leaves[body->argument_count + index];
}

nabla_status nabla_body_add_key(const nabla_body *body, nabla_buffer *key,
                                nabla_diag *diag) {
  const uint64_t size = body->walk.key.size;
  NABLA_TRY(nabla_buffer_append(key, &size, sizeof size, diag));
  return nabla_buffer_append(key, body->walk.key.bytes, body->walk.key.size,
                             diag);
}

void nabla_body_lift_sizes(const nabla_body *body, nabla_array_type *type) {
  for (uint32_t d = 0; d < type->rank; d++) {
    uint32_t dim;
    if (type->shape[d] >= 0) continue;
    const nabla_array *array =
        nabla_trace_size_array(&body->trace, type->shape[d], &dim);
    const uint64_t owner =
        array ? (array->node ? array->node->trace : array->trace) : 0;
    if (owner && owner != body->trace.number && nabla_trace_is_open(owner))
      continue;
    type->shape[d] = NABLA_DYNAMIC;
  }
}

void nabla_body_lift_results(const nabla_body *body, size_t first, size_t count,
                             nabla_array *const *out) {
  for (size_t i = 0; i < count; i++) {
    nabla_array_type type = body->results[first + i]->dense;
    nabla_body_lift_sizes(body, &type);
    for (uint32_t d = 0; d < type.rank; d++)
      if (type.shape[d] != NABLA_DYNAMIC)
        out[i]->dense.shape[d] = type.shape[d];
  }
}

/* ---- regions ---- */

/* An operation that stands for operand `number` within a region. */
static MlirValue add_capture(const nabla_builder *b, const nabla_array *array,
                             uint32_t number) {
  const MlirContext context = nabla_op_context(b->before);
  const MlirType type = nabla_recorder_type(context, &array->dense);
  const MlirNamedAttribute attribute =
      nabla_build_integer(b, NABLA_CAPTURE, 64, number);
  const nabla_op_spec spec = {NABLA_CAST, 0, NULL, 1, &type, 1, &attribute};
  return nabla_build_op(b, &spec);
}

static void write_region(const nabla_builder *b, const MlirValue *arguments,
                         MlirValue *results, void *data) {
  nabla_body *body = data;
  nabla_graph_emitter e;
  if (nabla_graph_emitter_init(&e, &body->walk, NULL)) {
    body->failed = true;
    for (size_t i = 0; i < body->result_count; i++)
      results[i] = (MlirValue){NULL};
    return;
  }
  for (size_t i = 0; i < body->argument_count; i++) e.leaves[i] = arguments[i];
  for (size_t i = 0; i < nabla_body_capture_count(body); i++)
    e.leaves[body->argument_count + i] = add_capture(
        b, nabla_body_capture(body, i), body->first_capture + (uint32_t)i);
  nabla_graph_emitter_add(&e, mlirOperationGetBlock(b->before), b->before);
  for (size_t i = 0; i < body->result_count; i++)
    results[i] = nabla_graph_emitter_value(&e, body->results[i]);
  for (size_t i = 0; i < body->argument_count && body->passes_arguments; i++)
    results[body->result_count + i] = arguments[i];
  nabla_graph_emitter_deinit(&e);
}

nabla_built_region nabla_body_region(nabla_body *body) {
  const size_t passed = body->passes_arguments ? body->argument_count : 0;
  return (nabla_built_region){write_region, body,
                              (intptr_t)(body->result_count + passed)};
}

/* ---- calls ---- */

/* A func.call that is built. */
typedef struct body_call {
  nabla_body *body;
  char name[128];
  nabla_status status;
  nabla_diag *diag;
} body_call;

static MlirOperation build_call(void *self, MlirOperation before,
                                const MlirValue *operands) {
  body_call *c = self;
  const nabla_body *body = c->body;
  const MlirContext context = nabla_op_context(before);
  const MlirOperation none = {NULL};
  MlirOperationState state = mlirOperationStateGet(
      nabla_ref("func.call"), mlirLocationUnknownGet(context));
  c->status = nabla_walk_emit(&body->walk, c->name, c->diag);
  if (c->status) return none;
  mlirOperationStateAddOperands(&state, (intptr_t)body->walk.leaf_count,
                                operands);
  for (size_t i = 0; i < body->result_count; i++) {
    const MlirType type =
        nabla_recorder_type(context, &body->results[i]->dense);
    mlirOperationStateAddResults(&state, 1, &type);
  }
  const MlirNamedAttribute callee = nabla_named(
      context, "callee", mlirFlatSymbolRefAttrGet(context, nabla_ref(c->name)));
  mlirOperationStateAddAttributes(&state, 1, &callee);
  const MlirOperation op = mlirOperationCreate(&state);
  if (!mlirOperationIsNull(op))
    mlirBlockInsertOwnedOperationBefore(mlirOperationGetBlock(before), before,
                                        op);
  return op;
}

static nabla_status find_call(nabla_body *body, const char *name,
                              const nabla_recorded **out, nabla_diag *diag) {
  const nabla_array_type *types[NABLA_MAX_RECORDED];
  static const char label[] = "func.call";
  const size_t count = body->walk.leaf_count;
  nabla_buffer key;
  if (count > NABLA_MAX_RECORDED)
    return nabla_fail(diag, NABLA_TOO_LARGE,
                      "%zu arguments and captured arrays; at most %d", count,
                      NABLA_MAX_RECORDED);
  for (size_t i = 0; i < count; i++) types[i] = &body->walk.leaves[i]->dense;
  body_call c = {.body = body, .diag = diag};
  nabla_buffer_init(&key, nabla_engine_allocator(body->outer->engine), "a call",
                    SIZE_MAX / 2);
  nabla_status status = nabla_buffer_append(&key, label, sizeof label, diag);
  if (!status) status = nabla_buffer_append(&key, name, strlen(name) + 1, diag);
  if (!status) status = nabla_body_add_key(body, &key, diag);
  if (!status) {
    const XXH128_hash_t hash = XXH3_128bits(key.data, key.size);
    (void)snprintf(c.name, sizeof c.name, "%.60s.%016" PRIx64 "%016" PRIx64,
                   name, hash.high64, hash.low64);
    const nabla_built built = {.key = key.data,
                               .key_size = key.size,
                               .operand_count = (uint32_t)count,
                               .direct_count = (uint32_t)count,
                               .operands = types,
                               .build = build_call,
                               .self = &c};
    status =
        nabla_recorder_find_built(body->outer->recorder, &built, out, diag);
    if (c.status) status = c.status;
  }
  nabla_buffer_deinit(&key);
  return status;
}

bool nabla_body_call(nabla_body *body, const char *name, nabla_array **out) {
  nabla_array *operands[NABLA_MAX_RECORDED];
  const nabla_recorded *recorded;
  nabla_diag diag = NABLA_DIAG_INIT;
  const nabla_status status = find_call(body, name, &recorded, &diag);
  if (status) {
    nabla_call_fail(body->site, body->outer, status, "%s", diag.what);
    return false;
  }
  for (size_t i = 0; i < body->walk.leaf_count; i++)
    operands[i] =
        i < body->argument_count ? body->outside[i] : body->walk.leaves[i];
  return nabla_record_recorded(body->site, body->outer, recorded, operands,
                               (uint32_t)body->result_count, out);
}
