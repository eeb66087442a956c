/* See control.h. */
#include "dialect/control.h"

#include <mlir-c/BuiltinTypes.h>

#include "dialect/checks.h"

MlirBlock nabla_region_block(MlirOperation op, intptr_t region) {
  return mlirRegionGetFirstBlock(mlirOperationGetRegion(op, region));
}

MlirOperation nabla_block_end(MlirBlock block) {
  MlirOperation last = {NULL};
  for (MlirOperation op = mlirBlockGetFirstOperation(block);
       !mlirOperationIsNull(op); op = mlirOperationGetNextInBlock(op))
    last = op;
  return last;
}

nabla_scan nabla_scan_read(MlirOperation op) {
  nabla_scan scan = {.op = op,
                     .carries = nabla_op_segment(op, 0),
                     .inputs = nabla_op_segment(op, 1),
                     .lengths = nabla_op_segment(op, 2),
                     .sizes = nabla_op_segment(op, 3)};
  scan.outputs = mlirOperationGetNumResults(op) - scan.carries;
  scan.reverse = !mlirAttributeIsNull(mlirOperationGetAttributeByName(
      op, mlirStringRefCreateFromCString("reverse")));
  return scan;
}

/* Both have the same element type, and the dimensions of `slice` are those of
 * `whole` behind the first. */
static bool is_slice(MlirType whole, MlirType slice) {
  intptr_t rank = nabla_array_rank(slice);
  if (nabla_array_rank(whole) != rank + 1 ||
      !mlirTypeEqual(nabla_array_element(whole), nabla_array_element(slice)))
    return false;
  for (intptr_t i = 0; i < rank; i++)
    if (nabla_array_dim(whole, i + 1) != nabla_array_dim(slice, i))
      return false;
  return true;
}

bool nabla_slices_find(MlirType whole, MlirType slice, nabla_slices *out) {
  nabla_implicit_component all[NABLA_MAX_PARTS], part[NABLA_MAX_PARTS];
  if (!nablaTypeIsAImplicit(whole) || !nablaTypeIsAImplicit(slice) ||
      !is_slice(whole, slice))
    return false;
  nablaImplicit a = nablaImplicitTypeParts(whole);
  nablaImplicit b = nablaImplicitTypeParts(slice);
  if (!mlirAttributeEqual(a.encoding, b.encoding) || a.storageRank >= 0 ||
      b.storageRank >= 0)
    return false;
  out->components = nabla_implicit_components(whole, all);
  nabla_implicit_components(slice, part);
  if (out->components == 0) return true; /* nothing is stored */
  /* whole blocks, or the next slice would begin within one */
  uint64_t elements = nabla_implicit_storage_elements(slice);
  if (elements % nabla_implicit_format(whole).block) return false;
  for (uint32_t i = 0; i < out->components; i++) {
    out->count[i] = part[i].count;
    int64_t stacked;
    if (__builtin_mul_overflow(part[i].count, a.shape[0], &stacked) ||
        stacked != all[i].count)
      return false;
  }
  return true;
}

bool nabla_slice_is_dense(MlirType whole, MlirType slice) {
  return !nablaTypeIsAImplicit(slice) && mlirTypeIsARankedTensor(slice) &&
         is_slice(nabla_dense_type(whole), slice);
}
