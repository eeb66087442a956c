/* Verification, differences and statistics, against figures that the tests
 * work out themselves. */
#include "nabla/measure.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nabla/quantize.h"
#include "quant/tiles/tensor_reader.h"
#include "tests/support/codec_calls.h"
#include "tests/support/model.h"
#include "tests/support/temp_folder.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

enum { MAX_ROWS = 16 };

static temp_folder folder;
static char path_a[256], path_b[256];
static nabla_diag diag;
static nabla_environment environment;
static nabla_difference rows[MAX_ROWS];
static char names[MAX_ROWS][32];
static size_t row_count;
static nabla_difference_summary summary;

static void set_up(void) {
  temp_folder_create(&folder);
  temp_folder_path(&folder, "a.safetensors", path_a);
  temp_folder_path(&folder, "b.safetensors", path_b);
  diag = (nabla_diag)NABLA_DIAG_INIT;
}

static void tear_down(void) { model_remove_tree(folder.path); }

TestSuite(measure, .init = set_up, .fini = tear_down);

#define GOOD(call) cr_assert_eq((call), NABLA_OK, "%s", diag.what)

static int take_row(void *self, const nabla_difference *row) {
  cr_assert_eq(self, &row_count);
  cr_assert_lt(row_count, MAX_ROWS);
  (void)snprintf(names[row_count], sizeof names[0], "%s", row->name);
  rows[row_count] = *row;
  rows[row_count].name = names[row_count];
  row_count++;
  return 0;
}

static void compare(void) {
  nabla_checkpoint *a = model_open(path_a), *b = model_open(path_b);
  row_count = 0;
  GOOD(
      nabla_compare(a, b, &environment, take_row, &row_count, &summary, &diag));
  nabla_checkpoint_close(a);
  nabla_checkpoint_close(b);
}

static const nabla_difference *row_named(const char *name) {
  for (size_t i = 0; i < row_count; i++)
    if (!strcmp(names[i], name)) return &rows[i];
  cr_assert_fail("%s", name);
  return NULL;
}

static void quantize(const char *encoding, uint64_t block) {
  nabla_plan *plan = NULL;
  nabla_write_summary written;
  const nabla_write_options where = {
      .struct_size = sizeof where, .path = path_b, .force = 1};
  const nabla_quantize_options options = {
      .struct_size = sizeof options,
      .encoding = nabla_encoding_find(encoding),
      .settings = {.block = block}};
  nabla_checkpoint *checkpoint = model_open(path_a);
  GOOD(nabla_plan_create(checkpoint, &options, NULL, &plan, &diag));
  GOOD(nabla_plan_write(plan, &where, NULL, &written, &diag));
  nabla_plan_destroy(plan);
  nabla_checkpoint_close(checkpoint);
}

static void one_tensor(const char *path, nabla_dtype dtype, uint64_t count,
                       const void *data) {
  const model_tensor tensor = {"t.weight", dtype, 2, {1, count}, data};
  model_write(path, &tensor, 1);
}

static void expect_close(double got, double wanted, const char *what) {
  cr_expect(fabs(got - wanted) <= 1e-12 * fabs(wanted), "%s: %.17g, not %.17g",
            what, got, wanted);
}

/* ---- differences ----------------------------------------------------------
 */

Test(measure, figures_of_a_small_difference) {
  static const float a[] = {1, -2, 0, 4}, b[] = {1.5f, -2, 0.25f, 3};
  one_tensor(path_a, NABLA_DTYPE_F32, 4, a);
  one_tensor(path_b, NABLA_DTYPE_F32, 4, b);
  compare();
  const nabla_difference *row = row_named("t.weight");
  cr_expect_eq(row->elements, 4);
  cr_expect_null(row->problem);
  expect_close(row->max_abs, 1, "max_abs");
  expect_close(row->mean_abs, 1.75 / 4, "mean_abs");
  expect_close(row->mean_rel, (0.5 + 0 + 0.25) / 3, "mean_rel");
  expect_close(row->rel_rmse, sqrt((0.25 + 0.0625 + 1) / 21), "rel_rmse");
  expect_close(row->cosine,
               (1.5 + 4 + 12) / (sqrt(21) * sqrt(2.25 + 4 + 0.0625 + 9)),
               "cosine");
  cr_expect_eq(row->not_finite, 0);
  cr_expect_str_eq(row->a_stored, "F32");
  cr_expect_eq(summary.tensors, 1);
  cr_expect_eq(summary.equal, 0);
  cr_expect_eq(summary.problems, 0);
  expect_close(summary.worst_rel_rmse, row->rel_rmse, "worst");
}

/* Long sums, several tiles, in the plainest way. */
Test(measure, figures_of_a_packed_tensor) {
  const size_t count = 301 * 997;
  const model_tensor tensor = {
      "t.weight", NABLA_DTYPE_F32, 2, {301, 997}, NULL};
  model_write(path_a, &tensor, 1);
  quantize("nf4", 64);
  nabla_checkpoint *from = model_open(path_a), *to = model_open(path_b);
  const nabla_tensor packed = model_tensor_of(to, "t.weight");
  nabla_codec codec;
  GOOD(select_codec(&packed.format, NABLA_ISA_SCALAR, &codec, &diag));
  float *a = model_bytes(from, "t.weight", NULL);
  uint8_t *codes = model_bytes(to, "t.weight", NULL);
  float *scales = model_bytes(to, "t.weight.absmax", NULL);
  float *b = malloc(count * sizeof *b);
  decode_f32(&codec, codes, scales, count, b);
  nabla_checkpoint_close(from);
  nabla_checkpoint_close(to);
  long double abs_sum = 0, rel = 0, square = 0, aa = 0, bb = 0, ab = 0;
  double max = 0;
  for (size_t i = 0; i < count; i++) {
    const double d = fabs((double)a[i] - (double)b[i]);
    max = fmax(max, d);
    abs_sum += d;
    rel += d / fabs((double)a[i]);
    square += (long double)d * d;
    aa += (long double)a[i] * a[i];
    bb += (long double)b[i] * b[i];
    ab += (long double)a[i] * b[i];
  }
  for (uint32_t threads = 1; threads <= 3; threads++) {
    static nabla_difference first;
    GOOD(nabla_pool_create(threads, NULL, &environment.pool, &diag));
    compare();
    nabla_pool_destroy(environment.pool);
    environment.pool = NULL;
    const nabla_difference *row = row_named("t.weight");
    expect_close(row->max_abs, max, "max_abs");
    expect_close(row->mean_abs, (double)(abs_sum / count), "mean_abs");
    expect_close(row->mean_rel, (double)(rel / count), "mean_rel");
    expect_close(row->rel_rmse, (double)sqrtl(square / aa), "rel_rmse");
    expect_close(row->cosine, (double)(ab / sqrtl(aa * bb)), "cosine");
    cr_expect_str_eq(row->a_stored, "F32");
    cr_expect_str_eq(row->b_stored, "nf4");
    if (threads == 1) first = *row;
    cr_expect_eq(row->mean_rel, first.mean_rel, "the same for any threads");
    cr_expect_eq(row->rel_rmse, first.rel_rmse);
    cr_expect_eq(row->cosine, first.cosine);
  }
  free(a), free(b), free(codes), free(scales);
}

Test(measure, special_values_of_a_difference) {
  static const float zero[4], small[] = {0, 0, 1, 0};
  static const float bad[] = {NAN, INFINITY, 1, 2};
  static const float worse[] = {NAN, -INFINITY, NAN, 2};
  static const float minus[] = {-0.0f, 0, -0.0f, 0};
  one_tensor(path_a, NABLA_DTYPE_F32, 4, zero);
  one_tensor(path_b, NABLA_DTYPE_F32, 4, small);
  compare();
  cr_expect(isinf(rows[0].rel_rmse), "a is all zero");
  cr_expect_eq(rows[0].mean_rel, 0);
  cr_expect_eq(rows[0].cosine, 0);
  cr_expect(isinf(summary.worst_rel_rmse));
  one_tensor(path_b, NABLA_DTYPE_F32, 4, zero);
  compare();
  cr_expect_eq(rows[0].rel_rmse, 0);
  cr_expect_eq(rows[0].cosine, 1);
  cr_expect_eq(summary.equal, 1);
  one_tensor(path_b, NABLA_DTYPE_F32, 4, minus);
  compare();
  cr_expect_eq(summary.equal, 1, "-0 equals 0");
  one_tensor(path_a, NABLA_DTYPE_F32, 4, bad);
  one_tensor(path_b, NABLA_DTYPE_F32, 4, worse);
  compare();
  cr_expect_eq(rows[0].not_finite, 2, "the NaNs have the same bits");
  cr_expect_eq(rows[0].max_abs, 0);
  cr_expect_eq(summary.equal, 0);
  one_tensor(path_b, NABLA_DTYPE_F32, 4, bad);
  compare();
  cr_expect_eq(rows[0].not_finite, 0);
  cr_expect_eq(summary.equal, 1);
}

Test(measure, dtypes_of_the_same_values_are_equal) {
  static const float a[] = {1, -2, 0.5f, 4};
  uint16_t b[4];
  cr_assert_eq(nabla_from_f32(NABLA_DTYPE_BF16, a, 4, b), 0);
  one_tensor(path_a, NABLA_DTYPE_F32, 4, a);
  one_tensor(path_b, NABLA_DTYPE_BF16, 4, b);
  compare();
  cr_expect_eq(summary.equal, 1);
  cr_expect_str_eq(rows[0].b_stored, "BF16");
}

Test(measure, tensors_without_a_partner) {
  static const uint8_t bytes[] = {1, 2, 4, 5};
  static const model_tensor a[] = {{"only.a", NABLA_DTYPE_F32, 1, {3}, NULL},
                                   {"shape", NABLA_DTYPE_F32, 2, {2, 3}, NULL},
                                   {"rank", NABLA_DTYPE_F32, 1, {6}, NULL},
                                   {"dtype", NABLA_DTYPE_I32, 1, {6}, NULL},
                                   {"bytes", NABLA_DTYPE_U8, 1, {4}, NULL},
                                   {"same", NABLA_DTYPE_U8, 1, {4}, NULL},
                                   {"mixed", NABLA_DTYPE_U8, 1, {4}, NULL},
                                   {"empty", NABLA_DTYPE_F32, 1, {0}, NULL}};
  static const model_tensor b[] = {{"only.b", NABLA_DTYPE_F16, 1, {3}, NULL},
                                   {"shape", NABLA_DTYPE_F32, 2, {3, 2}, NULL},
                                   {"rank", NABLA_DTYPE_F32, 2, {1, 6}, NULL},
                                   {"dtype", NABLA_DTYPE_U32, 1, {6}, NULL},
                                   {"bytes", NABLA_DTYPE_U8, 1, {4}, bytes},
                                   {"same", NABLA_DTYPE_U8, 1, {4}, NULL},
                                   {"mixed", NABLA_DTYPE_F32, 1, {4}, NULL},
                                   {"empty", NABLA_DTYPE_F32, 1, {0}, NULL}};
  model_write(path_a, a, COUNT(a));
  model_write(path_b, b, COUNT(b));
  compare();
  cr_expect_eq(row_count, 9);
  cr_expect_str_eq(row_named("only.a")->problem, "only in A");
  cr_expect_str_eq(row_named("only.b")->problem, "only in B");
  cr_expect_str_eq(names[8], "only.b", "those of B come last");
  cr_expect_str_eq(row_named("shape")->problem, "shapes differ");
  cr_expect_str_eq(row_named("rank")->problem, "shapes differ");
  cr_expect_str_eq(row_named("dtype")->problem, "dtypes differ");
  cr_expect_str_eq(row_named("mixed")->problem, "dtypes differ");
  cr_expect_str_eq(row_named("bytes")->problem, "bytes differ");
  cr_expect_null(row_named("same")->problem);
  cr_expect_null(row_named("empty")->problem);
  cr_expect_eq(summary.tensors, 9);
  cr_expect_eq(summary.problems, 7);
  cr_expect_eq(summary.equal, 2);
}

static int stop_at_once(void *self, const nabla_difference *row) {
  (void)row;
  return ++*(int *)self;
}

Test(measure, a_row_can_stop_the_comparison) {
  int calls = 0;
  one_tensor(path_a, NABLA_DTYPE_F32, 4, NULL);
  nabla_checkpoint *a = model_open(path_a);
  summary.tensors = 77;
  cr_expect_eq(nabla_compare(a, a, NULL, stop_at_once, &calls, &summary, &diag),
               NABLA_CANCELLED);
  cr_expect_eq(calls, 1);
  cr_expect_eq(summary.tensors, 77, "outputs are untouched on failure");
  nabla_checkpoint_close(a);
}

/* ---- verification ---------------------------------------------------------
 */

static size_t problem_count;
static nabla_diag problems[8];

static void take_problem(void *self, const nabla_diag *problem) {
  cr_assert_eq(self, &problem_count);
  if (problem_count < COUNT(problems)) problems[problem_count] = *problem;
  problem_count++;
}

static nabla_status verify(const char *path, nabla_verify_summary *out) {
  diag = (nabla_diag)NABLA_DIAG_INIT;
  problem_count = 0;
  return nabla_verify(path, &environment, take_problem, &problem_count, out,
                      &diag);
}

/* Overwrites 4 bytes of a file tensor. */
static void poke(const char *path, const char *name, size_t index,
                 float value) {
  nabla_checkpoint *checkpoint = model_open(path);
  const nabla_tensor_file *file = nabla_checkpoint_borrow_shard(checkpoint, 0);
  const size_t entry = nabla_tensor_file_find(file, name, strlen(name));
  cr_assert_neq(entry, SIZE_MAX);
  const uint64_t at = nabla_tensor_file_entry(file, entry).offset + 4 * index;
  nabla_checkpoint_close(checkpoint);
  FILE *stream = fopen(path, "r+b");
  cr_assert_not_null(stream);
  cr_assert_eq(fseek(stream, (long)at, SEEK_SET), 0);
  cr_assert_eq(fwrite(&value, 4, 1, stream), 1);
  cr_assert_eq(fclose(stream), 0);
}

Test(measure, verify_reads_every_scale) {
  /* more scales than are read at once: [40, 32768] in blocks of 16 */
  static const model_tensor model[] = {
      {"a.weight", NABLA_DTYPE_F32, 2, {40, 32768}, NULL},
      {"b.weight", NABLA_DTYPE_F32, 2, {4, 64}, NULL},
      {"c.bias", NABLA_DTYPE_F32, 1, {4}, NULL}};
  nabla_verify_summary verified = {.tensors = 77};
  model_write(path_a, model, 3);
  quantize("fp4", 16);
  GOOD(verify(path_b, &verified));
  cr_expect_eq(verified.files, 1);
  cr_expect_eq(verified.tensors, 3);
  cr_expect_eq(verified.packed, 2);
  cr_expect_eq(verified.problems, 0);
  size_t size;
  free(model_slurp(path_b, &size));
  cr_expect_eq(verified.bytes, size);
  poke(path_b, "a.weight.nabla.scales", 81919, NAN);
  poke(path_b, "b.weight.nabla.scales", 3, -INFINITY);
  cr_expect_eq(verify(path_b, &verified), NABLA_NOT_FINITE);
  cr_assert_eq(problem_count, 2);
  cr_expect_eq(verified.problems, 2);
  cr_expect_str_eq(problems[0].tensor, "a.weight");
  cr_expect_str_eq(problems[0].file, path_b);
  cr_expect(strstr(problems[0].what, "scale 81919"), "%s", problems[0].what);
  cr_expect_str_eq(problems[1].tensor, "b.weight");
  cr_expect_str_eq(diag.what, problems[0].what, "the first one is returned");
  poke(path_b, "a.weight.nabla.scales", 81919, -1); /* negative is legal */
  poke(path_b, "b.weight.nabla.scales", 3, 0);
  GOOD(verify(path_b, &verified));
}

Test(measure, verify_says_what_cannot_be_decoded) {
  static const char text[] =
      "{\"version\": 3, \"encoding\": \"nf4\", \"new\": true}";
  static const model_tensor model[] = {
      {"a.weight", NABLA_DTYPE_U8, 1, {32}, NULL},
      {"a.weight.nabla.format", NABLA_DTYPE_U8, 1, {sizeof text - 1}, text},
      {"a.weight.nabla.scales", NABLA_DTYPE_F32, 1, {1}, NULL}};
  nabla_verify_summary verified;
  nabla_statistics statistics;
  model_write(path_a, model, 3);
  cr_expect_eq(verify(path_a, &verified), NABLA_UNSUPPORTED);
  cr_expect_eq(verified.packed, 1);
  cr_expect(strstr(diag.what, "version 3 is newer than this build's 2"), "%s",
            diag.what);
  nabla_checkpoint *checkpoint = model_open(path_a);
  cr_expect_eq(nabla_tensor_statistics(checkpoint, 0, NULL, &statistics, &diag),
               NABLA_UNSUPPORTED);
  /* nor can it be decoded or compared */
  nabla_write_summary written;
  const nabla_dequantize_options options = {.struct_size = sizeof options};
  const nabla_write_options where = {
      .struct_size = sizeof where, .path = path_b, .force = 0};
  cr_expect_eq(
      nabla_dequantize(checkpoint, &options, &where, NULL, &written, &diag),
      NABLA_UNSUPPORTED);
  cr_expect_str_eq(diag.tensor, "a.weight");
  cr_expect_not(model_exists(path_b));
  nabla_checkpoint_close(checkpoint);
}

Test(measure, verify_checks_the_total_of_the_index) {
  static const struct {
    const char *json;
    nabla_status status;
  } cases[] = {
      {"{\"metadata\": {\"total_size\": 16}, \"weight_map\": {\"t.weight\": "
       "\"a.safetensors\"}}",
       NABLA_OK},
      {"{\"metadata\": {\"total_size\": 17}, \"weight_map\": {\"t.weight\": "
       "\"a.safetensors\"}}",
       NABLA_CORRUPT},
      {"{\"weight_map\": {\"t.weight\": \"a.safetensors\"}}", NABLA_OK},
  };
  char index[256];
  one_tensor(path_a, NABLA_DTYPE_F32, 4, NULL);
  temp_folder_path(&folder, NABLA_INDEX_NAME, index);
  for (size_t i = 0; i < COUNT(cases); i++) {
    nabla_verify_summary verified;
    temp_folder_write(&folder, NABLA_INDEX_NAME, cases[i].json,
                      strlen(cases[i].json));
    cr_expect_eq(verify(index, &verified), cases[i].status, "%s", diag.what);
    if (cases[i].status)
      cr_expect(strstr(diag.what, "is 17, its tensors have 16"), "%s",
                diag.what);
  }
}

Test(measure, verify_reports_what_cannot_be_opened) {
  nabla_verify_summary verified;
  char missing[256];
  temp_folder_path(&folder, "missing", missing);
  cr_expect_eq(verify(missing, &verified), NABLA_IO);
  cr_expect_eq(problem_count, 1);
  temp_folder_write(&folder, "a.safetensors", "12345678{}", 10);
  cr_expect_eq(verify(path_a, &verified), NABLA_TOO_LARGE);
  cr_expect_eq(problem_count, 1);
  cr_expect_str_eq(diag.file, path_a);
}

/* ---- statistics ------------------------------------------------------------
 */

static void statistics_of(const char *path, nabla_statistics *out) {
  nabla_checkpoint *checkpoint = model_open(path);
  const size_t index = nabla_checkpoint_find(checkpoint, "t.weight", 8);
  GOOD(nabla_tensor_statistics(checkpoint, index, &environment, out, &diag));
  nabla_checkpoint_close(checkpoint);
}

Test(measure, statistics_of_values) {
  static const float values[] = {3, -1, 0, NAN, -0.0f, INFINITY, -INFINITY, 6};
  nabla_statistics s;
  one_tensor(path_a, NABLA_DTYPE_F32, 8, values);
  statistics_of(path_a, &s);
  cr_expect_eq(s.elements, 8);
  cr_expect_eq(s.zeros, 2);
  cr_expect_eq(s.nan, 1);
  cr_expect_eq(s.infinite, 2);
  cr_expect_eq(s.min, -1);
  cr_expect_eq(s.max, 6);
  cr_expect_eq(s.absmax, 6);
  expect_close(s.mean, 8.0 / 5, "mean");
  expect_close(s.std, sqrt(46.0 / 5 - 64.0 / 25), "std");
  cr_expect_eq(s.scales, 0);
  cr_expect_eq(s.codes[0], 0);
  static const float bad[] = {NAN, INFINITY};
  one_tensor(path_a, NABLA_DTYPE_F32, 2, bad);
  statistics_of(path_a, &s);
  cr_expect(s.min == 0 && s.max == 0 && s.mean == 0 && s.absmax == 0);
  one_tensor(path_a, NABLA_DTYPE_F32, 0, NULL);
  statistics_of(path_a, &s);
  cr_expect(s.elements == 0 && s.min == 0 && s.std == 0);
}

typedef struct packed_case {
  const char *encoding;
  uint64_t block;
  const char *scales;
} packed_case;

static const packed_case packed_cases[] = {
    {"nf4", 64, "t.weight.absmax"},
    {"int8", 0, "t.weight.nabla.scales"},
    {"int8", 32, "t.weight.nabla.scales"},
};

ParameterizedTestParameters(measure, statistics_of_codes) {
  static size_t indexes[COUNT(packed_cases)];
  for (size_t i = 0; i < COUNT(packed_cases); i++) indexes[i] = i;
  return cr_make_param_array(size_t, indexes, COUNT(packed_cases));
}

ParameterizedTest(size_t *index, measure, statistics_of_codes) {
  const packed_case *c = &packed_cases[*index];
  const model_tensor tensor = {
      "t.weight", NABLA_DTYPE_F32, 2, {3, 70001}, NULL};
  const size_t count = 3 * 70001;
  model_write(path_a, &tensor, 1);
  quantize(c->encoding, c->block);
  nabla_checkpoint *checkpoint = model_open(path_b);
  size_t bytes, scale_bytes;
  uint8_t *codes = model_bytes(checkpoint, "t.weight", &bytes);
  float *scales = model_bytes(checkpoint, c->scales, &scale_bytes);
  nabla_checkpoint_close(checkpoint);
  uint64_t wanted[256] = {0};
  for (size_t i = 0; i < count; i++) {
    if (bytes == count)
      wanted[codes[i]]++;
    else
      wanted[i % 2 ? codes[i / 2] & 15 : codes[i / 2] >> 4]++;
  }
  float low = scales[0], high = scales[0];
  for (size_t i = 0; i < scale_bytes / 4; i++) {
    low = fminf(low, scales[i]);
    high = fmaxf(high, scales[i]);
  }
  for (uint32_t threads = 1; threads <= 4; threads += 3) {
    nabla_statistics s;
    GOOD(nabla_pool_create(threads, NULL, &environment.pool, &diag));
    statistics_of(path_b, &s);
    nabla_pool_destroy(environment.pool);
    environment.pool = NULL;
    cr_expect_eq(s.elements, count);
    cr_expect_eq(s.scales, scale_bytes / 4);
    cr_expect_eq(s.scale_min, (double)low);
    cr_expect_eq(s.scale_max, (double)high);
    cr_expect_arr_eq(s.codes, wanted, sizeof wanted);
  }
  free(codes), free(scales);
}

/* Values can be read from anywhere, also inside a block or a row. */
ParameterizedTestParameters(measure, values_from_anywhere) {
  static size_t indexes[COUNT(packed_cases)];
  for (size_t i = 0; i < COUNT(packed_cases); i++) indexes[i] = i;
  return cr_make_param_array(size_t, indexes, COUNT(packed_cases));
}

ParameterizedTest(size_t *index, measure, values_from_anywhere) {
  static const struct {
    uint64_t first, count;
  } ranges[] = {{0, 3003}, {1, 1}, {37, 100}, {63, 2}, {1000, 2003}, {3002, 1}};
  const model_tensor tensor = {"t.weight", NABLA_DTYPE_F32, 2, {3, 1001}, NULL};
  nabla_values values;
  nabla_scratch whole, part;
  model_write(path_a, &tensor, 1);
  quantize(packed_cases[*index].encoding, packed_cases[*index].block);
  nabla_checkpoint *checkpoint = model_open(path_b);
  const size_t at = nabla_checkpoint_find(checkpoint, "t.weight", 8);
  GOOD(nabla_values_open(checkpoint, at, NABLA_ISA_BEST, &values, &diag));
  GOOD(nabla_scratch_create(NULL, 4096, &whole, &diag));
  GOOD(nabla_scratch_create(NULL, 4096, &part, &diag));
  GOOD(nabla_values_read(&values, 0, 3003, &whole, NULL, &diag));
  for (size_t i = 0; i < COUNT(ranges); i++) {
    GOOD(nabla_values_read(&values, ranges[i].first, ranges[i].count, &part,
                           NULL, &diag));
    cr_expect_arr_eq(part.values, whole.values + ranges[i].first,
                     ranges[i].count * sizeof(float), "range %zu", i);
  }
  nabla_scratch_destroy(NULL, &whole);
  nabla_scratch_destroy(NULL, &part);
  nabla_checkpoint_close(checkpoint);
}

Test(measure, statistics_need_values) {
  nabla_statistics s;
  one_tensor(path_a, NABLA_DTYPE_I32, 4, NULL);
  nabla_checkpoint *checkpoint = model_open(path_a);
  cr_expect_eq(nabla_tensor_statistics(checkpoint, 0, NULL, &s, &diag),
               NABLA_UNSUPPORTED);
  cr_expect_str_eq(diag.tensor, "t.weight");
  nabla_checkpoint_close(checkpoint);
}

/* F64 values that f32 would round to the same, or to infinity. */
Test(measure, f64_is_looked_at_as_f64) {
  static const double first[] = {1.0, 1e300}, second[] = {1.0 + 1e-12, 2e300};
  const model_tensor a = {"x", NABLA_DTYPE_F64, 1, {2}, first};
  const model_tensor b = {"x", NABLA_DTYPE_F64, 1, {2}, second};
  nabla_statistics seen;
  model_write(path_a, &a, 1);
  model_write(path_b, &b, 1);
  compare();
  cr_expect_eq(summary.equal, 0);
  cr_expect_eq(rows[0].max_abs, 1e300);
  cr_expect(isinf(rows[0].rel_rmse), "the squares overflow: %g",
            rows[0].rel_rmse);
  nabla_checkpoint *checkpoint = model_open(path_a);
  GOOD(nabla_tensor_statistics(checkpoint, 0, NULL, &seen, &diag));
  cr_expect_eq(seen.infinite, 0);
  cr_expect_eq(seen.max, 1e300);
  nabla_checkpoint_close(checkpoint);
}

/* E[x^2] - mean^2 would leave a rest. */
Test(measure, a_constant_has_no_spread) {
  static float values[1000];
  nabla_statistics seen;
  for (size_t i = 0; i < COUNT(values); i++) values[i] = 0.1f;
  const model_tensor tensor = {"x", NABLA_DTYPE_F32, 1, {1000}, values};
  model_write(path_a, &tensor, 1);
  nabla_checkpoint *checkpoint = model_open(path_a);
  GOOD(nabla_tensor_statistics(checkpoint, 0, NULL, &seen, &diag));
  cr_expect_lt(seen.std, 1e-15);
  nabla_checkpoint_close(checkpoint);
}
