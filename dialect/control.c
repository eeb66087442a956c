/* See control.h. */
#include "dialect/control.h"

#include <mlir-c/BuiltinTypes.h>

#include "dialect/verify/checks.h"

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

nabla_scan_parts nabla_scan_read(MlirOperation op) {
  nabla_scan_parts scan = {.op = op,
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

/* Elements of storage from one slice to the next, and the storage of a slice;
 * its first dimension is that of the whole left away, where that has it. */
static int64_t slice_storage(const nablaImplicit *whole,
                             const nabla_strided *view, nablaImplicit *slice) {
  bool same = whole->storageRank < 0 ||
              (whole->storageRank > 1 && whole->storage[0] == whole->shape[0]);
  const int64_t *from = whole->storageRank < 0 ? whole->shape : whole->storage;
  if (!same) from = whole->shape;
  slice->storageRank =
      same && whole->storageRank > 0 ? whole->storageRank - 1 : slice->rank;
  int64_t elements = 1;
  for (intptr_t i = 0; i < slice->storageRank; i++) {
    slice->storage[i] = from[i + 1];
    elements *= from[i + 1];
  }
  if (whole->shape[0] > 1 && elements && elements != view->strides[0]) {
    elements = view->strides[0]; /* slices that overlap, or miss some */
    slice->storageRank = 1;
    slice->storage[0] = elements;
  }
  return elements;
}

MlirType nabla_slice_type(MlirType whole) {
  MlirType none = {NULL};
  nablaImplicit a = nablaImplicitTypeParts(whole), b = {.rank = a.rank - 1};
  nabla_strided view = nabla_implicit_strided(whole);
  int64_t stored_view[2 * NABLA_MAX_RANK + 2], *at = stored_view;
  nablaImplicitType stored = {
      b.rank, 0, a.shape + 1, stored_view, a.elementType, a.encoding};
  char message[NABLA_MESSAGE_SIZE];
  if (nabla_encoding_is_stored(nabla_encoding_read(a.encoding).kind)) {
    if (slice_storage(&a, &view, &b) < 0) return none;
    if (b.storageRank > 0) {
      *at++ = b.storageRank;
      for (intptr_t i = 0; i < b.storageRank; i++) *at++ = b.storage[i];
      for (intptr_t i = 0; i < b.rank; i++) *at++ = view.strides[i + 1];
      *at++ = view.offset;
    }
    stored.viewSize = at - stored_view;
  }
  if (!nablaHookImplicitVerify(&stored, message)) return none;
  return nablaHookImplicitCanonical(mlirTypeGetContext(whole), &stored);
}

/* Adds the leaves of both, of which the whole has `length` slices. */
static bool find_leaves(MlirType whole, MlirType slice, int64_t length,
                        nabla_slices *out) {
  nabla_implicit_component all[NABLA_MAX_PARTS], part[NABLA_MAX_PARTS];
  uint32_t count = nabla_implicit_components(whole, all);
  nabla_implicit_components(slice, part);
  if (count == 0) return true; /* nothing is stored */
  /* whole blocks, or the next slice would begin within one */
  uint64_t elements = nabla_implicit_storage_elements(slice);
  nabla_encoding_info info = nabla_implicit_encoding(whole);
  uint64_t block = info.kind == NABLA_KIND_CUSTOM
                       ? info.block
                       : nabla_implicit_format(whole).block;
  if (block == 0 || elements % block) return false;
  bool dynamic8 = info.kind == NABLA_KIND_DYNAMIC8;
  for (uint32_t i = 0; i < count; i++) {
    int64_t stacked;
    bool shared = dynamic8 && i >= 2; /* offset and map are the tensor's */
    if (!shared && (__builtin_mul_overflow(part[i].count, length, &stacked) ||
                    stacked != all[i].count))
      return false;
    if (nablaTypeIsAImplicit(all[i].type)) {
      if (!find_leaves(all[i].type, part[i].type, length, out)) return false;
      continue;
    }
    out->shared[out->leaves] = shared;
    out->any_shared = out->any_shared || shared;
    out->count[out->leaves++] = part[i].count;
  }
  return true;
}

bool nabla_slices_find(MlirType whole, MlirType slice, nabla_slices *out) {
  *out = (nabla_slices){0};
  if (!nablaTypeIsAImplicit(whole) || !nablaTypeIsAImplicit(slice) ||
      !nabla_implicit_has_views(whole) || !is_slice(whole, slice))
    return false;
  if (nabla_array_dim(whole, 0) == 0) {
    /* no slices: strides of what has no elements are not known */
    if (!mlirAttributeEqual(nablaImplicitTypeParts(whole).encoding,
                            nablaImplicitTypeParts(slice).encoding))
      return false;
  } else {
    MlirType expected = nabla_slice_type(whole);
    if (mlirTypeIsNull(expected) || !mlirTypeEqual(expected, slice))
      return false;
  }
  return find_leaves(whole, slice, nabla_array_dim(whole, 0), out);
}

bool nabla_slice_is_dense(MlirType whole, MlirType slice) {
  return !nablaTypeIsAImplicit(slice) && mlirTypeIsARankedTensor(slice) &&
         is_slice(nabla_dense_type(whole), slice);
}
