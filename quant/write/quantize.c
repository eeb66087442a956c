/* The public functions that write a quantized and a decoded checkpoint. */
#include "nabla/quantize.h"

#include <string.h>

#include "lib/base/checked.h"
#include "lib/base/require.h"
#include "quant/codec/codec.h"
#include "quant/plan/hf_survey.h"
#include "quant/write/write.h"

nabla_status nabla_plan_write(const nabla_plan *plan,
                              const nabla_write_options *where,
                              const nabla_environment *environment,
                              nabla_write_summary *out, nabla_diag *diag) {
  NABLA_REQUIRE(plan, diag);
  NABLA_REQUIRE(where, diag);
  NABLA_REQUIRE(out, diag);
  NABLA_REQUIRE_SIZE(where, "options for writing", diag);
  if (where->parts < 2 && where->part > where->parts)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT, "part %u of %u",
                      where->part, where->parts);
  const nabla_write_task task = {
      .checkpoint = plan->checkpoint,
      .environment = environment,
      .plan = plan,
      .isa = plan->isa,
      .layout = plan->totals.layout,
      .bytes_out = plan->totals.bytes_out,
  };
  nabla_write_summary summary;
  NABLA_TRY(nabla_write_checkpoint(&task, where, &summary, diag));
  summary.changed = plan->totals.quantized;
  *out = summary;
  return NABLA_OK;
}

/* Returns whether the file does not record the dtype before packing, as in
 * LLM.int8 (docs/FORMAT.md, I4). */
static int has_no_dtype(const nabla_tensor *tensor) {
  return tensor->layout == NABLA_LAYOUT_BITSANDBYTES &&
         nabla_encoding_is_int8(tensor->format.encoding);
}

nabla_dtype nabla_write_dtype(const nabla_write_task *task,
                              const nabla_tensor *tensor) {
  if (task->dequantize->has_dtype) return task->dequantize->dtype;
  return has_no_dtype(tensor) ? task->dtype : tensor->dtype;
}

/* Returns the dtype that the folder's config.json names. */
static nabla_dtype dtype_of(const nabla_hf_config *config) {
  static const struct {
    const char *name;
    nabla_dtype dtype;
  } rows[] = {{"float16", NABLA_DTYPE_F16}, {"bfloat16", NABLA_DTYPE_BF16}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (!strcmp(config->dtype, rows[i].name)) return rows[i].dtype;
  return NABLA_DTYPE_F32;
}

/* Sets task->dtype; config.json is read only if a tensor needs it. */
static nabla_status find_dtype(nabla_write_task *task, nabla_diag *diag) {
  const nabla_checkpoint *checkpoint = task->checkpoint;
  const nabla_environment *environment = task->environment;
  const size_t count = nabla_checkpoint_count(checkpoint);
  nabla_hf_config config;
  nabla_buffer text;
  size_t i = 0;
  int found;
  task->dtype = NABLA_DTYPE_F32;
  if (task->dequantize->has_dtype) return NABLA_OK;
  for (; i < count; i++) {
    const nabla_tensor tensor = nabla_checkpoint_tensor(checkpoint, i);
    if (has_no_dtype(&tensor)) break;
  }
  if (i == count) return NABLA_OK;
  nabla_buffer_init(&text, environment ? environment->allocator : NULL,
                    NABLA_HF_CONFIG_NAME, NABLA_HF_CONFIG_MAX);
  nabla_status status = nabla_hf_folder_config(
      checkpoint,
      environment && environment->os ? environment->os : nabla_os_default(),
      &text, &config, &found, diag);
  nabla_buffer_deinit(&text);
  if (!status && found) task->dtype = dtype_of(&config);
  if (status == NABLA_CORRUPT || status == NABLA_TOO_LARGE)
    nabla_diag_set_next(diag, "repair it, or give the dtype");
  return status;
}

/* Returns the bytes of all tensors after decoding. */
static nabla_status decoded_bytes(const nabla_write_task *task,
                                  uint64_t *out_bytes, uint64_t *out_packed,
                                  nabla_diag *diag) {
  const nabla_checkpoint *checkpoint = task->checkpoint;
  uint64_t sum = 0, packed = 0;
  for (size_t i = 0; i < nabla_checkpoint_count(checkpoint); i++) {
    const nabla_tensor tensor = nabla_checkpoint_tensor(checkpoint, i);
    uint64_t bytes = tensor.stored_bytes;
    const nabla_dtype dtype = nabla_write_dtype(task, &tensor);
    const int is_packed = tensor.layout != NABLA_LAYOUT_DENSE;
    packed += (uint64_t)is_packed;
    if ((is_packed && !nabla_mul_u64(tensor.elements,
                                     nabla_dtype_bits(dtype) / 8, &bytes)) ||
        !nabla_add_u64(sum, bytes, &sum))
      return nabla_fail(diag, NABLA_TOO_LARGE, "the decoded model overflows");
  }
  *out_bytes = sum;
  *out_packed = packed;
  return NABLA_OK;
}

nabla_status nabla_dequantize(const nabla_checkpoint *checkpoint,
                              const nabla_dequantize_options *options,
                              const nabla_write_options *where,
                              const nabla_environment *environment,
                              nabla_write_summary *out, nabla_diag *diag) {
  NABLA_REQUIRE(checkpoint, diag);
  NABLA_REQUIRE(options, diag);
  NABLA_REQUIRE(where, diag);
  NABLA_REQUIRE(out, diag);
  NABLA_REQUIRE_SIZE(options, "options for decoding", diag);
  NABLA_REQUIRE_SIZE(where, "options for writing", diag);
  uint64_t packed = 0;
  if (where->part || where->parts)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "a model is decoded whole, not in parts");
  if (options->has_dtype && !nabla_dtype_is_float(options->dtype))
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "%s is no dtype to decode to",
                      nabla_dtype_name(options->dtype));
  if (!nabla_isa_available(options->isa))
    return nabla_fail(diag, NABLA_UNSUPPORTED,
                      "this CPU or this build cannot run %s code",
                      nabla_isa_name(options->isa));
  nabla_write_task task = {
      .checkpoint = checkpoint,
      .environment = environment,
      .dequantize = options,
      .isa = options->isa,
      .layout = NABLA_LAYOUT_DENSE,
  };
  nabla_write_summary summary;
  NABLA_TRY(find_dtype(&task, diag));
  NABLA_TRY(decoded_bytes(&task, &task.bytes_out, &packed, diag));
  NABLA_TRY(nabla_write_checkpoint(&task, where, &summary, diag));
  summary.changed = packed;
  *out = summary;
  return NABLA_OK;
}
