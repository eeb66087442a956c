/* Problems and answers as JSON: docs/schema/nabla-shard-plan-1.json. */
#ifndef NABLA_TRANSFORMS_SHARD_SOLVE_DUMP_H
#define NABLA_TRANSFORMS_SHARD_SOLVE_DUMP_H

#include "lib/base/json/json.h"
#include "transforms/shard/solve/problem.h"

/* Writes the object of a function that was solved. */
void nabla_shard_problem_put(const nabla_shard_problem *p, nabla_json_out *out);
/* Writes the members `schema`, `mesh` and `machine` of the file. */
void nabla_shard_file_put(const nabla_grid *grid,
                          const nabla_shard_machine *machine,
                          nabla_json_out *out);

#endif
