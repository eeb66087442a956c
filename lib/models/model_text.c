/* See model_text.h. */
#include "lib/models/model_text.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/c_locale.h"

#define MOST 1000 /* bytes added at once */

/* Of a weight, and the characters of its shape: "9223372036854775807x". */
#define MOST_RANK  16
#define MOST_SHAPE (20 * MOST_RANK + 1)

static void flush(nabla_model_text *text) {
  if (!text->status && text->held)
    text->status = text->sink->write(text->sink->self, text->buffer, text->held,
                                     text->diag);
  text->held = 0;
}

void nabla_model_text_add(nabla_model_text *text, const char *format, ...) {
  if (sizeof text->buffer - text->held <= MOST) flush(text);
  va_list arguments;
  va_start(arguments, format);
  const int length =
      nabla_c_vsnprintf(text->buffer + text->held, MOST + 1, format, arguments);
  va_end(arguments);
  assert(length >= 0 && length <= MOST);
  text->held += (size_t)length;
}

nabla_status nabla_model_text_finish(nabla_model_text *text) {
  flush(text);
  return text->status;
}

/* ---- types --------------------------------------------------------------- */

static const char *element_of(nabla_dtype dtype) {
  switch (dtype) {
    case NABLA_DTYPE_F32:
      return "f32";
    case NABLA_DTYPE_F16:
      return "f16";
    case NABLA_DTYPE_BF16:
      return "bf16";
    default:
      return NULL;
  }
}

/* The parameters of #nabla.NAME<...>, "" for none. */
static nabla_status add_parameters(const nabla_storage *layout, char *out,
                                   size_t room, nabla_diag *diag) {
  const nabla_format *format = &layout->format;
  const char *blocks =
      format->granularity == NABLA_PER_ROW      ? ", blocks = leading"
      : format->granularity == NABLA_PER_TENSOR ? ", blocks = tensor"
                                                : "";
  char scale[64] = "";
  if (format->segment)
    return nabla_fail(diag, NABLA_UNSUPPORTED,
                      "it is packed in segments, which no program takes");
  if (format->scale == NABLA_SCALE_DYNAMIC8)
    (void)snprintf(scale, sizeof scale,
                   ", scale = #nabla.dynamic8<block = %" PRIu32 ">",
                   layout->nested_block);
  else if (format->scale == NABLA_SCALE_F16 ||
           format->scale == NABLA_SCALE_BF16)
    (void)snprintf(scale, sizeof scale, ", scale = %s",
                   format->scale == NABLA_SCALE_F16 ? "f16" : "bf16");
  *out = '\0';
  if (!format->encoding->is_mx)
    (void)snprintf(out, room, "<block = %" PRIu64 "%s%s%s>",
                   *blocks ? UINT64_C(0) : format->block, blocks, scale,
                   format->zero_point ? ", zero_point = true" : "");
  return NABLA_OK;
}

nabla_status nabla_model_type(const nabla_weight_desc *weight,
                              char out[NABLA_MODEL_TYPE_SIZE],
                              nabla_diag *diag) {
  char shape[MOST_SHAPE] = "", parameters[112];
  if (weight->rank > MOST_RANK)
    return nabla_fail(diag, NABLA_UNSUPPORTED,
                      "its rank is %" PRIu32 "; at most %d", weight->rank,
                      MOST_RANK);
  for (uint32_t i = 0; i < weight->rank; i++) {
    const size_t used = strlen(shape);
    (void)snprintf(shape + used, sizeof shape - used, "%" PRIu64 "x",
                   weight->shape[i]);
  }
  switch (weight->layout.kind) {
    case NABLA_STORAGE_DENSE: {
      const char *element = element_of(weight->dtype);
      if (!element)
        return nabla_fail(diag, NABLA_UNSUPPORTED,
                          "its values are %s: f32, f16 and bf16 are taken",
                          nabla_dtype_name(weight->dtype));
      (void)snprintf(out, NABLA_MODEL_TYPE_SIZE, "tensor<%s%s>", shape,
                     element);
      return NABLA_OK;
    }
    case NABLA_STORAGE_BLOCKS:
      (void)snprintf(out, NABLA_MODEL_TYPE_SIZE,
                     "!nabla.implicit<%sf32, #nabla.ggml<%s>>", shape,
                     weight->layout.ggml->name);
      return NABLA_OK;
    default:
      NABLA_TRY(
          add_parameters(&weight->layout, parameters, sizeof parameters, diag));
      (void)snprintf(out, NABLA_MODEL_TYPE_SIZE,
                     "!nabla.implicit<%sf32, #nabla.%s%s>", shape,
                     weight->layout.format.encoding->name, parameters);
      return NABLA_OK;
  }
}
