/* Encodes arrays: passes values through the stages of quant/codec/kernel.h,
 * chunk by chunk, and reports values that cannot be encoded. */
#include <math.h>
#include <string.h>

#include "lib/base/require.h"
#include "quant/codec/codec.h"
#include "quant/codec/int8.h"
#include "quant/codec/scalar.h"
#include "quant/codec/search.h"

/* State of one chunk. */
typedef struct chunk {
  const nabla_codec *codec;
  const uint8_t *in;
  const float *weights;
  size_t count, block, blocks;
  int knows_peaks; /* code_ahead has stored the peaks in `wanted` */
  int may_look;    /* a full chunk follows, which code_ahead may read */
  int stream;      /* codes are stored past the caches */
  int carries;     /* `line` begins with codes that are not written yet */
  float wanted[NABLA_CHUNK_BLOCKS], scales[NABLA_CHUNK_BLOCKS],
      factors[NABLA_CHUNK_BLOCKS], low[NABLA_CHUNK_BLOCKS],
      zeros[NABLA_CHUNK_BLOCKS];
  /* Codes before they are stored past the caches; at the same offset from a
   * multiple of 64 as their destination. */
  _Alignas(64) uint8_t line[64 + NABLA_CHUNK];
} chunk;

/* The search reads f32 only. */
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

/* Returns the largest code with zero points, counted from 0. */
static int levels_of(const nabla_codec *codec) {
  return 2 * codec->recipe->bias - 1;
}

/* Fills `wanted`. Returns 1 if it has absmax or peaks, from which the round
 * stage computes scales, and 0 if it has the scales themselves. */
static int want_scales(chunk *c) {
  const nabla_codec *codec = c->codec;
  const nabla_stages *stages = codec->stages;
  if (codec->search) {
    search_scales(c);
    return 0;
  }
  if (codec->format.zero_point) {
    const float levels = (float)levels_of(codec);
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
    (codec->recipe->statistic == NABLA_STATISTIC_PEAK
         ? stages->peak
         : stages->absmax)(c->in, codec->dtype, c->count, c->block, c->wanted);
  return 1;
}

/* Computes z = round(-min/scale) within 0..levels (E4). For int8 it is stored
 * minus the bias, as its codes are. */
static void choose_zeros(chunk *c, uint8_t *stored) {
  const int bias = c->codec->recipe->bias, levels = levels_of(c->codec);
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

/* Returns the largest code if its product with the scale may be infinite
 * because the scale was rounded up, else 0. A block with a peak always has this
 * code. Quotients in f32 are exact enough, and f16 scales are too small. */
static float code_to_check(const nabla_codec *codec) {
  if (codec->format.zero_point) return (float)levels_of(codec);
  return codec->recipe->statistic == NABLA_STATISTIC_PEAK &&
                 codec->format.scale == NABLA_SCALE_BF16
             ? codec->recipe->limit
             : 0.0f;
}

static int range_is_finite(const chunk *c, size_t b) {
  const float code = code_to_check(c->codec);
  return code == 0.0f || isfinite(c->scales[b] * code);
}

static int all_finite(const chunk *c) {
  size_t i = code_to_check(c->codec) != 0.0f ? 0 : c->blocks;
  while (i < c->blocks && range_is_finite(c, i)) i++;
  return i == c->blocks;
}

static int too_large_for_llm(const nabla_codec *codec, float absmax) {
  return nabla_format_is_llm_int8(&codec->format) &&
         absmax >= NABLA_LLM_INT8_LIMIT;
}

/* Returns the inputs of the code stage for blocks with rounded scales. */
static nabla_blocks blocks_of(const nabla_codec *codec,
                              const nabla_rounding *rounding) {
  const int by_peaks =
      rounding->from_peaks && nabla_scales_are_f32(&codec->format);
  return (nabla_blocks){
      .scales = rounding->scales,
      .factors = rounding->factors,
      .divisors = by_peaks ? rounding->wanted : rounding->scales,
      .times = by_peaks ? codec->recipe->limit : 1.0f};
}

/* Runs the code stage. code_ahead also stores the peaks of the next chunk in
 * `wanted`, which this chunk no longer needs. */
static void make_codes(chunk *c, const nabla_blocks *blocks, int plain,
                       uint8_t *codes, uint8_t *past) {
  const nabla_codec *codec = c->codec;
  const nabla_stages *stages = codec->stages;
  const nabla_ahead ahead = {.peaks = c->wanted, .past = past};
  if (c->knows_peaks)
    stages->code_ahead(blocks, c->in, codec->dtype, c->block, codes, &ahead);
  else
    (plain ? stages->code : stages->code_scalar)(blocks, c->in, codec->dtype,
                                                 c->count, c->block, codes);
}

/* Writes the codes at the start of `line` to the bytes before `codes`. */
static void put_carried(chunk *c, uint8_t *codes) {
  const size_t before = (uintptr_t)codes % 64;
  if (c->carries && before) memcpy(codes - before, c->line, before);
  c->carries = 0;
}

/* Runs the code stage with stores past the caches: of whole lines during the
 * stage if possible, else after it. */
static void stream_codes(chunk *c, const nabla_blocks *blocks, int plain,
                         uint8_t *codes) {
  const size_t before = (uintptr_t)codes % 64;
  const size_t size = nabla_code_bytes(&c->codec->format, c->count);
  const int by_lines = c->knows_peaks && c->carries;
  if (!by_lines) put_carried(c, codes);
  make_codes(c, blocks, plain, c->line + before,
             by_lines ? codes - before : NULL);
  if (!by_lines) c->codec->stages->stream(codes, c->line + before, size);
  c->carries = c->knows_peaks;
  if (c->carries && before) /* the chunk is full: whole lines */
    memcpy(c->line, c->line + size, before);
}

/* Encodes one chunk.
 * @param out  outputs of the chunk; without zero points if the format has none
 * @return 0 if a block cannot be encoded */
static int encode_chunk(chunk *c, const nabla_packed *out) {
  const nabla_codec *codec = c->codec;
  const int from_peaks = want_scales(c);
  const nabla_rounding rounding = {.recipe = codec->recipe,
                                   .type = codec->format.scale,
                                   .from_peaks = from_peaks,
                                   .count = c->blocks,
                                   .wanted = c->wanted,
                                   .scales = c->scales,
                                   .factors = c->factors,
                                   .stored = out->scales};
  const int flags = codec->stages->round(&rounding);
  if (flags & NABLA_ROUND_BAD || too_large_for_llm(codec, c->wanted[0]) ||
      !all_finite(c))
    return 0;
  if (nabla_format_is_llm_int8(&codec->format))
    memcpy(out->scales, c->wanted, sizeof(float));
  nabla_blocks blocks = blocks_of(codec, &rounding);
  if (out->zero_points) {
    choose_zeros(c, out->zero_points);
    blocks.zeros = c->zeros;
  }
  const int plain = !(flags & NABLA_ROUND_DIVIDE);
  c->knows_peaks =
      plain && from_peaks && c->may_look && codec->stages->code_ahead;
  if (c->stream)
    stream_codes(c, &blocks, plain, out->codes);
  else
    make_codes(c, &blocks, plain, out->codes, NULL);
  return 1;
}

static float value_at(const chunk *c, size_t i) {
  return nabla_load_value(c->in, c->codec->dtype, i);
}

/* Returns the index of the largest value in the first block whose scale cannot
 * be stored. */
static size_t find_worst(const chunk *c) {
  size_t bad = 0, worst;
  while (bad + 1 < c->blocks && isfinite(c->scales[bad]) &&
         isfinite(c->wanted[bad]) && range_is_finite(c, bad))
    bad++;
  worst = bad * c->block;
  for (size_t i = worst; i < c->count && i < (bad + 1) * c->block; i++)
    if (fabsf(value_at(c, i)) > fabsf(value_at(c, worst))) worst = i;
  return worst;
}

/* Reports the value for which a chunk cannot be encoded: the first that is not
 * finite, or else the largest of a block whose scale is not. */
static nabla_status explain(const chunk *c, size_t first, size_t *out_index,
                            nabla_diag *diag) {
  const nabla_codec *codec = c->codec;
  for (size_t i = 0; i < c->count; i++) {
    const float x = value_at(c, i);
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
      first + worst, (double)value_at(c, worst),
      llm ? "LLM.int8" : nabla_scale_info_of(codec->format.scale)->name);
  nabla_diag_set_next(
      diag, llm ? "use blocks instead of rows" : "use scales of a wider type");
  return status;
}

/* Encodes one segment, or the whole array. */
static nabla_status encode_span(const nabla_codec *codec, const uint8_t *in,
                                const float *weights, size_t count,
                                const nabla_packed *out, size_t first,
                                size_t *out_index, nabla_diag *diag) {
  const size_t block = (size_t)codec->format.block;
  const int is_pieces = codec->format.granularity != NABLA_PER_BLOCK;
  const size_t step = is_pieces || block > NABLA_CHUNK ? block : NABLA_CHUNK;
  const int stream = !is_pieces && step == NABLA_CHUNK &&
                     count >= NABLA_STREAM_BYTES / nabla_value_width(codec);
  nabla_status status = NABLA_OK;
  chunk c;
  c.codec = codec;
  c.stream = stream;
  c.knows_peaks = c.carries = 0;
  for (size_t at = 0; at < count; at += step) {
    c.in = in + at * nabla_value_width(codec);
    c.weights = weights ? weights + at : NULL;
    c.count = count - at < step ? count - at : step;
    c.block = is_pieces ? c.count : block;
    c.blocks = c.count / c.block + (c.count % c.block != 0);
    c.may_look = !is_pieces && step == NABLA_CHUNK && count - at >= 2 * step;
    const nabla_packed part = nabla_packed_at(codec, out, at);
    if (!encode_chunk(&c, &part)) {
      status = explain(&c, first + at, out_index, diag);
      break;
    }
  }
  if (stream) codec->stages->stream(NULL, NULL, 0);
  return status;
}

nabla_status nabla_encode(const nabla_codec *codec, const void *in,
                          const float *weights, size_t count,
                          const nabla_packed *out, size_t *out_index,
                          nabla_diag *diag) {
  NABLA_REQUIRE(codec, diag);
  if (count) NABLA_REQUIRE(in, diag);
  if (count) NABLA_REQUIRE(out, diag);
  const size_t segment =
      codec->format.segment ? (size_t)codec->format.segment : count;
  for (size_t at = 0; at < count; at += segment) {
    const nabla_packed part = nabla_packed_at(codec, out, at);
    const size_t size = count - at < segment ? count - at : segment;
    NABLA_TRY(encode_span(
        codec, (const uint8_t *)in + at * nabla_value_width(codec),
        weights ? weights + at : NULL, size, &part, at, out_index, diag));
  }
  return NABLA_OK;
}

int nabla_encode_part(const nabla_codec *codec, const void *in, size_t count,
                      float absmax, uint8_t *codes, void *scale) {
  float kept, factor, stored;
  const nabla_rounding rounding = {.recipe = codec->recipe,
                                   .type = codec->format.scale,
                                   .from_peaks = 1,
                                   .count = 1,
                                   .wanted = &absmax,
                                   .scales = &kept,
                                   .factors = &factor,
                                   .stored = &stored};
  const int flags = codec->stages->round(&rounding);
  if (flags & NABLA_ROUND_BAD || too_large_for_llm(codec, absmax)) return 0;
  const nabla_blocks blocks = blocks_of(codec, &rounding);
  const int plain = !(flags & NABLA_ROUND_DIVIDE);
  (plain ? codec->stages->code : codec->stages->code_scalar)(
      &blocks, in, codec->dtype, count, count, codes);
  const int llm = nabla_format_is_llm_int8(&codec->format);
  if (scale)
    memcpy(scale, llm ? &absmax : &stored, nabla_scale_width(&codec->format));
  return 1;
}
