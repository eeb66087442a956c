/* Atoms: the prime factors of the sizes of a mesh's axes. Passes divide
 * dimensions among lists of atoms, so that a sub-axis is nothing special. */
#ifndef NABLA_TRANSFORMS_SHARD_ATOMS_H
#define NABLA_TRANSFORMS_SHARD_ATOMS_H

#include "dialect/shard/sharding.h"

#define NABLA_MAX_ATOMS 32

typedef struct nabla_atoms {
  uint32_t count;
  uint8_t axis[NABLA_MAX_ATOMS];   /* of the mesh */
  int64_t before[NABLA_MAX_ATOMS]; /* product of the earlier ones of the axis */
  int64_t size[NABLA_MAX_ATOMS];
  int64_t stride[NABLA_MAX_ATOMS]; /* ranks between neighbours */
} nabla_atoms;

/* Atoms in an order: the first divides into the largest pieces. */
typedef struct nabla_atom_list {
  uint32_t count;
  uint8_t at[NABLA_MAX_ATOMS];
} nabla_atom_list;

/* False for a mesh with more than NABLA_MAX_ATOMS of them. */
bool nabla_atoms_of(const nabla_mesh *mesh, nabla_atoms *out);

/* The atoms of a list of axes, which was checked; false where a sub-axis is no
 * product of them (a part of 6 = 2 x 3 that begins with 3). */
bool nabla_atoms_list(const nabla_atoms *atoms, const nabla_mesh *mesh,
                      const nabla_axis_list *axes, nabla_atom_list *out);
/* Back: neighbours that are one sub-axis are joined. False for more than
 * NABLA_MESH_MAX_AXES of them. */
bool nabla_atoms_axes(const nabla_atoms *atoms, const nabla_mesh *mesh,
                      const nabla_atom_list *list, nabla_axis_list *out);

int64_t nabla_atoms_product(const nabla_atoms *atoms,
                            const nabla_atom_list *list);

#endif
