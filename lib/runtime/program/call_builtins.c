/* nabla.check_finite: a probe for programs that give NaN, to be put where one
 * wants to know. Gives what it takes, or fails and says which element it was.
 */
#include "lib/runtime/program/call_builtins.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static double element(const nabla_call_buffer *x, uint64_t i) {
  const size_t size = nabla_dtype_bits(x->dtype) / 8;
  float value;
  if (x->dtype == NABLA_DTYPE_F64) return ((const double *)x->data)[i];
  nabla_to_f32(x->dtype, (const char *)x->data + i * size, 1, &value);
  return value;
}

static nabla_call_code check_finite(const nabla_call_frame *frame) {
  const nabla_call_buffer *x = &frame->arguments[0], *y = &frame->results[0];
  const nabla_attribute_tree *label =
      nabla_attribute_tree_find(frame->attributes, "label");
  uint64_t count = 1;
  for (uint32_t i = 0; i < x->rank; i++) count *= (uint64_t)x->dims[i];
  if (y->dtype != x->dtype || y->rank != x->rank ||
      (x->rank && memcmp(x->dims, y->dims, x->rank * sizeof *x->dims) != 0)) {
    snprintf(frame->message, frame->message_size,
             "the result has another type than the argument");
    return NABLA_CALL_INVALID_ARGUMENT;
  }
  for (uint64_t i = 0; i < count; i++) {
    const double value = element(x, i);
    if (isfinite(value)) continue;
    snprintf(frame->message, frame->message_size,
             "%s%selement %" PRIu64 " of %" PRIu64 " is %g",
             label ? label->text : "", label ? ": " : "", i, count, value);
    return NABLA_CALL_OUT_OF_RANGE;
  }
  if (count)
    memcpy(y->data, x->data, (size_t)count * (nabla_dtype_bits(x->dtype) / 8));
  return NABLA_CALL_OK;
}

#define FLOATS                                                             \
  (NABLA_CALL_DTYPE(F32) | NABLA_CALL_DTYPE(F64) | NABLA_CALL_DTYPE(F16) | \
   NABLA_CALL_DTYPE(BF16))

const nabla_call_handler *nabla_call_builtins(size_t *out_count) {
  static const nabla_call_parameter x = {"x", FLOATS, -1, NULL};
  static const nabla_call_parameter y = {"y", FLOATS, -1, NULL};
  static const nabla_call_attribute label = {"label", NABLA_ATTRIBUTE_STRING,
                                             1};
  static const nabla_call_handler all[] = {
      {.struct_size = sizeof(nabla_call_handler),
       .target = "nabla.check_finite",
       .platform = "cpu",
       .arguments = &x,
       .argument_count = 1,
       .results = &y,
       .result_count = 1,
       .attributes = &label,
       .attribute_count = 1,
       .execute = check_finite},
  };
  *out_count = sizeof all / sizeof *all;
  return all;
}
