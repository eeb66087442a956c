/* The two calls that write: a plan, and a checkpoint decoded. */
#include "nabla/quantize.h"

#include "lib/base/checked.h"
#include "lib/base/require.h"
#include "quant/write.h"

nabla_status nabla_plan_write(const nabla_plan *plan,
                              const nabla_write_options *where,
                              const nabla_environment *environment,
                              nabla_write_summary *out, nabla_diag *diag) {
  NABLA_REQUIRE(plan, diag);
  NABLA_REQUIRE(where, diag);
  NABLA_REQUIRE(out, diag);
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

/* Bytes of all tensors once decoded. */
static nabla_status decoded_bytes(const nabla_checkpoint *checkpoint,
                                  const nabla_dequantize_options *options,
                                  uint64_t *out_bytes, uint64_t *out_packed,
                                  nabla_diag *diag) {
  uint64_t sum = 0, packed = 0;
  for (size_t i = 0; i < nabla_checkpoint_count(checkpoint); i++) {
    const nabla_tensor tensor = nabla_checkpoint_tensor(checkpoint, i);
    uint64_t bytes = tensor.stored_bytes;
    const nabla_dtype dtype =
        options->has_dtype ? options->dtype : tensor.dtype;
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
  uint64_t packed = 0;
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
  NABLA_TRY(decoded_bytes(checkpoint, options, &task.bytes_out, &packed, diag));
  NABLA_TRY(nabla_write_checkpoint(&task, where, &summary, diag));
  summary.changed = packed;
  *out = summary;
  return NABLA_OK;
}
