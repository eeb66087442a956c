/* See the header. */
#include "lib/runtime/program/type_to_text.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* A text in the making. */
typedef struct line {
  nabla_text_80 out;
  size_t used;
} line;

NABLA_PRINTF(2, 3)
static void add(line *to, const char *format, ...) {
  if (to->used >= NABLA_DESCRIBE_ROOM) return;
  va_list arguments;
  va_start(arguments, format);
  const int length =
      vsnprintf(to->out.text + to->used, NABLA_DESCRIBE_ROOM - to->used, format,
                arguments);
  va_end(arguments);
  to->used += length > 0 ? (size_t)length : 0;
  if (to->used >= NABLA_DESCRIBE_ROOM)
    memcpy(to->out.text + NABLA_DESCRIBE_ROOM - 4, "...", 4);
}

static void add_shape(line *to, uint32_t rank, const int64_t *shape) {
  add(to, "[");
  for (uint32_t i = 0; i < rank && to->used < NABLA_DESCRIBE_ROOM; i++) {
    if (shape[i] == NABLA_DYNAMIC)
      add(to, "%s?", i ? "," : "");
    else
      add(to, "%s%" PRId64, i ? "," : "", shape[i]);
  }
  add(to, "]");
}

/* Of a layout that is not dense. */
static void add_layout(line *to, const nabla_storage *layout) {
  const nabla_format *format = &layout->format;
  const uint32_t nested = layout->nested_block;
  if (layout->kind == NABLA_STORAGE_BLOCKS) {
    add(to, "blocks of %s, ", layout->ggml->name);
    return;
  }
  add(to, "%s", format->encoding->name);
  if (format->granularity == NABLA_PER_ROW)
    add(to, " in rows");
  else if (format->granularity == NABLA_PER_TENSOR)
    add(to, " as one");
  else
    add(to, " in %s of %" PRIu64, format->segment ? "leading blocks" : "blocks",
        format->block);
  if (format->scale != NABLA_SCALE_F32)
    add(to, " with %s scales", nabla_scale_info_of(format->scale)->option);
  if (format->scale == NABLA_SCALE_DYNAMIC8 && nested != NABLA_DYNAMIC8_BLOCK)
    add(to, " of %u", nested);
  add(to, "%s, ", format->zero_point ? ", zero points" : "");
}

nabla_text_80 nabla_describe_array(nabla_dtype dtype, uint32_t rank,
                                   const int64_t *shape) {
  line to = {0};
  add(&to, "%s ", nabla_dtype_name(dtype));
  add_shape(&to, rank, shape);
  return to.out;
}

nabla_text_80 nabla_describe_port(const nabla_port *port) {
  line to = {0};
  if (port->layout.kind != NABLA_STORAGE_DENSE)
    add_layout(&to, &port->layout);
  else if (*port->encoding_name)
    add(&to, "%.40s, ", port->encoding_name);
  else
    return nabla_describe_array(port->dtype, port->rank, port->shape);
  add_shape(&to, port->rank, port->shape);
  return to.out;
}

/* Whether the members that the kind names are there. */
static int is_packed(const nabla_storage *layout) {
  return (layout->kind == NABLA_STORAGE_PLANES && layout->format.encoding) ||
         (layout->kind == NABLA_STORAGE_BLOCKS && layout->ggml);
}

nabla_text_80 nabla_describe_weight(const nabla_weight_desc *weight) {
  line to = {0};
  if (is_packed(&weight->layout))
    add_layout(&to, &weight->layout);
  else if ((uint32_t)weight->dtype < NABLA_DTYPE_COUNT)
    add(&to, "%s ", nabla_dtype_name(weight->dtype));
  add(&to, "[");
  for (uint32_t i = 0; i < weight->rank && i < NABLA_WEIGHT_MAX_RANK &&
                       to.used < NABLA_DESCRIBE_ROOM;
       i++)
    add(&to, "%s%" PRIu64, i ? "," : "", weight->shape[i]);
  add(&to, "]");
  return to.out;
}
