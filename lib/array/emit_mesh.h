/* Meshes of modules of recorded programs. */
#ifndef NABLA_ARRAY_EMIT_MESH_H
#define NABLA_ARRAY_EMIT_MESH_H

#include <mlir-c/IR.h>

#include "nabla/status.h"

/* Copies the mesh over which `op` divides values, if it does, unless `to` has
 * it. */
void nabla_mesh_copy(MlirModule from, MlirModule to, MlirOperation op);

/* NABLA_INVALID_ARGUMENT for a module of two meshes: a program is divided over
 * one. */
NABLA_MUST_USE nabla_status nabla_mesh_check_one(MlirModule module,
                                                 nabla_diag *diag);

#endif
