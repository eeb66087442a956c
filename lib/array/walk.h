/* The nodes that a realization needs, in an order in which they can run, their
 * leaves and results, and the key of their graph. */
#ifndef NABLA_ARRAY_WALK_H
#define NABLA_ARRAY_WALK_H

#include "lib/array/engine.h"
#include "lib/array/graph.h"

typedef struct nabla_walk {
  const nabla_allocator *allocator;
  nabla_scope *scope;
  uint64_t number; /* of this walk: nodes that it reached have it */
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

/* The number of a leaf of the walk. */
uint32_t nabla_walk_leaf(const nabla_walk *walk, const nabla_array *leaf);

#endif
