/* Counts the cost of operations by the formulas of dialect/costs.def. */
#ifndef NABLA_TRANSFORMS_COST_COST_COUNT_H
#define NABLA_TRANSFORMS_COST_COST_COUNT_H

#include <stdint.h>

#include "transforms/ir/ir.h"

/* Counts saturate at UINT64_MAX. */
typedef struct nabla_cost {
  uint64_t count, operations, read, written; /* the last two in bytes */
} nabla_cost;

uint64_t nabla_cost_add(uint64_t a, uint64_t b);
uint64_t nabla_cost_times(uint64_t a, uint64_t b);

/* Counts one execution of `op`, for which nabla_op_find() must return a row. A
 * size that is not known counts as `unknown`. Returns false after an error if a
 * formula has a symbol that costs.def does not explain. */
bool nabla_cost_of(MlirOperation op, uint64_t unknown, nabla_cost *out);

/* Bytes of an array, of a packed one those of its components; 0 of others. */
uint64_t nabla_cost_array_bytes(MlirType type, uint64_t unknown);

/* Returns how often the body of a scan runs; `unknown` if this is not known. */
uint64_t nabla_cost_rounds(MlirOperation scan, uint64_t unknown);

#endif
