/* The measurements of nabla-bench codec: what they report, not how fast
 * anything is. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "bench/nabla-bench/codec_measure.h"

typedef struct seen {
  size_t results, encodes, rows, wrong;
  uint64_t block;
} seen;

static void count_result(void *context, const bench_codec_result *result) {
  seen *s = context;
  size_t by_row = result->format.granularity == NABLA_PER_ROW;
  double ratio = result->gb_per_s / result->memcpy_gb_per_s;
  s->results++;
  s->encodes += !strcmp(result->operation, "encode");
  s->rows += by_row;
  const uint64_t blocks = result->format.encoding->is_mx ? NABLA_BLOCK_MX
                          : result->format.scale && result->search ? 32
                                                                   : s->block;
  s->wrong += result->format.block != (by_row ? BENCH_CODEC_ROW : blocks);
  s->wrong += result->isa == NABLA_ISA_BEST;
  s->wrong += !(result->gb_per_s > 0) || !(result->spread >= 0);
  s->wrong += !(fabs(result->ratio / ratio - 1) < 1e-9);
}

/* Encoding and decoding of three dtypes, with f16 scales, with zero points, by
 * rows; encoding with dynamic8, and with the search. Buffers are too small for
 * the rows that are of memory only. */
static size_t expected_rows(const nabla_encoding *e) {
  const size_t pairs = 3u + (e->is_mx ? 0 : 1) + (e->has_zero_point ? 1 : 0) +
                       (e->has_rows ? 1 : 0);
  return 2 * pairs + (e->is_mx ? 0 : 1) + (strcmp(e->name, "nf4") ? 1 : 2);
}

Test(bench_codec, reports_every_kernel) {
  size_t count, by_row = 0, all = 0;
  const nabla_encoding *rows = nabla_encodings(&count);
  for (size_t i = 0; i < count; i++) {
    by_row += rows[i].has_rows != 0;
    all += expected_rows(&rows[i]);
  }
  bench_codec_options options = {.bytes = 1 << 18, .repetitions = 2};
  seen s = {.block = 64};
  cr_assert_eq(bench_measure_codecs(&options, NULL, count_result, &s, NULL),
               NABLA_OK);
  cr_expect_eq(s.results, all);
  cr_expect_eq(s.rows, 2 * by_row);
  cr_expect_eq(s.wrong, 0);
}

Test(bench_codec, takes_one_encoding_block_and_isa) {
  bench_codec_options options = {.encoding = nabla_encoding_find("fp4"),
                                 .isa = NABLA_ISA_SCALAR,
                                 .block = 128,
                                 .bytes = 1,
                                 .repetitions = 1};
  seen s = {.block = 128};
  cr_assert_eq(bench_measure_codecs(&options, NULL, count_result, &s, NULL),
               NABLA_OK);
  cr_expect_eq(s.results, expected_rows(options.encoding));
  cr_expect_eq(s.wrong, 0);
}

static void *refuse(void *self, void *block, size_t old, size_t size) {
  size_t *left = self;
  if (size > 0 && (*left)-- == 0) return NULL;
  const nabla_allocator *heap = nabla_allocator_default();
  return heap->resize(heap->self, block, old, size);
}

Test(bench_codec, refuses_what_it_cannot_do) {
  seen s = {.block = 64};
  bench_codec_options bad_block = {.block = 65, .bytes = 1 << 18};
  cr_expect_eq(bench_measure_codecs(&bad_block, NULL, count_result, &s, NULL),
               NABLA_INVALID_ARGUMENT);
  bench_codec_options too_many = {.repetitions = UINT32_MAX};
  cr_expect_eq(bench_measure_codecs(&too_many, NULL, count_result, &s, NULL),
               NABLA_TOO_LARGE);
  for (size_t nth = 0; nth < 8; nth++) { /* each allocation fails once */
    size_t left = nth;
    nabla_allocator failing = {&left, refuse};
    bench_codec_options small = {.bytes = 1 << 18};
    cr_expect_eq(bench_measure_codecs(&small, &failing, count_result, &s, NULL),
                 NABLA_NO_MEMORY);
  }
  cr_expect_eq(s.results, 0);
}
