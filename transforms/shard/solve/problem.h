/* The problem of choice that a function is: a node for each argument and each
 * operation, an edge where an operation uses a value. Functions are defined in
 * problem.c, problem_scan.c, memory.c and write.c. */
#ifndef NABLA_TRANSFORMS_SHARD_SOLVE_PROBLEM_H
#define NABLA_TRANSFORMS_SHARD_SOLVE_PROBLEM_H

#include "transforms/shard/solve/choice.h"
#include "transforms/shard/solve/options.h"

typedef struct nabla_shard_node {
  MlirOperation op;  /* null: an argument of the function         */
  intptr_t argument; /* its number, or that of a port of a scan; -1 */
  const nabla_shard_options *options;
  uint64_t times; /* that it is run                            */
  uint32_t loop;  /* whose body it is in, of `loops`; 0: none  */
} nabla_shard_node;

static inline bool nabla_shard_node_is_port(const nabla_shard_node *node) {
  return !mlirOperationIsNull(node->op) && node->argument >= 0;
}

/* How node `b` uses a value: operand `operand`, or, -1, all of it in a region;
 * -2: node `b` is the argument whose state the value replaces. Operands of
 * ports are those of their options. */
typedef struct nabla_shard_use {
  uint32_t a, b;
  intptr_t result, operand;
  uint64_t times; /* that it is exchanged */
} nabla_shard_use;

typedef struct nabla_shard_loop {
  uint32_t parent; /* the loop around; 0: none    */
  uint32_t last;   /* the last node of its body   */
} nabla_shard_loop;

/* The node of a value: open addressing. */
typedef struct nabla_shard_values {
  size_t count, capacity;
  struct {
    const void *key;
    uint32_t node;
    intptr_t result;
  } *slots;
} nabla_shard_values;

typedef struct nabla_shard_problem {
  const nabla_grid *grid;
  const nabla_shard_machine *machine;
  MlirOperation function;
  nabla_option_lists *lists;
  size_t node_count, node_capacity, use_count, use_capacity;
  nabla_shard_node *nodes; /* arguments, then operations in their order */
  nabla_shard_use *uses;   /* by `b`, in the order of the nodes */
  size_t loop_count, loop_capacity;
  nabla_shard_loop *loops; /* the first is no loop */
  nabla_shard_values values;
  size_t cut_count; /* nodes whose options were cut */
  double **tables;  /* all costs of edges */
  size_t table_count;
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

/* ---- scans: problem_scan.c ---- */

/* Whether the operations of the body are nodes: arrays of known sizes. */
bool nabla_shard_scan_is_open(MlirOperation op);
intptr_t nabla_shard_scan_ports(MlirOperation op);
uint64_t nabla_shard_scan_rounds(MlirOperation op);

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
