/* Kernels that decode runs, for every encoding and instruction set: runs of
 * all lengths from all places, bit for bit what nabla_decode gives, in parts
 * and whole, nothing read or written beside the arrays. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/kernels/gather_rows.h"
#include "nabla/dtype.h"
#include "tests/kernels/jit.h"
#include "tests/kernels/problem.h"

#define RUNS 7u

static unsigned kernels_made, failures;

/* One encoding's storage, runs and element type. */
static nabla_fused_spec spec_of(const nabla_format *format,
                                const nabla_ggml *blocks, uint64_t length,
                                uint64_t aligned, nabla_dtype type) {
  nabla_fused_spec spec = {
      .w = {.kind = blocks ? NABLA_STORAGE_BLOCKS : NABLA_STORAGE_PLANES,
            .format = *format,
            .ggml = blocks,
            .nested_block = 32},
      .m_min = 1,
      .m_max = 1,
      .n = 1,
      .k = length,
      .stride_n = aligned,
      .stride_k = 1,
      .x_type = NABLA_DTYPE_F32,
      .y_type = type,
      .w_type = NABLA_DTYPE_F32};
  spec.storage_elements = (length + 4 * aligned + 255) / 256 * 256;
  if (!blocks && format->granularity == NABLA_PER_BLOCK)
    spec.storage_elements -= length % 5;
  return spec;
}

/* The wanted bytes of the result. */
static uint8_t *expected(const problem *p, const uint64_t *starts) {
  const nabla_fused_spec *spec = &p->spec;
  const size_t size = nabla_dtype_bits(spec->y_type) / 8;
  uint8_t *out = malloc(RUNS * spec->k * size);
  for (size_t i = 0; i < RUNS; i++)
    (void)nabla_from_f32(spec->y_type, p->dense + starts[i], (size_t)spec->k,
                         out + i * spec->k * size);
  return out;
}

static int is_same(nabla_dtype type, const uint8_t *a, const uint8_t *b,
                   size_t count) {
  const size_t size = nabla_dtype_bits(type) / 8;
  for (size_t i = 0; i < count; i++) {
    float x, y;
    nabla_to_f32(type, a + i * size, 1, &x);
    nabla_to_f32(type, b + i * size, 1, &y);
    if (memcmp(a + i * size, b + i * size, size) && !(isnan(x) && isnan(y)))
      return 0;
  }
  return 1;
}

static void check_storage(const nabla_fused_spec *spec, jit_kernel kernel,
                          const char *level, int at_start, uint64_t *state) {
  problem p = problem_create(spec, at_start, state);
  const size_t size = nabla_dtype_bits(spec->y_type) / 8;
  guarded starts = guarded_create(RUNS * sizeof(uint64_t), at_start);
  guarded y = guarded_create((size_t)(RUNS * spec->k) * size, at_start);
  uint64_t *start = (uint64_t *)starts.data;
  uint64_t places = (spec->storage_elements - spec->k) / spec->stride_n;
  for (size_t i = 0; i < RUNS; i++)
    start[i] = random_below(state, places + 1) * spec->stride_n;
  start[0] = places * spec->stride_n;
  start[1] = 0;
  problem_set_rows(&p, 1, FILL_RANDOM, state); /* words of codes and scales */
  p.words[NABLA_ARG_X] = (uint64_t)(uintptr_t)starts.data;
  p.words[NABLA_ARG_Y] = (uint64_t)(uintptr_t)y.data;
  uint8_t *want = expected(&p, start);
  for (uint64_t part = 1; part <= RUNS; part += RUNS - 1) {
    memset(y.data, 0x7f, y.size);
    for (uint64_t at = 0; at < RUNS; at += part) kernel(p.words, at, at + part);
    kernel(p.words, RUNS, RUNS); /* nothing */
    if (is_same(spec->y_type, y.data, want, (size_t)(RUNS * spec->k))) continue;
    failures++;
    (void)fprintf(
        stderr,
        "%s block %" PRIu64 ": runs of %" PRIu64 " at multiples of %" PRIu64
        " as %s, for %s\n",
        spec->w.ggml ? spec->w.ggml->name : spec->w.format.encoding->name,
        spec->w.format.block, spec->k, spec->stride_n,
        nabla_dtype_name(spec->y_type), level);
  }
  free(want);
  guarded_destroy(&y);
  guarded_destroy(&starts);
  problem_destroy(&p);
}

static void check(jit *compiler, const jit_level *level,
                  const nabla_format *format, const nabla_ggml *blocks,
                  uint64_t *state) {
  static const uint64_t lengths[] = {16, 17, 31, 64, 96, 130, 256, 333};
  static const uint64_t aligned[] = {1, 2, 16, 64, 256};
  static const nabla_dtype types[] = {NABLA_DTYPE_F32, NABLA_DTYPE_F16,
                                      NABLA_DTYPE_BF16};
  for (unsigned i = 0; i < 3; i++) {
    nabla_fused_spec spec =
        spec_of(format, blocks, lengths[random_below(state, 8)],
                aligned[random_below(state, 5)], types[random_below(state, 3)]);
    spec.features = nabla_features_parse(level->features);
    const char *objection = nabla_gather_rows_objection(&spec);
    if (objection) {
      failures++;
      (void)fprintf(stderr, "%s\n", objection);
      continue;
    }
    nabla_text text = {0};
    nabla_gather_rows_emit(&spec, "kernel", &text);
    jit_code *code = jit_compile(compiler, level, text.data, "kernel");
    kernels_made++;
    for (int at_start = 0; at_start < 2; at_start++)
      check_storage(&spec, jit_entry(code), level->name, at_start, state);
    jit_release(code);
    nabla_text_deinit(&text);
  }
}

/* Blocks of two sizes, scales of each kind, zero points, rows. */
static void check_encoding(jit *compiler, const jit_level *level,
                           const nabla_encoding *encoding, uint64_t *state) {
  static const nabla_scale_type scales[] = {NABLA_SCALE_F32, NABLA_SCALE_BF16,
                                            NABLA_SCALE_DYNAMIC8};
  nabla_format format = {
      .encoding = encoding, .block = NABLA_BLOCK_MX, .scale = NABLA_SCALE_E8M0};
  if (encoding->is_mx) {
    check(compiler, level, &format, NULL, state);
    return;
  }
  for (unsigned i = 0; i < 3; i++) {
    format.block = i ? 64 : 16;
    format.scale = scales[i];
    format.zero_point = encoding->has_zero_point && i == 1;
    check(compiler, level, &format, NULL, state);
  }
  if (!encoding->has_rows) return;
  format = (nabla_format){
      .encoding = encoding, .granularity = NABLA_PER_ROW, .block = 128};
  check(compiler, level, &format, NULL, state);
}

int main(void) {
  const jit_level *levels;
  unsigned level_count = jit_levels(&levels);
  uint64_t state = 1;
  size_t count;
  jit *compiler = jit_create();
  const nabla_encoding *all = nabla_encodings(&count);
  for (size_t i = 0; i < count; i++) {
    check_encoding(compiler, &levels[level_count - 1], &all[i], &state);
    check_encoding(compiler, &levels[i % (level_count - 1)], &all[i], &state);
  }
  const nabla_ggml *rows = nabla_ggml_formats(&count);
  for (size_t i = 0; i < count; i++) {
    const nabla_format format = {.block = rows[i].elements};
    check(compiler, &levels[level_count - 1], &format, &rows[i], &state);
    check(compiler, &levels[i % (level_count - 1)], &format, &rows[i], &state);
  }
  jit_destroy(compiler);
  printf("%u kernels: %u failures\n", kernels_made, failures);
  return failures != 0;
}
