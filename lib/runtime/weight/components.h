/* The components that follow from the layout of a weight, in the order in which
 * descriptions list them and compiled code takes them. */
#ifndef NABLA_RUNTIME_WEIGHT_COMPONENTS_H
#define NABLA_RUNTIME_WEIGHT_COMPONENTS_H

#include "nabla/weight.h"

typedef struct nabla_component_slot {
  const char *name; /* "codes", "scales.map"; static text */
  nabla_dtype dtype;
  uint32_t rank; /* as an argument of code: 1, or 0 of a single number */
  uint32_t alignment;
  uint64_t count, bytes;
} nabla_component_slot;

typedef struct nabla_component_slots {
  uint32_t count;
  nabla_component_slot at[NABLA_WEIGHT_MAX_COMPONENTS];
} nabla_component_slots;

/* Lists those of `elements` elements.
 * @param dtype  of the values: read for DENSE alone
 * @return as nabla_weight_components */
NABLA_MUST_USE nabla_status nabla_storage_components(
    const nabla_storage *layout, nabla_dtype dtype, uint64_t elements,
    nabla_component_slots *out, nabla_diag *diag);

#endif
