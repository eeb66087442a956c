/* The nodes that a realization needs, in an order in which they can run, their
 * leaves and results, and the key of their graph. */
#ifndef NABLA_ARRAY_WALK_H
#define NABLA_ARRAY_WALK_H

#include "lib/array/engine.h"
#include "lib/array/graph.h"

typedef struct nabla_walk {
  const nabla_allocator *allocator;
  nabla_recorder *recorder; /* NULL before init */
  uint64_t number;          /* of this walk: nodes that it reached have it */
  uint64_t trace;           /* nodes of other traces are leaves            */
  nabla_node **nodes;
  nabla_array **leaves, **results; /* numbered by first use; as returned */
  size_t node_count, leaf_count, result_count;
  nabla_graph_key key;
  nabla_buffer nodes_memory, leaves_memory, results_memory, key_memory;
  nabla_buffer stack, table; /* of leaves, by address */
  size_t table_size;
} nabla_walk;

void nabla_walk_init(nabla_walk *walk, nabla_scope *scope);
void nabla_walk_deinit(nabla_walk *walk);

/* Walks from those of `arrays` that are pending. Results are these, in order
 * and once each, then every array among those that they need which the user
 * holds. */
NABLA_MUST_USE nabla_status nabla_walk_from(nabla_walk *walk, size_t count,
                                            nabla_array *const *arrays,
                                            nabla_diag *diag);

/* Walks from the results of trace `walk->trace`. The first leaves are
 * `arguments`, used or not; results are `results`, any of which may be a leaf,
 * in order. The key tells also the types of leaves apart. */
NABLA_MUST_USE nabla_status nabla_walk_trace(
    nabla_walk *walk, size_t argument_count, nabla_array *const *arguments,
    size_t result_count, nabla_array *const *results, nabla_diag *diag);

/* Whether an array is the result of a node of the walk; else it is a leaf. */
bool nabla_walk_has(const nabla_walk *walk, const nabla_array *array);
/* The number of a leaf of the walk. */
uint32_t nabla_walk_leaf(const nabla_walk *walk, const nabla_array *leaf);

#endif
