/* See slice_blocks.h. */
#include "dialect/encoding/slice_blocks.h"

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

/* Elements [first, first + size) of packed scales, which are a list, begin
 * where a block of theirs does. */
static bool cut_scales(MlirType scales, int64_t first, int64_t size) {
  nabla_strided view = {1, {size}, {1}, first};
  nabla_cut cut;
  if (!nablaTypeIsAImplicit(scales)) return true;
  if (size == 0) return false;
  return nabla_cut_read(nabla_implicit_with_view(scales, &view), &cut);
}

/* The piece begins with a block, and its codes with a byte. */
static bool cut_blocks(MlirType type, uint64_t offset, nabla_cut *out) {
  nabla_format format = nabla_implicit_format(type);
  nabla_format alone = nabla_implicit_format(out->alone);
  uint64_t bits = format.encoding ? format.encoding->bits : 8;
  if (format.granularity == NABLA_PER_TENSOR || format.block != alone.block ||
      offset % format.block != 0 || offset % 8 * bits % 8 != 0)
    return false;
  out->first[0] = (int64_t)(offset / 8 * bits + offset % 8 * bits / 8);
  out->first[1] = (int64_t)(offset / format.block);
  if (format.zero_point) out->first[2] = out->first[1];
  return true;
}

/* The piece is whole blocks. */
static bool cut_ggml(const nabla_ggml *format, uint64_t offset,
                     nabla_cut *out) {
  if (offset % format->elements) return false;
  out->first[0] = (int64_t)(offset / format->elements * format->bytes);
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
  nabla_encoding_info info = nabla_implicit_encoding(type);
  nabla_encoding_kind kind = info.kind;
  if (kind == NABLA_KIND_GGML)
    return cut_ggml(info.ggml, (uint64_t)view.offset, out);
  if (kind == NABLA_KIND_LORA || kind == NABLA_KIND_CUSTOM || out->count < 2 ||
      !cut_blocks(type, (uint64_t)view.offset, out))
    return false;
  nabla_implicit_components(type, parts);
  return cut_scales(parts[1].type, out->first[1], out->size[1]);
}
