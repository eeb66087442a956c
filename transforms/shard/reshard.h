/* Exchanges that bring a value from one layout to another. */
#ifndef NABLA_TRANSFORMS_SHARD_RESHARD_H
#define NABLA_TRANSFORMS_SHARD_RESHARD_H

#include "transforms/shard/layout.h"

/* Creates, before `before`, what brings `value` of the layout `from` to the
 * layout `to`. Null after an error: the components of a packed value cannot
 * be exchanged so. `first` is the first operation that was created, or null
 * where there is none. */
MlirValue nabla_build_reshard(const nabla_grid *shard, MlirOperation before,
                              MlirValue value, const nabla_division *from,
                              const nabla_division *to, MlirOperation *first);

/* Gets the collectives of an exchange: the name of each, such as
 * "nabla.all_gather", its atoms, and the local types of its operand and result.
 */
typedef struct nabla_exchange_visitor {
  void (*visit)(void *self, const char *name, const nabla_atom_list *atoms,
                MlirType from, MlirType to);
  void *self;
} nabla_exchange_visitor;

/* Visits what nabla_build_reshard would create, in this order. False where it
 * would fail, and for packed arrays in different layouts. */
bool nabla_reshard_visit(const nabla_grid *shard, const nabla_division *from,
                         const nabla_division *to,
                         const nabla_exchange_visitor *visitor);

/* The dimension along which a join over `atoms` may leave each device its own
 * piece, of a value in layout `now` that is wanted in layout `to`; -1. */
intptr_t nabla_reshard_scatters(const nabla_grid *shard,
                                const nabla_division *now,
                                const nabla_division *to,
                                const nabla_atom_list *atoms);

/* nabla_build_reshard of a packed array, whose components are exchanged; null,
 * without a report, where their pieces are none of the array. */
MlirValue nabla_reshard_packed(const nabla_grid *shard, MlirOperation before,
                               MlirValue value, const nabla_division *from,
                               const nabla_division *to);

/* `value` with `size` elements along `dim`: padded with zeros behind its end,
 * or cropped. A `?` stays as it is. */
MlirValue nabla_reshard_resize(MlirOperation before, MlirValue value,
                               intptr_t dim, int64_t size);

/* An all_reduce over atoms; `join` is a number of Nabla_ReduceKind. */
MlirValue nabla_reshard_join(const nabla_grid *shard, MlirOperation before,
                             MlirValue value, int join,
                             const nabla_atom_list *atoms);
/* A reduce_scatter along `dim`, to a result of type `type`. */
MlirValue nabla_reshard_scatter(const nabla_grid *shard, MlirOperation before,
                                MlirValue value, int join, intptr_t dim,
                                const nabla_atom_list *atoms, MlirType type);

/* The pieces of all devices along `dim`; the device's place among them, a
 * tensor<i64>. */
MlirValue nabla_reshard_gather(const nabla_grid *shard, MlirOperation before,
                               MlirValue value, intptr_t dim,
                               const nabla_atom_list *atoms);
MlirValue nabla_reshard_index(const nabla_grid *shard, MlirOperation before,
                              const nabla_atom_list *atoms);

#endif
