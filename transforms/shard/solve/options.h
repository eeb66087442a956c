/* Options: the ways to divide one operation, or one argument, with the layouts
 * that each wants of operands and gives to results. Alike operations have the
 * same list of them. Functions are defined in options.c, options_ports.c and
 * problem_scan.c. */
#ifndef NABLA_TRANSFORMS_SHARD_SOLVE_OPTIONS_H
#define NABLA_TRANSFORMS_SHARD_SOLVE_OPTIONS_H

#include "transforms/shard/plan.h"
#include "transforms/shard/solve/machine.h"

typedef struct nabla_shard_option {
  nabla_atom_list lists[NABLA_MAX_FACTORS]; /* of an operation's factors */
  nabla_division *operands; /* that it wants; whole where it is no array */
  nabla_division *results;  /* as their users find them                 */
  double seconds;           /* of computing, and of joining results     */
  nabla_exchange joins;     /* its part that is exchanged               */
  uint64_t held;            /* bytes of an argument's piece             */
  uint64_t at_once;         /* bytes beside operands and results        */
} nabla_shard_option;

typedef struct nabla_shard_options {
  const void **key; /* what alike operations share */
  size_t key_count;
  intptr_t operand_count, result_count;
  bool is_divided; /* by factors */
  bool is_cut;     /* there are more than were tried */
  uint32_t count;
  size_t capacity;
  nabla_shard_option *all;
} nabla_shard_options;

/* All lists of options of a module. */
typedef struct nabla_option_lists {
  const nabla_grid *grid;
  const nabla_shard_machine *machine;
  nabla_layout_map map; /* for nabla_shard_plan_try */
  nabla_shard_options **all;
  size_t count, capacity;
  bool failed; /* out of memory */
} nabla_option_lists;

/* The options of an operation of the body of a function, or of argument
 * `index` of the function. What was annotated leaves those that keep it. NULL
 * where there is no memory. Valid until nabla_option_lists_deinit. */
const nabla_shard_options *nabla_options_of_op(nabla_option_lists *lists,
                                               MlirOperation op);
const nabla_shard_options *nabla_options_of_argument(nabla_option_lists *lists,
                                                     MlirOperation function,
                                                     intptr_t index);
/* What a scan keeps in one layout in all rounds. Operands of the options are
 * what is given and what a round ends with, as far as there are such; the
 * result of an output is that of the scan. */
typedef enum nabla_port_kind {
  NABLA_PORT_CARRY,
  NABLA_PORT_SLICE,
  NABLA_PORT_OUTPUT,
} nabla_port_kind;
typedef struct nabla_shard_port {
  nabla_port_kind kind;
  MlirValue given, inside, ended, result; /* null where there is none */
} nabla_shard_port;
nabla_shard_port nabla_shard_port_of(MlirOperation scan, intptr_t index);
const nabla_shard_options *nabla_options_of_port(nabla_option_lists *lists,
                                                 MlirOperation scan,
                                                 intptr_t index);

void nabla_option_lists_deinit(nabla_option_lists *lists);

/* ---- for options.c and options_ports.c ---- */

/* One more option of nothing but whole layouts; NULL where there is no memory.
 * Valid until the next. */
nabla_shard_option *nabla_option_add(nabla_option_lists *lists,
                                     nabla_shard_options *to);
/* The list of this key, which is taken; a new one is empty. */
nabla_shard_options *nabla_options_find(nabla_option_lists *lists,
                                        const void **key, size_t key_count);

/* The bytes of each device's piece; of the whole where it cannot be divided so.
 */
uint64_t nabla_piece_bytes(const nabla_grid *grid,
                           const nabla_division *layout);

/* Whether a layout is one that a sharding asks for: closed dimensions equal,
 * others begin so. A null attribute asks for nothing. */
bool nabla_option_keeps(const nabla_grid *grid, MlirAttribute sharding,
                        const nabla_division *layout);

/* Whether an annotation has no dimension that may be divided more. */
bool nabla_option_is_all(MlirAttribute sharding);

/* Lists are cut here: an exchange is modelled for each pair of options of two
 * nodes. */
#define NABLA_MOST_OPTIONS 256

/* Calls `visit` with atoms for each of `slots` slots: each axis of the mesh in
 * one that has a size, or in none. Where there are more than NABLA_MOST_OPTIONS
 * ways, those come first, and again in their order, that divide nothing, along
 * one axis, or as few slots as all axes fit in. False: `visit` returned false,
 * or there are too many ways to try. */
typedef bool nabla_options_visit(void *self, const nabla_atom_list *lists);
bool nabla_options_assign(const nabla_grid *grid, uint32_t slots,
                          const int64_t *sizes, nabla_options_visit *visit,
                          void *self);

/* Operations that are divided in one way: calls, shard_map, func.return. */
bool nabla_options_are_given(MlirOperation op);
void nabla_options_give(nabla_option_lists *lists, MlirOperation op,
                        nabla_shard_options *out);

#endif
