/* What is written when all scales are known: dynamic8 codes of scales, and what
 * describes them (docs/FORMAT.md, E6). */
#include <string.h>

#include "lib/base/bytes.h"
#include "lib/base/checked.h"
#include "quant/formats/checkpoint_internal.h"
#include "quant/write.h"

/* Scales at once: whole chunks of the sum, and of groups. */
enum { PIECE = 1 << 15 };

typedef struct nest {
  nabla_file_job *job;
  const nabla_item *item;
  nabla_tensor tensor;
  nabla_format format;
  nabla_components parts;
  uint64_t scales;
  float *values, *absmax; /* PIECE each */
  uint8_t *codes;
} nest;

static size_t id_of(const nest *n, nabla_component_kind kind) {
  size_t i = 0;
  while (n->parts.item[i].kind != kind) i++;
  return n->item->id + i;
}

static nabla_status put_floats(const nest *n, nabla_component_kind kind,
                               uint64_t at, float *values, size_t count,
                               nabla_diag *diag) {
  for (size_t i = 0; i < count; i++)
    nabla_store_le32(&values[i], nabla_bits_of_f32(values[i]));
  return nabla_safetensors_writer_write(n->job->writer, id_of(n, kind),
                                        at * sizeof *values, values,
                                        count * sizeof *values, diag);
}

static nabla_status read_piece(const nest *n, uint64_t at, size_t *out_count,
                               nabla_diag *diag) {
  const uint64_t left = n->scales - at;
  *out_count = left < PIECE ? (size_t)left : PIECE;
  return nabla_spill_read(n->job->spill, n->item->spill + at, n->values,
                          *out_count, diag);
}

static nabla_status find_offset(const nest *n, float *out, nabla_diag *diag) {
  double sum = 0;
  size_t count;
  for (uint64_t at = 0; at < n->scales; at += PIECE) {
    NABLA_TRY(read_piece(n, at, &count, diag));
    sum = nabla_dynamic8_add(sum, n->values, count);
  }
  *out = nabla_dynamic8_offset(sum, n->scales);
  return NABLA_OK;
}

static nabla_status put_codes(const nest *n, float offset, nabla_diag *diag) {
  size_t count;
  for (uint64_t at = 0; at < n->scales; at += PIECE) {
    NABLA_TRY(read_piece(n, at, &count, diag));
    if (!nabla_dynamic8_encode(n->values, count, offset, n->codes, n->absmax)) {
      nabla_status status = nabla_fail(
          diag, NABLA_UNSUPPORTED, "its scales are too far apart for dynamic8");
      nabla_diag_set_next(diag, "use scales of f32");
      return nabla_checkpoint_blame(n->job->task->checkpoint, &n->tensor,
                                    status, diag);
    }
    NABLA_TRY(nabla_safetensors_writer_write(n->job->writer,
                                             id_of(n, NABLA_COMPONENT_SCALES),
                                             at, n->codes, count, diag));
    NABLA_TRY(put_floats(
        n, NABLA_COMPONENT_NESTED_SCALES, at / NABLA_DYNAMIC8_BLOCK, n->absmax,
        (size_t)nabla_ceil_div_u64(count, NABLA_DYNAMIC8_BLOCK), diag));
  }
  return NABLA_OK;
}

static nabla_status put_offset(const nest *n, float offset, nabla_diag *diag) {
  if (!nabla_description_is_late(&n->format, n->job->task->layout))
    return put_floats(n, NABLA_COMPONENT_NESTED_OFFSET, 0, &offset, 1, diag);
  nabla_description_text text = {.size = 0};
  NABLA_TRY(nabla_description_write(&n->tensor, &n->format,
                                    n->job->task->layout, offset, &text, diag));
  return nabla_safetensors_writer_write(n->job->writer,
                                        id_of(n, NABLA_COMPONENT_DESCRIPTION),
                                        0, text.data, text.size, diag);
}

static nabla_status finish(nest *n, nabla_diag *diag) {
  nabla_packed_size size;
  float offset;
  memcpy(n->values, nabla_dynamic8_map(), NABLA_DYNAMIC8_CODES * sizeof(float));
  NABLA_TRY(nabla_format_size(&n->format, n->tensor.elements, &size, diag));
  NABLA_TRY(nabla_components_of(&n->tensor, &n->format, n->job->task->layout,
                                &n->parts, diag));
  n->scales = size.scales;
  NABLA_TRY(put_floats(n, NABLA_COMPONENT_NESTED_MAP, 0, n->values,
                       NABLA_DYNAMIC8_CODES, diag));
  NABLA_TRY(find_offset(n, &offset, diag));
  NABLA_TRY(put_codes(n, offset, diag));
  return put_offset(n, offset, diag);
}

nabla_status nabla_file_job_nest(nabla_file_job *job, nabla_diag *diag) {
  const nabla_environment *environment = job->task->environment;
  const nabla_allocator *allocator =
      environment ? environment->allocator : NULL;
  const size_t each = sizeof(float) * 2 + 1;
  void *block;
  if (!job->spill) return NABLA_OK;
  NABLA_TRY(nabla_alloc(allocator, PIECE, each, &block, diag));
  nest n = {.job = job, .values = block};
  n.absmax = n.values + PIECE;
  n.codes = (uint8_t *)(n.absmax + PIECE);
  nabla_status status = NABLA_OK;
  for (size_t i = 0; i < job->count && !status; i++) {
    n.item = &job->items[i];
    if (n.item->kind != NABLA_ITEM_ENCODE) continue;
    n.format = nabla_item_format(job, n.item);
    if (n.format.scale != NABLA_SCALE_DYNAMIC8) continue;
    n.tensor = nabla_checkpoint_tensor(job->task->checkpoint, n.item->index);
    status = finish(&n, diag);
  }
  nabla_free(allocator, block, PIECE, each);
  return status;
}
