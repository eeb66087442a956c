/* Problems of choice: nodes, each with a number of choices that have costs, and
 * edges, which have a cost for each pair of choices. The solution of least
 * total cost is found by elimination of one node after the other, which is
 * exact on chains, trees, and whatever is narrow; where tables would grow too
 * large, bounds are found in the same way, and nodes are fixed by branch and
 * bound. Functions are defined in eliminate.c, search.c and improve.c; limits
 * of memory become prices of bytes, prices.h. */
#ifndef NABLA_TRANSFORMS_SHARD_SOLVE_CHOICE_H
#define NABLA_TRANSFORMS_SHARD_SOLVE_CHOICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct nabla_choice_node {
  uint32_t count;      /* of choices, at least 1 */
  const double *costs; /* seconds */
} nabla_choice_node;

/* `costs` has a row for each choice of `a`. Several edges of the same pair add
 * up; no edge joins a node to itself. */
typedef struct nabla_choice_edge {
  uint32_t a, b;
  const double *costs;
} nabla_choice_edge;

/* Bytes of memory that are taken from moment `first` to `last`. */
typedef struct nabla_choice_load {
  bool is_edge;
  uint32_t at;           /* number of the node or edge      */
  uint32_t first, last;  /* moments, both included          */
  const uint64_t *bytes; /* an entry where the costs have one, at most
                            NABLA_CHOICE_MOST_BYTES */
} nabla_choice_load;
#define NABLA_CHOICE_MOST_BYTES ((uint64_t)1 << 46)

typedef struct nabla_choice {
  size_t node_count, edge_count, load_count;
  const nabla_choice_node *nodes;
  const nabla_choice_edge *edges;
  const nabla_choice_load *loads;
  uint32_t moments;   /* at least 1 where there are loads                  */
  uint64_t memory;    /* limit of the bytes of a moment; UINT64_MAX: none  */
  size_t table_limit; /* entries of a table; 0: a default                  */
  double work_limit;  /* additions, after which no subproblem begins; 0: a
                         default */
} nabla_choice;

typedef struct nabla_choice_answer {
  uint32_t *chosen; /* of the caller: a choice for each node */
  double cost, bound;
  uint64_t bytes;   /* of the moment that has most */
  bool is_feasible; /* within the limit of memory */
  uint32_t subproblems;
} nabla_choice_answer;

/* Finds a solution, of which `bound` says what no solution is cheaper than.
 * `out->chosen` has a first solution, which is kept unless a cheaper one is
 * found. False if out of memory. */
bool nabla_choice_solve(const nabla_choice *problem, nabla_choice_answer *out);

/* The cost of a solution. */
double nabla_choice_cost(const nabla_choice *problem, const uint32_t *chosen);

/* One pass over all tables: with `fixed` (UINT32_MAX: free), a solution, and a
 * bound of the cost of all. `split`: a node whose table was too large,
 * UINT32_MAX if none was; then the solution is the best. False if out of
 * memory. */
typedef struct nabla_choice_pass {
  const uint32_t *fixed;
  uint32_t *chosen;
  double bound;
  uint32_t split;
  double work; /* additions */
} nabla_choice_pass;
bool nabla_choice_eliminate(const nabla_choice *problem,
                            nabla_choice_pass *pass);

/* The edges of each node: those of node n are edges[first[n]] to
 * edges[first[n + 1] - 1], in their order. */
typedef struct nabla_choice_index {
  size_t *first, *edges;
} nabla_choice_index;

/* False if out of memory; to be given to nabla_choice_index_deinit in any case.
 */
bool nabla_choice_index_init(nabla_choice_index *index,
                             const nabla_choice *problem);
void nabla_choice_index_deinit(nabla_choice_index *index);

/* Changes single nodes while that makes a solution cheaper. Returns how many
 * additions that took. */
double nabla_choice_improve(const nabla_choice *problem,
                            const nabla_choice_index *index,
                            const uint32_t *fixed, uint32_t *chosen);

#endif
