/* Plans: what becomes of each tensor and why, the layout, the sizes. */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nabla/quantize.h"
#include "tests/support/model.h"
#include "tests/support/temp_folder.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

static temp_folder folder;
static char path[256];
static nabla_diag diag;
static nabla_checkpoint *checkpoint;
static nabla_plan *plan;
static nabla_quantize_options options;

static void set_up(void) {
  temp_folder_create(&folder);
  temp_folder_path(&folder, "x.safetensors", path);
  diag = (nabla_diag)NABLA_DIAG_INIT;
  options.struct_size = sizeof options;
  options.encoding = nabla_encoding_find("nf4");
}

static void tear_down(void) {
  nabla_plan_destroy(plan);
  nabla_checkpoint_close(checkpoint);
  model_remove_tree(folder.path);
}

TestSuite(plan, .init = set_up, .fini = tear_down);

static nabla_status make_plan(void) {
  nabla_plan_destroy(plan);
  plan = NULL;
  diag = (nabla_diag)NABLA_DIAG_INIT;
  nabla_status status =
      nabla_plan_create(checkpoint, &options, NULL, &plan, &diag);
  if (status) cr_expect_null(plan);
  return status;
}

static void load(const model_tensor *tensors, size_t count) {
  nabla_plan_destroy(plan);
  plan = NULL;
  nabla_checkpoint_close(checkpoint);
  model_write(path, tensors, count);
  checkpoint = model_open(path);
}

static nabla_plan_row row_of(const char *name) {
  const size_t index = nabla_checkpoint_find(checkpoint, name, strlen(name));
  cr_assert_neq(index, SIZE_MAX, "%s", name);
  const nabla_plan_row row = nabla_plan_get(plan, index);
  cr_assert_eq(row.tensor, index);
  return row;
}

static void expect_reason(const char *name, const char *reason) {
  const nabla_plan_row row = row_of(name);
  cr_expect_str_eq(row.reason, reason);
}

/* Of the layout. */
static void expect_because(const char *reason) {
  const nabla_plan_totals totals = nabla_plan_get_totals(plan);
  cr_expect(strstr(totals.layout_reason, reason), "%s", totals.layout_reason);
}

/* ---- defaults ------------------------------------------------------------ */

static const struct {
  model_tensor tensor;
  const char *reason; /* NULL: quantized by default */
} defaults[] = {
    {{"model.layers.0.mlp.up_proj.weight", NABLA_DTYPE_F32, 2, {4, 64}, NULL},
     NULL},
    {{"conv.weight", NABLA_DTYPE_F16, 3, {16, 8, 9}, NULL}, NULL},
    {{"weight", NABLA_DTYPE_BF16, 2, {16, 64}, NULL}, NULL},
    {{"a.in_proj_weight", NABLA_DTYPE_F64, 2, {4, 64}, NULL}, NULL},
    {{"h.0.gate_proj.weight", NABLA_DTYPE_F32, 2, {4, 64}, NULL}, NULL},
    {{"decoder.output.weight", NABLA_DTYPE_F32, 2, {4, 64}, NULL}, NULL},
    {{"a.i8.weight", NABLA_DTYPE_I8, 2, {4, 64}, NULL},
     "I8 is not a type that is quantized"},
    {{"a.f8.weight", NABLA_DTYPE_F8_E4M3, 2, {4, 64}, NULL},
     "F8_E4M3 is not a type that is quantized"},
    {{"a.empty.weight", NABLA_DTYPE_F32, 2, {0, 64}, NULL}, "no elements"},
    {{"a.scalar.weight", NABLA_DTYPE_F32, 0, {0}, NULL},
     "rank 0, not a matrix"},
    {{"a.vector.weight", NABLA_DTYPE_F32, 1, {64}, NULL},
     "rank 1, not a matrix"},
    {{"a.bias", NABLA_DTYPE_F32, 2, {4, 64}, NULL},
     "name does not end in weight"},
    {{"a.weights", NABLA_DTYPE_F32, 2, {4, 64}, NULL},
     "name does not end in weight"},
    {{"model.embed_tokens.weight", NABLA_DTYPE_F32, 2, {4, 64}, NULL},
     "embedding"},
    {{"transformer.wte.weight", NABLA_DTYPE_F32, 2, {4, 64}, NULL},
     "embedding"},
    {{"a.wtex.weight", NABLA_DTYPE_F32, 2, {4, 64}, NULL}, NULL},
    {{"a.post_layernorm.weight", NABLA_DTYPE_F32, 2, {4, 64}, NULL}, "norm"},
    {{"h.0.ln_1.weight", NABLA_DTYPE_F32, 2, {4, 64}, NULL}, "norm"},
    {{"h.0.ln_12.weight", NABLA_DTYPE_F32, 2, {4, 64}, NULL}, NULL},
    {{"block.gate.weight", NABLA_DTYPE_F32, 2, {4, 64}, NULL}, "router"},
    {{"block.router.0.weight", NABLA_DTYPE_F32, 2, {4, 64}, NULL}, "router"},
    {{"lm_head.weight", NABLA_DTYPE_F32, 2, {4, 64}, NULL}, "output head"},
    {{"output.weight", NABLA_DTYPE_F32, 2, {4, 64}, NULL}, "output head"},
    {{"score.weight", NABLA_DTYPE_F32, 2, {4, 64}, NULL}, "output head"},
};

ParameterizedTestParameters(plan, defaults_and_reasons) {
  static size_t rows[COUNT(defaults)];
  for (size_t i = 0; i < COUNT(defaults); i++) rows[i] = i;
  return cr_make_param_array(size_t, rows, COUNT(defaults));
}

ParameterizedTest(size_t *index, plan, defaults_and_reasons) {
  const model_tensor *tensor = &defaults[*index].tensor;
  load(tensor, 1);
  cr_assert_eq(make_plan(), NABLA_OK, "%s", diag.what);
  cr_assert_eq(nabla_plan_count(plan), 1);
  const nabla_plan_row row = nabla_plan_get(plan, 0);
  cr_expect_eq(row.rule, SIZE_MAX);
  if (defaults[*index].reason) {
    cr_expect_eq(row.quantized, 0, "%s", tensor->name);
    cr_expect_str_eq(row.reason, defaults[*index].reason);
    cr_expect_null(row.format.encoding);
    cr_expect_eq(row.bytes_in, row.bytes_out);
    cr_expect_eq(nabla_plan_get_totals(plan).layout, NABLA_LAYOUT_DENSE);
    expect_because("nothing is packed");
  } else {
    cr_expect_eq(row.quantized, 1, "%s: %s", tensor->name, row.reason);
    cr_expect_str_eq(row.reason, "default");
    cr_expect_str_eq(row.format.encoding->name, "nf4");
    cr_expect_eq(row.format.block, 64);
    cr_expect_eq(row.format.granularity, NABLA_PER_BLOCK);
  }
}

/* ---- rules, only, skip --------------------------------------------------- */

static const model_tensor model[] = {
    {"layers.0.attn.weight", NABLA_DTYPE_F32, 2, {8, 64}, NULL},
    {"layers.0.mlp.weight", NABLA_DTYPE_F32, 2, {8, 64}, NULL},
    {"layers.1.attn.weight", NABLA_DTYPE_F32, 2, {8, 64}, NULL},
    {"layers.1.mlp.weight", NABLA_DTYPE_F32, 2, {8, 64}, NULL},
    {"embed.weight", NABLA_DTYPE_F32, 2, {8, 64}, NULL},
    {"table", NABLA_DTYPE_F32, 1, {100}, NULL},
    {"step", NABLA_DTYPE_I64, 1, {1}, NULL},
};

Test(plan, skip_then_only_then_rules_then_defaults) {
  static const char *const only[] = {"layers", "embed"};
  static const char *const skip[] = {"nothing", "\\.1\\.attn"};
  const nabla_quantize_rule rules[] = {
      {"mlp", nabla_encoding_find("fp4"), {.block = 128}},
      {"1",
       nabla_encoding_find("int8"),
       {.block = 0}}, /* the first match wins */
      {"0\\.attn", NULL, {.block = 0}},
      {"embed", nabla_encoding_find("int8"), {.block = 0}},
      {"table",
       nabla_encoding_find("nf4"),
       {.block = 0}}, /* --only comes first */
  };
  options.only = only, options.only_count = 2;
  options.skip = skip, options.skip_count = 2;
  options.rules = rules, options.rule_count = COUNT(rules);
  load(model, COUNT(model));
  cr_assert_eq(make_plan(), NABLA_OK, "%s", diag.what);
  nabla_plan_row row = row_of("layers.0.mlp.weight");
  cr_expect_str_eq(row.format.encoding->name, "fp4");
  cr_expect_eq(row.format.block, 128);
  cr_expect_eq(row.rule, 0);
  cr_expect_str_eq(row.reason, "rule 1 'mlp'");
  row = row_of("layers.1.mlp.weight");
  cr_expect_eq(row.rule, 0);
  row = row_of("layers.1.attn.weight");
  cr_expect_eq(row.quantized, 0);
  cr_expect_eq(row.rule, SIZE_MAX);
  cr_expect_str_eq(row.reason, "skipped by '\\.1\\.attn'");
  row = row_of("layers.0.attn.weight");
  cr_expect_eq(row.quantized, 0);
  cr_expect_eq(row.rule, 2);
  cr_expect_str_eq(row.reason, "rule 3 '0\\.attn'");
  row = row_of("embed.weight");
  cr_expect_eq(row.rule, 3, "a rule overrides the table of kept names");
  cr_expect_str_eq(row.format.encoding->name, "int8");
  row = row_of("table");
  cr_expect_eq(row.quantized, 0);
  cr_expect_str_eq(row.reason, "not among those asked for");
}

Test(plan, rules_cannot_do_the_impossible) {
  const nabla_quantize_rule rules[] = {
      {".", nabla_encoding_find("nf4"), {.block = 0}}};
  options.rules = rules, options.rule_count = 1;
  load(model, COUNT(model));
  cr_assert_eq(make_plan(), NABLA_OK, "%s", diag.what);
  expect_reason("step", "I64 is not a type that is quantized");
  cr_expect_eq(row_of("step").rule, SIZE_MAX);
  cr_expect_eq(row_of("table").quantized, 1, "a vector that is asked for");
  expect_reason("table", "rule 1 '.'");
}

Test(plan, without_an_encoding_all_is_kept) {
  options.encoding = NULL;
  load(model, COUNT(model));
  cr_assert_eq(make_plan(), NABLA_OK, "%s", diag.what);
  expect_reason("embed.weight", "no encoding asked for");
  cr_expect_eq(nabla_plan_get_totals(plan).quantized, 0);
}

Test(plan, options_are_copied) {
  char pattern[] = "mlp";
  const char *only[] = {pattern};
  options.only = only, options.only_count = 1;
  load(model, COUNT(model));
  cr_assert_eq(make_plan(), NABLA_OK, "%s", diag.what);
  memset(pattern, 'x', 3);
  only[0] = NULL;
  memset(&options, 0xee, sizeof options);
  cr_expect_eq(row_of("layers.0.mlp.weight").quantized, 1);
  expect_reason("layers.0.attn.weight", "not among those asked for");
}

/* ---- what cannot be asked for -------------------------------------------- */

Test(plan, bad_blocks_are_refused) {
  static const uint64_t blocks[] = {3, 8, 15, 17, 48, 8192, UINT64_MAX};
  load(model, COUNT(model));
  for (size_t i = 0; i < COUNT(blocks); i++) {
    options.settings.block = blocks[i];
    cr_expect_eq(make_plan(), NABLA_INVALID_ARGUMENT, "%zu", i);
    cr_expect(strstr(diag.what, "block: "), "%s", diag.what);
    cr_expect(strstr(diag.next, "16 to 4096"), "%s", diag.next);
    options.settings.block = 0;
    const nabla_quantize_rule rule = {
        "mlp", options.encoding, {.block = blocks[i]}};
    options.rules = &rule, options.rule_count = 1;
    cr_expect_eq(make_plan(), NABLA_INVALID_ARGUMENT, "%zu", i);
    cr_expect(strstr(diag.what, "rule: "), "%s", diag.what);
    options.rules = NULL, options.rule_count = 0;
  }
}

Test(plan, bad_patterns_are_refused) {
  static const char *const bad[] = {"("};
  const nabla_quantize_rule rule = {"[", options.encoding, {.block = 0}};
  load(model, COUNT(model));
  options.only = bad, options.only_count = 1;
  cr_expect_eq(make_plan(), NABLA_INVALID_ARGUMENT);
  cr_expect(strstr(diag.what, "only '('"), "%s", diag.what);
  options.only_count = 0;
  options.skip = bad, options.skip_count = 1;
  cr_expect_eq(make_plan(), NABLA_INVALID_ARGUMENT);
  cr_expect(strstr(diag.what, "skip '('"), "%s", diag.what);
  options.skip_count = 0;
  options.rules = &rule, options.rule_count = 1;
  cr_expect_eq(make_plan(), NABLA_INVALID_ARGUMENT);
  cr_expect(strstr(diag.what, "rule '['"), "%s", diag.what);
  nabla_quantize_rule many[NABLA_MAX_PATTERNS + 1];
  for (size_t i = 0; i < COUNT(many); i++)
    many[i] = (nabla_quantize_rule){"a", options.encoding, {.block = 0}};
  options.rules = many, options.rule_count = COUNT(many);
  cr_expect_eq(make_plan(), NABLA_INVALID_ARGUMENT);
  cr_expect(strstr(diag.what, "257 rules"), "%s", diag.what);
}

/* ---- layouts --------------------------------------------------------------
 */

typedef struct layout_case {
  const char *encoding;
  uint64_t block;
  model_tensor tensor;
  const char *objection; /* of bitsandbytes; NULL: none */
} layout_case;

static const layout_case layouts[] = {
    {"nf4", 0, {"a.weight", NABLA_DTYPE_F32, 2, {32, 64}, NULL}, NULL},
    {"fp4", 4096, {"a.weight", NABLA_DTYPE_F16, 2, {32, 64}, NULL}, NULL},
    {"nf4", 32, {"a.weight", NABLA_DTYPE_BF16, 3, {8, 16, 16}, NULL}, NULL},
    {"nf4", 16, {"a.weight", NABLA_DTYPE_F32, 2, {32, 64}, NULL}, "32 to 4096"},
    {"nf4", 0, {"a.weight", NABLA_DTYPE_F64, 2, {32, 64}, NULL}, "float32"},
    {"int8", 0, {"a.weight", NABLA_DTYPE_F16, 2, {32, 64}, NULL}, NULL},
    {"int8", 64, {"a.weight", NABLA_DTYPE_F32, 2, {32, 64}, NULL}, "per row"},
    {"int8",
     0,
     {"a.weight", NABLA_DTYPE_F32, 3, {8, 16, 16}, NULL},
     "matrices"},
    {"int8", 0, {"a_weight", NABLA_DTYPE_F32, 2, {32, 64}, NULL}, ".weight"},
};

ParameterizedTestParameters(plan, layout_is_what_can_hold_it) {
  static size_t rows[COUNT(layouts)];
  for (size_t i = 0; i < COUNT(layouts); i++) rows[i] = i;
  return cr_make_param_array(size_t, rows, COUNT(layouts));
}

ParameterizedTest(size_t *index, plan, layout_is_what_can_hold_it) {
  const layout_case *c = &layouts[*index];
  options.encoding = nabla_encoding_find(c->encoding);
  options.settings.block = c->block;
  load(&c->tensor, 1);
  cr_assert_eq(make_plan(), NABLA_OK, "%s", diag.what);
  nabla_plan_totals totals = nabla_plan_get_totals(plan);
  cr_expect_eq(totals.quantized, 1);
  if (c->objection) {
    cr_expect_eq(totals.layout, NABLA_LAYOUT_NABLA);
    cr_expect(strstr(totals.layout_reason, c->objection), "%s",
              totals.layout_reason);
    cr_expect(strstr(totals.layout_reason, c->tensor.name), "%s",
              totals.layout_reason);
  } else if (options.encoding->bits == 8) { /* a file alone says nothing */
    cr_expect_eq(totals.layout, NABLA_LAYOUT_NABLA);
    expect_because("no config.json would say that it is LLM.int8");
    cr_expect_eq(nabla_plan_get(plan, 0).format.granularity, NABLA_PER_ROW);
  } else {
    cr_expect_eq(totals.layout, NABLA_LAYOUT_BITSANDBYTES);
    cr_expect_str_eq(totals.layout_reason, "it can hold every tensor");
  }
  options.layout = NABLA_CHOOSE_BITSANDBYTES;
  cr_assert_eq(make_plan(), c->objection ? NABLA_UNSUPPORTED : NABLA_OK);
  if (c->objection) {
    cr_expect_str_eq(diag.tensor, c->tensor.name);
    cr_expect_str_eq(diag.file, path);
    cr_expect(strstr(diag.what, c->objection), "%s", diag.what);
    cr_expect(strstr(diag.next, "layout nabla"), "%s", diag.next);
  } else {
    expect_because("asked for");
  }
  options.layout = NABLA_CHOOSE_NABLA;
  cr_assert_eq(make_plan(), NABLA_OK, "%s", diag.what);
  totals = nabla_plan_get_totals(plan);
  cr_expect_eq(totals.layout, NABLA_LAYOUT_NABLA);
  cr_expect_str_eq(totals.layout_reason, "asked for");
  cr_expect_eq(nabla_plan_get(plan, 0).format.granularity, NABLA_PER_BLOCK);
}

/* bitsandbytes loads a model as 4-bit or as 8-bit, not as both. */
Test(plan, mixed_methods_need_our_layout) {
  const nabla_quantize_rule rule = {
      "mlp", nabla_encoding_find("int8"), {.block = 0}};
  options.rules = &rule, options.rule_count = 1;
  load(model, COUNT(model));
  cr_assert_eq(make_plan(), NABLA_OK, "%s", diag.what);
  cr_expect_eq(nabla_plan_get_totals(plan).layout, NABLA_LAYOUT_NABLA);
  expect_because("not both");
  options.layout = NABLA_CHOOSE_BITSANDBYTES;
  cr_expect_eq(make_plan(), NABLA_UNSUPPORTED);
  cr_expect(strstr(diag.what, "not both"), "%s", diag.what);
}

/* ---- sizes ----------------------------------------------------------------
 */

Test(plan, bytes_are_those_of_all_components) {
  load(model, COUNT(model));
  options.layout = NABLA_CHOOSE_BITSANDBYTES;
  cr_assert_eq(make_plan(), NABLA_OK, "%s", diag.what);
  const nabla_plan_row row = row_of("layers.0.mlp.weight");
  const uint64_t state = strlen(
      "{\"quant_type\": \"nf4\", \"blocksize\": 64, \"dtype\": \"float32\", "
      "\"shape\": [8, 64]}");
  cr_expect_eq(row.bytes_in, 2048);
  cr_expect_eq(row.bytes_out, 256 + 8 * 4 + 64 + state);
  cr_expect_float_eq(row.bits_per_weight, (double)(row.bytes_out * 8) / 512,
                     1e-12);
  const nabla_plan_totals totals = nabla_plan_get_totals(plan);
  cr_expect_eq(totals.tensors, COUNT(model));
  cr_expect_eq(totals.quantized, 4);
  cr_expect_eq(totals.bytes_in, 5 * 2048 + 400 + 8);
  cr_expect_eq(totals.bytes_out, 4 * row.bytes_out + 2048 + 400 + 8);
}

/* ---- what grows ------------------------------------------------------------
 */

/* Codes, scales, a table and a description, each with its entry in the header,
 * are more than 256 bytes of F16. */
static const model_tensor growing[] = {
    {"layers.0.mlp.weight", NABLA_DTYPE_F32, 2, {64, 64}, NULL},
    {"layers.0.lora.weight", NABLA_DTYPE_F16, 2, {32, 4}, NULL},
};

Test(plan, tensors_that_grow_are_kept) {
  load(growing, COUNT(growing));
  cr_assert_eq(make_plan(), NABLA_OK, "%s", diag.what);
  const nabla_plan_row row = row_of("layers.0.lora.weight");
  cr_expect_eq(row.quantized, 0);
  cr_expect_null(row.format.encoding);
  cr_expect_eq(row.bytes_out, 256);
  expect_reason("layers.0.lora.weight", "would be larger when packed");
  const nabla_plan_totals totals = nabla_plan_get_totals(plan);
  cr_expect_eq(totals.quantized, 1);
  cr_expect_eq(totals.bytes_out, row_of("layers.0.mlp.weight").bytes_out + 256);
}

Test(plan, a_rule_packs_what_grows) {
  const nabla_quantize_rule rule = {"lora", options.encoding, {.block = 0}};
  options.rules = &rule, options.rule_count = 1;
  load(growing, COUNT(growing));
  cr_assert_eq(make_plan(), NABLA_OK, "%s", diag.what);
  cr_expect_eq(row_of("layers.0.lora.weight").quantized, 1);
  expect_reason("layers.0.lora.weight", "rule 1 'lora'");
}

/* bitsandbytes holds no float64: what is kept takes no part in the choice. */
Test(plan, what_grows_does_not_choose_the_layout) {
  static const model_tensor tensors[] = {
      {"a.weight", NABLA_DTYPE_F16, 2, {64, 64}, NULL},
      {"b.weight", NABLA_DTYPE_F64, 2, {2, 4}, NULL}};
  load(tensors, 2);
  cr_assert_eq(make_plan(), NABLA_OK, "%s", diag.what);
  cr_expect_eq(row_of("b.weight").quantized, 0);
  cr_expect_eq(nabla_plan_get_totals(plan).layout, NABLA_LAYOUT_BITSANDBYTES);
}

/* Beyond one size all are packed, below it none. */
Test(plan, the_first_that_does_not_grow_is_packed) {
  int was_packed = 0;
  uint64_t first = 0;
  for (uint64_t rows = 32; rows <= 256; rows++) {
    const model_tensor tensor = {
        "a.weight", NABLA_DTYPE_F16, 2, {rows, 4}, NULL};
    load(&tensor, 1);
    cr_assert_eq(make_plan(), NABLA_OK, "%s", diag.what);
    const int packed = nabla_plan_get(plan, 0).quantized;
    cr_assert_geq(packed, was_packed, "%llu", (unsigned long long)rows);
    if (packed && !was_packed) first = rows;
    was_packed = packed;
  }
  cr_expect_gt(first, 32);
  cr_expect(was_packed);
}

/* ---- what is packed already ------------------------------------------------
 */

Test(plan, packed_tensors_are_kept) {
  char packed[256];
  const nabla_quantize_rule rules[] = {{"mlp", options.encoding, {.block = 0}},
                                       {".", NULL, {.block = 0}}};
  nabla_write_summary summary;
  temp_folder_path(&folder, "q.safetensors", packed);
  load(model, COUNT(model));
  options.rules = rules, options.rule_count = 2;
  cr_assert_eq(make_plan(), NABLA_OK, "%s", diag.what);
  const nabla_write_options where = {
      .struct_size = sizeof where, .path = packed, .force = 0};
  cr_assert_eq(nabla_plan_write(plan, &where, NULL, &summary, &diag), NABLA_OK,
               "%s", diag.what);
  nabla_plan_destroy(plan);
  plan = NULL;
  nabla_checkpoint_close(checkpoint);
  checkpoint = model_open(packed);
  options.rule_count = 0;
  cr_assert_eq(make_plan(), NABLA_OK, "%s", diag.what);
  expect_reason("layers.0.mlp.weight", "already packed (nf4)");
  cr_expect_eq(row_of("layers.0.attn.weight").quantized, 1);
  cr_expect_eq(nabla_plan_get_totals(plan).layout, NABLA_LAYOUT_BITSANDBYTES);
  options.encoding = nabla_encoding_find("int8");
  cr_assert_eq(make_plan(), NABLA_OK, "%s", diag.what);
  cr_expect_eq(nabla_plan_get_totals(plan).layout, NABLA_LAYOUT_NABLA);
}

/* ---- not finite -------------------------------------------------------------
 */

Test(plan, keep_leaves_tensors_that_are_not_finite) {
  static float bad[512];
  bad[300] = 1.0f / 0.0f;
  bad[400] = 0.0f / 0.0f;
  const model_tensor tensors[] = {
      {"bad.weight", NABLA_DTYPE_F32, 2, {8, 64}, bad}, model[0]};
  load(tensors, 2);
  options.nonfinite = NABLA_NONFINITE_KEEP;
  cr_assert_eq(make_plan(), NABLA_OK, "%s", diag.what);
  cr_expect_eq(row_of("bad.weight").quantized, 0);
  expect_reason("bad.weight", "NaN, infinite or too large at index 300");
  cr_expect_eq(row_of("layers.0.attn.weight").quantized, 1);
}
