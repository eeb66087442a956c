/* Sessions of functions, and printing. */
#include <stdio.h>
#include <string.h>

#include "lib/array/dtypes.h"
#include "lib/array/function/function.h"
#include "lib/array/packed.h"
#include "lib/array/shards.h"
#include "lib/base/require.h"
#include "transforms/ir/ir.h"

/* ---- sessions ---- */

static nabla_status write_bytecode(void *self, nabla_buffer *bytecode,
                                   nabla_diag *diag) {
  const nabla_traced *traced = self;
  return nabla_buffer_append(bytecode, traced->bytecode.data,
                             traced->bytecode.size, diag);
}

/* For sessions: captures are bound, so that no other function shares it. */
nabla_status nabla_function_take_program(const nabla_function *function,
                                         nabla_traced *traced,
                                         bool has_sessions, nabla_program **out,
                                         nabla_diag *diag) {
  const char *label = has_sessions ? "session" : "saved";
  nabla_buffer key;
  nabla_buffer_init(&key, function->allocator, "a session", SIZE_MAX / 2);
  nabla_status status =
      nabla_buffer_append(&key, label, strlen(label) + 1, diag);
  if (!status)
    status = nabla_buffer_append(&key, &function->number,
                                 sizeof function->number, diag);
  if (!status)
    status = nabla_buffer_append(&key, traced->key, traced->key_size, diag);
  if (!status) {
    const nabla_graph_key graph = {XXH3_128bits(key.data, key.size), key.data,
                                   key.size};
    const nabla_program_writer writer = {write_bytecode, traced, traced->policy,
                                         has_sessions};
    status = nabla_engine_take(function->engine, &graph, &writer, out, diag);
  }
  nabla_buffer_deinit(&key);
  return status;
}

/* A captured array as a weight. */
static nabla_status describe(const nabla_array *array, nabla_weight_desc *out,
                             nabla_diag *diag) {
  nabla_dense dense;
  if (array->packed) {
    *out = array->packed->weight;
    return NABLA_OK;
  }
  NABLA_TRY(nabla_array_whole(array, &dense, diag));
  *out = (nabla_weight_desc){
      .rank = dense.rank, .dtype = dense.dtype, .component_count = 1};
  for (uint32_t d = 0; d < dense.rank; d++)
    out->shape[d] = (uint64_t)dense.shape[d];
  out->components[0] =
      (nabla_weight_component){.dtype = dense.dtype,
                               .data = dense.data,
                               .bytes = nabla_dtype_bytes(&dense)};
  return NABLA_OK;
}

static nabla_status bind_captures(const nabla_traced *traced,
                                  const nabla_program *program,
                                  nabla_diag *diag) {
  for (size_t i = 0; i < traced->capture_count; i++) {
    char name[40];
    nabla_weight_desc weight;
    NABLA_TRY(describe(traced->captures[i], &weight, diag));
    (void)snprintf(name, sizeof name, NABLA_CAPTURED_NAME, i);
    NABLA_TRY(nabla_executable_bind(nabla_program_executable(program), name,
                                    &weight, diag));
  }
  return NABLA_OK;
}

/* Sets `traced->sessions`. */
static nabla_status provide_program(nabla_function *function,
                                    nabla_traced *traced, nabla_diag *diag) {
  nabla_program *program;
  nabla_status status = NABLA_OK;
  NABLA_TRY(
      nabla_function_take_program(function, traced, true, &program, diag));
  pthread_mutex_lock(&function->lock);
  const bool is_first = !traced->sessions;
  if (is_first) status = bind_captures(traced, program, diag);
  if (is_first && !status) traced->sessions = program;
  pthread_mutex_unlock(&function->lock);
  if (!is_first || status) nabla_engine_give(function->engine, program);
  return status;
}

/* Sets a state to the value of its argument. */
typedef struct initial {
  const nabla_function *function;
  nabla_session *session;
} initial;

static nabla_status set_state(void *self, const char *name, nabla_array **place,
                              nabla_diag *diag) {
  const initial *i = self;
  nabla_dense value;
  if (!nabla_function_find(i->function->options.state_count,
                           i->function->states, name, false))
    return NABLA_OK;
  NABLA_TRY(nabla_array_whole(*place, &value, diag));
  return nabla_session_state_set(i->session, name, &value, diag);
}

static nabla_status make_session(nabla_function_arguments *call,
                                 const nabla_session_options *options,
                                 nabla_session **out, nabla_diag *diag) {
  nabla_traced *traced;
  nabla_session *session = NULL;
  NABLA_TRY(nabla_function_read(call, diag));
  if (call->count)
    NABLA_TRY(nabla_realize(call->scope, call->count, call->leaves, diag));
  NABLA_TRY(nabla_function_take(call, &traced, diag));
  nabla_status status = provide_program(call->function, traced, diag);
  if (!status)
    status = nabla_session_create(nabla_program_executable(traced->sessions),
                                  options, &session, diag);
  nabla_function_give(call->function, traced);
  initial i = {call->function, session};
  if (!status) status = nabla_tree_visit(call->arguments, set_state, &i, diag);
  if (status)
    nabla_session_close(session);
  else
    *out = session;
  return status;
}

nabla_status nabla_function_scope(const nabla_function *function,
                                  const char *what, nabla_scope **out,
                                  nabla_diag *diag) {
  nabla_scope *scope = nabla_scope_innermost();
  if (!scope || scope->engine != function->engine)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "the function %s: this thread is in no scope of its "
                      "engine",
                      function->options.name);
  if (scope->trace)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "the function %s: no %s can be made while %s is traced",
                      function->options.name, what, scope->trace->root->what);
  *out = scope;
  return NABLA_OK;
}

nabla_status nabla_function_session(nabla_function *function,
                                    const nabla_tree *arguments,
                                    const nabla_tree *results,
                                    const nabla_session_options *options,
                                    nabla_session **out, nabla_diag *diag) {
  NABLA_REQUIRE(function, diag);
  NABLA_REQUIRE(arguments, diag);
  NABLA_REQUIRE(results, diag);
  NABLA_REQUIRE(out, diag);
  nabla_scope *scope = NULL;
  NABLA_TRY(nabla_function_scope(function, "session", &scope, diag));
  nabla_function_arguments call = {.function = function,
                                   .scope = scope,
                                   .arguments = arguments,
                                   .results = results};
  const nabla_status status = make_session(&call, options, out, diag);
  nabla_function_unread(&call);
  return status;
}

/* ---- printing ---- */

/* A sink that text goes to, and whether it could. */
typedef struct printed {
  const nabla_sink *sink;
  nabla_status status;
  nabla_diag *diag;
} printed;

static void print_chunk(MlirStringRef chunk, void *self) {
  printed *p = self;
  if (!p->status && chunk.length)
    p->status =
        p->sink->write(p->sink->self, chunk.data, chunk.length, p->diag);
}

nabla_status nabla_traced_print(const nabla_function *function,
                                const nabla_traced *traced,
                                const nabla_recorder *recorder, bool is_emitted,
                                const nabla_sink *sink, nabla_diag *diag) {
  printed p = {sink, NABLA_OK, diag};
  const MlirModule module = mlirModuleCreateParse(
      nabla_recorder_context(recorder),
      mlirStringRefCreate((const char *)traced->bytecode.data,
                          traced->bytecode.size));
  if (mlirModuleIsNull(module))
    return nabla_fail(diag, NABLA_CORRUPT, "a traced function does not parse");
  if (is_emitted)
    p.status = nabla_traced_freeze(traced, function->allocator, module, diag);
  if (!p.status)
    mlirOperationPrint(mlirModuleGetOperation(module), print_chunk, &p);
  mlirModuleDestroy(module);
  return p.status;
}

nabla_traced *nabla_function_next(nabla_function *function,
                                  nabla_traced *last) {
  pthread_mutex_lock(&function->lock);
  nabla_traced *traced = last ? last->older : function->newest;
  while (traced && traced->state != NABLA_SIGNATURE_READY &&
         traced->state != NABLA_SIGNATURE_SAVED)
    traced = traced->older;
  if (traced) traced->users++;
  pthread_mutex_unlock(&function->lock);
  return traced;
}

nabla_status nabla_function_print(nabla_function *function,
                                  const nabla_sink *sink, nabla_diag *diag) {
  NABLA_REQUIRE(function, diag);
  NABLA_REQUIRE(sink, diag);
  nabla_recorder *recorder;
  NABLA_TRY(nabla_engine_take_recorder(function->engine, &recorder, diag));
  nabla_status status = NABLA_OK;
  nabla_traced *traced = nabla_function_next(function, NULL);
  while (traced) {
    if (!status)
      status =
          nabla_traced_print(function, traced, recorder, false, sink, diag);
    nabla_traced *next = status ? NULL : nabla_function_next(function, traced);
    nabla_function_give(function, traced);
    traced = next;
  }
  nabla_engine_give_recorder(function->engine, recorder);
  return status;
}
