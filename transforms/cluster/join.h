/* Forming clusters: shared by form.c, which chooses the clusters, and join.c,
 * which adds an operation to one. */
#ifndef NABLA_TRANSFORMS_CLUSTER_JOIN_H
#define NABLA_TRANSFORMS_CLUSTER_JOIN_H

#include "transforms/cluster/cluster.h"

typedef struct nabla_cluster_forming {
  const nabla_block_index *index;
  nabla_cluster *clusters;
  size_t count, capacity;
  int *cluster_of, *node_of; /* of each operation of the block; -1: none */
  bool *begins;              /* of each operation: it begins a cluster */
  bool takes_all;            /* types; f32, f16, bf16 and i1 alone if not */
} nabla_cluster_forming;

/* Whether an operation may be in clusters, by its name and types. */
bool nabla_cluster_takes(const nabla_cluster_forming *f, MlirOperation op);

/* The space of a new cluster that begins with `op`; false where it cannot have
 * one. */
bool nabla_cluster_space_of(MlirOperation op, MlirType *out);

/* Adds the nodes of `op`; returns that of its result, or -1, after which the
 * counts of the cluster are to be restored. */
int nabla_cluster_join(const nabla_cluster_forming *f, int cluster,
                       MlirOperation op);

/* Appends the nodes and members of another cluster; false, without a change, if
 * they do not fit. */
bool nabla_cluster_append(nabla_cluster *to, const nabla_cluster *from);

/* tensor.dim of the result of member `member` becomes that of an input. */
void nabla_cluster_redirect_sizes(const nabla_cluster_forming *f,
                                  const nabla_cluster *c, int member);

/* The input that has each dimension of the space, or -1. */
int nabla_cluster_full_input(const nabla_cluster *c);

#endif
