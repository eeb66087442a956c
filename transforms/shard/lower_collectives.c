/* nabla-lower-collectives: collectives become custom calls of the runtime
 * (lib/runtime/collectives/handlers.c). The attribute `axes` of a call says how
 * a rank finds its place: for each part of the axes, from the first, the number
 * of ranks between neighbours and its size. */
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <stdio.h>
#include <string.h>

#include "dialect/ops.h"
#include "dialect/shard/sharding.h"
#include "dialect/verify/checks.h"
#include "transforms/ir/build.h"
#include "transforms/passes.h"
#include "transforms/shard/atoms.h"
#include "transforms/shard/overlap.h"
#include "transforms/shard/varying.h"

#define NABLA_PREFIX_LENGTH 6 /* of "nabla." */

static bool is_mesh(MlirOperation op) { return nabla_is(op, "nabla.mesh"); }

static MlirAttribute get(MlirOperation op, const char *key) {
  return mlirOperationGetAttributeByName(op, nabla_ref(key));
}

static MlirOperation function_around(MlirOperation op) {
  while (!mlirOperationIsNull(op) && !nabla_is(op, "func.func"))
    op = mlirOperationGetParentOperation(op);
  return op;
}

/* The mesh of the function, as the verifier has seen it. */
static bool find_mesh(MlirOperation op, nabla_mesh *out) {
  char name[NABLA_MESH_NAME];
  MlirOperation function = function_around(op);
  if (mlirOperationIsNull(function)) return false;
  MlirAttribute symbol = get(function, "nabla.partitioned");
  if (mlirAttributeIsNull(symbol)) return false;
  MlirStringRef text = mlirFlatSymbolRefAttrGetValue(symbol);
  snprintf(name, sizeof name, "%.*s", (int)text.length, text.data);
  return nabla_mesh_find(op, name, out);
}

/* The sizes of the `?` of a result, from those of the operand. */
static intptr_t add_sizes(MlirOperation op, MlirValue *operands,
                          int64_t devices) {
  const nabla_builder b = {op};
  MlirType to = nabla_result_type(op, 0);
  MlirValue input = operands[0];
  intptr_t count = 1;
  const bool gathers = nabla_is(op, "nabla.all_gather");
  const bool moves = nabla_is(op, "nabla.all_to_all");
  const int64_t grows = nabla_op_integer(op, moves ? "concat" : "dim", -1);
  const int64_t shrinks = nabla_op_integer(op, moves ? "split" : "dim", -1);
  const nabla_built_shape shape = nabla_build_shape_of(&b, input);
  for (intptr_t i = 0; i < nabla_array_rank(to); i++) {
    if (!nabla_is_dynamic(nabla_array_dim(to, i))) continue;
    MlirValue size = nabla_build_size(&b, &shape, i);
    MlirValue n = nabla_build_index(&b, devices);
    if (i == grows && (gathers || moves))
      size = nabla_build_arith(&b, "muli", size, n);
    else if (i == shrinks)
      size = nabla_build_arith(&b, "divui", size, n);
    operands[count++] = size;
  }
  return count;
}

/* Ranks between neighbours and size, for each part of axes. */
static void add_places(const nabla_atom_list *axes, const nabla_atoms *atoms,
                       int64_t places[2 * NABLA_MAX_ATOMS]) {
  for (uint32_t i = 0; i < axes->count; i++) {
    places[2 * i] = atoms->stride[axes->at[i]];
    places[2 * i + 1] = atoms->size[axes->at[i]];
  }
}

static intptr_t add_attributes(MlirOperation op, const nabla_atom_list *axes,
                               const nabla_atoms *atoms, bool starts,
                               MlirNamedAttribute *out) {
  static const char *const keys[] = {"dim", "split", "concat", "from", "kind"};
  MlirContext context = nabla_op_context(op);
  const nabla_builder b = {op};
  int64_t places[2 * NABLA_MAX_ATOMS];
  char target[64];
  intptr_t count = 0;
  MlirStringRef name = nabla_name(op);
  snprintf(target, sizeof target, "nabla.%s%.*s", starts ? "start_" : "",
           (int)name.length - NABLA_PREFIX_LENGTH,
           name.data + NABLA_PREFIX_LENGTH);
  out[count++] = nabla_named(context, "target",
                             mlirStringAttrGet(context, nabla_ref(target)));
  add_places(axes, atoms, places);
  out[count++] =
      nabla_build_list(&b, "axes", (intptr_t)axes->count * 2, places);
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
    if (!mlirAttributeIsNull(get(op, keys[i])))
      out[count++] = nabla_build_integer(&b, keys[i], 64,
                                         nabla_op_integer(op, keys[i], 0));
  if (!mlirAttributeIsNull(get(op, "pairs")))
    out[count++] = nabla_named(context, "pairs", get(op, "pairs"));
  return count;
}

/* A call of `target` before `op`. */
static MlirOperation make_call(MlirOperation op, intptr_t operand_count,
                               const MlirValue *operands, intptr_t result_count,
                               const MlirType *types, intptr_t attribute_count,
                               const MlirNamedAttribute *attributes) {
  const nabla_op_spec spec = {
      "nabla.custom_call", operand_count, operands, result_count, types,
      attribute_count,     attributes};
  return nabla_op_create(op, &spec);
}

/* nabla.wait before `last`: its result is that of the exchange, whose unknown
 * sizes are `sizes`. */
static MlirValue add_wait(MlirOperation started, MlirOperation last,
                          intptr_t size_count, const MlirValue *sizes) {
  MlirContext context = nabla_op_context(started);
  const nabla_builder b = {last};
  const intptr_t count = mlirOperationGetNumResults(started);
  const MlirType type = nabla_result_type(started, 0);
  MlirValue operands[2 + NABLA_MAX_RANK];
  const MlirNamedAttribute attributes[] = {
      nabla_named(context, "target",
                  mlirStringAttrGet(context, nabla_ref("nabla.wait"))),
      nabla_build_integer(&b, NABLA_CALL_IN_PLACE, 64, 0)};
  for (intptr_t i = 0; i < count; i++)
    operands[i] = mlirOperationGetResult(started, i);
  for (intptr_t i = 0; i < size_count; i++) operands[count + i] = sizes[i];
  const MlirOperation made =
      make_call(last, count + size_count, operands, 1, &type, 2, attributes);
  return mlirOperationIsNull(made) ? (MlirValue){NULL}
                                   : mlirOperationGetResult(made, 0);
}

/* The sizes of a copy of the operand behind those of the result. */
static intptr_t add_copy_sizes(MlirOperation op, MlirValue *operands,
                               intptr_t count) {
  const nabla_builder b = {op};
  const nabla_built_shape shape = nabla_build_shape_of(&b, operands[0]);
  for (intptr_t i = 0; i < shape.rank; i++)
    if (nabla_is_dynamic(shape.dims[i]))
      operands[count++] = nabla_build_size(&b, &shape, i);
  return count;
}

static bool find_parts(MlirOperation op, nabla_mesh *mesh,
                       nabla_axis_list *axes, nabla_atoms *atoms,
                       nabla_atom_list *parts) {
  if (find_mesh(op, mesh) && nabla_axes_read(get(op, "axes"), axes) &&
      nabla_atoms_of(mesh, atoms) && nabla_atoms_list(atoms, mesh, axes, parts))
    return true;
  nabla_error_at(op, "has axes of no mesh");
  return false;
}

/* A custom call whose handler exchanges values: its axes as it reads them. */
static bool lower_call(MlirOperation op, void *self) {
  (void)self;
  nabla_mesh mesh;
  nabla_axis_list axes;
  nabla_atoms atoms;
  nabla_atom_list parts;
  int64_t places[2 * NABLA_MAX_ATOMS];
  const nabla_builder b = {op};
  if (!find_mesh(op, &mesh)) return true; /* of one device */
  if (!find_parts(op, &mesh, &axes, &atoms, &parts)) return false;
  add_places(&parts, &atoms, places);
  const MlirNamedAttribute list =
      nabla_build_list(&b, "axes", (intptr_t)parts.count * 2, places);
  mlirOperationSetAttributeByName(op, nabla_ref("axes"), list.attribute);
  mlirOperationRemoveAttributeByName(op, nabla_ref(NABLA_EQUAL));
  return true;
}

static bool lower(MlirOperation op, void *self) {
  const bool *overlaps = self;
  nabla_mesh mesh;
  nabla_axis_list axes;
  nabla_atoms atoms;
  nabla_atom_list parts;
  MlirOperation last = {NULL};
  if (!find_parts(op, &mesh, &axes, &atoms, &parts)) return false;
  const bool starts = *overlaps && nabla_overlap_find(op, &last);
  const bool copies = starts && !nabla_is(op, "nabla.all_reduce");
  MlirValue operands[1 + 2 * NABLA_MAX_RANK];
  MlirType types[2] = {nabla_result_type(op, 0)};
  intptr_t count = 0, sizes = 0;
  if (mlirOperationGetNumOperands(op)) {
    operands[0] = mlirOperationGetOperand(op, 0);
    types[1] = mlirValueGetType(operands[0]);
    count = add_sizes(op, operands, nabla_axes_size(&mesh, &axes));
    sizes = count - 1;
    if (copies) count = add_copy_sizes(op, operands, count);
  }
  MlirNamedAttribute attributes[8];
  const intptr_t attribute_count =
      add_attributes(op, &parts, &atoms, starts, attributes);
  const MlirOperation made = make_call(op, count, operands, copies ? 2 : 1,
                                       types, attribute_count, attributes);
  if (mlirOperationIsNull(made)) return false;
  const MlirValue value = starts ? add_wait(made, last, sizes, operands + 1)
                                 : mlirOperationGetResult(made, 0);
  if (mlirValueIsNull(value)) return false;
  nabla_op_replace(op, &value);
  return true;
}

static bool erase(MlirOperation op, void *self) {
  (void)self;
  nabla_op_erase(op);
  return true;
}

MlirLogicalResult nabla_run_lower_collectives(MlirOperation op,
                                              const nablaPassValue *values,
                                              void *prepared) {
  (void)prepared;
  bool overlaps = !strcmp(values[0].string, "on");
  if (!overlaps && strcmp(values[0].string, "off") != 0) {
    nabla_error_at(op, "nabla-lower-collectives: overlap is on or off");
    return mlirLogicalResultFailure();
  }
  if (mlirLogicalResultIsFailure(
          nabla_ops_each(op, nabla_is_collective, lower, &overlaps)) ||
      mlirLogicalResultIsFailure(
          nabla_ops_each(op, nabla_is_exchanging_call, lower_call, NULL)))
    return mlirLogicalResultFailure();
  return nabla_ops_each(op, is_mesh, erase, NULL);
}
