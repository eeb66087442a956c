/* Verifier of nabla.shard_map: its region sees the pieces that its shardings
 * describe. */
#include <inttypes.h>
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <stdio.h>
#include <string.h>

#include "dialect/control.h"
#include "dialect/encoding/encoding_nested.h"
#include "dialect/shard/sharding.h"
#include "dialect/verify/verify.h"

#define ERROR(op, ...) NABLA_VERIFY_ERROR(op, __VA_ARGS__)

static MlirAttribute get(MlirOperation op, const char *key) {
  return mlirOperationGetAttributeByName(op,
                                         mlirStringRefCreateFromCString(key));
}
static MlirLogicalResult good(void) { return mlirLogicalResultSuccess(); }
static bool failed(MlirLogicalResult result) {
  return mlirLogicalResultIsFailure(result);
}

bool nabla_sharding_piece(const nabla_mesh *mesh,
                          const nabla_sharding *sharding, MlirType type,
                          int64_t out[NABLA_MAX_RANK],
                          char message[NABLA_MESSAGE_SIZE]) {
  for (uint32_t i = 0; i < sharding->rank && i < NABLA_MAX_RANK; i++) {
    const int64_t n = nabla_axes_size(mesh, &sharding->dims[i].axes);
    out[i] = nabla_array_dim(type, (intptr_t)i);
    if (nabla_is_dynamic(out[i])) continue;
    if (out[i] % n) {
      snprintf(message, NABLA_MESSAGE_SIZE,
               "dimension %u of size %" PRId64 " is not divided by %" PRId64, i,
               out[i], n);
      return false;
    }
    out[i] /= n;
  }
  return true;
}

bool nabla_shard_map_mesh(MlirOperation op, char out[NABLA_MESH_NAME]) {
  static const char *const keys[] = {"in", "out"};
  for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
    MlirAttribute list = get(op, keys[k]);
    if (mlirAttributeIsNull(list) || !mlirArrayAttrGetNumElements(list))
      continue;
    MlirAttribute first = mlirArrayAttrGetElement(list, 0);
    if (!nabla_sharding_is(first)) return false;
    const nabla_sharding sharding = nabla_sharding_read(first);
    memcpy(out, sharding.mesh, NABLA_MESH_NAME);
    return true;
  }
  return false;
}

/* `piece` is a piece of `whole`: `what` is "operand" or "result". */
static MlirLogicalResult check_piece(MlirOperation op, const nabla_mesh *mesh,
                                     MlirAttribute attribute, const char *what,
                                     intptr_t index, MlirType whole,
                                     MlirType piece) {
  char message[NABLA_MESSAGE_SIZE];
  int64_t dims[NABLA_MAX_RANK];
  const nabla_sharding sharding = nabla_sharding_read(attribute);
  const intptr_t rank = nabla_array_rank(whole);
  if (strcmp(sharding.mesh, mesh->name))
    return ERROR(op, "has shardings of two meshes, @%.60s and @%.60s",
                 mesh->name, sharding.mesh);
  if (!nabla_sharding_check(mesh, &sharding, rank, message) ||
      !nabla_sharding_piece(mesh, &sharding, whole, dims, message))
    return ERROR(op, "%s #%td: %s", what, index, message);
  if (sharding.partial.count)
    return ERROR(op,
                 "%s #%td has partial axes: join its values by all_reduce "
                 "in the region",
                 what, index);
  bool same =
      nablaTypeIsAImplicit(whole) == nablaTypeIsAImplicit(piece) &&
      nabla_array_rank(piece) == rank &&
      mlirTypeEqual(nabla_array_element(whole), nabla_array_element(piece));
  bool divides = false;
  for (intptr_t i = 0; same && i < rank; i++) {
    same = nabla_array_dim(piece, i) == dims[i];
    divides = divides || nabla_array_dim(whole, i) != dims[i];
  }
  if (same && nablaTypeIsAImplicit(whole)) {
    const MlirAttribute own = nablaImplicitTypeParts(whole).encoding;
    same = mlirAttributeEqual(divides ? nabla_encoding_of_pieces(own) : own,
                              nablaImplicitTypeParts(piece).encoding);
  }
  if (same) return good();
  return ERROR(op,
               "%s #%td is divided into pieces of %s, with the element type "
               "and encoding of the whole, packed scales as f32; the region "
               "has another type",
               what, index, nabla_shape_format(rank, dims).data);
}

static MlirLogicalResult check_lists(MlirOperation op) {
  const struct {
    const char *key, *what;
    intptr_t count;
  } lists[] = {{"in", "operand", mlirOperationGetNumOperands(op)},
               {"out", "result", mlirOperationGetNumResults(op)}};
  for (size_t k = 0; k < 2; k++) {
    MlirAttribute list = get(op, lists[k].key);
    const intptr_t count = mlirArrayAttrGetNumElements(list);
    if (count != lists[k].count)
      return ERROR(op, "%s has %td shardings, one for each of %td %ss",
                   lists[k].key, count, lists[k].count, lists[k].what);
    for (intptr_t i = 0; i < count; i++)
      if (!nabla_sharding_is(mlirArrayAttrGetElement(list, i)))
        return ERROR(op, "%s has an element that is no sharding", lists[k].key);
  }
  return good();
}

MlirLogicalResult verify_shard_map(MlirOperation op) {
  char name[NABLA_MESH_NAME] = "";
  nabla_mesh mesh;
  if (failed(verify_whole_values(op)) || failed(check_lists(op)))
    return mlirLogicalResultFailure();
  (void)nabla_shard_map_mesh(op, name);
  if (!nabla_mesh_find(op, name, &mesh))
    return ERROR(op, "the module has no mesh @%.60s", name);
  MlirBlock body = nabla_region_block(op, 0);
  MlirOperation end = nabla_block_end(body);
  const intptr_t inputs = mlirOperationGetNumOperands(op);
  const intptr_t results = mlirOperationGetNumResults(op);
  if (mlirOperationIsNull(end) ||
      !nabla_text_equals(mlirIdentifierStr(mlirOperationGetName(end)),
                         "nabla.yield") ||
      mlirOperationGetNumOperands(end) != results)
    return ERROR(op, "the region ends with nabla.yield of %td values", results);
  if (mlirBlockGetNumArguments(body) != inputs)
    return ERROR(op,
                 "the region has %td arguments, one for each of %td operands",
                 mlirBlockGetNumArguments(body), inputs);
  for (intptr_t i = 0; i < inputs; i++)
    if (failed(check_piece(op, &mesh, mlirArrayAttrGetElement(get(op, "in"), i),
                           "operand", i,
                           mlirValueGetType(mlirOperationGetOperand(op, i)),
                           mlirValueGetType(mlirBlockGetArgument(body, i)))))
      return mlirLogicalResultFailure();
  for (intptr_t i = 0; i < results; i++) {
    MlirType piece = mlirValueGetType(mlirOperationGetOperand(end, i));
    if (!nablaTypeIsAImplicit(piece) && !mlirTypeIsARankedTensor(piece))
      return ERROR(op, "yields a value that is no array as result #%td", i);
    if (failed(check_piece(
            op, &mesh, mlirArrayAttrGetElement(get(op, "out"), i), "result", i,
            mlirValueGetType(mlirOperationGetResult(op, i)), piece)))
      return mlirLogicalResultFailure();
  }
  return good();
}
