/* Made-up weights; see weights.h. */
#include "bench/nabla-bench/weights.h"

#include <math.h>
#include <string.h>

#include "lib/base/edit_distance.h"
#include "lib/runtime/matmul/kernel.h"
#include "nabla/dynamic8.h"
#include "quant/codec/codec.h"
#include "quant/codec/ggml.h"
#include "tools/nabla-quant/cli.h"

#define MOST_BYTES  ((uint64_t)1 << 36)
#define MOST_COPIES 4096

static nabla_status fail_encoding(const char *name, nabla_diag *diag) {
  size_t count;
  const nabla_encoding *rows = nabla_encodings(&count);
  nabla_nearest near = nabla_nearest_begin(name, strlen(name));
  for (size_t i = 0; i < count; i++)
    nabla_nearest_offer(&near, rows[i].name, strlen(rows[i].name));
  const nabla_ggml *formats = nabla_ggml_formats(&count);
  for (size_t i = 0; i < count; i++)
    nabla_nearest_offer(&near, formats[i].name, strlen(formats[i].name));
  nabla_nearest_offer(&near, "dense", strlen("dense"));
  nabla_status status = nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                                   "--encoding: unknown encoding '%s'", name);
  if (near.best) nabla_diag_set_next(diag, "did you mean '%s'?", near.best);
  return status;
}

static int find_dense(const char *name, nabla_dtype *out) {
  if (!strcmp(name, "dense"))
    *out = NABLA_DTYPE_F32;
  else if (!strcmp(name, "dense-bf16"))
    *out = NABLA_DTYPE_BF16;
  else if (!strcmp(name, "dense-f16"))
    *out = NABLA_DTYPE_F16;
  else
    return 0;
  return 1;
}

nabla_status bench_weights_choose(const bench_problem *p, bench_made *out,
                                  nabla_diag *diag) {
  nabla_format *f = &out->layout.format;
  if (find_dense(p->encoding, &out->dense)) {
    snprintf(out->name, sizeof out->name, "%s", p->encoding);
    return NABLA_OK;
  }
  const nabla_encoding *encoding = nabla_encoding_find(p->encoding);
  const nabla_ggml *ggml = encoding ? NULL : nabla_ggml_find(p->encoding);
  if (ggml) {
    out->layout = (nabla_storage){.kind = NABLA_STORAGE_BLOCKS,
                                  .format = {.block = ggml->elements},
                                  .ggml = ggml};
    snprintf(out->name, sizeof out->name, "%s", p->encoding);
    return NABLA_OK;
  }
  if (!encoding) return fail_encoding(p->encoding, diag);
  const int rows = p->block == BENCH_BLOCK_ROW;
  out->layout.kind = NABLA_STORAGE_PLANES;
  *f = (nabla_format){.encoding = encoding,
                      .granularity = rows ? NABLA_PER_ROW : NABLA_PER_BLOCK,
                      .block = rows ? p->k : p->block};
  if (!f->block) f->block = encoding->is_mx ? NABLA_BLOCK_MX : 64;
  if (encoding->is_mx)
    f->scale = NABLA_SCALE_E8M0;
  else if (!nabla_scale_type_find(p->scale, &f->scale))
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT, "--scale: unknown '%s'",
                      p->scale);
  if (f->scale == NABLA_SCALE_DYNAMIC8)
    out->layout.nested_block = NABLA_DYNAMIC8_BLOCK;
  char name[64];
  cli_format_text(f, name);
  snprintf(out->name, sizeof out->name, "%s", name);
  return NABLA_OK;
}

/* Adds an area of so many bytes; its number. */
static int add_area(bench_weights *w, uint64_t bytes) {
  w->areas[w->area_count].bytes = (size_t)bytes;
  w->areas[w->area_count].stride = (size_t)(bytes + 63) / 64 * 64;
  w->bytes += (size_t)bytes;
  return (int)w->area_count++;
}

static nabla_status choose_areas(const bench_problem *p, bench_made *out,
                                 nabla_diag *diag) {
  const uint64_t elements = p->n * p->k;
  bench_weights *w = &out->weights;
  nabla_packed_size size;
  out->codes = out->scales = out->zero_points = -1;
  out->nested_scales = out->nested_offset = out->nested_map = -1;
  if (out->layout.ggml) {
    uint64_t bytes;
    NABLA_TRY(nabla_ggml_size(out->layout.ggml, elements, &bytes, diag));
    out->codes = add_area(w, bytes);
    return NABLA_OK;
  }
  if (!out->layout.format.encoding) {
    out->codes = add_area(w, elements * (nabla_dtype_bits(out->dense) / 8));
    return NABLA_OK;
  }
  NABLA_TRY(nabla_format_size(&out->layout.format, elements, &size, diag));
  out->codes = add_area(w, size.code_bytes);
  if (out->layout.format.scale != NABLA_SCALE_DYNAMIC8) {
    out->scales = add_area(w, size.scale_bytes);
    return NABLA_OK;
  }
  const uint64_t absmaxes =
      (size.scales + NABLA_DYNAMIC8_BLOCK - 1) / NABLA_DYNAMIC8_BLOCK;
  out->scales = add_area(w, size.scales);
  out->nested_scales = add_area(w, absmaxes * sizeof(float));
  out->nested_offset = add_area(w, sizeof(float));
  out->nested_map = add_area(w, 256 * sizeof(float));
  return NABLA_OK;
}

/* ---- bytes ---- */

/* Codes of 8-bit floats must not be NaN or infinite. */
static void fill_codes(const bench_made *self, uint8_t *out, size_t bytes,
                       uint64_t seed) {
  const nabla_encoding *e = self->layout.format.encoding;
  const uint64_t mask = e && e->bits == 8 && strcmp(e->name, "int8")
                            ? UINT64_C(0x7777777777777777)
                            : UINT64_MAX;
  for (size_t at = 0; at < bytes; at += 8) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    const uint64_t value = (seed ^ seed >> 29) & mask;
    memcpy(out + at, &value, bytes - at < 8 ? bytes - at : 8);
  }
}

static void fill_floats(nabla_dtype dtype, void *out, size_t count,
                        uint64_t seed) {
  const size_t width = nabla_dtype_bits(dtype) / 8;
  for (size_t i = 0; i < count; i++) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    const float value = (float)((double)(seed >> 40) * 0x1p-23 - 1.0);
    (void)nabla_from_f32(dtype, &value, 1, (char *)out + i * width);
  }
}

static void fill_scales(const bench_made *self, uint8_t *out, size_t bytes) {
  const float value = 0.01f;
  const nabla_scale_type scale = self->layout.format.scale;
  if (scale == NABLA_SCALE_E8M0 || scale == NABLA_SCALE_DYNAMIC8) {
    memset(out, 120, bytes); /* 2^-7, or a code of the map */
    return;
  }
  const nabla_dtype dtype = nabla_scale_info_of(scale)->dtype;
  const size_t width = nabla_dtype_bits(dtype) / 8;
  for (size_t at = 0; at + width <= bytes; at += width)
    (void)nabla_from_f32(dtype, &value, 1, out + at);
}

/* Any codes, and factors and minima that are usual numbers. */
static void fill_blocks(const bench_made *self, uint8_t *out, size_t bytes,
                        uint64_t seed) {
  const nabla_ggml_layout *l = self->layout.ggml->layout;
  fill_codes(self, out, bytes, seed);
  for (size_t at = 0; at < bytes; at += self->layout.ggml->bytes) {
    out[at + l->d + (l->is_e8m0 ? 0 : 1)] = l->is_e8m0 ? 120 : 0x24;
    if (l->min >= 0) out[at + (size_t)l->min + 1] = 0x24;
  }
}

static void fill_copy(bench_made *self, uint32_t copy) {
  bench_weights *w = &self->weights;
  uint8_t *at[BENCH_MAX_AREAS];
  for (uint32_t i = 0; i < w->area_count; i++)
    at[i] = w->areas[i].base + copy * w->areas[i].stride;
  const size_t codes = w->areas[self->codes].bytes;
  if (self->layout.ggml)
    fill_blocks(self, at[self->codes], codes, copy);
  else if (!self->layout.format.encoding)
    fill_floats(self->dense, at[self->codes],
                codes / (nabla_dtype_bits(self->dense) / 8), copy);
  else
    fill_codes(self, at[self->codes], codes, copy);
  if (self->scales >= 0)
    fill_scales(self, at[self->scales], w->areas[self->scales].bytes);
  if (self->nested_scales < 0) return;
  float *absmaxes = (float *)(void *)at[self->nested_scales];
  for (size_t i = 0; i < w->areas[self->nested_scales].bytes / 4; i++)
    absmaxes[i] = 0.01f;
  const float offset = 0.01f;
  memcpy(at[self->nested_offset], &offset, sizeof offset);
  memcpy(at[self->nested_map], nabla_dynamic8_map(), 256 * sizeof(float));
}

/* The first copies are made, the others copied from them: faster. */
static void fill_all(bench_made *self) {
  bench_weights *w = &self->weights;
  for (uint32_t c = 0; c < w->copies; c++) {
    if (c < 2) {
      fill_copy(self, c);
      continue;
    }
    for (uint32_t i = 0; i < w->area_count; i++)
      memcpy(w->areas[i].base + c * w->areas[i].stride,
             w->areas[i].base + c % 2 * w->areas[i].stride, w->areas[i].bytes);
  }
}

nabla_status bench_weights_make(const bench_problem *problem, uint64_t bytes,
                                bench_made *out, nabla_diag *diag) {
  *out = (bench_made){0};
  bench_weights *w = &out->weights;
  NABLA_TRY(bench_weights_choose(problem, out, diag));
  NABLA_TRY(choose_areas(problem, out, diag));
  const uint64_t copies = bytes / w->bytes + 1;
  w->copies = copies > MOST_COPIES ? MOST_COPIES : (uint32_t)copies;
  if (w->copies < 2) w->copies = 2;
  for (uint32_t i = 0; i < w->area_count; i++) {
    const uint64_t all = (uint64_t)w->areas[i].stride * w->copies;
    w->areas[i].base = all <= MOST_BYTES ? bench_pages((size_t)all) : NULL;
    if (w->areas[i].base) continue;
    bench_weights_free(out);
    return nabla_fail(diag, NABLA_NO_MEMORY, "no memory for %llu bytes",
                      (unsigned long long)all);
  }
  fill_all(out);
  return NABLA_OK;
}

void bench_weights_free(bench_made *self) {
  bench_weights *w = &self->weights;
  for (uint32_t i = 0; i < w->area_count; i++) {
    bench_unmap(w->areas[i].base, w->areas[i].stride * w->copies);
    w->areas[i].base = NULL;
  }
}

/* ---- looking at them ---- */

static void set_word(const bench_weights *w, uint64_t copy, int area,
                     uint64_t *word) {
  *word = area < 0
              ? 0
              : (uintptr_t)(w->areas[area].base + copy * w->areas[area].stride);
}

void bench_weights_words(const bench_made *self, uint64_t copy,
                         uint64_t *words) {
  const bench_weights *w = &self->weights;
  set_word(w, copy, self->codes, &words[NABLA_ARG_CODES]);
  set_word(w, copy, self->scales, &words[NABLA_ARG_SCALES]);
  set_word(w, copy, self->zero_points, &words[NABLA_ARG_ZERO_POINTS]);
  set_word(w, copy, self->nested_scales, &words[NABLA_ARG_NESTED_SCALES]);
  set_word(w, copy, self->nested_offset, &words[NABLA_ARG_NESTED_OFFSET]);
  set_word(w, copy, self->nested_map, &words[NABLA_ARG_NESTED_MAP]);
}

/* Scales of a block as nabla_decode reads them: f32 where they are nested. */
static float nested_scale(const bench_made *self, uint64_t scale) {
  const bench_weights *w = &self->weights;
  const uint8_t code = w->areas[self->scales].base[scale];
  float absmax, offset;
  memcpy(&absmax,
         w->areas[self->nested_scales].base +
             scale / NABLA_DYNAMIC8_BLOCK * sizeof absmax,
         sizeof absmax);
  memcpy(&offset, w->areas[self->nested_offset].base, sizeof offset);
  return nabla_dynamic8_map()[code] * absmax + offset;
}

double bench_weights_at(const bench_made *self, uint64_t element) {
  const bench_weights *w = &self->weights;
  static float values[NABLA_BLOCK_MAX];
  if (self->layout.ggml) {
    const uint64_t block = element / self->layout.ggml->elements;
    if (nabla_ggml_decode(
            self->layout.ggml, NABLA_DTYPE_F32,
            w->areas[self->codes].base + block * self->layout.ggml->bytes, 1,
            values, NULL))
      return NAN;
    return (double)values[element % self->layout.ggml->elements];
  }
  if (!self->layout.format.encoding) {
    const size_t width = nabla_dtype_bits(self->dense) / 8;
    (void)nabla_to_f32(self->dense, w->areas[0].base + element * width, 1,
                       values);
    return (double)values[0];
  }
  nabla_codec codec;
  nabla_format one = self->layout.format; /* its block alone; rows: what fits */
  const uint64_t scale = nabla_scale_index(&self->layout.format, element);
  float nested = 0;
  const uint64_t begin = element / NABLA_BLOCK_MIN * NABLA_BLOCK_MIN;
  if (!one.encoding->is_mx) one.block = NABLA_BLOCK_MIN; /* or row */
  if (nabla_codec_select(&one, NULL, &codec, NULL)) return NAN;
  nabla_packed part = {
      .codes = w->areas[self->codes].base +
               nabla_code_bytes(&self->layout.format, begin),
      .scales = w->areas[self->scales].base +
                scale * nabla_scale_width(&self->layout.format)};
  if (self->nested_scales >= 0) {
    nested = nested_scale(self, scale);
    part.scales = &nested;
  }
  nabla_decode(&codec, &part, NABLA_BLOCK_MIN, values);
  return (double)values[element - begin];
}
