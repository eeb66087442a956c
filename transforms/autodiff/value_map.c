/* See value_map.h: a hash table with open addresses. */
#include "transforms/autodiff/value_map.h"

#include <stdint.h>
#include <stdlib.h>

void nabla_value_map_deinit(nabla_value_map *map) {
  free(map->slots);
  *map = (nabla_value_map){0};
}

/* Hashes the middle bits of an address, in which addresses differ. */
static size_t hash(MlirValue key) {
  const uint64_t mixed = (uint64_t)(uintptr_t)key.ptr * 0x9e3779b97f4a7c15u;
  return (size_t)(mixed >> 20);
}

/* The slot of a key, or the empty one where it belongs. */
static size_t find(const nabla_value_map *map, MlirValue key) {
  size_t at = hash(key) & (map->capacity - 1);
  while (!mlirValueIsNull(map->slots[at].key) &&
         !mlirValueEqual(map->slots[at].key, key))
    at = (at + 1) & (map->capacity - 1);
  return at;
}

static bool grow(nabla_value_map *map) {
  nabla_value_map old = *map;
  map->capacity = old.capacity ? 2 * old.capacity : 64;
  map->slots = calloc(map->capacity, sizeof *map->slots);
  if (!map->slots) {
    *map = old;
    map->failed = true;
    return false;
  }
  for (size_t i = 0; i < old.capacity; i++)
    if (!mlirValueIsNull(old.slots[i].key))
      map->slots[find(map, old.slots[i].key)] = old.slots[i];
  free(old.slots);
  return true;
}

void nabla_value_map_set(nabla_value_map *map, MlirValue key, MlirValue value) {
  if (2 * map->count >= map->capacity && !grow(map)) return;
  const size_t at = find(map, key);
  if (mlirValueIsNull(map->slots[at].key)) map->count++;
  map->slots[at].key = key;
  map->slots[at].value = value;
}

MlirValue nabla_value_map_get(const nabla_value_map *map, MlirValue key) {
  if (!map->capacity) return (MlirValue){NULL};
  return map->slots[find(map, key)].value;
}

bool nabla_value_map_has(const nabla_value_map *map, MlirValue key) {
  return map->capacity && !mlirValueIsNull(map->slots[find(map, key)].key);
}
