/* The safetensors reader: every rule of the format, positive and negative. */
#include "nabla/safetensors.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/bytes.h"
#include "lib/base/json/json.h"
#include "tests/support/failing_allocator.h"
#include "tests/support/faulty_os.h"
#include "tests/support/memory_os.h"
#include "tests/support/temp_folder.h"

#define T(dtype, shape, begin, end)                                          \
  "{\"dtype\":\"" dtype "\",\"shape\":[" shape "],\"data_offsets\":[" #begin \
  "," #end "]}"
#define ONE(body) "{\"a\":" body "}"
#define FIELDS    "\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]"
#define TEN       "[[[[[[[[[["

/* What a header gives: `what` is a part of the message, `at` the offset that
 * it names (0: not looked at), `tensor` the tensor. */
typedef struct row {
  const char *json;
  size_t data;
  nabla_status status;
  const char *what;
  uint64_t at;
  const char *tensor;
} row;

static const row rows[] = {
    /* what the format allows */
    {"{}", 0, NABLA_OK, "", 0, ""},
    {"{}   \n\t ", 0, NABLA_OK, "", 0, ""},
    {" \n{}", 0, NABLA_OK, "", 0, ""},
    {"{\"__metadata__\":{}}", 0, NABLA_OK, "", 0, ""},
    {ONE(T("U8", "4", 0, 4)), 4, NABLA_OK, "", 0, ""},
    {ONE(T("F32", "", 0, 4)), 4, NABLA_OK, "", 0, ""},
    {ONE(T("F32", "3,0,5", 0, 0)), 0, NABLA_OK, "", 0, ""},
    {ONE(T("F4", "4", 0, 2)), 2, NABLA_OK, "", 0, ""},
    {ONE(T("F6_E2M3", "2,2", 0, 3)), 3, NABLA_OK, "", 0, ""},
    {"{\"\":" T("U8", "4", 0, 4) "}", 4, NABLA_OK, "", 0, ""},
    {"{\"b\":" T("U8", "3", 2, 5) ",\"a\":" T("U8", "2", 0, 2) "}", 5, NABLA_OK,
     "", 0, ""},
    {"{\"b\":" T("U8", "3", 0, 3) ",\"a\":" T("U8", "0", 3, 3) "}", 3, NABLA_OK,
     "", 0, ""},
    {ONE("{\"data_offsets\":[0,4],\"shape\":[4],\"dtype\":\"U8\"}"), 4,
     NABLA_OK, "", 0, ""},
    {ONE("{" FIELDS ",\"x\":1}"), 4, NABLA_OK, "", 0, ""},
    {ONE("{\"x\":{\"y\":[1,{}]}," FIELDS "}"), 4, NABLA_OK, "", 0, ""},
    {ONE("{" FIELDS ",\"x\":[1e308,1e-400]}"), 4, NABLA_OK, "", 0, ""},
    {ONE("{" FIELDS ",\"x\":[-1e309]}"), 4, NABLA_CORRUPT, "out of range", 65,
     "a"},
    /* the header as a whole */
    {"", 0, NABLA_CORRUPT, "the header has no bytes", 0, ""},
    {"\xef\xbb\xbf{}", 0, NABLA_CORRUPT, "byte order mark", 8, ""},
    {"[]", 0, NABLA_CORRUPT, "the '{' of a safetensors header", 8, ""},
    {"  7", 0, NABLA_CORRUPT, "the '{' of a safetensors header", 10, ""},
    {"   ", 0, NABLA_CORRUPT, "found the end", 11, ""},
    {"{}x", 0, NABLA_CORRUPT, "found 'x'", 10, ""},
    {"{}{}", 0, NABLA_CORRUPT, "found '{'", 10, ""},
    {"{", 0, NABLA_CORRUPT, "found the end", 9, ""},
    {"{\"a\":" T("U8", "4", 0, 4) ",}", 4, NABLA_CORRUPT, "a key in quotes", 61,
     ""},
    {"{\"\\u0000\":" T("U8", "4", 0, 4) "}", 4, NABLA_CORRUPT, "U+0000", 10,
     ""},
    {"{\"\xff\":" T("U8", "4", 0, 4) "}", 4, NABLA_CORRUPT, "UTF-8", 10, ""},
    {ONE("{\"x\":" TEN TEN TEN TEN), 0, NABLA_TOO_LARGE, "nested", 48, "a"},
    /* __metadata__ */
    {"{\"__metadata__\":null}", 0, NABLA_CORRUPT, "an object of strings", 24,
     ""},
    {"{\"__metadata__\":[]}", 0, NABLA_CORRUPT, "an object of strings", 24, ""},
    {"{\"__metadata__\":{\"k\":1}}", 0, NABLA_CORRUPT, "a string as value", 29,
     ""},
    {"{\"__metadata__\":{\"k\":{}}}", 0, NABLA_CORRUPT, "a string as value", 29,
     ""},
    {"{\"__metadata__\":{\"k\":\"v\",\"k\":\"v\"}}", 0, NABLA_CORRUPT,
     "a second key 'k' in __metadata__; the first is at byte 25", 33, ""},
    {"{\"__metadata__\":{},\"__metadata__\":{}}", 0, NABLA_CORRUPT,
     "a second __metadata__", 27, ""},
    /* the fields of a tensor */
    {ONE("[]"), 0, NABLA_CORRUPT, "an object with dtype", 13, "a"},
    {ONE("\"U8\""), 0, NABLA_CORRUPT, "an object with dtype", 13, "a"},
    {ONE("{}"), 0, NABLA_CORRUPT, "has no 'dtype'", 9, "a"},
    {ONE("{\"dtype\":\"U8\",\"data_offsets\":[0,4]}"), 4, NABLA_CORRUPT,
     "has no 'shape'", 9, "a"},
    {ONE("{\"dtype\":\"U8\",\"shape\":[4]}"), 4, NABLA_CORRUPT,
     "has no 'data_offsets'", 9, "a"},
    {ONE("{\"shape\":[4],\"data_offsets\":[0,4]}"), 4, NABLA_CORRUPT,
     "has no 'dtype'", 9, "a"},
    {ONE("{" FIELDS ",\"dtype\":\"U8\"}"), 4, NABLA_CORRUPT, "a second 'dtype'",
     60, "a"},
    {ONE("{" FIELDS ",\"shape\":[4]}"), 4, NABLA_CORRUPT, "a second 'shape'",
     60, "a"},
    {ONE("{" FIELDS ",\"data_offsets\":[0,4]}"), 4, NABLA_CORRUPT,
     "a second 'data_offsets'", 60, "a"},
    {ONE("{\"dtype\":8}"), 4, NABLA_CORRUPT, "the name of a dtype", 22, "a"},
    {ONE("{\"dtype\":null}"), 4, NABLA_CORRUPT, "the name of a dtype", 22, "a"},
    {ONE(T("U9", "4", 0, 4)), 4, NABLA_UNSUPPORTED, "U9", 22, "a"},
    {ONE(T("u8", "4", 0, 4)), 4, NABLA_UNSUPPORTED, "u8", 22, "a"},
    {ONE("{\"shape\":4}"), 4, NABLA_CORRUPT, "an array of dimensions", 22, "a"},
    {ONE(T("U8", "-1", 0, 4)), 4, NABLA_CORRUPT, "a dimension", 36, "a"},
    {ONE(T("U8", "4.0", 0, 4)), 4, NABLA_CORRUPT, "a dimension", 36, "a"},
    {ONE(T("U8", "4e0", 0, 4)), 4, NABLA_CORRUPT, "a dimension", 36, "a"},
    {ONE(T("U8", "\"4\"", 0, 4)), 4, NABLA_CORRUPT, "a dimension", 36, "a"},
    {ONE(T("U8", "null", 0, 4)), 4, NABLA_CORRUPT, "a dimension", 36, "a"},
    {ONE(T("U8", "[4]", 0, 4)), 4, NABLA_CORRUPT, "a dimension", 36, "a"},
    {ONE(T("U8", "04", 0, 4)), 4, NABLA_CORRUPT, "", 37, "a"},
    {ONE(T("U8", "18446744073709551616", 0, 4)), 4, NABLA_TOO_LARGE,
     "a dimension", 36, "a"},
    {ONE("{\"data_offsets\":{}}"), 4, NABLA_CORRUPT, "an array of two offsets",
     29, "a"},
    {ONE("{\"data_offsets\":[]}"), 4, NABLA_CORRUPT,
     "the first of data_offsets", 30, "a"},
    {ONE("{\"data_offsets\":[0]}"), 4, NABLA_CORRUPT,
     "the second of data_offsets", 31, "a"},
    {ONE("{\"data_offsets\":[0,4,4]}"), 4, NABLA_CORRUPT,
     "no more than two data_offsets", 34, "a"},
    {ONE(T("U8", "4", -1, 4)), 4, NABLA_CORRUPT, "the first", 55, "a"},
    {ONE(T("U8", "4", 4, 0)), 4, NABLA_CORRUPT, "run backwards", 54, "a"},
    {ONE(T("U8", "4", 0, 18446744073709551616)), 4, NABLA_TOO_LARGE,
     "the second", 57, "a"},
    /* shape times bits against the offsets */
    {ONE(T("U8", "5", 0, 4)), 4, NABLA_CORRUPT,
     "span 4 bytes; dtype and shape need 5", 9, "a"},
    {ONE(T("F32", "4", 0, 4)), 4, NABLA_CORRUPT, "need 16", 9, "a"},
    {ONE(T("F32", "", 0, 0)), 0, NABLA_CORRUPT, "need 4", 9, "a"},
    {ONE(T("U8", "0", 0, 4)), 4, NABLA_CORRUPT, "need 0", 9, "a"},
    {ONE(T("F4", "3", 0, 2)), 2, NABLA_CORRUPT, "no whole number of bytes", 9,
     "a"},
    {ONE(T("F6_E3M2", "2", 0, 1)), 1, NABLA_CORRUPT, "no whole number", 9, "a"},
    {ONE(T("U8", "4294967296,4294967296", 0, 0)), 0, NABLA_TOO_LARGE,
     "overflows", 9, "a"},
    {ONE(T("U8", "4294967296,4294967296,0", 0, 0)), 0, NABLA_TOO_LARGE,
     "overflows", 9, "a"},
    {ONE(T("U8", "2305843009213693952", 0, 0)), 0, NABLA_TOO_LARGE, "overflows",
     9, "a"},
    {ONE(T("F64", "288230376151711744", 0, 0)), 0, NABLA_TOO_LARGE, "overflows",
     9, "a"},
    /* all tensors together */
    {"{\"a\":" T("U8", "4", 0, 4) ",\"a\":" T("U8", "4", 4, 8) "}", 8,
     NABLA_CORRUPT, "a second tensor of this name; the first is at byte 9", 61,
     "a"},
    {"{\"a\":" T("U8", "4", 4, 8) ",\"\\u0061\":" T("U8", "4", 0, 4) "}", 8,
     NABLA_CORRUPT, "a second tensor of this name; the first is at byte 9", 61,
     "a"},
    {ONE(T("U8", "4", 1, 5)), 5, NABLA_CORRUPT,
     "a hole of 1 bytes before its data, behind the header", 9, "a"},
    {"{\"a\":" T("U8", "4", 0, 4) ",\"b\":" T("U8", "4", 6, 10) "}", 10,
     NABLA_CORRUPT, "a hole of 2 bytes before its data, behind tensor 'a'", 61,
     "b"},
    {"{\"a\":" T("U8", "4", 0, 4) ",\"b\":" T("U8", "4", 3, 7) "}", 7,
     NABLA_CORRUPT, "data at [3, 7) overlaps [0, 4) of tensor 'a'", 61, "b"},
    {"{\"a\":" T("U8", "4", 0, 4) ",\"b\":" T("U8", "4", 0, 4) "}", 4,
     NABLA_CORRUPT, "data at [0, 4) overlaps [0, 4) of tensor 'a'", 61, "b"},
    {"{\"a\":" T("U8", "4", 0, 4) ",\"b\":" T("U8", "0", 2, 2) "}", 4,
     NABLA_CORRUPT, "data at [2, 2) overlaps [0, 4) of tensor 'a'", 61, "b"},
    {ONE(T("U8", "4", 0, 4)), 5, NABLA_CORRUPT,
     "1 bytes behind the last tensor", 65, ""},
    {"{}", 1, NABLA_CORRUPT, "1 bytes behind the last tensor", 10, ""},
    {ONE(T("U8", "4", 0, 4)), 3, NABLA_CORRUPT,
     "the file is truncated: it has 64 bytes, its header describes 65", 64, ""},
    {ONE(T("U8", "1152921504606846976", 0, 1152921504606846976)), 4,
     NABLA_CORRUPT, "truncated", 0, ""},
};

static temp_folder folder;

static void set_up(void) { temp_folder_create(&folder); }
static void tear_down(void) { temp_folder_destroy(&folder); }

TestSuite(safetensors, .init = set_up, .fini = tear_down);

static nabla_status open_named(const char *name, nabla_tensor_file **out,
                               nabla_diag *diag) {
  char path[256];
  temp_folder_path(&folder, name, path);
  return nabla_tensor_file_open(path, NULL, NULL, out, diag);
}

static nabla_status open_json(const char *json, size_t data,
                              nabla_tensor_file **out, nabla_diag *diag) {
  temp_folder_write_safetensors(&folder, "f", json, data);
  return open_named("f", out, diag);
}

static struct criterion_test_params row_numbers(size_t count) {
  size_t *numbers = cr_malloc(count * sizeof *numbers);
  for (size_t i = 0; i < count; i++) numbers[i] = i;
  return cr_make_param_array(size_t, numbers, count);
}

ParameterizedTestParameters(safetensors, headers) {
  return row_numbers(sizeof rows / sizeof *rows);
}

ParameterizedTest(size_t *number, safetensors, headers) {
  const row *r = &rows[*number];
  nabla_diag diag = NABLA_DIAG_INIT;
  nabla_tensor_file *file = NULL;
  nabla_status status = open_json(r->json, r->data, &file, &diag);
  cr_expect_eq(status, r->status, "%s: %s, %s", r->json,
               nabla_status_name(status), diag.what);
  cr_expect_eq(status == NABLA_OK, file != NULL);
  if (status) {
    cr_expect_neq(strstr(diag.what, r->what), NULL, "%s: %s", r->json,
                  diag.what);
    cr_expect_str_eq(diag.tensor, r->tensor, "%s", r->json);
    cr_expect_neq(strstr(diag.file, "/f"), NULL);
    if (r->at)
      cr_expect_eq(diag.offset, r->at, "%s: %lu", r->json, diag.offset);
  }
  nabla_tensor_file_close(file);
  nabla_tensor_file *again = NULL; /* a diag makes no difference */
  cr_expect_eq(open_named("f", &again, NULL), r->status);
  nabla_tensor_file_close(again);
}

static void expect_raw(const void *bytes, size_t size, nabla_status expected,
                       const char *next) {
  nabla_diag diag = NABLA_DIAG_INIT;
  nabla_tensor_file *file = NULL;
  temp_folder_write(&folder, "f", bytes, size);
  cr_expect_eq(open_named("f", &file, &diag), expected, "%s", diag.what);
  cr_expect_neq(strstr(diag.next, next), NULL, "%s", diag.next);
}

Test(safetensors, first_bytes) {
  static const char padding[64] = "";
  char bytes[64];
  for (size_t size = 0; size < 8; size++)
    expect_raw(padding, size, NABLA_CORRUPT, "download");
  static const struct {
    uint64_t length;
    nabla_status status;
    const char *next;
  } lengths[] = {
      {57, NABLA_CORRUPT, "at least 1 bytes are missing"},
      {100000000, NABLA_CORRUPT, "at least 99999944 bytes are missing"},
      {100000001, NABLA_TOO_LARGE, "check that it is a safetensors file"},
      {1ull << 31, NABLA_TOO_LARGE, "check"},
      {1ull << 32, NABLA_TOO_LARGE, "check"},
      {1ull << 61, NABLA_TOO_LARGE, "check"},
      {1ull << 63, NABLA_TOO_LARGE, "check"},
      {UINT64_MAX - 7, NABLA_TOO_LARGE, "check"},
      {UINT64_MAX, NABLA_TOO_LARGE, "check"},
  };
  for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
    memcpy(bytes, padding, sizeof bytes);
    nabla_store_le64(bytes, lengths[i].length);
    expect_raw(bytes, sizeof bytes, lengths[i].status, lengths[i].next);
  }
}

Test(safetensors, other_kinds_of_files) {
  expect_raw("PK\x03\x04........", 12, NABLA_CORRUPT, "convert");
  expect_raw("\x80\x02}q\0......", 12, NABLA_CORRUPT, "convert");
  expect_raw("GGUF\x03\0\0\0....", 12, NABLA_CORRUPT, "safetensors file");
  expect_raw("version https://git", 19, NABLA_CORRUPT, "git lfs pull");
  expect_raw("<!DOCTYPE html>", 15, NABLA_CORRUPT, "download");
  expect_raw("{\"weight_map\":{}}", 17, NABLA_CORRUPT, ".safetensors file");
}

/* Each row of foreign.def: what the file is, and how it is converted. */
Test(safetensors, files_of_the_table_of_other_formats) {
#define FOREIGN_TORCH                    "torch"
#define FOREIGN_ONNX                     "onnx"
#define FOREIGN(magic, name, what, next) {magic, what},
  static const struct {
    const char *magic, *what;
  } formats[] = {
#include "quant/formats/foreign.def"
  };
#undef FOREIGN
  for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
    char bytes[128];
    size_t size = 0;
    memset(bytes, 'x', sizeof bytes);
    if (!formats[i].magic) continue;
    for (const char *c = formats[i].magic; *c; c++)
      if (*c == '*')
        size += 9;
      else
        bytes[size++] = *c == '?' ? '\7' : *c;
    nabla_tensor_file *file = NULL;
    nabla_diag diag = NABLA_DIAG_INIT;
    temp_folder_write(&folder, "f", bytes, sizeof bytes);
    cr_assert_eq(open_named("f", &file, &diag), NABLA_CORRUPT, "%s: %s",
                 formats[i].what, diag.what);
    cr_expect(strstr(diag.what, formats[i].what), "%s, not %s", diag.what,
              formats[i].what);
    cr_expect(diag.next[0] && !strchr(diag.next, '@'), "%s", diag.next);
    cr_expect(!strstr(diag.next, "..."), "cut: %s", diag.next);
  }
}

Test(safetensors, not_a_regular_file) {
  nabla_diag diag = NABLA_DIAG_INIT;
  nabla_tensor_file *file = NULL;
  char path[256];
  temp_folder_path(&folder, "pipe", path);
  cr_assert_eq(mkfifo(path, 0600), 0);
  cr_expect_eq(open_named("pipe", &file, &diag), NABLA_INVALID_ARGUMENT);
  cr_expect_eq(open_named(".", &file, &diag), NABLA_INVALID_ARGUMENT);
  cr_expect_eq(open_named("missing", &file, &diag), NABLA_IO);
  cr_expect_neq(strstr(diag.file, "/missing"), NULL);
}

/* A header with everything in it: 2 tensors in reverse order, 3 pairs. */
static const char everything[] =
    "{\"__metadata__\":{\"z\":\"1\",\"\":\"\",\"a\\n\":\"\\u00e9\"},"
    "\"t\\\"wo\":{\"dtype\":\"BF16\",\"shape\":[2,3],\"data_offsets\":[8,20]},"
    "\"one\":{\"dtype\":\"F64\",\"shape\":[],\"data_offsets\":[0,8]}} ";

Test(safetensors, entries_and_metadata) {
  nabla_diag diag = NABLA_DIAG_INIT;
  nabla_tensor_file *file = NULL;
  cr_assert_eq(open_json(everything, 20, &file, &diag), NABLA_OK, "%s",
               diag.what);
  uint64_t data = 8 + strlen(everything);
  cr_assert_eq(nabla_tensor_file_count(file), 2);
  nabla_entry one = nabla_tensor_file_entry(file, 0);
  nabla_entry two = nabla_tensor_file_entry(file, 1);
  cr_expect_str_eq(one.name, "one");
  cr_expect_eq(one.name_length, 3);
  cr_expect_eq(one.dtype, NABLA_DTYPE_F64);
  cr_expect_eq(one.rank, 0);
  cr_expect_eq(one.elements, 1);
  cr_expect_eq(one.offset, data);
  cr_expect_eq(one.bytes, 8);
  cr_expect_str_eq(two.name, "t\"wo");
  cr_expect_eq(two.dtype, NABLA_DTYPE_BF16);
  cr_expect_eq(two.rank, 2);
  cr_expect(two.shape[0] == 2 && two.shape[1] == 3);
  cr_expect_eq(two.elements, 6);
  cr_expect_eq(two.offset, data + 8);
  cr_expect_eq(two.bytes, 12);
  cr_expect_eq(nabla_tensor_file_find(file, "one", 3), 0);
  cr_expect_eq(nabla_tensor_file_find(file, "t\"wo", 4), 1);
  cr_expect_eq(nabla_tensor_file_find(file, "one", 2), SIZE_MAX);
  cr_expect_eq(nabla_tensor_file_find(file, "", 0), SIZE_MAX);
  static const char *const pairs[][2] = {
      {"z", "1"}, {"", ""}, {"a\n", "\xc3\xa9"}};
  cr_assert_eq(nabla_tensor_file_metadata_count(file), 3);
  for (size_t i = 0; i < 3; i++) {
    const char *key, *value;
    nabla_tensor_file_metadata(file, i, &key, &value);
    cr_expect_str_eq(key, pairs[i][0]);
    cr_expect_str_eq(value, pairs[i][1]);
  }
  cr_expect_eq(nabla_tensor_file_size(file), data + 20);
  cr_expect_eq(nabla_tensor_file_info(file).size, data + 20);
  cr_expect_neq(nabla_tensor_file_info(file).inode, 0);
  cr_expect_neq(strstr(nabla_tensor_file_borrow_path(file), "/f"), NULL);
  nabla_tensor_file_close(file);
}

/* Tensors without data share an offset: they keep the header's order, before
 * the tensor whose data begins there. */
Test(safetensors, empty_tensors_keep_their_order) {
  nabla_tensor_file *file = NULL;
  cr_assert_eq(
      open_json(
          "{\"d\":" T("U8", "2", 0, 2) ",\"c\":" T("U8", "0", 0, 0) ",\"a\":" T(
              "U8", "0", 0, 0) ",\"b\":" T("F32", "0", 2, 2) "}",
          2, &file, NULL),
      NABLA_OK);
  static const char *const order[] = {"c", "a", "d", "b"};
  for (size_t i = 0; i < 4; i++)
    cr_expect_str_eq(nabla_tensor_file_entry(file, i).name, order[i]);
  nabla_tensor_file_close(file);
}

Test(safetensors, reading) {
  nabla_diag diag = NABLA_DIAG_INIT;
  nabla_tensor_file *file = NULL;
  uint8_t bytes[16] = {0};
  cr_assert_eq(open_json(everything, 20, &file, &diag), NABLA_OK);
  cr_expect_eq(nabla_tensor_file_read(file, 1, 0, bytes, 12, &diag), NABLA_OK);
  for (size_t i = 0; i < 12; i++) cr_expect_eq(bytes[i], 8 + i);
  cr_expect_eq(nabla_tensor_file_read(file, 0, 7, bytes, 1, &diag), NABLA_OK);
  cr_expect_eq(bytes[0], 7);
  cr_expect_eq(nabla_tensor_file_read(file, 0, 8, bytes, 0, &diag), NABLA_OK);
  static const struct {
    size_t index;
    uint64_t at;
    size_t size;
  } outside[] = {{0, 8, 1},          {0, 0, 9},          {0, 9, 0},
                 {1, UINT64_MAX, 1}, {1, 1, SIZE_MAX},   {2, 0, 1},
                 {SIZE_MAX, 0, 0},   {0, UINT64_MAX, 16}};
  for (size_t i = 0; i < sizeof outside / sizeof *outside; i++)
    cr_expect_eq(nabla_tensor_file_read(file, outside[i].index, outside[i].at,
                                        bytes, outside[i].size, &diag),
                 NABLA_INVALID_ARGUMENT);
  cr_expect_eq(bytes[0], 7);
  nabla_tensor_file_close(file);
}

Test(safetensors, a_file_that_changes) {
  nabla_diag diag = NABLA_DIAG_INIT;
  nabla_tensor_file *file = NULL;
  char path[256];
  uint8_t bytes[12];
  temp_folder_path(&folder, "f", path);
  cr_assert_eq(open_json(everything, 20, &file, &diag), NABLA_OK);
  cr_expect_eq(nabla_tensor_file_check_unchanged(file, &diag), NABLA_OK);
  uint64_t size = nabla_tensor_file_size(file);
  cr_assert_eq(truncate(path, (off_t)size - 1), 0);
  cr_expect_eq(nabla_tensor_file_read(file, 1, 0, bytes, 12, &diag),
               NABLA_CORRUPT);
  cr_expect_str_eq(diag.tensor, "t\"wo");
  cr_expect_eq(nabla_tensor_file_check_unchanged(file, &diag), NABLA_CORRUPT);
  nabla_tensor_file_close(file);
}

/* Fills `out` with the file of `everything`; returns its size. */
static size_t small_file(uint8_t out[512]) {
  size_t header = strlen(everything);
  nabla_store_le64(out, header);
  memcpy(out + 8, everything, header);
  memset(out + 8 + header, 1, 20);
  return 8 + header + 20;
}

Test(safetensors, truncated_at_every_byte) {
  uint8_t bytes[512];
  size_t size = small_file(bytes);
  for (size_t keep = 0; keep < size; keep++) {
    nabla_diag diag = NABLA_DIAG_INIT;
    nabla_tensor_file *file = NULL;
    char missing[64];
    temp_folder_write(&folder, "f", bytes, keep);
    cr_expect_eq(open_named("f", &file, &diag), NABLA_CORRUPT, "%zu", keep);
    cr_expect_neq(strstr(diag.next, "download"), NULL, "%zu: %s", keep,
                  diag.next);
    snprintf(missing, sizeof missing, ": %zu bytes are missing", size - keep);
    if (keep >= size - 20)
      cr_expect_neq(strstr(diag.next, missing), NULL, "%s", diag.next);
  }
}

/* Opens, and reads all that the entries promise. */
static nabla_status open_and_read(const nabla_os *os) {
  nabla_tensor_file *file = NULL;
  nabla_status status = nabla_tensor_file_open("/f", NULL, os, &file, NULL);
  if (status) {
    cr_assert_eq(file, NULL);
    return status;
  }
  for (size_t i = 0; i < nabla_tensor_file_count(file); i++) {
    nabla_entry entry = nabla_tensor_file_entry(file, i);
    uint8_t data[20];
    cr_assert_leq(entry.bytes, sizeof data);
    cr_assert_eq(nabla_tensor_file_read(file, i, 0, data, entry.bytes, NULL),
                 NABLA_OK);
  }
  nabla_tensor_file_close(file);
  return NABLA_OK;
}

/* Each byte of length and header set to each of 256 values: in memory, since
 * that makes 60,000 files. */
Test(safetensors, every_one_byte_change) {
  uint8_t bytes[512];
  memory_os memory;
  size_t size = small_file(bytes), header = size - 20;
  size_t accepted = 0, refused = 0;
  memory_os_init(&memory, 0);
  memory_os_put(&memory, "/f", bytes, size);
  for (size_t at = 0; at < header; at++) {
    uint8_t original = bytes[at];
    for (int value = 0; value < 256; value++) {
      bytes[at] = (uint8_t)value;
      nabla_status status = open_and_read(&memory.os);
      cr_assert(status <= NABLA_TOO_LARGE && status != NABLA_INVALID_ARGUMENT);
      accepted += status == NABLA_OK;
      refused += status != NABLA_OK;
      if (value == original) cr_assert_eq(status, NABLA_OK);
    }
    bytes[at] = original;
  }
  cr_expect_gt(accepted, 2 * header); /* other names and other values */
  cr_expect_gt(refused, accepted);
  cr_expect(memory_os_destroy(&memory));
}

/* A header that says the same in `count` pieces, for the limits. */
static char *repeat(const char *before, const char *piece, size_t count,
                    const char *after) {
  size_t step = strlen(piece), start = strlen(before);
  char *text = malloc(start + count * step + strlen(after) + 1);
  cr_assert_neq(text, NULL);
  memcpy(text, before, start);
  for (size_t i = 0; i < count; i++)
    memcpy(text + start + i * step, piece, step);
  memcpy(text + start + count * step, after, strlen(after) + 1);
  return text;
}

static void expect_repeat(const char *before, const char *piece, size_t count,
                          const char *after, nabla_status expected) {
  nabla_diag diag = NABLA_DIAG_INIT;
  nabla_tensor_file *file = NULL;
  char *json = repeat(before, piece, count, after);
  cr_expect_eq(open_json(json, 0, &file, &diag), expected, "%zu of %s: %s",
               count, piece, diag.what);
  nabla_tensor_file_close(file);
  free(json);
}

#define EMPTY T("U8", "0", 0, 0)

Test(safetensors, limits) {
  expect_repeat("{\"", "n", 4096, "\":" EMPTY "}", NABLA_OK);
  expect_repeat("{\"", "n", 4097, "\":" EMPTY "}", NABLA_TOO_LARGE);
  const char *shape =
      "{\"a\":{\"dtype\":\"U8\",\"data_offsets\":[0,0],\"shape\":[";
  expect_repeat(shape, "0,", 31, "0]}}", NABLA_OK);
  expect_repeat(shape, "0,", 32, "0]}}", NABLA_TOO_LARGE);
  expect_repeat("{\"__metadata__\":{\"k\":\"", "v", NABLA_JSON_MAX_STRING,
                "\"}}", NABLA_OK);
  expect_repeat("{\"__metadata__\":{\"k\":\"", "v", NABLA_JSON_MAX_STRING + 1,
                "\"}}", NABLA_TOO_LARGE);
  expect_repeat("{", " ", 1 << 20, "}", NABLA_OK);
  const char *ignored = "{\"a\":{\"x\":[";
  const char *rest =
      "0],\"dtype\":\"U8\",\"data_offsets\":[0,0],\"shape\":[0]}}";
  expect_repeat(ignored, "0,", (8u << 20) - 8, rest, NABLA_OK);
  expect_repeat(ignored, "0,", 8u << 20, rest, NABLA_TOO_LARGE);
}

/* What is ignored is counted over all fields together. */
Test(safetensors, limit_of_what_is_ignored) {
  const char *before = "{\"a\":{";
  const char *after = "\"dtype\":\"U8\",\"data_offsets\":[0,0],\"shape\":[0]}}";
  char *field = repeat("\"x\":[", "0,", (1 << 19) - 4, "0],"); /* 1 MiB */
  expect_repeat(before, field, 15, after, NABLA_OK);
  expect_repeat(before, field, 17, after, NABLA_TOO_LARGE);
  free(field);
}

/* One byte beyond the format's limit, in a file that has them all. */
Test(safetensors, limit_of_the_header) {
  static const uint64_t lengths[] = {NABLA_SAFETENSORS_MAX_HEADER,
                                     NABLA_SAFETENSORS_MAX_HEADER + 1};
  char path[256];
  temp_folder_path(&folder, "f", path);
  for (size_t i = 0; i < 2; i++) {
    nabla_diag diag = NABLA_DIAG_INIT;
    nabla_tensor_file *file = NULL;
    uint8_t bytes[10] = {0, 0, 0, 0, 0, 0, 0, 0, '{', '}'};
    nabla_store_le64(bytes, lengths[i]);
    temp_folder_write(&folder, "f", bytes, sizeof bytes);
    cr_assert_eq(truncate(path, (off_t)(8 + lengths[i])), 0); /* NULs */
    cr_expect_eq(open_named("f", &file, &diag),
                 i == 0 ? NABLA_CORRUPT : NABLA_TOO_LARGE);
    cr_expect_eq(diag.offset, i == 0 ? 10 : 0);
  }
}

/* Many tensors, in a shuffled order: sorted, indexed, all found. */
Test(safetensors, many_tensors) {
  enum { COUNT = 5000, STEP = 1237 }; /* coprime */
  char *json = malloc(COUNT * 80), *at = json;
  cr_assert_neq(json, NULL);
  for (size_t i = 0; i < COUNT; i++) {
    size_t place = i * STEP % COUNT;
    at += snprintf(at, 80,
                   "%c\"t%zu\":{\"dtype\":\"U8\",\"shape\":[1],"
                   "\"data_offsets\":[%zu,%zu]}",
                   i == 0 ? '{' : ',', place, place, place + 1);
  }
  memcpy(at, "}", 2);
  nabla_diag diag = NABLA_DIAG_INIT;
  nabla_tensor_file *file = NULL;
  cr_assert_eq(open_json(json, COUNT, &file, &diag), NABLA_OK, "%s", diag.what);
  cr_assert_eq(nabla_tensor_file_count(file), COUNT);
  for (size_t place = 0; place < COUNT; place++) {
    nabla_entry entry = nabla_tensor_file_entry(file, place);
    char name[16];
    snprintf(name, sizeof name, "t%zu", place);
    cr_expect_str_eq(entry.name, name);
    cr_expect_eq(nabla_tensor_file_find(file, name, strlen(name)), place);
  }
  cr_expect_eq(nabla_tensor_file_find(file, "t5000", 5), SIZE_MAX);
  nabla_tensor_file_close(file);
  free(json);
}

/* The Nth allocation fails, for every N until none does. */
Test(safetensors, every_allocation_fails_once) {
  nabla_status status;
  size_t fail_at = 1;
  char path[256];
  temp_folder_write_safetensors(&folder, "f", everything, 20);
  temp_folder_path(&folder, "f", path);
  do {
    failing_allocator failing;
    nabla_diag diag = NABLA_DIAG_INIT;
    nabla_tensor_file *file = NULL;
    failing_allocator_init(&failing, fail_at);
    status =
        nabla_tensor_file_open(path, &failing.allocator, NULL, &file, &diag);
    cr_expect_eq(failing.failures, status != NABLA_OK);
    if (status) {
      cr_expect_eq(status, NABLA_NO_MEMORY, "%zu: %s", fail_at, diag.what);
      cr_expect_eq(file, NULL);
      cr_expect_neq(strstr(diag.file, "/f"), NULL);
    }
    nabla_tensor_file_close(file);
    cr_expect(failing_allocator_is_clean(&failing), "%zu", fail_at);
  } while (status && fail_at++ < 100);
  cr_expect_eq(status, NABLA_OK);
  cr_expect_gt(fail_at, 8);
}

/* Opens and reads through `os`. */
static nabla_status open_through(const nabla_os *os, nabla_diag *diag) {
  char path[256];
  uint8_t bytes[12];
  nabla_tensor_file *file = NULL;
  temp_folder_path(&folder, "f", path);
  nabla_status status = nabla_tensor_file_open(path, NULL, os, &file, diag);
  cr_expect_eq(status != NABLA_OK, file == NULL);
  if (!status) status = nabla_tensor_file_read(file, 1, 0, bytes, 12, diag);
  if (!status) cr_expect(bytes[0] == 8 && bytes[11] == 19);
  nabla_tensor_file_close(file);
  return status;
}

/* The Nth call of the operating system fails, for every N until none does. */
Test(safetensors, every_system_call_fails_once) {
  temp_folder_write_safetensors(&folder, "f", everything, 20);
  uint64_t faults = 1;
  for (uint64_t fail_at = 1; faults > 0; fail_at++) {
    faulty_os faulty;
    nabla_diag diag = NABLA_DIAG_INIT;
    faulty_os_init(&faulty, NULL);
    faulty.fail_at = fail_at;
    nabla_status status = open_through(&faulty.os, &diag);
    faults = faulty.faults;
    cr_assert_lt(fail_at, 100);
    cr_expect_eq(faulty.open_fds, 0);
    if (status) {
      cr_expect_eq(status, NABLA_IO, "%s", diag.what);
      cr_expect_neq(strstr(diag.file, "/f"), NULL);
    }
    /* nothing is lost when a file that was only read cannot be closed */
    const int harmless =
        faulty.calls[FAULTY_CLOSE] && faulty.calls[FAULTY_ANY] == fail_at;
    cr_expect_eq(status == NABLA_OK, faults == 0 || harmless, "call %lu",
                 fail_at);
    if (!faults) cr_expect_gt(fail_at, 5);
  }
}

Test(safetensors, short_reads_and_interruptions) {
  faulty_os faulty;
  nabla_diag diag = NABLA_DIAG_INIT;
  temp_folder_write_safetensors(&folder, "f", everything, 20);
  faulty_os_init(&faulty, NULL);
  faulty.short_transfers = 1;
  faulty.interrupt = 1;
  cr_expect_eq(open_through(&faulty.os, &diag), NABLA_OK, "%s", diag.what);
  cr_expect_gt(faulty.calls[FAULTY_PREAD], 10);
  cr_expect_eq(faulty.open_fds, 0);
}
