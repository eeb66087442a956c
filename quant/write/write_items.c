/* Makes the items of an output file, and declares their components to the
 * writer. */
#include <stdint.h>
#include <string.h>

#include "lib/base/checked.h"
#include "quant/codec/codec.h"
#include "quant/formats/checkpoint_internal.h"
#include "quant/write/parts.h"
#include "quant/write/write_internal.h"

static nabla_status declare(nabla_file_job *job,
                            nabla_output_checkpoint *target, uint32_t file,
                            const nabla_entry *entry, size_t *out_id,
                            nabla_diag *diag) {
  NABLA_TRY(nabla_safetensors_writer_add(
      job->writer, entry->name, entry->name_length, entry->dtype, entry->shape,
      entry->rank, out_id, diag));
  return nabla_output_checkpoint_note(target, file, entry->name,
                                      entry->name_length, entry->bytes, diag);
}

/* Declares the components in the order of nabla_components_of: codes, then
 * scales, then zero points. */
static nabla_status declare_packed(nabla_file_job *job,
                                   nabla_output_checkpoint *target,
                                   uint32_t file, nabla_item *item,
                                   nabla_diag *diag) {
  const nabla_tensor tensor =
      nabla_checkpoint_tensor(job->task->checkpoint, item->index);
  const nabla_format format = nabla_item_format(job, item);
  nabla_components parts;
  NABLA_TRY(
      nabla_components_of(&tensor, &format, job->task->layout, &parts, diag));
  for (size_t i = 0; i < parts.count; i++) {
    const nabla_component *part = &parts.item[i];
    char name[NABLA_TENSOR_FILE_MAX_NAME + 64];
    const size_t tail = strlen(part->suffix);
    memcpy(name, tensor.name, part->stem);
    memcpy(name + part->stem, part->suffix, tail + 1);
    const nabla_entry entry = {.name = name,
                               .name_length = part->stem + tail,
                               .dtype = part->dtype,
                               .rank = part->rank,
                               .shape = part->shape,
                               .bytes = part->bytes};
    size_t id;
    NABLA_TRY(declare(job, target, file, &entry, &id, diag));
    if (i == 0) item->id = id;
  }
  if (format.scale != NABLA_SCALE_DYNAMIC8) return NABLA_OK;
  nabla_packed_size size;
  NABLA_TRY(nabla_format_size(&format, tensor.elements, &size, diag));
  item->spill = job->spilled;
  if (!nabla_add_u64(job->spilled, size.scales, &job->spilled))
    return nabla_fail(diag, NABLA_TOO_LARGE, "too many scales");
  return NABLA_OK;
}

static nabla_status add_item(nabla_file_job *job,
                             nabla_output_checkpoint *target, uint32_t file,
                             const nabla_item *item, nabla_diag *diag) {
  const nabla_checkpoint *checkpoint = job->task->checkpoint;
  nabla_item *out = &job->items[job->count];
  *out = *item;
  if (item->kind == NABLA_ITEM_ENCODE) {
    NABLA_TRY(declare_packed(job, target, file, out, diag));
  } else {
    nabla_entry entry;
    if (item->kind == NABLA_ITEM_COPY) {
      entry = nabla_tensor_file_entry(
          nabla_checkpoint_borrow_shard(checkpoint, item->shard), item->index);
    } else {
      nabla_values values;
      NABLA_TRY(nabla_values_open(checkpoint, item->index, job->task->isa,
                                  &values, diag));
      const nabla_tensor *tensor = &values.tensor;
      entry = (nabla_entry){.name = tensor->name,
                            .name_length = tensor->name_length,
                            .dtype = nabla_write_dtype(job->task, tensor),
                            .rank = tensor->rank,
                            .shape = tensor->shape};
      entry.bytes = tensor->elements * (nabla_dtype_bits(entry.dtype) / 8);
    }
    NABLA_TRY(declare(job, target, file, &entry, &out->id, diag));
  }
  job->first_tile[job->count + 1] =
      job->first_tile[job->count] + nabla_item_tiling(job, out).tiles;
  job->count++;
  return NABLA_OK;
}

/* Returns whether a tensor is checked while it is copied: a packed one, unless
 * this build does not know its encoding. */
static int is_checked(const nabla_checkpoint *checkpoint, size_t index) {
  const nabla_tensor tensor = nabla_checkpoint_tensor(checkpoint, index);
  return tensor.layout != NABLA_LAYOUT_DENSE && !tensor.unsupported;
}

nabla_status nabla_file_job_list(nabla_file_job *job,
                                 nabla_output_checkpoint *target, uint32_t file,
                                 nabla_diag *diag) {
  const nabla_write_task *task = job->task;
  const nabla_checkpoint *checkpoint = task->checkpoint;
  uint32_t first, end;
  uint64_t before = 0;
  nabla_output_checkpoint_shards(target, file, &first, &end);
  for (uint32_t shard = first; shard < end; shard++) {
    const nabla_tensor_file *source =
        nabla_checkpoint_borrow_shard(checkpoint, shard);
    for (size_t i = 0; i < nabla_tensor_file_count(source); i++) {
      const nabla_entry entry = nabla_tensor_file_entry(source, i);
      const int has = nabla_part_has(task, before, entry.bytes);
      before += entry.bytes;
      if (!has) continue;
      const size_t tensor = nabla_checkpoint_find_at(checkpoint, shard, i);
      nabla_item item = {.kind = NABLA_ITEM_COPY, .shard = shard, .index = i};
      if (tensor != SIZE_MAX && task->plan &&
          task->plan->decisions[tensor].format) {
        item.kind = NABLA_ITEM_ENCODE;
        item.index = tensor;
      } else if (task->dequantize && tensor == SIZE_MAX) {
        continue; /* a companion, decoded with its weight */
      } else if (task->dequantize &&
                 nabla_checkpoint_tensor(checkpoint, tensor).layout !=
                     NABLA_LAYOUT_DENSE) {
        item.kind = NABLA_ITEM_DECODE;
        item.index = tensor;
      } else if (tensor != SIZE_MAX && is_checked(checkpoint, tensor)) {
        item.packed = tensor + 1;
      }
      nabla_status status = add_item(job, target, file, &item, diag);
      if (!status) continue;
      nabla_diag_set_file(diag, nabla_tensor_file_borrow_path(source));
      nabla_diag_set_tensor(diag, entry.name, entry.name_length);
      return status;
    }
  }
  return NABLA_OK;
}
