/* See values.h. */
#include "transforms/batching/values.h"

#include <stdint.h>
#include <stdlib.h>

enum { FIRST_CAPACITY = 64 };

void nabla_batch_values_deinit(nabla_batch_values *values) {
  free(values->slots);
  *values = (nabla_batch_values){0};
}

/* The slot of `key`, or the empty one where it belongs. */
static struct nabla_batch_entry *find(const nabla_batch_values *values,
                                      MlirValue key) {
  uint64_t hash = (uint64_t)(uintptr_t)key.ptr;
  hash = (hash ^ hash >> 31) * UINT64_C(0x9E3779B97F4A7C15);
  size_t at = (size_t)(hash >> 20) & (values->capacity - 1);
  while (values->slots[at].key.ptr &&
         !mlirValueEqual(values->slots[at].key, key))
    at = (at + 1) & (values->capacity - 1);
  return &values->slots[at];
}

/* Doubles the table when two thirds are full. */
static bool reserve(nabla_batch_values *values) {
  if (3 * (values->count + 1) <= 2 * values->capacity) return true;
  nabla_batch_values wider = {
      .capacity = values->capacity ? 2 * values->capacity : FIRST_CAPACITY};
  wider.slots = calloc(wider.capacity, sizeof *wider.slots);
  if (!wider.slots) return false;
  for (size_t i = 0; i < values->capacity; i++)
    if (values->slots[i].key.ptr)
      *find(&wider, values->slots[i].key) = values->slots[i];
  wider.count = values->count;
  free(values->slots);
  *values = wider;
  return true;
}

void nabla_batch_values_set(nabla_batch_values *values, MlirValue key,
                            nabla_batched to) {
  if (!reserve(values)) {
    values->failed = true;
    return;
  }
  struct nabla_batch_entry *slot = find(values, key);
  values->count += !slot->key.ptr;
  *slot = (struct nabla_batch_entry){key, to};
}

nabla_batched nabla_batch_values_get(const nabla_batch_values *values,
                                     MlirValue key) {
  if (values->count == 0) return (nabla_batched){{NULL}, false};
  const struct nabla_batch_entry *slot = find(values, key);
  return slot->key.ptr ? slot->to : (nabla_batched){{NULL}, false};
}
