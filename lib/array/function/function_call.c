/* Calls of functions: signature, program, results. */
#include <inttypes.h>
#include <string.h>

#include "lib/array/divided.h"
#include "lib/array/dtypes.h"
#include "lib/array/function/function.h"
#include "lib/array/packed.h"
#include "lib/array/shards.h"
#include "lib/array/watch.h"
#include "lib/base/require.h"

#define STACK_ARRAYS ((size_t)16)
#define NO_SIZE      ((int64_t)-1) /* of a name that no leaf had yet */

/* ---- signatures ---- */

/* The entry of the options that names a dimension: the first of that name. */
static size_t find_dim(const nabla_function *function, const char *leaf,
                       uint32_t dim) {
  const size_t count = function->options.dim_count;
  for (size_t i = 0; i < count; i++) {
    const nabla_function_dim *found = &function->dims[i];
    if (found->dim != dim || strcmp(found->argument, leaf) != 0) continue;
    for (size_t k = 0; k < i; k++)
      if (!strcmp(function->dims[k].name, found->name)) return k;
    return i;
  }
  return SIZE_MAX;
}

/* Compares a size with others of its name; within a trace some are not known.
 */
static nabla_status check_named(nabla_function_arguments *call, size_t index,
                                const char *leaf, uint32_t d, int64_t size,
                                nabla_diag *diag) {
  int64_t *sizes = (int64_t *)(void *)call->named.data;
  if (sizes[index] == NO_SIZE) sizes[index] = size;
  if (nabla_size_join(call->scope, sizes[index], size, &sizes[index]))
    return NABLA_OK;
  if (size < 0)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "the function %s: '%s' is '%s' in dimension %" PRIu32
                      " of '%s', '%s' before",
                      call->function->options.name,
                      call->function->dims[index].name,
                      nabla_trace_size_name(call->scope->trace, size), d, leaf,
                      nabla_trace_size_name(call->scope->trace, sizes[index]));
  return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                    "the function %s: '%s' is %" PRId64 " in dimension %" PRIu32
                    " of '%s', %" PRId64 " before",
                    call->function->options.name,
                    call->function->dims[index].name, size, d, leaf,
                    sizes[index]);
}

static nabla_status add_leaf(void *self, const char *name, nabla_array **place,
                             nabla_diag *diag) {
  nabla_function_arguments *call = self;
  const nabla_array *array = *place;
  if (!array) {
    if (nabla_scope_status(call->scope, diag)) return call->scope->failure.code;
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "the function %s: argument %zu is NULL",
                      call->function->options.name, call->count);
  }
  if (nabla_array_is_released(array))
    return nabla_fail(
        diag, NABLA_INVALID_ARGUMENT, "the function %s: argument %zu: %s",
        call->function->options.name, call->count, NABLA_USE_AFTER_RELEASE);
  /* A packed type is told by its text: a key holds in every process. */
  const nabla_dtype dtype = array->dense.dtype;
  const bool is_packed = nabla_dtype_is_packed(dtype);
  const uint32_t head[3] = {is_packed ? UINT32_MAX : (uint32_t)dtype,
                            array->dense.rank, array->is_weak};
  call->count++;
  NABLA_TRY(nabla_buffer_append(&call->key, head, sizeof head, diag));
  if (is_packed) {
    const char *text = nabla_packed_text(dtype);
    NABLA_TRY(nabla_buffer_append(&call->key, text, strlen(text) + 1, diag));
  }
  NABLA_TRY(nabla_buffer_append(&call->leaves_memory, &array,
                                sizeof(nabla_array *), diag));
  for (uint32_t d = 0; d < array->dense.rank; d++) {
    int64_t size = array->dense.shape[d];
    const size_t named = call->function->options.dim_count
                             ? find_dim(call->function, name, d)
                             : SIZE_MAX;
    if (named != SIZE_MAX) {
      NABLA_TRY(check_named(call, named, name, d, size, diag));
      size = -1 - (int64_t)named;
    }
    NABLA_TRY(nabla_buffer_append(&call->dims, &size, sizeof size, diag));
  }
  return NABLA_OK;
}

static nabla_status count_result(void *self, const char *name,
                                 nabla_array **place, nabla_diag *diag) {
  (void)name, (void)place, (void)diag;
  nabla_function_arguments *call = self;
  call->result_count++;
  return NABLA_OK;
}

nabla_status nabla_function_read(nabla_function_arguments *call,
                                 nabla_diag *diag) {
  const nabla_function *function = call->function;
  const nabla_allocator *allocator = function->allocator;
  const int64_t unknown = NO_SIZE;
  nabla_buffer_init(&call->leaves_memory, allocator, "arguments", SIZE_MAX / 2);
  nabla_buffer_init(&call->key, allocator, "arguments", SIZE_MAX / 2);
  nabla_buffer_init(&call->dims, allocator, "arguments", SIZE_MAX / 2);
  nabla_buffer_init(&call->named, allocator, "arguments", SIZE_MAX / 2);
  for (size_t i = 0; i < function->options.dim_count; i++)
    NABLA_TRY(
        nabla_buffer_append(&call->named, &unknown, sizeof unknown, diag));
  nabla_tree_walk walk = {.self = call,
                          .leaf = add_leaf,
                          .structure = &call->key,
                          .has_names = function->options.dim_count != 0};
  NABLA_TRY(nabla_tree_walk_run(&walk, call->arguments, diag));
  if (walk.has_open)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "the function %s: an argument is an open place",
                      function->options.name);
  call->arguments_size = call->key.size;
  call->leaves = (nabla_array **)(void *)call->leaves_memory.data;
  walk.leaf = count_result;
  walk.has_names = false;
  NABLA_TRY(nabla_tree_walk_run(&walk, call->results, diag));
  call->has_open = walk.has_open;
  if (!call->dims.size) return NABLA_OK;
  return nabla_buffer_append(&call->key, call->dims.data, call->dims.size,
                             diag);
}

void nabla_function_unread(nabla_function_arguments *call) {
  nabla_buffer_deinit(&call->leaves_memory);
  nabla_buffer_deinit(&call->key);
  nabla_buffer_deinit(&call->dims);
  nabla_buffer_deinit(&call->named);
}

/* ---- runs ---- */

/* Inputs, outputs and arrays of a run, on the stack if they are few. */
typedef struct run {
  const nabla_function_arguments *call;
  const nabla_traced *traced;
  nabla_dense *inputs, *outputs;
  nabla_array **results;
  size_t input_count;
} run;

/* The type of a result. */
static void set_type(const run *r, size_t index, nabla_dense *out) {
  const nabla_traced_result *result = &r->traced->results[index];
  *out = result->type;
  for (uint32_t d = 0; d < out->rank; d++)
    if (out->shape[d] < 0 && result->sizes[d].leaf != UINT32_MAX)
      out->shape[d] = r->call->leaves[result->sizes[d].leaf]
                          ->dense.shape[result->sizes[d].dim];
}

/* Whether nothing but the user and its scope need the memory of an argument. */
static bool can_take(const run *r, uint32_t donor) {
  const nabla_array *array = r->call->leaves[donor];
  if (array->is_donated) return false;
  for (size_t i = 0; i < r->call->count; i++)
    if (i != donor && r->call->leaves[i] == array) return false;
  return array->references <= array->users + (array->scope ? 1u : 0u);
}

/* Arguments, then captures. */
static nabla_array *input_at(const run *r, size_t index) {
  return index < r->call->count ? r->call->leaves[index]
                                : r->traced->captures[index - r->call->count];
}

/* Gives a result the memory of its donor, or a copy, as the input too. */
static nabla_status take_memory(run *r, uint32_t donor, nabla_array *result,
                                nabla_diag *diag) {
  nabla_array *from = r->call->leaves[donor];
  const size_t bytes = nabla_dtype_bytes(&from->dense);
  if (from->owned && can_take(r, donor)) {
    result->owned = from->owned;
    result->owned_bytes = from->owned_bytes;
    result->dense.data = from->dense.data;
    from->owned = from->dense.data = NULL;
    from->owned_bytes = 0;
    from->is_donated = true;
  } else {
    nabla_dense whole;
    NABLA_TRY(nabla_array_whole(from, &whole, diag));
    NABLA_TRY(nabla_array_allocate(result, diag));
    if (bytes) memcpy(result->dense.data, whole.data, bytes);
  }
  r->inputs[donor].data = result->dense.data;
  return NABLA_OK;
}

static nabla_status prepare(run *r, nabla_diag *diag) {
  const bool is_divided = nabla_program_is_divided(r->traced->program);
  for (size_t i = 0; i < r->input_count && !is_divided; i++)
    NABLA_TRY(nabla_array_whole(input_at(r, i), &r->inputs[i], diag));
  for (size_t i = 0; i < r->traced->result_count; i++) {
    nabla_array *array = nabla_array_new(r->call->scope);
    if (!array) return nabla_scope_status(r->call->scope, diag);
    r->results[i] = array;
    set_type(r, i, &array->dense);
    NABLA_TRY(nabla_packed_prepare(array, diag));
    const uint32_t donor = r->traced->results[i].donor;
    if (donor != UINT32_MAX && !is_divided)
      NABLA_TRY(take_memory(r, donor, array, diag));
    else if (!r->traced->results[i].is_open && !array->packed && !is_divided)
      NABLA_TRY(nabla_array_allocate(array, diag));
    r->outputs[i] = array->dense;
  }
  return NABLA_OK;
}

/* Copies results whose sizes only the program knew. */
static nabla_status take_open(run *r, nabla_executable *executable,
                              nabla_status status, nabla_diag *diag) {
  for (size_t i = 0; i < r->traced->result_count; i++) {
    nabla_array *array = r->results[i];
    if (!r->traced->results[i].is_open) continue;
    if (!status) status = nabla_array_copy(array, &r->outputs[i], diag);
    nabla_dense_release(executable, &r->outputs[i]);
  }
  return status;
}

static bool has_packed(const run *r) {
  return nabla_packed_among(r->call->count, r->call->leaves) ||
         nabla_packed_among(r->traced->capture_count, r->traced->captures) ||
         nabla_packed_among(r->traced->result_count, r->results);
}

/* Runs a program that takes or gives packed arrays. */
static nabla_status run_packed(const run *r, nabla_array **inputs,
                               nabla_diag *diag) {
  for (size_t i = 0; i < r->traced->result_count; i++) {
    const uint32_t donor = r->traced->results[i].donor;
    if (donor != UINT32_MAX) inputs[donor] = r->results[i]; /* has its memory */
  }
  return nabla_packed_run(r->traced->program, r->input_count, inputs,
                          r->traced->result_count, r->results, diag);
}

/* Runs a program that is divided over a mesh. */
static nabla_status run_divided(const run *r, nabla_array **inputs,
                                nabla_diag *diag) {
  void *memory;
  const size_t count = r->traced->result_count;
  const nabla_allocator *allocator = r->call->function->allocator;
  NABLA_TRY(nabla_alloc(allocator, count, sizeof(uint32_t), &memory, diag));
  uint32_t *donors = memory;
  for (size_t i = 0; i < count; i++) {
    const uint32_t donor = r->traced->results[i].donor;
    donors[i] = donor != UINT32_MAX && can_take(r, donor) ? donor : UINT32_MAX;
  }
  const nabla_status status =
      nabla_divided_run(r->traced->program, r->input_count, inputs, count,
                        r->results, donors, diag);
  nabla_free(allocator, donors, count, sizeof(uint32_t));
  return status;
}

static nabla_status run_arrays(const run *r, nabla_diag *diag) {
  void *memory;
  const nabla_allocator *allocator = r->call->function->allocator;
  NABLA_TRY(nabla_alloc(allocator, r->input_count, sizeof(nabla_array *),
                        &memory, diag));
  nabla_array **inputs = memory;
  for (size_t i = 0; i < r->input_count; i++) inputs[i] = input_at(r, i);
  const nabla_status status = nabla_program_is_divided(r->traced->program)
                                  ? run_divided(r, inputs, diag)
                                  : run_packed(r, inputs, diag);
  nabla_free(allocator, inputs, r->input_count, sizeof(nabla_array *));
  return status;
}

static nabla_status run_program(run *r, nabla_diag *diag) {
  nabla_executable *executable = nabla_program_executable(r->traced->program);
  nabla_status status = prepare(r, diag);
  if (!status &&
      (has_packed(r) || nabla_program_is_divided(r->traced->program))) {
    status = run_arrays(r, diag);
  } else if (!status) {
    status = nabla_executable_run(executable, "main", r->inputs, r->input_count,
                                  r->outputs, r->traced->result_count, diag);
    status = take_open(r, executable, status, diag);
  }
  if (!status && r->traced->result_count)
    status = nabla_tree_unflatten(r->call->results, r->traced->result_count,
                                  r->results, diag);
  for (size_t i = 0; i < r->traced->result_count && status; i++)
    if (r->results[i]) nabla_array_leave(r->results[i]);
  return status;
}

static nabla_status run_traced(const nabla_function_arguments *call,
                               const nabla_traced *traced, nabla_diag *diag) {
  nabla_dense dense[STACK_ARRAYS];
  nabla_array *arrays[STACK_ARRAYS] = {NULL};
  void *more_dense = NULL, *more_arrays = NULL;
  const nabla_allocator *allocator = call->function->allocator;
  run r = {.call = call,
           .traced = traced,
           .inputs = dense,
           .results = arrays,
           .input_count = call->count + traced->capture_count};
  const size_t count = r.input_count + traced->result_count;
  nabla_status status = NABLA_OK;
  if (count > STACK_ARRAYS) {
    NABLA_TRY(nabla_alloc_raw(allocator, count, sizeof(nabla_dense),
                              &more_dense, diag));
    status = nabla_alloc(allocator, count, sizeof(nabla_array *), &more_arrays,
                         diag);
    r.inputs = more_dense;
    r.results = more_arrays;
  }
  r.outputs = r.inputs + r.input_count;
  if (!status) status = run_program(&r, diag);
  nabla_free(allocator, more_dense, count, sizeof(nabla_dense));
  nabla_free(allocator, more_arrays, count, sizeof(nabla_array *));
  return status;
}

static nabla_status realize_arguments(const nabla_function_arguments *call,
                                      nabla_diag *diag) {
  for (size_t i = 0; i < call->count; i++) {
    const nabla_array *array = call->leaves[i];
    if (array->node || !array->dense.data)
      return nabla_realize(call->scope, call->count, call->leaves, diag);
  }
  return NABLA_OK;
}

static nabla_status call_function(nabla_function_arguments *call,
                                  nabla_diag *diag) {
  nabla_traced *traced;
  NABLA_TRY(nabla_function_read(call, diag));
  NABLA_TRY(realize_arguments(call, diag));
  NABLA_TRY(nabla_function_take(call, &traced, diag));
  const nabla_status status = run_traced(call, traced, diag);
  nabla_function_give(call->function, traced);
  return status;
}

/* ---- within a trace ---- */

static nabla_status call_back(nabla_function *function, nabla_scope *scope,
                              const nabla_tree *arguments, nabla_tree *results,
                              nabla_diag *diag) {
  static _Thread_local unsigned depth;
  if (depth == NABLA_TRACE_MAX_DEPTH)
    return nabla_fail(diag, NABLA_TOO_LARGE,
                      "%s: functions call one another more than %d deep while "
                      "they are traced",
                      function->options.name, NABLA_TRACE_MAX_DEPTH);
  depth++;
  function->callback(scope, arguments, results, function->options.self);
  depth--;
  return nabla_scope_status(scope, diag);
}

nabla_status nabla_function_call(nabla_function *function,
                                 const nabla_tree *arguments,
                                 nabla_tree *results, nabla_diag *diag) {
  NABLA_REQUIRE(function, diag);
  NABLA_REQUIRE(arguments, diag);
  NABLA_REQUIRE(results, diag);
  nabla_diag own = NABLA_DIAG_INIT;
  nabla_scope *scope = nabla_scope_innermost();
  if (!scope || scope->engine != function->engine)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "the function %s: this thread is in no scope of its "
                      "engine",
                      function->options.name);
  nabla_function_arguments call = {.function = function,
                                   .scope = scope,
                                   .arguments = arguments,
                                   .results = results};
  nabla_status status;
  if (scope->trace) {
    status = call_back(function, scope, arguments, results, &own);
  } else if (function->options.state_count) {
    status = nabla_fail(&own, NABLA_INVALID_ARGUMENT,
                        "the function %s has states: nabla_function_session "
                        "makes a session that runs it",
                        function->options.name);
  } else {
    status = call_function(&call, &own);
    nabla_function_unread(&call);
  }
  if (status) nabla_scope_fail(scope, &own, __builtin_return_address(0));
  if (status && diag) *diag = own;
  return status;
}
