/* Realizing arrays: walks the nodes that are needed, finds their program, runs
 * it. */
#include <inttypes.h>
#include <string.h>

#include "lib/array/divided.h"
#include "lib/array/dtypes.h"
#include "lib/array/emit.h"
#include "lib/array/engine.h"
#include "lib/array/graph.h"
#include "lib/array/packed.h"
#include "lib/array/shards.h"
#include "lib/array/trace.h"
#include "lib/array/walk.h"
#include "lib/array/watch.h"
#include "lib/base/require.h"
#include "nabla/shard.h"

/* Runs `program` with new memory for the results. */
static nabla_status run(const nabla_walk *walk, nabla_program *program,
                        nabla_diag *diag) {
  if (nabla_program_is_divided(program))
    return nabla_divided_run(program, walk->leaf_count, walk->leaves,
                             walk->result_count, walk->results, NULL, diag);
  const nabla_allocator *allocator = walk->allocator;
  const size_t count = walk->leaf_count + walk->result_count;
  void *memory = NULL;
  NABLA_TRY(nabla_alloc(allocator, count, sizeof(nabla_dense), &memory, diag));
  nabla_dense *inputs = memory, *outputs = inputs + walk->leaf_count;
  nabla_status status = NABLA_OK;
  for (size_t i = 0; i < walk->leaf_count && !status; i++)
    status = nabla_array_whole(walk->leaves[i], &inputs[i], diag);
  for (size_t i = 0; i < walk->result_count && !status; i++) {
    if (!walk->results[i]->packed)
      status = nabla_array_allocate(walk->results[i], diag);
    outputs[i] = walk->results[i]->dense;
  }
  if (!status && (nabla_packed_among(walk->leaf_count, walk->leaves) ||
                  nabla_packed_among(walk->result_count, walk->results)))
    status = nabla_packed_run(program, walk->leaf_count, walk->leaves,
                              walk->result_count, walk->results, diag);
  else if (!status)
    status = nabla_executable_run(nabla_program_executable(program), "main",
                                  inputs, walk->leaf_count, outputs,
                                  walk->result_count, diag);
  nabla_free(allocator, memory, count, sizeof(nabla_dense));
  return status;
}

/* Makes results leaves. One may have been held only by the node of another. */
static void finish(const nabla_walk *walk) {
  for (size_t i = 0; i < walk->result_count; i++)
    nabla_array_hold(walk->results[i]);
  for (size_t i = 0; i < walk->result_count; i++)
    nabla_array_detach(walk->results[i]);
  for (size_t i = 0; i < walk->result_count; i++)
    nabla_array_drop(walk->results[i]);
}

/* Takes back the memory of results after a failure. */
static void undo(const nabla_walk *walk) {
  for (size_t i = 0; i < walk->result_count; i++) {
    nabla_array *array = walk->results[i];
    nabla_packed_forget(array);
    nabla_shards_free(array);
    nabla_free(array->allocator, array->owned, 1, array->owned_bytes);
    array->owned = array->dense.data = NULL;
    array->owned_bytes = 0;
  }
}

static nabla_status realize(nabla_scope *scope, nabla_walk *walk,
                            nabla_diag *diag) {
  nabla_program *program;
  nabla_emitted_program emitted = {.walk = walk};
  const nabla_program_writer writer = {
      nabla_program_emit, &emitted, (nabla_array_policy)scope->policy, false};
  NABLA_TRY(
      nabla_engine_take(scope->engine, &walk->key, &writer, &program, diag));
  const nabla_status status = run(walk, program, diag);
  nabla_engine_give(scope->engine, program);
  if (status)
    undo(walk);
  else
    finish(walk);
  return status;
}

/* Whether an array of a call may be realized in `scope`. */
static nabla_status check(nabla_scope *scope, const nabla_array *array,
                          nabla_diag *diag) {
  if (!array) {
    if (nabla_scope_status(scope, diag)) return scope->failure.code;
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "nabla_realize: an array is NULL");
  }
  const char *why = nabla_array_objection(array);
  return why ? nabla_fail(diag, NABLA_INVALID_ARGUMENT, "nabla_realize: %s",
                          why)
             : NABLA_OK;
}

static nabla_status realize_all(nabla_scope *scope, size_t count,
                                nabla_array *const *arrays, nabla_diag *diag) {
  nabla_walk walk;
  if (scope->trace)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "%s is being traced: its values are not known, and "
                      "cannot be read",
                      scope->trace->root->what);
  for (size_t i = 0; i < count; i++) NABLA_TRY(check(scope, arrays[i], diag));
  nabla_walk_init(&walk, scope);
  nabla_status status = nabla_walk_from(&walk, count, arrays, diag);
  if (!status && walk.result_count) status = realize(scope, &walk, diag);
  nabla_walk_deinit(&walk);
  return status;
}

nabla_status nabla_realize(nabla_scope *scope, size_t count,
                           nabla_array *const *arrays, nabla_diag *diag) {
  NABLA_REQUIRE(scope, diag);
  if (count) NABLA_REQUIRE(arrays, diag);
  nabla_diag own = NABLA_DIAG_INIT;
  if (!nabla_scope_is_open(scope))
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "nabla_realize: the scope is not of this thread");
  const nabla_status status = realize_all(scope, count, arrays, &own);
  if (status) nabla_scope_fail(scope, &own, __builtin_return_address(0));
  if (status && diag) *diag = own;
  return status;
}

/* Realizes an array that is to be read by the public `function`. */
static nabla_status provide(nabla_array *array, const char *function,
                            nabla_diag *diag) {
  nabla_scope *scope = nabla_scope_innermost();
  if (!array) {
    if (nabla_scope_status(scope, diag)) return scope->failure.code;
    NABLA_REQUIRE(array, diag);
  }
  if (nabla_array_is_released(array))
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT, "%s: %s", function,
                      NABLA_USE_AFTER_RELEASE);
  if (array->packed)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "%s: the array is packed: read what "
                      "nabla_materialize gives, or nabla_array_weight",
                      function);
  if (!array->node && array->dense.data) return NABLA_OK;
  if (!scope)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "%s: a pending array, and this thread has no scope",
                      function);
  return nabla_realize(scope, 1, &array, diag);
}

nabla_status nabla_array_read(nabla_array *array, nabla_dense *out,
                              nabla_diag *diag) {
  NABLA_REQUIRE(out, diag);
  NABLA_TRY(provide(array, "nabla_array_read", diag));
  return nabla_array_whole(array, out, diag);
}

nabla_status nabla_read_local(nabla_array *array, uint32_t rank,
                              nabla_dense *out, int64_t *out_start,
                              nabla_diag *diag) {
  NABLA_REQUIRE(out, diag);
  NABLA_TRY(provide(array, "nabla_read_local", diag));
  const nabla_shards *shards = array->shards;
  if (shards && (rank < shards->first || rank - shards->first >= shards->held))
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "nabla_read_local: this process has no device %" PRIu32
                      " of the array's mesh",
                      rank);
  *out =
      shards ? nabla_shards_piece(shards, rank - shards->first) : array->dense;
  for (uint32_t d = 0; out_start && d < out->rank; d++) out_start[d] = 0;
  if (shards && out_start) nabla_shards_start(shards, rank, out_start);
  return NABLA_OK;
}
