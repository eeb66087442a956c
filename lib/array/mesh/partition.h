/* Meshes and partitions of nabla/shard.h as those of the dialect. */
#ifndef NABLA_ARRAY_MESH_PARTITION_H
#define NABLA_ARRAY_MESH_PARTITION_H

#include "dialect/shard/sharding.h"
#include "nabla/shard.h"

/* Checks a partition, and reads it. */
NABLA_MUST_USE nabla_status nabla_partition_read(
    const nabla_partition *partition, nabla_sharding *out, nabla_diag *diag);

#endif
