/* Kernels of the fused dot product, generated, compiled for every instruction
 * set that this machine has, and run on arrays between guard pages.
 *
 *   fused_test [COUNT [SEED [PART]]]  COUNT random geometries, and fixed ones:
 *                                     PART layers, blocks, pairs, none; all
 *
 * Each is compiled for the machine itself and for one of the other sets in
 * turn; for all of them when COUNT is at least 60. NABLA_TEST_SLICE runs a
 * tenth of all of these. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nabla/dtype.h"
#include "quant/codec/codec.h"
#include "quant/codec/ggml.h"
#include "tests/kernels/kernels.h"
#include "tests/kernels/problem.h"
#include "tests/kernels/random_spec.h"
#include "tests/support/slice.h"

typedef struct run {
  jit *jit;
  const jit_level *levels;
  unsigned level_count;
  uint64_t state; /* of random numbers */
  unsigned kernels, failures;
  unsigned turn;    /* geometries so far */
  int all;          /* instruction sets for each */
  int only_text;    /* of kernels: scripts/compare-kernels */
  test_slice slice; /* of the geometries */
  unsigned part;    /* geometries so far, left out or not */
} run;

#define ROWS_MAX 17

static void describe(const nabla_fused_spec *spec, const jit_level *level) {
  (void)fprintf(stderr,
                "  %s%s block %" PRIu64 ", storage %" PRIu64 ", n %" PRIu64
                " k %" PRIu64 " strides %" PRIu64 " %" PRIu64 " offset %" PRIu64
                " m %" PRIu64 "..%" PRIu64 ", x %s y %s w %s, steps",
                spec->w.ggml              ? spec->w.ggml->name
                : spec->w.format.encoding ? spec->w.format.encoding->name
                                          : "dense",
                spec->w.format.granularity == NABLA_PER_ROW ? " rows" : "",
                spec->w.format.block, spec->storage_elements, spec->n, spec->k,
                spec->stride_n, spec->stride_k, spec->offset, spec->m_min,
                spec->m_max, nabla_dtype_name(spec->x_type),
                nabla_dtype_name(spec->y_type), nabla_dtype_name(spec->w_type));
  for (uint32_t i = 0; i < spec->step_count; i++)
    (void)fprintf(stderr, " %d", (int)spec->steps[i]);
  (void)fprintf(stderr, ", %s%s %s, for %s\n",
                spec->any_size ? "any size, " : "",
                nabla_numerics_name(spec->numerics),
                nabla_weight_layout_name(spec->layout), level->name);
}

static void fail(run *r, const problem *p, const jit_level *level,
                 const char *what, uint64_t m, uint64_t n) {
  if (r->failures++ > 20) exit(1);
  (void)fprintf(stderr, "%s: M %" PRIu64 ", y[%" PRIu64 "][%" PRIu64 "]\n",
                what, p->m, m, n);
  describe(&p->spec, level);
}

/* Runs [0, N) in parts that begin at multiples of the grain, last part first,
 * and looks that a part writes its own columns only, an empty one none. */
static void run_parts(run *r, problem *p, const kernels *k,
                      const jit_level *level) {
  const nabla_kernel *kernel = kernels_for(k, p->m);
  uint64_t grain = kernel->grain, n = p->spec.n;
  uint64_t parts = n / grain + (n % grain != 0);
  for (uint64_t i = parts; i-- > 0;) {
    uint64_t begin = i * grain, end = begin + grain < n ? begin + grain : n;
    kernel->run(p->words, begin, begin);
    if (p->m && !problem_y_is_unset(p, 0, begin))
      fail(r, p, level, "written by an empty part", 0, begin);
    kernel->run(p->words, begin, end);
    for (uint64_t m = 0; m < p->m && begin; m++)
      if (!problem_y_is_unset(p, m, begin - 1))
        fail(r, p, level, "written by a later part", m, begin - 1);
  }
}

static uint64_t chain_of(const problem *p, const kernels *k) {
  const nabla_fused_spec *spec = &p->spec;
  uint32_t class = nabla_fused_class_of(k->specs, k->count, p->m);
  uint64_t chain = nabla_fused_accumulation_depth(&k->specs[class]);
  if (p->m == 1 && spec->stride_k == 1 && !spec->layout &&
      spec->k / 64 + 8 < chain)
    chain = spec->k / 64 + 8; /* promised for M = 1 */
  uint64_t panels = (spec->k + 255) / 256;
  uint64_t more = (spec->k < 256 ? spec->k : 256) + panels; /* and for others */
  if (p->m > 1 && spec->numerics == NABLA_NUMERICS_F32 && more < chain)
    chain = more;
  return chain;
}

/* Everything, from x to y. */
static void run_whole(problem *p, const kernels *k) {
  problem_give_room(p, kernels_workspace(k, p->m), kernels_packed(k, p->m));
  kernels_prepack(k, p->words, p->m);
  kernels_prepare(k, p->words);
  kernels_for(k, p->m)->run(p->words, 0, p->spec.n);
}

static void compare(run *r, problem *p, const kernels *k,
                    const jit_level *level) {
  uint64_t chain = chain_of(p, k);
  for (uint64_t m = 0; m < p->m; m++)
    for (uint64_t n = 0; n < p->spec.n; n++) {
      double bound, expected = problem_expect(p, m, n, chain, &bound);
      double got = problem_y(p, m, n);
      /* infinite or NaN: a scale may multiply a weight of zero, or a sum */
      if (isfinite(expected) ? fabs(got - expected) <= bound : !isfinite(got))
        continue;
      (void)fprintf(stderr, "%.9g instead of %.9g, bound %.3g\n", got, expected,
                    bound);
      fail(r, p, level, "wrong", m, n);
      return;
    }
}

static void check_rows(run *r, problem *p, const kernels *k,
                       const jit_level *level, uint64_t m, fill how) {
  problem_set_rows(p, m, how, &r->state);
  run_whole(p, k);
  compare(r, p, k, level);
  uint8_t *whole = malloc(p->y.size + 1);
  memcpy(whole, p->y.data, p->y.size);
  problem_reset(p);
  run_parts(r, p, k, level);
  if (memcmp(whole, p->y.data, p->y.size))
    fail(r, p, level, "parts differ from the whole", 0, 0);
  free(whole);
}

/* y as the operand of NABLA_STEP_ADD. */
static void check_in_place(run *r, problem *p, const kernels *k,
                           const jit_level *level) {
  uint64_t word = NABLA_ARG_EPILOGUE;
  for (uint32_t i = 0; i < p->spec.step_count; i++) {
    if (p->spec.steps[i] == NABLA_STEP_ADD) {
      run_whole(p, k);
      uint8_t *apart = malloc(p->y.size + 1);
      memcpy(apart, p->y.data, p->y.size);
      memcpy(p->y.data, p->operands[i].data, p->y.size);
      p->words[word] = p->words[NABLA_ARG_Y];
      const nabla_kernel *kernel = kernels_for(k, p->m);
      uint64_t grain = kernel->grain;
      for (uint64_t at = 0; at < p->spec.n; at += grain)
        kernel->run(p->words, at,
                    at + grain < p->spec.n ? at + grain : p->spec.n);
      if (memcmp(apart, p->y.data, p->y.size))
        fail(r, p, level, "in place differs", 0, 0);
      free(apart);
      return;
    }
    word += p->spec.steps[i] == NABLA_STEP_BIAS;
  }
}

/* Whether the spec admits M = m. */
static int allowed(const nabla_fused_spec *spec, uint64_t m) {
  return m >= spec->m_min && (!spec->m_max || m <= spec->m_max);
}

/* Whether y may be `got` where x is 1 at the weight (n, k) alone: in int8 the
 * quotient by 127 and the factors are rounded, and tables are bytes. */
static int is_weight(const problem *p, double got, uint64_t n, uint64_t k) {
  double w = (double)problem_weight(p, n, k), scale = problem_scale(p, n, k);
  double size = problem_weight_size(p, n, k);
  switch (p->spec.numerics) {
    case NABLA_NUMERICS_INT8: {
      const nabla_encoding *encoding = p->spec.w.format.encoding;
      int exact = !encoding || encoding->bits != 4 ||
                  encoding->has_zero_point || encoding->is_mx;
      return fabs(got - w) <= size * (p->spec.w_type ? 0x1p-8 : 0x1p-22) +
                                  (exact ? 0 : fabs(scale) / 253) + 0x1p-24;
    }
    case NABLA_NUMERICS_BF16:
      return fabs(got - w) <= fabs(w) * 0x1p-8;
    default:
      return got == w;
  }
}

/* One x for each k, 1 there and 0 elsewhere: y is the weight, bit for bit. */
static void check_one_hot(run *r, problem *p, const kernels *k,
                          const jit_level *level, uint64_t at_once) {
  const nabla_fused_spec *spec = &p->spec;
  if (spec->step_count || spec->y_type != NABLA_DTYPE_F32) return;
  for (uint64_t first = 0; first < spec->k; first += at_once) {
    uint64_t m = spec->k - first < at_once ? spec->k - first : at_once;
    if (!allowed(spec, m)) continue; /* one row is left of a class of many */
    problem_set_rows(p, m, FILL_RANDOM, &r->state);
    memset(p->x.data, 0, p->x.size);
    size_t size = nabla_dtype_bits(spec->x_type) / 8;
    const float one = 1;
    for (uint64_t i = 0; i < m; i++)
      (void)nabla_from_f32(spec->x_type, &one, 1,
                           p->x.data + (i * spec->k + first + i) * size);
    run_whole(p, k);
    for (uint64_t i = 0; i < m; i++)
      for (uint64_t n = 0; n < spec->n; n++)
        if (!is_weight(p, problem_y(p, i, n), n, first + i)) {
          fail(r, p, level, "not the decoded weight", first + i, n);
          return;
        }
  }
}

/* Codes of small numbers, powers of two as scales, small integers as x (in
 * int8 with 127 in each block): every product and sum is exact. But the bytes
 * of tables count 1/127 each, which is rounded. */
static void check_exact(run *r, problem *p, const kernels *k,
                        const jit_level *level, uint64_t m) {
  nabla_fused_spec *spec = &p->spec;
  static const uint8_t nf4[] = {0, 7, 15}, fp4[] = {0, 3, 5};
  static const uint8_t whole[] = {0, 3, 11}; /* of fp4: 1/2 is no byte */
  const nabla_encoding *encoding = spec->w.format.encoding;
  if (!encoding || (encoding->wire > 3) || spec->step_count ||
      spec->w.format.granularity == NABLA_PER_ROW ||
      spec->w.format.zero_point || spec->w.format.scale != NABLA_SCALE_F32 ||
      spec->y_type != NABLA_DTYPE_F32)
    return;
  const uint8_t *codes = encoding->wire == 1 ? nf4
                         : spec->numerics    ? whole
                                             : fp4;
  for (size_t i = 0; i < p->codes.size; i++) {
    int code = (int)random_below(&r->state, 7) - 3;
    if (encoding->bits == 4)
      code = codes[random_below(&r->state, 3)] << 4 |
             codes[random_below(&r->state, 3)];
    p->codes.data[i] = (uint8_t)code;
  }
  for (size_t i = 0; i < p->scales.size / sizeof(float); i++)
    ((float *)p->scales.data)[i] =
        ldexpf(1, (int)random_below(&r->state, 5) - 2);
  problem_decode(p);
  problem_set_rows(p, m, FILL_RANDOM, &r->state);
  size_t size = nabla_dtype_bits(spec->x_type) / 8;
  for (uint64_t i = 0; i < m * spec->k; i++) {
    float value = (float)((int)random_below(&r->state, 9) - 4);
    if (spec->numerics == NABLA_NUMERICS_INT8 && i % spec->k % 16 == 0)
      value = random_below(&r->state, 2) ? 127 : -127;
    (void)nabla_from_f32(spec->x_type, &value, 1, p->x.data + i * size);
  }
  run_whole(p, k);
  for (uint64_t i = 0; i < m; i++)
    for (uint64_t n = 0; n < spec->n; n++) {
      double ignored, expected = problem_expect(p, i, n, 0, &ignored);
      int bytes =
          spec->numerics == NABLA_NUMERICS_INT8 && !encoding->has_zero_point;
      double allowed = bytes ? 0x1p-20 * 127 * 4 * (double)spec->k : 0;
      if (fabs(problem_y(p, i, n) - expected) > allowed) {
        fail(r, p, level, "not exact", i, n);
        return;
      }
    }
}

/* Rows of zeros, of subnormals, of very large numbers, and with NaN or infinity
 * in one place. */
static void check_special(run *r, problem *p, const kernels *k,
                          const jit_level *level, uint64_t m) {
  const nabla_fused_spec *spec = &p->spec;
  static const float sizes[] = {0, 0x1p-133f, 0x1p96f, NAN, INFINITY};
  if (spec->step_count || spec->y_type != NABLA_DTYPE_F32 ||
      spec->x_type != NABLA_DTYPE_F32 || !spec->n || !spec->k)
    return;
  for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    problem_set_rows(p, m, FILL_RANDOM, &r->state);
    float *x = (float *)p->x.data;
    size_t last = (size_t)(m * spec->k - 1); /* of the last row */
    if (i < 3)
      for (size_t j = 0; j <= last; j++) x[j] *= sizes[i];
    else
      x[last - (size_t)random_below(&r->state, spec->k)] = sizes[i];
    run_whole(p, k);
    for (uint64_t n = 0; n < spec->n; n++) {
      double bound, got = problem_y(p, m - 1, n);
      double expected = problem_expect(p, m - 1, n, chain_of(p, k), &bound);
      int good =
          i < 3 ? fabs(got - expected) <= bound + (double)spec->k * 0x1p-136
                : !isfinite(got);
      if (good && (i || got == 0)) continue;
      (void)fprintf(stderr, "%.9g instead of %.9g, x times %g\n", got, expected,
                    (double)sizes[i]);
      fail(r, p, level, "wrong for a special x", m - 1, n);
      return;
    }
  }
}

/* What says how large weights are: themselves, scales, or what nested scales
 * are made of. */
static void sizes_of(problem *p, guarded *out[3]) {
  const nabla_fused_spec *spec = &p->spec;
  const nabla_scale_type scale = spec->w.format.scale;
  memset(out, 0, 3 * sizeof *out);
  if (spec->w.ggml) return;
  if (!spec->w.format.encoding) {
    if (spec->w_stored == NABLA_DTYPE_F32) out[0] = &p->codes;
  } else if (scale == NABLA_SCALE_DYNAMIC8) {
    out[0] = &p->nested_scales;
    out[1] = &p->nested_offset;
  } else if (scale == NABLA_SCALE_F32 || scale == NABLA_SCALE_E8M0) {
    out[0] = &p->scales;
  }
}

/* Every `step`th number, f32 or a byte that is a power of two, times 2^power.
 */
static void resize(guarded *values, int is_e8m0, int power, size_t step) {
  for (size_t i = 0; is_e8m0 && i < values->size; i += step) {
    int byte = values->data[i] + power;
    values->data[i] = (uint8_t)(byte < 0 ? 0 : byte > 254 ? 254 : byte);
  }
  float *floats = (float *)values->data;
  for (size_t i = 0; !is_e8m0 && i < values->size / sizeof(float); i += step)
    floats[i] = ldexpf(floats[i], power);
}

/* Scales, or dense weights, of all sizes, with x of the others, all alike or
 * every second one: nothing may be lost that is not small beside the rest of a
 * sum. */
static void check_scales(run *r, problem *p, const kernels *k,
                         const jit_level *level, uint64_t m) {
  static const struct {
    int scale, x; /* powers of two */
  } sizes[] = {{-119, 0},  {-119, 110}, {-70, 0}, {60, -70},
               {-119, -8}, {110, -119}, {100, 0}};
  const nabla_fused_spec *spec = &p->spec;
  const int is_e8m0 =
      spec->w.format.encoding && spec->w.format.scale == NABLA_SCALE_E8M0;
  guarded *values[3];
  sizes_of(p, values);
  if (spec->numerics || spec->w_type != NABLA_DTYPE_F32 || spec->step_count ||
      spec->y_type != NABLA_DTYPE_F32 || spec->x_type != NABLA_DTYPE_F32 ||
      !values[0] || !spec->n || !spec->k || !values[0]->size)
    return;
  for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    uint8_t *before[3] = {NULL};
    /* sums that are multiplied twice, subnormal in between, are rounded so */
    if (sizes[i].x == -8 && nabla_format_is_llm_int8(&spec->w.format)) continue;
    for (unsigned v = 0; values[v]; v++) {
      before[v] = malloc(values[v]->size);
      if (!before[v]) abort();
      memcpy(before[v], values[v]->data, values[v]->size);
      resize(values[v], is_e8m0, sizes[i].scale, 1 + i % 2);
    }
    problem_decode(p);
    problem_set_rows(p, m, FILL_RANDOM, &r->state);
    for (size_t j = 0; j < (size_t)(m * spec->k); j++)
      ((float *)p->x.data)[j] =
          ldexpf(((const float *)p->x.data)[j], sizes[i].x);
    run_whole(p, k);
    compare(r, p, k, level);
    for (unsigned v = 0; values[v]; v++) {
      memcpy(values[v]->data, before[v], values[v]->size);
      free(before[v]);
    }
  }
  problem_decode(p);
}

/* 2^-75 at first, 2^-75 less at 1024, and between them what AMX takes for
 * zeros: sums of parts of k cancel, and only what was lost is left. */
static void cancel_runs(problem *p) {
  const nabla_fused_spec *spec = &p->spec;
  static const uint8_t one = 0xff, zeros = 0x77, first_one = 0xf7,
                       first_less = 0x07; /* nf4 */
  float *scales = (float *)p->scales.data;
  float *x = (float *)p->x.data;
  const uint64_t blocks = spec->k / 64;
  for (uint64_t i = 0; i < p->codes.size; i++) {
    const uint64_t k = 2 * i % spec->k;
    p->codes.data[i] = k == 0                ? first_one
                       : k == 1024           ? first_less
                       : k >= 64 && k < 1024 ? one
                                             : zeros;
  }
  for (uint64_t i = 0; i < p->scales.size / sizeof *scales; i++)
    scales[i] = i % blocks && i % blocks < 16 ? 0x1p-127f : 0x1p-75f;
  for (uint64_t i = 0; i < p->m * spec->k; i++)
    x[i] = i % spec->k >= 64 && i % spec->k < 1024 ? 0x1p30f : 1;
}

/* Weights that AMX takes for zeros, where nothing else tells that they are not:
 * sums that cancel, and the least power of two as every scale; there all are
 * the least code, and sums an eighth of what they should be away are found. */
static void check_lost(run *r, problem *p, const kernels *k,
                       const jit_level *level, uint64_t m) {
  const nabla_fused_spec *spec = &p->spec;
  const nabla_encoding *encoding = spec->w.format.encoding;
  if (!encoding || spec->numerics || spec->step_count || encoding->bits != 4 ||
      spec->w_type != NABLA_DTYPE_F32 || spec->x_type != NABLA_DTYPE_F32 ||
      spec->y_type != NABLA_DTYPE_F32)
    return;
  problem_set_rows(p, m, FILL_RANDOM, &r->state);
  if (spec->w.format.scale == NABLA_SCALE_E8M0) {
    memset(p->scales.data, 0, p->scales.size);
    memset(p->codes.data, 0x11, p->codes.size);
    for (uint64_t i = 0; i < m * spec->k; i++)
      ((float *)p->x.data)[i] = 0x1p-10f;
  } else if (encoding->wire == 1 && spec->w.format.scale == NABLA_SCALE_F32 &&
             spec->w.format.block == 64 && spec->stride_n == spec->k &&
             spec->stride_k == 1 && spec->k % 64 == 0 && spec->k > 1024 &&
             !spec->offset) {
    cancel_runs(p);
  } else {
    return;
  }
  problem_decode(p);
  run_whole(p, k);
  if (spec->w.format.scale != NABLA_SCALE_E8M0) {
    compare(r, p, k, level);
    return;
  }
  double ignored, expected = problem_expect(p, m - 1, 0, 0, &ignored);
  if (fabs(problem_y(p, m - 1, 0) - expected) > expected / 8)
    fail(r, p, level, "small weights are lost", m - 1, 0);
}

/* Weights that are 0 as their products and minima cancel: d = 1, factors and
 * numbers of minima 1, minima -8, codes 8. */
static void check_cancelled(run *r, problem *p, const kernels *k,
                            const jit_level *level, uint64_t m) {
  const nabla_fused_spec *spec = &p->spec;
  const nabla_ggml *format = spec->w.ggml;
  if (!format || !p->minima || spec->step_count || !spec->n) return;
  const nabla_ggml_layout *l = format->layout;
  const int has_parts = l->sub == NABLA_GGML_SUB_PACKED6;
  const uint16_t one = 0x3c00, min = has_parts ? 0x4800 : 0xc800; /* f16 */
  for (size_t at = 0; at < p->codes.size; at += format->bytes) {
    uint8_t *block = p->codes.data + at;
    memset(block, 0, format->bytes);
    memset(block + l->codes, 0x88, format->elements / 2);
    memcpy(block + l->d, &one, sizeof one);
    memcpy(block + l->min, &min, sizeof min);
    if (!has_parts) continue;
    memset(block + l->sub_at, 1, 8);
    memset(block + l->sub_at + 8, 0x11, 4);
  }
  problem_decode(p);
  problem_set_rows(p, m, FILL_RANDOM, &r->state);
  run_whole(p, k);
  if (problem_weight(p, 0, 0) != 0) fail(r, p, level, "no cancelling", m, 0);
  p->is_apart = 1;
  compare(r, p, k, level);
  p->is_apart = 0;
}

/* Bytes that make a weight infinite or NaN: its scale, its code, itself. */
typedef struct patch {
  uint8_t *at;
  size_t size;
  uint8_t bytes[4];
} patch;

static patch scale_patch(const problem *p, size_t flat) {
  const nabla_fused_spec *spec = &p->spec;
  const float infinite = INFINITY;
  patch result = {.at = NULL};
  int is_e8m0 = 0;
  nabla_dtype dtype = NABLA_DTYPE_F16;
  if (spec->w.kind == NABLA_STORAGE_DENSE) {
    dtype = spec->w_stored;
    result.at = p->codes.data + flat * nabla_dtype_bits(dtype) / 8;
  } else if (spec->w.ggml) {
    const nabla_ggml *format = spec->w.ggml;
    result.at = p->codes.data + flat / format->elements * format->bytes +
                format->layout->d;
    is_e8m0 = format->layout->is_e8m0;
  } else {
    const nabla_scale_info *info = nabla_scale_info_of(spec->w.format.scale);
    size_t index = flat / (size_t)spec->w.format.block;
    if (spec->w.format.scale == NABLA_SCALE_DYNAMIC8) return result;
    result.at = p->scales.data + index * info->bytes;
    is_e8m0 = spec->w.format.scale == NABLA_SCALE_E8M0;
    dtype = info->dtype;
  }
  result.size = is_e8m0 ? 1 : nabla_dtype_bits(dtype) / 8;
  if (is_e8m0)
    result.bytes[0] = 0xff;
  else
    (void)nabla_from_f32(dtype, &infinite, 1, result.bytes);
  return result;
}

/* A weight in the middle that is not finite: its column tells so, whatever
 * computes it, and the others do not. */
static void check_not_finite(run *r, problem *p, const kernels *k,
                             const jit_level *level, uint64_t m) {
  const nabla_fused_spec *spec = &p->spec;
  const nabla_encoding *encoding = spec->w.format.encoding;
  if (spec->numerics || spec->step_count || spec->y_type != NABLA_DTYPE_F32 ||
      !spec->n || !spec->k)
    return;
  size_t flat = (size_t)(spec->offset + spec->n / 2 * spec->stride_n +
                         spec->k / 2 * spec->stride_k);
  patch patches[2] = {scale_patch(p, flat), {.at = NULL}};
  if (spec->w.kind == NABLA_STORAGE_DENSE) {
    const float nan = NAN;
    patches[1] = patches[0];
    (void)nabla_from_f32(spec->w_stored, &nan, 1, patches[1].bytes);
  } else if (encoding && encoding->bits == 8 && !encoding->has_zero_point) {
    patches[1] = (patch){p->codes.data + flat, 1, {0x7f}};
  }
  for (unsigned i = 0; i < 2; i++) {
    uint8_t kept[4];
    if (!patches[i].at) continue;
    memcpy(kept, patches[i].at, patches[i].size);
    memcpy(patches[i].at, patches[i].bytes, patches[i].size);
    problem_decode(p);
    problem_set_rows(p, m, FILL_RANDOM, &r->state);
    run_whole(p, k);
    compare(r, p, k, level);
    memcpy(patches[i].at, kept, patches[i].size);
  }
  problem_decode(p);
}

/* What docs/COMPILER.md says. */
static uint64_t promised_chain(const nabla_fused_spec *spec) {
  uint64_t most = 256 + (spec->k + 255) / 256;
  if (spec->m_max == 1 && !spec->layout && spec->stride_k == 1)
    return spec->k / 64 + 8;
  if (!spec->m_max || spec->m_max > 4) return most;
  uint64_t block = spec->w.format.encoding ? spec->w.format.block : 256;
  if (!block || (spec->w.format.encoding && block > 128)) block = 128;
  uint64_t few = spec->layout ? spec->k / block + 136 : spec->k / 64 + 8;
  return most > few ? most : few;
}

/* What is checked of `m` rows of a small problem. */
static void check_few(run *r, problem *p, const kernels *k,
                      const jit_level *level, uint64_t m) {
  if (!allowed(&p->spec, m)) return;
  if (m < 9) check_one_hot(r, p, k, level, m);
  if (m == 1) check_exact(r, p, k, level, m);
  check_special(r, p, k, level, m);
  if (level == &r->levels[r->level_count - 1]) check_scales(r, p, k, level, m);
  check_not_finite(r, p, k, level, m);
}

/* What is compiled: of any size it knows no more than that K is at most twice
 * as large. */
static nabla_fused_spec made_for(const nabla_fused_spec *spec) {
  nabla_fused_spec made = *spec;
  if (!spec->any_size) return made;
  made.k *= 2;
  made.n = made.storage_elements = made.stride_n = 0;
  if (made.w.format.granularity == NABLA_PER_ROW) made.w.format.block = 0;
  return made;
}

/* And what is called. */
static void tell_size(nabla_fused_spec *made, const nabla_fused_spec *spec) {
  made->k = spec->k;
  made->n = spec->n;
  made->storage_elements = spec->storage_elements;
  made->stride_n = spec->stride_n;
  made->w.format.block = spec->w.format.block;
}

static void check_level(run *r, nabla_fused_spec spec, const jit_level *level) {
  /* at the ends of each class, of tiles, and more than those whose sums wait */
  static const uint64_t rows[] = {0, 1, 2,        3,  4,  5,  7,
                                  8, 9, ROWS_MAX, 31, 33, 261};
  if (getenv("VERBOSE")) describe(&spec, level);
  kernels k = kernels_create(r->jit, made_for(&spec), level);
  r->kernels += k.count;
  if (r->only_text) {
    kernels_destroy(&k);
    return;
  }
  for (uint32_t i = 0; i < k.count; i++)
    if (!k.specs[i].numerics && nabla_fused_accumulation_depth(&k.specs[i]) >
                                    promised_chain(&k.specs[i])) {
      describe(&k.specs[i], level);
      (void)fprintf(stderr, "a longer chain than promised: %" PRIu64 "\n",
                    nabla_fused_accumulation_depth(&k.specs[i]));
      r->failures++;
    }
  for (uint32_t i = 0; i < k.count; i++) tell_size(&k.specs[i], &spec);
  int small = spec.n * spec.k <= 100000;
  for (int at_start = 0; at_start < 2; at_start++) {
    problem p = problem_create(&spec, at_start, &r->state);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
      if ((small || rows[i] <= 2) && allowed(&spec, rows[i]) &&
          (rows[i] <= 33 || (at_start && r->turn % 16 == 0)))
        check_rows(r, &p, &k, level, rows[i], (fill)random_below(&r->state, 4));
    check_in_place(r, &p, &k, level);
    if (spec.n * spec.k <= 40000) {
      if (allowed(&spec, 3)) check_exact(r, &p, &k, level, 3);
      if (allowed(&spec, ROWS_MAX)) check_one_hot(r, &p, &k, level, ROWS_MAX);
      check_few(r, &p, &k, level, 1);
      check_few(r, &p, &k, level, allowed(&spec, 9) ? 9 : 7);
    }
    if (spec.k && allowed(&spec, 9)) check_cancelled(r, &p, &k, level, 9);
    if (spec.k && allowed(&spec, 9)) check_lost(r, &p, &k, level, 9);
    problem_destroy(&p);
  }
  kernels_destroy(&k);
}

/* Whether the same can be computed with N and K told by the call. */
static int has_any_size(const nabla_fused_spec *spec) {
  return spec->k && spec->k % 16 == 0 && spec->stride_k == 1 &&
         spec->stride_n == spec->k && !spec->offset &&
         spec->storage_elements == spec->n * spec->k &&
         (spec->w.format.granularity != NABLA_PER_ROW ||
          spec->w.format.block == spec->k);
}

static void check_any_size(run *r, const nabla_fused_spec *spec,
                           const jit_level *level) {
  nabla_fused_spec any = *spec;
  any.any_size = spec->k % 256 == 0   ? 256
                 : spec->k % 128 == 0 ? 128
                 : spec->k % 64 == 0  ? 64
                 : spec->k % 32 == 0  ? 32
                                      : 16;
  any.features = nabla_features_parse(level->features);
  if (has_any_size(spec) && spec->n > 1 && !nabla_fused_objection(&any))
    check_level(r, any, level);
}

static void check_spec(run *r, const nabla_fused_spec *spec) {
  unsigned others = r->level_count - 1, turn = r->turn++;
  if (r->all || turn % 2) check_any_size(r, spec, &r->levels[others]);
  if (r->all || !(turn % 2))
    check_any_size(r, spec, &r->levels[turn / 2 % others]);
  for (unsigned i = 0; i < r->level_count; i++) {
    if (!r->all && i < others && i != turn % others) continue;
    nabla_fused_spec here = *spec;
    here.features = nabla_features_parse(r->levels[i].features);
    /* not every kernel can read a prepacked weight */
    if (spec->layout && nabla_fused_objection(&here)) continue;
    check_level(r, *spec, &r->levels[i]);
  }
}

/* Bodies that the cost does not choose here, or that need what few CPUs have:
 * rows of x in one tile, in some, and more than those whose sums wait. */
static void check_variant(run *r, nabla_fused_spec spec, const char *variant) {
  static const uint64_t rows[] = {16, 31, 32, 33, 50, 130, 261};
  const jit_level *level = &r->levels[r->level_count - 1];
  spec.m_min = 2;
  spec.features = nabla_features_parse(level->features);
  spec.variant = variant;
  if (nabla_fused_objection(&spec)) {
    if (!r->turn)
      printf("skipped: %s, which this CPU or system lacks\n", variant);
    return;
  }
  check_level(r, spec, level);
  if (r->only_text) return;
  kernels k = kernels_create(r->jit, spec, level);
  problem p = problem_create(&spec, 0, &r->state);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (allowed(&spec, rows[i]))
      check_rows(r, &p, &k, level, rows[i], FILL_RANDOM);
  problem_destroy(&p);
  kernels_destroy(&k);
}

/* Sums of parts, with x and scales of other types and with zero points; for up
 * to 8 rows two parts of x are one tile. */
static void check_parts(run *r, nabla_fused_spec spec) {
  check_variant(r, spec, "gemm_f32_bf16x3_amx");
  spec.m_max = 8;
  check_variant(r, spec, "gemm_f32_bf16x3_amx");
  spec.x_type = NABLA_DTYPE_F16;
  check_variant(r, spec, "gemm_f32_bf16x3_amx");
  spec.m_max = 0;
  spec.x_type = NABLA_DTYPE_BF16;
  check_variant(r, spec, "gemm_f32_bf16x3_amx");
  if (!spec.w.format.encoding || spec.w.format.granularity != NABLA_PER_BLOCK ||
      spec.w.format.scale)
    return;
  spec.x_type = NABLA_DTYPE_F16;
  spec.w.format.zero_point = spec.w.format.encoding->has_zero_point;
  spec.w.format.scale = NABLA_SCALE_BF16;
  check_variant(r, spec, "gemm_f32_bf16x3_amx");
  spec.w.format.scale = NABLA_SCALE_DYNAMIC8;
  spec.w.nested_block = 64;
  check_variant(r, spec, "gemm_f32_bf16x3_amx");
}

/* The same in other numerics, and prepacked. */
static void check_numerics(run *r, nabla_fused_spec spec) {
  spec.layout = NABLA_WEIGHT_LAYOUT_PREPACKED;
  check_spec(r, &spec);
  spec.layout = NABLA_WEIGHT_LAYOUT_IN_PLACE;
  check_parts(r, spec);
  check_variant(r, spec, "gemm_fma");
  spec.numerics = NABLA_NUMERICS_BF16;
  check_variant(r, spec, "gemm_bf16_amx");
  check_variant(r, spec, "gemm_bf16_avx512");
  spec.numerics = NABLA_NUMERICS_INT8;
  check_spec(r, &spec);
  check_variant(r, spec, "gemm_int8_amx");
  check_variant(r, spec, "gemm_int8_vnni");
  spec.layout = NABLA_WEIGHT_LAYOUT_PREPACKED;
  check_spec(r, &spec);
  check_variant(r, spec, "gemm_int8_amx");
  check_variant(r, spec, "gemm_int8_vnni");
}

/* N rows of K elements, one after the other from `offset` on, in f32. */
static nabla_fused_spec rows_spec(uint64_t n, uint64_t k, uint64_t offset) {
  return (nabla_fused_spec){.storage_elements = n * k + offset,
                            .n = n,
                            .k = k,
                            .stride_n = k,
                            .stride_k = 1,
                            .offset = offset,
                            .x_type = NABLA_DTYPE_F32,
                            .y_type = NABLA_DTYPE_F32,
                            .w_type = NABLA_DTYPE_F32};
}

/* The same storage, contracted along its columns. */
static void turn(nabla_fused_spec *spec) {
  const uint64_t n = spec->n;
  spec->stride_k = spec->stride_n;
  spec->stride_n = 1;
  spec->n = spec->k;
  spec->k = n;
}

/* Whether the next geometry is of the part that is run. */
static int is_taken(run *r) { return test_slice_has(r->slice, r->part++); }

/* What every run checks: layers of each encoding, both ways round. int4 in
 * blocks of 32: more scales along k than gemm_f32_bf16x3_amx adds one by one,
 * then more panels; then x in int8 beyond a Zen's first cache, panels and tails
 * of gemm_transposed, dense layers with long sums and part of a panel. */
static void check_fixed(run *r) {
  static const struct {
    const char *name;
    uint64_t block, n, k; /* block 0: rows; of dense ones the bytes */
    int more;             /* always in other numerics, and prepacked */
  } rows[] = {{"nf4", 64, 48, 1280, 1},    {"nf4", 32, 17, 128, 0},
              {"nf4", 16, 33, 256, 0},     {"nf4", 128, 16, 2176, 0},
              {"nf4", 4096, 20, 640, 0},   {"fp4", 64, 64, 384, 0},
              {"int8", 64, 31, 1100, 0},   {"int8", 0, 29, 1088, 1},
              {"int8", 0, 35, 333, 0},     {"nf4", 64, 3, 16512, 0},
              {"nf4", 64, 5, 16384, 0},    {"int4", 64, 37, 512, 1},
              {"ternary", 64, 34, 768, 1}, {"fp8", 128, 40, 320, 0},
              {"mxfp8", 32, 33, 256, 0},   {"mxfp4", 32, 70, 512, 1},
              {"mxfp4", 32, 9, 100, 0},    {"int4", 32, 35, 416, 0},
              {"nf4", 64, 37, 576, 1},     {"int8", 32, 21, 160, 0},
              {"nf4", 64, 7, 1025, 0},     {"mxfp4", 32, 9, 2880, 0},
              {"int4", 128, 5, 1000, 0},   {"fp4", 32, 6, 811, 0},
              {"fp4", 16, 18, 112, 1},     {"int8", 64, 17, 320, 1},
              {"int4", 32, 12, 7680, 1},   {"nf4", 4096, 1, 65536, 0},
              {"nf4", 64, 9, 9472, 1},     {"int8", 64, 6, 8256, 1},
              {"int4", 32, 517, 256, 0},   {"int8", 64, 301, 128, 0},
              {"", 2, 64, 448, 0},         {"", 4, 96, 320, 0},
              {"", 4, 37, 352, 1},         {"", 4, 20, 2144, 0}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    for (int transposed = 0; transposed < 2; transposed++) {
      uint64_t n = rows[i].n, k = rows[i].k;
      nabla_fused_spec spec = rows_spec(n, k, 0);
      spec.w.kind = NABLA_STORAGE_PLANES;
      spec.w.format = (nabla_format){
          .encoding = nabla_encoding_find(rows[i].name),
          .granularity = rows[i].block ? NABLA_PER_BLOCK : NABLA_PER_ROW,
          .block = rows[i].block ? rows[i].block : k};
      if (!spec.w.format.encoding) {
        spec.w = (nabla_storage){.kind = NABLA_STORAGE_DENSE};
        spec.w_stored = rows[i].block == 2 ? NABLA_DTYPE_BF16 : NABLA_DTYPE_F32;
      } else if (spec.w.format.encoding->is_mx) {
        spec.w.format.scale = NABLA_SCALE_E8M0;
      }
      if (transposed) turn(&spec);
      if (is_taken(r)) check_spec(r, &spec);
      if (!transposed && (rows[i].more || r->all) && is_taken(r))
        check_numerics(r, spec);
    }
}

/* Two dense operands of bf16, by pairs: K and N of less than a tile, odd, of
 * whole tiles, of several panels; y with and without an epilogue. */
static void check_pairs(run *r) {
  static const uint64_t sizes[][3] = {
      /* n, k, offset */
      {1, 1, 0},    {16, 32, 0},   {17, 31, 3},   {33, 33, 0},  {31, 64, 1},
      {32, 256, 0}, {48, 257, 16}, {100, 300, 0}, {7, 1100, 5}, {200, 1030, 0}};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
    for (int form = 0; form < 4; form++) {
      nabla_fused_spec spec = rows_spec(sizes[i][0], sizes[i][1], sizes[i][2]);
      spec.w = (nabla_storage){.kind = NABLA_STORAGE_DENSE};
      spec.x_type = spec.w_stored = spec.w_type = NABLA_DTYPE_BF16;
      spec.y_type = form / 2 ? NABLA_DTYPE_BF16 : NABLA_DTYPE_F32;
      spec.numerics = NABLA_NUMERICS_BF16;
      if (form % 2) turn(&spec);
      if (i % 3 == 2) spec.steps[spec.step_count++] = NABLA_STEP_ADD;
      if (!is_taken(r)) continue;
      check_variant(r, spec, "gemm_bf16_dense_amx");
      check_variant(r, spec, "gemm_bf16_dense_avx512");
    }
}

static nabla_fused_spec blocks_spec(const nabla_ggml *format, uint64_t n,
                                    uint64_t k, uint64_t offset) {
  nabla_fused_spec spec = rows_spec(n, k, offset);
  set_blocks(&spec, format);
  return spec;
}

/* By gemm_f32_bf16x3_amx: blocks with more scales along k than are added one by
 * one, more panels of the usual depth, whole blocks, and rows that begin within
 * one. */
static void check_deep_blocks(run *r, const nabla_ggml *format) {
  const uint64_t e = format->elements;
  if (!is_taken(r)) return;
  if (e == 256) {
    check_variant(r, blocks_spec(format, 2, 16 * e, 0), "gemm_f32_bf16x3_amx");
    check_variant(r, blocks_spec(format, 1, 202 * e, 0), "gemm_f32_bf16x3_amx");
  }
  check_parts(r, blocks_spec(format, 35, 2 * e, 0));
  check_parts(r, blocks_spec(format, 3, e + e / 2, e / 4));
}

/* Whole blocks, groups of them and what is left, rows that end within one, both
 * ways round; of the formats each second has each second size. */
static void check_sizes(run *r, const nabla_ggml *format, size_t number) {
  const uint64_t e = format->elements;
  const uint64_t sizes[][3] = {
      /* n, k, offset */
      {5, 5 * e, e},  {6, 6 * e, 0},         {3, 7 * e, 0},  {4, 11 * e, 0},
      {37, 3 * e, 0}, {3, e + e / 2, e / 4}, {170, 2 * e, 0}};
  for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
    const uint64_t n = sizes[s][0], k = sizes[s][1];
    if (!r->all && s % 2 == number % 2 && s + 1 < sizeof sizes / sizeof *sizes)
      continue;
    for (int transposed = 0; transposed < (sizes[s][2] ? 2 : 1); transposed++) {
      nabla_fused_spec spec = blocks_spec(format, n, k, sizes[s][2]);
      if (transposed) turn(&spec);
      if (is_taken(r)) check_spec(r, &spec);
      spec.numerics = NABLA_NUMERICS_INT8;
      if (!transposed && is_taken(r)) check_spec(r, &spec);
    }
  }
}

/* Blocks of GGUF files. */
static void check_blocks(run *r) {
  size_t count;
  const nabla_ggml *formats = nabla_ggml_formats(&count);
  for (size_t i = 0; i < count; i++) {
    check_deep_blocks(r, &formats[i]);
    check_sizes(r, &formats[i], i);
  }
}

static void tell_skipped(const run *r) {
  nabla_features here =
      nabla_features_parse(r->levels[r->level_count - 1].features);
  if (!NABLA_HAS(here, AMX_BF16))
    printf(
        "skipped: gemm_bf16_amx and gemm_bf16_dense_amx, as there is no AMX, "
        "or "
        "no permission to use it\n");
  if (!NABLA_HAS(here, AMX_INT8))
    printf("skipped: gemm_int8_amx, for the same reason\n");
  if (!NABLA_HAS(here, AVX512BF16))
    printf(
        "skipped: gemm_bf16_avx512 and gemm_bf16_dense_avx512, as there is no "
        "AVX512-BF16\n");
}

int main(int argc, char **argv) {
  unsigned long count = argc > 1 ? strtoul(argv[1], NULL, 10) : 20;
  run r = {.jit = jit_create(),
           .state = argc > 2 ? strtoull(argv[2], NULL, 10) : 1};
  r.only_text = getenv("NABLA_TEST_KERNEL_TEXT") != NULL;
  r.level_count =
      r.only_text ? jit_levels_all(&r.levels) : jit_levels(&r.levels);
  r.all = count >= 60 || r.only_text;
  r.slice = test_slice_get();
  tell_skipped(&r);
  const char *part = argc > 3 ? argv[3] : "all";
  if (!strcmp(part, "layers") || !strcmp(part, "all")) check_fixed(&r);
  if (!strcmp(part, "blocks") || !strcmp(part, "all")) check_blocks(&r);
  if (strcmp(part, "blocks") != 0 && strcmp(part, "none") != 0) check_pairs(&r);
  for (unsigned long i = 0; i < count; i++) {
    uint64_t seed = r.state;
    nabla_fused_spec spec = random_spec(&r.state);
    if (!is_taken(&r)) continue;
    unsigned before = r.failures;
    check_spec(&r, &spec);
    if (r.failures > before)
      (void)fprintf(stderr, "geometry %lu, state %" PRIu64 "\n", i, seed);
  }
  jit_destroy(r.jit);
  printf("%u kernels for %u instruction sets: %u failures\n", r.kernels,
         r.level_count, r.failures);
  return r.failures != 0;
}
