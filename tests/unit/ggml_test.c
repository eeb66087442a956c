/* The block formats of GGUF files: what every row of quant/codec/ggml.def
 * promises. Their bits are checked against the package gguf (tests/oracle). */
#include "nabla/ggml.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/bytes.h"
#include "lib/base/floats.h"
#include "quant/codec/ggml.h"

enum { BLOCKS = 64, MOST = BLOCKS * NABLA_GGML_ELEMENTS_MAX, LINE = 256 };

static struct criterion_test_params every_row(void) {
  static size_t rows[64];
  size_t count;
  nabla_ggml_formats(&count);
  for (size_t i = 0; i < count; i++) rows[i] = i;
  return cr_make_param_array(size_t, rows, count);
}

static const nabla_ggml *row_of(size_t number) {
  size_t ignored;
  return &nabla_ggml_formats(&ignored)[number];
}

static double uniform(uint64_t *state) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return ((double)(*state >> 11) + 0.5) * 0x1p-53;
}

static void fill_normal(float *out, size_t count) {
  uint64_t state = 7;
  for (size_t i = 0; i < count; i++) {
    const double radius = sqrt(-2 * log(uniform(&state)));
    out[i] = (float)(radius * cos(6.283185307179586 * uniform(&state)));
  }
}

ParameterizedTestParameters(ggml, is_found_by_name_and_number) {
  return every_row();
}
ParameterizedTest(size_t *row, ggml, is_found_by_name_and_number) {
  const nabla_ggml *f = row_of(*row);
  cr_expect_eq(nabla_ggml_find(f->name), f);
  cr_expect_eq(nabla_ggml_of_type(f->type), f);
  cr_expect(f->elements == 32 || f->elements == 256, "%s", f->name);
}

Test(ggml, what_is_not_there_is_not_found) {
  cr_expect_null(nabla_ggml_find("q4_2"));
  cr_expect_null(nabla_ggml_find(""));
  cr_expect_null(nabla_ggml_of_type(0));
}

ParameterizedTestParameters(ggml, sizes_are_checked) { return every_row(); }
ParameterizedTest(size_t *row, ggml, sizes_are_checked) {
  const nabla_ggml *f = row_of(*row);
  uint64_t bytes = 1;
  nabla_diag diag;
  cr_expect_eq(nabla_ggml_size(f, 0, &bytes, &diag), NABLA_OK);
  cr_expect_eq(bytes, 0);
  cr_expect_eq(nabla_ggml_size(f, 3 * (uint64_t)f->elements, &bytes, &diag),
               NABLA_OK);
  cr_expect_eq(bytes, 3 * f->bytes);
  cr_expect_eq(nabla_ggml_size(f, f->elements + 1, &bytes, &diag),
               NABLA_INVALID_ARGUMENT);
  cr_expect(strstr(diag.what, f->name) && strstr(diag.next, "a block has"));
  cr_expect_eq(bytes, 3 * f->bytes, "written by a failure");
  const uint64_t many = UINT64_MAX - UINT64_MAX % f->elements;
  const nabla_status status = nabla_ggml_size(f, many, &bytes, &diag);
  cr_expect_eq(status, f->bytes > f->elements / 2 ? NABLA_TOO_LARGE : NABLA_OK);
}

/* Every code of every element is its own bits of the block. */
ParameterizedTestParameters(ggml, codes_fill_the_block) { return every_row(); }
ParameterizedTest(size_t *row, ggml, codes_fill_the_block) {
  const nabla_ggml *f = row_of(*row);
  const nabla_ggml_layout *l = f->layout;
  uint8_t seen[NABLA_GGML_ELEMENTS_MAX] = {0};
  for (uint32_t i = 0; i < f->elements; i++) {
    const uint32_t at = nabla_ggml_code_byte(l, i);
    const unsigned bits = (l->run ? 15u : 255u) << nabla_ggml_code_shift(l, i);
    cr_assert_lt(at, f->bytes);
    cr_assert_eq(seen[at] & bits, 0, "%s element %u", f->name, i);
    seen[at] = (uint8_t)(seen[at] | bits);
    if (!l->bits) continue;
    const uint32_t high = nabla_ggml_high_byte(l, i);
    const unsigned more = ((1u << l->bits) - 1) << nabla_ggml_high_shift(l, i);
    cr_assert_lt(high, f->bytes);
    cr_assert_eq(seen[high] & more, 0, "%s element %u", f->name, i);
    seen[high] = (uint8_t)(seen[high] | more);
  }
  const uint32_t halves = (l->is_e8m0 ? 1u : 2u) + (l->min < 0 ? 0u : 2u);
  const uint32_t sub = l->sub == NABLA_GGML_SUB_PACKED6 ? 12
                       : l->sub == NABLA_GGML_SUB_BYTES
                           ? f->elements / NABLA_GGML_BYTES_PART
                           : 0;
  uint32_t left = 0;
  for (uint32_t i = 0; i < f->bytes; i++) left += seen[i] == 0;
  cr_expect_eq(left, halves + sub, "%s", f->name);
}

ParameterizedTestParameters(ggml, encodes_within_its_error) {
  return every_row();
}
ParameterizedTest(size_t *row, ggml, encodes_within_its_error) {
  const nabla_ggml *f = row_of(*row);
  static float in[MOST], out[MOST];
  static uint8_t blocks[MOST * 2];
  const size_t count = (size_t)BLOCKS * f->elements;
  double error = 0, all = 0;
  nabla_diag diag;
  fill_normal(in, count);
  nabla_status status =
      nabla_ggml_encode(f, NABLA_DTYPE_F32, in, BLOCKS, blocks, NULL, &diag);
  cr_assert_eq(status, f->can_encode ? NABLA_OK : NABLA_UNSUPPORTED);
  if (status) {
    cr_expect(strstr(diag.what, "decoded only") && strstr(diag.next, "q4_0"));
    return;
  }
  cr_assert_eq(nabla_ggml_decode(f, NABLA_DTYPE_F32, blocks, BLOCKS, out, NULL),
               NABLA_OK);
  for (size_t i = 0; i < count; i++) {
    error += ((double)in[i] - out[i]) * ((double)in[i] - out[i]);
    all += (double)in[i] * in[i];
  }
  const double rmse = sqrt(error / all);
  cr_expect(rmse <= f->rmse_bound && rmse > 0.8 * f->rmse_bound,
            "%s: %.4f, bound %.4f", f->name, rmse, f->rmse_bound);
}

ParameterizedTestParameters(ggml, refuses_what_it_cannot_hold) {
  return every_row();
}
ParameterizedTest(size_t *row, ggml, refuses_what_it_cannot_hold) {
  const nabla_ggml *f = row_of(*row);
  float in[2 * NABLA_GGML_ELEMENTS_MAX] = {0};
  uint8_t out[1024];
  size_t index = 99;
  if (!f->can_encode) return;
  in[f->elements + 3] = NAN;
  cr_expect_eq(nabla_ggml_encode(f, NABLA_DTYPE_F32, in, 2, out, &index, NULL),
               NABLA_NOT_FINITE);
  cr_expect_eq(index, f->elements + 3);
  in[f->elements + 3] = FLT_MAX;
  const nabla_status status =
      nabla_ggml_encode(f, NABLA_DTYPE_F32, in, 2, out, &index, NULL);
  cr_expect_eq(status, f->layout->is_e8m0 ? NABLA_OK : NABLA_UNSUPPORTED);
  if (status) cr_expect_eq(index, f->elements);
  cr_expect_eq(nabla_ggml_encode(f, NABLA_DTYPE_I8, in, 1, out, NULL, NULL),
               NABLA_UNSUPPORTED);
  cr_expect_eq(nabla_ggml_decode(f, NABLA_DTYPE_F64, out, 1, in, NULL),
               NABLA_UNSUPPORTED);
  in[f->elements + 3] = 0x1p-149f; /* 1 / d is not finite */
  cr_expect_eq(nabla_ggml_encode(f, NABLA_DTYPE_F32, in, 2, out, NULL, NULL),
               NABLA_OK);
}

/* Values of f16 and bf16 are taken as they are. */
ParameterizedTestParameters(ggml, takes_narrow_values) { return every_row(); }
ParameterizedTest(size_t *row, ggml, takes_narrow_values) {
  const nabla_ggml *f = row_of(*row);
  static const nabla_dtype dtypes[] = {NABLA_DTYPE_F16, NABLA_DTYPE_BF16};
  float in[NABLA_GGML_ELEMENTS_MAX];
  uint16_t narrow[NABLA_GGML_ELEMENTS_MAX], decoded[NABLA_GGML_ELEMENTS_MAX];
  float wide[NABLA_GGML_ELEMENTS_MAX];
  uint8_t want[512], got[512];
  if (!f->can_encode) return;
  for (int t = 0; t < 2; t++) {
    fill_normal(in, f->elements);
    nabla_from_f32(dtypes[t], in, f->elements, narrow);
    nabla_to_f32(dtypes[t], narrow, f->elements, in);
    cr_assert_eq(nabla_ggml_encode(f, NABLA_DTYPE_F32, in, 1, want, NULL, NULL),
                 NABLA_OK);
    cr_assert_eq(nabla_ggml_encode(f, dtypes[t], narrow, 1, got, NULL, NULL),
                 NABLA_OK);
    cr_expect_arr_eq(got, want, f->bytes);
    cr_assert_eq(nabla_ggml_decode(f, NABLA_DTYPE_F32, got, 1, wide, NULL),
                 NABLA_OK);
    nabla_from_f32(dtypes[t], wide, f->elements, narrow);
    cr_assert_eq(nabla_ggml_decode(f, dtypes[t], got, 1, decoded, NULL),
                 NABLA_OK);
    cr_expect_arr_eq(decoded, narrow, 2 * f->elements);
  }
}

/* Any NaN stands for any. */
static int same_value(float got, uint32_t want) {
  return nabla_bits_of_f32(got) == want ||
         (isnan(got) && isnan(nabla_f32_of_bits(want)));
}

ParameterizedTestParameters(ggml, decodes_to_the_same_bits) {
  return every_row();
}
ParameterizedTest(size_t *row, ggml, decodes_to_the_same_bits) {
  const nabla_ggml *f = row_of(*row);
  char path[4096], line[LINE], key[16];
  static uint8_t blocks[4096];
  static uint32_t values[4096];
  static float out[4096];
  size_t bytes = 0, count = 0;
  snprintf(path, sizeof path, "%s/ggml_%s.txt", NABLA_GOLDEN_DIR, f->name);
  FILE *file = fopen(path, "r");
  cr_assert_not_null(file, "%s is missing", path);
  while (fgets(line, sizeof line, file)) {
    int taken = 0;
    if (line[0] == '#' || sscanf(line, "%15s%n", key, &taken) != 1) continue;
    for (char *rest = line + taken, *end;; rest = end) {
      const unsigned long n = strtoul(rest, &end, 16);
      if (end == rest) break;
      cr_assert(bytes < 4096 && count < 4096);
      if (!strcmp(key, "bytes"))
        blocks[bytes++] = (uint8_t)n;
      else
        values[count++] = (uint32_t)n;
    }
  }
  fclose(file);
  cr_assert(bytes && bytes % f->bytes == 0);
  cr_assert_eq(count, bytes / f->bytes * f->elements);
  cr_assert_eq(nabla_ggml_decode(f, NABLA_DTYPE_F32, blocks, bytes / f->bytes,
                                 out, NULL),
               NABLA_OK);
  for (size_t i = 0; i < count; i++)
    cr_expect(same_value(out[i], values[i]), "%s value %zu: %08x, not %08x",
              f->name, i, nabla_bits_of_f32(out[i]), values[i]);
}
