/* See codec_forms.h. */
#include "tests/support/codec_forms.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "quant/codec/codec.h"

enum { GUARD = 96, CANARY = 0xA5, SPANS = 3, SCALES = NABLA_SCALE_E8M0 + 1 };

int codec_form(const nabla_encoding *encoding, size_t number,
               nabla_format *out) {
  const nabla_format format = {
      .encoding = encoding,
      .granularity = (nabla_granularity)(number % SPANS),
      .block = encoding->is_mx ? NABLA_BLOCK_MX : 64,
      .scale = (nabla_scale_type)(number / SPANS % SCALES),
      .zero_point = number / SPANS / SCALES != 0};
  nabla_packed_size ignored;
  if (nabla_format_size(&format, 0, &ignored, NULL)) return 0;
  *out = format;
  return 1;
}

int codec_form_resize(nabla_format *format, size_t number) {
  static const uint64_t rows[] = {1,  2,  3,  7,   15,  16,  17,  31,  33,
                                  63, 64, 65, 100, 127, 129, 500, 4097};
  if (format->encoding->is_mx) return number == 0;
  if (format->granularity == NABLA_PER_BLOCK) {
    format->block = (uint64_t)NABLA_BLOCK_MIN << number;
    return format->block <= NABLA_BLOCK_MAX;
  }
  if (number >= sizeof rows / sizeof *rows) return 0;
  format->block = rows[number];
  return 1;
}

const char *codec_form_text(const nabla_format *format) {
  static const char *const spans[] = {"blocks", "rows", "tensors"};
  static char text[128];
  (void)snprintf(text, sizeof text, "%s, %s of %zu, %s%s",
                 format->encoding->name, spans[format->granularity],
                 (size_t)format->block,
                 nabla_scale_info_of(format->scale)->name,
                 format->zero_point ? ", zero points" : "");
  return text;
}

static size_t zero_bytes(const guarded *g) {
  return g->parts.zero_points ? (size_t)g->size.scales : 0;
}

guarded guarded_create(const nabla_format *format, size_t count, size_t shift) {
  guarded g = {0};
  if (nabla_format_size(format, count, &g.size, NULL)) abort();
  const size_t width = nabla_scale_width(format);
  g.scale_bytes = (size_t)g.size.scales * width;
  g.memory_bytes = 4 * GUARD + shift * (width + 2) + g.scale_bytes +
                   (size_t)(g.size.scales + g.size.code_bytes);
  g.memory = malloc(g.memory_bytes);
  if (!g.memory) abort();
  memset(g.memory, CANARY, g.memory_bytes);
  uint8_t *at = g.memory + GUARD + shift * width;
  g.parts.scales = at;
  at += g.scale_bytes + GUARD + shift;
  if (format->zero_point) {
    g.parts.zero_points = at;
    at += g.size.scales + GUARD + shift;
  }
  g.parts.codes = at;
  return g;
}

int guarded_equal(const guarded *a, const guarded *b) {
  return !memcmp(a->parts.codes, b->parts.codes, (size_t)a->size.code_bytes) &&
         !memcmp(a->parts.scales, b->parts.scales, a->scale_bytes) &&
         (!a->parts.zero_points ||
          !memcmp(a->parts.zero_points, b->parts.zero_points, zero_bytes(a)));
}

int guarded_destroy(guarded *g) {
  memset(g->parts.codes, CANARY, (size_t)g->size.code_bytes);
  memset(g->parts.scales, CANARY, g->scale_bytes);
  if (g->parts.zero_points) memset(g->parts.zero_points, CANARY, zero_bytes(g));
  int whole = 1;
  for (size_t i = 0; i < g->memory_bytes; i++) whole &= g->memory[i] == CANARY;
  free(g->memory);
  return whole;
}

uint32_t random_bits(void) { /* splitmix64 */
  static uint64_t seed = 1;
  uint64_t z = seed += UINT64_C(0x9e3779b97f4a7c15);
  z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
  return (uint32_t)((z ^ z >> 31) >> 32);
}

float random_normal(void) {
  double u = (random_bits() + 1.0) / 4294967297.0;
  return (float)(sqrt(-2 * log(u)) *
                 cos(6.283185307179586 * random_bits() / 4294967296.0));
}

static void fill(void *out, size_t size) {
  for (size_t i = 0; i < size; i += 4) {
    const uint32_t bits = random_bits();
    memcpy((uint8_t *)out + i, &bits, size - i < 4 ? size - i : 4);
  }
}

void guarded_fill(guarded *g) {
  fill(g->parts.codes, (size_t)g->size.code_bytes);
  fill(g->parts.scales, g->scale_bytes);
  if (g->parts.zero_points) fill(g->parts.zero_points, zero_bytes(g));
}
