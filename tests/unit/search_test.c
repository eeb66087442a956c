/* The search for scales: never worse than none, the same on every instruction
 * set, as good as promised. Errors are measured with the definition of each
 * encoding (quant/codec/<id>.c), in f64. */
#include "quant/codec/search.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/floats.h"
#include "quant/codec/kernel.h"

enum { ISAS = 3, MOST = 1 << 16, GUARD = 4, LEAST_BLOCK = NABLA_BLOCK_MIN };

static uint64_t seed = 1;

static uint32_t random_bits(void) { /* splitmix64 */
  uint64_t z = seed += UINT64_C(0x9e3779b97f4a7c15);
  z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
  return (uint32_t)((z ^ z >> 31) >> 32);
}

static float random_normal(void) {
  double u = (random_bits() + 1.0) / 4294967297.0;
  return (float)(sqrt(-2 * log(u)) *
                 cos(6.283185307179586 * random_bits() / 4294967296.0));
}

static float values[MOST], weights[MOST];

static void fill_normal(void) {
  for (size_t i = 0; i < MOST; i++) {
    const float z = random_normal();
    values[i] = random_normal();
    weights[i] = z * z * z * z;
  }
}

typedef struct result {
  float scales[MOST / LEAST_BLOCK + GUARD], zeros[MOST / LEAST_BLOCK + GUARD];
} result;

static size_t blocks_of(const nabla_format *format, size_t count) {
  return (count + (size_t)format->block - 1) / (size_t)format->block;
}

static void search(const nabla_format *format, const float *in,
                   const float *importance, size_t count, nabla_isa isa,
                   result *out) {
  memset(out, 0xA5, sizeof *out);
  const nabla_search s = {.format = format,
                          .in = in,
                          .weights = importance,
                          .count = count,
                          .scales = out->scales,
                          .zeros = format->zero_point ? out->zeros : NULL};
  nabla_search_run(&s, isa);
}

/* The scale as it is stored: the result must be so already. */
static float stored(const nabla_format *format, float scale) {
  if (format->scale == NABLA_SCALE_F16)
    return nabla_f16_to_f32(nabla_f32_to_f16(scale));
  if (format->scale == NABLA_SCALE_BF16)
    return nabla_bf16_to_f32(nabla_f32_to_bf16(scale));
  if (format->scale == NABLA_SCALE_E8M0)
    return scale <= 0x1p-127f ? 0x1p-127f : exp2f(floorf(log2f(scale)));
  return scale;
}

/* The squared error of a block with the ordinary rule (E2, k = 1/scale). */
static double error_of(const nabla_format *format, const float *in,
                       const float *importance, size_t count, float wanted,
                       float zero) {
  const nabla_recipe *recipe = nabla_recipe_find(format->encoding);
  const float scale = stored(format, wanted), factor = 1.0f / scale;
  const nabla_scaler scaler = {.scale = scale,
                               .factor = scale == 0.0f      ? 0.0f
                                         : isfinite(factor) ? factor
                                                            : NAN,
                               .divisor = scale,
                               .times = 1.0f,
                               .zero = zero - (float)recipe->bias,
                               .has_zero = format->zero_point};
  double sum = 0;
  for (size_t i = 0; i < count; i++) {
    float value = recipe->value(recipe->code(in[i], &scaler));
    if (format->zero_point) value -= scaler.zero;
    const double miss = (double)in[i] - (double)(value * scale);
    sum += miss * miss * (importance ? (double)importance[i] : 1.0);
  }
  return sum;
}

/* What no search gives. */
static void plain(const nabla_format *format, const float *in, size_t count,
                  float *out_scale, float *out_zero) {
  const nabla_recipe *recipe = nabla_recipe_find(format->encoding);
  float least = 0, most = 0, peak = 0;
  double sum = 0;
  for (size_t i = 0; i < count; i++) {
    least = fminf(least, in[i]), most = fmaxf(most, in[i]);
    if (fabsf(in[i]) > fabsf(peak) || (in[i] < 0 && in[i] == -peak))
      peak = in[i];
    sum += fabs((double)in[i]);
  }
  const int levels = 2 * recipe->bias - 1;
  float scale = recipe->statistic == NABLA_STATISTIC_MEAN
                    ? (float)(sum / (double)count)
                    : (recipe->limit < 0 ? peak : fabsf(peak)) / recipe->limit;
  if (format->zero_point) scale = (most - least) / (float)levels;
  if (format->scale == NABLA_SCALE_E8M0)
    scale = exp2f(floorf(log2f(fabsf(peak))) - (float)recipe->emax);
  *out_scale = stored(format, scale);
  const float z = rintf(-least / *out_scale);
  *out_zero = !format->zero_point || !(z > 0) ? 0.0f : fminf(z, (float)levels);
}

/* Errors of all blocks, with and without the search. */
typedef struct errors {
  double searched, plain, power;
} errors;

static errors compare(const nabla_format *format, const float *in,
                      const float *importance, size_t count,
                      const result *found) {
  errors sum = {0};
  const size_t block = (size_t)format->block;
  for (size_t at = 0; at < count; at += block) {
    const size_t b = at / block, size = count - at < block ? count - at : block;
    const float *w = importance ? importance + at : NULL;
    float scale, zero;
    plain(format, in + at, size, &scale, &zero);
    const double before = error_of(format, in + at, w, size, scale, zero);
    const double after = error_of(format, in + at, w, size, found->scales[b],
                                  format->zero_point ? found->zeros[b] : 0.0f);
    /* The search adds up in f32, and what it compares is within that. */
    cr_assert_leq(after, before * (1 + 1e-4) + 1e-30,
                  "%s, block %zu of %zu: %g without, %g with",
                  format->encoding->name, b, block, before, after);
    cr_assert_eq(stored(format, found->scales[b]), found->scales[b]);
    sum.searched += after, sum.plain += before;
    for (size_t i = 0; i < size; i++)
      sum.power += (double)in[at + i] * (double)in[at + i] * (w ? w[i] : 1);
  }
  return sum;
}

/* Each case runs in a process of its own: a number names encoding, scale type,
 * zero point and block. */
static int case_of(size_t number, nabla_format *format) {
  static const uint64_t sizes[] = {16, 32, 64, 128, 256, 4096};
  size_t rows;
  const nabla_encoding *encodings = nabla_encodings(&rows);
  *format = (nabla_format){.block = sizes[number % 6]};
  number /= 6;
  format->zero_point = number % 2;
  number /= 2;
  format->scale = (nabla_scale_type)(number % 5);
  number /= 5;
  if (number >= rows) return -1;
  format->encoding = &encodings[number];
  nabla_packed_size size;
  return nabla_format_size(format, 64, &size, NULL) == NABLA_OK;
}

static struct criterion_test_params every_case(void) {
  static size_t cases[1024];
  size_t count = 0;
  nabla_format format;
  for (size_t i = 0; case_of(i, &format) >= 0; i++)
    if (case_of(i, &format)) cases[count++] = i;
  return cr_make_param_array(size_t, cases, count);
}

ParameterizedTestParameters(search, is_never_worse) { return every_case(); }

ParameterizedTest(size_t *number, search, is_never_worse) {
  static result found;
  nabla_format format;
  case_of(*number, &format);
  fill_normal();
  const size_t count = 8192 + 21; /* a short last block */
  for (int w = 0; w < 2; w++) {
    const float *importance = w ? weights : NULL;
    search(&format, values, importance, count, NABLA_ISA_BEST, &found);
    const errors e = compare(&format, values, importance, count, &found);
    cr_expect_lt(e.searched, e.plain + (format.encoding->bits == 1 && !w),
                 "%s: %g, without the search %g", format.encoding->name,
                 e.searched, e.plain);
  }
}

/* Values that are awkward for any of the paths. */
static void fill_awkward(void) {
  fill_normal();
  for (size_t b = 0; b < MOST / LEAST_BLOCK; b++) {
    float *x = values + b * LEAST_BLOCK;
    const float scale = ldexpf(1.0f, (int)(random_bits() % 300) - 160);
    const unsigned kind = random_bits() % 12;
    for (int i = 0; i < LEAST_BLOCK; i++) {
      if (kind == 0) x[i] = random_bits() % 2 ? 0.0f : -0.0f;
      if (kind == 1) x[i] = scale > 0x1p125f ? FLT_MAX : x[i] * scale;
      if (kind == 2) x[i] = i == 3 ? 1000.0f : 0.0f;
      if (kind == 3) x[i] = (float)(i % 3) - 1.0f;
      if (kind == 4) x[i] = fabsf(x[i]) + 3.0f;
      if (kind == 5) x[i] = -5.0f;
      if (kind == 6) x[i] = ldexpf(x[i], (int)(random_bits() % 40) - 30);
      if (kind == 7) x[i] = (float)((int)(random_bits() % 65) - 32) / 32.0f;
      if (kind == 8) x[i] = i % 5 ? 0.0f : nabla_f32_of_bits((uint32_t)i + 1);
    }
  }
}

static void expect_equal(const nabla_format *format, const float *importance,
                         size_t count, const result *a, const result *b) {
  const size_t bytes = (blocks_of(format, count) + GUARD) * sizeof(float);
  cr_assert_eq(memcmp(a->scales, b->scales, bytes), 0,
               "%s scales, block %zu, count %zu, weights %d",
               format->encoding->name, (size_t)format->block, count,
               importance != NULL);
  cr_assert_eq(memcmp(a->zeros, b->zeros, bytes), 0, "%s zeros",
               format->encoding->name);
}

ParameterizedTestParameters(search, is_the_same_everywhere) {
  return every_case();
}

ParameterizedTest(size_t *number, search, is_the_same_everywhere) {
  static const size_t counts[] = {1, 15, 64, 1000, 1024, 8192 + 33};
  static result first, other;
  nabla_format format;
  case_of(*number, &format);
  fill_awkward();
  for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
    for (int w = 0; w < 2; w++) {
      const float *importance = w ? weights : NULL;
      float *in = malloc(counts[c] * sizeof *in); /* for ASan */
      memcpy(in, values, counts[c] * sizeof *in);
      search(&format, in, importance, counts[c], NABLA_ISA_SCALAR, &first);
      for (int isa = NABLA_ISA_AVX2; isa <= NABLA_ISA_AVX512; isa++) {
        if (!nabla_isa_available((nabla_isa)isa)) continue;
        search(&format, in, importance, counts[c], (nabla_isa)isa, &other);
        expect_equal(&format, importance, counts[c], &first, &other);
      }
      free(in);
    }
}

/* Relative errors on N(0,1) that are promised. */
static const struct {
  const char *encoding;
  nabla_scale_type scale;
  int zero_point;
  uint64_t block;
  double bound;
} bars[] = {
    {"nf4", NABLA_SCALE_F32, 0, 64, 0.0832},
    {"nf4", NABLA_SCALE_F16, 0, 32, 0.0766},
    {"int4", NABLA_SCALE_F16, 1, 32, 0.0782},
    {"int4", NABLA_SCALE_F16, 0, 32, 0.0815},
};

Test(search, reaches_its_bars) {
  static result found;
  fill_normal();
  for (size_t i = 0; i < sizeof bars / sizeof *bars; i++) {
    const nabla_format format = {
        .encoding = nabla_encoding_find(bars[i].encoding),
        .block = bars[i].block,
        .scale = bars[i].scale,
        .zero_point = bars[i].zero_point};
    search(&format, values, NULL, MOST, NABLA_ISA_BEST, &found);
    const errors e = compare(&format, values, NULL, MOST, &found);
    cr_expect_leq(sqrt(e.searched / e.power), bars[i].bound, "%s: %g",
                  bars[i].encoding, sqrt(e.searched / e.power));
  }
}

ParameterizedTestParameters(search, heeds_weights) { return every_case(); }

/* The weighted error is below that of scales chosen without the weights. */
ParameterizedTest(size_t *number, search, heeds_weights) {
  static result with, without;
  nabla_format format;
  case_of(*number, &format);
  fill_normal();
  const size_t count = 1 << 14;
  search(&format, values, weights, count, NABLA_ISA_BEST, &with);
  search(&format, values, NULL, count, NABLA_ISA_BEST, &without);
  double a = 0, b = 0;
  const size_t block = (size_t)format.block;
  for (size_t at = 0; at < count; at += block) {
    const size_t i = at / block;
    const int zero = format.zero_point;
    a += error_of(&format, values + at, weights + at, block, with.scales[i],
                  zero ? with.zeros[i] : 0);
    b += error_of(&format, values + at, weights + at, block, without.scales[i],
                  zero ? without.zeros[i] : 0);
  }
  /* Of three powers of two a normal distribution may always want the same. */
  cr_expect_lt(a, b + format.encoding->is_mx * 1e-9 * b,
               "%s block %zu: %g with weights, %g without",
               format.encoding->name, block, a, b);
}

Test(search, of_equal_weights_ignores_their_size) {
  static result a, b;
  static float same[MOST];
  const nabla_format format = {.encoding = nabla_encoding_find("nf4"),
                               .block = 64};
  fill_normal();
  for (size_t i = 0; i < MOST; i++) same[i] = FLT_MAX;
  search(&format, values, same, 4096, NABLA_ISA_BEST, &a);
  for (size_t i = 0; i < MOST; i++) same[i] = FLT_TRUE_MIN;
  search(&format, values, same, 4096, NABLA_ISA_BEST, &b);
  expect_equal(&format, same, 4096, &a, &b);
  for (size_t i = 0; i < MOST; i++) same[i] = 0;
  search(&format, values, same, 4096, NABLA_ISA_BEST, &b);
  expect_equal(&format, same, 4096, &a, &b);
}

/* What has no finite scale is for the codec to refuse. */
ParameterizedTestParameters(search, passes_on_what_is_not_finite) {
  return every_case();
}

ParameterizedTest(size_t *number, search, passes_on_what_is_not_finite) {
  static const float bad[] = {NAN, INFINITY, -INFINITY};
  static result found;
  nabla_format format;
  case_of(*number, &format);
  fill_normal();
  for (size_t i = 0; i < 3; i++)
    for (int w = 0; w < 2; w++) {
      values[5] = bad[i];
      search(&format, values, w ? weights : NULL, 100, NABLA_ISA_BEST, &found);
      cr_expect(!isfinite(found.scales[0]), "%s gave %g", format.encoding->name,
                (double)found.scales[0]);
    }
}
