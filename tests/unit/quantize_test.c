/* Writing: the bytes of a plan, whatever the threads and instruction sets;
 * where outputs go and what they never replace; what is refused. */
#include "nabla/quantize.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "nabla/measure.h"
#include "tests/support/callback_pool.h"
#include "tests/support/codec_calls.h"
#include "tests/support/faulty_os.h"
#include "tests/support/model.h"
#include "tests/support/temp_folder.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

static temp_folder folder;
static char source[256], out[256], back[256];
static nabla_diag diag;
static nabla_quantize_options options;
static nabla_dequantize_options decode_options;
static nabla_environment environment;
static nabla_write_summary summary;

static void set_up(void) {
  temp_folder_create(&folder);
  temp_folder_path(&folder, "in.safetensors", source);
  temp_folder_path(&folder, "out.safetensors", out);
  temp_folder_path(&folder, "back.safetensors", back);
  diag = (nabla_diag)NABLA_DIAG_INIT;
  options.struct_size = sizeof options;
  options.encoding = nabla_encoding_find("nf4");
  decode_options.struct_size = sizeof decode_options;
}

static void tear_down(void) { model_remove_tree(folder.path); }

TestSuite(quantize, .init = set_up, .fini = tear_down);

static nabla_status write_plan(const nabla_checkpoint *checkpoint,
                               const char *to, int force) {
  nabla_plan *plan = NULL;
  const nabla_write_options where = {
      .struct_size = sizeof where, .path = to, .force = force};
  diag = (nabla_diag)NABLA_DIAG_INIT;
  nabla_status status =
      nabla_plan_create(checkpoint, &options, &environment, &plan, &diag);
  if (!status)
    status = nabla_plan_write(plan, &where, &environment, &summary, &diag);
  nabla_plan_destroy(plan);
  return status;
}

static nabla_status quantize(const char *from, const char *to, int force) {
  nabla_checkpoint *checkpoint = NULL;
  diag = (nabla_diag)NABLA_DIAG_INIT;
  nabla_status status =
      nabla_checkpoint_open(from, &environment, &checkpoint, &diag);
  if (!status) status = write_plan(checkpoint, to, force);
  nabla_checkpoint_close(checkpoint);
  return status;
}

static nabla_status dequantize(const char *from, const char *to) {
  nabla_checkpoint *checkpoint = NULL;
  const nabla_write_options where = {
      .struct_size = sizeof where, .path = to, .force = 0};
  diag = (nabla_diag)NABLA_DIAG_INIT;
  nabla_status status =
      nabla_checkpoint_open(from, &environment, &checkpoint, &diag);
  if (!status)
    status = nabla_dequantize(checkpoint, &decode_options, &where, &environment,
                              &summary, &diag);
  nabla_checkpoint_close(checkpoint);
  return status;
}

#define GOOD(call) cr_assert_eq((call), NABLA_OK, "%s", diag.what)

/* ---- the same bytes everywhere ---------------------------------------------
 */

/* Several tiles, tails in every unit, every float dtype, rank 1 to 4. */
static const model_tensor zoo[] = {
    {"big.weight", NABLA_DTYPE_F32, 2, {700, 911}, NULL},
    {"half.weight", NABLA_DTYPE_F16, 3, {5, 7, 9}, NULL},
    {"brain.weight", NABLA_DTYPE_BF16, 2, {301, 303}, NULL},
    {"double.weight", NABLA_DTYPE_F64, 4, {2, 3, 5, 7}, NULL},
    {"one.weight", NABLA_DTYPE_F32, 2, {1, 1}, NULL},
    {"odd.weight", NABLA_DTYPE_F32, 2, {3, 21}, NULL},
    {"vector", NABLA_DTYPE_F32, 1, {1001}, NULL},
    {"steps", NABLA_DTYPE_I64, 1, {3}, NULL},
    {"none", NABLA_DTYPE_F32, 2, {0, 4}, NULL},
};

static const nabla_quantize_rule zoo_rules[] = {
    {"half", NULL, {.block = 0}}, /* filled by use_zoo_rules */
    {"vector", NULL, {.block = 0}},
    {"brain", NULL, {.block = 0}},
    {"weight$", NULL, {.block = 0}}, /* small ones would grow, and be kept */
};

static nabla_quantize_rule used_rules[COUNT(zoo_rules)];

static void use_zoo_rules(void) {
  memcpy(used_rules, zoo_rules, sizeof zoo_rules);
  used_rules[0].encoding = nabla_encoding_find("fp4");
  used_rules[0].settings.block = 32;
  used_rules[1].encoding = nabla_encoding_find("nf4");
  used_rules[2].encoding = nabla_encoding_find("int8");
  used_rules[3].encoding = nabla_encoding_find("nf4");
  options.rules = used_rules;
  options.rule_count = COUNT(used_rules);
}

Test(quantize, threads_and_isa_do_not_change_a_byte) {
  static const uint32_t threads[] = {0, 1, 2, 7}; /* 0: the caller's */
  static const nabla_isa isas[] = {NABLA_ISA_BEST, NABLA_ISA_SCALAR,
                                   NABLA_ISA_AVX2, NABLA_ISA_AVX512};
  model_write(source, zoo, COUNT(zoo));
  use_zoo_rules();
  options.isa = decode_options.isa = NABLA_ISA_SCALAR;
  GOOD(quantize(source, out, 0));
  GOOD(dequantize(out, back));
  size_t compared = 0;
  for (size_t t = 0; t < COUNT(threads); t++)
    for (size_t i = 0; i < COUNT(isas); i++) {
      char again[256], decoded[256], name[32];
      if (!nabla_isa_available(isas[i])) continue;
      (void)snprintf(name, sizeof name, "q%zu%zu.safetensors", t, i);
      temp_folder_path(&folder, name, again);
      name[0] = 'd';
      temp_folder_path(&folder, name, decoded);
      environment.pool = NULL;
      if (!threads[t])
        environment.pool = callback_pool_create((callback_order)i, 4);
      else
        GOOD(nabla_pool_create(threads[t], NULL, &environment.pool, &diag));
      options.isa = decode_options.isa = isas[i];
      GOOD(quantize(source, again, 0));
      GOOD(dequantize(again, decoded));
      nabla_pool_destroy(environment.pool);
      environment.pool = NULL;
      cr_expect(model_same_files(out, again), "%u threads, %s", threads[t],
                nabla_isa_name(isas[i]));
      cr_expect(model_same_files(back, decoded), "%u threads, %s", threads[t],
                nabla_isa_name(isas[i]));
      compared++;
    }
  cr_expect_geq(compared, 6);
}

/* ---- each tensor is what nabla_encode makes of its values -------------------
 */

static void expect_encoded(const nabla_checkpoint *from,
                           const nabla_checkpoint *to, const char *name) {
  const nabla_tensor packed = model_tensor_of(to, name);
  const nabla_tensor dense = model_tensor_of(from, name);
  const size_t count = (size_t)dense.elements;
  cr_assert_neq(packed.layout, NABLA_LAYOUT_DENSE, "%s", name);
  cr_expect_eq(packed.elements, dense.elements);
  cr_expect_eq(packed.rank, dense.rank);
  cr_expect_arr_eq(packed.shape, dense.shape, dense.rank * sizeof(uint64_t));
  nabla_codec codec;
  nabla_packed_size size;
  GOOD(select_codec(&packed.format, NABLA_ISA_SCALAR, &codec, &diag));
  GOOD(nabla_format_size(&packed.format, count, &size, &diag));
  float *values = malloc(count * sizeof *values);
  float *scales = malloc((size_t)size.scales * sizeof *scales);
  uint8_t *codes = malloc((size_t)size.code_bytes);
  size_t bad;
  void *raw = model_bytes(from, name, NULL);
  nabla_to_f32(dense.dtype, raw, count, values);
  GOOD(encode_f32(&codec, values, count, codes, scales, &bad, &diag));
  size_t code_bytes, scale_bytes;
  void *got_codes = model_bytes(to, name, &code_bytes);
  const nabla_tensor_file *file =
      nabla_checkpoint_borrow_shard(to, packed.scales.shard);
  void *got_scales =
      model_bytes(to, nabla_tensor_file_entry(file, packed.scales.entry).name,
                  &scale_bytes);
  cr_expect_eq(code_bytes, size.code_bytes);
  cr_expect_eq(scale_bytes, size.scales * 4);
  cr_expect_arr_eq(got_codes, codes, code_bytes, "%s: codes", name);
  cr_expect_arr_eq(got_scales, scales, scale_bytes, "%s: scales", name);
  free(values), free(scales), free(codes), free(raw);
  free(got_codes), free(got_scales);
}

static void expect_copied(const nabla_checkpoint *from,
                          const nabla_checkpoint *to, const char *name) {
  size_t size_a, size_b;
  void *a = model_bytes(from, name, &size_a),
       *b = model_bytes(to, name, &size_b);
  cr_expect_eq(size_a, size_b);
  cr_expect_arr_eq(a, b, size_a, "%s", name);
  cr_expect_eq(model_tensor_of(from, name).dtype,
               model_tensor_of(to, name).dtype);
  free(a), free(b);
}

Test(quantize, zoo_is_encoded_exactly) {
  model_write(source, zoo, COUNT(zoo));
  use_zoo_rules();
  GOOD(quantize(source, out, 0));
  cr_expect_eq(summary.tensors, COUNT(zoo));
  cr_expect_eq(summary.changed, 7);
  cr_expect_eq(summary.files, 1);
  size_t size;
  free(model_slurp(out, &size));
  cr_expect_eq(summary.bytes_out, size);
  free(model_slurp(source, &size));
  cr_expect_eq(summary.bytes_in, size);
  nabla_checkpoint *from = model_open(source), *to = model_open(out);
  for (size_t i = 0; i < 7; i++) expect_encoded(from, to, zoo[i].name);
  expect_copied(from, to, "steps");
  expect_copied(from, to, "none");
  cr_expect_eq(model_tensor_of(to, "double.weight").dtype, NABLA_DTYPE_F64);
  nabla_checkpoint_close(from);
  nabla_checkpoint_close(to);
}

typedef struct plain_case {
  const char *encoding;
  uint64_t block;
  nabla_layout_choice layout;
} plain_case;

static const plain_case plain[] = {
    {"nf4", 0, NABLA_CHOOSE_BITSANDBYTES}, {"fp4", 4096, NABLA_CHOOSE_AUTO},
    {"nf4", 16, NABLA_CHOOSE_NABLA},       {"int8", 0, NABLA_CHOOSE_AUTO},
    {"int8", 0, NABLA_CHOOSE_NABLA},       {"int8", 16, NABLA_CHOOSE_AUTO},
    {"int8", 4096, NABLA_CHOOSE_AUTO},
};

ParameterizedTestParameters(quantize, every_method_is_encoded_exactly) {
  static size_t rows[COUNT(plain)];
  for (size_t i = 0; i < COUNT(plain); i++) rows[i] = i;
  return cr_make_param_array(size_t, rows, COUNT(plain));
}

static float *values_of(const char *path, const char *name) {
  nabla_checkpoint *checkpoint = model_open(path);
  float *values = model_bytes(checkpoint, name, NULL);
  nabla_checkpoint_close(checkpoint);
  return values;
}

/* Also: written again from what it decodes to, NF4 is the same file; FP4 has
 * two zeros, so that only the values are the same. */
ParameterizedTest(size_t *row, quantize, every_method_is_encoded_exactly) {
  static const model_tensor model[] = {
      {"a.weight", NABLA_DTYPE_F32, 2, {301, 67}, NULL},
      {"b.weight", NABLA_DTYPE_F32, 2, {3, 5}, NULL}};
  model_write(source, model, 2);
  options.encoding = nabla_encoding_find(plain[*row].encoding);
  options.settings.block = plain[*row].block;
  options.layout = plain[*row].layout;
  const nabla_quantize_rule rule = {"b", options.encoding, options.settings};
  options.rules = &rule, options.rule_count = 1; /* it would grow */
  GOOD(quantize(source, out, 0));
  nabla_checkpoint *from = model_open(source), *to = model_open(out);
  expect_encoded(from, to, "a.weight");
  expect_encoded(from, to, "b.weight");
  nabla_checkpoint_close(from);
  nabla_checkpoint_close(to);
  decode_options.has_dtype = 1;
  decode_options.dtype = NABLA_DTYPE_F32;
  GOOD(dequantize(out, back));
  if (options.encoding->bits > 4) return; /* int8 rescales its own values */
  char again[256];
  temp_folder_path(&folder, "again.safetensors", again);
  GOOD(quantize(back, again, 0));
  if (!strcmp(options.encoding->name, "nf4"))
    cr_expect(model_same_files(out, again));
  char last[256];
  temp_folder_path(&folder, "last.safetensors", last);
  GOOD(dequantize(again, last));
  float *first = values_of(back, "a.weight");
  float *second = values_of(last, "a.weight");
  for (size_t i = 0; i < 301 * 67; i++)
    cr_assert(first[i] == second[i], "%zu", i);
  free(first), free(second);
}

/* A row larger than a tile is read twice and cut; no byte shows it. */
Test(quantize, huge_rows) {
  const size_t row = 700000;
  float *values = malloc(2 * row * sizeof *values);
  model_fill(values, 2 * row, 5);
  values[row - 1] = 9; /* the first row's absmax is its last value */
  values[row] = -7;    /* the second row's is its first            */
  const model_tensor model[] = {
      {"wide.weight", NABLA_DTYPE_F32, 2, {2, row}, values}};
  model_write(source, model, 1);
  options.encoding = nabla_encoding_find("int8");
  for (uint32_t threads = 1; threads <= 7; threads += 3) {
    GOOD(nabla_pool_create(threads, NULL, &environment.pool, &diag));
    GOOD(quantize(source, out, 1));
    nabla_pool_destroy(environment.pool);
    environment.pool = NULL;
    nabla_checkpoint *from = model_open(source), *to = model_open(out);
    expect_encoded(from, to, "wide.weight");
    cr_expect_eq(model_tensor_of(to, "wide.weight").format.block, row);
    nabla_checkpoint_close(from);
    nabla_checkpoint_close(to);
  }
  decode_options.has_dtype = 1;
  decode_options.dtype = NABLA_DTYPE_F32;
  GOOD(dequantize(out, back));
  nabla_checkpoint *to = model_open(back);
  float *decoded = model_bytes(to, "wide.weight", NULL);
  for (size_t i = 0; i < 2 * row; i++) {
    const float absmax = i < row ? 9 : 7;
    cr_assert_lt(fabsf(decoded[i] - values[i]), absmax / 250, "%zu", i);
  }
  nabla_checkpoint_close(to);
  free(decoded);
  free(values);
}

/* ---- what does not fit ------------------------------------------------------
 */

/* `value` at `index` of [4, 70000], which is more than one tile. */
static float *plant(size_t index, float value) {
  float *values = malloc(280000 * sizeof *values);
  model_fill(values, 280000, 3);
  values[index] = value;
  const model_tensor model[] = {
      {"a.weight", NABLA_DTYPE_F32, 2, {20, 20}, NULL},
      {"x.weight", NABLA_DTYPE_F32, 2, {4, 70000}, values}};
  model_write(source, model, 2);
  return values;
}

static void expect_planted(size_t index, nabla_status status) {
  nabla_checkpoint *checkpoint = model_open(source);
  const nabla_tensor tensor = model_tensor_of(checkpoint, "x.weight");
  const uint64_t offset =
      nabla_tensor_file_entry(nabla_checkpoint_borrow_shard(checkpoint, 0),
                              tensor.data.entry)
          .offset;
  nabla_checkpoint_close(checkpoint);
  char text[32];
  (void)snprintf(text, sizeof text, "index %zu", index);
  cr_assert_eq(quantize(source, out, 0), status, "%s", diag.what);
  cr_expect_str_eq(diag.tensor, "x.weight");
  cr_expect_str_eq(diag.file, source);
  cr_expect(strstr(diag.what, text), "%s", diag.what);
  cr_expect_eq(diag.offset, offset + 4 * index);
  cr_expect_neq(diag.next[0], 0);
  cr_expect_not(model_exists(out));
  cr_expect_eq(temp_folder_count(&folder), 1);
}

Test(quantize, not_finite_is_refused_with_its_place) {
  static const size_t places[] = {0, 69999, 100001, 279999};
  static const char *const encodings[] = {"nf4", "fp4", "int8"};
  for (size_t p = 0; p < COUNT(places); p++)
    for (size_t e = 0; e < COUNT(encodings); e++) {
      options.encoding = nabla_encoding_find(encodings[e]);
      free(plant(places[p], p % 2 ? NAN : -INFINITY));
      GOOD(nabla_pool_create(1 + (uint32_t)e, NULL, &environment.pool, &diag));
      expect_planted(places[p], NABLA_NOT_FINITE);
      cr_expect(strstr(diag.what, p % 2 ? "NaN" : "infinite"));
      cr_expect(strstr(diag.next, "keep the tensor"));
      nabla_pool_destroy(environment.pool);
      environment.pool = NULL;
    }
}

Test(quantize, not_finite_can_be_kept) {
  free(plant(123456, NAN));
  options.nonfinite = NABLA_NONFINITE_KEEP;
  GOOD(quantize(source, out, 0));
  cr_expect_eq(summary.changed, 1);
  nabla_checkpoint *from = model_open(source), *to = model_open(out);
  expect_copied(from, to, "x.weight");
  expect_encoded(from, to, "a.weight");
  nabla_checkpoint_close(from);
  nabla_checkpoint_close(to);
}

/* LLM.int8 decodes through q * absmax, which overflows above FLT_MAX / 127. */
Test(quantize, llm_int8_overflow_is_refused) {
  options.encoding = nabla_encoding_find("int8");
  free(plant(200001, -1e37f));
  expect_planted(200001, NABLA_UNSUPPORTED);
  cr_expect(strstr(diag.what, "LLM.int8"), "%s", diag.what);
  options.settings.block = 64; /* blocks can hold it */
  GOOD(quantize(source, out, 0));
}

Test(quantize, llm_int8_overflow_in_a_huge_row_is_refused) {
  const size_t row = 300000;
  float *values = malloc(2 * row * sizeof *values);
  model_fill(values, 2 * row, 3);
  values[row + 270000] = 3e38f;
  const model_tensor model[] = {
      {"x.weight", NABLA_DTYPE_F32, 2, {2, row}, values}};
  model_write(source, model, 1);
  options.encoding = nabla_encoding_find("int8");
  expect_planted(row + 270000, NABLA_UNSUPPORTED);
  values[row + 270000] = INFINITY;
  model_write(source, model, 1);
  expect_planted(row + 270000, NABLA_NOT_FINITE);
  free(values);
}

/* ---- decoding
 * ---------------------------------------------------------------- */

Test(quantize, decoding_gives_the_dtype_asked_for) {
  static const nabla_dtype dtypes[] = {NABLA_DTYPE_F32, NABLA_DTYPE_F16,
                                       NABLA_DTYPE_BF16, NABLA_DTYPE_COUNT};
  const nabla_quantize_rule rule = {"weight$", options.encoding, {.block = 0}};
  options.rules = &rule, options.rule_count = 1;
  model_write(source, zoo, COUNT(zoo));
  GOOD(quantize(source, out, 0));
  nabla_checkpoint *packed = model_open(out);
  for (size_t d = 0; d < COUNT(dtypes); d++) {
    decode_options.has_dtype = dtypes[d] != NABLA_DTYPE_COUNT;
    decode_options.dtype = decode_options.has_dtype ? dtypes[d] : 0;
    unlink(back);
    GOOD(dequantize(out, back));
    cr_expect_eq(summary.changed, 6);
    nabla_checkpoint *to = model_open(back);
    cr_expect_eq(nabla_checkpoint_count(to), COUNT(zoo));
    expect_copied(packed, to, "steps");
    expect_copied(packed, to, "vector");
    for (size_t i = 0; i < 6; i++) {
      const nabla_tensor tensor = model_tensor_of(to, zoo[i].name);
      cr_expect_eq(tensor.layout, NABLA_LAYOUT_DENSE);
      cr_expect_eq(tensor.dtype,
                   decode_options.has_dtype ? dtypes[d] : zoo[i].dtype);
      cr_expect_eq(tensor.rank, zoo[i].rank);
    }
    nabla_checkpoint_close(to);
  }
  nabla_checkpoint_close(packed);
  decode_options.has_dtype = 1;
  decode_options.dtype = NABLA_DTYPE_I8;
  unlink(back);
  cr_expect_eq(dequantize(out, back), NABLA_INVALID_ARGUMENT);
  cr_expect_not(model_exists(back));
}

Test(quantize, decoded_values_are_rounded_once) {
  static const model_tensor model[] = {
      {"a.weight", NABLA_DTYPE_F32, 2, {100, 77}, NULL}};
  const size_t count = 7700;
  model_write(source, model, 1);
  GOOD(quantize(source, out, 0));
  decode_options.has_dtype = 1;
  decode_options.dtype = NABLA_DTYPE_F32;
  GOOD(dequantize(out, back));
  nabla_checkpoint *checkpoint = model_open(back);
  float *exact = model_bytes(checkpoint, "a.weight", NULL);
  nabla_checkpoint_close(checkpoint);
  static const nabla_dtype dtypes[] = {NABLA_DTYPE_F16, NABLA_DTYPE_BF16};
  for (size_t d = 0; d < 2; d++) {
    uint16_t *wanted = malloc(count * sizeof *wanted);
    cr_assert_eq(nabla_from_f32(dtypes[d], exact, count, wanted), 0);
    decode_options.dtype = dtypes[d];
    unlink(back);
    GOOD(dequantize(out, back));
    checkpoint = model_open(back);
    uint16_t *got = model_bytes(checkpoint, "a.weight", NULL);
    cr_expect_arr_eq(got, wanted, count * sizeof *wanted);
    nabla_checkpoint_close(checkpoint);
    free(wanted), free(got);
  }
  free(exact);
}

Test(quantize, values_beyond_the_dtype_are_refused) {
  free(plant(100001, 70000));
  GOOD(quantize(source, out, 0));
  decode_options.has_dtype = 1;
  decode_options.dtype = NABLA_DTYPE_F16;
  cr_assert_eq(dequantize(out, back), NABLA_UNSUPPORTED);
  cr_expect_str_eq(diag.tensor, "x.weight");
  cr_expect(strstr(diag.what, "70000 at index 100001"), "%s", diag.what);
  cr_expect(strstr(diag.next, "wider dtype"), "%s", diag.next);
  cr_expect_not(model_exists(back));
  decode_options.dtype = NABLA_DTYPE_BF16;
  GOOD(dequantize(out, back));
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

Test(quantize, scales_that_are_not_finite_are_refused) {
  free(plant(0, 0));
  GOOD(quantize(source, out, 0));
  poke(out, "x.weight.absmax", 4321, INFINITY);
  cr_assert_eq(dequantize(out, back), NABLA_NOT_FINITE);
  cr_expect_str_eq(diag.tensor, "x.weight");
  cr_expect(strstr(diag.what, "scale 4321"), "%s", diag.what);
  cr_expect_not(model_exists(back));
}

/* bitsandbytes' searched files hold negative scales: they decode. */
Test(quantize, negative_scales_decode) {
  static const model_tensor model[] = {
      {"a.weight", NABLA_DTYPE_F32, 2, {2, 64}, NULL}};
  model_write(source, model, 1);
  GOOD(quantize(source, out, 0));
  decode_options.has_dtype = 1;
  decode_options.dtype = NABLA_DTYPE_F32;
  GOOD(dequantize(out, back));
  nabla_checkpoint *checkpoint = model_open(back);
  float *plus = model_bytes(checkpoint, "a.weight", NULL);
  nabla_checkpoint_close(checkpoint);
  checkpoint = model_open(out);
  float *absmax = model_bytes(checkpoint, "a.weight.absmax", NULL);
  nabla_checkpoint_close(checkpoint);
  poke(out, "a.weight.absmax", 1, -absmax[1]);
  unlink(back);
  GOOD(dequantize(out, back));
  checkpoint = model_open(back);
  float *minus = model_bytes(checkpoint, "a.weight", NULL);
  nabla_checkpoint_close(checkpoint);
  for (size_t i = 0; i < 128; i++)
    cr_expect(minus[i] == (i < 64 ? plus[i] : -plus[i]), "%zu", i);
  free(plus), free(minus), free(absmax);
}

/* ---- where outputs go
 * -------------------------------------------------------- */

/* Two shards and an index; returns the index's path in `index`. */
static void write_sharded(char *index) {
  static const char json[] =
      "{\"weight_map\": {\"a.weight\": \"m1.safetensors\", \"b.weight\": "
      "\"m2.safetensors\", \"c.bias\": \"m2.safetensors\"}}";
  static const model_tensor a[] = {
      {"a.weight", NABLA_DTYPE_F32, 2, {9, 64}, NULL}};
  static const model_tensor b[] = {
      {"b.weight", NABLA_DTYPE_F16, 2, {30, 64}, NULL},
      {"c.bias", NABLA_DTYPE_F32, 1, {7}, NULL}};
  char at[256];
  temp_folder_path(&folder, "m1.safetensors", at);
  model_write(at, a, 1);
  temp_folder_path(&folder, "m2.safetensors", at);
  model_write(at, b, 2);
  temp_folder_write(&folder, NABLA_INDEX_NAME, json, sizeof json - 1);
  temp_folder_path(&folder, NABLA_INDEX_NAME, index);
}

static void in_folder(const char *parent, const char *name, char *path) {
  const int length = snprintf(path, 256, "%s/%s", parent, name);
  cr_assert(length > 0 && length < 256);
}

Test(quantize, shards_stay_shards_in_a_folder) {
  char index[256], to[256], at[256], merged[256];
  nabla_verify_summary verified;
  write_sharded(index);
  temp_folder_path(&folder, "q", to);
  GOOD(quantize(index, to, 0));
  cr_expect_eq(summary.files, 2);
  cr_expect_eq(model_count_names(to), 3);
  in_folder(to, "m2.safetensors", at);
  cr_expect(model_exists(at));
  in_folder(to, NABLA_INDEX_NAME, at);
  nabla_checkpoint *checkpoint = model_open(at);
  uint64_t total;
  cr_expect_eq(nabla_checkpoint_index_total(checkpoint, &total), 1);
  cr_expect_eq(nabla_checkpoint_count(checkpoint), 3);
  nabla_checkpoint_close(checkpoint);
  GOOD(nabla_verify(to, NULL, NULL, NULL, &verified, &diag));
  cr_expect_eq(verified.packed, 2);
  /* merged into one file: the same tensors */
  temp_folder_path(&folder, "merged.safetensors", merged);
  GOOD(quantize(folder.path, merged, 0));
  cr_expect_eq(summary.files, 1);
  nabla_checkpoint *one = model_open(merged), *two = model_open(to);
  static const char *const names[] = {"a.weight", "a.weight.absmax", "b.weight",
                                      "b.weight.absmax", "c.bias"};
  for (size_t i = 0; i < COUNT(names); i++) {
    size_t size_a, size_b;
    void *x = model_bytes(one, names[i], &size_a);
    void *y = model_bytes(two, names[i], &size_b);
    cr_expect(size_a == size_b && !memcmp(x, y, size_a), "%s", names[i]);
    free(x), free(y);
  }
  nabla_checkpoint_close(one);
  nabla_checkpoint_close(two);
}

Test(quantize, an_index_can_be_named) {
  char index[256], to[256], at[256];
  write_sharded(index);
  temp_folder_path(&folder, "q", to);
  in_folder(to, "other.safetensors.index.json", at);
  GOOD(quantize(index, at, 0));
  cr_expect_eq(model_count_names(to), 3);
  nabla_checkpoint_close(model_open(at));
  cr_expect_eq(quantize(index, "x.json", 0), NABLA_INVALID_ARGUMENT);
  cr_expect(strstr(diag.next, "FOLDER/"), "%s", diag.next);
}

Test(quantize, one_file_into_a_folder) {
  char to[256], at[256];
  model_write(source, zoo, COUNT(zoo));
  temp_folder_path(&folder, "q/", to);
  GOOD(quantize(source, to, 0));
  cr_expect_eq(model_count_names(to), 1);
  in_folder(to, "model.safetensors", at);
  cr_expect(model_exists(at));
  GOOD(quantize(source, out, 0));
  cr_expect(model_same_files(out, at));
}

Test(quantize, existing_outputs_are_replaced_by_force_only) {
  char index[256], to[256], at[256];
  write_sharded(index);
  temp_folder_write(&folder, "out.safetensors", "precious", 8);
  cr_expect_eq(quantize(index, out, 0), NABLA_EXISTS);
  cr_expect_str_eq(diag.file, out);
  size_t size;
  uint8_t *content = model_slurp(out, &size);
  cr_expect(size == 8 && !memcmp(content, "precious", 8));
  free(content);
  GOOD(quantize(index, out, 1));
  nabla_checkpoint_close(model_open(out));
  /* a folder */
  temp_folder_path(&folder, "q", to);
  GOOD(quantize(index, to, 0));
  cr_expect_eq(quantize(index, to, 0), NABLA_EXISTS);
  GOOD(quantize(index, to, 1));
  cr_expect_eq(model_count_names(to), 3);
  /* a folder with somebody else's file */
  in_folder(to, "notes.txt", at);
  FILE *notes = fopen(at, "wb");
  cr_assert_not_null(notes);
  fclose(notes);
  cr_expect_eq(quantize(index, to, 1), NABLA_EXISTS);
  cr_expect(strstr(diag.what, "notes.txt"), "%s", diag.what);
  cr_expect_eq(model_count_names(to), 4);
}

Test(quantize, the_input_is_never_the_output) {
  char index[256], alias[256], at[256];
  write_sharded(index);
  model_write(source, zoo, COUNT(zoo));
  temp_folder_path(&folder, "alias.safetensors", alias);
  cr_assert_eq(link(source, alias), 0);
  size_t size, again;
  uint8_t *before = model_slurp(source, &size);
  cr_expect_eq(quantize(source, source, 1), NABLA_INVALID_ARGUMENT);
  cr_expect(strstr(diag.what, "the output is the input"), "%s", diag.what);
  cr_expect_eq(quantize(source, alias, 1), NABLA_INVALID_ARGUMENT);
  cr_expect_eq(dequantize(source, source), NABLA_INVALID_ARGUMENT);
  uint8_t *after = model_slurp(source, &again);
  cr_expect(size == again && !memcmp(before, after, size));
  free(before), free(after);
  /* the folder of the shards, by its own name and by its index */
  cr_expect_eq(quantize(index, folder.path, 1), NABLA_INVALID_ARGUMENT);
  cr_expect_eq(quantize(index, index, 1), NABLA_INVALID_ARGUMENT);
  temp_folder_path(&folder, "m1.safetensors", at);
  cr_expect_eq(quantize(index, at, 1), NABLA_INVALID_ARGUMENT, "a shard");
  /* through a symbolic link */
  temp_folder_path(&folder, "link.safetensors", at);
  cr_assert_eq(symlink(source, at), 0);
  cr_expect_eq(quantize(source, at, 1), NABLA_INVALID_ARGUMENT);
}

Test(quantize, an_empty_file_has_an_empty_output) {
  temp_folder_write_safetensors(&folder, "in.safetensors", "{}", 0);
  GOOD(quantize(source, out, 0));
  nabla_checkpoint *checkpoint = model_open(out);
  cr_expect_eq(nabla_checkpoint_count(checkpoint), 0);
  nabla_checkpoint_close(checkpoint);
}

/* Names of companions may be taken. */
Test(quantize, outputs_that_nobody_could_read_are_refused) {
  static const model_tensor clash[] = {
      {"a.weight", NABLA_DTYPE_F32, 2, {2, 64}, NULL},
      {"a.weight.absmax", NABLA_DTYPE_F32, 1, {2}, NULL}};
  model_write(source, clash, 2);
  cr_expect_eq(quantize(source, out, 0), NABLA_UNSUPPORTED);
  cr_expect_str_eq(diag.tensor, "a.weight");
  cr_expect(strstr(diag.what, "'a.weight.absmax'"), "%s", diag.what);
  cr_expect_not(model_exists(out));
  static const model_tensor scb[] = {
      {"a.weight", NABLA_DTYPE_F32, 2, {2, 64}, NULL},
      {"a.SCB", NABLA_DTYPE_F32, 1, {2}, NULL}};
  model_write(source, scb, 2);
  options.encoding = nabla_encoding_find("int8");
  options.layout = NABLA_CHOOSE_NABLA;
  cr_expect_eq(quantize(source, out, 0), NABLA_UNSUPPORTED);
  cr_expect_str_eq(diag.tensor, "a.weight");
  cr_expect(strstr(diag.what, "'a.SCB'"), "%s", diag.what);
  cr_expect_not(model_exists(out));
  options.encoding = nabla_encoding_find("nf4"); /* not I8: no confusion */
  GOOD(quantize(source, out, 0));
  nabla_checkpoint_close(model_open(out));
}

/* ---- labels
 * -------------------------------------------------------------------- */

static const char *metadata_of(const nabla_checkpoint *checkpoint,
                               const char *wanted) {
  const nabla_tensor_file *file = nabla_checkpoint_borrow_shard(checkpoint, 0);
  for (size_t i = 0; i < nabla_tensor_file_metadata_count(file); i++) {
    const char *key, *value;
    nabla_tensor_file_metadata(file, i, &key, &value);
    if (!strcmp(key, wanted)) return value;
  }
  return NULL;
}

Test(quantize, files_are_labelled) {
  static const char json[] =
      "{\"__metadata__\": {\"format\": \"pt\", \"nabla.layout\": \"lies\"}, "
      "\"a.weight\": {\"dtype\": \"F32\", \"shape\": [16, 64], "
      "\"data_offsets\": [0, 4096]}}";
  temp_folder_write_safetensors(&folder, "in.safetensors", json, 4096);
  GOOD(quantize(source, out, 0));
  nabla_checkpoint *checkpoint = model_open(out);
  cr_expect_str_eq(metadata_of(checkpoint, "format"), "pt");
  cr_expect_str_eq(metadata_of(checkpoint, "nabla.layout"), "bitsandbytes");
  cr_expect_null(metadata_of(checkpoint, "nabla.version"));
  nabla_checkpoint_close(checkpoint);
  options.layout = NABLA_CHOOSE_NABLA;
  GOOD(quantize(source, out, 1));
  checkpoint = model_open(out);
  cr_expect_str_eq(metadata_of(checkpoint, "nabla.layout"), "nabla");
  cr_expect_str_eq(metadata_of(checkpoint, "nabla.version"), "1");
  nabla_checkpoint_close(checkpoint);
  GOOD(dequantize(out, back));
  checkpoint = model_open(back);
  cr_expect_str_eq(metadata_of(checkpoint, "format"), "pt");
  cr_expect_null(metadata_of(checkpoint, "nabla.layout"));
  nabla_checkpoint_close(checkpoint);
}

/* ---- the world changes meanwhile
 * ------------------------------------------------ */

/* Appends to the input, or rewrites a value, at the third write. */
static void meddle(void *context, faulty_call kind, const char *path) {
  (void)path;
  int *writes = context;
  if (kind != FAULTY_PWRITE || ++*writes != 3) return;
  FILE *stream = fopen(source, "r+b");
  if (!stream) return;
  fseek(stream, -4, SEEK_END);
  fwrite("abcd", 4, 1, stream);
  fclose(stream);
}

Test(quantize, an_input_that_changes_is_refused) {
  faulty_os os;
  int writes = 0;
  model_write(source, zoo, COUNT(zoo));
  usleep(20000); /* so that the new time of modification differs */
  faulty_os_init(&os, NULL);
  os.before = meddle;
  os.context = &writes;
  environment.os = &os.os;
  cr_assert_eq(quantize(source, out, 0), NABLA_CORRUPT, "%s", diag.what);
  cr_expect_geq(writes, 3);
  cr_expect(strstr(diag.what, "changed"), "%s", diag.what);
  cr_expect_str_eq(diag.file, source);
  cr_expect_not(model_exists(out));
  cr_expect_eq(temp_folder_count(&folder), 1);
  cr_expect_eq(os.open_fds, 0);
}

static int stop_late(void *self, const nabla_progress *progress) {
  int *calls = self;
  cr_expect_not_null(progress->phase);
  return ++*calls == 3;
}

Test(quantize, progress_can_stop_it) {
  int calls = 0;
  model_write(source, zoo, COUNT(zoo));
  environment.progress = stop_late;
  environment.progress_self = &calls;
  cr_assert_eq(quantize(source, out, 0), NABLA_CANCELLED);
  cr_expect_eq(calls, 3);
  cr_expect_not(model_exists(out));
  cr_expect_eq(temp_folder_count(&folder), 1);
}

/* ---- what force may replace ---------------------------------------------- */

static char model_folder[256];

static void write_small(void) {
  static const model_tensor small = {
      "a.weight", NABLA_DTYPE_F32, 2, {2, 64}, NULL};
  model_write(source, &small, 1);
  options.encoding = nabla_encoding_find("nf4");
  temp_folder_path(&folder, "to", model_folder);
}

static void put_in_folder(const char *name) {
  char path[512];
  in_folder(model_folder, name, path);
  static const model_tensor other = {
      "other.weight", NABLA_DTYPE_F32, 2, {2, 64}, NULL};
  model_write(path, &other, 1);
}

Test(quantize, force_replaces_a_folder_only_if_it_is_a_checkpoint) {
  write_small();
  cr_assert_eq(mkdir(model_folder, 0777), 0);
  put_in_folder("llama.safetensors");
  GOOD(quantize(source, model_folder, 1)); /* one file is a checkpoint */
  put_in_folder("lora.safetensors");
  cr_expect_eq(quantize(source, model_folder, 1), NABLA_EXISTS);
  cr_expect(strstr(diag.what, "'lora.safetensors'"), "%s", diag.what);
  cr_expect_eq(model_count_names(model_folder), 2);
}

Test(quantize, an_empty_folder_needs_no_force) {
  write_small();
  cr_assert_eq(mkdir(model_folder, 0777), 0);
  GOOD(quantize(source, model_folder, 0));
  cr_expect_eq(quantize(source, model_folder, 0), NABLA_EXISTS);
}

/* A cache keeps links to files that lie elsewhere. */
Test(quantize, an_input_behind_a_link_is_never_replaced) {
  char link[512], real[512];
  write_small();
  cr_assert_eq(mkdir(model_folder, 0777), 0);
  in_folder(model_folder, "model.safetensors", real);
  cr_assert_eq(rename(source, real), 0);
  temp_folder_path(&folder, "link.safetensors", link);
  cr_assert_eq(symlink("to/model.safetensors", link), 0);
  cr_expect_eq(quantize(link, model_folder, 1), NABLA_INVALID_ARGUMENT);
  cr_expect(model_exists(real));
}

/* ---- tensors that only look like something else -------------------------- */

/* Finite, but 127 times it is not: a foreign file may say so. */
Test(quantize, scales_that_decode_to_infinity_are_refused) {
  static const int8_t codes[4] = {127, 1, 0, -127};
  static const float scale[1] = {3e38f};
  const model_tensor packed[] = {{"p.weight", NABLA_DTYPE_I8, 2, {1, 4}, codes},
                                 {"p.SCB", NABLA_DTYPE_F32, 1, {1}, scale}};
  nabla_verify_summary seen;
  model_write(source, packed, 2);
  cr_expect_eq(nabla_verify(source, NULL, NULL, NULL, &seen, &diag),
               NABLA_NOT_FINITE);
  cr_expect_str_eq(diag.tensor, "p.weight");
  cr_expect_eq(dequantize(source, out), NABLA_NOT_FINITE);
  cr_expect(strstr(diag.what, "index 0"), "%s", diag.what);
  cr_expect_not(model_exists(out));
}

/* Only a description that says so makes a companion of it. */
Test(quantize, a_tensor_called_nested_absmax_survives) {
  static const model_tensor pair[] = {
      {"a.weight", NABLA_DTYPE_F32, 2, {2, 64}, NULL},
      {"a.weight.nested_absmax", NABLA_DTYPE_F32, 1, {3}, NULL}};
  model_write(source, pair, 2);
  options.encoding = nabla_encoding_find("nf4");
  GOOD(quantize(source, out, 0));
  GOOD(dequantize(out, back));
  nabla_checkpoint *checkpoint = model_open(back);
  cr_expect_eq(nabla_checkpoint_count(checkpoint), 2);
  nabla_checkpoint_close(checkpoint);
}

/* I8 beside an SCB of another type is no LLM.int8. */
Test(quantize, an_scb_of_another_type_is_dense) {
  static const model_tensor pair[] = {
      {"p.weight", NABLA_DTYPE_I8, 2, {2, 4}, NULL},
      {"p.SCB", NABLA_DTYPE_F16, 1, {2}, NULL}};
  model_write(source, pair, 2);
  nabla_checkpoint *checkpoint = model_open(source);
  cr_expect_eq(nabla_checkpoint_count(checkpoint), 2);
  nabla_checkpoint_close(checkpoint);
}

/* Who writes "out.bin" means a file, not a folder. */
Test(quantize, a_folder_is_not_named_like_a_file) {
  static const char *const wrong[] = {"x.bin", "x.safetensor", "x.SAFETENSORS",
                                      "x.gguf", "x.safetensors/"};
  write_small();
  for (size_t i = 0; i < COUNT(wrong); i++) {
    char at[256];
    temp_folder_path(&folder, wrong[i], at);
    cr_expect_eq(quantize(source, at, 0), NABLA_INVALID_ARGUMENT, "%s",
                 wrong[i]);
    cr_expect(strstr(diag.next, ".safetensors"), "%s", diag.next);
    cr_expect_not(model_exists(at));
  }
}
