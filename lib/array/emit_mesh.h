/* Meshes of modules of recorded programs. */
#ifndef NABLA_ARRAY_EMIT_MESH_H
#define NABLA_ARRAY_EMIT_MESH_H

#include <mlir-c/IR.h>

#include "dialect/shard/sharding.h"
#include "nabla/status.h"

/* Copies the mesh over which `op` divides values, if it does, unless `to` has
 * it. */
void nabla_mesh_copy(MlirModule from, MlirModule to, MlirOperation op);

/* NABLA_INVALID_ARGUMENT for a module of two meshes: a program is divided over
 * one. */
NABLA_MUST_USE nabla_status nabla_mesh_check_one(MlirModule module,
                                                 nabla_diag *diag);

/* The mesh of the nabla_shard_map whose callback this thread runs, or NULL. */
const nabla_mesh *nabla_mesh_current(void);
void nabla_mesh_set_current(const nabla_mesh *mesh);

/* The function of the module around `before` in which kinds of collectives
 * stand, where the verifier accepts them: partitioned for the mesh. Null where
 * there is none yet. */
MlirOperation nabla_mesh_holder(MlirOperation before, const nabla_mesh *mesh);

/* Moves a new operation with regions, in which collectives may stand, to that
 * function, if this thread runs such a callback. */
void nabla_mesh_hold(MlirOperation op);

#endif
