/* Maps from values to values: of a function to its clone, to tangents, to sums
 * of cotangents. */
#ifndef NABLA_TRANSFORMS_AUTODIFF_VALUE_MAP_H
#define NABLA_TRANSFORMS_AUTODIFF_VALUE_MAP_H

#include <mlir-c/IR.h>
#include <stdbool.h>
#include <stddef.h>

/* Zero-initialised is empty. After `failed`, out of memory, maps lack entries.
 * Entries stay when a value is erased: passes erase at their end. */
typedef struct nabla_value_map {
  struct nabla_value_entry {
    MlirValue key, value;
  } *slots;
  size_t count, capacity;
  bool failed;
} nabla_value_map;

void nabla_value_map_deinit(nabla_value_map *map);
/* Adds an entry, or replaces it. */
void nabla_value_map_set(nabla_value_map *map, MlirValue key, MlirValue value);
/* Null where there is no entry. */
MlirValue nabla_value_map_get(const nabla_value_map *map, MlirValue key);
bool nabla_value_map_has(const nabla_value_map *map, MlirValue key);

#endif
