/* Along which axes of the mesh values of a nabla.shard_map vary: devices that
 * differ in others alone have equal values. */
#ifndef NABLA_TRANSFORMS_SHARD_VARYING_H
#define NABLA_TRANSFORMS_SHARD_VARYING_H

#include "transforms/shard/layout.h"

/* Atoms of the mesh for each value, a bit for each. */
typedef struct nabla_varying {
  size_t count, capacity;
  const void **keys;
  uint64_t *atoms;
  bool failed; /* out of memory */
} nabla_varying;

/* Finds those of all values in the region. False after an error, which was
 * reported: a collective under a condition that varies. `out` is initialised in
 * any case. */
bool nabla_varying_find(const nabla_grid *shard, MlirOperation shard_map,
                        nabla_varying *out);
void nabla_varying_deinit(nabla_varying *varying);

/* None for values from outside of the region. */
uint64_t nabla_varying_at(const nabla_varying *varying, MlirValue value);
/* Says it of a value that was made later. */
void nabla_varying_set(nabla_varying *varying, MlirValue value, uint64_t atoms);

/* The parts of nabla_varying_find, for a block in the making: its arguments,
 * one for each sharding of `in`; and its operations. */
void nabla_varying_divide(const nabla_grid *grid, MlirBlock block,
                          const MlirAttribute *in, nabla_varying *varying);
bool nabla_varying_visit(const nabla_grid *grid, MlirBlock block,
                         nabla_varying *varying);
/* The atoms that a sharding divides over. */
uint64_t nabla_sharding_atoms(const nabla_grid *grid, MlirAttribute sharding);

/* What the results of `op`, one without regions, vary along. */
uint64_t nabla_varying_of(const nabla_grid *shard, const nabla_varying *varying,
                          MlirOperation op);

/* The atoms in `axes` of a collective. */
bool nabla_collective_atoms(const nabla_grid *shard, MlirOperation op,
                            nabla_atom_list *out);
bool nabla_is_collective(MlirOperation op);
/* Whether it is a custom call with `axes`, whose handler exchanges values. Its
 * results are equal along them if it has NABLA_EQUAL; else they vary along what
 * its operands do. */
#define NABLA_EQUAL "nabla.equal"
bool nabla_is_exchanging_call(MlirOperation op);

#endif
