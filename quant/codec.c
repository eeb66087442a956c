/* Takes values through the stages of quant/kernel.h, chunk by chunk, and looks
 * for bad values. */
#include "quant/codec.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "lib/base/floats.h"
#include "quant/int8.h"
#include "quant/kernel.h"
#include "quant/search.h"

int nabla_encoding_is_int8(const nabla_encoding *encoding) {
  return !strcmp(encoding->name, "int8");
}

int nabla_format_is_llm_int8(const nabla_format *format) {
  return format->granularity == NABLA_PER_ROW && !format->zero_point &&
         format->scale == NABLA_SCALE_F32 &&
         nabla_encoding_is_int8(format->encoding);
}

size_t nabla_scale_width(const nabla_format *format) {
  return format->scale == NABLA_SCALE_DYNAMIC8
             ? sizeof(float)
             : nabla_scale_info_of(format->scale)->bytes;
}

uint64_t nabla_scale_index(const nabla_format *format, uint64_t index) {
  if (!format->segment) return index / format->block;
  const uint64_t per_segment =
      format->segment / format->block + (format->segment % format->block != 0);
  return index / format->segment * per_segment +
         index % format->segment / format->block;
}

static nabla_status refuse_isa(nabla_isa isa, nabla_diag *diag) {
  nabla_status status = nabla_fail(diag, NABLA_UNSUPPORTED,
                                   "this CPU or this build cannot run %s code",
                                   nabla_isa_name(isa));
  nabla_diag_set_next(diag, "leave the instruction set to the program");
  return status;
}

nabla_status nabla_codec_select(const nabla_format *format,
                                const nabla_codec_options *options,
                                nabla_codec *out, nabla_diag *diag) {
  const nabla_codec_options none = {0};
  if (!options) options = &none;
  nabla_packed_size ignored;
  NABLA_TRY(nabla_format_size(format, 0, &ignored, diag));
  if (!nabla_isa_available(options->isa)) return refuse_isa(options->isa, diag);
  nabla_codec codec = {
      .format = *format,
      .isa = nabla_isa_resolve(options->isa),
      .dtype = options->dtype ? options->dtype : NABLA_DTYPE_F32,
      .search = options->search};
  if (codec.dtype != NABLA_DTYPE_F32 && codec.dtype != NABLA_DTYPE_F16 &&
      codec.dtype != NABLA_DTYPE_BF16)
    return nabla_fail(diag, NABLA_UNSUPPORTED, "values of %s are not encoded",
                      nabla_dtype_name(codec.dtype));
  if (codec.search && format->granularity != NABLA_PER_BLOCK) {
    nabla_status status = nabla_fail(
        diag, NABLA_UNSUPPORTED,
        "the search is for scales of blocks, not of rows or tensors");
    nabla_diag_set_next(diag, "give a block size, or leave the search out");
    return status;
  }
  codec.stages = nabla_stages_find(format->encoding, codec.isa);
  codec.recipe = nabla_recipe_find(format->encoding);
  if (!codec.stages || !codec.recipe)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "the encoding is not in the table of encodings");
  while (
      codec.isa > NABLA_ISA_SCALAR && /* what the code stage is for */
      nabla_stages_find(format->encoding, (nabla_isa)(codec.isa - 1))->code ==
          codec.stages->code)
    codec.isa = (nabla_isa)(codec.isa - 1);
  *out = codec;
  return NABLA_OK;
}

/* The blocks of one chunk on their way. */
typedef struct chunk {
  const nabla_codec *codec;
  const uint8_t *in;
  const float *weights;
  size_t count, block, blocks;
  int knows_peaks; /* `wanted` has them: code_ahead has looked */
  int may_look;    /* as many values follow, and may be looked at */
  int stream;      /* codes go past the caches */
  float wanted[NABLA_CHUNK_BLOCKS], scales[NABLA_CHUNK_BLOCKS],
      factors[NABLA_CHUNK_BLOCKS], low[NABLA_CHUNK_BLOCKS],
      zeros[NABLA_CHUNK_BLOCKS];
} chunk;

/* The search is of f32. */
static void search_scales(chunk *c) {
  const nabla_codec *codec = c->codec;
  float values[NABLA_BLOCK_MAX];
  nabla_to_f32(codec->dtype, c->in, c->count, values);
  const nabla_search search = {
      .format = &codec->format,
      .in = values,
      .weights = c->weights,
      .count = c->count,
      .scales = c->wanted,
      .zeros = codec->format.zero_point ? c->zeros : NULL};
  nabla_search_run(&search, codec->isa);
}

/* The scale before rounding: from absmax (1) or as such (0). */
static int want_scales(chunk *c) {
  const nabla_codec *codec = c->codec;
  const nabla_stages *stages = codec->stages;
  if (codec->search) {
    search_scales(c);
    return 0;
  }
  if (codec->format.zero_point) {
    const float levels = (float)(2 * codec->recipe->bias - 1);
    stages->range(c->in, codec->dtype, c->count, c->block, c->low, c->wanted);
    for (size_t i = 0; i < c->blocks; i++)
      c->wanted[i] = (c->wanted[i] - c->low[i]) / levels;
    return 0;
  }
  if (codec->recipe->statistic == NABLA_STATISTIC_MEAN) {
    stages->mean(c->in, codec->dtype, c->count, c->block, c->wanted);
    return 0;
  }
  if (!c->knows_peaks)
    stages->absmax(c->in, codec->dtype, c->count, c->block, c->wanted);
  return 1;
}

/* z = round(-min/scale) within 0..levels (E4), stored above the bias for
 * int8, whose codes are too. */
static void choose_zeros(chunk *c, uint8_t *stored) {
  const int bias = c->codec->recipe->bias, levels = 2 * bias - 1;
  const int shift = c->codec->format.encoding->bits == 8 ? bias : 0;
  for (size_t i = 0; i < c->blocks; i++) {
    const float z = c->codec->search       ? c->zeros[i]
                    : c->scales[i] == 0.0f ? 0.0f
                                           : rintf(-c->low[i] / c->scales[i]);
    const int whole = !(z > 0.0f) ? 0 : z < (float)levels ? (int)z : levels;
    c->zeros[i] = (float)(whole - bias);
    stored[i] = (uint8_t)(whole - shift);
  }
}

/* With zero points the scale was rounded, perhaps up: the largest code times it
 * could be infinite. */
static int range_is_finite(const chunk *c, size_t b) {
  const float levels = (float)(2 * c->codec->recipe->bias - 1);
  return !c->codec->format.zero_point || isfinite(c->scales[b] * levels);
}

static int all_finite(const chunk *c) {
  int finite = 1;
  for (size_t i = 0; i < c->blocks; i++) finite &= range_is_finite(c, i);
  return finite;
}

static int too_large_for_llm(const chunk *c) {
  /* FLT_MAX / 127 in f32 is rounded up: 127 times it is infinite. */
  return nabla_format_is_llm_int8(&c->codec->format) &&
         c->wanted[0] >= FLT_MAX / 127.0f;
}

/* The code stage, with a look at the chunk that follows where that is of use:
 * its peaks are what this chunk's are no longer needed for. */
static void make_codes(chunk *c, const nabla_blocks *blocks, int flags,
                       int from_peaks, uint8_t *codes) {
  const nabla_codec *codec = c->codec;
  const nabla_stages *stages = codec->stages;
  const int plain = !(flags & NABLA_ROUND_DIVIDE);
  c->knows_peaks = plain && from_peaks && c->may_look && stages->code_ahead;
  if (c->knows_peaks)
    stages->code_ahead(blocks, c->in, codec->dtype, c->block, codes, c->wanted);
  else
    (plain ? stages->code : stages->code_scalar)(blocks, c->in, codec->dtype,
                                                 c->count, c->block, codes);
}

/* @return 0 when some block cannot be encoded */
static int encode_chunk(chunk *c, uint8_t *codes, void *scales,
                        uint8_t *zero_points) {
  const nabla_codec *codec = c->codec;
  const int from_peaks = want_scales(c);
  const int is_f32 = codec->format.scale == NABLA_SCALE_F32 ||
                     codec->format.scale == NABLA_SCALE_DYNAMIC8;
  const nabla_rounding rounding = {.recipe = codec->recipe,
                                   .type = codec->format.scale,
                                   .from_peaks = from_peaks,
                                   .count = c->blocks,
                                   .wanted = c->wanted,
                                   .scales = c->scales,
                                   .factors = c->factors,
                                   .stored = scales};
  const int flags = codec->stages->round(&rounding);
  if (flags & NABLA_ROUND_BAD || too_large_for_llm(c) || !all_finite(c))
    return 0;
  if (nabla_format_is_llm_int8(&codec->format))
    memcpy(scales, c->wanted, sizeof(float));
  const int of_peaks = is_f32 && from_peaks;
  nabla_blocks blocks = {.scales = c->scales,
                         .factors = c->factors,
                         .divisors = of_peaks ? c->wanted : c->scales,
                         .times = of_peaks ? codec->recipe->limit : 1.0f};
  if (codec->format.zero_point) {
    choose_zeros(c, zero_points);
    blocks.zeros = c->zeros;
  }
  uint8_t line[NABLA_CHUNK];
  uint8_t *to = c->stream ? line : codes;
  make_codes(c, &blocks, flags, from_peaks, to);
  if (c->stream)
    codec->stages->stream(codes, line,
                          nabla_code_bytes(&codec->format, c->count));
  return 1;
}

static size_t value_width(const nabla_codec *codec) {
  return nabla_dtype_bits(codec->dtype) / 8;
}

static float value_at(const nabla_codec *codec, const uint8_t *in, size_t i) {
  const size_t width = value_width(codec);
  float value;
  uint16_t half;
  if (width == 4) {
    memcpy(&value, in + i * width, width);
    return value;
  }
  memcpy(&half, in + i * width, width);
  return codec->dtype == NABLA_DTYPE_F16 ? nabla_f16_to_f32(half)
                                         : nabla_bf16_to_f32(half);
}

/* The largest value of the first block whose scale cannot be stored. */
static size_t find_worst(const chunk *c) {
  size_t bad = 0, worst;
  while (bad + 1 < c->blocks && isfinite(c->scales[bad]) &&
         isfinite(c->wanted[bad]) && range_is_finite(c, bad))
    bad++;
  worst = bad * c->block;
  for (size_t i = worst; i < c->count && i < (bad + 1) * c->block; i++)
    if (fabsf(value_at(c->codec, c->in, i)) >
        fabsf(value_at(c->codec, c->in, worst)))
      worst = i;
  return worst;
}

/* Says what is wrong with a chunk: a value that is not finite, or else the
 * largest of a block whose scale is not. */
static nabla_status explain(const chunk *c, size_t first, size_t *out_index,
                            nabla_diag *diag) {
  const nabla_codec *codec = c->codec;
  for (size_t i = 0; i < c->count; i++) {
    const float x = value_at(codec, c->in, i);
    if (isfinite(x)) continue;
    if (out_index) *out_index = first + i;
    nabla_status status = nabla_fail(diag, NABLA_NOT_FINITE, "value %zu is %s",
                                     first + i, isnan(x) ? "NaN" : "infinite");
    nabla_diag_set_next(diag, "repair the input");
    return status;
  }
  const size_t worst = find_worst(c);
  if (out_index) *out_index = first + worst;
  const int llm = nabla_format_is_llm_int8(&codec->format);
  nabla_status status = nabla_fail(
      diag, NABLA_UNSUPPORTED, "value %zu is %g, beyond what %s can hold",
      first + worst, (double)value_at(codec, c->in, worst),
      llm ? "LLM.int8" : nabla_scale_info_of(codec->format.scale)->name);
  nabla_diag_set_next(
      diag, llm ? "use blocks instead of rows" : "use scales of a wider type");
  return status;
}

/* One segment, or everything. */
static nabla_status encode_span(const nabla_codec *codec, const uint8_t *in,
                                const float *weights, size_t count,
                                const nabla_packed *out, size_t first,
                                size_t *out_index, nabla_diag *diag) {
  const size_t block = (size_t)codec->format.block;
  const int is_pieces = codec->format.granularity != NABLA_PER_BLOCK;
  const size_t step = is_pieces || block > NABLA_CHUNK ? block : NABLA_CHUNK;
  const size_t width = nabla_scale_width(&codec->format);
  const int stream = !is_pieces && step == NABLA_CHUNK &&
                     count >= NABLA_STREAM_BYTES / value_width(codec);
  chunk c = {.codec = codec, .stream = stream};
  for (size_t at = 0; at < count; at += step) {
    c.in = in + at * value_width(codec);
    c.weights = weights ? weights + at : NULL;
    c.count = count - at < step ? count - at : step;
    c.block = is_pieces ? c.count : block;
    c.blocks = c.count / c.block + (c.count % c.block != 0);
    c.may_look = !is_pieces && step == NABLA_CHUNK && count - at >= 2 * step;
    const size_t done = at / block;
    if (!encode_chunk(&c, out->codes + nabla_code_bytes(&codec->format, at),
                      (uint8_t *)out->scales + done * width,
                      out->zero_points ? out->zero_points + done : NULL))
      return explain(&c, first + at, out_index, diag);
  }
  if (stream) codec->stages->stream(NULL, NULL, 0);
  return NABLA_OK;
}

/* The components of what follows the first `index` values. */
static nabla_packed packed_at(const nabla_codec *codec, const nabla_packed *all,
                              size_t index) {
  const nabla_format *format = &codec->format;
  const size_t scale = (size_t)nabla_scale_index(format, index);
  return (nabla_packed){
      .codes = all->codes + nabla_code_bytes(format, index),
      .scales = (uint8_t *)all->scales + scale * nabla_scale_width(format),
      .zero_points = all->zero_points ? all->zero_points + scale : NULL};
}

nabla_status nabla_encode(const nabla_codec *codec, const void *in,
                          const float *weights, size_t count,
                          const nabla_packed *out, size_t *out_index,
                          nabla_diag *diag) {
  const size_t segment =
      codec->format.segment ? (size_t)codec->format.segment : count;
  for (size_t at = 0; at < count; at += segment) {
    const nabla_packed part = packed_at(codec, out, at);
    const size_t size = count - at < segment ? count - at : segment;
    NABLA_TRY(encode_span(codec, (const uint8_t *)in + at * value_width(codec),
                          weights ? weights + at : NULL, size, &part, at,
                          out_index, diag));
  }
  return NABLA_OK;
}

int nabla_encode_part(const nabla_codec *codec, const void *in, size_t count,
                      float absmax, uint8_t *codes, void *scale) {
  float kept, factor, stored;
  nabla_rounding rounding = {.recipe = codec->recipe,
                             .type = codec->format.scale,
                             .from_peaks = 1,
                             .count = 1,
                             .wanted = &absmax,
                             .scales = &kept,
                             .factors = &factor,
                             .stored = &stored};
  const int flags = codec->stages->round(&rounding);
  const int llm = nabla_format_is_llm_int8(&codec->format);
  if (flags & NABLA_ROUND_BAD || (llm && absmax >= FLT_MAX / 127.0f)) return 0;
  const int is_f32 = codec->format.scale == NABLA_SCALE_F32 ||
                     codec->format.scale == NABLA_SCALE_DYNAMIC8;
  const nabla_blocks blocks = {.scales = &kept,
                               .factors = &factor,
                               .divisors = is_f32 ? &absmax : &kept,
                               .times = is_f32 ? codec->recipe->limit : 1.0f};
  nabla_kernel_code *code = flags & NABLA_ROUND_DIVIDE
                                ? codec->stages->code_scalar
                                : codec->stages->code;
  code(&blocks, in, codec->dtype, count, count, codes);
  if (scale)
    memcpy(scale, llm ? &absmax : &stored, nabla_scale_width(&codec->format));
  return 1;
}

/* Scales and zero points that are widened at a time. */
enum { WIDENED = 1024 };

typedef struct widened {
  float scales[WIDENED], zeros[WIDENED];
} widened;

static float widen_e8m0(uint8_t e) {
  if (e == 255) return NAN;
  return nabla_f32_of_bits(e ? (uint32_t)e << 23 : NABLA_F32_NORMAL / 2);
}

void nabla_scales_widen(nabla_scale_type type, const void *in, size_t count,
                        float *out) {
  const uint8_t *bytes = in;
  if (type == NABLA_SCALE_F16)
    nabla_to_f32(NABLA_DTYPE_F16, in, count, out);
  else if (type == NABLA_SCALE_BF16)
    nabla_to_f32(NABLA_DTYPE_BF16, in, count, out);
  else if (type == NABLA_SCALE_E8M0)
    for (size_t i = 0; i < count; i++) out[i] = widen_e8m0(bytes[i]);
  else
    for (size_t i = 0; i < count; i++)
      out[i] = nabla_f32_of_bits(nabla_load_le32(bytes + 4 * i));
}

static void widen(const nabla_codec *codec, const nabla_packed *in,
                  size_t count, widened *out) {
  const nabla_scale_type type = codec->format.scale;
  if (type == NABLA_SCALE_F32 || type == NABLA_SCALE_DYNAMIC8)
    memcpy(out->scales, in->scales, count * sizeof(float));
  else
    nabla_scales_widen(type, in->scales, count, out->scales);
  if (!codec->format.zero_point) return;
  const int is_signed = codec->format.encoding->bits == 8;
  for (size_t i = 0; i < count; i++)
    out->zeros[i] =
        is_signed ? (float)(int8_t)in->zero_points[i]
                  : (float)in->zero_points[i] - (float)codec->recipe->bias;
}

static void decode_span(const nabla_codec *codec, const nabla_packed *in,
                        size_t count, uint8_t *out, int stream) {
  const nabla_format *format = &codec->format;
  const size_t block = (size_t)format->block;
  const int direct = (format->scale == NABLA_SCALE_F32 ||
                      format->scale == NABLA_SCALE_DYNAMIC8) &&
                     !format->zero_point;
  const int regular = block >= NABLA_BLOCK_MIN && block <= NABLA_BLOCK_MAX &&
                      (block & (block - 1)) == 0;
  const size_t some = regular ? WIDENED : 1; /* blocks at a time */
  const size_t step = direct && regular ? count : some * block;
  nabla_blocks blocks = {
      .after = nabla_format_is_llm_int8(format) ? NABLA_INT8_STEP : 1.0f};
  widened wide;
  for (size_t at = 0; at < count; at += step) {
    const size_t size = count - at < step ? count - at : step;
    const nabla_packed part = packed_at(codec, in, at);
    blocks.scales = direct ? part.scales : wide.scales;
    if (!direct) widen(codec, &part, size / block + (size % block != 0), &wide);
    if (format->zero_point) blocks.zeros = wide.zeros;
    codec->stages->decode(&blocks, part.codes, size, regular ? block : size,
                          codec->dtype, out + at * value_width(codec), stream);
  }
}

void nabla_decode(const nabla_codec *codec, const nabla_packed *in,
                  size_t count, void *out) {
  const size_t segment =
      codec->format.segment ? (size_t)codec->format.segment : count;
  const int stream = count >= NABLA_STREAM_BYTES / value_width(codec);
  nabla_codec flat = *codec;
  flat.format.segment = 0;
  for (size_t at = 0; at < count; at += segment) {
    const nabla_packed part = packed_at(codec, in, at);
    const size_t size = count - at < segment ? count - at : segment;
    decode_span(&flat, &part, size, (uint8_t *)out + at * value_width(codec),
                stream);
  }
}

void nabla_encoding_table(const nabla_encoding *encoding,
                          float out[NABLA_TABLE_VALUES]) {
  const nabla_recipe *recipe = nabla_recipe_find(encoding);
  for (int i = 0; i < NABLA_TABLE_VALUES; i++)
    out[i] = recipe->value((uint8_t)i);
}

float nabla_absmax(nabla_isa isa, const float *in, size_t count) {
  float most = 0;
  size_t ignored;
  if (count)
    nabla_stages_find(nabla_encodings(&ignored), nabla_isa_resolve(isa))
        ->absmax(in, NABLA_DTYPE_F32, count, count, &most);
  return most;
}
