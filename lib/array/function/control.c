/* Control flow: operations whose regions are traced callbacks. */
#include <inttypes.h>
#include <string.h>

#include "lib/array/dtypes.h"
#include "lib/array/emit_mesh.h"
#include "lib/array/function/body.h"
#include "lib/array/function/function.h"

#define MAX_CARRIED ((size_t)NABLA_BUILD_MAX_CARRIES)

/* A list of arrays on the stack. */
typedef struct leaves {
  size_t count;
  nabla_array *arrays[2 * NABLA_BUILD_MAX_CARRIES];
} leaves;

/* An operation that is recorded: its direct operands, and bodies. */
typedef struct control {
  const nabla_array_call *site;
  nabla_scope *scope;
  const char *op;
  uint32_t body_count, direct_count;
  nabla_body *bodies;
  nabla_array *const *direct;
  size_t carry_count, input_count; /* of a scan */
  bool reverse;
} control;

static nabla_status put_null(void *self, const char *name, nabla_array **place,
                             nabla_diag *diag) {
  (void)self, (void)name, (void)diag;
  *place = NULL;
  return NABLA_OK;
}

static void clear(const nabla_tree *tree) {
  if (tree) (void)!nabla_tree_visit(tree, put_null, NULL, NULL);
}

/* Enters a failure of the public function, without operands. */
static void fail(const nabla_array_call *site, nabla_scope *scope,
                 const nabla_diag *diag) {
  nabla_call_fail(site, scope, diag->code, "%s", diag->what);
}

/* Takes the leaves of a tree, none NULL, each with a dtype of its own. */
static bool take(const nabla_array_call *site, const nabla_tree *tree,
                 leaves *out) {
  nabla_diag diag = NABLA_DIAG_INIT;
  nabla_scope *scope = nabla_scope_innermost();
  size_t count;
  if (!tree) return true;
  if (nabla_tree_flatten(tree, MAX_CARRIED, out->arrays + out->count, &count,
                         &diag)) {
    fail(site, scope, &diag);
    return false;
  }
  const nabla_array_call checked = {site->function, site->place,
                                    (uint32_t)count, out->arrays + out->count};
  if (!nabla_call_begin(&checked)) return false;
  for (size_t i = 0; i < count; i++) {
    nabla_array **x = &out->arrays[out->count++];
    const nabla_operand_dtype dtype = {(*x)->dense.dtype, (*x)->is_weak};
    if (!(*x)->is_weak) continue;
    *x = nabla_record_convert(site, scope, *x, nabla_dtype_settle(dtype));
    if (!*x) return false;
  }
  return true;
}

/* ---- recording ---- */

static MlirOperation build_op(const control *c, MlirOperation before,
                              const MlirValue *operands) {
  const nabla_builder b = {before};
  nabla_built_region regions[2];
  for (uint32_t i = 0; i < c->body_count; i++)
    regions[i] = nabla_body_region(&c->bodies[i]);
  if (!strcmp(c->op, "nabla.cond"))
    return nabla_build_cond(&b, operands[0], 2, regions);
  if (!strcmp(c->op, "nabla.while"))
    return nabla_build_while(&b, (intptr_t)c->direct_count, operands,
                             &regions[0], &regions[1]);
  const nabla_built_scan scan = {
      .carry_count = (intptr_t)c->carry_count,
      .input_count = (intptr_t)c->input_count,
      .size_count =
          (intptr_t)(c->direct_count - c->carry_count - c->input_count),
      .carries = operands,
      .inputs = operands + c->carry_count,
      .sizes = operands + c->carry_count + c->input_count,
      .reverse = c->reverse};
  return nabla_build_scan(&b, &scan, &regions[0]);
}

static MlirOperation build(void *self, MlirOperation before,
                           const MlirValue *operands) {
  const MlirOperation op = build_op(self, before, operands);
  nabla_mesh_hold(op);
  return op;
}

static nabla_status add_key(const control *c, nabla_buffer *key,
                            nabla_diag *diag) {
  const uint64_t head[4] = {c->direct_count, c->carry_count, c->input_count,
                            c->reverse};
  NABLA_TRY(nabla_buffer_append(key, c->op, strlen(c->op) + 1, diag));
  NABLA_TRY(nabla_buffer_append(key, head, sizeof head, diag));
  for (uint32_t i = 0; i < c->direct_count; i++) {
    const nabla_dense *type = &c->direct[i]->dense;
    const uint32_t word[2] = {(uint32_t)type->dtype, type->rank};
    NABLA_TRY(nabla_buffer_append(key, word, sizeof word, diag));
    if (type->rank)
      NABLA_TRY(nabla_buffer_append(key, type->shape,
                                    type->rank * sizeof type->shape[0], diag));
  }
  for (uint32_t i = 0; i < c->body_count; i++)
    NABLA_TRY(nabla_body_add_key(&c->bodies[i], key, diag));
  return NABLA_OK;
}

/* Appends direct operands, then captures. */
static nabla_status add_operands(const control *c, nabla_buffer *operands,
                                 nabla_diag *diag) {
  for (uint32_t i = 0; i < c->direct_count; i++)
    NABLA_TRY(nabla_buffer_append(operands, &c->direct[i],
                                  sizeof(nabla_array *), diag));
  for (uint32_t i = 0; i < c->body_count; i++) {
    nabla_body *body = &c->bodies[i];
    body->first_capture = (uint32_t)(operands->size / sizeof(nabla_array *));
    for (size_t k = 0; k < nabla_body_capture_count(body); k++) {
      const nabla_array *capture = nabla_body_capture(body, k);
      NABLA_TRY(
          nabla_buffer_append(operands, &capture, sizeof(nabla_array *), diag));
    }
  }
  return NABLA_OK;
}

static nabla_status find(const control *c, nabla_buffer *key,
                         nabla_buffer *operands, const nabla_recorded **out,
                         nabla_diag *diag) {
  const nabla_array_type *types[NABLA_MAX_RECORDED];
  if (c->direct_count > NABLA_MAX_RECORDED)
    return nabla_fail(diag, NABLA_TOO_LARGE, "%" PRIu32 " operands; at most %d",
                      c->direct_count, NABLA_MAX_RECORDED);
  NABLA_TRY(add_key(c, key, diag));
  NABLA_TRY(add_operands(c, operands, diag));
  for (uint32_t i = 0; i < c->direct_count; i++)
    types[i] = &c->direct[i]->dense;
  const nabla_built built = {
      .key = key->data,
      .key_size = key->size,
      .operand_count = (uint32_t)(operands->size / sizeof(nabla_array *)),
      .direct_count = c->direct_count,
      .operands = types,
      .build = build,
      .self = (void *)c};
  const nabla_status status =
      nabla_recorder_find_built(c->scope->recorder, &built, out, diag);
  for (uint32_t i = 0; i < c->body_count; i++)
    if (c->bodies[i].failed)
      return nabla_fail(diag, NABLA_NO_MEMORY, "no memory");
  return status;
}

/* Records the operation; `out` gets `count` results. */
static bool record(const control *c, uint32_t count, nabla_array **out) {
  const nabla_recorded *recorded;
  nabla_buffer key, operands;
  nabla_diag diag = NABLA_DIAG_INIT;
  const nabla_allocator *allocator = nabla_engine_allocator(c->scope->engine);
  nabla_buffer_init(&key, allocator, "a loop or a choice", SIZE_MAX / 2);
  nabla_buffer_init(&operands, allocator, "a loop or a choice", SIZE_MAX / 2);
  const nabla_status status = find(c, &key, &operands, &recorded, &diag);
  if (status) fail(c->site, c->scope, &diag);
  const bool good =
      !status &&
      nabla_record_recorded(c->site, c->scope, recorded,
                            (nabla_array *const *)(const void *)operands.data,
                            count, out);
  nabla_buffer_deinit(&key);
  nabla_buffer_deinit(&operands);
  return good;
}

/* nabla_body_lift_results where two bodies agree. */
static void lift_equal(const nabla_body *bodies, size_t count,
                       nabla_array *const *out) {
  for (size_t i = 0; i < count; i++) {
    nabla_array_type a = bodies[0].results[i]->dense,
                     b = bodies[1].results[i]->dense;
    nabla_body_lift_sizes(&bodies[0], &a);
    nabla_body_lift_sizes(&bodies[1], &b);
    for (uint32_t d = 0; d < a.rank; d++)
      if (a.shape[d] != NABLA_DYNAMIC && a.shape[d] == b.shape[d])
        out[i]->dense.shape[d] = a.shape[d];
  }
}

/* ---- cond ---- */

/* Whether results of a body have the types of arrays. */
static bool check_types(const nabla_array_call *site, nabla_scope *scope,
                        const nabla_body *body, size_t first, size_t count,
                        nabla_array *const *want, const char *what) {
  for (size_t i = 0; i < count; i++) {
    const nabla_dense *a = &want[i]->dense,
                      *b = &body->results[first + i]->dense;
    const nabla_array *both[2] = {want[i], body->results[first + i]};
    bool same = a->dtype == b->dtype && a->rank == b->rank;
    for (uint32_t d = 0; d < a->rank && same; d++) {
      int64_t size;
      same = nabla_size_join(scope, a->shape[d], b->shape[d], &size);
    }
    if (same) continue;
    const nabla_array_call named = {site->function, site->place, 2,
                                    (nabla_array *const *)both};
    nabla_call_fail(&named, scope, NABLA_INVALID_ARGUMENT, "leaf %zu %s", i,
                    what);
    return false;
  }
  return true;
}

static bool cond(const nabla_array_call *site, nabla_array *predicate,
                 nabla_body *bodies, const nabla_body_source *sources,
                 leaves *out) {
  nabla_scope *scope = nabla_call_begin(site);
  if (!scope) return false;
  if (predicate->dense.dtype != NABLA_DTYPE_BOOL || predicate->dense.rank) {
    nabla_call_fail(site, scope, NABLA_INVALID_ARGUMENT,
                    "the predicate is no truth value of rank 0");
    return false;
  }
  for (int i = 0; i < 2; i++) {
    nabla_body_init(&bodies[i], site, scope, 0, NULL);
    if (!nabla_body_trace(&bodies[i], &sources[i])) return false;
  }
  out->count = bodies[0].result_count;
  if (out->count > MAX_CARRIED) {
    nabla_call_fail(site, scope, NABLA_TOO_LARGE, "%zu results; at most %zu",
                    out->count, MAX_CARRIED);
    return false;
  }
  if (!check_types(site, scope, &bodies[1], 0, out->count, bodies[0].results,
                   "differs between the parts"))
    return false;
  const control c = {.site = site,
                     .scope = scope,
                     .op = "nabla.cond",
                     .body_count = 2,
                     .bodies = bodies,
                     .direct_count = 1,
                     .direct = &predicate};
  if (!record(&c, (uint32_t)out->count, out->arrays)) return false;
  lift_equal(bodies, out->count, out->arrays);
  return true;
}

void nabla_cond(nabla_array *predicate, nabla_function_callback yes,
                nabla_function_callback no, void *self,
                const nabla_tree *operands, nabla_tree *results) {
  const nabla_array_call site = NABLA_ARRAY_CALL(cond, 1, &predicate);
  const nabla_tree none = {.kind = NABLA_TREE_NONE};
  nabla_body bodies[2] = {{.site = NULL}};
  leaves out = {.count = 0};
  if (!operands) operands = &none;
  if (!results) return;
  const nabla_body_source sources[2] = {{yes, self, operands, NULL, results},
                                        {no, self, operands, NULL, results}};
  const bool good = cond(&site, predicate, bodies, sources, &out);
  clear(results);
  if (good) (void)!nabla_tree_unflatten(results, out.count, out.arrays, NULL);
  nabla_body_deinit(&bodies[1]);
  nabla_body_deinit(&bodies[0]);
}

/* ---- while ---- */

static bool loop(const nabla_array_call *site, const leaves *initial,
                 nabla_body *bodies, const nabla_body_source *sources,
                 nabla_array **out) {
  nabla_scope *scope = nabla_scope_innermost();
  if (initial->count >= MAX_CARRIED) {
    nabla_call_fail(site, scope, NABLA_TOO_LARGE, "%zu values; at most %zu",
                    initial->count, MAX_CARRIED - 1);
    return false;
  }
  for (int i = 0; i < 2; i++) {
    nabla_body_init(&bodies[i], site, scope, initial->count, initial->arrays);
    if (!nabla_body_trace(&bodies[i], &sources[i])) return false;
  }
  const nabla_dense *condition = &bodies[0].results[0]->dense;
  if (condition->dtype != NABLA_DTYPE_BOOL || condition->rank) {
    nabla_call_fail(site, scope, NABLA_INVALID_ARGUMENT,
                    "the condition is no truth value of rank 0");
    return false;
  }
  if (!check_types(site, scope, &bodies[1], 0, initial->count, initial->arrays,
                   "changes its dtype or shape"))
    return false;
  bodies[0].passes_arguments = true;
  const control c = {.site = site,
                     .scope = scope,
                     .op = "nabla.while",
                     .body_count = 2,
                     .bodies = bodies,
                     .direct_count = (uint32_t)initial->count,
                     .direct = initial->arrays};
  if (!record(&c, (uint32_t)initial->count, out)) return false;
  nabla_body_lift_results(&bodies[1], 0, initial->count, out);
  return true;
}

void nabla_while(nabla_function_callback condition,
                 nabla_function_callback body, void *self,
                 const nabla_tree *initial, nabla_tree *results) {
  const nabla_array_call site = NABLA_ARRAY_CALL(while, 0, NULL);
  const nabla_tree leaf = {.kind = NABLA_TREE_ARRAY};
  nabla_body bodies[2] = {{.site = NULL}};
  nabla_array *out[NABLA_BUILD_MAX_CARRIES];
  nabla_diag diag = NABLA_DIAG_INIT;
  leaves values = {.count = 0};
  if (!initial || !results) return;
  const nabla_body_source sources[2] = {{condition, self, NULL, initial, &leaf},
                                        {body, self, NULL, initial, initial}};
  bool good = nabla_scope_innermost() && take(&site, initial, &values);
  if (good && nabla_tree_same(initial, results, &diag)) {
    fail(&site, nabla_scope_innermost(), &diag);
    good = false;
  }
  good = good && loop(&site, &values, bodies, sources, out);
  clear(results);
  if (good) (void)!nabla_tree_unflatten(results, values.count, out, NULL);
  nabla_body_deinit(&bodies[1]);
  nabla_body_deinit(&bodies[0]);
}

/* ---- scan ---- */

/* The arrays of a scan: carried ones, inputs, then sizes. */
typedef struct scan {
  const nabla_array_call *site;
  nabla_scope *scope;
  const nabla_scan_options *options;
  leaves operands;
  size_t carry_count, input_count, output_count;
  nabla_tree *carried, *outputs;
} scan;

static bool check_inputs(const scan *s) {
  nabla_array *const *inputs = s->operands.arrays + s->carry_count;
  const nabla_array_call site = {s->site->function, s->site->place,
                                 (uint32_t)s->input_count, inputs};
  if (!s->input_count) {
    nabla_call_fail(s->site, s->scope, NABLA_INVALID_ARGUMENT,
                    "there are no inputs to go over");
    return false;
  }
  for (size_t i = 0; i < s->input_count; i++) {
    const nabla_dense *input = &inputs[i]->dense;
    int64_t size;
    if (input->rank && nabla_size_join(s->scope, inputs[0]->dense.shape[0],
                                       input->shape[0], &size))
      continue;
    nabla_call_fail(&site, s->scope, NABLA_INVALID_ARGUMENT,
                    "inputs without a common first dimension");
    return false;
  }
  return true;
}

/* Appends the unknown sizes of stacked outputs to the operands. */
static bool add_sizes(scan *s, const nabla_body *body) {
  for (size_t i = 0; i < s->output_count; i++) {
    nabla_array_type type = body->results[s->carry_count + i]->dense;
    uint32_t count = (uint32_t)s->operands.count;
    nabla_body_lift_sizes(body, &type);
    for (uint32_t d = 0; d < type.rank; d++)
      if (type.shape[d] == NABLA_DYNAMIC) {
        nabla_call_fail(s->site, s->scope, NABLA_UNSUPPORTED,
                        "output %zu has a size that only the body knows", i);
        return false;
      }
    if (!nabla_trace_add_sizes(s->site, s->scope, &type, &count,
                               s->operands.arrays, 2 * NABLA_BUILD_MAX_CARRIES))
      return false;
    s->operands.count = count;
  }
  return true;
}

static bool record_scan(scan *s, nabla_body *body,
                        const nabla_body_source *source, nabla_array **out) {
  nabla_body_init(body, s->site, s->scope, s->operands.count,
                  s->operands.arrays);
  body->whole_count = s->carry_count;
  if (!nabla_body_trace(body, source)) return false;
  s->output_count = body->result_count - s->carry_count;
  if (body->result_count > MAX_CARRIED) {
    nabla_call_fail(s->site, s->scope, NABLA_TOO_LARGE,
                    "%zu results; at most %zu", body->result_count,
                    MAX_CARRIED);
    return false;
  }
  if (!check_types(s->site, s->scope, body, 0, s->carry_count,
                   s->operands.arrays, "changes its dtype or shape") ||
      !add_sizes(s, body))
    return false;
  const control c = {.site = s->site,
                     .scope = s->scope,
                     .op = "nabla.scan",
                     .body_count = 1,
                     .bodies = body,
                     .direct_count = (uint32_t)s->operands.count,
                     .direct = s->operands.arrays,
                     .carry_count = s->carry_count,
                     .input_count = s->input_count,
                     .reverse = s->options->reverse != 0};
  if (!record(&c, (uint32_t)body->result_count, out)) return false;
  nabla_body_lift_results(body, 0, s->carry_count, out);
  for (size_t i = 0; i < s->output_count; i++) {
    nabla_dense *stacked = &out[s->carry_count + i]->dense;
    nabla_array_type type = body->results[s->carry_count + i]->dense;
    nabla_body_lift_sizes(body, &type);
    stacked->shape[0] = s->operands.arrays[s->carry_count]->dense.shape[0];
    memcpy(stacked->shape + 1, type.shape, type.rank * sizeof type.shape[0]);
  }
  return true;
}

static bool begin_scan(scan *s) {
  const nabla_scan_options *options = s->options;
  if (!options || options->struct_size != sizeof *options) {
    nabla_call_fail(s->site, s->scope, NABLA_INVALID_ARGUMENT,
                    "scan options of %zu bytes: set struct_size to sizeof(its "
                    "type); this library has %zu",
                    options ? options->struct_size : 0, sizeof *options);
    return false;
  }
  if (!take(s->site, options->initial, &s->operands)) return false;
  s->carry_count = s->operands.count;
  if (!take(s->site, options->inputs, &s->operands)) return false;
  s->input_count = s->operands.count - s->carry_count;
  return check_inputs(s);
}

static bool run_scan(scan *s, nabla_function_callback callback, void *self,
                     nabla_array **out) {
  nabla_body body = {.site = NULL};
  nabla_diag diag = NABLA_DIAG_INIT;
  const nabla_tree none = {.kind = NABLA_TREE_NONE};
  if (!begin_scan(s)) return false;
  nabla_tree given[2] = {s->options->initial ? *s->options->initial : none,
                         *s->options->inputs};
  nabla_tree wanted[2] = {given[0], s->outputs ? *s->outputs : none};
  if (s->carried && nabla_tree_same(&given[0], s->carried, &diag)) {
    fail(s->site, s->scope, &diag);
    return false;
  }
  const nabla_tree shape = nabla_tree_of_list(2, given);
  const nabla_tree results = nabla_tree_of_list(2, wanted);
  const nabla_body_source source = {callback, self, NULL, &shape, &results};
  const bool good =
      record_scan(s, &body, &source, out) &&
      (!s->outputs || !nabla_tree_settle(s->outputs, &wanted[1], &diag));
  nabla_body_deinit(&body);
  return good;
}

void nabla_scan(nabla_function_callback body, void *self,
                const nabla_scan_options *options, nabla_tree *carried,
                nabla_tree *outputs) {
  const nabla_array_call site = NABLA_ARRAY_CALL(scan, 0, NULL);
  nabla_array *out[NABLA_BUILD_MAX_CARRIES];
  scan s = {.site = &site,
            .scope = nabla_scope_innermost(),
            .options = options,
            .carried = carried,
            .outputs = outputs};
  const bool good = s.scope && run_scan(&s, body, self, out);
  clear(carried);
  clear(outputs);
  if (!good) return;
  if (carried) (void)!nabla_tree_unflatten(carried, s.carry_count, out, NULL);
  if (outputs)
    (void)!nabla_tree_unflatten(outputs, s.output_count, out + s.carry_count,
                                NULL);
}

/* ---- call ---- */

void nabla_call(nabla_function *function, const nabla_tree *arguments,
                nabla_tree *results) {
  const nabla_array_call site = NABLA_ARRAY_CALL(call, 0, NULL);
  nabla_array *out[NABLA_MAX_RECORDED];
  nabla_body body = {.site = NULL};
  leaves operands = {.count = 0};
  nabla_scope *scope = nabla_scope_innermost();
  if (!arguments || !results) return;
  bool good = function && scope && take(&site, arguments, &operands);
  if (good && function->is_loaded) { /* its callback records the call */
    clear(results);
    function->callback(scope, arguments, results, function->options.self);
    return;
  }
  if (good) {
    const nabla_body_source source = {
        function->callback, function->options.self, NULL, arguments, results};
    nabla_body_init(&body, &site, scope, operands.count, operands.arrays);
    good = nabla_body_trace(&body, &source);
  }
  if (good && body.result_count > NABLA_MAX_RECORDED) {
    nabla_call_fail(&site, scope, NABLA_TOO_LARGE, "%zu results; at most %d",
                    body.result_count, NABLA_MAX_RECORDED);
    good = false;
  }
  good = good && nabla_body_call(&body, function->options.name, out);
  if (good) nabla_body_lift_results(&body, 0, body.result_count, out);
  clear(results);
  if (good) (void)!nabla_tree_unflatten(results, body.result_count, out, NULL);
  nabla_body_deinit(&body);
}
