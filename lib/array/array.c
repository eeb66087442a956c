/* Arrays: references, leaves, the memory of values. */
#include <string.h>

#include "lib/array/dtypes.h"
#include "lib/array/engine.h"
#include "lib/array/graph.h"
#include "lib/array/packed.h"
#include "lib/array/shards.h"
#include "lib/array/watch.h"
#include "lib/base/checked.h"
#include "lib/base/require.h"

#define ALIGNMENT ((size_t)64) /* of results: they are computed in place */

static void link_array(nabla_array *array, nabla_scope *scope) {
  array->scope = scope;
  array->following = scope->arrays;
  if (scope->arrays) scope->arrays->previous = array;
  scope->arrays = array;
}

nabla_array *nabla_array_new(nabla_scope *scope) {
  void *memory;
  nabla_diag diag = NABLA_DIAG_INIT;
  const nabla_allocator *allocator = nabla_engine_allocator(scope->engine);
  if (nabla_alloc(allocator, 1, sizeof(nabla_array), &memory, &diag)) {
    nabla_scope_fail(scope, &diag, NULL);
    return NULL;
  }
  nabla_array *array = memory;
  atomic_init(&array->references, 1); /* the scope's */
  array->allocator = allocator;
  array->watch = nabla_watch_hold(nabla_engine_watch(scope->engine));
  link_array(array, scope);
  return array;
}

nabla_status nabla_array_allocate(nabla_array *array, nabla_diag *diag) {
  size_t bytes = nabla_dtype_bits(array->dense.dtype) / 8;
  bool fits = true;
  for (uint32_t i = 0; i < array->dense.rank; i++) /* of a run: any size */
    fits = fits && nabla_mul_size(bytes, (size_t)array->dense.shape[i], &bytes);
  if (!fits || !nabla_add_size(bytes, ALIGNMENT, &bytes))
    return nabla_fail(diag, NABLA_TOO_LARGE, "the sizes of an array overflow");
  NABLA_TRY(nabla_alloc_raw(array->allocator, 1, bytes, &array->owned, diag));
  array->owned_bytes = bytes;
  const size_t past = (uintptr_t)array->owned % ALIGNMENT;
  array->dense.data = (char *)array->owned + (past ? ALIGNMENT - past : 0);
  return NABLA_OK;
}

nabla_status nabla_array_copy(nabla_array *array, const nabla_dense *from,
                              nabla_diag *diag) {
  array->dense = *from;
  array->dense.data = NULL;
  NABLA_TRY(nabla_array_allocate(array, diag));
  const size_t bytes = nabla_dtype_bytes(from);
  if (bytes) memcpy(array->dense.data, from->data, bytes);
  return NABLA_OK;
}

const nabla_dense *nabla_array_dense(const nabla_array *array) {
  if (!array) return NULL;
  if (array->shards) return &array->shards->shown;
  return array->packed ? &array->packed->shown : &array->dense;
}

/* ---- references ---- */

void nabla_array_hold(nabla_array *array) {
  atomic_fetch_add_explicit(&array->references, 1, memory_order_relaxed);
}

static void unlink_array(nabla_array *array) {
  nabla_scope *scope = array->scope;
  if (array->previous) array->previous->following = array->following;
  if (array->following) array->following->previous = array->previous;
  if (scope->arrays == array) scope->arrays = array->following;
  array->previous = array->following = NULL;
  array->scope = NULL;
}

/* Takes away a reference. If the one left is that of the scope, and the user
 * has given it up, it goes too. An array without references is added to the
 * list `dead`, linked by `following`: freeing it may free operands of its node,
 * which must not take a stack as deep as the graph. */
static void take_reference(nabla_array *array, nabla_array **dead) {
  /* While the scope of another thread holds it, that thread may free it as soon
   * as the reference is gone. */
  nabla_scope *scope = array->scope;
  const bool is_here = scope && nabla_scope_is_open(scope);
  unsigned left =
      atomic_fetch_sub_explicit(&array->references, 1, memory_order_acq_rel) -
      1;
  if (left == 1 && is_here && array->abandoned) {
    unlink_array(array);
    left = 0;
  }
  if (left) return;
  array->following = *dead;
  *dead = array;
}

static void detach(nabla_array *array, nabla_array **dead) {
  nabla_node *node = array->node;
  array->node = NULL;
  node->results[array->index] = NULL;
  if (--node->live) return;
  for (uint32_t i = 0; i < node->operand_count; i++)
    take_reference(node->operands[i], dead);
  nabla_recorder_count(node->recorder, -1);
  nabla_free(array->allocator, node, 1, nabla_node_bytes(node->recorded));
}

static void free_all(nabla_array *dead) {
  while (dead) {
    nabla_array *array = dead;
    dead = array->following;
    array->following = NULL;
    if (array->node) detach(array, &dead);
    nabla_packed_free(array);
    nabla_shards_free(array);
    if (array->finish) array->finish(array->finish_self);
    nabla_free(array->allocator, array->owned, 1, array->owned_bytes);
    nabla_watch_free(array);
  }
}

void nabla_array_drop(nabla_array *array) {
  nabla_array *dead = NULL;
  take_reference(array, &dead);
  free_all(dead);
}

void nabla_array_detach(nabla_array *array) {
  nabla_array *dead = NULL;
  detach(array, &dead);
  free_all(dead);
}

void nabla_array_leave(nabla_array *array) {
  unlink_array(array);
  nabla_array_drop(array);
}

void nabla_array_move(nabla_array *array, nabla_scope *scope) {
  unlink_array(array);
  link_array(array, scope);
}

/* Whether an array may not be used; enters the failure of `function` in the
 * innermost scope. */
static bool refuse_released(const nabla_array *array, const char *function,
                            const void *place) {
  nabla_diag diag = NABLA_DIAG_INIT;
  if (!nabla_array_is_released(array)) return false;
  (void)!nabla_fail(&diag, NABLA_INVALID_ARGUMENT, "%s: %s", function,
                    NABLA_USE_AFTER_RELEASE);
  nabla_scope_fail(nabla_scope_innermost(), &diag, place);
  return true;
}

nabla_array *nabla_retain(nabla_array *array) {
  if (!array || array == nabla_none()) return array;
  if (refuse_released(array, "nabla_retain", __builtin_return_address(0)))
    return NULL;
  atomic_fetch_add_explicit(&array->users, 1, memory_order_relaxed);
  nabla_array_hold(array);
  return array;
}

void nabla_release(nabla_array *array) {
  if (!array || array == nabla_none() ||
      refuse_released(array, "nabla_release", __builtin_return_address(0)))
    return;
  unsigned users = array->users;
  while (users &&
         !atomic_compare_exchange_weak(&array->users, &users, users - 1)) {
  }
  if (users) {
    nabla_array_drop(array);
    return;
  }
  /* read first: the thread of the scope may free an array that is abandoned */
  nabla_scope *scope = array->scope;
  array->abandoned = true;
  if (scope && nabla_scope_is_open(scope) && array->references == 1)
    nabla_array_leave(array);
}

nabla_array *nabla_keep(nabla_array *array, nabla_scope *outer) {
  if (!array || !outer ||
      refuse_released(array, "nabla_keep", __builtin_return_address(0)))
    return NULL;
  nabla_scope *inner = array->scope;
  const nabla_scope *around = inner;
  while (around && around != outer) around = around->parent;
  if (!around || !nabla_scope_is_open(inner) || outer->trace != inner->trace) {
    nabla_diag diag = NABLA_DIAG_INIT;
    (void)!nabla_fail(&diag, NABLA_INVALID_ARGUMENT,
                      "nabla_keep: the scope is not around that of the array%s",
                      around ? " within the trace" : "");
    nabla_scope_fail(outer, &diag, __builtin_return_address(0));
    return NULL;
  }
  nabla_array_move(array, outer);
  return array;
}

/* ---- absent operands ---- */

static nabla_array absent;

nabla_array *nabla_none(void) { return &absent; }

bool nabla_is_none(const nabla_array *array) { return array == &absent; }

/* ---- leaves ---- */

static nabla_status check(const nabla_dense *value, nabla_diag *diag) {
  size_t bytes = 8;
  bool is_empty = false;
  if (!nabla_dtype_is_known(value->dtype))
    return nabla_fail(diag, NABLA_UNSUPPORTED,
                      "programs have no arrays of dtype %s",
                      nabla_dtype_name(value->dtype));
  if (value->rank > NABLA_ARRAY_MAX_RANK)
    return nabla_fail(diag, NABLA_TOO_LARGE, "rank %u; at most %d", value->rank,
                      NABLA_ARRAY_MAX_RANK);
  for (uint32_t i = 0; i < value->rank; i++) {
    if (value->shape[i] < 0)
      return nabla_fail(diag, NABLA_INVALID_ARGUMENT, "dimension %u is %lld", i,
                        (long long)value->shape[i]);
    is_empty = is_empty || !value->shape[i];
    if (!is_empty && (!nabla_mul_size(bytes, (size_t)value->shape[i], &bytes) ||
                      bytes > SIZE_MAX / 4))
      return nabla_fail(diag, NABLA_TOO_LARGE, "the sizes overflow");
  }
  if (!value->data && !is_empty)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT, "the data is NULL");
  return NABLA_OK;
}

/* Fills a new leaf. */
static nabla_status fill(nabla_array *array, const nabla_dense *value,
                         bool is_copied, nabla_diag *diag) {
  array->dense = *value;
  if (!is_copied) return NABLA_OK;
  NABLA_TRY(nabla_array_allocate(array, diag));
  if (value->data)
    memcpy(array->dense.data, value->data, nabla_dtype_bytes(value));
  return NABLA_OK;
}

nabla_array *nabla_array_leaf(nabla_scope *scope, const nabla_dense *value,
                              bool is_copied, const char *function,
                              const void *place) {
  nabla_diag diag = NABLA_DIAG_INIT;
  if (!scope) return NULL;
  if (!value || !nabla_scope_is_open(scope)) {
    (void)!nabla_fail(&diag, NABLA_INVALID_ARGUMENT, "%s: %s", function,
                      value ? "the scope is not of this thread"
                            : "the argument value is NULL");
    nabla_scope_fail(scope, &diag, place);
    return NULL;
  }
  if (check(value, &diag)) {
    nabla_scope_fail(scope, &diag, place);
    return NULL;
  }
  nabla_array *array = nabla_array_new(scope);
  if (!array || !fill(array, value, is_copied, &diag)) return array;
  nabla_scope_fail(scope, &diag, place);
  nabla_array_leave(array);
  return NULL;
}

nabla_array *nabla_array_of(nabla_scope *scope, const nabla_dense *value) {
  return nabla_array_leaf(scope, value, true, "nabla_array_of",
                          __builtin_return_address(0));
}

nabla_array *nabla_array_borrow(nabla_scope *scope, const nabla_dense *value) {
  return nabla_array_leaf(scope, value, false, "nabla_array_borrow",
                          __builtin_return_address(0));
}

nabla_array *nabla_scalar(nabla_scope *scope, double value) {
  const nabla_dense dense = {.data = &value, .dtype = NABLA_DTYPE_F64};
  nabla_array *array = nabla_array_leaf(scope, &dense, true, "nabla_scalar",
                                        __builtin_return_address(0));
  if (array) array->is_weak = true;
  return array;
}

nabla_array *nabla_integer(nabla_scope *scope, int64_t value) {
  const nabla_dense dense = {.data = &value, .dtype = NABLA_DTYPE_I64};
  nabla_array *array = nabla_array_leaf(scope, &dense, true, "nabla_integer",
                                        __builtin_return_address(0));
  if (array) array->is_weak = true;
  return array;
}
