/* Programs of nabla_decoder_write, compiled and run: equal to a plain forward
 * pass token by token and in pieces, from dense and packed weights; the text
 * that stories260K is known by. */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nabla/compiler.h"
#include "nabla/quantize.h"
#include "nabla/session.h"
#include "tests/support/llama_reference.h"
#include "tests/support/model.h"
#include "tests/support/temp_folder.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))
enum { HIDDEN = 48, INNER = 80, HEADS = 6, SHARED = 2, SIZE = 8, WORDS = 61 };

static nabla_diag diag;
static nabla_compiler *compiler;
static temp_folder folder;
static nabla_model *model;
static nabla_executable *executable;
static nabla_decoder_shape shape;
static nabla_session *session;

static void set_up(void) {
  const nabla_compiler_options options = {.struct_size = sizeof options,
                                          .cache = ""};
  diag = (nabla_diag)NABLA_DIAG_INIT;
  cr_assert_eq(nabla_compiler_create(&options, NULL, &compiler, &diag), 0);
  temp_folder_create(&folder);
}

static void tear_down(void) {
  nabla_session_close(session);
  nabla_executable_close(executable);
  nabla_model_close(model);
  nabla_compiler_destroy(compiler);
  model_remove_tree(folder.path);
}

TestSuite(decoder, .init = set_up, .fini = tear_down, .timeout = 300);

/* ---- a model ------------------------------------------------------------- */

static const char config[] =
    "{\"architectures\": [\"LlamaForCausalLM\"], \"model_type\": \"llama\",\n"
    " \"hidden_size\": 48, \"intermediate_size\": 80, \"vocab_size\": 61,\n"
    " \"num_hidden_layers\": 2, \"num_attention_heads\": 6, \"head_dim\": 8,\n"
    " \"num_key_value_heads\": 2, \"max_position_embeddings\": 96,\n"
    " \"rope_theta\": 5000.0, \"rms_norm_eps\": 1e-05, \"hidden_act\": "
    "\"silu\", \"rope_scaling\": null, \"tie_word_embeddings\": %s}\n";

static void write_config(int is_tied) {
  char text[1024];
  const int size =
      snprintf(text, sizeof text, config, is_tied ? "true" : "false");
  temp_folder_write(&folder, "config.json", text, (size_t)size);
}

static const struct {
  const char *name;
  uint64_t rows, columns;
} parts[] = {
    {"input_layernorm", HIDDEN, 0},
    {"post_attention_layernorm", HIDDEN, 0},
    {"self_attn.q_proj", HEADS * SIZE, HIDDEN},
    {"self_attn.k_proj", SHARED * SIZE, HIDDEN},
    {"self_attn.v_proj", SHARED * SIZE, HIDDEN},
    {"self_attn.o_proj", HIDDEN, HEADS * SIZE},
    {"mlp.gate_proj", INNER, HIDDEN},
    {"mlp.up_proj", INNER, HIDDEN},
    {"mlp.down_proj", HIDDEN, INNER},
};

/* Three times the weights that tests have: logits far apart. */
static void *values_of(uint64_t count, nabla_dtype dtype, int is_norm,
                       uint64_t seed) {
  float *values = malloc(count * sizeof *values);
  void *out = malloc(count * sizeof *values);
  cr_assert(values && out);
  model_fill(values, count, seed);
  for (uint64_t i = 0; i < count; i++)
    values[i] = is_norm ? 1 + values[i] : 3 * values[i];
  (void)nabla_from_f32(dtype, values, count, out);
  free(values);
  return out;
}

static void write_model(nabla_dtype dtype, int is_tied, char path[256]) {
  static char names[32][64];
  model_tensor tensors[32] = {0};
  size_t count = 0;
  for (int layer = 0; layer < 2; layer++)
    for (size_t i = 0; i < COUNT(parts); i++, count++) {
      (void)snprintf(names[count], sizeof names[count],
                     "model.layers.%d.%s.weight", layer, parts[i].name);
      tensors[count] =
          (model_tensor){.name = names[count],
                         .rank = parts[i].columns ? 2 : 1,
                         .shape = {parts[i].rows, parts[i].columns}};
    }
  tensors[count++] =
      (model_tensor){"model.embed_tokens.weight", 0, 2, {WORDS, HIDDEN}, NULL};
  tensors[count++] = (model_tensor){"model.norm.weight", 0, 1, {HIDDEN}, NULL};
  if (!is_tied)
    tensors[count++] =
        (model_tensor){"lm_head.weight", 0, 2, {WORDS, HIDDEN}, NULL};
  for (size_t i = 0; i < count; i++) {
    model_tensor *t = &tensors[i];
    t->dtype = dtype;
    t->data = values_of(t->shape[0] * (t->rank > 1 ? t->shape[1] : 1), dtype,
                        t->rank == 1, i + 1);
  }
  temp_folder_path(&folder, "model.safetensors", path);
  model_write(path, tensors, count);
  for (size_t i = 0; i < count; i++) free((void *)(uintptr_t)tensors[i].data);
  write_config(is_tied);
}

/* ---- a program ----------------------------------------------------------- */

static void open_program(const char *path, const nabla_decoder_options *options,
                         const char *policy) {
  nabla_blob text = {0};
  const nabla_sink sink = nabla_blob_sink(&text);
  const nabla_compile_options how = {.struct_size = sizeof how,
                                     .policy = policy};
  cr_assert_eq(nabla_model_open(path, NULL, &model, &diag), 0, "%s", diag.what);
  cr_assert_eq(nabla_decoder_write(model, options, NULL, &sink, &shape, &diag),
               0, "%s %s", diag.tensor, diag.what);
  cr_assert_eq(nabla_compile_text(compiler, text.bytes, text.size, "decoder",
                                  &how, &executable, &diag),
               0, "%s", diag.what);
  nabla_blob_release(&text);
  cr_assert_eq(
      nabla_executable_bind_model(executable, model, NULL, NULL, &diag), 0,
      "%s", diag.what);
  cr_assert_eq(nabla_session_create(executable, NULL, &session, &diag), 0, "%s",
               diag.what);
}

/* Feeds tokens; their logits, of `rows` rows, are the caller's to free. */
static float *feed(const int64_t *ids, size_t count, uint64_t position,
                   uint64_t rows) {
  const size_t room = rows * shape.vocabulary;
  float *logits = calloc(room, sizeof *logits);
  cr_assert_eq(
      nabla_decoder_run(session, ids, count, position, logits, room, &diag), 0,
      "%s", diag.what);
  return logits;
}

/* The largest difference, over the largest of what is expected. */
static double difference(const float *got, const double *want) {
  double most = 0, off = 0;
  for (uint64_t i = 0; i < shape.vocabulary; i++) {
    most = fmax(most, fabs(want[i]));
    off = fmax(off, fabs((double)got[i] - want[i]));
    if (isnan(got[i])) return INFINITY;
  }
  return off / most;
}

static int64_t best_of(const double *logits) {
  int64_t best = 0;
  for (uint64_t i = 1; i < shape.vocabulary; i++)
    if (logits[i] > logits[best]) best = (int64_t)i;
  return best;
}

/* Steps of one token, each equal to the reference, which says the next. */
static void check_steps(llama_reference *r, int64_t *ids, size_t count,
                        double bound) {
  for (size_t i = 0; i < count; i++) {
    float *got = feed(&ids[i], 1, i, 1);
    const double *want = llama_reference_step(r, ids[i]);
    cr_assert_lt(difference(got, want), bound, "step %zu: %g", i,
                 difference(got, want));
    int64_t best = 0;
    for (uint64_t j = 1; j < shape.vocabulary; j++)
      if (got[j] > got[best]) best = (int64_t)j;
    free(got);
    ids[i + 1] = best_of(want);
    cr_assert_eq(best, ids[i + 1], "step %zu", i);
  }
}

/* The same tokens in pieces, over what the cache held before. */
static void check_pieces(const int64_t *ids, size_t count, size_t piece,
                         int is_all, double theta, double bound) {
  llama_reference *r = llama_reference_create(model, &shape, theta, 1e-5);
  for (size_t i = 0; i < count; i += piece) {
    const size_t some = count - i < piece ? count - i : piece;
    float *got = feed(ids + i, some, i, is_all ? some : 1);
    for (size_t j = 0; j < some; j++) {
      const double *want = llama_reference_step(r, ids[i + j]);
      if (!is_all && j + 1 < some) continue;
      const float *row = got + (is_all ? j * shape.vocabulary : 0);
      cr_expect_lt(difference(row, want), bound, "pieces of %zu, token %zu: %g",
                   piece, i + j, difference(row, want));
    }
    free(got);
  }
  llama_reference_destroy(r);
}

static void check_model(double bound, int is_all) {
  int64_t ids[81] = {1};
  llama_reference *r = llama_reference_create(model, &shape, 5000, 1e-5);
  check_steps(r, ids, 80, bound);
  llama_reference_destroy(r);
  static const size_t pieces[] = {1, 7, 64};
  for (size_t i = 0; i < COUNT(pieces); i++)
    check_pieces(ids, 80, pieces[i], is_all, 5000, bound);
}

/* ---- tests --------------------------------------------------------------- */

typedef struct kind {
  nabla_dtype dtype;
  int is_tied, is_all;
} kind;

static const kind kinds[] = {
    {NABLA_DTYPE_F32, 0, 0},
    {NABLA_DTYPE_F32, 1, 1},
    {NABLA_DTYPE_BF16, 1, 0},
    {NABLA_DTYPE_F16, 0, 1},
};

ParameterizedTestParameters(decoder, dense) {
  return cr_make_param_array(kind, (void *)(uintptr_t)kinds, COUNT(kinds));
}
ParameterizedTest(kind *k, decoder, dense) {
  char path[256];
  write_model(k->dtype, k->is_tied, path);
  const nabla_decoder_options options = {
      .struct_size = sizeof options,
      .logits = k->is_all ? NABLA_LOGITS_ALL : NABLA_LOGITS_LAST};
  open_program(path, &options, "error");
  check_model(1e-4, k->is_all);
}

/* A cache of 16 bits is off by its rounding. */
Test(decoder, narrow_cache) {
  char path[256];
  write_model(NABLA_DTYPE_F32, 0, path);
  const nabla_decoder_options options = {
      .struct_size = sizeof options, .cache = NABLA_DTYPE_F16, .context = 80};
  open_program(path, &options, "error");
  cr_expect_eq(shape.cache_bytes, 2u * 2 * 2 * SHARED * SIZE * 80);
  check_pieces((int64_t[]){1, 2, 3, 4, 5, 6, 7, 8, 9}, 9, 4, 0, 5000, 5e-3);
}

typedef struct packing {
  char encoding[12];
  uint64_t block;
  nabla_scale_type scale;
} packing;

static const packing packings[] = {
    {"nf4", 64, NABLA_SCALE_F32},      {"nf4", 32, NABLA_SCALE_F16},
    {"nf4", 64, NABLA_SCALE_DYNAMIC8}, {"int8", 64, NABLA_SCALE_F32},
    {"mxfp8", 32, NABLA_SCALE_E8M0},
};

ParameterizedTestParameters(decoder, packed) {
  return cr_make_param_array(packing, (void *)(uintptr_t)packings,
                             COUNT(packings));
}
/* Against the reference of the weights that they decode to. */
ParameterizedTest(packing *p, decoder, packed) {
  static const char *const only[] = {"_proj", "lm_head", "embed_tokens"};
  char dense[256], path[256];
  write_model(NABLA_DTYPE_F32, 0, dense);
  temp_folder_path(&folder, "packed.safetensors", path);
  const nabla_quantize_options options = {
      .struct_size = sizeof options,
      .encoding = nabla_encoding_find(p->encoding),
      .settings = {.block = p->block, .has_scale = 1, .scale = p->scale},
      .layout = NABLA_CHOOSE_NABLA,
      .only = only,
      .only_count = COUNT(only)};
  model_quantize(dense, path, &options);
  open_program(path, NULL, "error");
  check_model(1e-4, 0);
}

/* The model that begins "Once upon a time, there was a little girl". */
Test(decoder, stories) {
  static const int64_t known[] = {403, 407, 261, 378, 432, 383, 286, 261};
  const char *models = getenv("NABLA_MODELS");
  char path[512];
  (void)snprintf(path, sizeof path,
                 "%s/stories260K/stories260K-f32.safetensors",
                 models ? models : "");
  if (!models || !model_exists(path)) cr_skip_test("no $NABLA_MODELS");
  open_program(path, NULL, "error");
  int64_t ids[201] = {1};
  llama_reference *r = llama_reference_create(model, &shape, 10000, 1e-5);
  check_steps(r, ids, 200, 1e-4);
  llama_reference_destroy(r);
  cr_expect(!memcmp(ids + 1, known, sizeof known));
  check_pieces(ids, 200, 64, 0, 10000, 1e-4);
}

/* ---- limits -------------------------------------------------------------- */

static void open_small(nabla_decoder_logits logits) {
  char path[256];
  write_model(NABLA_DTYPE_F32, 1, path);
  const nabla_decoder_options options = {
      .struct_size = sizeof options, .context = 8, .logits = logits};
  open_program(path, &options, "error");
}

static void expect_refused(const int64_t *ids, size_t count, uint64_t position,
                           size_t room, const char *text) {
  static float logits[8 * WORDS];
  logits[0] = 7;
  diag = (nabla_diag)NABLA_DIAG_INIT;
  cr_expect_eq(
      nabla_decoder_run(session, ids, count, position, logits, room, &diag),
      NABLA_INVALID_ARGUMENT);
  cr_expect(strstr(diag.what, text), "'%s', not '%s'", diag.what, text);
  cr_expect_eq(logits[0], 7);
}

Test(decoder, what_does_not_fit_is_refused) {
  const int64_t ids[] = {1, 2, 3, 4, 5, 6, 7, 8, 9}, wrong[] = {1, WORDS},
                negative[] = {-1};
  nabla_decoder_limits limits;
  open_small(NABLA_LOGITS_LAST);
  cr_assert_eq(nabla_decoder_find_limits(executable, &limits, &diag), 0);
  cr_expect_eq(limits.vocabulary, WORDS);
  cr_expect_eq(limits.context, 8);
  cr_expect_eq(limits.logits, NABLA_LOGITS_LAST);
  expect_refused(ids, 0, 0, WORDS, "no token");
  expect_refused(wrong, 2, 0, WORDS, "token 61 is none of the model's 61");
  expect_refused(negative, 1, 0, WORDS, "token -1 is none");
  expect_refused(ids, 9, 0, WORDS, "9 tokens behind 0 do not fit into a cache");
  expect_refused(ids, 1, 8, WORDS, "1 tokens behind 8 do not fit into a cache");
  expect_refused(ids, 2, UINT64_MAX, WORDS, "do not fit into a cache of 8");
  expect_refused(ids, 2, 0, WORDS - 1, "room for 60 logits");
  free(feed(ids, 8, 0, 1));
  free(feed(ids, 1, 7, 1)); /* the last place */
}

Test(decoder, rows_of_all_tokens) {
  const int64_t ids[] = {1, 2, 3};
  nabla_decoder_limits limits;
  open_small(NABLA_LOGITS_ALL);
  cr_assert_eq(nabla_decoder_find_limits(executable, &limits, &diag), 0);
  cr_expect_eq(limits.logits, NABLA_LOGITS_ALL);
  expect_refused(ids, 3, 0, 3 * WORDS - 1, "3 rows of 61");
  free(feed(ids, 3, 0, 3));
}

Test(decoder, a_program_of_something_else) {
  static const char text[] =
      "func.func @decode(%x: tensor<1xi64>, %at: tensor<i64>)\n"
      "    -> tensor<1xi64> {\n  return %x : tensor<1xi64>\n}\n";
  nabla_decoder_limits limits;
  cr_assert_eq(nabla_compile_text(compiler, text, strlen(text), "other", NULL,
                                  &executable, &diag),
               0, "%s", diag.what);
  cr_expect_eq(nabla_decoder_find_limits(executable, &limits, &diag),
               NABLA_UNSUPPORTED);
  cr_expect(strstr(diag.what, "no function 'decode' of a decoder"), "%s",
            diag.what);
  cr_assert_eq(nabla_session_create(executable, NULL, &session, &diag), 0);
  const int64_t id = 1;
  float logits[8];
  cr_expect_eq(nabla_decoder_run(session, &id, 1, 0, logits, 8, &diag),
               NABLA_UNSUPPORTED);
}

/* Writes a tokenizer of llama2.c with `count` pieces, each a letter. */
static void write_tokenizer(const char *name, int32_t count) {
  char bytes[2048];
  const int32_t longest = 1;
  size_t size = 0;
  memcpy(bytes, &longest, 4);
  size = 4;
  for (int32_t i = 0; i < count; i++) {
    const float score = 0;
    memcpy(bytes + size, &score, 4);
    memcpy(bytes + size + 4, &longest, 4);
    bytes[size + 8] = (char)('0' + i % 75);
    size += 9;
  }
  temp_folder_write(&folder, name, bytes, size);
}

Test(decoder, a_tokenizer_of_another_vocabulary) {
  static const struct {
    int32_t tokens;
    nabla_status want;
  } cases[] = {{WORDS - 1, NABLA_OK},
               {WORDS, NABLA_OK},
               {WORDS + 1, NABLA_INVALID_ARGUMENT}};
  open_small(NABLA_LOGITS_LAST);
  for (size_t i = 0; i < COUNT(cases); i++) {
    char path[256];
    nabla_tokenizer *tokenizer;
    write_tokenizer("t.bin", cases[i].tokens);
    temp_folder_path(&folder, "t.bin", path);
    cr_assert_eq(nabla_tokenizer_open(path, NULL, &tokenizer, &diag), 0, "%s",
                 diag.what);
    cr_expect_eq(nabla_decoder_check_tokenizer(executable, tokenizer, &diag),
                 cases[i].want);
    nabla_tokenizer_close(tokenizer);
  }
  cr_expect(strstr(diag.what, "has 62 tokens, the model 61"), "%s", diag.what);
}
