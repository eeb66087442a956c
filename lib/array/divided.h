/* Runs of programs that are divided over a mesh. */
#ifndef NABLA_ARRAY_DIVIDED_H
#define NABLA_ARRAY_DIVIDED_H

#include "lib/array/engine.h"
#include "lib/array/graph.h"

/* Runs "main" of a divided program (nabla_program_is_divided). Inputs are
 * realized; pieces are taken as they lie where the argument is divided
 * likewise, else gathered. `results` have their types, and get their values:
 * pieces where the program leaves them divided. After a failure the caller
 * takes back what results have.
 * @param donors  for each result the number of a donated input that nobody else
 *                needs, whose pieces become the result's, or UINT32_MAX. NULL:
 *                no result has one. A donated input that is no donor is copied
 *                for each rank */
NABLA_MUST_USE nabla_status nabla_divided_run(
    nabla_program *program, size_t input_count, nabla_array *const *inputs,
    size_t result_count, nabla_array *const *results, const uint32_t *donors,
    nabla_diag *diag);

#endif
