/* nabla.shard_map, and the operations on shardings that nabla-partition
 * removes. Functions are defined in shard_map.c and inspect_sharding.c. */
#ifndef NABLA_TRANSFORMS_SHARD_SHARD_MAP_H
#define NABLA_TRANSFORMS_SHARD_SHARD_MAP_H

#include "transforms/shard/layout.h"

bool nabla_is_shard_map(MlirOperation op);

/* The layout of operand (`key` "in") or result ("out") `index`, of which
 * `whole` is the type of the whole. */
nabla_division nabla_shard_map_layout(const nabla_grid *shard, MlirOperation op,
                                      const char *key, intptr_t index,
                                      MlirType whole);

/* Whether every piece can be made, and every result is equal along the axes
 * that do not divide it; reported where not. Types are those of the program. */
bool nabla_shard_map_check(const nabla_grid *shard, MlirOperation op);

/* Puts the operations of the region in place of the op, whose operands and
 * results have local types. */
void nabla_shard_map_inline(MlirOperation op);

/* Whether an operation only describes shardings: constraints, reshard,
 * propagation_barrier, sharding_group, inspect_sharding; whether its result is
 * the operand in another division (the first three); removes one. */
bool nabla_is_sharding_note(MlirOperation op);
bool nabla_is_passing_note(MlirOperation op);
void nabla_sharding_note_drop(MlirOperation op);

/* Tells the callback of a nabla.inspect_sharding how its operand is divided
 * (include/nabla/shard.h); a remark where there is no callback. */
void nabla_inspect(const nabla_grid *shard, MlirOperation op,
                   const nabla_division *layout);
/* Whether callbacks were added: what is compiled then is not cached. */
bool nabla_inspect_is_used(void);

#endif
