/* Plans: how the factors of each operation are divided, from the layouts of its
 * arrays. */
#ifndef NABLA_TRANSFORMS_SHARD_PLAN_H
#define NABLA_TRANSFORMS_SHARD_PLAN_H

#include "transforms/shard/factors.h"

typedef struct nabla_shard_plan {
  MlirOperation op;
  bool is_divided; /* by its factors; else every device computes all of it */
  nabla_factors factors;
  nabla_atom_list lists[NABLA_MAX_FACTORS];
} nabla_shard_plan;

/* Types are those of the whole. An axis that two factors want divides one. */
void nabla_shard_plan_make(const nabla_grid *grid, nabla_layout_map *map,
                           MlirOperation op, nabla_shard_plan *out);

/* The same without remarks. */
void nabla_shard_plan_try(const nabla_grid *grid, nabla_layout_map *map,
                          MlirOperation op, nabla_shard_plan *out);

/* Says why an operation is divided less than it was asked. */
void nabla_shard_plan_remark(MlirOperation op, const char *why);

#endif
