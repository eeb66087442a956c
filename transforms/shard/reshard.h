/* Exchanges that bring a value from one layout to another. */
#ifndef NABLA_TRANSFORMS_SHARD_RESHARD_H
#define NABLA_TRANSFORMS_SHARD_RESHARD_H

#include "transforms/shard/layout.h"

/* Creates, before `before`, what brings `value` of the layout `from` to the
 * layout `to`. Null after an error: a packed value cannot be exchanged. `first`
 * is the first operation that was created, or null where there is none. */
MlirValue nabla_reshard(const nabla_grid *shard, MlirOperation before,
                        MlirValue value, const nabla_division *from,
                        const nabla_division *to, MlirOperation *first);

/* An all_reduce over atoms; `join` is a number of Nabla_ReduceKind. */
MlirValue nabla_reshard_join(const nabla_grid *shard, MlirOperation before,
                             MlirValue value, int join,
                             const nabla_atom_list *atoms);
/* A reduce_scatter along `dim`, to a result of type `type`. */
MlirValue nabla_reshard_scatter(const nabla_grid *shard, MlirOperation before,
                                MlirValue value, int join, intptr_t dim,
                                const nabla_atom_list *atoms, MlirType type);

#endif
