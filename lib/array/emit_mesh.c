/* See emit_mesh.h. */
#include "lib/array/emit_mesh.h"

#include <mlir-c/BuiltinAttributes.h>
#include <string.h>

#include "dialect/shard/sharding.h"
#include "lib/array/emit.h"
#include "transforms/ir/ir.h"

void nabla_mesh_copy(MlirModule from, MlirModule to, MlirOperation op) {
  char name[NABLA_MESH_NAME];
  const MlirAttribute attribute =
      mlirOperationGetAttributeByName(op, nabla_ref("sharding"));
  if (nabla_sharding_is(attribute)) {
    const nabla_sharding sharding = nabla_sharding_read(attribute);
    memcpy(name, sharding.mesh, sizeof name);
  } else if (!nabla_is(op, "nabla.shard_map") ||
             !nabla_shard_map_mesh(op, name)) {
    return;
  }
  nabla_function_copy(from, to, nabla_ref(name), false);
}

nabla_status nabla_mesh_check_one(MlirModule module, nabla_diag *diag) {
  MlirOperation op = mlirBlockGetFirstOperation(mlirModuleGetBody(module));
  MlirStringRef names[2] = {{NULL, 0}, {NULL, 0}};
  for (int count = 0; !mlirOperationIsNull(op);
       op = mlirOperationGetNextInBlock(op)) {
    if (!nabla_is(op, "nabla.mesh")) continue;
    names[count++] = mlirStringAttrGetValue(
        mlirOperationGetAttributeByName(op, nabla_ref("sym_name")));
    if (count == 2)
      return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                        "arrays of one program are on two meshes, @%.*s and "
                        "@%.*s",
                        (int)names[0].length, names[0].data,
                        (int)names[1].length, names[1].data);
  }
  return NABLA_OK;
}

/* ---- callbacks of nabla_shard_map ---- */

static _Thread_local const nabla_mesh *current;

const nabla_mesh *nabla_mesh_current(void) { return current; }

void nabla_mesh_set_current(const nabla_mesh *mesh) { current = mesh; }

MlirOperation nabla_mesh_holder(MlirOperation before, const nabla_mesh *mesh) {
  MlirOperation op = mlirBlockGetFirstOperation(mlirOperationGetBlock(before));
  for (; !mlirOperationIsNull(op); op = mlirOperationGetNextInBlock(op)) {
    const MlirAttribute name =
        mlirOperationGetAttributeByName(op, nabla_ref("nabla.partitioned"));
    if (!mlirAttributeIsNull(name) &&
        mlirStringRefEqual(mlirFlatSymbolRefAttrGetValue(name),
                           nabla_ref(mesh->name)))
      break;
  }
  return op;
}

void nabla_mesh_hold(MlirOperation op) {
  if (!current || mlirOperationIsNull(op)) return;
  const MlirOperation holder = nabla_mesh_holder(op, current);
  if (mlirOperationIsNull(holder)) return; /* no collective was recorded */
  mlirOperationRemoveFromParent(op);
  mlirBlockAppendOwnedOperation(
      mlirRegionGetFirstBlock(mlirOperationGetRegion(holder, 0)), op);
}
