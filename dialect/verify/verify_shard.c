/* Verifiers of meshes, shardings and collectives. */
#include <inttypes.h>
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <string.h>

#include "dialect/control.h"
#include "dialect/shard/sharding.h"
#include "dialect/verify/verify.h"

#define ERROR(op, ...) NABLA_VERIFY_ERROR(op, __VA_ARGS__)

static MlirAttribute get(MlirOperation op, const char *key) {
  return mlirOperationGetAttributeByName(op,
                                         mlirStringRefCreateFromCString(key));
}
static MlirLogicalResult good(void) { return mlirLogicalResultSuccess(); }
static bool is(MlirOperation op, const char *name) {
  return nabla_text_equals(mlirIdentifierStr(mlirOperationGetName(op)), name);
}

/* ---- meshes ---- */

/* `bandwidth` and `latency`: a positive number for each axis. */
static MlirLogicalResult check_numbers(MlirOperation op, const char *key,
                                       const nabla_mesh *mesh) {
  MlirAttribute list = get(op, key);
  if (mlirAttributeIsNull(list)) return good();
  if (mlirArrayAttrGetNumElements(list) != (intptr_t)mesh->count)
    return ERROR(op, "%s has %td numbers, the mesh has %u axes", key,
                 mlirArrayAttrGetNumElements(list), mesh->count);
  for (uint32_t i = 0; i < mesh->count; i++) {
    MlirAttribute one = mlirArrayAttrGetElement(list, (intptr_t)i);
    if (!mlirAttributeIsAFloat(one) || !(mlirFloatAttrGetValueDouble(one) > 0))
      return ERROR(op, "%s is a positive float for each axis", key);
  }
  return good();
}

/* `devices`: each number below that of devices, once. */
static MlirLogicalResult check_devices(MlirOperation op,
                                       const nabla_mesh *mesh) {
  MlirAttribute list = get(op, "devices");
  if (mlirAttributeIsNull(list)) return good();
  const intptr_t count = mlirArrayAttrGetNumElements(list);
  if (count != mesh->devices)
    return ERROR(op,
                 "devices has %td numbers, the mesh has %" PRId64 " devices",
                 count, mesh->devices);
  int64_t sum = 0;
  for (intptr_t i = 0; i < count; i++) {
    MlirAttribute one = mlirArrayAttrGetElement(list, i);
    const int64_t at =
        mlirAttributeIsAInteger(one) ? mlirIntegerAttrGetValueInt(one) : -1;
    for (intptr_t k = 0; k < i; k++)
      if (mlirAttributeEqual(one, mlirArrayAttrGetElement(list, k)))
        return ERROR(op, "devices has %" PRId64 " twice", at);
    if (at < 0 || at >= count)
      return ERROR(op, "devices are numbers from 0 to %td", count - 1);
    sum += at;
  }
  return sum == (int64_t)count * (count - 1) / 2
             ? good()
             : ERROR(op, "devices has each number once");
}

MlirLogicalResult verify_mesh(MlirOperation op) {
  nabla_mesh mesh;
  char message[NABLA_MESSAGE_SIZE];
  MlirOperation parent = mlirOperationGetParentOperation(op);
  if (mlirOperationIsNull(parent) || !is(parent, "builtin.module"))
    return ERROR(op, "stands in a module");
  if (!nabla_mesh_read(op, &mesh, message)) return ERROR(op, "%s", message);
  if (mlirLogicalResultIsFailure(check_numbers(op, "bandwidth", &mesh)) ||
      mlirLogicalResultIsFailure(check_numbers(op, "latency", &mesh)))
    return mlirLogicalResultFailure();
  return check_devices(op, &mesh);
}

/* ---- lists of shardings ---- */

MlirLogicalResult nabla_verify_shardings(MlirOperation op) {
  MlirAttribute value = get(op, "nabla.shardings");
  if (mlirAttributeIsNull(value)) return good();
  const intptr_t results = mlirOperationGetNumResults(op);
  const intptr_t inputs = is(op, "nabla.scan") ? nabla_scan_read(op).inputs : 0;
  if (!mlirAttributeIsAArray(value))
    return ERROR(op,
                 "nabla.shardings is a list with a sharding for each "
                 "result");
  const intptr_t given = mlirArrayAttrGetNumElements(value);
  if (given == results || given == results + inputs) return good();
  if (inputs)
    return ERROR(op,
                 "nabla.shardings has %td shardings, the operation %td results "
                 "and %td inputs",
                 given, results, inputs);
  return ERROR(op,
               "nabla.shardings has %td shardings, the operation %td "
               "results",
               given, results);
}

/* ---- constraints ---- */

static bool is_partitioned(MlirOperation function, char mesh[NABLA_MESH_NAME]) {
  if (mlirOperationIsNull(function)) return false;
  MlirAttribute name = get(function, "nabla.partitioned");
  if (mlirAttributeIsNull(name) || !mlirAttributeIsAFlatSymbolRef(name))
    return false;
  MlirStringRef text = mlirFlatSymbolRefAttrGetValue(name);
  if (text.length >= NABLA_MESH_NAME) return false;
  memcpy(mesh, text.data, text.length);
  mesh[text.length] = 0;
  return true;
}

/* The mesh of the shard_map or partitioned function around `op`; false where it
 * stands in neither. */
static bool mesh_around(MlirOperation op, char mesh[NABLA_MESH_NAME]) {
  MlirOperation at = mlirOperationGetParentOperation(op);
  while (!mlirOperationIsNull(at) && !is(at, "func.func")) {
    if (is(at, "nabla.shard_map")) return nabla_shard_map_mesh(at, mesh);
    at = mlirOperationGetParentOperation(at);
  }
  return is_partitioned(at, mesh);
}

MlirLogicalResult verify_whole_values(MlirOperation op) {
  char name[NABLA_MESH_NAME];
  if (mesh_around(op, name))
    return ERROR(op, "stands outside of shard_map and partitioned functions");
  return good();
}

/* The first of the same group in the function has the same shape. */
MlirLogicalResult verify_sharding_group(MlirOperation op) {
  if (mlirLogicalResultIsFailure(verify_whole_values(op)))
    return mlirLogicalResultFailure();
  const int64_t group = nabla_op_integer(op, "group", 0);
  MlirOperation at = mlirBlockGetFirstOperation(mlirOperationGetBlock(op));
  MlirType own = mlirValueGetType(mlirOperationGetOperand(op, 0));
  for (; !mlirOperationEqual(at, op); at = mlirOperationGetNextInBlock(at)) {
    if (!is(at, "nabla.sharding_group") ||
        nabla_op_integer(at, "group", 0) != group)
      continue;
    MlirType type = mlirValueGetType(mlirOperationGetOperand(at, 0));
    bool same = nabla_array_rank(type) == nabla_array_rank(own);
    for (intptr_t i = 0; same && i < nabla_array_rank(own); i++)
      same = nabla_array_dim(type, i) == nabla_array_dim(own, i);
    return same ? good()
                : ERROR(op, "has another shape than group %" PRId64 " before",
                        group);
  }
  return good();
}

MlirLogicalResult verify_sharding_constraint(MlirOperation op) {
  nabla_mesh mesh;
  char message[NABLA_MESSAGE_SIZE];
  MlirAttribute attribute = get(op, "sharding");
  if (!nabla_sharding_is(attribute))
    return ERROR(op, "has an attribute that is no sharding");
  if (mlirLogicalResultIsFailure(verify_whole_values(op)))
    return mlirLogicalResultFailure();
  const nabla_sharding sharding = nabla_sharding_read(attribute);
  if (!nabla_mesh_find(op, sharding.mesh, &mesh))
    return ERROR(op, "the module has no mesh @%.60s", sharding.mesh);
  if (!nabla_sharding_check(
          &mesh, &sharding,
          nabla_array_rank(mlirValueGetType(mlirOperationGetOperand(op, 0))),
          message))
    return ERROR(op, "%s", message);
  return good();
}

/* ---- collectives ---- */

typedef struct shapes {
  MlirType from, to;
  int64_t devices; /* that exchange values */
} shapes;

/* The result is the operand but for dimension `dim`, whose size is multiplied
 * and divided by numbers. */
static MlirLogicalResult check_dim(MlirOperation op, const shapes *s,
                                   const char *key, int64_t times, int64_t by,
                                   const char *other) {
  const int64_t dim = nabla_op_integer(op, key, 0);
  const int64_t skip = other ? nabla_op_integer(op, other, -1) : -1;
  const intptr_t rank = nabla_array_rank(s->from);
  if (dim < 0 || dim >= rank)
    return ERROR(op, "%s is %" PRId64 ", the operand has %td dimensions", key,
                 dim, rank);
  if (skip == dim) return ERROR(op, "%s and %s are one dimension", key, other);
  if (nabla_array_rank(s->to) != rank ||
      !mlirTypeEqual(nabla_array_element(s->from), nabla_array_element(s->to)))
    return ERROR(op, "the result has the rank and element type of the operand");
  for (intptr_t i = 0; i < rank; i++) {
    const int64_t from = nabla_array_dim(s->from, i);
    const int64_t to = nabla_array_dim(s->to, i);
    if (i == skip) continue;
    if (i != dim && from == to) continue;
    if (i == dim && nabla_is_dynamic(from) && nabla_is_dynamic(to)) continue;
    if (i == dim && !nabla_is_dynamic(from) && !nabla_is_dynamic(to) &&
        from * times % by == 0 && from * times / by == to)
      continue;
    return ERROR(op,
                 "dimension %td is %" PRId64 " in the operand and %" PRId64
                 " in the result, for %" PRId64 " devices",
                 i, from, to, s->devices);
  }
  return good();
}

/* `pairs`: sources and targets, each device at most once as one of them. */
static MlirLogicalResult check_pairs(MlirOperation op, int64_t devices) {
  MlirAttribute list = get(op, "pairs");
  const intptr_t count = mlirDenseArrayGetNumElements(list);
  if (count % 2) return ERROR(op, "pairs has a target for each source");
  for (intptr_t i = 0; i < count; i++) {
    const int64_t at = mlirDenseI64ArrayGetElement(list, i);
    if (at < 0 || at >= devices)
      return ERROR(op, "pairs has device %" PRId64 " of %" PRId64, at, devices);
    for (intptr_t k = i % 2; k < i; k += 2)
      if (mlirDenseI64ArrayGetElement(list, k) == at)
        return ERROR(op, "pairs has device %" PRId64 " twice as a %s", at,
                     i % 2 ? "target" : "source");
  }
  return good();
}

static MlirLogicalResult check_shapes(MlirOperation op, const shapes *s) {
  const int64_t n = s->devices;
  if (is(op, "nabla.all_gather")) return check_dim(op, s, "dim", n, 1, NULL);
  if (is(op, "nabla.all_slice") || is(op, "nabla.reduce_scatter"))
    return check_dim(op, s, "dim", 1, n, NULL);
  if (is(op, "nabla.all_to_all")) {
    if (mlirLogicalResultIsFailure(check_dim(op, s, "split", 1, n, "concat")))
      return mlirLogicalResultFailure();
    return check_dim(op, s, "concat", n, 1, "split");
  }
  if (is(op, "nabla.permute")) return check_pairs(op, n);
  if (is(op, "nabla.broadcast")) {
    const int64_t from = nabla_op_integer(op, "from", 0);
    if (from < 0 || from >= n)
      return ERROR(op, "from is device %" PRId64 " of %" PRId64, from, n);
  }
  return good();
}

MlirLogicalResult verify_collective(MlirOperation op) {
  nabla_mesh mesh;
  nabla_axis_list axes;
  uint64_t used[NABLA_MESH_MAX_AXES] = {0};
  char message[NABLA_MESSAGE_SIZE], name[NABLA_MESH_NAME];
  if (!mesh_around(op, name))
    return ERROR(op,
                 "stands in nabla.shard_map and in partitioned functions "
                 "alone, which have the attribute nabla.partitioned = @mesh");
  if (!nabla_mesh_find(op, name, &mesh))
    return ERROR(op, "the module has no mesh @%.60s", name);
  if (!nabla_axes_read(get(op, "axes"), &axes) || !axes.count)
    return ERROR(op, "axes is a list such as [\"model\", \"data:(2)2\"]");
  if (!nabla_axes_check(&mesh, &axes, used, message))
    return ERROR(op, "%s", message);
  const int64_t kind = nabla_op_integer(op, "kind", 0);
  if (kind == 4) return ERROR(op, "mean cannot be joined: divide the sum");
  if (!mlirOperationGetNumOperands(op)) return good();
  const shapes s = {mlirValueGetType(mlirOperationGetOperand(op, 0)),
                    mlirValueGetType(mlirOperationGetResult(op, 0)),
                    nabla_axes_size(&mesh, &axes)};
  return check_shapes(op, &s);
}
