/* The error that a format has on normally distributed values: measured, on
 * always the same values, so that every encoding has it. */
#include <math.h>
#include <string.h>

#include "lib/base/memory.h"
#include "lib/base/require.h"
#include "nabla/dynamic8.h"
#include "quant/codec/codec.h"

enum {
  COUNT = 1 << 16,
  SCALES = COUNT / NABLA_BLOCK_MIN,
  GROUPS = SCALES / NABLA_DYNAMIC8_BLOCK,
};

typedef struct sample {
  float in[COUNT], out[COUNT], scales[SCALES], groups[GROUPS];
  uint8_t codes[COUNT], zeros[SCALES], bytes[SCALES];
} sample;

/* Box and Muller, on splitmix64 (Steele, Lea, Flood, 2014). */
static void fill_normal(float *out) {
  for (uint64_t i = 0; i < COUNT; i++) {
    uint64_t bits = (i + 1) * UINT64_C(0x9e3779b97f4a7c15);
    bits = (bits ^ bits >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    bits = (bits ^ bits >> 27) * UINT64_C(0x94d049bb133111eb);
    bits ^= bits >> 31;
    const double u = ((double)(bits >> 32) + 0.5) * 0x1p-32;
    const double v = (double)(bits & 0xffffffff) * 0x1p-32;
    out[i] = (float)(sqrt(-2 * log(u)) * cos(6.283185307179586 * v));
  }
}

/* What dynamic8 makes of the scales. */
static int restore_scales(sample *s, size_t count) {
  nabla_dynamic8 how = {.block = NABLA_DYNAMIC8_BLOCK};
  how.offset =
      nabla_dynamic8_offset(nabla_dynamic8_add(0, s->scales, count), count);
  memcpy(how.map, nabla_dynamic8_map(), sizeof how.map);
  if (!nabla_dynamic8_encode(s->scales, count, how.offset, s->bytes, s->groups))
    return 0;
  nabla_dynamic8_decode(&how, s->bytes, s->groups, 0, count, s->scales);
  return 1;
}

static nabla_status measure(const nabla_format *format, int search, sample *s,
                            double *out, nabla_diag *diag) {
  const nabla_codec_options how = {
      .struct_size = sizeof how, .dtype = NABLA_DTYPE_F32, .search = search};
  const nabla_packed packed = {
      .codes = s->codes,
      .scales = s->scales,
      .zero_points = format->zero_point ? s->zeros : NULL};
  nabla_packed_size size;
  nabla_codec codec;
  double miss = 0, power = 0;
  NABLA_TRY(nabla_codec_select(format, &how, &codec, diag));
  NABLA_TRY(nabla_format_size(format, COUNT, &size, diag));
  fill_normal(s->in);
  NABLA_TRY(nabla_encode(&codec, s->in, NULL, COUNT, &packed, NULL, diag));
  if (format->scale == NABLA_SCALE_DYNAMIC8 &&
      !restore_scales(s, (size_t)size.scales))
    return nabla_fail(diag, NABLA_NOT_FINITE, "a scale is not finite");
  nabla_decode(&codec, &packed, COUNT, s->out);
  for (size_t i = 0; i < COUNT; i++) {
    const double x = (double)s->in[i], d = (double)s->out[i] - x;
    miss += d * d;
    power += x * x;
  }
  *out = sqrt(miss / power);
  return NABLA_OK;
}

nabla_status nabla_format_expected_error(const nabla_format *format, int search,
                                         const nabla_allocator *allocator,
                                         double *out, nabla_diag *diag) {
  NABLA_REQUIRE(format, diag);
  NABLA_REQUIRE(out, diag);
  nabla_format sampled = *format;
  void *block;
  /* What the last block of an index lacks makes little difference. */
  sampled.segment = 0;
  if (sampled.granularity != NABLA_PER_BLOCK && sampled.block > COUNT)
    sampled.block = COUNT;
  if (sampled.granularity != NABLA_PER_BLOCK && sampled.block < NABLA_BLOCK_MIN)
    sampled.block = NABLA_BLOCK_MIN;
  NABLA_TRY(nabla_alloc(allocator, 1, sizeof(sample), &block, diag));
  nabla_status status = measure(&sampled, search, block, out, diag);
  nabla_free(allocator, block, 1, sizeof(sample));
  return status;
}
