/* See product.h. */
#include "tests/support/product.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "nabla/dynamic8.h"
#include "quant/codec/ggml.h"
#include "tests/support/model.h"

#define PAGE ((size_t)4096)

static void require(int good, const char *what) {
  if (good) return;
  (void)fprintf(stderr, "product: %s\n", what);
  abort();
}

guarded_bytes guarded_bytes_create(size_t size, int at_start) {
  const size_t inside = (size + PAGE - 1) / PAGE * PAGE + PAGE;
  guarded_bytes out = {.size = size, .map_size = inside + 2 * PAGE};
  out.map =
      mmap(NULL, out.map_size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  require(out.map != MAP_FAILED, "mmap");
  uint8_t *first = (uint8_t *)out.map + PAGE;
  require(!mprotect(first, inside, PROT_READ | PROT_WRITE), "mprotect");
  out.data = at_start ? first : first + inside - size;
  return out;
}

void guarded_bytes_destroy(guarded_bytes *bytes) {
  if (bytes->map) (void)munmap(bytes->map, bytes->map_size);
  *bytes = (guarded_bytes){0};
}

static void add(product *self, const void *data, uint64_t bytes) {
  nabla_weight_desc *weight = &self->weight;
  weight->components[weight->component_count++] =
      (nabla_weight_component){.data = data, .bytes = bytes};
}

/* Scales in 8 bits from those in f32, and back: as they will be decoded. */
static void nest(product *self, float *scales, size_t count) {
  enum { BLOCK = NABLA_DYNAMIC8_BLOCK };
  const size_t groups = (count + BLOCK - 1) / BLOCK;
  nabla_dynamic8 how = {.block = BLOCK};
  how.offset =
      nabla_dynamic8_offset(nabla_dynamic8_add(0, scales, count), count);
  self->nested_offset = guarded_bytes_create(sizeof(float), self->at_start);
  memcpy(self->nested_offset.data, &how.offset, sizeof how.offset);
  self->scales = guarded_bytes_create(count, self->at_start);
  self->nested_scales = guarded_bytes_create(groups * 4, self->at_start);
  float *absmax = (float *)(void *)self->nested_scales.data;
  require(nabla_dynamic8_encode(scales, count, how.offset, self->scales.data,
                                absmax),
          "scales");
  memcpy(how.map, nabla_dynamic8_map(), sizeof how.map);
  nabla_dynamic8_decode(&how, self->scales.data, absmax, 0, count, scales);
  self->weight.layout.nested_block = BLOCK;
  add(self, self->scales.data, count);
  add(self, absmax, groups * 4);
  add(self, self->nested_offset.data, sizeof(float));
  add(self, nabla_dynamic8_map(), sizeof how.map);
}

static void pack(product *self, const float *values, size_t count) {
  const nabla_format *format = &self->weight.layout.format;
  nabla_packed_size size;
  nabla_codec codec;
  const nabla_codec_options options = {.struct_size = sizeof options,
                                       .isa = NABLA_ISA_SCALAR};
  require(!nabla_format_size(format, count, &size, NULL), "format");
  require(!nabla_codec_select(format, &options, &codec, NULL), "codec");
  const int nested = format->scale == NABLA_SCALE_DYNAMIC8;
  float *room = calloc(size.scales + 1, sizeof *room);
  require(room != NULL, "memory");
  self->codes = guarded_bytes_create(size.code_bytes, self->at_start);
  self->zero_points = guarded_bytes_create(size.scales, self->at_start);
  if (!nested)
    self->scales = guarded_bytes_create(size.scale_bytes, self->at_start);
  nabla_packed packed = {self->codes.data,
                         nested ? (void *)room : self->scales.data,
                         format->zero_point ? self->zero_points.data : NULL};
  require(!nabla_encode(&codec, values, NULL, count, &packed, NULL, NULL),
          "encode");
  add(self, self->codes.data, size.code_bytes);
  if (nested)
    nest(self, room, size.scales);
  else
    add(self, self->scales.data, size.scale_bytes);
  if (format->zero_point) add(self, packed.zero_points, size.scales);
  nabla_decode(&codec, &packed, count, self->dense);
  free(room);
}

static void store(product *self, const float *values, size_t count) {
  const nabla_dtype dtype = self->weight.dtype;
  const size_t bytes = count * (nabla_dtype_bits(dtype) / 8);
  self->codes = guarded_bytes_create(bytes, self->at_start);
  (void)nabla_from_f32(dtype, values, count, self->codes.data);
  nabla_to_f32(dtype, self->codes.data, count, self->dense);
  add(self, self->codes.data, bytes);
}

/* What blocks decode to when all their codes are 0. */
static void decode_minima(product *self, size_t blocks) {
  const nabla_ggml *ggml = self->weight.layout.ggml;
  const nabla_ggml_layout *l = ggml->layout;
  uint8_t *zeros = malloc(self->codes.size + 1);
  self->minima = malloc((blocks * ggml->elements + 1) * sizeof(float));
  require(zeros && self->minima, "memory");
  memcpy(zeros, self->codes.data, self->codes.size);
  for (size_t i = 0; i < blocks; i++) {
    uint8_t *block = zeros + i * ggml->bytes;
    memset(block + l->codes, 0, ggml->elements / 2);
    memset(block + l->high, 0, ggml->elements * l->bits / 8);
  }
  require(!nabla_ggml_decode(ggml, NABLA_DTYPE_F32, zeros, blocks, self->minima,
                             NULL),
          "decode");
  free(zeros);
}

/* Random blocks whose factors and minima come from `values`. */
static void make_blocks(product *self, const float *values, size_t count) {
  const nabla_ggml *ggml = self->weight.layout.ggml;
  const nabla_ggml_layout *l = ggml->layout;
  const size_t blocks = count / ggml->elements, size = blocks * ggml->bytes;
  uint64_t seed = count;
  require(count % ggml->elements == 0, "blocks");
  self->codes = guarded_bytes_create(size, self->at_start);
  for (size_t i = 0; i < size; i++) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    self->codes.data[i] = (uint8_t)(seed >> 56);
  }
  for (size_t i = 0; i < blocks; i++) {
    uint8_t *block = self->codes.data + i * ggml->bytes;
    if (l->is_e8m0) {
      block[l->d] = (uint8_t)(120 + i % 8);
      continue;
    }
    (void)nabla_from_f32(NABLA_DTYPE_F16, &values[i * ggml->elements], 1,
                         block + l->d);
    if (l->min >= 0)
      (void)nabla_from_f32(NABLA_DTYPE_F16, &values[i * ggml->elements + 1], 1,
                           block + l->min);
  }
  require(!nabla_ggml_decode(ggml, NABLA_DTYPE_F32, self->codes.data, blocks,
                             self->dense, NULL),
          "decode");
  if (l->min >= 0) decode_minima(self, blocks);
  add(self, self->codes.data, size);
}

product product_create(const product_shape *shape) {
  const size_t count = (size_t)(shape->n * shape->k);
  product self = {
      .weight = {.rank = 2,
                 .shape = {shape->n, shape->k},
                 .dtype = shape->dtype,
                 .layout = {.kind = shape->ggml ? NABLA_STORAGE_BLOCKS
                                    : shape->format.encoding
                                        ? NABLA_STORAGE_PLANES
                                        : NABLA_STORAGE_DENSE,
                            .format = shape->format,
                            .ggml = shape->ggml}},
      .at_start = shape->at_start};
  float *values = calloc(count + 1, sizeof *values);
  self.dense = calloc(count + 1, sizeof *self.dense);
  require(values && self.dense, "memory");
  model_fill(values, count, shape->n * 1000 + shape->k);
  if (shape->ggml)
    make_blocks(&self, values, count);
  else if (shape->format.encoding)
    pack(&self, values, count);
  else
    store(&self, values, count);
  free(values);
  return self;
}

void product_destroy(product *self) {
  guarded_bytes_destroy(&self->codes);
  guarded_bytes_destroy(&self->scales);
  guarded_bytes_destroy(&self->zero_points);
  guarded_bytes_destroy(&self->nested_scales);
  guarded_bytes_destroy(&self->nested_offset);
  free(self->dense);
  free(self->minima);
}

guarded_bytes product_x(const product *self, uint64_t m, nabla_dtype type,
                        uint64_t seed) {
  const size_t count = (size_t)(m * self->weight.shape[1]);
  float *values = calloc(count + 1, sizeof *values);
  guarded_bytes x = guarded_bytes_create(count * (nabla_dtype_bits(type) / 8),
                                         self->at_start);
  require(values != NULL, "memory");
  model_fill(values, count, seed);
  for (size_t i = 0; i < count; i++) values[i] *= 20;
  (void)nabla_from_f32(type, values, count, x.data);
  free(values);
  return x;
}

static double element(const void *data, nabla_dtype type, size_t index) {
  float value;
  nabla_to_f32(type,
               (const uint8_t *)data + index * (nabla_dtype_bits(type) / 8), 1,
               &value);
  return (double)value;
}

/* |w|, or what int8 adds apart. */
static double weight_size(const product *self, nabla_numerics numerics,
                          size_t index) {
  const double w = (double)self->dense[index];
  if (!self->minima || numerics != NABLA_NUMERICS_INT8) return fabs(w);
  const double min = (double)self->minima[index];
  return fabs(w - min) + fabs(min);
}

static double largest_weight(const product *self, size_t from, size_t count) {
  double largest = 0;
  for (size_t i = from; i < from + count; i++)
    largest = fmax(largest, fabs((double)self->dense[i]));
  return largest;
}

/* How far a byte of a table's value may be off: 1/254 of the scale, which is
 * the largest weight of a block of nf4 and fp4. */
static double table_error(const product *self, size_t index, size_t block) {
  const nabla_encoding *encoding = self->weight.layout.format.encoding;
  if (!encoding || encoding->bits != 4 || encoding->has_zero_point ||
      encoding->is_mx)
    return 0;
  return largest_weight(self, index / block * block, block) / 254;
}

/* What numerics of int8 take from the product of row i of x with row j of the
 * weight, whose blocks end with rows: docs/COMPILER.md. */
static double int8_error(const product *self, const product_run *run, size_t i,
                         size_t j) {
  const size_t k = (size_t)self->weight.shape[1];
  const size_t block = self->weight.layout.ggml
                           ? self->weight.layout.ggml->elements
                           : (size_t)self->weight.layout.format.block;
  const size_t span = block < 64 ? block : 64;
  double sum = 0;
  for (size_t at = 0; at < k; at += span) {
    const double off = table_error(self, j * k + at, block);
    double largest = 0, weights = 0;
    for (size_t l = at; l < at + span; l++) {
      const double x = fabs(element(run->x, run->x_type, i * k + l));
      largest = fmax(largest, x);
      weights += fabs((double)self->dense[j * k + l]) + off;
      sum += x * off;
    }
    sum += largest / 254 * weights;
  }
  return sum * (1 + 0x1p-20);
}

static double rounds_of(nabla_dtype type) {
  return type == NABLA_DTYPE_F16    ? 0x1p-11
         : type == NABLA_DTYPE_BF16 ? 0x1p-8
                                    : 0x1p-24;
}

static int is_wrong(const product *self, const product_run *run, size_t i,
                    size_t j) {
  const size_t n = (size_t)self->weight.shape[0],
               k = (size_t)self->weight.shape[1];
  double sum = 0, size = 0;
  for (size_t l = 0; l < k; l++) {
    const double x = element(run->x, run->x_type, i * k + l);
    sum += x * (double)self->dense[j * k + l];
    size += fabs(x) * weight_size(self, run->numerics, j * k + l);
  }
  if (run->bias) sum += element(run->bias, run->y_type, j);
  double bound = (double)(run->chain + 16) * 0x1p-24 * size;
  if (run->numerics == NABLA_NUMERICS_INT8)
    bound += int8_error(self, run, i, j);
  bound += (fabs(sum) + bound) * rounds_of(run->y_type) + 0x1p-25;
  return !(fabs(element(run->y, run->y_type, i * n + j) - sum) <= bound);
}

size_t product_count_wrong(const product *self, const product_run *run) {
  size_t wrong = 0;
  for (size_t i = 0; i < run->m; i++)
    for (size_t j = 0; j < self->weight.shape[0]; j++)
      wrong += (size_t)is_wrong(self, run, i, j);
  return wrong;
}
