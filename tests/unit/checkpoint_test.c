/* Opening checkpoints: how companion tensors are grouped with their weight in
 * each layout, and what is refused. */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "quant/codec/codec.h"
#include "quant/formats/packed.h"
#include "tests/support/codec_calls.h"
#include "tests/support/model.h"
#include "tests/support/temp_folder.h"

#define NF4_STATE "x.weight.quant_state.bitsandbytes__nf4"
#define COUNT(a)  (sizeof(a) / sizeof *(a))

static temp_folder folder;
static char path[256];
static nabla_diag diag;
static nabla_checkpoint *checkpoint;

/* The file in the making. */
static model_tensor parts[8];
static size_t count;
static float table[16];

static const char good_state[] =
    "{\"quant_type\": \"nf4\", \"blocksize\": 64, \"dtype\": \"bfloat16\", "
    "\"shape\": [4, 32]}";
static const char good_format[] =
    "{\"version\": 1, \"encoding\": \"nf4\", \"block\": 64, \"scale\": "
    "\"F32\", \"dtype\": \"F16\", \"shape\": [4, 32]}";

static void set_up(void) {
  nabla_codec codec;
  const nabla_format format = {.encoding = nabla_encoding_find("nf4"),
                               .granularity = NABLA_PER_BLOCK,
                               .block = 64};
  uint8_t codes[8];
  const float one = 1;
  for (int i = 0; i < 16; i += 2) codes[i / 2] = (uint8_t)(i << 4 | (i + 1));
  cr_assert_eq(select_codec(&format, NABLA_ISA_SCALAR, &codec, NULL), 0);
  decode_f32(&codec, codes, &one, 16, table);
  temp_folder_create(&folder);
  temp_folder_path(&folder, "x.safetensors", path);
  diag = (nabla_diag)NABLA_DIAG_INIT;
}

static void tear_down(void) {
  nabla_checkpoint_close(checkpoint);
  model_remove_tree(folder.path);
}

TestSuite(checkpoint, .init = set_up, .fini = tear_down);

static void begin_parts(void) {
  static const model_tensor dense = {"a.bias", NABLA_DTYPE_F16, 1, {3}, NULL};
  parts[0] = dense;
  count = 1;
}

static model_tensor *add_part(const char *name, nabla_dtype dtype,
                              uint64_t elements, const void *data) {
  parts[count] = (model_tensor){name, dtype, 1, {elements}, data};
  return &parts[count++];
}

/* [4, 32] in blocks of 64: 64 bytes of codes, 2 scales. */
static void make_bitsandbytes(const char *state) {
  begin_parts();
  model_tensor *codes = add_part("x.weight", NABLA_DTYPE_U8, 64, NULL);
  codes->rank = 2;
  codes->shape[1] = 1;
  add_part("x.weight.absmax", NABLA_DTYPE_F32, 2, NULL);
  add_part("x.weight.quant_map", NABLA_DTYPE_F32, 16, table);
  add_part(NF4_STATE, NABLA_DTYPE_U8, strlen(state), state);
}

static void make_nabla(const char *format) {
  begin_parts();
  add_part("x.weight", NABLA_DTYPE_U8, 64, NULL);
  add_part("x.weight.nabla.scales", NABLA_DTYPE_F32, 2, NULL);
  add_part("x.weight.nabla.format", NABLA_DTYPE_U8, strlen(format), format);
}

static void make_int8(void) {
  static const uint8_t row_order = 0;
  begin_parts();
  model_tensor *codes = add_part("x.weight", NABLA_DTYPE_I8, 4, NULL);
  codes->rank = 2;
  codes->shape[1] = 32;
  add_part("x.SCB", NABLA_DTYPE_F32, 4, NULL);
  add_part("x.weight_format", NABLA_DTYPE_U8, 1, &row_order)->rank = 0;
}

static nabla_status open_path(const char *at) {
  nabla_checkpoint_close(checkpoint);
  checkpoint = NULL;
  diag = (nabla_diag)NABLA_DIAG_INIT;
  nabla_status status = nabla_checkpoint_open(at, NULL, &checkpoint, &diag);
  if (status) cr_expect_null(checkpoint);
  return status;
}

static nabla_status open_parts(void) {
  model_write(path, parts, count);
  return open_path(path);
}

static model_tensor *part(const char *name) {
  for (size_t i = 0; i < count; i++)
    if (!strcmp(parts[i].name, name)) return &parts[i];
  cr_assert_fail("%s", name);
  return NULL;
}

static void drop(const char *name) {
  model_tensor *gone = part(name);
  *gone = parts[--count];
}

static nabla_tensor x(void) { return model_tensor_of(checkpoint, "x.weight"); }

/* ---- good files ---------------------------------------------------------- */

Test(checkpoint, groups_bitsandbytes_4bit) {
  make_bitsandbytes(good_state);
  cr_assert_eq(open_parts(), NABLA_OK, "%s", diag.what);
  cr_expect_eq(nabla_checkpoint_count(checkpoint), 2);
  cr_expect_eq(nabla_checkpoint_has_index(checkpoint), 0);
  cr_expect_str_eq(nabla_checkpoint_borrow_path(checkpoint), path);
  cr_expect_str_eq(nabla_checkpoint_shard_name(checkpoint, 0), "x.safetensors");
  const nabla_tensor tensor = x();
  cr_expect_eq(tensor.layout, NABLA_LAYOUT_BITSANDBYTES);
  cr_expect_eq(tensor.dtype, NABLA_DTYPE_BF16);
  cr_expect_eq(tensor.rank, 2);
  cr_expect_eq(tensor.shape[0], 4);
  cr_expect_eq(tensor.shape[1], 32);
  cr_expect_eq(tensor.elements, 128);
  cr_expect_str_eq(tensor.format.encoding->name, "nf4");
  cr_expect_eq(tensor.format.block, 64);
  cr_expect_eq(tensor.format.granularity, NABLA_PER_BLOCK);
  cr_expect_eq(tensor.stored_bytes, 64 + 8 + 64 + strlen(good_state));
  cr_expect_null(tensor.unsupported);
  const nabla_tensor_file *file = nabla_checkpoint_borrow_shard(checkpoint, 0);
  cr_expect_str_eq(nabla_tensor_file_entry(file, tensor.data.entry).name,
                   "x.weight");
  cr_expect_str_eq(nabla_tensor_file_entry(file, tensor.scales.entry).name,
                   "x.weight.absmax");
  const nabla_tensor bias = model_tensor_of(checkpoint, "a.bias");
  cr_expect_eq(bias.layout, NABLA_LAYOUT_DENSE);
  cr_expect_eq(bias.dtype, NABLA_DTYPE_F16);
  cr_expect_eq(bias.stored_bytes, 6);
  cr_expect_eq(nabla_checkpoint_find(checkpoint, "x.weight.absmax", 15),
               SIZE_MAX, "companions are no logical tensors");
  cr_expect_eq(nabla_checkpoint_find(checkpoint, "nope", 4), SIZE_MAX);
}

Test(checkpoint, groups_nabla) {
  make_nabla(good_format);
  cr_assert_eq(open_parts(), NABLA_OK, "%s", diag.what);
  const nabla_tensor tensor = x();
  cr_expect_eq(nabla_checkpoint_count(checkpoint), 2);
  cr_expect_eq(tensor.layout, NABLA_LAYOUT_NABLA);
  cr_expect_eq(tensor.dtype, NABLA_DTYPE_F16);
  cr_expect_eq(tensor.elements, 128);
  cr_expect_eq(tensor.format.block, 64);
  cr_expect_eq(tensor.stored_bytes, 64 + 8 + strlen(good_format));
  cr_expect_null(tensor.unsupported);
}

Test(checkpoint, groups_int8_rows) {
  make_int8();
  cr_assert_eq(open_parts(), NABLA_OK, "%s", diag.what);
  const nabla_tensor tensor = x();
  cr_expect_eq(nabla_checkpoint_count(checkpoint), 2);
  cr_expect_eq(tensor.layout, NABLA_LAYOUT_BITSANDBYTES);
  cr_expect_eq(tensor.format.granularity, NABLA_PER_ROW);
  cr_expect_eq(tensor.format.block, 32);
  cr_expect_str_eq(tensor.format.encoding->name, "int8");
  cr_expect_eq(tensor.stored_bytes, 128 + 16 + 1);
  drop("x.weight_format"); /* older files have none: row order */
  cr_assert_eq(open_parts(), NABLA_OK, "%s", diag.what);
  cr_expect_null(x().unsupported);
  cr_expect_eq(x().format.block, 32);
}

/* SCB means something as F32 and beside an I8 weight only. */
Test(checkpoint, other_scb_is_dense) {
  make_int8();
  part("x.weight")->dtype = NABLA_DTYPE_U8;
  cr_assert_eq(open_parts(), NABLA_OK, "%s", diag.what);
  cr_expect_eq(nabla_checkpoint_count(checkpoint), 4);
  cr_expect_eq(x().layout, NABLA_LAYOUT_DENSE);
  make_int8();
  part("x.SCB")->dtype = NABLA_DTYPE_F16;
  cr_assert_eq(open_parts(), NABLA_OK, "%s", diag.what);
  cr_expect_eq(nabla_checkpoint_count(checkpoint), 4);
  make_int8();
  part("x.SCB")->name = "y.SCB";
  cr_assert_eq(open_parts(), NABLA_OK, "%s", diag.what);
  cr_expect_eq(nabla_checkpoint_count(checkpoint), 4);
  cr_expect_eq(x().layout, NABLA_LAYOUT_DENSE);
}

/* quant_storage: bitsandbytes may keep the same bytes in another dtype. */
Test(checkpoint, codes_may_have_another_storage_dtype) {
  make_bitsandbytes(good_state);
  part("x.weight")->dtype = NABLA_DTYPE_BF16;
  part("x.weight")->shape[0] = 32;
  cr_assert_eq(open_parts(), NABLA_OK, "%s", diag.what);
  cr_expect_null(x().unsupported);
}

/* ---- what is missing, or of another size --------------------------------- */

typedef enum maker { BITSANDBYTES, NABLA, INT8 } maker;

typedef struct spoiled {
  maker make;
  const char *part;   /* what is spoiled                          */
  nabla_dtype dtype;  /* COUNT: it is dropped                     */
  uint64_t elements;  /* of a vector; 0: as it was                */
  const char *blamed; /* the tensor that the error names          */
  const char *what;
} spoiled;

static const spoiled spoils[] = {
    {BITSANDBYTES, "x.weight", NABLA_DTYPE_COUNT, 0, NF4_STATE,
     "without its weight"},
    {BITSANDBYTES, "x.weight.absmax", NABLA_DTYPE_COUNT, 0, "x.weight",
     ".absmax is missing"},
    {BITSANDBYTES, "x.weight.quant_map", NABLA_DTYPE_COUNT, 0, "x.weight",
     ".quant_map is missing"},
    {BITSANDBYTES, "x.weight", NABLA_DTYPE_U8, 63, "x.weight",
     "63 bytes of codes, its description needs 64"},
    {BITSANDBYTES, "x.weight", NABLA_DTYPE_U8, 65, "x.weight", "65 bytes"},
    {BITSANDBYTES, "x.weight.absmax", NABLA_DTYPE_F32, 1, "x.weight.absmax",
     "1 scales of F32, the weight needs 2"},
    {BITSANDBYTES, "x.weight.absmax", NABLA_DTYPE_F32, 3, "x.weight.absmax",
     "3 scales"},
    {BITSANDBYTES, "x.weight.absmax", NABLA_DTYPE_F16, 2, "x.weight.absmax",
     "2 scales of F16"},
    {BITSANDBYTES, "x.weight.quant_map", NABLA_DTYPE_F32, 15,
     "x.weight.quant_map", "16 F32"},
    {BITSANDBYTES, "x.weight.quant_map", NABLA_DTYPE_F16, 16,
     "x.weight.quant_map", "16 F32"},
    {BITSANDBYTES, NF4_STATE, NABLA_DTYPE_I8, sizeof good_state - 1, NF4_STATE,
     "no vector of U8"},
    {BITSANDBYTES, NF4_STATE, NABLA_DTYPE_U8, sizeof good_state - 2, NF4_STATE,
     NULL},
    {NABLA, "x.weight", NABLA_DTYPE_COUNT, 0, "x.weight.nabla.format",
     "without its weight"},
    {NABLA, "x.weight.nabla.scales", NABLA_DTYPE_COUNT, 0, "x.weight",
     ".nabla.scales is missing"},
    {NABLA, "x.weight", NABLA_DTYPE_U8, 32, "x.weight", "32 bytes of codes"},
    {NABLA, "x.weight", NABLA_DTYPE_F32, 16, "x.weight",
     "codes of F32, the encoding nf4 has U8"},
    {NABLA, "x.weight.nabla.scales", NABLA_DTYPE_F32, 4,
     "x.weight.nabla.scales", "4 scales"},
    {NABLA, "x.weight.nabla.scales", NABLA_DTYPE_F64, 2,
     "x.weight.nabla.scales", "2 scales of F64"},
    {NABLA, "x.weight.nabla.format", NABLA_DTYPE_F32, 2,
     "x.weight.nabla.format", "no vector of U8"},
    {INT8, "x.SCB", NABLA_DTYPE_F32, 3, "x.SCB", "3 scales"},
    {INT8, "x.weight_format", NABLA_DTYPE_F32, 1, "x.weight_format",
     "no single U8"},
    {INT8, "x.weight_format", NABLA_DTYPE_U8, 2, "x.weight_format",
     "no single U8"},
};

ParameterizedTestParameters(checkpoint, spoiled_parts_are_refused) {
  static size_t rows[COUNT(spoils)];
  for (size_t i = 0; i < COUNT(spoils); i++) rows[i] = i;
  return cr_make_param_array(size_t, rows, COUNT(spoils));
}

ParameterizedTest(size_t *row, checkpoint, spoiled_parts_are_refused) {
  const spoiled *s = &spoils[*row];
  if (s->make == BITSANDBYTES)
    make_bitsandbytes(good_state);
  else if (s->make == NABLA)
    make_nabla(good_format);
  else
    make_int8();
  if (s->dtype == NABLA_DTYPE_COUNT) {
    drop(s->part);
  } else {
    model_tensor *p = part(s->part);
    const int shorter =
        s->dtype == p->dtype && p->data && s->elements < p->shape[0];
    *p = (model_tensor){
        s->part, s->dtype, 1, {s->elements}, shorter ? p->data : NULL};
  }
  cr_assert_eq(open_parts(), NABLA_CORRUPT, "%s: %s", s->part, diag.what);
  cr_expect_str_eq(diag.tensor, s->blamed);
  cr_expect_str_eq(diag.file, path);
  if (s->what) cr_expect(strstr(diag.what, s->what), "%s", diag.what);
}

/* ---- descriptions -------------------------------------------------------- */

#define N1(rest) "{\"version\": 1, " rest "}"
#define NREST(block, scale, dtype, shape)                          \
  "\"encoding\": \"nf4\", \"block\": " block ", \"scale\": " scale \
  ", \"dtype\": " dtype ", \"shape\": " shape

typedef struct description {
  nabla_layout layout;
  const char *text;
  nabla_status status; /* OK: opened, but cannot be decoded */
  const char *what;
} description;

static const description descriptions[] = {
    /* bitsandbytes */
    {NABLA_LAYOUT_BITSANDBYTES, "", NABLA_CORRUPT, NULL},
    {NABLA_LAYOUT_BITSANDBYTES, "[]", NABLA_CORRUPT, "a description"},
    {NABLA_LAYOUT_BITSANDBYTES, "{}", NABLA_CORRUPT, "lacks a key"},
    {NABLA_LAYOUT_BITSANDBYTES,
     "{\"quant_type\": \"nf4\", \"blocksize\": 64, \"dtype\": \"float32\"}",
     NABLA_CORRUPT, "lacks a key"},
    {NABLA_LAYOUT_BITSANDBYTES,
     "{\"quant_type\": \"fp4\", \"blocksize\": 64, \"dtype\": \"float32\", "
     "\"shape\": [128]}",
     NABLA_CORRUPT, "'fp4' contradicts the suffix 'nf4'"},
    {NABLA_LAYOUT_BITSANDBYTES,
     "{\"quant_type\": \"nf4\", \"blocksize\": 64, \"dtype\": \"float32\", "
     "\"shape\": [128], \"colour\": 1}",
     NABLA_CORRUPT, "unknown key 'colour'"},
    {NABLA_LAYOUT_BITSANDBYTES,
     "{\"quant_type\": \"nf4\", \"blocksize\": 64, \"blocksize\": 64, "
     "\"dtype\": \"float32\", \"shape\": [128]}",
     NABLA_CORRUPT, "repeated key 'blocksize'"},
    {NABLA_LAYOUT_BITSANDBYTES,
     "{\"quant_type\": \"nf4\", \"blocksize\": 64, \"dtype\": \"float64\", "
     "\"shape\": [128]}",
     NABLA_CORRUPT, "bad dtype 'float64'"},
    {NABLA_LAYOUT_BITSANDBYTES,
     "{\"quant_type\": \"nf4\", \"blocksize\": 64, \"dtype\": \"F32\", "
     "\"shape\": [128]}",
     NABLA_CORRUPT, "bad dtype 'F32'"},
    {NABLA_LAYOUT_BITSANDBYTES,
     "{\"quant_type\": \"nf4\", \"blocksize\": -64, \"dtype\": \"float32\", "
     "\"shape\": [128]}",
     NABLA_CORRUPT, "block size"},
    {NABLA_LAYOUT_BITSANDBYTES,
     "{\"quant_type\": \"nf4\", \"blocksize\": \"64\", \"dtype\": "
     "\"float32\", \"shape\": [128]}",
     NABLA_CORRUPT, "block size is no number"},
    {NABLA_LAYOUT_BITSANDBYTES,
     "{\"quant_type\": \"nf4\", \"blocksize\": \"row\", \"dtype\": "
     "\"float32\", \"shape\": [128]}",
     NABLA_CORRUPT, "block size is no number"},
    {NABLA_LAYOUT_BITSANDBYTES,
     "{\"quant_type\": \"nf4\", \"blocksize\": 64, \"dtype\": \"float32\", "
     "\"shape\": [128.0]}",
     NABLA_CORRUPT, NULL},
    {NABLA_LAYOUT_BITSANDBYTES,
     "{\"quant_type\": \"nf4\", \"blocksize\": 64, \"dtype\": \"float32\", "
     "\"shape\": [\"128\"]}",
     NABLA_CORRUPT, "dimension is no number"},
    {NABLA_LAYOUT_BITSANDBYTES,
     "{\"quant_type\": \"nf4\", \"blocksize\": 64, \"dtype\": \"float32\", "
     "\"shape\": [4294967296, 4294967296]}",
     NABLA_TOO_LARGE, "overflows"},
    {NABLA_LAYOUT_BITSANDBYTES,
     "{\"quant_type\": \"nf4\", \"blocksize\": 64, \"dtype\": \"float32\", "
     "\"shape\": [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, "
     "1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 128]}",
     NABLA_TOO_LARGE, "32 dimensions"},
    {NABLA_LAYOUT_BITSANDBYTES,
     "{\"quant_type\": \"nf4\", \"blocksize\": 64, \"dtype\": \"float32\", "
     "\"shape\": [256]}",
     NABLA_CORRUPT, "64 bytes of codes, its description needs 128"},
    {NABLA_LAYOUT_BITSANDBYTES,
     "{\"quant_type\": \"nf4\", \"blocksize\": 64, \"dtype\": \"float32\", "
     "\"shape\": [128]} x",
     NABLA_CORRUPT, NULL},
    {NABLA_LAYOUT_BITSANDBYTES,
     "{\"quant_type\": \"nf4\", \"blocksize\": 48, \"dtype\": \"float32\", "
     "\"shape\": [128]}",
     NABLA_OK, "block size is unknown"},
    {NABLA_LAYOUT_BITSANDBYTES,
     "{\"quant_type\": \"nf4\", \"blocksize\": 0, \"dtype\": \"float32\", "
     "\"shape\": [128]}",
     NABLA_OK, "block size is unknown"},
    {NABLA_LAYOUT_BITSANDBYTES,
     "{\"quant_type\": \"nf4\", \"blocksize\": 64, \"dtype\": \"float32\", "
     "\"shape\": [0, 128]}",
     NABLA_OK, "no elements"},
    {NABLA_LAYOUT_BITSANDBYTES,
     "{\"quant_type\": \"nf4\", \"blocksize\": 64, \"dtype\": \"float32\", "
     "\"shape\": [128], \"nested_blocksize\": 256, \"nested_dtype\": "
     "\"float32\", \"nested_offset\": 0.1}",
     NABLA_CORRUPT, "a nested tensor is missing"},
    /* Nabla */
    {NABLA_LAYOUT_NABLA, "{}", NABLA_CORRUPT, "lacks a key"},
    {NABLA_LAYOUT_NABLA,
     "{\"encoding\": \"nf4\", \"version\": 1, \"block\": 64, \"scale\": "
     "\"F32\", \"dtype\": \"F32\", \"shape\": [128]}",
     NABLA_CORRUPT, "begin with its version"},
    {NABLA_LAYOUT_NABLA,
     "{\"version\": 0, " NREST("64", "\"F32\"", "\"F32\"", "[128]") "}",
     NABLA_CORRUPT, "version 0"},
    {NABLA_LAYOUT_NABLA,
     "{\"version\": \"1\", " NREST("64", "\"F32\"", "\"F32\"", "[128]") "}",
     NABLA_CORRUPT, "a version"},
    {NABLA_LAYOUT_NABLA,
     N1(NREST("64", "\"F32\"", "\"F32\"", "[128]") ", \"x\": 1"), NABLA_CORRUPT,
     "unknown key 'x'"},
    {NABLA_LAYOUT_NABLA,
     N1(NREST("64", "\"F32\"", "\"F32\"", "[128]") ", \"version\": 1"),
     NABLA_CORRUPT, "repeated key 'version'"},
    {NABLA_LAYOUT_NABLA,
     N1(NREST("64", "\"F32\"", "\"F32\"", "[128]") ", \"shape\": [128]"),
     NABLA_CORRUPT, "repeated key 'shape'"},
    {NABLA_LAYOUT_NABLA, N1(NREST("64", "\"F32\"", "\"float32\"", "[128]")),
     NABLA_CORRUPT, "bad dtype 'float32'"},
    {NABLA_LAYOUT_NABLA, N1(NREST("64", "\"F32\"", "\"I8\"", "[128]")),
     NABLA_CORRUPT, "bad dtype 'I8'"},
    {NABLA_LAYOUT_NABLA, N1(NREST("true", "\"F32\"", "\"F32\"", "[128]")),
     NABLA_CORRUPT, "block size is no number"},
    {NABLA_LAYOUT_NABLA, N1(NREST("64", "\"F32\"", "\"F32\"", "128")),
     NABLA_CORRUPT, "a shape"},
    {NABLA_LAYOUT_NABLA, N1(NREST("32", "\"F32\"", "\"F32\"", "[128]")),
     NABLA_CORRUPT, "the weight needs 4"},
    {NABLA_LAYOUT_NABLA, N1(NREST("64", "\"F8_E8M0\"", "\"F32\"", "[128]")),
     NABLA_OK, "scale type 'F8_E8M0' is unknown"},
    {NABLA_LAYOUT_NABLA, N1(NREST("\"row\"", "\"F32\"", "\"F32\"", "[4, 32]")),
     NABLA_OK, "block size is unknown"},
    {NABLA_LAYOUT_NABLA,
     "{\"version\": 1, \"encoding\": \"zz9\", \"block\": 64, \"scale\": "
     "\"F32\", \"dtype\": \"F32\", \"shape\": [128]}",
     NABLA_OK, "encoding 'zz9' is unknown to this version"},
    {NABLA_LAYOUT_NABLA,
     "{\"version\": 7, \"codebook\": {\"a\": [1]}, \"shape\": \"none\"}",
     NABLA_OK, "layout version 7 is newer than this build's 2"},
};

ParameterizedTestParameters(checkpoint, descriptions_are_judged) {
  static size_t rows[COUNT(descriptions)];
  for (size_t i = 0; i < COUNT(descriptions); i++) rows[i] = i;
  return cr_make_param_array(size_t, rows, COUNT(descriptions));
}

ParameterizedTest(size_t *row, checkpoint, descriptions_are_judged) {
  const description *d = &descriptions[*row];
  if (d->layout == NABLA_LAYOUT_BITSANDBYTES)
    make_bitsandbytes(d->text);
  else
    make_nabla(d->text);
  cr_assert_eq(open_parts(), d->status, "%s: %s", d->text, diag.what);
  if (d->status) {
    const char *name =
        d->layout == NABLA_LAYOUT_NABLA ? "x.weight.nabla.format" : NF4_STATE;
    if (!strstr(diag.what, "missing") && !strstr(diag.what, "needs"))
      cr_expect_str_eq(diag.tensor, name);
    cr_expect_str_eq(diag.file, path);
    if (d->what) cr_expect(strstr(diag.what, d->what), "%s", diag.what);
  } else {
    cr_assert_not_null(x().unsupported, "%s", d->text);
    cr_expect(strstr(x().unsupported, d->what), "%s", x().unsupported);
    cr_expect_eq(nabla_checkpoint_count(checkpoint), 2);
  }
}

Test(checkpoint, double_quantization_is_read) {
  make_bitsandbytes(
      "{\"quant_type\": \"nf4\", \"blocksize\": 64, \"dtype\": \"float16\", "
      "\"shape\": [4, 32], \"nested_blocksize\": 256, \"nested_dtype\": "
      "\"float32\", \"nested_offset\": 0.01}");
  part("x.weight.absmax")->dtype = NABLA_DTYPE_U8;
  add_part("x.weight.nested_absmax", NABLA_DTYPE_F32, 1, NULL);
  add_part("x.weight.nested_quant_map", NABLA_DTYPE_F32, 256, NULL);
  cr_assert_eq(open_parts(), NABLA_OK, "%s", diag.what);
  cr_expect_eq(nabla_checkpoint_count(checkpoint), 2);
  cr_expect_null(x().unsupported);
  cr_expect_eq(x().format.scale, NABLA_SCALE_DYNAMIC8);
  cr_assert_not_null(x().nested);
  cr_expect_eq(x().nested->how.block, 256);
  cr_expect_eq(x().nested->how.offset, 0.01f);
  cr_expect_eq(x().elements, 128);
  cr_expect_eq(x().dtype, NABLA_DTYPE_F16);
}

/* 2^32 is 0 in 32 bits, which blocks of scales have in memory. */
Test(checkpoint, nested_block_above_32_bits_is_not_decoded) {
  make_bitsandbytes(
      "{\"quant_type\": \"nf4\", \"blocksize\": 64, \"dtype\": \"float16\", "
      "\"shape\": [4, 32], \"nested_blocksize\": 4294967296, "
      "\"nested_dtype\": \"float32\", \"nested_offset\": 0.01}");
  part("x.weight.absmax")->dtype = NABLA_DTYPE_U8;
  add_part("x.weight.nested_absmax", NABLA_DTYPE_F32, 1, NULL);
  add_part("x.weight.nested_quant_map", NABLA_DTYPE_F32, 256, NULL);
  cr_assert_eq(open_parts(), NABLA_OK, "%s", diag.what);
  cr_assert_not_null(x().unsupported);
  cr_expect(strstr(x().unsupported, "nested_blocksize"), "%s", x().unsupported);
}

Test(checkpoint, another_table_is_not_decoded) {
  make_bitsandbytes(good_state);
  float other[16];
  memcpy(other, table, sizeof other);
  other[3] += 0.01f;
  part("x.weight.quant_map")->data = other;
  cr_assert_eq(open_parts(), NABLA_OK, "%s", diag.what);
  cr_assert_not_null(x().unsupported);
  cr_expect(strstr(x().unsupported, "at code 3"), "%s", x().unsupported);
}

Test(checkpoint, other_int8_orders_are_not_decoded) {
  static const uint8_t turing = 2;
  make_int8();
  part("x.weight_format")->data = &turing;
  cr_assert_eq(open_parts(), NABLA_OK, "%s", diag.what);
  cr_expect(strstr(x().unsupported, "weight_format 2"));
}

Test(checkpoint, a_description_has_a_limit) {
  make_nabla(good_format);
  part("x.weight.nabla.format")->shape[0] = NABLA_CHECKPOINT_MAX_STATE + 1;
  part("x.weight.nabla.format")->data = NULL;
  cr_assert_eq(open_parts(), NABLA_TOO_LARGE);
  cr_expect(strstr(diag.what, "65537"), "%s", diag.what);
}

/* ---- the shape of codes (N4) ----------------------------------------------
 */

/* Of a weight of 4 times 32 in `encoding`, with codes of that shape. */
static nabla_status open_codes(const nabla_encoding *encoding, uint32_t rank,
                               uint64_t first, uint64_t second) {
  static char text[160];
  const int is_mx = encoding->is_mx;
  (void)snprintf(text, sizeof text,
                 "{\"version\": 1, \"encoding\": \"%s\", \"block\": 32, "
                 "\"scale\": \"%s\", \"dtype\": \"F32\", \"shape\": [4, 32]}",
                 encoding->name, is_mx ? "E8M0" : "F32");
  begin_parts();
  model_tensor *codes =
      add_part("x.weight", nabla_code_dtype(encoding), first, NULL);
  codes->rank = rank;
  codes->shape[1] = second;
  add_part("x.weight.nabla.scales", is_mx ? NABLA_DTYPE_U8 : NABLA_DTYPE_F32, 4,
           NULL);
  add_part("x.weight.nabla.format", NABLA_DTYPE_U8, strlen(text), text);
  return open_parts();
}

Test(checkpoint, codes_of_the_weights_shape_are_refused) {
  size_t rows;
  const nabla_encoding *encodings = nabla_encodings(&rows);
  for (size_t i = 0; i < rows; i++) {
    const nabla_encoding *e = &encodings[i];
    const uint64_t bytes = 16 * (uint64_t)e->bits;
    cr_expect_eq(open_codes(e, 1, bytes, 0), NABLA_OK, "%s", diag.what);
    cr_expect_eq(open_codes(e, 2, bytes, 1), NABLA_CORRUPT);
    cr_expect(strstr(diag.what, "no vector of bytes"), "%s", diag.what);
    cr_expect_eq(open_codes(e, 2, 4, bytes / 4), NABLA_CORRUPT);
    if (e->bits != 8) continue;
    cr_expect(strstr(diag.what, "the shape of the weight"), "%s", diag.what);
    cr_expect(strstr(diag.next, "from its source"), "%s", diag.next);
    cr_expect_str_eq(diag.tensor, "x.weight");
  }
}

/* Whether `codes` as `layout` stores them have another shape than `tensor`;
 * what the layout or the encoding cannot hold has none. */
static int is_apart(const nabla_tensor *tensor, const nabla_format *format,
                    nabla_layout layout, size_t *seen) {
  nabla_components of;
  if (nabla_layout_objection(layout, tensor, format) ||
      nabla_components_of(tensor, format, layout, &of, NULL))
    return 1;
  ++*seen;
  const nabla_component *codes = &of.item[0];
  return codes->kind == NABLA_COMPONENT_CODES &&
         (codes->rank != tensor->rank ||
          memcmp(codes->shape, tensor->shape, codes->rank * sizeof(uint64_t)));
}

static size_t check_apart(const nabla_tensor *tensor, const nabla_encoding *e) {
  size_t seen = 0;
  for (int span = NABLA_PER_BLOCK; span <= NABLA_PER_TENSOR; span++)
    for (int scale = 0; scale <= NABLA_SCALE_E8M0; scale++)
      for (int more = 0; more < 8; more++) {
        nabla_format format = {.encoding = e,
                               .granularity = (nabla_granularity)span,
                               .scale = (nabla_scale_type)scale,
                               .zero_point = more & 1};
        format.block = span == NABLA_PER_BLOCK ? more & 2 ? 32 : 16
                       : span == NABLA_PER_ROW
                           ? tensor->elements / tensor->shape[0]
                           : tensor->elements;
        if (more & 4) format.segment = tensor->elements / tensor->shape[0];
        for (int l = 0; l < 2; l++) {
          const nabla_layout layout =
              l ? NABLA_LAYOUT_BITSANDBYTES : NABLA_LAYOUT_NABLA;
          if (l && e->bits == 8) continue; /* LLM.int8 says so (I1) */
          cr_expect(is_apart(tensor, &format, layout, &seen),
                    "%s, rank %u, %llu elements", e->name, tensor->rank,
                    (unsigned long long)tensor->elements);
        }
      }
  return seen;
}

Test(checkpoint, codes_never_have_the_weights_shape) {
  static const uint64_t dims[] = {1, 2, 3, 16, 64};
  size_t rows;
  const nabla_encoding *encodings = nabla_encodings(&rows);
  for (size_t i = 0; i < rows; i++)
    for (uint32_t rank = 1; rank <= 4; rank++) {
      size_t seen = 0, shapes = 1;
      for (uint32_t d = 0; d < rank; d++) shapes *= 5;
      for (size_t n = 0; n < shapes; n += rank == 4 ? 3 : 1) {
        const uint64_t shape[] = {dims[n % 5], dims[n / 5 % 5],
                                  dims[n / 25 % 5], dims[n / 125]};
        nabla_tensor tensor = {.name = "x.weight",
                               .name_length = strlen("x.weight"),
                               .dtype = NABLA_DTYPE_F32,
                               .rank = rank,
                               .shape = shape,
                               .elements = 1};
        for (uint32_t d = 0; d < rank; d++) tensor.elements *= shape[d];
        seen += check_apart(&tensor, &encodings[i]);
      }
      cr_expect_gt(seen, 4, "%s, rank %u", encodings[i].name, rank);
    }
}

/* ---- two claims on one weight -------------------------------------------- */

Test(checkpoint, two_descriptions_for_one_weight) {
  static const char ours[] =
      "{\"version\": 1, \"encoding\": \"nf4\", \"block\": 64, \"scale\": "
      "\"F32\", \"dtype\": \"F16\", \"shape\": [128]}";
  make_bitsandbytes(good_state);
  add_part("x.weight.nabla.scales", NABLA_DTYPE_F32, 2, NULL);
  add_part("x.weight.nabla.format", NABLA_DTYPE_U8, sizeof ours - 1, ours);
  cr_expect_eq(open_parts(), NABLA_CORRUPT);
  cr_expect(strstr(diag.what, "two descriptions"), "%s", diag.what);
  cr_expect_str_eq(diag.tensor, "x.weight");
  /* nf4 and fp4 */
  static const char fp4[] =
      "{\"quant_type\": \"fp4\", \"blocksize\": 64, \"dtype\": \"float16\", "
      "\"shape\": [128]}";
  make_bitsandbytes(good_state);
  add_part("x.weight.quant_state.bitsandbytes__fp4", NABLA_DTYPE_U8,
           sizeof fp4 - 1, fp4);
  cr_expect_eq(open_parts(), NABLA_CORRUPT);
  cr_expect(strstr(diag.what, "two descriptions"), "%s", diag.what);
  /* LLM.int8 and Nabla */
  static const char int8[] =
      "{\"version\": 1, \"encoding\": \"int8\", \"block\": \"row\", \"scale\": "
      "\"F32\", \"dtype\": \"F16\", \"shape\": [4, 32]}";
  make_int8();
  part("x.weight")->rank = 1;
  part("x.weight")->shape[0] = 128;
  part("x.SCB")->shape[0] = 128;
  add_part("x.weight.nabla.scales", NABLA_DTYPE_F32, 4, NULL);
  add_part("x.weight.nabla.format", NABLA_DTYPE_U8, sizeof int8 - 1, int8);
  cr_expect_eq(open_parts(), NABLA_CORRUPT);
  cr_expect(strstr(diag.what, "two descriptions"), "%s", diag.what);
}

Test(checkpoint, a_companion_is_not_packed_itself) {
  const size_t codes = sizeof good_format - 1;
  char text[160];
  (void)snprintf(text, sizeof text,
                 "{\"version\": 1, \"encoding\": \"nf4\", \"block\": 64, "
                 "\"scale\": \"F32\", \"dtype\": \"F32\", \"shape\": [2, %zu]}",
                 codes);
  make_nabla(good_format);
  add_part("x.weight.nabla.format.nabla.format", NABLA_DTYPE_U8, strlen(text),
           text);
  add_part("x.weight.nabla.format.nabla.scales", NABLA_DTYPE_F32,
           (2 * codes + 63) / 64, NULL);
  cr_expect_eq(open_parts(), NABLA_CORRUPT);
  cr_expect(strstr(diag.what, "itself packed"), "%s", diag.what);
}

/* ---- indexes and folders ------------------------------------------------- */

static const model_tensor shard_a[] = {
    {"a.weight", NABLA_DTYPE_F32, 2, {2, 32}, NULL},
    {"b.weight", NABLA_DTYPE_F32, 1, {5}, NULL}};
static const model_tensor shard_b[] = {
    {"c.weight", NABLA_DTYPE_BF16, 2, {3, 3}, NULL}};

static void write_shards(void) {
  char at[256];
  temp_folder_path(&folder, "m1.safetensors", at);
  model_write(at, shard_a, 2);
  temp_folder_path(&folder, "m2.safetensors", at);
  model_write(at, shard_b, 1);
}

static nabla_status open_index(const char *json) {
  char at[256];
  temp_folder_path(&folder, NABLA_INDEX_NAME, at);
  temp_folder_write(&folder, NABLA_INDEX_NAME, json, strlen(json));
  return open_path(at);
}

#define MAP(text) "{\"weight_map\": {" text "}}"
#define AB "\"a.weight\": \"m1.safetensors\", \"b.weight\": \"m1.safetensors\""
#define C  "\"c.weight\": \"m2.safetensors\""

Test(checkpoint, index_gives_all_shards) {
  uint64_t total = 77;
  write_shards();
  cr_assert_eq(open_index("{\"metadata\": {\"total_size\": 294, \"x\": [1]}, "
                          "\"other\": null, \"weight_map\": {" C ", " AB "}}"),
               NABLA_OK, "%s", diag.what);
  cr_expect_eq(nabla_checkpoint_has_index(checkpoint), 1);
  cr_expect_eq(nabla_checkpoint_shard_count(checkpoint), 2);
  cr_expect_str_eq(nabla_checkpoint_shard_name(checkpoint, 0),
                   "m1.safetensors");
  cr_expect_eq(nabla_checkpoint_count(checkpoint), 3);
  cr_expect_eq(model_tensor_of(checkpoint, "c.weight").data.shard, 1);
  cr_expect_eq(nabla_checkpoint_index_total(checkpoint, &total), 1);
  cr_expect_eq(total, 294);
  /* the same through its folder, with and without a slash */
  cr_assert_eq(open_path(folder.path), NABLA_OK, "%s", diag.what);
  cr_expect_eq(nabla_checkpoint_count(checkpoint), 3);
  char slash[256];
  temp_folder_path(&folder, "", slash);
  cr_assert_eq(open_path(slash), NABLA_OK, "%s", diag.what);
}

Test(checkpoint, total_size_may_lack_or_be_a_float) {
  uint64_t total = 77;
  write_shards();
  cr_assert_eq(open_index(MAP(AB ", " C)), NABLA_OK, "%s", diag.what);
  cr_expect_eq(nabla_checkpoint_index_total(checkpoint, &total), 0);
  cr_assert_eq(open_index("{\"metadata\": {\"total_size\": 294.0}, "
                          "\"weight_map\": {" AB ", " C "}}"),
               NABLA_OK);
  cr_expect_eq(nabla_checkpoint_index_total(checkpoint, &total), 0);
  cr_expect_eq(total, 77);
}

static const struct {
  const char *json;
  nabla_status status;
  const char *tensor, *what;
} indexes[] = {
    {MAP(AB ", " C ", \"d\": \"m2.safetensors\""), NABLA_CORRUPT, "d",
     "'m2.safetensors', which lacks it"},
    {MAP("\"a.weight\": \"m2.safetensors\", \"b.weight\": "
         "\"m1.safetensors\", " C),
     NABLA_CORRUPT, "a.weight", "which lacks it"},
    {MAP("\"a.weight\": \"m1.safetensors\", " C), NABLA_CORRUPT, "b.weight",
     "does not name"},
    {MAP(AB ", " C ", " C), NABLA_CORRUPT, "c.weight", "twice"},
    {MAP(AB ", \"c.weight\": \"../m2.safetensors\""), NABLA_CORRUPT, "c.weight",
     "plain name"},
    {MAP(AB ", \"c.weight\": \"/etc/passwd\""), NABLA_CORRUPT, "c.weight",
     "plain name"},
    {MAP(AB ", \"c.weight\": \"s/m2.safetensors\""), NABLA_CORRUPT, "c.weight",
     "plain name"},
    {MAP(AB ", \"c.weight\": \".\""), NABLA_CORRUPT, "c.weight", "plain name"},
    {MAP(AB ", \"c.weight\": \".hidden\""), NABLA_CORRUPT, "c.weight",
     "plain name"},
    {MAP(AB ", \"c.weight\": \"\""), NABLA_CORRUPT, "c.weight", "plain name"},
    {MAP(AB ", \"c.weight\": \"m2\\u0000.safetensors\""), NABLA_CORRUPT, NULL,
     NULL},
    {MAP(AB ", \"c.weight\": 7"), NABLA_CORRUPT, NULL, "a file name"},
    {MAP(AB ", \"c.weight\": \"m3.safetensors\""), NABLA_IO, NULL, NULL},
    {MAP(""), NABLA_CORRUPT, NULL, "weight_map is empty"},
    {"{}", NABLA_CORRUPT, NULL, "no weight_map"},
    {"{\"weight_map\": [], \"x\": 1}", NABLA_CORRUPT, NULL, "weight_map"},
    {"{\"weight_map\": {" AB ", " C "}, \"weight_map\": {" AB ", " C "}}",
     NABLA_CORRUPT, NULL, "two weight_map"},
    {MAP(AB ", " C) " 1", NABLA_CORRUPT, NULL, NULL},
    {MAP(AB ", " C ","), NABLA_CORRUPT, NULL, NULL},
    {"[]", NABLA_CORRUPT, NULL, "an index object"},
    {"", NABLA_CORRUPT, NULL, NULL},
};

ParameterizedTestParameters(checkpoint, bad_indexes_are_refused) {
  static size_t rows[COUNT(indexes)];
  for (size_t i = 0; i < COUNT(indexes); i++) rows[i] = i;
  return cr_make_param_array(size_t, rows, COUNT(indexes));
}

ParameterizedTest(size_t *row, checkpoint, bad_indexes_are_refused) {
  write_shards();
  cr_assert_eq(open_index(indexes[*row].json), indexes[*row].status, "%s: %s",
               indexes[*row].json, diag.what);
  cr_expect_neq(diag.file[0], 0);
  if (indexes[*row].tensor) cr_expect_str_eq(diag.tensor, indexes[*row].tensor);
  if (indexes[*row].what)
    cr_expect(strstr(diag.what, indexes[*row].what), "%s", diag.what);
}

/* One name in two shards would be one tensor with two values. */
Test(checkpoint, one_name_in_two_shards_is_refused) {
  char at[256];
  write_shards();
  temp_folder_path(&folder, "m2.safetensors", at);
  model_write(at, shard_a, 1);
  cr_expect_eq(open_index(MAP(AB ", \"a.weight\": \"m2.safetensors\"")),
               NABLA_CORRUPT);
  cr_expect_str_eq(diag.tensor, "a.weight");
  cr_expect(strstr(diag.what, "'m1.safetensors' has it as well"), "%s",
            diag.what);
}

/* The companions of a weight may lie in another shard. */
Test(checkpoint, companions_are_found_across_shards) {
  char at[256];
  make_nabla(good_format);
  temp_folder_path(&folder, "m1.safetensors", at);
  model_write(at, parts, 2);
  temp_folder_path(&folder, "m2.safetensors", at);
  model_write(at, parts + 2, 2);
  cr_assert_eq(open_index(MAP("\"a.bias\": \"m1.safetensors\", \"x.weight\": "
                              "\"m1.safetensors\", \"x.weight.nabla.scales\": "
                              "\"m2.safetensors\", \"x.weight.nabla.format\": "
                              "\"m2.safetensors\"")),
               NABLA_OK, "%s", diag.what);
  cr_expect_eq(nabla_checkpoint_count(checkpoint), 2);
  cr_expect_eq(x().scales.shard, 1);
}

Test(checkpoint, folders) {
  char at[256];
  cr_expect_eq(open_path(folder.path), NABLA_INVALID_ARGUMENT);
  cr_expect(strstr(diag.what, "no .safetensors file"), "%s", diag.what);
  temp_folder_path(&folder, "one.safetensors", at);
  model_write(at, shard_a, 2);
  cr_assert_eq(open_path(folder.path), NABLA_OK, "%s", diag.what);
  cr_expect_eq(nabla_checkpoint_count(checkpoint), 2);
  temp_folder_path(&folder, "two.safetensors", at);
  model_write(at, shard_b, 1);
  cr_expect_eq(open_path(folder.path), NABLA_INVALID_ARGUMENT);
  cr_expect(strstr(diag.what, "2 .safetensors files"), "%s", diag.what);
  temp_folder_path(&folder, "model.safetensors", at);
  model_write(at, shard_b, 1);
  cr_assert_eq(open_path(folder.path), NABLA_OK, "%s", diag.what);
  cr_expect_eq(nabla_checkpoint_count(checkpoint), 1);
  temp_folder_path(&folder, "missing", at);
  cr_expect_eq(open_path(at), NABLA_IO);
  cr_expect_str_eq(diag.file, at);
}

Test(checkpoint, layouts_have_names) {
  cr_expect_str_eq(nabla_layout_name(NABLA_LAYOUT_DENSE), "dense");
  cr_expect_str_eq(nabla_layout_name(NABLA_LAYOUT_BITSANDBYTES),
                   "bitsandbytes");
  cr_expect_str_eq(nabla_layout_name(NABLA_LAYOUT_NABLA), "nabla");
}
