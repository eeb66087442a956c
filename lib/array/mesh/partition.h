/* Meshes and partitions of nabla/shard.h as those of the dialect. Functions are
 * defined in mesh.c, record.c and shard_map.c. */
#ifndef NABLA_ARRAY_MESH_PARTITION_H
#define NABLA_ARRAY_MESH_PARTITION_H

#include "dialect/shard/sharding.h"
#include "nabla/shard.h"

/* Checks a partition, and reads it. */
NABLA_MUST_USE nabla_status nabla_partition_read(
    const nabla_partition *partition, nabla_sharding *out, nabla_diag *diag);

/* Adds the operation nabla.mesh to the module around `before`, unless it has
 * it. */
void nabla_mesh_add(MlirOperation before, const nabla_mesh *mesh);

#endif
