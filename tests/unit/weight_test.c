/* Described weights: rows of every layout against its codec from the start on,
 * and against a dequantized file; components and what contradicts them. */
#include "nabla/weight.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nabla/model.h"
#include "nabla/quantize.h"
#include "tests/support/model.h"
#include "tests/support/product.h"
#include "tests/support/temp_folder.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

static nabla_diag diag = NABLA_DIAG_INIT;

static struct criterion_test_params numbers_to(size_t count) {
  static size_t numbers[64];
  for (size_t i = 0; i < count; i++) numbers[i] = i;
  return cr_make_param_array(size_t, numbers, count);
}

/* ---- rows ------------------------------------------------------------------
 */

/* Every range of rows has the values that decoding from the start on gives. The
 * components, and the rows that are written, end or begin at a page without
 * access. */
static void expect_rows(const product *p) {
  const size_t n = (size_t)p->weight.shape[0], k = (size_t)p->weight.shape[1];
  for (size_t first = 0; first <= n; first++)
    for (size_t count = 0; first + count <= n; count++) {
      const size_t bytes = count * k * sizeof(float);
      guarded_bytes out = guarded_bytes_create(bytes, p->at_start);
      cr_assert_eq(nabla_weight_read(&p->weight, first, count,
                                     (float *)(void *)out.data, &diag),
                   NABLA_OK, "%s", diag.what);
      cr_expect(!memcmp(out.data, p->dense + first * k, bytes),
                "%zu rows from %zu on", count, first);
      guarded_bytes_destroy(&out);
    }
}

static void expect_shape(product_shape shape) {
  for (shape.at_start = 0; shape.at_start < 2; shape.at_start++) {
    product p = product_create(&shape);
    expect_rows(&p);
    product_destroy(&p);
  }
}

/* Rows of 70 begin inside a block, of 33 inside a byte, and those of 600 have
 * more than are decoded at a time. */
static void expect_format(nabla_format format) {
  static const uint64_t columns[] = {70, 33, 64, 600};
  for (size_t i = 0; i < COUNT(columns); i++) {
    const uint64_t k = columns[i];
    if (format.granularity == NABLA_PER_ROW) format.block = k;
    if (format.granularity == NABLA_PER_TENSOR) format.block = 5 * k;
    expect_shape((product_shape){.format = format, .n = 5, .k = k});
  }
}

static const nabla_encoding *encoding_at(size_t number) {
  size_t ignored;
  return &nabla_encodings(&ignored)[number];
}

ParameterizedTestParameters(weight, rows_of_every_encoding) {
  size_t count;
  (void)nabla_encodings(&count);
  return numbers_to(count);
}
ParameterizedTest(size_t *number, weight, rows_of_every_encoding) {
  const nabla_encoding *encoding = encoding_at(*number);
  nabla_format format = {.encoding = encoding, .block = 64};
  if (encoding->is_mx) {
    format.scale = NABLA_SCALE_E8M0;
    format.block = NABLA_BLOCK_MX;
    expect_format(format);
    return;
  }
  for (int scale = NABLA_SCALE_F32; scale <= NABLA_SCALE_DYNAMIC8; scale++)
    for (int zero = 0; zero <= (encoding->has_zero_point != 0); zero++) {
      format.scale = (nabla_scale_type)scale;
      format.zero_point = zero;
      expect_format(format);
    }
  format.scale = NABLA_SCALE_F32;
  format.zero_point = 0;
  format.block = 16;
  expect_format(format);
  format.granularity = NABLA_PER_ROW;
  if (encoding->has_rows) expect_format(format);
  format.granularity = NABLA_PER_TENSOR;
  if (encoding->has_tensor) expect_format(format);
}

Test(weight, rows_whose_blocks_begin_anew_with_each) {
  expect_shape(
      (product_shape){.format = {.encoding = nabla_encoding_find("nf4"),
                                 .block = 64,
                                 .segment = 72},
                      .n = 4,
                      .k = 72});
}

/* Three elements a row: blocks begin within rows. */
ParameterizedTestParameters(weight, rows_of_every_block_format) {
  size_t count;
  (void)nabla_ggml_formats(&count);
  return numbers_to(count);
}
ParameterizedTest(size_t *number, weight, rows_of_every_block_format) {
  size_t ignored;
  const nabla_ggml *ggml = &nabla_ggml_formats(&ignored)[*number];
  expect_shape(
      (product_shape){.ggml = ggml, .n = 3, .k = 2 * (uint64_t)ggml->elements});
  const product_shape cut = {.ggml = ggml, .n = ggml->elements, .k = 3};
  product p = product_create(&cut);
  float row[3];
  for (uint64_t i = 0; i < cut.n; i++) {
    cr_assert_eq(nabla_weight_read(&p.weight, i, 1, row, &diag), NABLA_OK);
    cr_expect(!memcmp(row, p.dense + i * 3, sizeof row), "row %u", (unsigned)i);
  }
  product_destroy(&p);
}

Test(weight, rows_of_dense_weights) {
  static const nabla_dtype types[] = {NABLA_DTYPE_F32, NABLA_DTYPE_F16,
                                      NABLA_DTYPE_BF16, NABLA_DTYPE_F64};
  for (size_t i = 0; i < COUNT(types); i++)
    expect_shape((product_shape){.dtype = types[i], .n = 5, .k = 7});
}

/* A vector has rows of one element, a number is one row, and a row of a weight
 * of higher rank is all that has its first index. */
Test(weight, rows_of_other_ranks) {
  static const float values[] = {1, 2, 3, 4, 5, 6, 7, 8};
  float out[4];
  nabla_weight_desc w = {.rank = 1,
                         .shape = {8},
                         .dtype = NABLA_DTYPE_F32,
                         .component_count = 1,
                         .components = {{.data = values, .bytes = 32}}};
  cr_assert_eq(nabla_weight_read(&w, 6, 2, out, &diag), NABLA_OK);
  cr_expect(!memcmp(out, values + 6, 8));
  w.rank = 3;
  w.shape[0] = w.shape[1] = w.shape[2] = 2;
  cr_assert_eq(nabla_weight_read(&w, 1, 1, out, &diag), NABLA_OK);
  cr_expect(!memcmp(out, values + 4, 16));
  w.rank = 0;
  cr_assert_eq(nabla_weight_read(&w, 0, 1, out, &diag), NABLA_OK);
  cr_expect_eq(out[0], 1);
}

/* ---- rows of a model
 * --------------------------------------------------------- */

static temp_folder folder;

/* "w" of `from` with `options` in packed.safetensors, and decoded to f32 in
 * back.safetensors. */
static void pack(const char *from, const nabla_quantize_options *options,
                 const char *packed, const char *back) {
  const nabla_write_options to_packed = {
      .struct_size = sizeof to_packed, .path = packed, .force = 1};
  const nabla_dequantize_options decoded = {
      .struct_size = sizeof decoded, .has_dtype = 1, .dtype = NABLA_DTYPE_F32};
  const nabla_write_options to_back = {
      .struct_size = sizeof to_back, .path = back, .force = 1};
  nabla_write_summary summary;
  nabla_plan *plan = NULL;
  nabla_checkpoint *checkpoint = model_open(from);
  cr_assert_eq(nabla_plan_create(checkpoint, options, NULL, &plan, &diag), 0,
               "%s", diag.what);
  cr_assert_eq(nabla_plan_write(plan, &to_packed, NULL, &summary, &diag), 0,
               "%s", diag.what);
  cr_assert_eq(summary.changed, 1, "%s", options->encoding->name);
  nabla_plan_destroy(plan);
  nabla_checkpoint_close(checkpoint);
  checkpoint = model_open(packed);
  cr_assert_eq(
      nabla_dequantize(checkpoint, &decoded, &to_back, NULL, &summary, &diag),
      0, "%s", diag.what);
  nabla_checkpoint_close(checkpoint);
}

static void expect_like_dequantize(const nabla_quantize_options *options) {
  enum { N = 48, K = 80 };
  static float out[N * K];
  static const model_tensor tensor = {
      "w.weight", NABLA_DTYPE_BF16, 2, {N, K}, NULL};
  char from[256], packed[256], back[256];
  temp_folder_path(&folder, "from.safetensors", from);
  temp_folder_path(&folder, "packed.safetensors", packed);
  temp_folder_path(&folder, "back.safetensors", back);
  model_write(from, &tensor, 1);
  pack(from, options, packed, back);
  nabla_checkpoint *decoded = model_open(back);
  float *values = model_bytes(decoded, "w.weight", NULL);
  nabla_model *model = NULL;
  nabla_weight weight;
  cr_assert_eq(nabla_model_open(packed, NULL, &model, &diag), 0);
  cr_assert_eq(nabla_model_find(model, "w.weight", &weight, &diag), 0);
  cr_expect_eq(nabla_weight_check(&weight.desc, &diag), NABLA_OK, "%s",
               diag.what);
  for (uint64_t i = 0; i < N; i++)
    cr_assert_eq(nabla_weight_read(&weight.desc, i, 1, out + i * K, &diag), 0);
  cr_expect(!memcmp(out, values, sizeof out), "%s", options->encoding->name);
  nabla_model_close(model);
  free(values);
  nabla_checkpoint_close(decoded);
}

Test(weight, rows_are_those_of_dequantize) {
  size_t count;
  const nabla_encoding *rows = nabla_encodings(&count);
  temp_folder_create(&folder);
  for (size_t i = 0; i < count; i++)
    expect_like_dequantize(&(nabla_quantize_options){
        .struct_size = sizeof(nabla_quantize_options), .encoding = &rows[i]});
  expect_like_dequantize(&(nabla_quantize_options){
      .struct_size = sizeof(nabla_quantize_options),
      .encoding = nabla_encoding_find("nf4"),
      .settings = {.scale = NABLA_SCALE_DYNAMIC8, .has_scale = 1}});
  model_remove_tree(folder.path);
}

/* ---- components
 * ---------------------------------------------------------------- */

Test(weight, components_are_listed) {
  static const char *const names[] = {"codes",         "scales.codes",
                                      "scales.scales", "scales.offset",
                                      "scales.map",    "zero_points"};
  static const uint64_t bytes[] = {630, 10, 4, 4, 1024, 10};
  nabla_weight_desc w = {
      .rank = 2,
      .shape = {9, 70},
      .layout = {.kind = NABLA_STORAGE_PLANES,
                 .format = {.encoding = nabla_encoding_find("int8"),
                            .block = 64,
                            .scale = NABLA_SCALE_DYNAMIC8,
                            .zero_point = 1},
                 .nested_block = 256}};
  nabla_weight_component parts[NABLA_WEIGHT_MAX_COMPONENTS];
  uint32_t count = 0;
  cr_assert_eq(nabla_weight_components(&w, parts, &count, &diag), NABLA_OK);
  cr_assert_eq(count, COUNT(names));
  for (uint32_t i = 0; i < count; i++) {
    cr_expect_str_eq(parts[i].name, names[i]);
    cr_expect_eq(parts[i].bytes, bytes[i], "%s", names[i]);
    cr_expect_null(parts[i].data);
  }
  w.layout = (nabla_storage){.kind = NABLA_STORAGE_BLOCKS,
                             .ggml = nabla_ggml_find("q8_0")};
  w.shape[1] = 64;
  cr_assert_eq(nabla_weight_components(&w, parts, &count, &diag), NABLA_OK);
  cr_expect_eq(count, 1);
  cr_expect_str_eq(parts[0].name, "blocks");
  cr_expect_eq(parts[0].bytes, 9 * 2 * 34);
  w.layout = (nabla_storage){.kind = NABLA_STORAGE_DENSE};
  w.dtype = NABLA_DTYPE_F16;
  cr_assert_eq(nabla_weight_components(&w, parts, &count, &diag), NABLA_OK);
  cr_expect_str_eq(parts[0].name, "values");
  cr_expect_eq(parts[0].bytes, 9 * 64 * 2);
}

/* ---- refusals
 * -------------------------------------------------------------------- */

static void expect_refused(const nabla_weight_desc *w, nabla_status wanted,
                           const char *text) {
  float out[1024] = {77};
  diag = (nabla_diag)NABLA_DIAG_INIT;
  cr_expect_eq(nabla_weight_read(w, 0, 1, out, &diag), wanted, "%s: %s", text,
               diag.what);
  cr_expect(strstr(diag.what, text), "'%s' is not in '%s'", text, diag.what);
  cr_expect_str_eq(diag.tensor, "emb");
  cr_expect_eq(out[0], 77, "written by a failure");
}

static product nf4(void) {
  const product_shape shape = {
      .format = {.encoding = nabla_encoding_find("nf4"), .block = 64},
      .n = 9,
      .k = 70};
  product p = product_create(&shape);
  p.weight.name = "emb";
  return p;
}

Test(weight, contradictions_are_refused) {
  product p = nf4();
  nabla_weight_desc w;
  PRODUCT_REFUSED(w.components[0].bytes--, INVALID_ARGUMENT,
                  "the codes have 314 bytes, and the shape needs 315");
  PRODUCT_REFUSED(w.components[1].data = NULL, INVALID_ARGUMENT,
                  "scales have 0 bytes");
  PRODUCT_REFUSED(w.components[1].data = (const char *)w.components[1].data - 1,
                  INVALID_ARGUMENT, "the scales are not aligned to 4 bytes");
  PRODUCT_REFUSED(w.components[0].name = "scales", INVALID_ARGUMENT,
                  "'scales' in the place of 'codes'");
  PRODUCT_REFUSED(w.components[1].dtype = NABLA_DTYPE_F16, INVALID_ARGUMENT,
                  "the scales are F16, and the layout needs F32");
  PRODUCT_REFUSED(w.components[1].dtype = (nabla_dtype)99, INVALID_ARGUMENT,
                  "unknown dtype");
  PRODUCT_REFUSED(w.component_count = 7, INVALID_ARGUMENT, "its layout has 2");
  PRODUCT_REFUSED(w.rank = 33, INVALID_ARGUMENT, "rank 33; the most is 32");
  PRODUCT_REFUSED(w.shape[0] = 10, INVALID_ARGUMENT, "the shape needs 350");
  PRODUCT_REFUSED(w.shape[0] = UINT64_MAX, TOO_LARGE, "larger than any memory");
  PRODUCT_REFUSED((w.shape[0] = 1ull << 32, w.shape[1] = 1ull << 32), TOO_LARGE,
                  "larger than any memory");
  PRODUCT_REFUSED(
      (w.rank = 3, w.shape[1] = 1ull << 40, w.shape[2] = 1ull << 40), TOO_LARGE,
      "larger than any memory");
  PRODUCT_REFUSED(w.layout.kind = NABLA_STORAGE_DENSE, INVALID_ARGUMENT,
                  "does not go with nf4");
  PRODUCT_REFUSED(w.layout.kind = NABLA_STORAGE_BLOCKS, INVALID_ARGUMENT,
                  "does not go with nf4");
  PRODUCT_REFUSED(w.layout.kind = (nabla_storage_kind)9, INVALID_ARGUMENT,
                  "kind");
  PRODUCT_REFUSED(w.layout.ggml = nabla_ggml_find("q4_0"), INVALID_ARGUMENT,
                  "codes of nf4 or blocks of q4_0, not both");
  PRODUCT_REFUSED(w.layout.format.encoding = NULL, INVALID_ARGUMENT,
                  "no encoding");
  PRODUCT_REFUSED(w.layout.format.block = 63, INVALID_ARGUMENT, "block");
  PRODUCT_REFUSED(w.layout.format.scale = NABLA_SCALE_DYNAMIC8,
                  INVALID_ARGUMENT, "by groups of");
  PRODUCT_REFUSED((w.layout = (nabla_storage){.kind = NABLA_STORAGE_BLOCKS}),
                  INVALID_ARGUMENT, "no block format");
  PRODUCT_REFUSED((w.layout = (nabla_storage){.kind = NABLA_STORAGE_BLOCKS,
                                              .ggml = nabla_ggml_find("q4_0")}),
                  INVALID_ARGUMENT, "whole number of blocks of q4_0");
  PRODUCT_REFUSED((w.layout = (nabla_storage){.kind = NABLA_STORAGE_DENSE},
                   w.component_count = 1, w.components[0].bytes = 1u << 20,
                   w.dtype = NABLA_DTYPE_I8),
                  UNSUPPORTED, "I8 is not a type that is read by value");
  product_destroy(&p);
}

Test(weight, rows_that_are_not_there_are_refused) {
  product p = nf4();
  static const uint64_t ranges[][2] = {
      {9, 1}, {10, 0}, {0, 10}, {8, 2}, {1, UINT64_MAX}, {UINT64_MAX, 1}};
  float out[70] = {0};
  for (size_t i = 0; i < COUNT(ranges); i++) {
    cr_expect_eq(
        nabla_weight_read(&p.weight, ranges[i][0], ranges[i][1], out, &diag),
        NABLA_INVALID_ARGUMENT);
    cr_expect(strstr(diag.what, "the weight has 9"), "%s", diag.what);
  }
  cr_expect_eq(nabla_weight_read(&p.weight, 9, 0, NULL, &diag), NABLA_OK);
  cr_expect_eq(nabla_weight_read(&p.weight, 8, 1, NULL, &diag),
               NABLA_INVALID_ARGUMENT);
  product_destroy(&p);
}

Test(weight, weights_without_elements) {
  nabla_weight_desc w = {
      .rank = 2,
      .shape = {0, 64},
      .layout = {.kind = NABLA_STORAGE_BLOCKS, .ggml = nabla_ggml_find("q4_k")},
      .component_count = 1};
  cr_expect_eq(nabla_weight_read(&w, 0, 0, NULL, &diag), NABLA_OK);
  w.shape[0] = 5;
  w.shape[1] = 0;
  cr_expect_eq(nabla_weight_read(&w, 2, 3, NULL, &diag), NABLA_OK);
}

Test(weight, layouts_are_compared) {
  const nabla_storage dense = {0};
  nabla_storage a = {.kind = NABLA_STORAGE_PLANES,
                     .format = {.encoding = nabla_encoding_find("nf4"),
                                .block = 64,
                                .scale = NABLA_SCALE_DYNAMIC8},
                     .nested_block = 256},
                b = a;
  const nabla_storage q4 = {.kind = NABLA_STORAGE_BLOCKS,
                            .ggml = nabla_ggml_find("q4_0")},
                      q8 = {.kind = NABLA_STORAGE_BLOCKS,
                            .ggml = nabla_ggml_find("q8_0")};
  cr_expect(nabla_storage_equal(&dense, &dense));
  cr_expect(nabla_storage_equal(&a, &b));
  cr_expect(nabla_storage_equal(&q4, &q4));
  cr_expect_not(nabla_storage_equal(&q4, &q8));
  cr_expect_not(nabla_storage_equal(&q4, &dense));
  b.nested_block = 128;
  cr_expect_not(nabla_storage_equal(&a, &b));
  b = a;
  b.format.block = 32;
  cr_expect_not(nabla_storage_equal(&a, &b));
}
