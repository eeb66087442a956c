/* See partitioners.h: the list of partitioners. */
#include "transforms/shard/partitioners.h"

#include <mlir-c/BuiltinAttributes.h>
#include <pthread.h>
#include <string.h>

#include "lib/base/require.h"
#include "transforms/shard/rules.h"

#define MAX_TARGETS 256
#define MAX_BATCHES 8

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static nabla_partitioner added[MAX_TARGETS]; /* under `lock`; never removed */
static size_t added_count;

/* ---- adding ---- */

static nabla_status add(const nabla_partitioner *partitioner,
                        nabla_diag *diag) {
  const char *target = partitioner->target;
  if (!*target)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "a partitioner needs a target");
  nabla_status status = NABLA_OK;
  pthread_mutex_lock(&lock);
  for (size_t i = 0; i < added_count && !status; i++)
    if (!strcmp(added[i].target, target))
      status = nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                          "the target '%.60s' has a partitioner", target);
  if (!status && added_count == MAX_TARGETS)
    status = nabla_fail(diag, NABLA_TOO_LARGE,
                        "there are partitioners of %d targets", MAX_TARGETS);
  char *copy = status ? NULL : strdup(target);
  if (!status && !copy)
    status = nabla_fail(diag, NABLA_NO_MEMORY, "no memory for a partitioner");
  if (!status) {
    added[added_count] = *partitioner;
    added[added_count++].target = copy;
  }
  pthread_mutex_unlock(&lock);
  return status;
}

nabla_status nabla_add_call_partitioner(
    const char *target, const nabla_call_partitioner *partitioner,
    nabla_diag *diag) {
  NABLA_REQUIRE(target, diag);
  NABLA_REQUIRE(partitioner, diag);
  NABLA_REQUIRE_SIZE(partitioner, "a nabla_call_partitioner", diag);
  if (!partitioner->propagate && !partitioner->infer && !partitioner->partition)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "the partitioner of '%.60s' has no function", target);
  const nabla_partitioner made = {.target = target, .functions = *partitioner};
  return add(&made, diag);
}

nabla_status nabla_call_is_batch_partitionable(const char *target,
                                               uint32_t dims,
                                               nabla_diag *diag) {
  NABLA_REQUIRE(target, diag);
  if (!dims || dims > MAX_BATCHES)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "'%.60s': batches are the first 1 to %d dimensions",
                      target, MAX_BATCHES);
  const nabla_partitioner made = {.target = target, .batch_dims = dims};
  return add(&made, diag);
}

bool nabla_partitioners_are_used(void) {
  pthread_mutex_lock(&lock);
  const bool used = added_count > 0;
  pthread_mutex_unlock(&lock);
  return used;
}

static const nabla_partitioner *find(MlirStringRef name) {
  const nabla_partitioner *out = NULL;
  pthread_mutex_lock(&lock);
  for (size_t i = 0; i < added_count && !out; i++)
    if (strlen(added[i].target) == name.length &&
        !memcmp(added[i].target, name.data, name.length))
      out = &added[i];
  pthread_mutex_unlock(&lock);
  return out;
}

bool nabla_partitioner_is_added(const char *target) {
  return find(nabla_ref(target)) != NULL;
}

const nabla_partitioner *nabla_partitioner_of(MlirOperation op) {
  const intptr_t operands = mlirOperationGetNumOperands(op);
  const intptr_t results = mlirOperationGetNumResults(op);
  if (!nabla_is(op, "nabla.custom_call") ||
      !mlirAttributeIsNull(
          mlirOperationGetAttributeByName(op, nabla_ref(NABLA_FACTORS))) ||
      operands > NABLA_FACTOR_ARRAYS || results > NABLA_FACTOR_ARRAYS)
    return NULL;
  for (intptr_t i = 0; i < operands; i++)
    if (!nabla_layout_takes(nabla_operand_type(op, i))) return NULL;
  for (intptr_t i = 0; i < results; i++)
    if (!nabla_layout_takes(nabla_result_type(op, i))) return NULL;
  return find(mlirStringAttrGetValue(
      mlirOperationGetAttributeByName(op, nabla_ref("target"))));
}

bool nabla_partitioner_factors(MlirOperation op, nabla_factors *f) {
  const nabla_partitioner *it = nabla_partitioner_of(op);
  nabla_factor_array *first =
      it && it->batch_dims ? nabla_factor_array_of(f, true, 0) : NULL;
  if (!first || first->rank < (intptr_t)it->batch_dims) return false;
  for (intptr_t d = 0; d < (intptr_t)it->batch_dims; d++) {
    const int64_t size = nabla_factor_size_of(first, d);
    const uint8_t factor = nabla_factor_add(f, NABLA_FACTOR_PASS, size);
    if (factor == NABLA_MAX_FACTORS) return false;
    f->all[factor].is_even = true;
    for (uint32_t a = 0; a < f->array_count; a++) {
      nabla_factor_array *array = &f->arrays[a];
      if (!array->is_result && array->rank < first->rank) continue;
      if (array->rank <= d || nabla_factor_size_of(array, d) != size)
        return false;
      nabla_factor_give(array, d, factor);
    }
  }
  return true;
}
