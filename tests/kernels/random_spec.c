/* Random specs; see random_spec.h. */
#include "tests/kernels/random_spec.h"

#include <stdlib.h>

#include "quant/codec/codec.h"
#include "quant/codec/ggml.h"
#include "tests/kernels/problem.h"

static nabla_dtype random_float(uint64_t *state) {
  static const nabla_dtype types[] = {NABLA_DTYPE_F32, NABLA_DTYPE_F32,
                                      NABLA_DTYPE_F16, NABLA_DTYPE_BF16};
  return types[random_below(state, 4)];
}

/* Sizes at and around what kernels treat apart. */
static uint64_t random_size(uint64_t *state, uint64_t most) {
  switch (random_below(state, 5)) {
    case 0:
      return random_below(state, 4);
    case 1:
      return random_below(state, 40);
    case 2:
      return 128 * (1 + random_below(state, most / 128));
    case 3:
      return 16 * random_below(state, most / 16);
    default:
      return random_below(state, most);
  }
}

void set_blocks(nabla_fused_spec *spec, const nabla_ggml *format) {
  if (!format->elements) abort(); /* no row of quant/codec/ggml.def is so */
  spec->w = (nabla_storage){.kind = NABLA_STORAGE_BLOCKS,
                            .format = {.block = format->elements},
                            .ggml = format};
  spec->storage_elements = (spec->storage_elements + format->elements - 1) /
                           format->elements * format->elements;
}

/* Scales of any type, zero points where there may be some. */
static void random_scales(uint64_t *state, nabla_format *format,
                          uint32_t *nested_block) {
  static const nabla_scale_type types[] = {NABLA_SCALE_F32, NABLA_SCALE_F32,
                                           NABLA_SCALE_F16, NABLA_SCALE_BF16,
                                           NABLA_SCALE_DYNAMIC8};
  format->scale = types[random_below(state, 5)];
  if (format->scale == NABLA_SCALE_DYNAMIC8)
    *nested_block = (uint32_t)16 << random_below(state, 5);
  format->zero_point =
      format->encoding->has_zero_point && random_below(state, 3) == 0;
}

static void random_format(uint64_t *state, nabla_fused_spec *spec,
                          uint64_t line) {
  size_t count;
  const nabla_encoding *all = nabla_encodings(&count);
  uint64_t which = random_below(state, count + 1);
  if (which == count) {
    spec->w_stored = random_float(state);
    return;
  }
  const nabla_encoding *encoding = &all[which];
  spec->w = (nabla_storage){.kind = NABLA_STORAGE_PLANES,
                            .format = {.encoding = encoding}};
  if (encoding->is_mx) {
    spec->w.format.block = NABLA_BLOCK_MX;
    spec->w.format.scale = NABLA_SCALE_E8M0;
    return;
  }
  spec->w.format.block = (uint64_t)16 << random_below(state, 6);
  if (encoding->has_rows && random_below(state, 2)) {
    spec->w.format.granularity = NABLA_PER_ROW;
    spec->w.format.block = random_below(state, 3)
                               ? (line ? line : 1)
                               : 1 + random_below(state, 300);
    return;
  }
  random_scales(state, &spec->w.format, &spec->w.nested_block);
}

static void random_steps(uint64_t *state, nabla_fused_spec *spec) {
  spec->step_count = (uint32_t)random_below(state, 4);
  for (uint32_t i = 0; i < spec->step_count; i++)
    spec->steps[i] = (nabla_fused_step)random_below(state, 4);
}

nabla_fused_spec random_spec(uint64_t *state) {
  nabla_fused_spec spec = {.n = random_size(state, 300),
                           .k = random_size(state, 700)};
  static const uint64_t ranges[3][2] = {{0, 0}, {1, 1}, {2, 0}};
  const uint64_t *range = ranges[random_below(state, 3)];
  spec.m_min = range[0];
  spec.m_max = range[1];
  int along_k = random_below(state, 2) != 0;
  if (!along_k) { /* the roles of n and k swap */
    uint64_t n = spec.n;
    spec.n = spec.k;
    spec.k = n;
  }
  uint64_t line = along_k ? spec.k : spec.n, stride = line;
  if (!random_below(state, 3)) stride += random_below(state, 60);
  if (!random_below(state, 3)) stride = (stride + 127) / 128 * 128;
  if (!random_below(state, 12)) stride = 0;
  spec.stride_n = along_k ? stride : 1;
  spec.stride_k = along_k ? 1 : stride;
  spec.offset = random_below(state, 2) ? 0 : random_below(state, 500);
  if (!random_below(state, 3)) spec.offset = spec.offset / 128 * 128;
  random_format(state, &spec, stride);
  uint64_t last = 0;
  if (spec.n && spec.k)
    last = 1 + spec.offset + (spec.n - 1) * spec.stride_n +
           (spec.k - 1) * spec.stride_k;
  spec.storage_elements =
      last + random_below(state, 2) * random_below(state, 70);
  if (!random_below(state, 4)) {
    size_t count;
    const nabla_ggml *formats = nabla_ggml_formats(&count);
    set_blocks(&spec, &formats[random_below(state, count)]);
  }
  spec.x_type = random_float(state);
  spec.y_type = random_float(state);
  spec.w_type = random_below(state, 2) ? NABLA_DTYPE_F32 : random_float(state);
  random_steps(state, &spec);
  if (random_below(state, 2))
    spec.numerics = (nabla_numerics)(1 + random_below(state, 2));
  if (!random_below(state, 4)) spec.layout = NABLA_WEIGHT_LAYOUT_PREPACKED;
  return spec;
}
