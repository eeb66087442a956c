/* nabla-import-shard: the dialect `shard` of MLIR, which names axes by numbers,
 * as shardings of this dialect. shard.grid becomes nabla.mesh with axes
 * "axis0", "axis1", ...; shard.shard by a shard.sharding becomes
 * nabla.sharding_constraint. */
#include <inttypes.h>
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dialect/shard/sharding.h"
#include "transforms/ir/ir.h"
#include "transforms/passes.h"

static bool is_of_shard(MlirOperation op) {
  MlirStringRef name = nabla_name(op);
  return name.length > 6 && !memcmp(name.data, "shard.", 6);
}

static MlirAttribute attribute_of(MlirOperation op, const char *name) {
  return mlirOperationGetAttributeByName(op, nabla_ref(name));
}

static bool fail(MlirOperation op, const char *why) {
  nabla_error_at(op, "%s", why);
  return false;
}

static void name_axis(char out[NABLA_AXIS_NAME], int64_t axis) {
  (void)snprintf(out, NABLA_AXIS_NAME, "axis%" PRId64, axis);
}

/* ---- grids ---- */

static bool import_grid(MlirOperation op) {
  MlirContext context = nabla_op_context(op);
  MlirAttribute shape = attribute_of(op, "shape");
  MlirAttribute axes[2 * NABLA_MESH_MAX_AXES];
  const intptr_t count = mlirDenseArrayGetNumElements(shape);
  if (count > NABLA_MESH_MAX_AXES)
    return fail(op, "has more axes than a nabla.mesh, which has at most 8");
  for (intptr_t i = 0; i < count; i++) {
    char name[NABLA_AXIS_NAME];
    const int64_t size = mlirDenseI64ArrayGetElement(shape, i);
    if (size < 1)
      return fail(op,
                  "has an axis whose size is not known; a nabla.mesh has "
                  "sizes");
    name_axis(name, i);
    axes[2 * i] = mlirStringAttrGet(context, nabla_ref(name));
    axes[2 * i + 1] = mlirIntegerAttrGet(mlirIntegerTypeGet(context, 64), size);
  }
  const MlirNamedAttribute attributes[] = {
      nabla_named(context, "sym_name", attribute_of(op, "sym_name")),
      nabla_named(context, "axes", mlirArrayAttrGet(context, 2 * count, axes))};
  nabla_op_create(op, &(nabla_op_spec){.name = "nabla.mesh",
                                       .attribute_count = 2,
                                       .attributes = attributes});
  nabla_op_erase(op);
  return true;
}

/* ---- shardings ---- */

/* Reads "[[0, 1], [], [2]]": axes of each dimension. */
static bool read_axes(const char *at, nabla_sharding *out) {
  nabla_axis_list *dim = NULL;
  out->rank = 0;
  if (*at++ != '[') return false;
  for (int depth = 1; depth; at++) {
    if (*at == '[' && depth == 1 && out->rank < NABLA_MAX_RANK) {
      depth = 2;
      out->dims[out->rank].priority = -1;
      dim = &out->dims[out->rank++].axes;
    } else if (*at == ']') {
      depth--;
    } else if (*at >= '0' && *at <= '9' && depth == 2 &&
               dim->count < NABLA_MESH_MAX_AXES) {
      char *end;
      name_axis(dim->at[dim->count++].name, strtol(at, &end, 10));
      at = end - 1;
    } else if (*at != ',' && *at != ' ') {
      return false;
    }
  }
  return true;
}

/* Axes of dimensions have no accessor in C: their text is read. */
static bool read_sharding(MlirOperation op, nabla_sharding *out) {
  MlirAttribute halos = attribute_of(op, "static_halo_sizes");
  MlirAttribute offsets = attribute_of(op, "static_sharded_dims_offsets");
  MlirStringRef grid = mlirFlatSymbolRefAttrGetValue(attribute_of(op, "grid"));
  nabla_text text = {0};
  *out = (nabla_sharding){.rank = 0};
  if (mlirOperationGetNumOperands(op) || mlirDenseArrayGetNumElements(halos) ||
      mlirDenseArrayGetNumElements(offsets))
    return fail(op,
                "has halos or offsets; pieces of a #nabla.sharding have "
                "one size and do not overlap");
  if (!nabla_mesh_name_parse(grid.data, grid.length, out->mesh))
    return fail(op,
                "has a grid whose name no mesh has: at most 63 letters, "
                "digits, '_', '.' and '-'");
  nabla_text_add_attribute(&text, attribute_of(op, "split_axes"));
  const char *list =
      !text.failed && text.data ? strstr(text.data, "axisarray") : NULL;
  const bool good = list && read_axes(list + strlen("axisarray"), out);
  nabla_text_deinit(&text);
  return good || fail(op,
                      "has axes that are not understood, or more than a "
                      "#nabla.sharding has");
}

/* A value that is annotated for its users is divided so behind this op, like
 * any: where its definition is divided otherwise there is an exchange. */
static bool import_shard(MlirOperation op) {
  MlirContext context = nabla_op_context(op);
  MlirOperation from = nabla_defining_op(mlirOperationGetOperand(op, 1));
  MlirValue input = mlirOperationGetOperand(op, 0);
  MlirType type = mlirValueGetType(input);
  nabla_sharding sharding;
  if (mlirOperationIsNull(from) || !nabla_is(from, "shard.sharding"))
    return fail(op, "takes no sharding that a shard.sharding makes");
  if (!read_sharding(from, &sharding)) return false;
  const int64_t rank = mlirShapedTypeGetRank(type);
  if ((int64_t)sharding.rank > rank || rank > NABLA_MAX_RANK)
    return fail(op, "has a sharding of more dimensions than the array");
  for (; sharding.rank < rank; sharding.rank++) /* whole */
    sharding.dims[sharding.rank].priority = -1;
  const MlirNamedAttribute attribute =
      nabla_named(context, "sharding", nabla_sharding_get(context, &sharding));
  MlirOperation made =
      nabla_op_create(op, &(nabla_op_spec){.name = "nabla.sharding_constraint",
                                           .operand_count = 1,
                                           .operands = &input,
                                           .result_count = 1,
                                           .results = &type,
                                           .attribute_count = 1,
                                           .attributes = &attribute});
  const MlirValue result = mlirOperationGetResult(made, 0);
  nabla_op_replace(op, &result);
  return true;
}

static bool is_sharding(MlirOperation op) {
  return nabla_is(op, "shard.sharding");
}

static bool erase_sharding(MlirOperation op, void *self) {
  (void)self;
  if (nabla_use_count(mlirOperationGetResult(op, 0)))
    return fail(op, "is used by another operation than shard.shard");
  nabla_op_erase(op);
  return true;
}

static bool import_op(MlirOperation op, void *self) {
  (void)self;
  if (is_sharding(op)) return true; /* once it has no users */
  if (nabla_is(op, "shard.grid")) return import_grid(op);
  if (nabla_is(op, "shard.shard")) return import_shard(op);
  nabla_error_at(op,
                 "is not imported: of the dialect, shard.grid, shard.sharding "
                 "and shard.shard are");
  return false;
}

MlirLogicalResult nabla_run_import_shard(MlirOperation op,
                                         const nablaPassValue *values,
                                         void *prepared) {
  (void)values, (void)prepared;
  const MlirLogicalResult result =
      nabla_ops_each(op, is_of_shard, import_op, NULL);
  return mlirLogicalResultIsFailure(result)
             ? result
             : nabla_ops_each(op, is_sharding, erase_sharding, NULL);
}
