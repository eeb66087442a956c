/* Which formats have kernels made ahead of time; see ahead_formats.h. */
#include "quant/ahead/ahead_formats.h"

#include <math.h>
#include <string.h>

#include "nabla/numerics.h"
#include "quant/codec/codec.h"

typedef struct row {
  const char *level, *encoding;
  nabla_granularity granularity;
  nabla_scale_type scale;
  nabla_numerics numerics;
  int zero_point;
  uint64_t block, any;
} row;

static const row rows[] = {
#define AHEAD(id, level_, encoding_, granularity_, block_, scale_, zero, n, k, \
              any_, numerics_, layout)                                         \
  {.level = #level_,                                                           \
   .encoding = #encoding_,                                                     \
   .granularity = NABLA_PER_##granularity_,                                    \
   .scale = NABLA_SCALE_##scale_,                                              \
   .numerics = NABLA_NUMERICS_##numerics_,                                     \
   .zero_point = zero,                                                         \
   .block = block_,                                                            \
   .any = any_},
#define AHEAD_GGML(id, level, ggml, any, numerics)
#define AHEAD_DENSE(id, level, dense, any, numerics)
#include "quant/ahead/ahead.def"
#undef AHEAD
#undef AHEAD_GGML
#undef AHEAD_DENSE
};
#define ROWS (sizeof rows / sizeof *rows)

int nabla_ahead_convert(const nabla_format *format, uint64_t k, uint32_t number,
                        nabla_format *out) {
  *out = *format;
  if (!number) return 1;
  if (format->scale == NABLA_SCALE_E8M0 || format->segment ||
      nabla_format_is_llm_int8(format))
    return 0;
  out->scale = NABLA_SCALE_F32;
  if (number == 1)
    return format->scale != NABLA_SCALE_F32 && !nabla_format_is_llm_int8(out);
  const uint64_t block = (uint64_t)256 >> number;
  const uint64_t span =
      format->granularity == NABLA_PER_BLOCK ? format->block : k;
  out->granularity = NABLA_PER_BLOCK;
  out->block = block;
  if (block < NABLA_BLOCK_MIN || span % block) return 0;
  return span > block || format->granularity != NABLA_PER_BLOCK;
}

/* Whether a kernel of every CPU with AVX2 reads it. */
static int has_row(const nabla_format *format, uint64_t k) {
  for (size_t i = 0; i < ROWS; i++)
    if (!strcmp(rows[i].encoding, format->encoding->name) &&
        !strcmp(rows[i].level, "avx2") &&
        rows[i].numerics == NABLA_NUMERICS_F32 &&
        rows[i].granularity == format->granularity &&
        rows[i].scale == format->scale &&
        rows[i].zero_point == format->zero_point &&
        (!rows[i].block || rows[i].block == format->block) &&
        k % rows[i].any == 0)
      return 1;
  return 0;
}

int nabla_format_has_kernel(const nabla_format *format, uint64_t k) {
  nabla_format whole, other;
  if (!format || !format->encoding || !k) return 0;
  whole = *format;
  if (whole.segment && whole.block && whole.segment % whole.block == 0)
    whole.segment = 0;
  for (uint32_t i = 0; i < NABLA_AHEAD_CONVERSIONS; i++)
    if (nabla_ahead_convert(&whole, k, i, &other) && !other.segment &&
        has_row(&other, k))
      return 1;
  return 0;
}

/* Bits of an element, with its part of a scale. */
static double bits_of(const nabla_format *format) {
  const nabla_scale_info *scale = nabla_scale_info_of(format->scale);
  const double bits = format->encoding->bits;
  return format->block && scale
             ? bits + 8.0 * (double)scale->bytes / (double)format->block
             : bits;
}

int nabla_format_nearest_kernel(const nabla_format *format, uint64_t k,
                                nabla_format *out) {
  double least = INFINITY;
  if (!format || !format->encoding || !out) return 0;
  for (size_t i = 0; i < ROWS; i++) {
    const nabla_format one = {.encoding = nabla_encoding_find(rows[i].encoding),
                              .granularity = rows[i].granularity,
                              .block = rows[i].block ? rows[i].block : k,
                              .scale = rows[i].scale,
                              .zero_point = rows[i].zero_point};
    double distance = fabs(bits_of(&one) - bits_of(format)) +
                      (one.zero_point != format->zero_point ? .25 : 0);
    if (one.encoding != format->encoding) distance += 4;
    if (distance >= least || !nabla_format_has_kernel(&one, k)) continue;
    least = distance;
    *out = one;
  }
  return least < INFINITY;
}
