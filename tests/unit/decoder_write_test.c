/* Programs of decoders as text, and models that no program is written for:
 * each key of config.json, each tensor, each limit, each allocation. */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nabla/decoder.h"
#include "tests/support/failing_allocator.h"
#include "tests/support/model.h"
#include "tests/support/temp_folder.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))
#define LAYER    "model.layers.0."

static const model_tensor tensors[] = {
    {"model.embed_tokens.weight", NABLA_DTYPE_BF16, 2, {5, 8}, NULL},
    {"model.norm.weight", NABLA_DTYPE_F32, 1, {8}, NULL},
    {LAYER "input_layernorm.weight", NABLA_DTYPE_F32, 1, {8}, NULL},
    {LAYER "post_attention_layernorm.weight", NABLA_DTYPE_F32, 1, {8}, NULL},
    {LAYER "self_attn.q_proj.weight", NABLA_DTYPE_F32, 2, {8, 8}, NULL},
    {LAYER "self_attn.k_proj.weight", NABLA_DTYPE_F16, 2, {4, 8}, NULL},
    {LAYER "self_attn.v_proj.weight", NABLA_DTYPE_F32, 2, {4, 8}, NULL},
    {LAYER "self_attn.o_proj.weight", NABLA_DTYPE_F32, 2, {8, 8}, NULL},
    {LAYER "mlp.gate_proj.weight", NABLA_DTYPE_F32, 2, {12, 8}, NULL},
    {LAYER "mlp.up_proj.weight", NABLA_DTYPE_F32, 2, {12, 8}, NULL},
    {LAYER "mlp.down_proj.weight", NABLA_DTYPE_F32, 2, {8, 12}, NULL},
    {"extra.weight", NABLA_DTYPE_F32, 2, {2, 2}, NULL},
};
enum { ALL = COUNT(tensors) - 1 }; /* but for the extra one */

#define BODY                                                        \
  "\"architectures\": [\"LlamaForCausalLM\"], \"hidden_size\": 8, " \
  "\"intermediate_size\": 12, \"num_hidden_layers\": 1, "           \
  "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, "        \
  "\"vocab_size\": 5, \"max_position_embeddings\": 16, "            \
  "\"tie_word_embeddings\": true"

static temp_folder folder;
static char path[256];
static nabla_diag diag;
static char text[1 << 16];
static size_t text_size;
static failing_allocator memory;

static void set_up(void) {
  temp_folder_create(&folder);
  temp_folder_path(&folder, "model.safetensors", path);
  failing_allocator_init(&memory, 0);
}

static void tear_down(void) {
  cr_expect(failing_allocator_is_clean(&memory));
  model_remove_tree(folder.path);
}

TestSuite(decoder_write, .init = set_up, .fini = tear_down);

static nabla_status append(void *self, const void *data, size_t size,
                           nabla_diag *why) {
  (void)self, (void)why;
  cr_assert(size < sizeof text - text_size);
  memcpy(text + text_size, data, size);
  text_size += size;
  text[text_size] = '\0';
  return NABLA_OK;
}

static nabla_status refuse(void *self, const void *data, size_t size,
                           nabla_diag *why) {
  (void)self, (void)data, (void)size;
  return nabla_fail(why, NABLA_IO, "full");
}

static void write_config(const char *body) {
  char config[4096];
  const int size = snprintf(config, sizeof config, "{%s}", body);
  temp_folder_write(&folder, "config.json", config, (size_t)size);
}

static nabla_status write_with(const nabla_decoder_options *options,
                               const nabla_environment *environment,
                               nabla_status (*to)(void *, const void *, size_t,
                                                  nabla_diag *)) {
  const nabla_sink sink = {to, NULL};
  nabla_model *model;
  diag = (nabla_diag)NABLA_DIAG_INIT;
  cr_assert_eq(nabla_model_open(path, NULL, &model, &diag), 0, "%s", diag.what);
  text_size = 0;
  const nabla_status status =
      nabla_decoder_write(model, options, environment, &sink, NULL, &diag);
  nabla_model_close(model);
  return status;
}

static nabla_status write(void) { return write_with(NULL, NULL, append); }

/* ---- what is written ----------------------------------------------------- */

static void expect_text(const char *part) {
  cr_expect(strstr(text, part), "no '%s' in\n%s", part, text);
}

Test(decoder_write, types_and_names_are_those_of_the_tensors) {
  model_write(path, tensors, ALL);
  write_config(BODY);
  cr_assert_eq(write(), NABLA_OK, "%s %s", diag.tensor, diag.what);
  expect_text("!w0 = tensor<5x8xbf16>\n");
  expect_text("!w4 = tensor<4x8xf16>\n");
  expect_text(
      "func.func @decode(%tokens: tensor<1xi64> {nabla.name = "
      "\"token\"}");
  expect_text(
      "func.func @prefill(%tokens: tensor<?xi64> {nabla.name = "
      "\"tokens\"}");
  expect_text("nabla.name = \"model.layers.0.mlp.down_proj.weight\"");
  expect_text(
      "tensor<2x16x2xf32> {nabla.name = \"cache.0.k\", nabla.state = "
      "\"cache.0.k\"}");
  expect_text("theta = 1.0000000000000000");
  cr_expect_null(strstr(text, "lm_head"));
}

Test(decoder_write, weights_of_the_caller_replace_those_of_the_model) {
  model_write(path, tensors, ALL);
  write_config(BODY);
  nabla_weight_desc weight = {
      .name = LAYER "mlp.gate_proj.weight",
      .rank = 2,
      .shape = {12, 8},
      .layout = {.kind = NABLA_STORAGE_PLANES,
                 .format = {.encoding = nabla_encoding_find("nf4"),
                            .block = 32,
                            .scale = NABLA_SCALE_F16}}};
  const nabla_decoder_options options = {.struct_size = sizeof options,
                                         .context = 7,
                                         .cache = NABLA_DTYPE_BF16,
                                         .weights = &weight,
                                         .weight_count = 1};
  cr_assert_eq(write_with(&options, NULL, append), NABLA_OK, "%s", diag.what);
  expect_text(
      "!nabla.implicit<12x8xf32, #nabla.nf4<block = 32, scale = f16>>\n");
  expect_text(
      "tensor<2x7x2xbf16> {nabla.name = \"cache.0.v\", nabla.state = "
      "\"cache.0.v\"}");
  weight.shape[0] = 13;
  cr_expect_eq(write_with(&options, NULL, append), NABLA_CORRUPT);
  cr_expect_str_eq(diag.what, "its shape is [13,8], config.json says [12,8]");
}

/* ---- what is refused ----------------------------------------------------- */

static const struct refusal {
  const char *body;
  nabla_status status;
  const char *what;
} refusals[] = {
    {BODY ", \"rope_scaling\": {\"factor\": 2}", NABLA_UNSUPPORTED,
     "its rope_scaling means scaled positions"},
    {BODY ", \"rope_parameters\": {\"rope_type\": \"llama3\"}",
     NABLA_UNSUPPORTED, "its rope_type means scaled positions"},
    {BODY ", \"num_local_experts\": 8", NABLA_UNSUPPORTED, "means experts"},
    {BODY ", \"sliding_window\": 4096", NABLA_UNSUPPORTED,
     "means a sliding window"},
    {BODY ", \"attention_bias\": true", NABLA_UNSUPPORTED,
     "means biases of attention"},
    {BODY ", \"hidden_act\": \"gelu\"", NABLA_UNSUPPORTED,
     "means another activation"},
    {BODY ", \"hidden_sizes\": 3", NABLA_UNSUPPORTED,
     "its key 'hidden_sizes' is not known"},
    {BODY ", \"architectures\": [\"MixtralForCausalLM\"]", NABLA_UNSUPPORTED,
     "'MixtralForCausalLM', for which no program is written"},
    {BODY ", \"architectures\": []", NABLA_UNSUPPORTED, "is not said"},
    {BODY ", \"hidden_size\": 0", NABLA_CORRUPT, "not a positive integer"},
    {BODY ", \"hidden_size\": -8", NABLA_CORRUPT, "hidden_size"},
    {BODY ", \"hidden_size\": 99999999999", NABLA_TOO_LARGE, "hidden_size"},
    {BODY ", \"rms_norm_eps\": \"x\"", NABLA_CORRUPT, "not a number"},
    {BODY ", \"num_key_value_heads\": 3", NABLA_CORRUPT, "no multiple"},
    {BODY ", \"head_dim\": 3", NABLA_CORRUPT, "head_dim is odd"},
    {BODY ", \"num_hidden_layers\": 513", NABLA_TOO_LARGE, "at most 512"},
    {BODY ", \"num_hidden_layers\": 2", NABLA_CORRUPT, "no such tensor"},
    {BODY ", \"vocab_size\": 6", NABLA_CORRUPT,
     "its shape is [5,8], config.json says [6,8]"},
    {BODY ", \"tie_word_embeddings\": false", NABLA_CORRUPT, "no such tensor"},
    {BODY ", ", NABLA_CORRUPT, ""},
    {"\"architectures\": [\"LlamaForCausalLM\"]", NABLA_CORRUPT,
     "it has no hidden_size"},
};

ParameterizedTestParameters(decoder_write, refused) {
  static size_t numbers[COUNT(refusals)];
  for (size_t i = 0; i < COUNT(refusals); i++) numbers[i] = i;
  return cr_make_param_array(size_t, numbers, COUNT(refusals));
}
ParameterizedTest(size_t *number, decoder_write, refused) {
  const struct refusal *r = &refusals[*number];
  model_write(path, tensors, ALL);
  write_config(r->body);
  cr_expect_eq(write(), r->status, "%s: %s", r->body, diag.what);
  cr_expect(strstr(diag.what, r->what), "'%s', not '%s'", diag.what, r->what);
}

Test(decoder_write, a_tensor_without_a_place_is_refused) {
  model_write(path, tensors, COUNT(tensors));
  write_config(BODY);
  cr_expect_eq(write(), NABLA_UNSUPPORTED);
  cr_expect_str_eq(diag.tensor, "extra.weight");
}

Test(decoder_write, no_config) {
  model_write(path, tensors, ALL);
  cr_expect_eq(write(), NABLA_IO);
  cr_expect(strstr(diag.file, "config.json"), "%s", diag.file);
}

Test(decoder_write, options_are_checked) {
  model_write(path, tensors, ALL);
  write_config(BODY);
  nabla_decoder_options options = {.struct_size = sizeof options,
                                   .cache = NABLA_DTYPE_I64};
  cr_expect_eq(write_with(&options, NULL, append), NABLA_INVALID_ARGUMENT);
  options.cache = NABLA_DTYPE_F32;
  options.context = NABLA_DECODER_MAX_CONTEXT + 1;
  cr_expect_eq(write_with(&options, NULL, append), NABLA_TOO_LARGE);
  options.context = 1;
  options.logits = (nabla_decoder_logits)2;
  cr_expect_eq(write_with(&options, NULL, append), NABLA_INVALID_ARGUMENT);
  options.logits = NABLA_LOGITS_ALL;
  cr_expect_eq(write_with(&options, NULL, append), NABLA_OK);
  options.struct_size--;
  cr_expect_eq(write_with(&options, NULL, append), NABLA_INVALID_ARGUMENT);
}

Test(decoder_write, a_sink_that_fails_ends_it) {
  model_write(path, tensors, ALL);
  write_config(BODY);
  cr_expect_eq(write_with(NULL, NULL, refuse), NABLA_IO);
  cr_expect_str_eq(diag.what, "full");
}

Test(decoder_write, every_allocation_may_fail) {
  model_write(path, tensors, ALL);
  write_config(BODY);
  uint64_t failures = 0;
  nabla_status status = NABLA_NO_MEMORY;
  while (status == NABLA_NO_MEMORY && failures < 100) {
    failing_allocator_init(&memory, ++failures);
    const nabla_environment environment = {.allocator = &memory.allocator};
    status = write_with(NULL, &environment, append);
    cr_expect(failing_allocator_is_clean(&memory));
  }
  cr_expect_eq(status, NABLA_OK, "%s", diag.what);
  cr_expect_gt(failures, 3);
}
