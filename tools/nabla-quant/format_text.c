/* Formats as people write them: "nf4/64:f16". */
#include <string.h>

#include "tools/nabla-quant/cli.h"

static const char *block_text(const nabla_format *format, char out[24]) {
  if (format->granularity == NABLA_PER_ROW) return "row";
  if (format->granularity == NABLA_PER_TENSOR) return "tensor";
  snprintf(out, 24, "%llu", (unsigned long long)format->block);
  return out;
}

/* Then it goes without saying. */
static int has_default_scale(const nabla_format *format) {
  return format->scale == NABLA_SCALE_F32 || format->encoding->is_mx;
}

void cli_format_text(const nabla_format *format, char out[64]) {
  char block[24];
  if (!format->encoding)
    memcpy(out, "keep", sizeof "keep");
  else
    snprintf(out, 64, "%s/%s%s%s%s%s", format->encoding->name,
             block_text(format, block), has_default_scale(format) ? "" : ":",
             has_default_scale(format)
                 ? ""
                 : nabla_scale_info_of(format->scale)->option,
             format->zero_point ? ":zero-point" : "",
             format->segment ? ":leading" : "");
}
