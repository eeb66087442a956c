/* nabla/folder.h: which files of a model's folder go along, and what its
 * config.json will say of the result. */
#include "nabla/folder.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "nabla/measure.h"
#include "tests/support/faulty_os.h"
#include "tests/support/model.h"
#include "tests/support/temp_folder.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

static temp_folder base;
static char in[256], out[256 + 4], again[256];

/* Two linears, an embedding and what is no matrix. */
static const model_tensor tensors[] = {
    {"embed_tokens.weight", NABLA_DTYPE_F32, 2, {8, 64}, NULL},
    {"layers.0.up_proj.weight", NABLA_DTYPE_F32, 2, {4, 64}, NULL},
    {"layers.0.up_proj.bias", NABLA_DTYPE_F32, 1, {4}, NULL},
    {"layers.0.gate.weight", NABLA_DTYPE_F32, 2, {4, 64}, NULL},
    {"layers.0.down_proj.weight", NABLA_DTYPE_F32, 2, {64, 4}, NULL},
};

static const char *at(const char *folder, const char *name) {
  static char path[512];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  return path;
}

static void put(const char *name, const char *text) {
  FILE *file = fopen(at(in, name), "wb");
  cr_assert_not_null(file, "%s", name);
  fputs(text, file);
  fclose(file);
}

static void set_up(void) {
  temp_folder_create(&base);
  temp_folder_path(&base, "in", in);
  temp_folder_path(&base, "out", out);
  temp_folder_path(&base, "again", again);
  cr_assert_eq(mkdir(in, 0777), 0);
  model_write(at(in, "model.safetensors"), tensors, COUNT(tensors));
}

static void tear_down(void) { model_remove_tree(base.path); }

TestSuite(folder, .init = set_up, .fini = tear_down, .timeout = 60);

/* A folder with what it was made from. */
typedef struct made {
  nabla_checkpoint *checkpoint;
  nabla_plan *plan;
  nabla_folder *folder;
  nabla_status status;
  nabla_diag diag;
} made;

static made make(const char *from, const nabla_quantize_options *options,
                 const nabla_environment *environment) {
  made m = {.diag = NABLA_DIAG_INIT};
  m.checkpoint = model_open(from);
  if (options)
    cr_assert_eq(
        nabla_plan_create(m.checkpoint, options, NULL, &m.plan, &m.diag),
        NABLA_OK, "%s", m.diag.what);
  m.status = nabla_folder_create(m.checkpoint, m.plan, out, environment,
                                 &m.folder, &m.diag);
  return m;
}

static void drop(made *m) {
  nabla_folder_destroy(m->folder);
  nabla_plan_destroy(m->plan);
  nabla_checkpoint_close(m->checkpoint);
}

static nabla_quantize_options all_as(const char *encoding) {
  return (nabla_quantize_options){.struct_size = sizeof(nabla_quantize_options),
                                  .encoding = nabla_encoding_find(encoding)};
}

/* ---- files -------------------------------------------------------------- */

static nabla_folder_file find(const nabla_folder *folder, const char *path) {
  for (size_t i = 0; i < nabla_folder_count(folder); i++) {
    const nabla_folder_file file = nabla_folder_get(folder, i);
    if (!strcmp(file.path, path)) return file;
  }
  cr_assert_fail("%s is not listed", path);
  abort();
}

Test(folder, files_are_copied_or_left_out_with_a_reason) {
  static const struct {
    const char *path, *reason; /* NULL: copied */
  } rows[] = {
      {".gitattributes", "hidden"},
      {"README.md", NULL},
      {"adapter_model.bin", "weights in another form: PyTorch"},
      {"consolidated.00.pth", "weights in another form: PyTorch"},
      {"flax_model.msgpack", "weights in another form: Flax"},
      {"merges.txt", NULL},
      {"model.gguf", "weights in another form: GGUF"},
      {"model.onnx_data_1", "weights in another form: ONNX"},
      {"model.safetensors.index.json.bak", NULL},
      {"other.safetensors", "weights in another file"},
      {"pytorch_model-00001-of-00002.bin", "weights in another form: PyTorch"},
      {"pytorch_model.bin.index.json", "index of other weights"},
      {"sub/model.safetensors", "weights in another file"},
      {"sub/vocab.model", NULL},
      {"tf_model.h5", "weights in another form: TensorFlow"},
      {"tokens.bin", NULL},
  };
  cr_assert_eq(mkdir(at(in, "sub"), 0777), 0);
  for (size_t i = 0; i < COUNT(rows); i++) put(rows[i].path, "12345");
  made m = make(in, NULL, NULL);
  cr_assert_eq(m.status, NABLA_OK, "%s", m.diag.what);
  cr_assert_eq(nabla_folder_count(m.folder), COUNT(rows));
  for (size_t i = 0; i < COUNT(rows); i++) {
    const nabla_folder_file file = nabla_folder_get(m.folder, i);
    cr_expect_str_eq(file.path, rows[i].path);
    cr_expect_eq(file.bytes, 5u);
    cr_expect_eq(file.action,
                 rows[i].reason ? NABLA_FOLDER_LEAVE : NABLA_FOLDER_COPY);
    cr_expect(
        rows[i].reason ? !strcmp(file.reason, rows[i].reason) : !file.reason,
        "%s", rows[i].path);
  }
  const nabla_folder_totals totals = nabla_folder_get_totals(m.folder);
  cr_expect_eq(totals.copied, 5u);
  cr_expect_eq(totals.left_out, COUNT(rows) - 5);
  cr_expect_eq(totals.bytes, 25u);
  drop(&m);
}

Test(folder, links_lead_to_files_or_are_left_out) {
  put("real", "real");
  put(".hidden", "secret");
  cr_assert_eq(symlink("real", at(in, "to_file")), 0);
  cr_assert_eq(symlink("nowhere", at(in, "broken")), 0);
  cr_assert_eq(symlink("loop", at(in, "loop")), 0);
  cr_assert_eq(symlink(".", at(in, "to_folder")), 0);
  cr_assert_eq(mkfifo(at(in, "fifo"), 0666), 0);
  cr_assert_eq(mkdir(at(in, ".cache"), 0777), 0);
  put(".cache/x", "x");
  made m = make(in, NULL, NULL);
  cr_assert_eq(m.status, NABLA_OK, "%s", m.diag.what);
  cr_expect_eq(find(m.folder, "to_file").action, NABLA_FOLDER_COPY);
  cr_expect_eq(find(m.folder, "to_file").bytes, 4u);
  cr_expect_str_eq(find(m.folder, "broken").reason,
                   "a link that leads nowhere");
  cr_expect_str_eq(find(m.folder, "loop").reason, "a link that leads nowhere");
  cr_expect_str_eq(find(m.folder, "to_folder").reason, "a link to a folder");
  cr_expect_str_eq(find(m.folder, "fifo").reason, "a pipe, socket or device");
  cr_expect(find(m.folder, ".cache").is_folder);
  cr_expect(find(m.folder, ".cache").is_hidden);
  cr_expect_eq(nabla_folder_count(m.folder), 8u);
  drop(&m);
}

Test(folder, the_output_inside_is_left_out) {
  snprintf(out, sizeof out, "%s/q", in);
  cr_assert_eq(mkdir(out, 0777), 0);
  put("q/x.json", "{}");
  made m = make(in, NULL, NULL);
  cr_assert_eq(m.status, NABLA_OK, "%s", m.diag.what);
  cr_expect_str_eq(find(m.folder, "q").reason, "the output itself");
  cr_expect_eq(nabla_folder_count(m.folder), 1u);
  drop(&m);
}

Test(folder, a_file_or_an_index_has_no_other_files) {
  char file[512];
  put("README.md", "x");
  snprintf(file, sizeof file, "%s", at(in, "model.safetensors"));
  made m = make(file, NULL, NULL);
  cr_assert_eq(m.status, NABLA_OK, "%s", m.diag.what);
  cr_expect_eq(nabla_folder_count(m.folder), 0u);
  cr_expect_eq(nabla_folder_get_config(m.folder).action, NABLA_CONFIG_NONE);
  drop(&m);
}

Test(folder, limits_are_named) {
  char path[512];
  size_t length = (size_t)snprintf(path, sizeof path, "%s", in);
  for (int depth = 1; depth <= NABLA_FOLDER_MAX_DEPTH; depth++) {
    length += (size_t)snprintf(path + length, sizeof path - length, "/d");
    cr_assert_eq(mkdir(path, 0777), 0);
  }
  made m = make(in, NULL, NULL);
  cr_expect_eq(m.status, NABLA_OK, "%s", m.diag.what);
  drop(&m);
  snprintf(path + length, sizeof path - length, "/d");
  cr_assert_eq(mkdir(path, 0777), 0);
  m = make(in, NULL, NULL);
  cr_expect_eq(m.status, NABLA_TOO_LARGE);
  cr_expect_not_null(strstr(m.diag.what, "nested too deep (at most 8)"));
  drop(&m);
  cr_assert_eq(rmdir(path), 0);
  for (unsigned i = 0; i <= NABLA_FOLDER_MAX_FILES; i++) {
    snprintf(path, sizeof path, "%u", i);
    put(path, "");
  }
  m = make(in, NULL, NULL);
  cr_expect_eq(m.status, NABLA_TOO_LARGE);
  cr_expect_not_null(strstr(m.diag.what, "too many files"), "%s", m.diag.what);
  drop(&m);
}

/* ---- config.json -------------------------------------------------------- */

#define CLASS "\"architectures\": [\"LlamaForCausalLM\"]"

/* With the members of `config`, an object, behind the class. */
static nabla_config_change change_of(const char *config,
                                     const nabla_quantize_options *options) {
  char text[512];
  snprintf(text, sizeof text, "{" CLASS "%s%s",
           strcmp(config, "{}") ? ", " : "", config + 1);
  put("config.json", text);
  made m = make(in, options, NULL);
  cr_assert_eq(m.status, NABLA_OK, "%s", m.diag.what);
  const nabla_config_change change = nabla_folder_get_config(m.folder);
  cr_expect_eq(find(m.folder, "config.json").action,
               change.action == NABLA_CONFIG_INSERT ||
                       change.action == NABLA_CONFIG_REPLACE ||
                       change.action == NABLA_CONFIG_REMOVE
                   ? NABLA_FOLDER_EDIT
                   : NABLA_FOLDER_COPY);
  drop(&m);
  return change;
}

static void expect_skip(const nabla_quantize_options *options,
                        const char *wanted) {
  char got[256] = "";
  size_t used = 0;
  put("config.json", "{" CLASS ", \"tie_word_embeddings\": false}");
  made m = make(in, options, NULL);
  cr_assert_eq(m.status, NABLA_OK, "%s", m.diag.what);
  const nabla_config_change change = nabla_folder_get_config(m.folder);
  cr_assert_eq(change.action, NABLA_CONFIG_INSERT, "%s", change.reason);
  for (size_t i = 0; i < change.skip_count; i++) {
    size_t length;
    const char *name = nabla_folder_skip(m.folder, i, &length);
    used += (size_t)snprintf(got + used, sizeof got - used, "%s%.*s",
                             i ? " " : "", (int)length, name);
  }
  cr_expect_str_eq(change.has_skip ? got : "null", wanted);
  drop(&m);
}

Test(folder, one_method_is_what_bitsandbytes_loads) {
  static const char *const encodings[] = {"nf4", "fp4", "int8"};
  for (size_t i = 0; i < COUNT(encodings); i++) {
    const nabla_quantize_options options = all_as(encodings[i]);
    const nabla_config_change change =
        change_of("{\"torch_dtype\": \"bfloat16\"}", &options);
    cr_expect_eq(change.action, NABLA_CONFIG_INSERT, "%s", change.reason);
    cr_expect(change.is_loadable);
    cr_expect_str_eq(change.quant_type, encodings[i]);
    cr_expect_str_eq(change.compute_dtype, "bfloat16");
    cr_expect(!change.double_quant);
    cr_expect_eq(change.skip_count, 3u); /* embedding, gate, lm_head */
  }
}

Test(folder, the_type_to_compute_in) {
  static const char *const rows[][2] = {
      {"{\"dtype\": \"float16\"}", "float16"},
      {"{\"torch_dtype\": \"float64\"}", "float32"},
      {"{\"torch_dtype\": 3}", "float32"},
      {"{}", "float32"},
      {"{\"dtype\": \"float16\", \"quantization_config\": {\"load_in_4bit\": "
       "true, \"bnb_4bit_compute_dtype\": \"bfloat16\"}}",
       "bfloat16"},
  };
  const nabla_quantize_options options = all_as("nf4");
  for (size_t i = 0; i < COUNT(rows); i++)
    cr_expect_str_eq(change_of(rows[i][0], &options).compute_dtype, rows[i][1]);
}

Test(folder, dense_modules_are_listed) {
  nabla_quantize_options options = all_as("nf4");
  expect_skip(&options, "embed_tokens layers.0.gate lm_head");
  static const char *const skip[] = {"down_proj"};
  options.skip = skip;
  options.skip_count = 1;
  expect_skip(&options,
              "embed_tokens layers.0.down_proj layers.0.gate lm_head");
}

Test(folder, without_dense_modules_the_head_is_listed) {
  static const model_tensor linear[] = {
      {"a.up_proj.weight", NABLA_DTYPE_F32, 2, {4, 64}, NULL}};
  static const model_tensor head[] = {
      {"lm_head.weight", NABLA_DTYPE_F32, 2, {4, 64}, NULL}};
  nabla_quantize_rule rule = {
      "lm_head", nabla_encoding_find("nf4"), {.block = 0}};
  nabla_quantize_options options = all_as("nf4");
  options.rules = &rule;
  options.rule_count = 1;
  model_write(at(in, "model.safetensors"), linear, 1);
  expect_skip(&options, "lm_head");
  /* the default would leave the head dense */
  model_write(at(in, "model.safetensors"), head, 1);
  expect_skip(&options, "");
}

/* A member that transformers would misread is worse than none. */
static void expect_unloadable(const nabla_quantize_options *options,
                              const char *why) {
  nabla_config_change change = change_of("{}", options);
  cr_expect_eq(change.action, NABLA_CONFIG_KEEP);
  cr_expect(!change.is_loadable);
  cr_expect_not_null(strstr(change.reason, why), "%s", change.reason);
  change = change_of(
      "{\"quantization_config\": {\"quant_method\": \"bitsandbytes\"}}",
      options);
  cr_expect_eq(change.action, NABLA_CONFIG_REMOVE);
  cr_expect_not_null(strstr(change.reason, why), "%s", change.reason);
}

Test(folder, what_transformers_cannot_load) {
  nabla_quantize_options options = all_as("nf4");
  nabla_quantize_rule rule = {
      "up_proj.w", nabla_encoding_find("int8"), {.block = 0}};
  options.rules = &rule;
  options.rule_count = 1;
  expect_unloadable(&options, "4-bit or 8-bit weights, not both");
  rule.encoding = nabla_encoding_find("fp4");
  expect_unloadable(&options, "has another encoding than the rest");
  rule =
      (nabla_quantize_rule){"embed", nabla_encoding_find("nf4"), {.block = 0}};
  expect_unloadable(&options, "bitsandbytes leaves embeddings dense");
  rule =
      (nabla_quantize_rule){"bias", nabla_encoding_find("nf4"), {.block = 0}};
  expect_unloadable(&options, "no matrix whose name ends in .weight");
  options.rule_count = 0;
  options.layout = NABLA_CHOOSE_NABLA;
  expect_unloadable(&options, "the layout is Nabla's: asked for");
}

Test(folder, what_transformers_does_not_replace) {
  static const model_tensor experts[] = {
      {"m.experts.0.up_proj.weight", NABLA_DTYPE_F32, 2, {4, 64}, NULL},
      {"m.conv.up_proj.weight", NABLA_DTYPE_F32, 3, {4, 4, 16}, NULL},
      {"m.other.weight", NABLA_DTYPE_F32, 2, {4, 64}, NULL},
      {"m.up_proj_weight", NABLA_DTYPE_F32, 2, {4, 64}, NULL}, /* no module */
      {"m.shared_experts.up_proj.weight", NABLA_DTYPE_F32, 2, {4, 64}, NULL}};
  nabla_quantize_options options = all_as("nf4");
  model_write(at(in, "model.safetensors"), experts, COUNT(experts));
  expect_skip(&options, "lm_head m.experts.0.up_proj m.other");
  nabla_quantize_rule rule = {
      "other", nabla_encoding_find("nf4"), {.block = 0}};
  options.rules = &rule;
  options.rule_count = 1;
  expect_unloadable(&options, "transformers does not replace that layer");
  rule.pattern = "\\.experts\\.";
  expect_unloadable(&options, "transformers does not replace that layer");
  /* in the Nabla layout nothing is kept for transformers' sake */
  options.rule_count = 0;
  put("config.json", "{" CLASS "}");
  options.layout = NABLA_CHOOSE_NABLA;
  made m = make(in, &options, NULL);
  cr_expect_eq(nabla_plan_get_totals(m.plan).quantized, COUNT(experts));
  drop(&m);
}

/* A class that was not tried: never LLM.int8, whose codes have the weight's
 * shape, but where that is asked for. */
Test(folder, other_classes_have_our_layout) {
  static const char *const encodings[] = {"nf4", "fp4", "int8"};
  static const char *const configs[] = {
      "{\"architectures\": [\"GPT2LMHeadModel\", \"LlamaForCausalLM\"]}",
      "{\"architectures\": []}",
      "{\"architectures\": \"LlamaForCausalLM\"}",
      "{\"architectures\": [\"LlamaForCausalLM\"], \"architectures\": []}",
      "{\"architectures\": [\"LlamaForCausalLM\"], \"architectures\": 1}",
      "{}"};
  for (size_t i = 0; i < COUNT(encodings) * COUNT(configs); i++) {
    nabla_quantize_options options = all_as(encodings[i % COUNT(encodings)]);
    put("config.json", configs[i / COUNT(encodings)]);
    made m = make(in, &options, NULL);
    nabla_config_change change = nabla_folder_get_config(m.folder);
    nabla_plan_totals totals = nabla_plan_get_totals(m.plan);
    cr_expect_eq(totals.layout, NABLA_LAYOUT_NABLA);
    cr_expect_eq(totals.quantized, 2);
    cr_expect(!change.is_loadable && !change.is_misread);
    cr_expect_not_null(strstr(change.reason, " class"), "%s", change.reason);
    const int wide = options.encoding->bits == 8;
    for (size_t t = 0; t < nabla_plan_count(m.plan) && wide; t++)
      if (nabla_plan_get(m.plan, t).quantized)
        cr_expect_eq(nabla_plan_get(m.plan, t).format.granularity,
                     NABLA_PER_ROW);
    drop(&m);
    options.layout = NABLA_CHOOSE_BITSANDBYTES;
    m = make(in, &options, NULL);
    change = nabla_folder_get_config(m.folder);
    totals = nabla_plan_get_totals(m.plan);
    cr_expect_eq(totals.layout, NABLA_LAYOUT_BITSANDBYTES);
    cr_expect_eq(change.action, NABLA_CONFIG_KEEP);
    cr_expect_eq(change.is_misread, wide);
    drop(&m);
  }
}

Test(folder, a_list_must_not_name_a_packed_module_as_well) {
  static const model_tensor before[] = {
      {"m.gate.weight", NABLA_DTYPE_F32, 2, {4, 64}, NULL},
      {"m.gate_proj.weight", NABLA_DTYPE_F32, 2, {4, 64}, NULL}};
  static const model_tensor behind[] = {
      {"proj.weight", NABLA_DTYPE_F32, 2, {4, 64}, NULL},
      {"a.up_proj.weight", NABLA_DTYPE_F32, 2, {4, 64}, NULL}};
  const nabla_quantize_options options = all_as("nf4");
  model_write(at(in, "model.safetensors"), before, 2);
  expect_unloadable(
      &options, "leaving 'm.gate' dense would leave 'm.gate_proj' dense too");
  model_write(at(in, "model.safetensors"), behind, 2);
  expect_unloadable(&options,
                    "leaving 'proj' dense would leave 'a.up_proj' dense too");
}

static void quantize_to(const char *path, const nabla_quantize_options *options,
                        nabla_status wanted, const char *what) {
  nabla_write_summary summary;
  made m = make(in, options, NULL);
  cr_assert_eq(m.status, NABLA_OK, "%s", m.diag.what);
  const nabla_write_options where = {
      .struct_size = sizeof where, .path = path, .folder = m.folder};
  cr_expect_eq(nabla_plan_write(m.plan, &where, NULL, &summary, &m.diag),
               wanted, "%s", m.diag.what);
  cr_expect_not_null(strstr(m.diag.what, what), "%s", m.diag.what);
  drop(&m);
}

Test(folder, a_model_of_another_method_is_refused_or_left_alone) {
  const char *gptq = "{\"quantization_config\": {\"quant_method\": \"gptq\"}}";
  nabla_quantize_options options = all_as("nf4");
  nabla_config_change change = change_of(gptq, &options);
  cr_expect_eq(change.action, NABLA_CONFIG_REFUSE);
  cr_expect_not_null(strstr(change.reason, "'gptq'"), "%s", change.reason);
  quantize_to(out, &options, NABLA_UNSUPPORTED, "'gptq'");
  cr_expect(!model_exists(out));
  options.encoding = NULL;
  change = change_of(gptq, &options);
  cr_expect_eq(change.action, NABLA_CONFIG_KEEP);
  quantize_to(out, &options, NABLA_OK, "");
  char was[512];
  snprintf(was, sizeof was, "%s", at(in, "config.json"));
  cr_expect(model_same_files(was, at(out, "config.json")));
  change = change_of(gptq, NULL); /* decoded: nothing is packed */
  cr_expect_eq(change.action, NABLA_CONFIG_KEEP);
}

static void expect_verified(nabla_status wanted, const char *what) {
  nabla_verify_summary summary;
  nabla_diag diag = NABLA_DIAG_INIT;
  cr_expect_eq(nabla_verify(out, NULL, NULL, NULL, &summary, &diag), wanted,
               "%s", diag.what);
  cr_expect_not_null(strstr(diag.what, what), "%s", diag.what);
}

static void expect_reader(const char *what) {
  nabla_verify_summary summary;
  cr_expect_eq(nabla_verify(out, NULL, NULL, NULL, &summary, NULL), NABLA_OK);
  cr_expect_not_null(strstr(summary.reader, what), "%s", summary.reader);
}

static void rewrite_config(const char *text) {
  FILE *file = fopen(at(out, "config.json"), "wb");
  cr_assert_not_null(file);
  fputs(text, file);
  fclose(file);
}

Test(folder, verify_compares_the_config_with_what_is_stored) {
  const nabla_quantize_options options = all_as("nf4");
  put("config.json", "{" CLASS "}");
  quantize_to(out, &options, NABLA_OK, "");
  expect_verified(NABLA_OK, "");
  expect_reader("transformers loads it as bitsandbytes nf4");
  rewrite_config(
      "{\"quantization_config\": {\"quant_method\": "
      "\"bitsandbytes\", \"load_in_4bit\": true}}");
  expect_verified(NABLA_CORRUPT,
                  "says bitsandbytes fp4, but tensors are "
                  "packed as bitsandbytes nf4");
  rewrite_config("{\"quantization_config\": {\"load_in_8bit\": true}}");
  expect_verified(NABLA_CORRUPT, "says bitsandbytes int8");
  rewrite_config("{\"quantization_config\": {\"quant_method\": \"awq\"}}");
  expect_verified(NABLA_CORRUPT, "says awq");
  rewrite_config("{\"quantization_config\": null}");
  expect_verified(NABLA_OK, "");
  expect_reader("transformers cannot load it, an engine with Nabla can: ");
  rewrite_config("{");
  expect_verified(NABLA_CORRUPT, "found the end");
  cr_assert_eq(unlink(at(out, "config.json")), 0);
  expect_verified(NABLA_OK, "");
}

Test(folder, decoding_takes_the_member_out) {
  const nabla_quantize_options options = all_as("nf4");
  put("config.json", "{\n  " CLASS "\n}\n");
  quantize_to(out, &options, NABLA_OK, "");
  nabla_checkpoint *packed = model_open(out);
  nabla_folder *files = NULL;
  nabla_write_summary summary;
  nabla_diag diag = NABLA_DIAG_INIT;
  cr_assert_eq(nabla_folder_create(packed, NULL, again, NULL, &files, &diag),
               NABLA_OK, "%s", diag.what);
  cr_expect_eq(nabla_folder_get_config(files).action, NABLA_CONFIG_REMOVE);
  const nabla_dequantize_options how = {.struct_size = sizeof how};
  const nabla_write_options where = {
      .struct_size = sizeof where, .path = again, .folder = files};
  cr_assert_eq(nabla_dequantize(packed, &how, &where, NULL, &summary, &diag),
               NABLA_OK, "%s", diag.what);
  cr_expect_eq(summary.copied, 1u);
  cr_expect_eq(summary.copied_bytes, 7u + strlen(CLASS));
  char was[512];
  snprintf(was, sizeof was, "%s", at(in, "config.json"));
  cr_expect(model_same_files(was, at(again, "config.json")));
  nabla_folder_destroy(files);
  nabla_checkpoint_close(packed);
}

Test(folder, a_file_that_changes_after_it_was_listed_is_refused) {
  const nabla_quantize_options options = all_as("nf4");
  nabla_write_summary summary;
  put("README.md", "one");
  made m = make(in, &options, NULL);
  put("README.md", "three");
  const nabla_write_options where = {
      .struct_size = sizeof where, .path = out, .folder = m.folder};
  cr_expect_eq(nabla_plan_write(m.plan, &where, NULL, &summary, &m.diag),
               NABLA_CORRUPT);
  cr_expect_not_null(strstr(m.diag.what, "changed since it was listed"));
  cr_expect(!model_exists(out));
  drop(&m);
}

/* A folder that was listed becomes a link before its files are copied, to one
 * with the very same file. */
Test(folder, a_folder_that_becomes_a_link_is_refused) {
  const nabla_quantize_options options = all_as("nf4");
  nabla_write_summary summary;
  char aside[256], sub[512];
  temp_folder_path(&base, "aside", aside);
  snprintf(sub, sizeof sub, "%s/sub", in);
  cr_assert_eq(mkdir(sub, 0777), 0);
  put("sub/x", "secret");
  made m = make(in, &options, NULL);
  cr_assert_eq(rename(sub, aside), 0);
  cr_assert_eq(symlink("../aside", sub), 0);
  const nabla_write_options where = {
      .struct_size = sizeof where, .path = out, .folder = m.folder};
  cr_expect_eq(nabla_plan_write(m.plan, &where, NULL, &summary, &m.diag),
               NABLA_CORRUPT);
  cr_expect_not_null(strstr(m.diag.what, "changed since it was listed"));
  cr_expect(!model_exists(out));
  drop(&m);
}

static unsigned mode_of(const char *path) {
  struct stat info;
  cr_assert_eq(stat(path, &info), 0, "%s", path);
  return info.st_mode & 07777;
}

/* Root reads what nobody may; the copy is no wider than its owner. */
Test(folder, folders_without_permissions_are_not_opened_to_all) {
  const nabla_quantize_options options = all_as("nf4");
  if (geteuid() != 0) cr_skip_test("only root can read such folders");
  cr_assert_eq(mkdir(at(in, "sub"), 0777), 0);
  put("sub/x", "x");
  cr_assert_eq(chmod(at(in, "sub"), 0), 0);
  cr_assert_eq(chmod(in, 0), 0);
  quantize_to(out, &options, NABLA_OK, "");
  cr_expect_eq(mode_of(out), 0700u);
  cr_expect_eq(mode_of(at(out, "sub")), 0700u);
}

Test(folder, links_that_lead_away_are_left_out_and_named) {
  char secret[256];
  temp_folder_path(&base, "secret", secret);
  temp_folder_write(&base, "secret", "{}", 2);
  cr_assert_eq(symlink(secret, at(in, "README.md")), 0);
  cr_assert_eq(symlink("../secret", at(in, "config.json")), 0);
  cr_assert_eq(symlink("README.md", at(in, "chain")), 0);
  made m = make(in, NULL, NULL);
  cr_assert_eq(m.status, NABLA_OK, "%s", m.diag.what);
  static const char *const away[] = {"README.md", "chain"};
  for (size_t i = 0; i < COUNT(away); i++) {
    const nabla_folder_file file = find(m.folder, away[i]);
    cr_expect_eq(file.action, NABLA_FOLDER_LEAVE);
    cr_expect_str_eq(file.reason, "a link that leads out of the folder");
    cr_expect_not_null(strstr(file.target, "/secret"));
  }
  cr_expect_eq(find(m.folder, "config.json").action, NABLA_FOLDER_COPY);
  cr_expect_not_null(strstr(find(m.folder, "config.json").target, "/secret"));
  drop(&m);
}

Test(folder, without_proc_links_are_left_out) {
  faulty_os faulty;
  faulty_os_init(&faulty, NULL);
  faulty.fail_kind = FAULTY_PATH_OF;
  faulty.fail_at = 1;
  faulty.fail_calls = 1000;
  faulty.error = -ENOENT;
  put("real", "real");
  cr_assert_eq(symlink("real", at(in, "link")), 0);
  const nabla_environment environment = {.os = &faulty.os};
  made m = make(in, NULL, &environment);
  cr_assert_eq(m.status, NABLA_OK, "%s", m.diag.what);
  cr_expect_eq(find(m.folder, "real").action, NABLA_FOLDER_COPY);
  cr_expect_str_eq(find(m.folder, "link").reason,
                   "a link to a place that is not known");
  drop(&m);
}

Test(folder, an_index_must_not_take_the_name_of_a_copied_file) {
  const nabla_quantize_options options = all_as("nf4");
  char path[512];
  put("config.json", "{}");
  snprintf(path, sizeof path, "%s/config.json", out);
  quantize_to(path, &options, NABLA_INVALID_ARGUMENT,
              "the name of a file that is copied");
  cr_expect(!model_exists(out));
}
