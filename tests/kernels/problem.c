/* Fused dot products to test; see problem.h. */
#include "tests/kernels/problem.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "nabla/dtype.h"
#include "quant/codec/ggml.h"

#define PAGE       ((size_t)4096)
#define UNSET_BYTE 0x7f /* 0x7f7f7f7f is finite, but beyond any result */

/* splitmix64: https://prng.di.unimi.it/splitmix64.c */
uint64_t random_bits(uint64_t *state) {
  uint64_t z = *state += 0x9e3779b97f4a7c15;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
  z = (z ^ z >> 27) * 0x94d049bb133111eb;
  return z ^ z >> 31;
}

uint64_t random_below(uint64_t *state, uint64_t bound) {
  return random_bits(state) % bound;
}

static float random_signed(uint64_t *state) {
  return (float)((double)(random_bits(state) >> 11) * 0x1p-52 - 1);
}

guarded guarded_create(size_t size, int at_start) {
  size_t pages = (size + PAGE - 1) / PAGE * PAGE;
  guarded self = {.size = size, .map_size = pages + 2 * PAGE};
  self.map =
      mmap(NULL, self.map_size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  uint8_t *inside = (uint8_t *)self.map + PAGE;
  if (self.map == MAP_FAILED ||
      (pages && mprotect(inside, pages, PROT_READ | PROT_WRITE))) {
    perror("guarded memory");
    exit(1);
  }
  self.data = at_start ? inside : inside + pages - size;
  return self;
}

void guarded_destroy(guarded *self) {
  if (self->map) munmap(self->map, self->map_size);
  *self = (guarded){0};
}

static size_t size_of(nabla_dtype dtype) { return nabla_dtype_bits(dtype) / 8; }

/* A dense weight is what it is. */
static void decode_dense(problem *self) {
  nabla_to_f32(self->spec.w_stored, self->codes.data,
               (size_t)self->spec.storage_elements, self->dense);
}

static void decode_blocks(problem *self) {
  const nabla_ggml *format = self->spec.w.ggml;
  if (nabla_ggml_decode(format, NABLA_DTYPE_F32, self->codes.data,
                        self->codes.size / format->bytes, self->dense, NULL))
    exit(1);
}

/* What blocks decode to when all their codes are 0. */
static void decode_minima(problem *self) {
  const nabla_ggml *format = self->spec.w.ggml;
  const nabla_ggml_layout *l = format->layout;
  uint8_t *blocks = malloc(self->codes.size + 1);
  memcpy(blocks, self->codes.data, self->codes.size);
  for (size_t at = 0; at < self->codes.size; at += format->bytes) {
    memset(blocks + at + l->codes, 0, format->elements / 2);
    memset(blocks + at + l->high, 0, format->elements * l->bits / 8);
  }
  if (nabla_ggml_decode(format, NABLA_DTYPE_F32, blocks,
                        self->codes.size / format->bytes, self->minima, NULL))
    exit(1);
  free(blocks);
}

static void decode_packed(problem *self) {
  const nabla_fused_spec *spec = &self->spec;
  const nabla_codec_options options = {.struct_size = sizeof options,
                                       .isa = NABLA_ISA_SCALAR};
  nabla_codec codec;
  nabla_diag diag = NABLA_DIAG_INIT;
  if (nabla_codec_select(&spec->w.format, &options, &codec, &diag)) {
    (void)fprintf(stderr, "%s\n", diag.what);
    exit(1);
  }
  nabla_packed packed = {self->codes.data, self->scales.data, self->zeros.data};
  float *scales = NULL;
  if (spec->w.format.scale == NABLA_SCALE_DYNAMIC8) {
    size_t count = self->scales.size;
    scales = malloc(count * sizeof *scales + 1);
    for (size_t i = 0; i < count; i++) {
      const float *map = (const float *)self->nested_map.data;
      const float *absmax = (const float *)self->nested_scales.data;
      const float *offset = (const float *)self->nested_offset.data;
      const float product =
          map[self->scales.data[i]] * absmax[i / spec->w.nested_block];
      scales[i] = product + *offset;
    }
    packed.scales = scales;
  }
  nabla_decode(&codec, &packed, (size_t)spec->storage_elements, self->dense);
  free(scales);
}

void problem_decode(problem *self) {
  const nabla_fused_spec *spec = &self->spec;
  size_t count = (size_t)spec->storage_elements;
  if (spec->w.ggml)
    decode_blocks(self);
  else if (spec->w.format.encoding)
    decode_packed(self);
  else
    decode_dense(self);
  if (self->minima) decode_minima(self);
  if (spec->w_type == NABLA_DTYPE_F32) return;
  uint16_t *half = malloc(count * 2 + 1);
  (void)nabla_from_f32(spec->w_type, self->dense, count, half);
  nabla_to_f32(spec->w_type, half, count, self->dense);
  free(half);
}

/* `count` scales: of either sign and about 1, a power of two where they are
 * such. */
static void fill_scales(problem *self, size_t count, uint64_t *state) {
  nabla_scale_type type = self->spec.w.format.scale;
  const nabla_scale_info *info = nabla_scale_info_of(type);
  for (size_t i = 0; i < count; i++) {
    float value = ldexpf(random_signed(state), (int)random_below(state, 5) - 3);
    uint8_t *at = self->scales.data + i * info->bytes;
    if (type == NABLA_SCALE_E8M0)
      *at = (uint8_t)(122 + random_below(state, 10));
    else if (type == NABLA_SCALE_DYNAMIC8)
      *at = (uint8_t)random_bits(state);
    else
      (void)nabla_from_f32(info->dtype, &value, 1, at);
  }
}

static void fill_nested(problem *self, size_t scales, uint64_t *state) {
  size_t blocks = scales / (size_t)self->spec.w.nested_block + 1;
  guarded *parts[] = {&self->nested_scales, &self->nested_offset,
                      &self->nested_map};
  const size_t counts[] = {blocks, 1, 256};
  for (int i = 0; i < 3; i++) {
    *parts[i] = guarded_create(counts[i] * sizeof(float), self->at_start);
    for (size_t j = 0; j < counts[i]; j++)
      ((float *)parts[i]->data)[j] = random_signed(state);
  }
}

static void create_packed(problem *self, uint64_t *state) {
  const nabla_fused_spec *spec = &self->spec;
  nabla_packed_size size;
  if (nabla_format_size(&spec->w.format, spec->storage_elements, &size, NULL))
    exit(1);
  size_t scales = (size_t)size.scales;
  self->codes = guarded_create((size_t)size.code_bytes, self->at_start);
  for (size_t i = 0; i < self->codes.size; i++) {
    self->codes.data[i] = (uint8_t)random_bits(state);
    /* no NaN of FP8, nor infinity */
    if (spec->w.format.encoding->bits == 8 &&
        !spec->w.format.encoding->has_zero_point)
      self->codes.data[i] &= 0xbb;
  }
  self->scales =
      guarded_create(scales * nabla_scale_info_of(spec->w.format.scale)->bytes,
                     self->at_start);
  fill_scales(self, scales, state);
  if (spec->w.format.zero_point) {
    self->zeros = guarded_create(scales, self->at_start);
    unsigned mask = spec->w.format.encoding->bits == 4 ? 15 : 255;
    for (size_t i = 0; i < scales; i++)
      self->zeros.data[i] = (uint8_t)(random_bits(state) & mask);
  }
  if (spec->w.format.scale == NABLA_SCALE_DYNAMIC8)
    fill_nested(self, scales, state);
}

/* Random blocks whose factors and minima are of moderate size. */
static void create_blocks(problem *self, uint64_t *state) {
  const nabla_ggml *format = self->spec.w.ggml;
  const nabla_ggml_layout *l = format->layout;
  uint64_t bytes;
  if (nabla_ggml_size(format, self->spec.storage_elements, &bytes, NULL))
    exit(1);
  self->codes = guarded_create((size_t)bytes, self->at_start);
  for (size_t i = 0; i < self->codes.size; i++)
    self->codes.data[i] = (uint8_t)random_bits(state);
  for (size_t at = 0; at < self->codes.size; at += format->bytes) {
    uint8_t *block = self->codes.data + at;
    if (l->is_e8m0) {
      block[l->d] = (uint8_t)(120 + random_below(state, 8));
      continue;
    }
    for (int j = 0; j < (l->min < 0 ? 1 : 2); j++) {
      const float value = random_signed(state) * 0.1f;
      (void)nabla_from_f32(NABLA_DTYPE_F16, &value, 1,
                           block + (j ? (size_t)l->min : l->d));
    }
  }
}

problem problem_create(const nabla_fused_spec *spec, int at_start,
                       uint64_t *state) {
  problem self = {.spec = *spec, .at_start = at_start};
  size_t count = (size_t)spec->storage_elements;
  if (spec->w.ggml) {
    create_blocks(&self, state);
  } else if (spec->w.format.encoding) {
    create_packed(&self, state);
  } else {
    self.codes = guarded_create(count * size_of(spec->w_stored), at_start);
    for (size_t i = 0; i < count; i++) {
      float value = random_signed(state);
      (void)nabla_from_f32(spec->w_stored, &value, 1,
                           self.codes.data + i * size_of(spec->w_stored));
    }
  }
  self.dense = malloc((count + 1) * sizeof(float));
  if (spec->w.ggml && spec->w.ggml->layout->min >= 0)
    self.minima = malloc((count + 1) * sizeof(float));
  problem_decode(&self);
  return self;
}

static void release_rows(problem *self) {
  guarded_destroy(&self->x);
  guarded_destroy(&self->y);
  guarded_destroy(&self->workspace);
  guarded_destroy(&self->packed);
  for (int i = 0; i < NABLA_FUSED_MAX_STEPS; i++)
    guarded_destroy(&self->operands[i]);
}

void problem_destroy(problem *self) {
  release_rows(self);
  guarded_destroy(&self->codes);
  guarded_destroy(&self->scales);
  guarded_destroy(&self->zeros);
  guarded_destroy(&self->nested_scales);
  guarded_destroy(&self->nested_offset);
  guarded_destroy(&self->nested_map);
  free(self->dense);
  free(self->minima);
}

static float element(fill how, size_t index, uint64_t *state) {
  switch (how) {
    case FILL_RANDOM:
      return random_signed(state);
    case FILL_CONSTANT:
      return 1.1f;
    case FILL_POSITIVE:
      return fabsf(random_signed(state));
    case FILL_SIGNS:
      return index % 2 ? -0.7f : 0.7f;
  }
  return 0;
}

static guarded array(const problem *self, nabla_dtype dtype, size_t count,
                     fill how, uint64_t *state) {
  guarded result = guarded_create(count * size_of(dtype), self->at_start);
  for (size_t i = 0; i < count; i++) {
    float value = element(how, i, state);
    (void)nabla_from_f32(dtype, &value, 1, result.data + i * size_of(dtype));
  }
  return result;
}

void problem_set_rows(problem *self, uint64_t m, fill how, uint64_t *state) {
  const nabla_fused_spec *spec = &self->spec;
  uint64_t word = NABLA_ARG_EPILOGUE;
  size_t results = (size_t)(m * spec->n);
  release_rows(self);
  self->m = m;
  self->x = array(self, spec->x_type, (size_t)(m * spec->k), how, state);
  self->y = guarded_create(results * size_of(spec->y_type), self->at_start);
  self->words[NABLA_ARG_X] = (uintptr_t)self->x.data;
  self->words[NABLA_ARG_Y] = (uintptr_t)self->y.data;
  self->words[NABLA_ARG_M] = m;
  self->words[NABLA_ARG_CODES] = (uintptr_t)self->codes.data;
  self->words[NABLA_ARG_SCALES] = (uintptr_t)self->scales.data;
  self->words[NABLA_ARG_ZERO_POINTS] = (uintptr_t)self->zeros.data;
  self->words[NABLA_ARG_NESTED_SCALES] = (uintptr_t)self->nested_scales.data;
  self->words[NABLA_ARG_NESTED_OFFSET] = (uintptr_t)self->nested_offset.data;
  self->words[NABLA_ARG_NESTED_MAP] = (uintptr_t)self->nested_map.data;
  self->words[NABLA_ARG_N] = spec->n;
  self->words[NABLA_ARG_K] = spec->k;
  for (uint32_t i = 0; i < spec->step_count; i++) {
    size_t count = spec->steps[i] == NABLA_STEP_BIAS  ? (size_t)spec->n
                   : spec->steps[i] == NABLA_STEP_ADD ? results
                                                      : SIZE_MAX;
    if (count == SIZE_MAX) continue;
    self->operands[i] = array(self, spec->y_type, count, FILL_RANDOM, state);
    self->words[word++] = (uintptr_t)self->operands[i].data;
  }
  problem_reset(self);
}

/* Such room is aligned, so what is beyond it is next to the guard only when its
 * size is a multiple of 64. */
static guarded room(size_t size) {
  guarded result = guarded_create((size + 63) / 64 * 64, 0);
  if (result.size) memset(result.data, 0xff, result.size);
  return result;
}

void problem_give_room(problem *self, uint64_t workspace, uint64_t packed) {
  guarded_destroy(&self->workspace);
  guarded_destroy(&self->packed);
  self->workspace = room((size_t)workspace);
  self->packed = room((size_t)packed);
  self->words[NABLA_ARG_WORKSPACE] = (uintptr_t)self->workspace.data;
  self->words[NABLA_ARG_PACKED] = (uintptr_t)self->packed.data;
}

void problem_reset(problem *self) {
  memset(self->y.data, UNSET_BYTE, self->y.size);
}

float problem_weight(const problem *self, uint64_t n, uint64_t k) {
  const nabla_fused_spec *spec = &self->spec;
  return self->dense[spec->offset + n * spec->stride_n + k * spec->stride_k];
}

double problem_weight_size(const problem *self, uint64_t n, uint64_t k) {
  const nabla_fused_spec *spec = &self->spec;
  double w = (double)problem_weight(self, n, k);
  if (!self->minima ||
      (spec->numerics != NABLA_NUMERICS_INT8 && !self->is_apart))
    return fabs(w);
  double min =
      (double)
          self->minima[spec->offset + n * spec->stride_n + k * spec->stride_k];
  return fabs(w - min) + fabs(min);
}

static double element_of(const guarded *from, nabla_dtype dtype, size_t index) {
  float value;
  nabla_to_f32(dtype, from->data + index * size_of(dtype), 1, &value);
  return (double)value;
}

double problem_y(const problem *self, uint64_t m, uint64_t n) {
  return element_of(&self->y, self->spec.y_type, m * self->spec.n + n);
}

int problem_y_is_unset(const problem *self, uint64_t m, uint64_t n) {
  size_t size = size_of(self->spec.y_type);
  const uint8_t *at = self->y.data + (m * self->spec.n + n) * size;
  for (size_t i = 0; i < size; i++)
    if (at[i] != UNSET_BYTE) return 0;
  return 1;
}

/* What one step makes of a value and of its error. */
static void apply(const problem *self, uint32_t step, uint64_t m, uint64_t n,
                  double *value, double *bound) {
  const nabla_fused_spec *spec = &self->spec;
  switch (spec->steps[step]) {
    case NABLA_STEP_BIAS:
    case NABLA_STEP_ADD:
      *value += element_of(
          &self->operands[step], spec->y_type,
          spec->steps[step] == NABLA_STEP_BIAS ? n : m * spec->n + n);
      *bound += (fabs(*value) + *bound) * 0x1p-24;
      break;
    case NABLA_STEP_RELU:
      *value = fmax(*value, 0);
      break;
    case NABLA_STEP_SILU:
      *value /= 1 + exp(-*value);
      *bound = *bound * 1.1 + fabs(*value) * 0x1p-23 + 0x1p-149;
      break;
  }
}

double problem_scale(const problem *self, uint64_t n, uint64_t k) {
  const nabla_fused_spec *spec = &self->spec;
  uint64_t flat = spec->offset + n * spec->stride_n + k * spec->stride_k;
  if (!spec->w.format.encoding) return 0;
  size_t at = (size_t)(flat / spec->w.format.block);
  nabla_scale_type type = spec->w.format.scale;
  const nabla_scale_info *info = nabla_scale_info_of(type);
  const uint8_t *raw = self->scales.data + at * info->bytes;
  float value;
  if (type == NABLA_SCALE_E8M0) return ldexp(1, *raw - 127);
  if (type != NABLA_SCALE_DYNAMIC8) {
    nabla_to_f32(info->dtype, raw, 1, &value);
    return (double)value;
  }
  const float *absmax = (const float *)self->nested_scales.data;
  return (double)((const float *)self->nested_map.data)[*raw] *
             (double)absmax[at / spec->w.nested_block] +
         (double)*(const float *)self->nested_offset.data;
}

/* How far the byte that a table's value becomes may be off: of nf4 and fp4. */
static double codebook_error(const problem *self, uint64_t n, uint64_t k) {
  const nabla_encoding *encoding = self->spec.w.format.encoding;
  if (!encoding || encoding->bits != 4 || encoding->has_zero_point ||
      encoding->is_mx)
    return 0;
  return fabs(problem_scale(self, n, k)) / 254;
}

/* What the rounding of w to w_type may be, which int8 leaves out. */
static double type_error(const nabla_fused_spec *spec, double w) {
  if (spec->w_type == NABLA_DTYPE_F16) return fabs(w) * 0x1p-11 + 0x1p-24;
  return spec->w_type == NABLA_DTYPE_BF16 ? fabs(w) * 0x1p-8 : 0;
}

/* What is lost of x times w in bf16: the rounding of both; all of it where one
 * is subnormal, which counts as 0. */
static double bf16_error(double x, double w) {
  return x < 0x1p-126 || w < 0x1p-126 ? x * w : x * w * (0x1p-7 + 0x1p-16);
}

/* What numerics other than f32 may be off beyond f32's bound: docs/COMPILER.md
 * "Numerics". */
static double numerics_error(const problem *self, const float *x_row,
                             uint64_t n) {
  const nabla_fused_spec *spec = &self->spec;
  double sum = 0;
  for (uint64_t at = 0; at < spec->k; at += 64) {
    double absmax = 0, weights = 0;
    uint64_t end = spec->k - at < 64 ? spec->k : at + 64;
    for (uint64_t k = at; k < end; k++) {
      double x = fabs((double)x_row[k]);
      double w = fabs((double)problem_weight(self, n, k));
      if (spec->numerics == NABLA_NUMERICS_BF16) {
        sum += bf16_error(x, w) + 0x1p-126; /* a sum that is subnormal */
        continue;
      }
      double off = codebook_error(self, n, k) + type_error(spec, w);
      sum += x * off;
      weights += w + off;
      if (x > absmax) absmax = x;
    }
    if (spec->numerics == NABLA_NUMERICS_INT8) sum += absmax / 254 * weights;
  }
  return sum * (1 + 0x1p-20);
}

double problem_expect(const problem *self, uint64_t m, uint64_t n,
                      uint64_t chain, double *out_bound) {
  nabla_dtype type = self->spec.x_type;
  size_t count = (size_t)self->spec.k;
  float *x = malloc((count + 1) * sizeof *x);
  nabla_to_f32(type, self->x.data + m * count * size_of(type), count, x);
  double sum = 0, size = 0;
  for (uint64_t k = 0; k < count; k++) {
    sum += (double)x[k] * (double)problem_weight(self, n, k);
    size += fabs((double)x[k]) * problem_weight_size(self, n, k);
  }
  /* what is subnormal is rounded to multiples of 2^-149 */
  double bound = (double)(chain + 16) * (0x1p-24 * size + 0x1p-149);
  if (self->spec.numerics) bound += numerics_error(self, x, n);
  free(x);
  for (uint32_t i = 0; i < self->spec.step_count; i++)
    apply(self, i, m, n, &sum, &bound);
  double half = self->spec.y_type == NABLA_DTYPE_F16    ? 0x1p-11
                : self->spec.y_type == NABLA_DTYPE_BF16 ? 0x1p-8
                                                        : 0;
  bound += (fabs(sum) + bound) * half +
           (self->spec.y_type == NABLA_DTYPE_F16 ? 0x1p-25 : 0);
  *out_bound = bound;
  return sum;
}
