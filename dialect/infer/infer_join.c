/* Result types of concatenate and stack: implicit where the components of the
 * operands, joined, are those of the result. See infer.h. */
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>

#include "dialect/encoding/slice_blocks.h"
#include "dialect/infer/infer.h"

#define ERROR(in, ...) NABLA_INFER_ERROR(in, __VA_ARGS__)

/* Operands are as the first one, but for dimension `apart` (-1: none); their
 * sizes, as far as they are known, to `shape`. */
static bool read_operands(const nablaInference *in, intptr_t apart,
                          int64_t shape[NABLA_MAX_RANK]) {
  MlirType first = nabla_infer_operand(in, 0);
  intptr_t rank = nabla_array_rank(first);
  for (intptr_t i = 0; i < rank; i++) shape[i] = nabla_array_dim(first, i);
  for (intptr_t n = 1; n < in->operandCount; n++) {
    MlirType type = nabla_infer_operand(in, n);
    if (!mlirTypeEqual(nabla_array_element(first), nabla_array_element(type))) {
      ERROR(in, "operands have the same element type");
      return false;
    }
    bool good = nabla_array_rank(type) == rank;
    for (intptr_t i = 0; good && i < rank; i++) {
      int64_t size = nabla_array_dim(type, i);
      if (i == apart) continue;
      good = nabla_dims_compatible(shape[i], size);
      if (nabla_is_dynamic(shape[i])) shape[i] = size;
    }
    if (good) continue;
    ERROR(in, "operand #%d, %s, cannot be joined to %s%s", (int)n,
          nabla_infer_text(type).data, nabla_infer_text(first).data,
          apart < 0 ? "" : ": they differ in more than dim");
    return false;
  }
  return true;
}

/* Does an array end where a block does? */
static bool ends_with_block(MlirType type) {
  nabla_encoding_info info = nabla_implicit_encoding(type);
  if (info.kind == NABLA_KIND_CUSTOM)
    return info.block &&
           nabla_implicit_storage_elements(type) % info.block == 0;
  nabla_format format = nabla_implicit_format(type);
  if (format.granularity == NABLA_PER_ROW) return true;
  return format.granularity == NABLA_PER_BLOCK &&
         nabla_implicit_storage_elements(type) % format.block == 0;
}

/* Elements [first, first + size) of scales that are packed. */
static MlirType piece_of_scales(MlirType scales, const nabla_cut *cut) {
  nabla_strided view = {1, {cut->size[1]}, {1}, cut->first[1]};
  return nabla_implicit_with_view(scales, &view);
}

/* Are the components of the arrays, joined, those of `joined`? Those of their
 * scales, if these are packed, must be so too. */
static bool components_join(intptr_t operands, const MlirType *types,
                            MlirType joined) {
  nabla_implicit_component whole[NABLA_MAX_PARTS], parts[NABLA_MAX_PARTS];
  uint32_t count = nabla_implicit_components(joined, whole);
  MlirType pieces[NABLA_MAX_OPERANDS];
  nabla_cut cut;
  bool nested = count > 1 && nablaTypeIsAImplicit(whole[1].type);
  for (intptr_t n = 0; n < operands; n++) {
    bool last = n + 1 == operands;
    if (!nabla_cut_read(types[n], &cut) ||
        (count > 0 && !last && !ends_with_block(cut.alone)))
      return false;
    for (uint32_t i = 0; i < count; i++) whole[i].count -= cut.size[i];
    nabla_implicit_components(types[n], parts);
    if (nested) pieces[n] = piece_of_scales(parts[1].type, &cut);
  }
  for (uint32_t i = 0; i < count; i++)
    if (whole[i].count != 0) return false;
  return !nested || components_join(operands, pieces, whole[1].type);
}

/* The operands, implicit and joined along `dim`; false where that is no array
 * whose components are theirs. */
static bool join_implicit(const nablaInference *in, intptr_t dim,
                          const int64_t *shape, MlirType *out) {
  MlirType first = nabla_infer_operand(in, 0);
  if (!nablaTypeIsAImplicit(first) || !nabla_implicit_has_views(first))
    return false;
  nablaImplicit parts = nablaImplicitTypeParts(first);
  for (intptr_t n = 0; n < in->operandCount; n++) {
    MlirType type = nabla_infer_operand(in, n);
    if (!nablaTypeIsAImplicit(type)) return false;
    if (!mlirAttributeEqual(parts.encoding,
                            nablaImplicitTypeParts(type).encoding))
      return false;
  }
  nabla_encoding_info info = nabla_encoding_read(parts.encoding);
  if (info.kind == NABLA_KIND_LORA && in->operandCount > 1) return false;
  if (info.kind != NABLA_KIND_SPLAT) {
    if (info.granularity == NABLA_PER_ROW && dim != 0) return false;
    for (intptr_t i = 0; i < dim; i++)
      if (shape[i] != 1) return false;
  }
  char message[NABLA_MESSAGE_SIZE];
  nablaImplicitType stored = {parts.rank,    0, shape, NULL, parts.elementType,
                              parts.encoding};
  if (!nablaHookImplicitVerify(&stored, message)) return false; /* too large */
  *out = nablaImplicitTypeGet(in->context, &stored);
  MlirType types[NABLA_MAX_OPERANDS];
  for (intptr_t n = 0; n < in->operandCount; n++)
    types[n] = nabla_infer_operand(in, n);
  return components_join(in->operandCount, types, *out);
}

static bool check_count(const nablaInference *in) {
  if (in->operandCount >= 1 && in->operandCount <= NABLA_MAX_OPERANDS)
    return true;
  ERROR(in, "takes 1 to %d arrays, not %d", NABLA_MAX_OPERANDS,
        (int)in->operandCount);
  return false;
}

MlirLogicalResult infer_concatenate(const nablaInference *in, MlirType types[],
                                    intptr_t *count) {
  int64_t shape[NABLA_MAX_RANK], dim = nabla_infer_integer(in, "dim");
  if (!check_count(in)) return mlirLogicalResultFailure();
  MlirType joined, first = nabla_infer_operand(in, 0);
  intptr_t rank = nabla_array_rank(first);
  if (dim < 0 || dim >= rank)
    return ERROR(in, "dim is less than the rank, %d, and not negative",
                 (int)rank);
  if (!read_operands(in, (intptr_t)dim, shape))
    return mlirLogicalResultFailure();
  int64_t sum = 0;
  for (intptr_t n = 0; n < in->operandCount; n++) {
    int64_t size = nabla_array_dim(nabla_infer_operand(in, n), (intptr_t)dim);
    if (nabla_is_dynamic(sum) || nabla_is_dynamic(size))
      sum = mlirShapedTypeGetDynamicSize();
    else if (__builtin_add_overflow(sum, size, &sum))
      return ERROR(in, "the result is too large");
  }
  shape[dim] = sum;
  if (join_implicit(in, (intptr_t)dim, shape, &joined))
    return nabla_infer_give(joined, types, count);
  return nabla_infer_give(
      nabla_infer_tensor(rank, shape, nabla_array_element(first)), types,
      count);
}

/* A stack is a reshape of the arrays joined along their first dimension. */
static bool stack_implicit(const nablaInference *in, const int64_t *shape,
                           MlirType *out) {
  MlirType first = nabla_infer_operand(in, 0);
  intptr_t rank = nabla_array_rank(first);
  int64_t joined[NABLA_MAX_RANK];
  if (rank == 0) return false;
  for (intptr_t i = 0; i < rank; i++) joined[i] = shape[i + 1];
  if (__builtin_mul_overflow(joined[0], shape[0], &joined[0])) return false;
  nabla_strided view;
  if (!join_implicit(in, 0, joined, out) ||
      !nabla_implicit_reshape(*out, rank + 1, shape, &view))
    return false;
  *out = nabla_implicit_with_view(*out, &view);
  return true;
}

MlirLogicalResult infer_stack(const nablaInference *in, MlirType types[],
                              intptr_t *count) {
  int64_t shape[NABLA_MAX_RANK], whole[NABLA_MAX_RANK];
  int64_t dim = nabla_infer_integer(in, "dim");
  if (!check_count(in)) return mlirLogicalResultFailure();
  MlirType joined, first = nabla_infer_operand(in, 0);
  intptr_t rank = nabla_array_rank(first);
  if (rank >= NABLA_MAX_RANK)
    return ERROR(in, "arrays have at most %d dimensions", NABLA_MAX_RANK);
  if (dim < 0 || dim > rank)
    return ERROR(in, "dim is at most the rank, %d, and not negative",
                 (int)rank);
  if (!read_operands(in, -1, shape)) return mlirLogicalResultFailure();
  for (intptr_t i = 0; i <= rank; i++)
    whole[i] = i == dim ? in->operandCount : shape[i < dim ? i : i - 1];
  if (dim == 0 && stack_implicit(in, whole, &joined))
    return nabla_infer_give(joined, types, count);
  return nabla_infer_give(
      nabla_infer_tensor(rank + 1, whole, nabla_array_element(first)), types,
      count);
}
