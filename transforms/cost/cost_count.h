/* What operations cost, counted by the formulas of dialect/costs.def. */
#ifndef NABLA_TRANSFORMS_COST_COST_COUNT_H
#define NABLA_TRANSFORMS_COST_COST_COUNT_H

#include <stdint.h>

#include "transforms/ir/ir.h"

/* Counts stay at UINT64_MAX when they would pass it. */
typedef struct nabla_cost {
  uint64_t count, operations, read, written; /* the last two in bytes */
} nabla_cost;

uint64_t nabla_cost_add(uint64_t a, uint64_t b);
uint64_t nabla_cost_times(uint64_t a, uint64_t b);

/* The cost of `op`, of which nabla_op_find() knows the row, once. A size that
 * is not known counts as `unknown`. False, reported, when a formula has a
 * symbol that costs.def does not explain. */
bool nabla_cost_of(MlirOperation op, uint64_t unknown, nabla_cost *out);

/* How often the body of a scan runs; `unknown` where that is not known. */
uint64_t nabla_cost_rounds(MlirOperation scan, uint64_t unknown);

#endif
