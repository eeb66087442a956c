/* What engines take beside runs: packing in memory, the same bytes as in a
 * file; binding packed weights; the choice of the next token. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "nabla/decoder.h"
#include "nabla/ggml.h"
#include "tests/support/failing_allocator.h"
#include "tests/support/model.h"
#include "tests/support/temp_folder.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

static temp_folder folder;
static char path[256], packed_path[256];
static nabla_diag diag;
static nabla_model *model;

static const model_tensor tensors[] = {
    {"long.weight", NABLA_DTYPE_F32, 2, {7, 70016}, NULL}, /* a row, a part */
    {"odd.weight", NABLA_DTYPE_BF16, 2, {4128, 50}, NULL}, /* rows cut blocks */
    {"even.weight", NABLA_DTYPE_F16, 2, {1200, 128}, NULL},
    {"norm.weight", NABLA_DTYPE_F32, 1, {128}, NULL},
    {"ids", NABLA_DTYPE_I64, 2, {4, 64}, NULL},
};

static void set_up(void) {
  temp_folder_create(&folder);
  temp_folder_path(&folder, "dense.safetensors", path);
  temp_folder_path(&folder, "packed.safetensors", packed_path);
  model_write(path, tensors, COUNT(tensors));
  diag = (nabla_diag)NABLA_DIAG_INIT;
  cr_assert_eq(nabla_model_open(path, NULL, &model, &diag), 0);
}

static void tear_down(void) {
  nabla_model_close(model);
  model_remove_tree(folder.path);
}

TestSuite(pack, .init = set_up, .fini = tear_down);

/* ---- packing ------------------------------------------------------------- */

static nabla_packed_model *packed_as(const char *how, nabla_pool *pool) {
  const nabla_environment environment = {.pool = pool};
  nabla_packed_model *out = NULL;
  cr_assert_eq(nabla_model_pack(model, how, &environment, &out, &diag), 0,
               "%s: %s %s", how, diag.tensor, diag.what);
  return out;
}

static void expect_same(const nabla_weight_desc *have,
                        const nabla_weight_desc *want) {
  cr_assert_eq(have->component_count, want->component_count);
  cr_expect(nabla_storage_equal(&have->layout, &want->layout));
  for (uint32_t i = 0; i < want->component_count; i++) {
    cr_assert_eq(have->components[i].bytes, want->components[i].bytes);
    cr_expect_eq(memcmp(have->components[i].data, want->components[i].data,
                        want->components[i].bytes),
                 0, "%s, component %u", have->name, i);
  }
}

/* The bytes that the quantizer writes to a file, for 1 and 3 threads. */
static void expect_quantized(const char *how,
                             const nabla_quantize_options *options) {
  nabla_model *file = NULL;
  nabla_pool *pools[2] = {NULL, NULL};
  model_quantize(path, packed_path, options);
  cr_assert_eq(nabla_model_open(packed_path, NULL, &file, &diag), 0);
  cr_assert_eq(nabla_pool_create(3, NULL, &pools[1], &diag), 0);
  for (int i = 0; i < 2; i++) {
    size_t count = 0;
    nabla_packed_model *packed = packed_as(how, pools[i]);
    const nabla_weight_desc *weights =
        nabla_packed_model_weights(packed, &count);
    cr_expect_eq(count, 3);
    for (size_t j = 0; j < count; j++) {
      nabla_weight weight;
      cr_assert_eq(nabla_model_find(file, weights[j].name, &weight, &diag), 0);
      expect_same(&weights[j], &weight.desc);
    }
    nabla_packed_model_close(packed);
  }
  nabla_pool_destroy(pools[1]);
  nabla_model_close(file);
}

Test(pack, planes_have_the_bytes_that_the_quantizer_writes) {
  nabla_quantize_options options = {.struct_size = sizeof options,
                                    .layout = NABLA_CHOOSE_NABLA,
                                    .encoding = nabla_encoding_find("nf4")};
  expect_quantized("nf4", &options);
  options.settings = (nabla_settings){
      .block = 32, .has_scale = 1, .scale = NABLA_SCALE_F16, .search = 1};
  expect_quantized("nf4:32:f16:search", &options);
  options.settings = (nabla_settings){0};
  options.encoding = nabla_encoding_find("mxfp4");
  expect_quantized("mxfp4", &options);
}

Test(pack, blocks_have_the_bytes_of_the_whole_matrix) {
  const model_tensor rows[] = {{"a", NABLA_DTYPE_F32, 2, {2500, 96}, NULL},
                               {"b", NABLA_DTYPE_F16, 2, {3, 128}, NULL}};
  const nabla_ggml *format = nabla_ggml_find("q4_0");
  static float values[2500 * 96];
  static uint8_t want[2500 * 96];
  nabla_model_close(model);
  model_write(path, rows, COUNT(rows));
  cr_assert_eq(nabla_model_open(path, NULL, &model, &diag), 0);
  size_t count = 0;
  nabla_packed_model *packed = packed_as("q4_0", NULL);
  const nabla_weight_desc *weights = nabla_packed_model_weights(packed, &count);
  cr_assert_eq(count, 2);
  for (size_t i = 0; i < count; i++) {
    nabla_weight weight;
    const size_t n = weights[i].shape[0] * weights[i].shape[1];
    cr_assert_eq(nabla_model_find(model, weights[i].name, &weight, &diag), 0);
    cr_assert_eq(
        nabla_weight_read(&weight.desc, 0, weights[i].shape[0], values, &diag),
        0);
    cr_assert_eq(nabla_ggml_encode(format, NABLA_DTYPE_F32, values,
                                   n / format->elements, want, NULL, &diag),
                 0);
    cr_expect_eq(memcmp(weights[i].components[0].data, want,
                        weights[i].components[0].bytes),
                 0);
  }
  nabla_packed_model_close(packed);
}

Test(pack, what_is_not_understood_is_refused) {
  static const char *const bad[] = {
      "",       "nf5",     "nf4:",   "nf4:0",    "nf4:f32",        "nf4:32x",
      "nf4:-1", "q4_0:32", "nf4:48", "nf4::f16", "nf4:99999999999"};
  nabla_packed_model *packed = NULL;
  for (size_t i = 0; i < COUNT(bad); i++)
    cr_expect_eq(nabla_model_pack(model, bad[i], NULL, &packed, &diag),
                 NABLA_INVALID_ARGUMENT, "%s", bad[i]);
  cr_expect_null(packed);
  nabla_packed_model_close(NULL);
}

Test(pack, values_that_are_not_finite_are_refused_by_name) {
  static float values[8 * 64];
  const model_tensor rows[] = {{"w", NABLA_DTYPE_F32, 2, {8, 64}, values}};
  nabla_packed_model *packed = NULL;
  values[77] = NAN;
  nabla_model_close(model);
  model_write(path, rows, 1);
  cr_assert_eq(nabla_model_open(path, NULL, &model, &diag), 0);
  cr_expect_eq(nabla_model_pack(model, "nf4", NULL, &packed, &diag),
               NABLA_NOT_FINITE);
  cr_expect_str_eq(diag.tensor, "w");
}

Test(pack, failing_allocations_leave_nothing) {
  size_t failures = 1;
  for (size_t i = 1; failures; i++) {
    failing_allocator memory;
    failing_allocator_init(&memory, i);
    const nabla_environment environment = {.allocator = &memory.allocator};
    nabla_packed_model *packed = NULL;
    const nabla_status status =
        nabla_model_pack(model, "int8", &environment, &packed, &diag);
    failures = memory.failures;
    cr_expect_eq(status, failures ? NABLA_NO_MEMORY : NABLA_OK);
    nabla_packed_model_close(packed);
    cr_expect(failing_allocator_is_clean(&memory));
  }
}

/* ---- the next token ------------------------------------------------------ */

enum { WORDS = 50 };
#define DRAWS 20000

static nabla_status choose(const float *logits, double temperature,
                           double top_p, uint64_t *random, int64_t *out) {
  const nabla_sampling how = {sizeof how, temperature, top_p};
  uint32_t order[WORDS];
  return nabla_decoder_sample(logits, WORDS, &how, random, order, out, &diag);
}

static void fill(float logits[WORDS]) {
  for (int i = 0; i < WORDS; i++)
    logits[i] = (float)((i * 37 + 11) % 101) / 20 - 2;
  logits[3] = logits[9] = 4; /* two of the likeliest */
  logits[7] = -INFINITY;
}

/* A plain choice: sorted by insertion, cut, summed. */
static void probabilities(const float *logits, double temperature, double top_p,
                          double out[WORDS]) {
  int order[WORDS];
  double all = 0, kept = 0;
  for (int i = 0; i < WORDS; i++) {
    int at = i;
    for (; at > 0 && logits[order[at - 1]] < logits[i]; at--)
      order[at] = order[at - 1];
    order[at] = i;
    all += exp((double)logits[i] / temperature);
    out[i] = 0;
  }
  for (int i = 0; i < WORDS && kept < top_p * all; i++) {
    out[order[i]] = exp((double)logits[order[i]] / temperature);
    kept += out[order[i]];
  }
  for (int i = 0; i < WORDS; i++) out[i] /= kept;
}

Test(sample, tokens_come_as_often_as_their_probabilities_say) {
  static const double cases[][2] = {{1, 1}, {.7, .9}, {2, .5}, {1, .01}};
  float logits[WORDS];
  fill(logits);
  for (size_t c = 0; c < COUNT(cases); c++) {
    double want[WORDS];
    int counts[WORDS] = {0};
    uint64_t random = 1;
    probabilities(logits, cases[c][0], cases[c][1], want);
    for (int i = 0; i < DRAWS; i++) {
      int64_t id = -1;
      cr_assert_eq(choose(logits, cases[c][0], cases[c][1], &random, &id), 0);
      counts[id]++;
    }
    for (int i = 0; i < WORDS; i++) {
      /* 5 standard deviations */
      const double off = 5 * sqrt(want[i] * (1 - want[i]) / DRAWS);
      const double have = (double)counts[i] / DRAWS;
      cr_expect(fabs(have - want[i]) <= off, "case %zu, token %d: %g, not %g",
                c, i, have, want[i]);
    }
  }
}

Test(sample, zero_takes_the_first_of_the_likeliest) {
  float logits[WORDS];
  int64_t id = -1;
  fill(logits);
  cr_expect_eq(choose(logits, 0, 0, NULL, &id), 0);
  cr_expect_eq(id, 3);
  cr_expect_eq(
      nabla_decoder_sample(logits, WORDS, NULL, NULL, NULL, &id, &diag), 0);
  cr_expect_eq(id, 3);
}

Test(sample, what_no_token_can_be_drawn_from_is_refused) {
  float logits[WORDS];
  uint64_t random = 1;
  int64_t id = -7;
  fill(logits);
  cr_expect_eq(choose(logits, -1, 1, &random, &id), NABLA_INVALID_ARGUMENT);
  cr_expect_eq(choose(logits, NAN, 1, &random, &id), NABLA_INVALID_ARGUMENT);
  cr_expect_eq(choose(logits, 1, 1.5, &random, &id), NABLA_INVALID_ARGUMENT);
  cr_expect_eq(choose(logits, 1, 1, NULL, &id), NABLA_INVALID_ARGUMENT);
  logits[5] = NAN;
  cr_expect_eq(choose(logits, 0, 1, &random, &id), NABLA_INVALID_ARGUMENT);
  cr_expect(strstr(diag.what, "token 5"), "%s", diag.what);
  logits[5] = INFINITY;
  cr_expect_eq(choose(logits, 0, 1, &random, &id), NABLA_INVALID_ARGUMENT);
  for (int i = 0; i < WORDS; i++) logits[i] = -INFINITY;
  cr_expect_eq(choose(logits, 1, 1, &random, &id), NABLA_INVALID_ARGUMENT);
  cr_expect_eq(id, -7);
}

Test(sample, the_log_of_the_sum_makes_probabilities_of_logits) {
  float logits[WORDS];
  double sum = 0;
  fill(logits);
  const double log_sum = nabla_decoder_log_sum(logits, WORDS);
  for (int i = 0; i < WORDS; i++) sum += exp((double)logits[i] - log_sum);
  cr_expect_float_eq(sum, 1, 1e-12);
  for (int i = 0; i < WORDS; i++) logits[i] += 1000;
  cr_expect_float_eq(nabla_decoder_log_sum(logits, WORDS), log_sum + 1000,
                     1e-3);
  cr_expect_eq(nabla_decoder_log_sum(logits, 0), -INFINITY);
}
