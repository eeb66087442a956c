/* See nabla/dynamic8.h. The code of a scaled value is looked up by its sign,
 * exponent and first six bits of mantissa: no two midpoints of the map share
 * these, so that one comparison decides what the table leaves open. */
#include "nabla/dynamic8.h"

#include <math.h>
#include <pthread.h>

#include "lib/base/bytes.h"

enum {
  KEY_SHIFT = 17,
  KEYS = 1 << (32 - KEY_SHIFT),
  CODES = NABLA_DYNAMIC8_CODES,
  GROUP = NABLA_DYNAMIC8_BLOCK,
  CHUNK = NABLA_DYNAMIC8_CHUNK,
  ZERO_CODE = 127,
  DECADES = 7,
};

static float map[CODES];
static float midpoints[CODES]; /* above code i; infinite above the last */
static uint8_t least[KEYS];    /* the code of a key's lowest value      */
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* Point `i` of parts + 1 from 0.1 to 1 as torch.linspace gives it in f32 on
 * CPUs with fused multiply-add: a rounded step, from the nearer end. In f64
 * both operations are exact, and the sum is rounded once. */
static float point_of(int parts, int i) {
  const double step = (double)((1.0f - 0.1f) / (float)parts);
  return i < (parts + 1) / 2 ? (float)((double)0.1f + step * i)
                             : (float)(1.0 - step * (parts - i));
}

/* bitsandbytes/functional.py, create_dynamic_map(signed=True): means of
 * neighbours among evenly spaced points from 0.1 to 1, in seven decades. */
static void fill_map(void) {
  static const float powers[DECADES] = {1e-6f, 1e-5f, 1e-4f, 1e-3f,
                                        1e-2f, 1e-1f, 1.0f};
  size_t above = ZERO_CODE, below = ZERO_CODE;
  map[ZERO_CODE] = 0;
  for (size_t decade = 0; decade < DECADES; decade++) {
    const int points = 1 << decade;
    for (int i = 0; i < points; i++) {
      const float sum = point_of(points, i) + point_of(points, i + 1);
      const float value = powers[decade] * (sum / 2.0f);
      map[++above] = value;
      map[--below] = -value;
    }
  }
  map[CODES - 1] = 1;
}

/* How many midpoints are strictly below. */
static uint8_t count_below(float value) {
  unsigned code = 0;
  for (unsigned step = CODES / 2; step; step /= 2)
    if (value > midpoints[code + step - 1]) code += step;
  return (uint8_t)code;
}

static void prepare(void) {
  fill_map();
  for (size_t i = 0; i + 1 < CODES; i++)
    midpoints[i] = (map[i] + map[i + 1]) * 0.5f;
  midpoints[CODES - 1] = INFINITY;
  for (uint32_t key = 0; key < KEYS; key++) {
    /* of a negative key the lowest value has all other bits set */
    const uint32_t bits =
        key << KEY_SHIFT | (key >= KEYS / 2 ? (1u << KEY_SHIFT) - 1 : 0);
    const float value = nabla_f32_of_bits(bits);
    least[key] = isnan(value) ? ZERO_CODE : count_below(value);
  }
}

const float *nabla_dynamic8_map(void) {
  pthread_once(&once, prepare);
  return map;
}

static double sum_of(const float *scales, size_t count) {
  double sum = 0;
  for (size_t i = 0; i < count; i++) sum += (double)scales[i];
  return sum;
}

/* Four chunks at a time: each sum waits for its own additions only. */
double nabla_dynamic8_add(double sum, const float *scales, size_t count) {
  size_t at = 0;
  for (; count - at >= (size_t)4 * CHUNK; at += (size_t)4 * CHUNK) {
    const float *in = scales + at;
    double parts[4] = {0};
    for (size_t i = 0; i < CHUNK; i++)
      for (size_t k = 0; k < 4; k++) parts[k] += (double)in[k * CHUNK + i];
    for (size_t k = 0; k < 4; k++) sum += parts[k];
  }
  for (; at < count; at += CHUNK)
    sum += sum_of(scales + at, count - at < CHUNK ? count - at : CHUNK);
  return sum;
}

float nabla_dynamic8_offset(double sum, uint64_t count) {
  return count ? (float)(sum / (double)count) : 0;
}

/* By magnitude as an integer, so that NaN counts as larger than infinity. */
static float absmax_of(const float *values, size_t count) {
  uint32_t most = 0;
  for (size_t i = 0; i < count; i++) {
    const uint32_t bits = nabla_bits_of_f32(values[i]) & 0x7fffffffu;
    most = bits > most ? bits : most;
  }
  return nabla_f32_of_bits(most);
}

static uint8_t code_of(float value) {
  const uint8_t code = least[nabla_bits_of_f32(value) >> KEY_SHIFT];
  return (uint8_t)(code + (value > midpoints[code]));
}

/* @return whether all codes decode to something finite */
static int encode_group(const float *scales, size_t count, float offset,
                        uint8_t *codes, float *out_absmax) {
  float scaled[GROUP];
  for (size_t i = 0; i < count; i++) scaled[i] = scales[i] - offset;
  const float absmax = absmax_of(scaled, count);
  *out_absmax = absmax;
  if (absmax >= 0x1p-126f) {
    const float factor = 1 / absmax;
    for (size_t i = 0; i < count; i++) scaled[i] *= factor;
  } else {
    for (size_t i = 0; i < count; i++)
      scaled[i] = absmax > 0 ? scaled[i] / absmax : 0;
  }
  for (size_t i = 0; i < count; i++) codes[i] = code_of(scaled[i]);
  return isfinite(absmax) && isfinite(offset + absmax) &&
         isfinite(offset - absmax);
}

int nabla_dynamic8_encode(const float *scales, size_t count, float offset,
                          uint8_t *codes, float *absmax) {
  int all = 1;
  pthread_once(&once, prepare);
  for (size_t at = 0; at < count; at += GROUP)
    all &= encode_group(scales + at, count - at < GROUP ? count - at : GROUP,
                        offset, codes + at, &absmax[at / GROUP]);
  return all;
}

void nabla_dynamic8_decode(const nabla_dynamic8 *how, const uint8_t *codes,
                           const float *absmax, size_t first, size_t count,
                           float *out) {
  for (size_t i = 0; i < count;) {
    const float factor = absmax[(first + i) / how->block];
    const size_t left = how->block - (first + i) % how->block;
    const size_t end = count - i < left ? count : i + left;
    for (; i < end; i++) out[i] = how->map[codes[i]] * factor + how->offset;
  }
}
