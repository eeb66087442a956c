/* The safetensors writer: layout to the byte, what it refuses, and that
 * nothing stands under the final name before everything is there. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/bytes.h"
#include "lib/base/json/json.h"
#include "nabla/safetensors.h"
#include "tests/support/failing_allocator.h"
#include "tests/support/faulty_os.h"
#include "tests/support/temp_folder.h"

static temp_folder folder;
static char target[256];
static nabla_diag diag;

static void set_up(void) {
  temp_folder_create(&folder);
  temp_folder_path(&folder, "out", target);
  diag = (nabla_diag)NABLA_DIAG_INIT;
}

static void tear_down(void) { temp_folder_destroy(&folder); }

TestSuite(safetensors_writer, .init = set_up, .fini = tear_down);

static nabla_safetensors_writer *create(void) {
  nabla_safetensors_writer *writer = NULL;
  cr_assert_eq(nabla_safetensors_writer_create(NULL, NULL, &writer, &diag),
               NABLA_OK);
  return writer;
}

static nabla_status add(nabla_safetensors_writer *writer, const char *name,
                        nabla_dtype dtype, const uint64_t *shape, uint32_t rank,
                        size_t *out_id) {
  return nabla_safetensors_writer_add(writer, name, strlen(name), dtype, shape,
                                      rank, out_id, &diag);
}

/* Adds a vector of bytes; returns its id. */
static size_t add_bytes(nabla_safetensors_writer *writer, const char *name,
                        uint64_t size) {
  size_t id = SIZE_MAX;
  cr_assert_eq(add(writer, name, NABLA_DTYPE_U8, &size, 1, &id), NABLA_OK, "%s",
               diag.what);
  return id;
}

static nabla_status begin(nabla_safetensors_writer *writer) {
  return nabla_safetensors_writer_begin(writer, target, 0, &diag);
}

/* Reads the whole of `target` into `out`; returns its size. */
static size_t slurp(uint8_t *out, size_t room) {
  FILE *file = fopen(target, "rb");
  cr_assert_neq(file, NULL);
  size_t size = fread(out, 1, room, file);
  cr_assert_lt(size, room);
  fclose(file);
  return size;
}

/* A file of all that there is, to the byte. */
static const char golden_header[] =
    "{\"__metadata__\":{\"a\\\"b\":\"1\",\"k\":\"last\",\"z\":\"\"},"
    "\"f\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]},"
    "\"b\":{\"dtype\":\"U8\",\"shape\":[2,2],\"data_offsets\":[4,8]},"
    "\"c\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[8,8]},"
    "\"h\":{\"dtype\":\"F4\",\"shape\":[6],\"data_offsets\":[8,11]}}";

/* Declares and writes that file, in the order of ids. */
static nabla_status write_golden(const nabla_allocator *allocator,
                                 const nabla_os *os, int force) {
  static const uint64_t square[] = {2, 2}, zero[] = {0}, six[] = {6};
  static const struct {
    const char *name;
    nabla_dtype dtype;
    const uint64_t *shape;
    uint32_t rank;
    const char *data;
    size_t size;
  } tensors[] = {{"c", NABLA_DTYPE_U8, zero, 1, "", 0},
                 {"h", NABLA_DTYPE_F4, six, 1, "hij", 3},
                 {"b", NABLA_DTYPE_U8, square, 2, "defg", 4},
                 {"f", NABLA_DTYPE_F32, NULL, 0, "0123", 4}};
  static const char *const pairs[][2] = {
      {"k", "first"}, {"z", ""}, {"k", "last"}, {"a\"b", "1"}};
  nabla_safetensors_writer *w = NULL;
  size_t ids[4];
  nabla_status status =
      nabla_safetensors_writer_create(allocator, os, &w, &diag);
  for (size_t i = 0; !status && i < 4; i++)
    status = nabla_safetensors_writer_add(w, tensors[i].name, 1,
                                          tensors[i].dtype, tensors[i].shape,
                                          tensors[i].rank, &ids[i], &diag);
  for (size_t i = 0; !status && i < 4; i++)
    status = nabla_safetensors_writer_add_metadata(w, pairs[i][0], pairs[i][1],
                                                   &diag);
  if (!status) status = nabla_safetensors_writer_begin(w, target, force, &diag);
  for (size_t i = 0; !status && i < 4; i++)
    status = nabla_safetensors_writer_write(w, ids[i], 0, tensors[i].data,
                                            tensors[i].size, &diag);
  if (!status) status = nabla_safetensors_writer_commit(w, &diag);
  nabla_safetensors_writer_destroy(w);
  return status;
}

/* Checks `target` against golden_header. */
static void expect_golden(void) {
  uint8_t bytes[1024];
  size_t size = slurp(bytes, sizeof bytes), text = strlen(golden_header);
  uint64_t start = 8 + nabla_load_le64(bytes);
  cr_expect_eq(start % 64, 0);
  cr_assert_geq(start, 8 + text);
  cr_expect_lt(start, 8 + text + 64);
  cr_assert_eq(size, start + 11);
  cr_expect_eq(memcmp(bytes + 8, golden_header, text), 0, "%.400s", bytes + 8);
  for (uint64_t i = 8 + text; i < start; i++) cr_expect_eq(bytes[i], ' ');
  cr_expect_eq(memcmp(bytes + start, "0123defghij", 11), 0);
}

Test(safetensors_writer, layout_to_the_byte) {
  cr_assert_eq(write_golden(NULL, NULL, 0), NABLA_OK, "%s", diag.what);
  expect_golden();
  cr_expect_eq(temp_folder_count(&folder), 1);
}

Test(safetensors_writer, an_existing_file) {
  temp_folder_write(&folder, "out", "mine", 4);
  cr_expect_eq(write_golden(NULL, NULL, 0), NABLA_EXISTS);
  cr_expect_neq(strstr(diag.file, "/out"), NULL);
  uint8_t bytes[8];
  cr_expect_eq(slurp(bytes, sizeof bytes), 4);
  cr_expect_eq(write_golden(NULL, NULL, 1), NABLA_OK, "%s", diag.what);
  expect_golden();
}

/* The padding at every length of the header modulo 64. */
Test(safetensors_writer, data_starts_at_a_multiple_of_64) {
  for (size_t length = 1; length <= 130; length++) {
    char name[132];
    memset(name, 'n', length);
    name[length] = '\0';
    nabla_safetensors_writer *writer = create();
    size_t id = add_bytes(writer, name, 1);
    cr_assert_eq(nabla_safetensors_writer_begin(writer, target, 1, &diag),
                 NABLA_OK);
    cr_expect_eq(nabla_safetensors_writer_write(writer, id, 0, "x", 1, &diag),
                 NABLA_OK);
    uint64_t size = nabla_safetensors_writer_file_size(writer);
    cr_expect_eq(nabla_safetensors_writer_commit(writer, &diag), NABLA_OK);
    nabla_safetensors_writer_destroy(writer);
    nabla_tensor_file *file = NULL;
    cr_assert_eq(nabla_tensor_file_open(target, NULL, NULL, &file, &diag),
                 NABLA_OK, "%s", diag.what);
    cr_expect_eq(nabla_tensor_file_size(file), size);
    cr_expect_eq(nabla_tensor_file_entry(file, 0).offset % 64, 0);
    cr_expect_lt(size, 8 + 60 + length + 64 + 1);
    nabla_tensor_file_close(file);
  }
}

Test(safetensors_writer, an_empty_file) {
  nabla_safetensors_writer *writer = create();
  cr_assert_eq(begin(writer), NABLA_OK);
  cr_expect_eq(nabla_safetensors_writer_file_size(writer), 64);
  cr_assert_eq(nabla_safetensors_writer_commit(writer, &diag), NABLA_OK);
  nabla_safetensors_writer_destroy(writer);
  nabla_tensor_file *file = NULL;
  cr_assert_eq(nabla_tensor_file_open(target, NULL, NULL, &file, &diag),
               NABLA_OK);
  cr_expect_eq(nabla_tensor_file_count(file), 0);
  nabla_tensor_file_close(file);
}

/* Names and texts that JSON must escape, or must not touch. */
static const char *const texts[] = {"plain",
                                    "\"",
                                    "\\",
                                    "\b\f\n\r\t",
                                    "\x01\x1f\x7f",
                                    "a/b",
                                    "</script>",
                                    "\xc3\xa9",
                                    "\xe2\x82\xac",
                                    "\xf0\x9f\x98\x80",
                                    "\xef\xbf\xbd",
                                    " ",
                                    "{\"dtype\":\"U8\"}",
                                    "%s%n",
                                    "__metadata",
                                    "__metadata__ ",
                                    "\\u0041"};

enum { TEXTS = sizeof texts / sizeof *texts };

static void expect_round_trip(const nabla_tensor_file *file) {
  for (size_t i = 0; i < TEXTS; i++) {
    size_t at = nabla_tensor_file_find(file, texts[i], strlen(texts[i]));
    cr_assert_neq(at, SIZE_MAX, "%s", texts[i]);
    nabla_entry entry = nabla_tensor_file_entry(file, at);
    uint8_t bytes[TEXTS + 1];
    cr_expect_str_eq(entry.name, texts[i]);
    cr_assert_eq(entry.bytes, i);
    cr_expect_eq(nabla_tensor_file_read(file, at, 0, bytes, i, NULL), NABLA_OK);
    for (size_t j = 0; j < i; j++) cr_expect_eq(bytes[j], (uint8_t)i);
  }
  cr_assert_eq(nabla_tensor_file_metadata_count(file), TEXTS);
  for (size_t i = 0; i < TEXTS; i++) {
    const char *key, *value;
    nabla_tensor_file_metadata(file, i, &key, &value);
    cr_expect_str_eq(key, value);
    if (i == 0) continue;
    const char *before, *ignored;
    nabla_tensor_file_metadata(file, i - 1, &before, &ignored);
    cr_expect_lt(strcmp(before, key), 0);
  }
}

Test(safetensors_writer, texts_round_trip) {
  nabla_safetensors_writer *writer = create();
  uint8_t fill[TEXTS];
  size_t ids[TEXTS];
  for (size_t i = 0; i < TEXTS; i++) {
    ids[i] = add_bytes(writer, texts[i], i);
    cr_expect_eq(ids[i], i);
    cr_assert_eq(nabla_safetensors_writer_add_metadata(writer, texts[i],
                                                       texts[i], &diag),
                 NABLA_OK);
  }
  cr_assert_eq(begin(writer), NABLA_OK, "%s", diag.what);
  for (size_t i = 0; i < TEXTS; i++) {
    memset(fill, (int)i, sizeof fill);
    cr_assert_eq(
        nabla_safetensors_writer_write(writer, ids[i], 0, fill, i, &diag),
        NABLA_OK);
  }
  cr_assert_eq(nabla_safetensors_writer_commit(writer, &diag), NABLA_OK);
  nabla_safetensors_writer_destroy(writer);
  nabla_tensor_file *file = NULL;
  cr_assert_eq(nabla_tensor_file_open(target, NULL, NULL, &file, &diag),
               NABLA_OK, "%s", diag.what);
  expect_round_trip(file);
  nabla_tensor_file_close(file);
}

/* Every dtype, three shapes each: sizes agree with the reader, and the data lie
 * in descending order of dtype. */
Test(safetensors_writer, every_dtype) {
  static const uint64_t shape[] = {4, 0, 2, 3};
  nabla_safetensors_writer *writer = create();
  static const uint8_t zeros[256];
  uint64_t sizes[NABLA_DTYPE_COUNT * 3];
  size_t count = 0, id;
  for (unsigned d = 0; d < NABLA_DTYPE_COUNT; d++) {
    uint32_t bits = nabla_dtype_bits((nabla_dtype)d);
    for (uint32_t first = 0; first < 3; first++, count++) {
      char name[32];
      /* [4], [0, 2, 3], and [] or, where one element is no byte, [4] */
      const uint32_t rank = first == 0 ? 1 : first == 1 ? 3 : bits < 8;
      snprintf(name, sizeof name, "%u.%u", d, first);
      cr_assert_eq(add(writer, name, (nabla_dtype)d,
                       first == 1 ? shape + 1 : shape, rank, &id),
                   NABLA_OK, "%s", diag.what);
      cr_assert_eq(id, count);
      uint64_t elements = first == 1 ? 0 : rank ? 4 : 1;
      sizes[count] = elements * bits / 8;
    }
  }
  cr_assert_eq(begin(writer), NABLA_OK);
  for (size_t i = 0; i < count; i++)
    cr_assert_eq(
        nabla_safetensors_writer_write(writer, i, 0, zeros, sizes[i], &diag),
        NABLA_OK);
  cr_assert_eq(nabla_safetensors_writer_commit(writer, &diag), NABLA_OK);
  nabla_safetensors_writer_destroy(writer);
  nabla_tensor_file *file = NULL;
  cr_assert_eq(nabla_tensor_file_open(target, NULL, NULL, &file, &diag),
               NABLA_OK, "%s", diag.what);
  cr_assert_eq(nabla_tensor_file_count(file), count);
  for (size_t i = 1; i < count; i++)
    cr_expect_geq(nabla_tensor_file_entry(file, i - 1).dtype,
                  nabla_tensor_file_entry(file, i).dtype);
  nabla_tensor_file_close(file);
}

Test(safetensors_writer, tensors_it_refuses) {
  static const uint64_t many[33] = {0};
  static const uint64_t huge[] = {1ull << 32, 1ull << 32, 0};
  static const uint64_t bits[] = {1ull << 61}, odd[] = {3}, four[] = {4};
  char name[4098];
  memset(name, 'n', sizeof name);
  const struct {
    const char *name;
    size_t length;
    nabla_dtype dtype;
    const uint64_t *shape;
    uint32_t rank;
    nabla_status status;
  } cases[] = {
      {"", 0, NABLA_DTYPE_U8, four, 1, NABLA_INVALID_ARGUMENT},
      {"__metadata__", 12, NABLA_DTYPE_U8, four, 1, NABLA_INVALID_ARGUMENT},
      {"a\0b", 3, NABLA_DTYPE_U8, four, 1, NABLA_INVALID_ARGUMENT},
      {"\xff", 1, NABLA_DTYPE_U8, four, 1, NABLA_INVALID_ARGUMENT},
      {"\xed\xa0\x80", 3, NABLA_DTYPE_U8, four, 1, NABLA_INVALID_ARGUMENT},
      {"\xc3\xa9", 1, NABLA_DTYPE_U8, four, 1, NABLA_INVALID_ARGUMENT},
      {name, 4097, NABLA_DTYPE_U8, four, 1, NABLA_TOO_LARGE},
      {name, 4096, NABLA_DTYPE_U8, four, 1, NABLA_OK},
      {"a", 1, NABLA_DTYPE_U8, many, 33, NABLA_TOO_LARGE},
      {"a", 1, NABLA_DTYPE_U8, many, 32, NABLA_OK},
      {"b", 1, NABLA_DTYPE_U8, huge, 3, NABLA_TOO_LARGE},
      {"b", 1, NABLA_DTYPE_U8, bits, 1, NABLA_TOO_LARGE},
      {"b", 1, NABLA_DTYPE_F4, odd, 1, NABLA_TOO_LARGE},
      {"b", 1, NABLA_DTYPE_F6_E2M3, odd, 1, NABLA_TOO_LARGE},
      {"b", 1, NABLA_DTYPE_COUNT, four, 1, NABLA_INVALID_ARGUMENT},
      {"b", 1, NABLA_DTYPE_F6_E2M3, four, 1, NABLA_OK},
  };
  nabla_safetensors_writer *writer = create();
  size_t accepted = 0;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    size_t id = 77;
    nabla_status status = nabla_safetensors_writer_add(
        writer, cases[i].name, cases[i].length, cases[i].dtype, cases[i].shape,
        cases[i].rank, &id, &diag);
    cr_expect_eq(status, cases[i].status, "row %zu: %s", i, diag.what);
    cr_expect_eq(id, status ? 77 : accepted, "row %zu", i);
    accepted += status == NABLA_OK;
  }
  cr_expect_eq(begin(writer), NABLA_OK, "%s", diag.what);
  nabla_safetensors_writer_destroy(writer);
  cr_expect_eq(temp_folder_count(&folder), 0);
}

Test(safetensors_writer, metadata_it_refuses) {
  enum { LONGEST = NABLA_JSON_MAX_STRING };
  nabla_safetensors_writer *writer = create();
  char *text = malloc(LONGEST + 2);
  cr_assert_neq(text, NULL);
  memset(text, 't', LONGEST + 1);
  text[LONGEST + 1] = '\0';
  cr_expect_eq(nabla_safetensors_writer_add_metadata(writer, text, "", &diag),
               NABLA_TOO_LARGE);
  cr_expect_eq(nabla_safetensors_writer_add_metadata(writer, "", text, &diag),
               NABLA_TOO_LARGE);
  cr_expect_eq(nabla_safetensors_writer_add_metadata(writer, "\xff", "", &diag),
               NABLA_INVALID_ARGUMENT);
  cr_expect_eq(nabla_safetensors_writer_add_metadata(writer, "", "\x80", &diag),
               NABLA_INVALID_ARGUMENT);
  text[LONGEST] = '\0';
  nabla_status status = NABLA_OK;
  size_t added = 0;
  while (!status && added < 1000) {
    status = nabla_safetensors_writer_add_metadata(writer, "k", text, &diag);
    added += status == NABLA_OK;
  }
  cr_expect_eq(status, NABLA_TOO_LARGE);
  cr_expect_eq(added, NABLA_SAFETENSORS_MAX_METADATA / (LONGEST + 3));
  cr_expect_eq(begin(writer), NABLA_OK, "%s", diag.what);
  nabla_safetensors_writer_destroy(writer);
  free(text);
}

/* Also when their dtypes keep them apart in the file. */
Test(safetensors_writer, two_tensors_of_one_name) {
  nabla_safetensors_writer *writer = create();
  size_t id;
  add_bytes(writer, "same", 1);
  add_bytes(writer, "other", 1);
  cr_assert_eq(add(writer, "same", NABLA_DTYPE_F64, NULL, 0, &id), NABLA_OK);
  cr_expect_eq(begin(writer), NABLA_INVALID_ARGUMENT);
  cr_expect_str_eq(diag.tensor, "same");
  cr_expect_eq(temp_folder_count(&folder), 0);
  nabla_safetensors_writer_destroy(writer);
}

Test(safetensors_writer, sizes_that_no_file_has) {
  static const uint64_t half[] = {1ull << 60}, quarter[] = {1ull << 57};
  size_t id;
  nabla_safetensors_writer *writer = create();
  for (size_t i = 0; i < 16; i++) { /* 16 times 2^60: beyond 2^64 - 1 */
    char name[8];
    snprintf(name, sizeof name, "%zu", i);
    cr_assert_eq(add(writer, name, NABLA_DTYPE_U8, half, 1, &id), NABLA_OK);
  }
  cr_expect_eq(begin(writer), NABLA_TOO_LARGE);
  nabla_safetensors_writer_destroy(writer);
  writer = create();
  for (size_t i = 0; i < 8; i++) { /* 8 times 2^60: beyond off_t */
    char name[8];
    snprintf(name, sizeof name, "%zu", i);
    cr_assert_eq(add(writer, name, NABLA_DTYPE_F64, quarter, 1, &id), NABLA_OK);
  }
  cr_expect_eq(begin(writer), NABLA_TOO_LARGE);
  nabla_safetensors_writer_destroy(writer);
  cr_expect_eq(temp_folder_count(&folder), 0);
}

/* 24,200 names of 4 KiB take more than the 100 MB of the format. */
Test(safetensors_writer, the_limit_of_the_header) {
  nabla_safetensors_writer *writer = create();
  char name[4097];
  memset(name, 'n', 4096);
  name[4096] = '\0';
  for (size_t i = 0; i < 24200; i++) {
    snprintf(name, sizeof name, "%05zu", i);
    name[5] = 'n';
    add_bytes(writer, name, 0);
  }
  cr_expect_eq(begin(writer), NABLA_TOO_LARGE);
  cr_expect_eq(temp_folder_count(&folder), 0);
  nabla_safetensors_writer_destroy(writer);
}

/* A header longer than the buffer it is written through. */
Test(safetensors_writer, a_long_header) {
  enum { COUNT = 3000 };
  nabla_safetensors_writer *writer = create();
  for (size_t i = 0; i < COUNT; i++) {
    char name[32];
    snprintf(name, sizeof name, "t%zu", i * 7919 % COUNT);
    add_bytes(writer, name, 1);
  }
  cr_assert_eq(begin(writer), NABLA_OK, "%s", diag.what);
  for (size_t i = 0; i < COUNT; i++) {
    uint8_t byte = (uint8_t)(i * 7919 % COUNT);
    cr_assert_eq(nabla_safetensors_writer_write(writer, i, 0, &byte, 1, &diag),
                 NABLA_OK);
  }
  cr_assert_eq(nabla_safetensors_writer_commit(writer, &diag), NABLA_OK);
  nabla_safetensors_writer_destroy(writer);
  nabla_tensor_file *file = NULL;
  cr_assert_eq(nabla_tensor_file_open(target, NULL, NULL, &file, &diag),
               NABLA_OK, "%s", diag.what);
  for (size_t i = 0; i < COUNT; i++) {
    char name[32];
    uint8_t byte;
    snprintf(name, sizeof name, "t%zu", i);
    size_t at = nabla_tensor_file_find(file, name, strlen(name));
    cr_assert_neq(at, SIZE_MAX);
    cr_assert_eq(nabla_tensor_file_read(file, at, 0, &byte, 1, &diag),
                 NABLA_OK);
    cr_expect_eq(byte, (uint8_t)i);
  }
  nabla_tensor_file_close(file);
}

Test(safetensors_writer, an_incomplete_file_is_not_committed) {
  nabla_safetensors_writer *writer = create();
  size_t id = add_bytes(writer, "a", 4);
  cr_assert_eq(begin(writer), NABLA_OK);
  cr_expect_eq(nabla_safetensors_writer_write(writer, id, 0, "abc", 3, &diag),
               NABLA_OK);
  cr_expect_eq(nabla_safetensors_writer_commit(writer, &diag),
               NABLA_INVALID_ARGUMENT);
  cr_expect_neq(strstr(diag.what, "3 of 4 bytes"), NULL, "%s", diag.what);
  cr_expect_neq(access(target, F_OK), 0);
  cr_expect_eq(nabla_safetensors_writer_write(writer, id, 3, "d", 1, &diag),
               NABLA_OK);
  cr_expect_eq(nabla_safetensors_writer_commit(writer, &diag), NABLA_OK);
  cr_expect_eq(access(target, F_OK), 0);
  cr_expect_eq(nabla_safetensors_writer_commit(writer, &diag),
               NABLA_INVALID_ARGUMENT);
  nabla_safetensors_writer_destroy(writer);
  cr_expect_eq(temp_folder_count(&folder), 1);
}

Test(safetensors_writer, nothing_is_left_without_commit) {
  nabla_safetensors_writer *writer = create();
  size_t id = add_bytes(writer, "a", 4);
  cr_assert_eq(begin(writer), NABLA_OK);
  cr_expect_eq(nabla_safetensors_writer_write(writer, id, 0, "abcd", 4, &diag),
               NABLA_OK);
  cr_expect_eq(temp_folder_count(&folder), 1);
  nabla_safetensors_writer_destroy(writer);
  cr_expect_eq(temp_folder_count(&folder), 0);
  nabla_safetensors_writer_destroy(NULL);
}

Test(safetensors_writer, calls_in_the_wrong_order) {
  nabla_safetensors_writer *writer = create();
  size_t id = add_bytes(writer, "a", 4), other = 77;
  cr_expect_eq(nabla_safetensors_writer_write(writer, id, 0, "a", 1, &diag),
               NABLA_INVALID_ARGUMENT);
  cr_expect_eq(nabla_safetensors_writer_commit(writer, &diag),
               NABLA_INVALID_ARGUMENT);
  cr_assert_eq(begin(writer), NABLA_OK);
  cr_expect_eq(begin(writer), NABLA_INVALID_ARGUMENT);
  cr_expect_eq(add(writer, "b", NABLA_DTYPE_U8, NULL, 0, &other),
               NABLA_INVALID_ARGUMENT);
  cr_expect_eq(other, 77);
  cr_expect_eq(nabla_safetensors_writer_add_metadata(writer, "k", "v", &diag),
               NABLA_INVALID_ARGUMENT);
  static const struct {
    size_t id;
    uint64_t at;
    size_t size;
  } outside[] = {
      {0, 4, 1}, {0, 0, 5}, {0, 5, 0}, {0, UINT64_MAX, 2}, {1, 0, 1}};
  for (size_t i = 0; i < sizeof outside / sizeof *outside; i++)
    cr_expect_eq(
        nabla_safetensors_writer_write(writer, outside[i].id, outside[i].at,
                                       "12345", outside[i].size, &diag),
        NABLA_INVALID_ARGUMENT);
  nabla_safetensors_writer_destroy(writer);
}

/* A begin that failed changes nothing: it may be tried again. */
Test(safetensors_writer, begin_again_after_a_failure) {
  nabla_safetensors_writer *writer = create();
  size_t id = add_bytes(writer, "a", 1);
  temp_folder_write(&folder, "out", "mine", 4);
  cr_expect_eq(begin(writer), NABLA_EXISTS);
  cr_expect_eq(nabla_safetensors_writer_begin(writer, target, 1, &diag),
               NABLA_OK);
  cr_expect_eq(nabla_safetensors_writer_write(writer, id, 0, "a", 1, &diag),
               NABLA_OK);
  cr_expect_eq(nabla_safetensors_writer_commit(writer, &diag), NABLA_OK);
  nabla_safetensors_writer_destroy(writer);
}

/* Also one that failed at any of its allocations. */
Test(safetensors_writer, begin_again_without_memory) {
  enum { COUNT = 40 };
  nabla_status status;
  size_t fail_at = 0;
  do {
    failing_allocator failing;
    nabla_safetensors_writer *writer = NULL;
    nabla_tensor_file *file = NULL;
    failing_allocator_init(&failing, 0);
    cr_assert_eq(nabla_safetensors_writer_create(&failing.allocator, NULL,
                                                 &writer, &diag),
                 NABLA_OK);
    for (size_t i = 0; i < COUNT; i++) {
      char name[8];
      snprintf(name, sizeof name, "%zu", COUNT - i);
      add_bytes(writer, name, 0);
    }
    failing.fail_at = failing.requests + ++fail_at;
    status = begin(writer);
    cr_expect_eq(status != NABLA_OK, failing.failures == 1);
    if (status) cr_assert_eq(begin(writer), NABLA_OK, "%s", diag.what);
    cr_assert_eq(nabla_safetensors_writer_commit(writer, &diag), NABLA_OK);
    nabla_safetensors_writer_destroy(writer);
    cr_expect(failing_allocator_is_clean(&failing));
    cr_assert_eq(nabla_tensor_file_open(target, NULL, NULL, &file, &diag),
                 NABLA_OK, "%s", diag.what);
    cr_expect_eq(nabla_tensor_file_count(file), COUNT);
    nabla_tensor_file_close(file);
    cr_assert_eq(unlink(target), 0);
  } while (status && fail_at < 100);
  cr_expect_eq(status, NABLA_OK);
  cr_expect_gt(fail_at, 5);
}

enum { THREADS = 4, PIECES = 200, PIECE = 97 };

typedef struct share {
  nabla_safetensors_writer *writer;
  size_t id, number;
} share;

static void *write_share(void *context) {
  const share *mine = context;
  uint8_t bytes[PIECE];
  for (size_t i = mine->number; i < PIECES; i += THREADS) {
    memset(bytes, (int)i, sizeof bytes);
    if (nabla_safetensors_writer_write(mine->writer, mine->id, i * PIECE, bytes,
                                       PIECE, NULL))
      return context;
  }
  return NULL;
}

Test(safetensors_writer, threads) {
  nabla_safetensors_writer *writer = create();
  size_t id = add_bytes(writer, "a", PIECES * PIECE);
  share shares[THREADS];
  pthread_t threads[THREADS];
  cr_assert_eq(begin(writer), NABLA_OK);
  for (size_t i = 0; i < THREADS; i++) {
    shares[i] = (share){writer, id, i};
    cr_assert_eq(pthread_create(&threads[i], NULL, write_share, &shares[i]), 0);
  }
  for (size_t i = 0; i < THREADS; i++) {
    void *failed;
    cr_assert_eq(pthread_join(threads[i], &failed), 0);
    cr_expect_eq(failed, NULL);
  }
  cr_assert_eq(nabla_safetensors_writer_commit(writer, &diag), NABLA_OK, "%s",
               diag.what);
  nabla_safetensors_writer_destroy(writer);
  uint8_t *bytes = malloc(PIECES * PIECE + 1024);
  cr_assert_neq(bytes, NULL);
  size_t size = slurp(bytes, PIECES * PIECE + 1024);
  const uint8_t *data = bytes + size - PIECES * PIECE;
  for (size_t i = 0; i < PIECES * PIECE; i++)
    cr_assert_eq(data[i], (uint8_t)(i / PIECE));
  free(bytes);
}

/* The Nth allocation fails, for every N until none does. */
Test(safetensors_writer, every_allocation_fails_once) {
  nabla_status status;
  size_t fail_at = 1;
  do {
    failing_allocator failing;
    failing_allocator_init(&failing, fail_at);
    status = write_golden(&failing.allocator, NULL, 0);
    cr_expect_eq(failing.failures, status != NABLA_OK);
    cr_expect(failing_allocator_is_clean(&failing), "%zu", fail_at);
    if (status) {
      cr_expect_eq(status, NABLA_NO_MEMORY, "%zu: %s", fail_at, diag.what);
      cr_expect_eq(temp_folder_count(&folder), 0, "%zu", fail_at);
    }
  } while (status && fail_at++ < 100);
  cr_assert_eq(status, NABLA_OK);
  cr_expect_gt(fail_at, 8);
  expect_golden();
}

/* After a failure the final name is absent, and nothing else is left; after a
 * success the file is complete. */
static void expect_absent_or_complete(nabla_status status, uint64_t fail_at) {
  const size_t exists = access(target, F_OK) == 0;
  cr_expect_eq(temp_folder_count(&folder), exists, "call %lu", fail_at);
  if (exists) expect_golden();
  if (exists) cr_expect_eq(unlink(target), 0);
  if (status)
    cr_expect_eq(status, NABLA_IO, "call %lu: %s", fail_at, diag.what);
  else
    cr_expect(exists, "call %lu", fail_at);
}

/* The Nth call of the operating system fails, for every N until none does. */
Test(safetensors_writer, every_system_call_fails_once) {
  uint64_t faults = 1, failures = 0;
  for (uint64_t fail_at = 1; faults > 0; fail_at++) {
    faulty_os faulty;
    faulty_os_init(&faulty, NULL);
    faulty.fail_at = fail_at;
    nabla_status status = write_golden(NULL, &faulty.os, 0);
    faults = faulty.faults;
    failures += status != NABLA_OK;
    cr_assert_lt(fail_at, 100);
    cr_expect_eq(faulty.open_fds, 0, "call %lu", fail_at);
    if (!faults) cr_expect_eq(status, NABLA_OK, "%s", diag.what);
    expect_absent_or_complete(status, fail_at);
  }
  cr_expect_gt(failures, 7);
}

/* A disk that fills after every number of bytes. */
Test(safetensors_writer, every_size_of_a_full_disk) {
  cr_assert_eq(write_golden(NULL, NULL, 0), NABLA_OK);
  uint8_t bytes[1024];
  const size_t size = slurp(bytes, sizeof bytes);
  cr_assert_eq(unlink(target), 0);
  for (size_t space = 0; space <= size; space++) {
    faulty_os faulty;
    faulty_os_init(&faulty, NULL);
    faulty.space = space;
    nabla_status status = write_golden(NULL, &faulty.os, 0);
    cr_expect_eq(status, space < size ? NABLA_IO : NABLA_OK, "%zu", space);
    expect_absent_or_complete(status, space);
  }
}

Test(safetensors_writer, short_writes_and_interruptions) {
  faulty_os faulty;
  faulty_os_init(&faulty, NULL);
  faulty.short_transfers = 1;
  faulty.interrupt = 1;
  cr_expect_eq(write_golden(NULL, &faulty.os, 0), NABLA_OK, "%s", diag.what);
  cr_expect_gt(faulty.calls[FAULTY_PWRITE], 10);
  cr_expect_eq(faulty.open_fds, 0);
  expect_golden();
}
