/* Tracing a function for one signature. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "lib/array/dtypes.h"
#include "lib/array/function/function.h"
#include "lib/array/function/tree_names.h"
#include "lib/array/packed.h"

/* Names of an argument or result. */
typedef struct port_text {
  char name[NABLA_TREE_MAX_NAME + 1];
  char dims[160];
} port_text;

/* A function that is being traced. */
typedef struct tracing {
  const nabla_function_arguments *call;
  nabla_function *function;
  nabla_traced *traced;
  nabla_trace trace;
  nabla_tree_copy in, out;
  nabla_array **arguments, **results;
  size_t result_count;
  nabla_walk walk;
  port_text *texts; /* of leaves, then results */
  nabla_emitted_port *ports;
  size_t port_count, visited;
} tracing;

/* ---- arguments ---- */

/* Gives the named dimensions of argument `index` the numbers of their names. */
static nabla_status name_sizes(tracing *t, nabla_array *argument,
                               const int64_t **dims, nabla_diag *diag) {
  for (uint32_t d = 0; d < argument->dense.rank; d++, ++*dims) {
    if (**dims >= 0) continue;
    const nabla_function_dim *dim = &t->function->dims[-1 - **dims];
    NABLA_TRY(nabla_trace_name_size(&t->trace, dim->name, argument, d,
                                    &argument->dense.shape[d], diag));
  }
  return NABLA_OK;
}

static nabla_status add_arguments(tracing *t, nabla_diag *diag) {
  const int64_t *dims = (const int64_t *)(const void *)t->call->dims.data;
  for (size_t i = 0; i < t->call->count; i++) {
    const nabla_array *given = t->call->leaves[i];
    t->arguments[i] =
        nabla_trace_argument(&t->trace, &given->dense, given->is_weak);
    if (!t->arguments[i]) return nabla_scope_status(t->trace.scope, diag);
    NABLA_TRY(name_sizes(t, t->arguments[i], &dims, diag));
  }
  if (!t->call->count) return NABLA_OK;
  return nabla_tree_unflatten(&t->in.tree, t->call->count, t->arguments, diag);
}

/* ---- results ---- */

static nabla_status check_result(void *self, const char *name,
                                 nabla_array **place, nabla_diag *diag) {
  const tracing *t = self;
  if (*place) return NABLA_OK;
  return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                    "the callback of %s left the result '%s' NULL",
                    t->function->options.name, name);
}

/* Takes the results that the callback left. */
static nabla_status take_results(tracing *t, nabla_diag *diag) {
  void *memory;
  NABLA_TRY(nabla_tree_same(t->call->results, &t->out.tree, diag));
  NABLA_TRY(nabla_tree_visit(&t->out.tree, check_result, t, diag));
  NABLA_TRY(nabla_tree_settle(t->call->results, &t->out.tree, diag));
  NABLA_TRY(nabla_tree_flatten(&t->out.tree, 0, NULL, &t->result_count, diag));
  NABLA_TRY(nabla_alloc(t->function->allocator, t->result_count,
                        sizeof(nabla_array *), &memory, diag));
  t->results = memory;
  if (!t->result_count) return NABLA_OK;
  return nabla_tree_flatten(&t->out.tree, t->result_count, t->results,
                            &t->result_count, diag);
}

/* Runs the callback, and takes its results. */
static nabla_status record(tracing *t, nabla_diag *diag) {
  const nabla_function *function = t->function;
  const nabla_array_call site = {function->options.name, NULL, 0, NULL};
  nabla_scope *scope = t->trace.scope;
  function->callback(scope, &t->in.tree, &t->out.tree, function->options.self);
  if (!nabla_scope_is_open(scope))
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "the callback of %s ended the scope that it was given",
                      function->options.name);
  if (nabla_scope_status(scope, diag)) return nabla_scope_status(scope, NULL);
  NABLA_TRY(take_results(t, diag));
  for (size_t i = 0; i < t->result_count; i++) {
    nabla_array *x = t->results[i];
    const nabla_array_call checked = {function->options.name, NULL, 1, &x};
    if (!nabla_call_begin(&checked)) return nabla_scope_status(scope, diag);
    if (!x->is_weak) continue;
    const nabla_operand_dtype weak = {x->dense.dtype, true};
    t->results[i] =
        nabla_record_convert(&site, scope, x, nabla_dtype_settle(weak));
    if (!t->results[i]) return nabla_scope_status(scope, diag);
  }
  return NABLA_OK;
}

/* Finds the dimension of an argument that has the size of a result's. */
static nabla_result_size find_source(const tracing *t, int64_t size) {
  nabla_result_size source = {UINT32_MAX, 0};
  const nabla_array *array =
      nabla_trace_size_array(&t->trace, size, &source.dim);
  for (size_t i = 0; i < t->call->count; i++)
    if (t->arguments[i] == array) source.leaf = (uint32_t)i;
  return source;
}

/* Searches for the number of a leaf. */
typedef struct leaf_search {
  const char *name;
  uint32_t count, found;
} leaf_search;

static nabla_status find_number(void *self, const char *name,
                                nabla_array **place, nabla_diag *diag) {
  (void)place, (void)diag;
  leaf_search *s = self;
  if (!strcmp(s->name, name)) s->found = s->count;
  s->count++;
  return NABLA_OK;
}

/* Gives each result that replaces a donated argument its donor. */
static nabla_status find_donors(tracing *t, nabla_diag *diag) {
  const nabla_function *function = t->function;
  for (size_t i = 0; i < function->options.donated_count; i++) {
    leaf_search from = {.name = function->donated[i].argument},
                to = {.name = function->donated[i].result};
    NABLA_TRY(nabla_tree_visit(t->call->arguments, find_number, &from, diag));
    NABLA_TRY(nabla_tree_visit(&t->out.tree, find_number, &to, diag));
    nabla_traced_result *result = &t->traced->results[to.found];
    const nabla_dense *a = &t->arguments[from.found]->dense, *b = &result->type;
    bool same = a->dtype == b->dtype && a->rank == b->rank;
    for (uint32_t d = 0; d < a->rank && same; d++)
      same = a->shape[d] == b->shape[d];
    if (!same || nabla_dtype_is_packed(a->dtype))
      return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                        "%s: the result '%s' cannot take the memory of '%s': "
                        "another dtype or shape, or packed",
                        function->options.name, to.name, from.name);
    result->donor = from.found;
  }
  return NABLA_OK;
}

static nabla_status describe_results(tracing *t, nabla_diag *diag) {
  void *memory;
  const size_t count = t->result_count;
  NABLA_TRY(nabla_alloc(t->function->allocator, count,
                        sizeof(nabla_traced_result), &memory, diag));
  t->traced->results = memory;
  t->traced->result_count = count;
  for (size_t i = 0; i < count; i++) {
    nabla_traced_result *result = &t->traced->results[i];
    result->type = t->results[i]->dense;
    result->type.data = NULL;
    result->donor = UINT32_MAX;
    for (uint32_t d = 0; d < result->type.rank; d++) {
      if (result->type.shape[d] >= 0) continue;
      result->sizes[d] = find_source(t, result->type.shape[d]);
      result->is_open = result->is_open || result->sizes[d].leaf == UINT32_MAX;
    }
  }
  return find_donors(t, diag);
}

/* ---- ports ---- */

static nabla_status name_port(void *self, const char *name, nabla_array **place,
                              nabla_diag *diag) {
  (void)place, (void)diag;
  tracing *t = self;
  port_text *text = &t->texts[t->visited];
  nabla_emitted_port *port = &t->ports[t->visited++];
  const bool is_result = t->visited > t->walk.leaf_count;
  const nabla_function *function = t->function;
  const nabla_function_replacement *state = nabla_function_find(
      function->options.state_count, function->states, name, is_result);
  if (state) port->state = state->argument;
  if (is_result) return NABLA_OK;
  port->is_donated = nabla_function_find(function->options.donated_count,
                                         function->donated, name, false);
  memcpy(text->name, name, strlen(name) + 1);
  if (*name) port->name = text->name;
  return NABLA_OK;
}

/* "batch, 3", where a size has a name. */
static void name_dims(const tracing *t, const nabla_array *argument,
                      port_text *text, nabla_emitted_port *port) {
  for (uint32_t d = 0; d < argument->dense.rank; d++) {
    const size_t used = strlen(text->dims);
    const int64_t size = argument->dense.shape[d];
    const char *comma = d ? ", " : "";
    if (size < 0) {
      port->dims = text->dims;
      (void)snprintf(text->dims + used, sizeof text->dims - used, "%s%s", comma,
                     nabla_trace_size_name(&t->trace, size));
    } else {
      (void)snprintf(text->dims + used, sizeof text->dims - used, "%s%" PRId64,
                     comma, size);
    }
  }
}

static nabla_status make_ports(tracing *t, nabla_diag *diag) {
  void *texts, *ports;
  const nabla_allocator *allocator = t->function->allocator;
  t->port_count = t->walk.leaf_count + t->walk.result_count;
  NABLA_TRY(
      nabla_alloc(allocator, t->port_count, sizeof(port_text), &texts, diag));
  t->texts = texts;
  NABLA_TRY(nabla_alloc(allocator, t->port_count, sizeof(nabla_emitted_port),
                        &ports, diag));
  t->ports = ports;
  NABLA_TRY(nabla_tree_visit(t->call->arguments, name_port, t, diag));
  for (size_t i = 0; i < t->call->count; i++)
    name_dims(t, t->arguments[i], &t->texts[i], &t->ports[i]);
  for (size_t i = t->call->count; i < t->walk.leaf_count; i++) {
    (void)snprintf(t->texts[i].name, sizeof t->texts[i].name,
                   NABLA_CAPTURED_NAME, i - t->call->count);
    t->ports[i].name = t->texts[i].name;
    t->ports[i].is_captured = true;
  }
  t->visited = t->walk.leaf_count;
  return nabla_tree_visit(&t->out.tree, name_port, t, diag);
}

/* ---- program ---- */

static nabla_status hold_captures(tracing *t, nabla_diag *diag) {
  void *memory;
  const size_t count = t->walk.leaf_count - t->call->count;
  NABLA_TRY(nabla_alloc(t->function->allocator, count, sizeof(nabla_array *),
                        &memory, diag));
  t->traced->captures = memory;
  t->traced->capture_count = count;
  for (size_t i = 0; i < count; i++) {
    t->traced->captures[i] = t->walk.leaves[t->call->count + i];
    nabla_array_hold(t->traced->captures[i]);
  }
  return NABLA_OK;
}

static nabla_status write_bytecode(void *self, nabla_buffer *bytecode,
                                   nabla_diag *diag) {
  const nabla_traced *traced = self;
  return nabla_buffer_append(bytecode, traced->bytecode.data,
                             traced->bytecode.size, diag);
}

/* Finds or compiles the program; the key of the graph, with the numbers of
 * donated arguments. */
static nabla_status take_program(tracing *t, nabla_diag *diag) {
  nabla_buffer *key = &t->walk.key_memory;
  const nabla_program_writer writer = {write_bytecode, t->traced,
                                       t->traced->policy, false};
  for (size_t i = 0; i < t->traced->result_count; i++) {
    const uint32_t word[2] = {(uint32_t)i, t->traced->results[i].donor};
    if (word[1] != UINT32_MAX)
      NABLA_TRY(nabla_buffer_append(key, word, sizeof word, diag));
  }
  const nabla_graph_key graph = {XXH3_128bits(key->data, key->size), key->data,
                                 key->size};
  NABLA_TRY(nabla_engine_take(t->function->engine, &graph, &writer,
                              &t->traced->program, diag));
  t->traced->counts = nabla_program_counts(t->traced->program);
  return NABLA_OK;
}

/* Rules of derivatives are kept for files; nothing compiles them here. */
static nabla_status emit(tracing *t, nabla_diag *diag) {
  nabla_traced *traced = t->traced;
  nabla_emitted_program emitted = {.walk = &t->walk, .ports = t->ports};
  NABLA_TRY(nabla_program_emit(&emitted, &traced->bytecode, diag));
  emitted.has_rules =
      nabla_module_has_rules(nabla_recorder_module(t->walk.recorder));
  if (!emitted.has_rules) return NABLA_OK;
  return nabla_program_emit(&emitted, &traced->ruled, diag);
}

static nabla_status compile(tracing *t, nabla_diag *diag) {
  nabla_traced *traced = t->traced;
  NABLA_TRY(nabla_walk_trace(&t->walk, t->call->count, t->arguments,
                             t->result_count, t->results, diag));
  NABLA_TRY(make_ports(t, diag));
  NABLA_TRY(emit(t, diag));
  NABLA_TRY(hold_captures(t, diag));
  traced->argument_count = t->call->count;
  traced->bytes = sizeof *traced + traced->key_size + traced->bytecode.size +
                  traced->ruled.size;
  if (t->function->options.state_count) return NABLA_OK;
  NABLA_TRY(take_program(t, diag));
  traced->bytes += nabla_program_bytes(traced->program);
  return NABLA_OK;
}

/* Every name in the options is that of a leaf with so many dimensions. */
typedef struct search {
  const char *name;
  int64_t rank; /* -1: not found */
} search;

static nabla_status find_leaf(void *self, const char *name, nabla_array **place,
                              nabla_diag *diag) {
  (void)diag;
  search *s = self;
  if (!strcmp(s->name, name)) s->rank = *place ? (*place)->dense.rank : 0;
  return NABLA_OK;
}

static nabla_status check_replacements(const nabla_function_arguments *call,
                                       const nabla_tree *results, size_t count,
                                       const nabla_function_replacement *list,
                                       const char *noun, nabla_diag *diag) {
  for (size_t i = 0; i < count; i++)
    for (int side = 0; side < (results ? 2 : 1); side++) {
      search s = {side ? list[i].result : list[i].argument, -1};
      const nabla_tree *tree = side ? results : call->arguments;
      NABLA_TRY(nabla_tree_visit(tree, find_leaf, &s, diag));
      if (s.rank >= 0) continue;
      const nabla_status status =
          nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                     side ? "the options of %s give a %s the result '%s', "
                            "which is no result"
                          : "the options of %s name a %s '%s', which is no "
                            "argument",
                     call->function->options.name, noun, s.name);
      nabla_tree_say_names(tree, side ? "the results" : "the arguments", diag);
      return status;
    }
  return NABLA_OK;
}

/* `results` NULL: they are not known yet. */
static nabla_status check_options(const nabla_function_arguments *call,
                                  const nabla_tree *results, nabla_diag *diag) {
  const nabla_function *function = call->function;
  for (size_t i = 0; i < function->options.dim_count; i++) {
    const nabla_function_dim *dim = &function->dims[i];
    search s = {dim->argument, -1};
    NABLA_TRY(nabla_tree_visit(call->arguments, find_leaf, &s, diag));
    if (s.rank <= (int64_t)dim->dim)
      return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                        "the options of %s name dimension %" PRIu32
                        " of '%s', which %s",
                        function->options.name, dim->dim, dim->argument,
                        s.rank < 0 ? "is no argument" : "has fewer");
  }
  NABLA_TRY(check_replacements(call, results, function->options.state_count,
                               function->states, "state", diag));
  return check_replacements(call, results, function->options.donated_count,
                            function->donated, "donated argument", diag);
}

static nabla_status trace(tracing *t, nabla_diag *diag) {
  NABLA_TRY(nabla_trace_begin(&t->trace, t->function->engine,
                              t->function->options.name, diag));
  NABLA_TRY(add_arguments(t, diag));
  NABLA_TRY(record(t, diag));
  if (t->call->has_open) NABLA_TRY(check_options(t->call, &t->out.tree, diag));
  NABLA_TRY(describe_results(t, diag));
  nabla_walk_init(&t->walk, t->trace.scope);
  return compile(t, diag);
}

nabla_status nabla_function_trace(const nabla_function_arguments *call,
                                  nabla_traced *traced, nabla_diag *diag) {
  tracing t = {.call = call, .function = call->function, .traced = traced};
  const nabla_allocator *allocator = call->function->allocator;
  void *arguments = NULL;
  NABLA_TRY(check_options(call, call->has_open ? NULL : call->results, diag));
  traced->policy = call->function->policy
                       ? call->function->policy
                       : (nabla_array_policy)call->scope->policy;
  nabla_status status =
      nabla_tree_copy_init(&t.in, allocator, call->arguments, diag);
  if (!status)
    status = nabla_tree_copy_init(&t.out, allocator, call->results, diag);
  if (!status)
    status = nabla_alloc(allocator, call->count, sizeof(nabla_array *),
                         &arguments, diag);
  t.arguments = arguments;
  if (!status) status = trace(&t, diag);
  if (t.walk.recorder) nabla_walk_deinit(&t.walk);
  nabla_trace_end(&t.trace);
  nabla_free(allocator, t.texts, t.port_count, sizeof(port_text));
  nabla_free(allocator, t.ports, t.port_count, sizeof(nabla_emitted_port));
  nabla_free(allocator, arguments, call->count, sizeof(nabla_array *));
  nabla_free(allocator, t.results, t.result_count, sizeof(nabla_array *));
  nabla_tree_copy_deinit(&t.in);
  nabla_tree_copy_deinit(&t.out);
  if (!status && traced->capture_count)
    status = nabla_realize(call->scope, traced->capture_count, traced->captures,
                           diag);
  return status;
}
