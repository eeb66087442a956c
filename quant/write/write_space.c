/* The free space that writing a checkpoint needs, for the output and for the
 * scales in a temporary file beside it (quant/write/spill.h). */
#include "lib/base/checked.h"
#include "lib/base/memory.h"
#include "quant/write/write_internal.h"

/* Adds up the scales of each output file. */
static nabla_status count_scales(const nabla_write_task *task, uint32_t files,
                                 uint64_t *scales, nabla_diag *diag) {
  const nabla_checkpoint *checkpoint = task->checkpoint;
  for (size_t i = 0; i < nabla_checkpoint_count(checkpoint); i++) {
    const nabla_format *format = nabla_plan_format(task->plan, i);
    if (!format->encoding || format->scale != NABLA_SCALE_DYNAMIC8) continue;
    const nabla_tensor tensor = nabla_checkpoint_tensor(checkpoint, i);
    uint64_t *sum = &scales[files > 1 ? tensor.data.shard : 0];
    nabla_packed_size size;
    NABLA_TRY(nabla_format_size(format, tensor.elements, &size, diag));
    if (!nabla_add_u64(*sum, size.scales, sum))
      return nabla_fail(diag, NABLA_TOO_LARGE, "too many scales");
  }
  return NABLA_OK;
}

/* Output files are made one after the other, and so are their temporary files.
 */
static nabla_status largest_spill(const nabla_write_task *task, uint32_t files,
                                  uint64_t *out, nabla_diag *diag) {
  const nabla_allocator *allocator =
      task->environment ? task->environment->allocator : NULL;
  void *block;
  NABLA_TRY(nabla_alloc(allocator, files, sizeof(uint64_t), &block, diag));
  uint64_t *scales = block;
  nabla_status status = count_scales(task, files, scales, diag);
  for (uint32_t i = 0; i < files && !status; i++) {
    const uint64_t bytes = nabla_spill_disk_bytes(scales[i]);
    *out = bytes > *out ? bytes : *out;
  }
  nabla_free(allocator, block, files, sizeof(uint64_t));
  return status;
}

nabla_status nabla_write_check_space(const nabla_write_task *task,
                                     const nabla_output_checkpoint *target,
                                     nabla_diag *diag) {
  uint64_t spill = 0, needed;
  if (task->plan)
    NABLA_TRY(largest_spill(task, nabla_output_checkpoint_files(target), &spill,
                            diag));
  if (!nabla_add_u64(task->bytes_out, spill, &needed))
    return nabla_fail(diag, NABLA_TOO_LARGE, "the output's size overflows");
  return nabla_output_checkpoint_check_space(target, needed, diag);
}
