/* The problem of choice that a function is: a node for each argument and each
 * operation, an edge where an operation uses a value. Functions are defined in
 * problem.c and write.c. */
#ifndef NABLA_TRANSFORMS_SHARD_SOLVE_PROBLEM_H
#define NABLA_TRANSFORMS_SHARD_SOLVE_PROBLEM_H

#include "transforms/shard/solve/choice.h"
#include "transforms/shard/solve/options.h"

typedef struct nabla_shard_node {
  MlirOperation op; /* null: an argument */
  intptr_t argument;
  const nabla_shard_options *options;
} nabla_shard_node;

/* How node `b` uses a value: operand `operand`, or, -1, all of it in a region;
 * -2: node `b` is the argument whose state the value replaces. */
typedef struct nabla_shard_use {
  uint32_t a, b;
  intptr_t result, operand;
} nabla_shard_use;

typedef struct nabla_shard_problem {
  const nabla_grid *grid;
  const nabla_shard_machine *machine;
  MlirOperation function;
  nabla_option_lists *lists;
  size_t node_count, node_capacity, use_count, use_capacity;
  nabla_shard_node *nodes; /* arguments, then operations in their order */
  nabla_shard_use *uses;
  nabla_choice choice; /* edge i is use i */
  nabla_choice_load *loads;
  nabla_choice_answer answer;
  bool failed; /* out of memory */
} nabla_shard_problem;

/* Reads a function. `lists` outlives the problem. False if out of memory; to be
 * given to nabla_shard_problem_deinit in any case. */
bool nabla_shard_problem_read(MlirOperation function, nabla_option_lists *lists,
                              nabla_shard_problem *out);
void nabla_shard_problem_deinit(nabla_shard_problem *p);

/* Adds what a device holds to the problem of choice; nabla_shard_problem_read
 * does. memory.c. */
bool nabla_shard_problem_hold(nabla_shard_problem *p);

/* The layouts that a use connects, with the choices of a solution. */
const nabla_division *nabla_shard_use_from(const nabla_shard_problem *p,
                                           const nabla_shard_use *use,
                                           uint32_t choice);
nabla_division nabla_shard_use_to(const nabla_shard_problem *p,
                                  const nabla_shard_use *use, uint32_t choice);

/* The bytes that the first device receives in one run. */
uint64_t nabla_shard_problem_bytes(const nabla_shard_problem *p,
                                   const uint32_t *chosen);

/* Writes the solution: attributes of arguments and operations, and
 * nabla.reshard where an operation would else be divided in another way. */
bool nabla_shard_problem_write(nabla_shard_problem *p);

#endif
