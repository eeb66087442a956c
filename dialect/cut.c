/* See cut.h. */
#include "dialect/cut.h"

#include <stdint.h>

/* Does the view name neighbours in order? */
static bool is_contiguous(const nabla_strided *view) {
  int64_t expected = 1;
  for (intptr_t i = view->rank; i-- > 0;) {
    if (view->shape[i] == 0) return false;
    if (view->shape[i] > 1 && view->strides[i] != expected) return false;
    expected *= view->shape[i];
  }
  return true;
}

/* The piece as a type of its own; false where the encoding has no such. */
static bool read_alone(MlirType type, const nabla_strided *view,
                       MlirType *out) {
  char message[NABLA_MESSAGE_SIZE];
  nablaImplicit parts = nablaImplicitTypeParts(type);
  nablaImplicitType stored = {
      parts.rank, 0, view->shape, NULL, parts.elementType, parts.encoding};
  if (!nablaHookImplicitVerify(&stored, message)) return false;
  *out = nablaImplicitTypeGet(mlirTypeGetContext(type), &stored);
  return true;
}

bool nabla_cut_read(MlirType type, nabla_cut *out) {
  nabla_implicit_component parts[NABLA_MAX_PARTS];
  *out = (nabla_cut){.alone = type};
  bool is_view = nablaImplicitTypeParts(type).storageRank >= 0;
  nabla_strided view = nabla_implicit_strided(type);
  if (is_view &&
      (!is_contiguous(&view) || !read_alone(type, &view, &out->alone)))
    return false;
  out->count = nabla_implicit_components(out->alone, parts);
  for (uint32_t i = 0; i < out->count; i++) out->size[i] = parts[i].count;
  if (!is_view) return true;
  if (nabla_implicit_encoding(type).kind != NABLA_KIND_PACKED) return false;
  nabla_format format = nabla_implicit_format(type);
  nabla_format alone = nabla_implicit_format(out->alone);
  uint64_t offset = (uint64_t)view.offset;
  if (out->count != 2 || format.granularity == NABLA_PER_TENSOR ||
      format.block != alone.block || offset % format.block != 0 ||
      offset % 8 * format.encoding->bits % 8 != 0)
    return false;
  out->first[0] = (int64_t)(offset / 8 * format.encoding->bits +
                            offset % 8 * format.encoding->bits / 8);
  out->first[1] = (int64_t)(offset / format.block);
  return true;
}
