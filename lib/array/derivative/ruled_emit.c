/* See ruled_trace.h: the parts as functions of the recorder's module. */
#include <inttypes.h>
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/array/derivative/ruled_trace.h"
#include "lib/array/derivative/transform.h"
#include "transforms/autodiff/calls.h"
#include "transforms/ir/build.h"
#include "transforms/ir/functions.h"
#include "transforms/ir/ir.h"

enum { NAME_SIZE = 160 };

/* ---- arguments of a function ---- */

/* A function that is written: its block, where it ends, and the value of each
 * leaf of the body. */
typedef struct writing {
  const nabla_ruled_trace *trace;
  nabla_ruled_part part;
  MlirContext context;
  MlirBlock block;
  MlirOperation end; /* func.return */
  nabla_graph_emitter emitter;
} writing;

static void add_argument(const writing *w, const nabla_array *like) {
  mlirBlockAddArgument(w->block, nabla_recorder_type(w->context, &like->dense),
                       mlirLocationUnknownGet(w->context));
}

/* Adds an argument for each array that has a cotangent. */
static void add_cotangents(const writing *w, size_t count,
                           nabla_array *const *arrays) {
  for (size_t i = 0; i < count; i++)
    if (nabla_ruled_has_cotangent(&arrays[i]->dense))
      add_argument(w, arrays[i]);
}

static void add_arguments(const writing *w) {
  const nabla_ruled_trace *t = w->trace;
  const nabla_body *body = &t->bodies[w->part];
  const size_t captures = nabla_arrays_count(&t->captures);
  if (w->part == NABLA_PART_BACKWARD) {
    const size_t saved = t->ruled->saved_count;
    for (size_t i = 0; i < saved; i++) add_argument(w, body->arguments[i]);
    for (size_t i = 0; i < nabla_body_capture_count(body); i++)
      add_argument(w, nabla_body_capture(body, i));
    for (size_t i = saved; i < body->argument_count; i++)
      add_argument(w, body->arguments[i]);
    return;
  }
  for (size_t i = 0; i < t->argument_count; i++)
    add_argument(w, nabla_arrays(&t->leaves)[i]);
  for (size_t i = 0; i < captures; i++)
    add_argument(w, nabla_arrays(&t->captures)[i]);
  if (w->part != NABLA_PART_JVP) return;
  add_cotangents(w, t->argument_count, nabla_arrays(&t->leaves));
  add_cotangents(w, captures, nabla_arrays(&t->captures));
}

/* The number of the block's argument for leaf `leaf` of the body. */
static size_t argument_of(const writing *w, size_t leaf) {
  const nabla_ruled_trace *t = w->trace;
  const nabla_body *body = &t->bodies[w->part];
  const size_t own = body->argument_count;
  const bool is_capture = leaf >= own;
  if (w->part == NABLA_PART_BACKWARD) {
    const size_t saved = t->ruled->saved_count;
    if (is_capture) return saved + leaf - own;
    return leaf < saved ? leaf : leaf + nabla_body_capture_count(body);
  }
  if (is_capture)
    return t->argument_count +
           nabla_ruled_capture(t, nabla_body_capture(body, leaf - own));
  return leaf < t->argument_count ? leaf
                                  : leaf + nabla_arrays_count(&t->captures);
}

/* ---- results of a function ---- */

static MlirValue zeros(const writing *w, const nabla_array *like) {
  const nabla_builder b = {w->end};
  nabla_built_shape shape = {.rank = 0};
  for (uint32_t d = 0; d < like->dense.rank; d++)
    nabla_build_shape_add_size(&shape, like->dense.shape[d]);
  return nabla_build_full(&b, 0, &shape,
                          nabla_dtype_to_mlir(w->context, like->dense.dtype));
}

/* Writes what the function returns; `out` has space for all. */
static size_t write_results(const writing *w, MlirValue *out) {
  const nabla_ruled_trace *t = w->trace;
  const nabla_body *body = &t->bodies[w->part];
  size_t count = 0;
  for (size_t i = 0; i < body->result_count; i++)
    out[count++] = nabla_graph_emitter_value(&w->emitter, body->results[i]);
  if (w->part == NABLA_PART_FORWARD) { /* what the backward part captures */
    const nabla_body *backward = &t->bodies[NABLA_PART_BACKWARD];
    for (size_t i = 0; i < nabla_body_capture_count(backward); i++)
      out[count++] = mlirBlockGetArgument(
          w->block,
          (intptr_t)(t->argument_count +
                     nabla_ruled_capture(t, nabla_body_capture(backward, i))));
  }
  if (w->part == NABLA_PART_BACKWARD)
    for (size_t i = 0; i < nabla_arrays_count(&t->captures); i++) {
      const nabla_array *capture = nabla_arrays(&t->captures)[i];
      if (nabla_ruled_has_cotangent(&capture->dense))
        out[count++] = zeros(w, capture);
    }
  return count;
}

/* ---- functions ---- */

static MlirOperation make_function(const writing *w, MlirRegion region,
                                   const char *name) {
  const MlirContext context = w->context;
  const MlirNamedAttribute attributes[3] = {
      nabla_named(context, "sym_name",
                  mlirStringAttrGet(context, nabla_ref(name))),
      nabla_named(
          context, "function_type",
          mlirTypeAttrGet(mlirFunctionTypeGet(context, 0, NULL, 0, NULL))),
      nabla_named(context, "sym_visibility",
                  mlirStringAttrGet(context, nabla_ref("private")))};
  MlirOperationState state = mlirOperationStateGet(
      nabla_ref("func.func"), mlirLocationUnknownGet(context));
  mlirOperationStateAddAttributes(&state, 3, attributes);
  mlirOperationStateAddOwnedRegions(&state, 1, &region);
  return mlirOperationCreate(&state);
}

/* Fills the block. False without memory. */
static bool fill(writing *w) {
  const nabla_ruled_trace *t = w->trace;
  const nabla_body *body = &t->bodies[w->part];
  const size_t most = body->result_count + nabla_arrays_count(&t->captures);
  MlirValue *results = calloc(most + 1, sizeof *results);
  if (!results) return false;
  add_arguments(w);
  MlirOperationState state = mlirOperationStateGet(
      nabla_ref("func.return"), mlirLocationUnknownGet(w->context));
  w->end = mlirOperationCreate(&state);
  mlirBlockAppendOwnedOperation(w->block, w->end);
  for (size_t i = 0; i < body->walk.leaf_count; i++)
    w->emitter.leaves[i] =
        mlirBlockGetArgument(w->block, (intptr_t)argument_of(w, i));
  nabla_graph_emitter_add(&w->emitter, w->block, w->end);
  const size_t count = write_results(w, results);
  mlirOperationSetOperands(w->end, (intptr_t)count, results);
  free(results);
  return true;
}

/* Makes the function of a part, unless there is one; null without memory. */
static MlirOperation write_part(const nabla_ruled_trace *t,
                                nabla_ruled_part part, const char *name,
                                nabla_diag *diag) {
  const MlirOperation none = {NULL};
  const nabla_body *body = &t->bodies[part];
  const MlirModule module = nabla_recorder_module(t->ruled->scope->recorder);
  const MlirOperation have = nabla_function_in(module, nabla_ref(name));
  writing w = {.trace = t,
               .part = part,
               .context = nabla_recorder_context(t->ruled->scope->recorder)};
  if (!mlirOperationIsNull(have)) return have;
  if (nabla_graph_emitter_init(&w.emitter, &body->walk, diag)) return none;
  MlirRegion region = mlirRegionCreate();
  w.block = mlirBlockCreate(0, NULL, NULL);
  mlirRegionAppendOwnedBlock(region, w.block);
  const bool good = fill(&w);
  nabla_graph_emitter_deinit(&w.emitter);
  if (!good) {
    mlirRegionDestroy(region);
    return none;
  }
  const MlirOperation function = make_function(&w, region, name);
  mlirBlockAppendOwnedOperation(mlirModuleGetBody(module), function);
  if (nabla_function_update_type(function)) return function;
  mlirOperationDestroy(function);
  return none;
}

/* ---- the call ---- */

/* A call that is built. */
typedef struct building {
  const nabla_ruled_trace *trace;
  char name[NAME_SIZE];
  nabla_status status; /* of building */
  nabla_diag *diag;
} building;

static MlirAttribute reference(MlirContext context, const char *name) {
  return mlirFlatSymbolRefAttrGet(context, nabla_ref(name));
}

/* Makes the rules. */
static bool add_rules(const building *c, MlirAttribute *names) {
  static const char *const suffixes[] = {"", "forward", "backward", "jvp"};
  const nabla_ruled_trace *t = c->trace;
  const MlirContext context = nabla_recorder_context(t->ruled->scope->recorder);
  for (nabla_ruled_part part = NABLA_PART_FORWARD; part < NABLA_PARTS; part++) {
    char name[NAME_SIZE + 16];
    if (!t->bodies[part].site) continue;
    (void)snprintf(name, sizeof name, "%s.%s", c->name, suffixes[part]);
    names[part] = reference(context, name);
    if (mlirOperationIsNull(write_part(t, part, name, c->diag))) return false;
  }
  return true;
}

/* Names them in the attributes of the function. */
static void set_rules(const nabla_ruled_trace *t, const MlirAttribute *names,
                      MlirOperation function) {
  const MlirContext context = nabla_op_context(function);
  if (t->bodies[NABLA_PART_BACKWARD].site)
    mlirOperationSetAttributeByName(
        function, nabla_ref(NABLA_VJP),
        mlirArrayAttrGet(context, 2, &names[NABLA_PART_FORWARD]));
  if (t->bodies[NABLA_PART_JVP].site)
    mlirOperationSetAttributeByName(function, nabla_ref(NABLA_JVP),
                                    names[NABLA_PART_JVP]);
  if (t->ruled->is_straight)
    mlirOperationSetAttributeByName(function, nabla_ref(NABLA_STRAIGHT_THROUGH),
                                    mlirUnitAttrGet(context));
}

/* The rules come first: where the function is, they are. */
static MlirOperation build(void *self, MlirOperation before,
                           const MlirValue *operands) {
  building *c = self;
  const nabla_ruled_trace *t = c->trace;
  MlirAttribute names[NABLA_PARTS] = {{NULL}};
  MlirOperation function = {NULL};
  if (add_rules(c, names))
    function = write_part(t, NABLA_PART_BODY, c->name, c->diag);
  if (mlirOperationIsNull(function)) {
    c->status = NABLA_NO_MEMORY;
    return function;
  }
  set_rules(t, names, function);
  return nabla_build_call(
      before, function,
      (intptr_t)(t->argument_count + nabla_arrays_count(&t->captures)),
      operands);
}

/* The key tells parts apart, and which captures they share. */
static nabla_status make_key(building *c, nabla_buffer *key, nabla_diag *diag) {
  static const char label[] = "nabla.ruled";
  const nabla_ruled_trace *t = c->trace;
  const nabla_ruled *r = t->ruled;
  const uint64_t head[2] = {r->saved_count, r->is_straight};
  NABLA_TRY(nabla_buffer_append(key, label, sizeof label, diag));
  NABLA_TRY(nabla_buffer_append(key, r->name, strlen(r->name) + 1, diag));
  NABLA_TRY(nabla_buffer_append(key, head, sizeof head, diag));
  for (int part = 0; part < NABLA_PARTS; part++) {
    const nabla_body *body = &t->bodies[part];
    const uint64_t has = body->site != NULL;
    NABLA_TRY(nabla_buffer_append(key, &has, sizeof has, diag));
    if (!has) continue;
    NABLA_TRY(nabla_body_add_key(body, key, diag));
    for (size_t i = 0; i < nabla_body_capture_count(body); i++) {
      const uint64_t at = nabla_ruled_capture(t, nabla_body_capture(body, i));
      NABLA_TRY(nabla_buffer_append(key, &at, sizeof at, diag));
    }
  }
  const XXH128_hash_t hash = XXH3_128bits(key->data, key->size);
  (void)snprintf(c->name, sizeof c->name, "%.60s.%016" PRIx64 "%016" PRIx64,
                 r->name, hash.high64, hash.low64);
  return NABLA_OK;
}

static nabla_status find(building *c, nabla_buffer *key, nabla_buffer *types,
                         nabla_buffer *operands, const nabla_recorded **out,
                         nabla_diag *diag) {
  const nabla_ruled_trace *t = c->trace;
  const nabla_buffer *both[2] = {&t->leaves, &t->captures};
  NABLA_TRY(make_key(c, key, diag));
  for (int side = 0; side < 2; side++)
    for (size_t i = 0; i < nabla_arrays_count(both[side]); i++) {
      nabla_array *array = nabla_arrays(both[side])[i];
      const nabla_array_type *type = &array->dense;
      NABLA_TRY(
          nabla_buffer_append(types, &type, sizeof(nabla_array_type *), diag));
      NABLA_TRY(
          nabla_buffer_append(operands, &array, sizeof(nabla_array *), diag));
    }
  const uint32_t count = (uint32_t)nabla_arrays_count(operands);
  const nabla_built built = {
      .key = key->data,
      .key_size = key->size,
      .operand_count = count,
      .direct_count = count,
      .operands = (const nabla_array_type *const *)(void *)types->data,
      .build = build,
      .self = c};
  const nabla_status status =
      nabla_recorder_find_built(t->ruled->scope->recorder, &built, out, diag);
  if (!c->status) return status;
  return nabla_fail(diag, c->status, "no memory");
}

bool nabla_ruled_call(const nabla_ruled_trace *trace, nabla_array **out) {
  const nabla_recorded *recorded;
  nabla_diag diag = NABLA_DIAG_INIT;
  nabla_buffer key, types, operands;
  const nabla_ruled *r = trace->ruled;
  const nabla_allocator *allocator = nabla_engine_allocator(r->scope->engine);
  building c = {.trace = trace, .diag = &diag};
  nabla_buffer_init(&key, allocator, "a rule", SIZE_MAX / 2);
  nabla_buffer_init(&types, allocator, "a rule", SIZE_MAX / 2);
  nabla_buffer_init(&operands, allocator, "a rule", SIZE_MAX / 2);
  const nabla_status status =
      find(&c, &key, &types, &operands, &recorded, &diag);
  if (status) nabla_call_fail(r->site, r->scope, status, "%s", diag.what);
  const bool good =
      !status && nabla_record_recorded(r->site, r->scope, recorded,
                                       nabla_arrays(&operands),
                                       (uint32_t)trace->result_count, out);
  nabla_buffer_deinit(&key);
  nabla_buffer_deinit(&types);
  nabla_buffer_deinit(&operands);
  return good;
}
