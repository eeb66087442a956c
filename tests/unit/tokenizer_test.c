/* Tokenizers: files made here, ids and texts worked out by hand. */
#include "nabla/tokenizer.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "tests/support/failing_allocator.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tokenizer_files.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

static temp_folder folder;

static void begin(void) { temp_folder_create(&folder); }
static void end(void) { temp_folder_destroy(&folder); }
TestSuite(tokenizer, .init = begin, .fini = end);

/* Writes a file and opens it by its path. */
static nabla_status open_bytes(const char *name, const void *data, size_t size,
                               nabla_tokenizer **out, nabla_diag *diag) {
  char path[256];
  temp_folder_write(&folder, name, data, size);
  temp_folder_path(&folder, name, path);
  return nabla_tokenizer_open(path, NULL, out, diag);
}

static nabla_tokenizer *open_llama2c(void) {
  tokenizer_file file;
  nabla_tokenizer *tokenizer = NULL;
  tokenizer_file_llama2c(&file);
  cr_assert_eq(
      open_bytes("tokenizer.bin", file.bytes, file.size, &tokenizer, NULL),
      NABLA_OK);
  return tokenizer;
}

static void expect_ids(const nabla_tokenizer *tokenizer, const char *text,
                       unsigned flags, const uint32_t *ids, size_t count) {
  nabla_token_list list;
  cr_assert_eq(
      nabla_tokenizer_encode(tokenizer, text, strlen(text), flags, &list, NULL),
      NABLA_OK);
  cr_assert_eq(list.count, count, "'%s': %zu ids", text, list.count);
  for (size_t i = 0; i < count; i++)
    cr_expect_eq(list.ids[i], ids[i], "'%s', id %zu: %u", text, i, list.ids[i]);
  nabla_token_list_release(tokenizer, &list);
  cr_expect_null(list.ids);
}

static void expect_text(const nabla_tokenizer *tokenizer, const uint32_t *ids,
                        size_t count, unsigned flags, const char *text) {
  nabla_token_text decoded;
  cr_assert_eq(
      nabla_tokenizer_decode(tokenizer, ids, count, flags, &decoded, NULL),
      NABLA_OK);
  cr_expect_str_eq(decoded.bytes, text);
  nabla_token_text_release(tokenizer, &decoded);
}

Test(tokenizer, llama2c_joins_the_best_pair_first) {
  nabla_tokenizer *tokenizer = open_llama2c();
  /* "bc" has a greater score than "ab": a, bc; and " a" than both. */
  static const uint32_t abc[] = {BOS, SPACE_A, BC};
  static const uint32_t babab[] = {SPACE_B, AB, AB};
  expect_ids(tokenizer, "abc", NABLA_ENCODE_ADD_SPECIAL, abc, COUNT(abc));
  expect_ids(tokenizer, "babab", NABLA_ENCODE_PLAIN, babab, COUNT(babab));
  expect_ids(tokenizer, "", NABLA_ENCODE_PLAIN, NULL, 0);
  expect_ids(tokenizer, "", NABLA_ENCODE_ADD_SPECIAL, abc, 1);
  nabla_tokenizer_close(tokenizer);
}

Test(tokenizer, llama2c_writes_unknown_characters_as_bytes) {
  nabla_tokenizer *tokenizer = open_llama2c();
  static const uint32_t ids[] = {SPACE, BYTE + 0xc3, BYTE + 0xa9, AB};
  expect_ids(tokenizer,
             "\xc3\xa9"
             "ab",
             NABLA_ENCODE_PLAIN, ids, COUNT(ids));
  expect_text(tokenizer, ids, COUNT(ids), NABLA_DECODE_PLAIN,
              "\xc3\xa9"
              "ab");
  nabla_tokenizer_close(tokenizer);
}

Test(tokenizer, text_begins_without_its_first_space) {
  nabla_tokenizer *tokenizer = open_llama2c();
  static const uint32_t ids[] = {BOS, SPACE_A, SPACE_A, EOS};
  static const uint32_t spaces[] = {SPACE, SPACE, A};
  expect_text(tokenizer, ids, COUNT(ids), NABLA_DECODE_PLAIN, "a a");
  expect_text(tokenizer, ids, COUNT(ids), NABLA_DECODE_SKIP_SPECIAL, "a a");
  expect_text(tokenizer, spaces, COUNT(spaces), NABLA_DECODE_PLAIN, " a");
  nabla_tokenizer_close(tokenizer);
}

Test(tokenizer, wrong_bytes_become_replacement_characters) {
  nabla_tokenizer *tokenizer = open_llama2c();
  static const uint32_t ids[] = {BYTE + 0xff, A, BYTE + 0xe2, BYTE + 0x82, B};
  expect_text(tokenizer, ids, COUNT(ids), NABLA_DECODE_PLAIN,
              "\xef\xbf\xbd"
              "a"
              "\xef\xbf\xbd\xef\xbf\xbd"
              "b");
  nabla_tokenizer_close(tokenizer);
}

Test(tokenizer, stream_holds_bytes_back_until_they_are_a_character) {
  nabla_tokenizer *tokenizer = open_llama2c();
  static const uint32_t ids[] = {SPACE_A, BYTE + 0xe2, BYTE + 0x82, BYTE + 0xac,
                                 BYTE + 0xe2};
  static const char *const texts[] = {"a", "", "", "\xe2\x82\xac", ""};
  const size_t capacity = nabla_tokenizer_stream_capacity(tokenizer);
  nabla_token_stream stream = {.held_count = 0};
  char text[256];
  size_t size;
  cr_assert_leq(capacity, sizeof text);
  for (size_t i = 0; i < COUNT(ids); i++) {
    cr_assert_eq(nabla_tokenizer_stream_next(tokenizer, &stream, ids[i], 0,
                                             text, capacity, &size, NULL),
                 NABLA_OK);
    cr_expect_eq(size, strlen(texts[i]), "id %zu: %zu", i, size);
    cr_expect(!memcmp(text, texts[i], size));
  }
  cr_assert_eq(nabla_tokenizer_stream_flush(tokenizer, &stream, text, capacity,
                                            &size, NULL),
               NABLA_OK);
  cr_expect_eq(size, 3);
  cr_expect_eq(stream.has_begun, 0);
  nabla_tokenizer_close(tokenizer);
}

Test(tokenizer, pieces_by_id_and_ids_by_piece) {
  nabla_tokenizer *tokenizer = open_llama2c();
  size_t length;
  const nabla_token_roles roles = nabla_tokenizer_roles(tokenizer);
  cr_expect_eq(nabla_tokenizer_size(tokenizer), VOCABULARY_SIZE);
  cr_expect_eq(nabla_tokenizer_id(tokenizer, "bc", 2), BC);
  cr_expect_eq(nabla_tokenizer_id(tokenizer, "abc", 3), NABLA_TOKEN_NONE);
  cr_expect(!memcmp(nabla_tokenizer_piece(tokenizer, BC, &length), "bc", 2));
  cr_expect_eq(length, 2);
  cr_expect_null(nabla_tokenizer_piece(tokenizer, VOCABULARY_SIZE, &length));
  cr_expect_eq(length, 0);
  cr_expect_eq(roles.unk, UNK);
  cr_expect_eq(roles.bos, BOS);
  cr_expect_eq(roles.eos, EOS);
  cr_expect(nabla_tokenizer_is_special(tokenizer, EOS));
  cr_expect_not(nabla_tokenizer_is_special(tokenizer, A));
  nabla_tokenizer_close(tokenizer);
}

Test(tokenizer, wrong_arguments_are_named) {
  nabla_tokenizer *tokenizer = open_llama2c();
  nabla_diag diag = NABLA_DIAG_INIT;
  nabla_token_list list;
  nabla_token_text decoded;
  nabla_token_stream stream = {.held_count = 0};
  const uint32_t ids[] = {A, VOCABULARY_SIZE};
  char text[256];
  size_t size;
  cr_expect_eq(nabla_tokenizer_encode(tokenizer, "ab\xff", 3, 0, &list, &diag),
               NABLA_INVALID_ARGUMENT);
  cr_expect_eq(diag.offset, 2);
  cr_expect_eq(nabla_tokenizer_encode(tokenizer, "a", 1, 4, &list, &diag),
               NABLA_INVALID_ARGUMENT);
  cr_expect_eq(nabla_tokenizer_encode(tokenizer, "a",
                                      (size_t)NABLA_TOKENIZER_MAX_TEXT + 1, 0,
                                      &list, &diag),
               NABLA_TOO_LARGE);
  cr_expect_eq(nabla_tokenizer_decode(tokenizer, ids, 2, 0, &decoded, &diag),
               NABLA_INVALID_ARGUMENT);
  cr_expect(strstr(diag.what, "no piece has the id 267"), "%s", diag.what);
  cr_expect(strstr(diag.next, "id number 1 of 2"), "%s", diag.next);
  cr_expect_eq(nabla_tokenizer_decode(tokenizer, ids, 1, 2, &decoded, &diag),
               NABLA_INVALID_ARGUMENT);
  cr_expect_eq(nabla_tokenizer_stream_next(tokenizer, &stream, A, 0, text, 3,
                                           &size, &diag),
               NABLA_INVALID_ARGUMENT);
  cr_expect_eq(stream.has_begun, 0);
  nabla_tokenizer_close(tokenizer);
}

Test(tokenizer, folder_is_searched_and_names_are_known) {
  nabla_diag diag = NABLA_DIAG_INIT;
  nabla_tokenizer *tokenizer = NULL;
  tokenizer_file file;
  cr_expect_eq(nabla_tokenizer_open(folder.path, NULL, &tokenizer, &diag),
               NABLA_INVALID_ARGUMENT);
  cr_expect(strstr(diag.next, "tokenizer.bin"), "%s", diag.next);
  tokenizer_file_llama2c(&file);
  temp_folder_write(&folder, "tokenizer.bin", file.bytes, file.size);
  cr_expect_eq(nabla_tokenizer_open(folder.path, NULL, &tokenizer, &diag),
               NABLA_OK);
  nabla_tokenizer_close(tokenizer);
  cr_expect_eq(open_bytes("words.txt", "", 0, &tokenizer, &diag),
               NABLA_INVALID_ARGUMENT);
  cr_expect(strstr(diag.next, "*.bin (llama2.c)"), "%s", diag.next);
  cr_expect_eq(nabla_tokenizer_open("/nowhere/a.bin", NULL, &tokenizer, &diag),
               NABLA_IO);
}

/* Each file is cut everywhere and has each byte changed: refused, or read, and
 * what is refused names the file. */
Test(tokenizer, damaged_llama2c_files) {
  tokenizer_file file;
  nabla_diag diag = NABLA_DIAG_INIT;
  nabla_tokenizer *tokenizer = NULL;
  tokenizer_file_llama2c(&file);
  cr_expect_eq(open_bytes("tokenizer.bin", file.bytes, 3, &tokenizer, &diag),
               NABLA_CORRUPT);
  for (size_t size = 4; size < 64; size++) {
    const nabla_status status =
        open_bytes("tokenizer.bin", file.bytes, size, &tokenizer, &diag);
    if (!status) nabla_tokenizer_close(tokenizer);
    cr_expect(!status || (status == NABLA_CORRUPT && diag.file[0]), "%zu",
              size);
  }
  static const struct {
    size_t at;
    const char *bytes, *what;
    size_t size;
  } cases[] = {
      {4, "\0\0\xc0\x7f", "not a number", 4},
      {8, "\0\0\0\0", "empty", 4},
      {8, "\xff\xff\xff\x7f", "ends within", 4},
      {12, "\xff", "not UTF-8", 1},
  };
  for (size_t i = 0; i < COUNT(cases); i++) {
    tokenizer_file_llama2c(&file);
    memcpy(file.bytes + cases[i].at, cases[i].bytes, cases[i].size);
    cr_expect_eq(
        open_bytes("tokenizer.bin", file.bytes, file.size, &tokenizer, &diag),
        NABLA_CORRUPT);
    cr_expect(strstr(diag.what, cases[i].what), "%zu: %s", i, diag.what);
    cr_expect_eq(diag.offset, 4);
  }
}

static nabla_tokenizer *open_sentencepiece(int is_unigram) {
  tokenizer_file file;
  nabla_tokenizer *tokenizer = NULL;
  nabla_diag diag = NABLA_DIAG_INIT;
  tokenizer_file_sentencepiece(&file, is_unigram);
  cr_assert_eq(
      open_bytes("tokenizer.model", file.bytes, file.size, &tokenizer, &diag),
      NABLA_OK, "%s", diag.what);
  return tokenizer;
}

Test(tokenizer, sentencepiece_joins_or_takes_the_best_path) {
  /* Scores: ab -3, bc -2, one letter -9, " a" -1. */
  static const uint32_t abc[] = {BOS, SPACE_A, BC};
  static const uint32_t bab[] = {SPACE_B, AB};
  for (int is_unigram = 0; is_unigram < 2; is_unigram++) {
    nabla_tokenizer *tokenizer = open_sentencepiece(is_unigram);
    expect_ids(tokenizer, "abc", NABLA_ENCODE_ADD_SPECIAL, abc, COUNT(abc));
    expect_ids(tokenizer, "  Bab ", NABLA_ENCODE_PLAIN, bab, COUNT(bab));
    expect_ids(tokenizer, " ", NABLA_ENCODE_PLAIN, NULL, 0);
    expect_text(tokenizer, abc, COUNT(abc), NABLA_DECODE_PLAIN, "abc");
    nabla_tokenizer_close(tokenizer);
  }
}

Test(tokenizer, sentencepiece_never_makes_control_pieces_of_text) {
  nabla_tokenizer *tokenizer = open_sentencepiece(0);
  nabla_token_list list;
  cr_assert_eq(nabla_tokenizer_encode(tokenizer, "<s>", 3,
                                      NABLA_ENCODE_PARSE_SPECIAL, &list, NULL),
               NABLA_OK);
  for (size_t i = 0; i < list.count; i++) cr_expect_neq(list.ids[i], BOS);
  nabla_token_list_release(tokenizer, &list);
  nabla_tokenizer_close(tokenizer);
}

Test(tokenizer, refused_sentencepiece_models) {
  static const struct {
    const char *trainer, *model, *what;
    size_t trainer_size, model_size;
    nabla_status status;
  } cases[] = {
      {"\x18\x03", "", "model_type", 2, 0, NABLA_UNSUPPORTED},
      {"\x18\x02\x98\x02\x00", "", "byte_fallback", 5, 0, NABLA_CORRUPT},
      {"\x1a\x00", "", "wire type", 2, 0, NABLA_CORRUPT},
      {"\x18\x02", "\x0a\x02\x0a\x00", "empty", 2, 4, NABLA_CORRUPT},
      {"\x18\x02", "\x0a\x03\x0a\x01\xff", "not UTF-8", 2, 5, NABLA_CORRUPT},
      {"\x18\x02",
       "\x0a\x03\x0a\x01"
       "a",
       "are equal", 2, 5, NABLA_CORRUPT},
      {"\x18\x02",
       "\x0a\x05\x0a\x01"
       "z\x18\x02",
       "type UNKNOWN", 2, 7, NABLA_CORRUPT},
      {"\x18\x02",
       "\x0a\x05\x0a\x01"
       "z\x18\x05",
       "UNUSED", 2, 7, NABLA_UNSUPPORTED},
      {"\x18\x02",
       "\x0a\x05\x0a\x01"
       "z\x18\x09",
       "no type", 2, 7, NABLA_CORRUPT},
      {"\x18\x02",
       "\x0a\x08\x0a\x01"
       "z\x15\0\0\xc0\x7f",
       "not a number", 2, 10, NABLA_CORRUPT},
      {"\x18\x02", "\x2a\x03\x12\x01x", "denormalizer", 2, 5,
       NABLA_UNSUPPORTED},
      {"\x18\x02", "\x1a\x03\x12\x01x", "no table", 2, 5, NABLA_CORRUPT},
      {"\x18\x02", "\x0b", "no type that is used", 2, 1, NABLA_CORRUPT},
      {"\x18\x02", "\x0a\x7f", "ends within", 2, 2, NABLA_CORRUPT},
      {"\x18\x02", "\x00", "no number", 2, 1, NABLA_CORRUPT},
  };
  for (size_t i = 0; i < COUNT(cases); i++) {
    tokenizer_file file;
    nabla_tokenizer *tokenizer = NULL;
    nabla_diag diag = NABLA_DIAG_INIT;
    tokenizer_file_sentencepiece_with(&file, cases[i].trainer,
                                      cases[i].trainer_size, cases[i].model,
                                      cases[i].model_size);
    cr_expect_eq(
        open_bytes("tokenizer.model", file.bytes, file.size, &tokenizer, &diag),
        cases[i].status, "%zu: %s", i, diag.what);
    cr_expect(strstr(diag.what, cases[i].what), "%zu: %s", i, diag.what);
    cr_expect(strstr(diag.file, "tokenizer.model"));
  }
}

static nabla_status open_json(const char *more, const char *model,
                              nabla_tokenizer **out, nabla_diag *diag) {
  tokenizer_file file;
  tokenizer_file_json(&file, more, model);
  return open_bytes("tokenizer.json", file.bytes, file.size, out, diag);
}

static nabla_tokenizer *open_good_json(const char *more) {
  nabla_tokenizer *tokenizer = NULL;
  nabla_diag diag = NABLA_DIAG_INIT;
  cr_assert_eq(open_json(more, "", &tokenizer, &diag), NABLA_OK, "%s",
               diag.what);
  return tokenizer;
}

Test(tokenizer, json_like_llama_2) {
  nabla_tokenizer *tokenizer = open_good_json(tokenizer_file_llama2);
  static const uint32_t abc[] = {BOS, SPACE_A, BC};
  static const uint32_t wide[] = {SPACE, BYTE + 0xc3, BYTE + 0xa9, SPACE_A};
  static const uint32_t wrong[] = {BYTE + 'x', BYTE + 0xff, SPACE_A};
  expect_ids(tokenizer, "abc", NABLA_ENCODE_ADD_SPECIAL, abc, COUNT(abc));
  expect_ids(tokenizer, "\xc3\xa9 a", NABLA_ENCODE_PLAIN, wide, COUNT(wide));
  expect_text(tokenizer, wide, COUNT(wide), NABLA_DECODE_PLAIN, "\xc3\xa9 a");
  expect_text(tokenizer, abc, COUNT(abc), NABLA_DECODE_PLAIN, "<s> abc");
  expect_text(tokenizer, abc, COUNT(abc), NABLA_DECODE_SKIP_SPECIAL, "abc");
  /* A run of bytes is UTF-8 as a whole or not at all. */
  expect_text(tokenizer, wrong, COUNT(wrong), NABLA_DECODE_PLAIN,
              "\xef\xbf\xbd\xef\xbf\xbd a");
  cr_expect_eq(nabla_tokenizer_size(tokenizer), 401);
  cr_expect_null(nabla_tokenizer_piece(tokenizer, 399, NULL));
  cr_expect_eq(nabla_tokenizer_roles(tokenizer).bos, BOS);
  nabla_tokenizer_close(tokenizer);
}

Test(tokenizer, special_tokens_are_text_unless_they_are_parsed) {
  nabla_tokenizer *tokenizer = open_good_json(tokenizer_file_llama2);
  static const uint32_t parsed[] = {SPACE_A, BOS, SPACE_B};
  static const uint32_t text[] = {SPACE_A, BYTE + '<', BYTE + 's', BYTE + '>',
                                  B};
  expect_ids(tokenizer, "a<s>b", NABLA_ENCODE_PARSE_SPECIAL, parsed,
             COUNT(parsed));
  expect_ids(tokenizer, "a<s>b", NABLA_ENCODE_PLAIN, text, COUNT(text));
  nabla_tokenizer_close(tokenizer);
}

#define BYTE_LEVEL "{\"type\":\"ByteLevel\",\"add_prefix_space\":false}"

Test(tokenizer, refused_json) {
  static const struct {
    const char *more, *model, *what;
    nabla_status status;
  } cases[] = {
      {"", ",\"type\":\"Unigram\"", "model.type", NABLA_UNSUPPORTED},
      {"", ",\"dropout\":0.1", "model.dropout", NABLA_UNSUPPORTED},
      {"", ",\"end_of_word_suffix\":\"</w>\"", "end_of_word",
       NABLA_UNSUPPORTED},
      {"", ",\"unk_token\":\"<what>\"", "unk_token", NABLA_CORRUPT},
      {"", ",\"merges\":[[\"a\",\"c\"]]", "model.merges", NABLA_CORRUPT},
      {"", ",\"merges\":[\"a b c\"]", "two pieces", NABLA_CORRUPT},
      {"", ",\"merges\":[3]", "neither a line", NABLA_CORRUPT},
      {"", ",\"vocab\":{\"a\":4000000}", "at most", NABLA_TOO_LARGE},
      {"", ",\"vocab\":{\"q\":5}", "two pieces have the id 5", NABLA_CORRUPT},
      {"", ",\"vocab\":{\"a\":300}", "are equal", NABLA_CORRUPT},
      {",\"version\":\"2.0\"", "", "version", NABLA_UNSUPPORTED},
      {",\"normalizer\":{\"type\":\"NFKC\"}", "", "normalizer: NFKC",
       NABLA_UNSUPPORTED},
      {",\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"Regex\":\" +\"},"
       "\"content\":\" \"}",
       "", "normalizer: Replace", NABLA_UNSUPPORTED},
      {",\"pre_tokenizer\":{\"type\":\"Digits\"}", "", "pre_tokenizer: Digits",
       NABLA_UNSUPPORTED},
      {",\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"x\"},"
       "\"behavior\":\"Isolated\"}",
       "", "pattern is not", NABLA_UNSUPPORTED},
      {",\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":"
       "[" BYTE_LEVEL "," BYTE_LEVEL "]}",
       "", "not the last", NABLA_UNSUPPORTED},
      {",\"decoder\":{\"type\":\"WordPiece\"}", "", "decoder: WordPiece",
       NABLA_UNSUPPORTED},
      {",\"post_processor\":{\"type\":\"BertProcessing\"}", "",
       "BertProcessing", NABLA_UNSUPPORTED},
      {",\"added_tokens\":[{\"id\":5,\"content\":\"q\"}]", "",
       "not the piece of its id", NABLA_CORRUPT},
      {",\"added_tokens\":[{\"id\":500,\"content\":\"q\",\"single_word\":true}"
       "]",
       "", "single_word", NABLA_UNSUPPORTED},
      {",\"added_tokens\":[{\"content\":\"q\"}]", "", "without id",
       NABLA_CORRUPT},
      {",", "", "key", NABLA_CORRUPT},
  };
  for (size_t i = 0; i < COUNT(cases); i++) {
    nabla_tokenizer *tokenizer = NULL;
    nabla_diag diag = NABLA_DIAG_INIT;
    const nabla_status status =
        open_json(cases[i].more, cases[i].model, &tokenizer, &diag);
    cr_expect_eq(status, cases[i].status, "%zu: %s", i, diag.what);
    cr_expect(strstr(diag.what, cases[i].what), "%zu: %s", i, diag.what);
    cr_expect(strstr(diag.file, "tokenizer.json"));
    if (!status) nabla_tokenizer_close(tokenizer);
  }
}

/* Without pieces for unknown characters nothing is dropped silently. */
Test(tokenizer, characters_that_the_file_lacks_are_refused) {
  nabla_tokenizer *tokenizer = NULL;
  nabla_diag diag = NABLA_DIAG_INIT;
  nabla_token_list list;
  cr_assert_eq(open_json("", ",\"unk_token\":\"\",\"byte_fallback\":false",
                         &tokenizer, &diag),
               NABLA_OK, "%s", diag.what);
  cr_expect_eq(nabla_tokenizer_encode(tokenizer, "az", 2, 0, &list, &diag),
               NABLA_UNSUPPORTED);
  cr_expect(strstr(diag.what, "\"z\""), "%s", diag.what);
  nabla_tokenizer_close(tokenizer);
}

/* Neighbours that no piece has are one unknown token; what is between parts
 * them. */
Test(tokenizer, neighbouring_unknown_characters_are_one_token) {
  static const uint32_t ids[] = {SPACE, UNK, A, UNK, B};
  static const char *const trainers[] = {"\x18\x02\x98\x02",
                                         "\x18\x01\x98\x02"};
  for (size_t i = 0; i < COUNT(trainers); i++) {
    tokenizer_file file;
    nabla_tokenizer *tokenizer = NULL;
    nabla_diag diag = NABLA_DIAG_INIT;
    /* byte_fallback is false, and bytes become normal pieces */
    tokenizer_file_sentencepiece_with(&file, trainers[i], 5, "", 0);
    for (size_t at = 0; at + 1 < file.size; at++)
      if (!memcmp(file.bytes + at, "\x18\x06", 2)) file.bytes[at + 1] = 1;
    cr_assert_eq(
        open_bytes("tokenizer.model", file.bytes, file.size, &tokenizer, &diag),
        NABLA_OK, "%s", diag.what);
    expect_ids(tokenizer,
               "z\xc3\xa9"
               "azb",
               NABLA_ENCODE_PLAIN, ids, COUNT(ids));
    nabla_tokenizer_close(tokenizer);
  }
}

/* The bytes of a character stand for it if there are pieces for all of them. */
Test(tokenizer, a_character_is_bytes_as_a_whole_or_unknown) {
  static const uint32_t ids[] = {A, UNK, B};
  tokenizer_file file;
  nabla_tokenizer *tokenizer = NULL;
  nabla_diag diag = NABLA_DIAG_INIT;
  tokenizer_file_json(&file, "", "");
  uint8_t *piece = memmem(file.bytes, file.size, "<0xA9>", 6);
  cr_assert_not_null(piece);
  memcpy(piece, "<0xZZ>", 6);
  cr_assert_eq(
      open_bytes("tokenizer.json", file.bytes, file.size, &tokenizer, &diag),
      NABLA_OK, "%s", diag.what);
  expect_ids(tokenizer,
             "a\xc3\xa9"
             "b",
             NABLA_ENCODE_PLAIN, ids, COUNT(ids));
  nabla_tokenizer_close(tokenizer);
}

/* Opens, encodes and decodes with allocation `fail_at` failing. */
static nabla_status use(const char *path, failing_allocator *memory) {
  const nabla_environment environment = {.allocator = &memory->allocator};
  nabla_tokenizer *tokenizer = NULL;
  nabla_token_list list = {NULL, 0};
  nabla_token_text text = {NULL, 0};
  nabla_status status =
      nabla_tokenizer_open(path, &environment, &tokenizer, NULL);
  if (!status)
    status = nabla_tokenizer_encode(
        tokenizer, "ab ba <s>abc\xc3\xa9", 14,
        NABLA_ENCODE_ADD_SPECIAL | NABLA_ENCODE_PARSE_SPECIAL, &list, NULL);
  if (!status)
    status =
        nabla_tokenizer_decode(tokenizer, list.ids, list.count, 0, &text, NULL);
  if (tokenizer) {
    nabla_token_text_release(tokenizer, &text);
    nabla_token_list_release(tokenizer, &list);
  }
  nabla_tokenizer_close(tokenizer);
  return status;
}

Test(tokenizer, every_allocation_may_fail) {
  char path[256];
  for (size_t i = 0; i < TOKENIZER_FILES; i++) {
    tokenizer_file file;
    const char *name = tokenizer_file_make(i, &file);
    temp_folder_write(&folder, name, file.bytes, file.size);
    temp_folder_path(&folder, name, path);
    nabla_status status = NABLA_NO_MEMORY;
    size_t steps = 0;
    while (status == NABLA_NO_MEMORY && steps < 1000) {
      failing_allocator memory;
      failing_allocator_init(&memory, ++steps);
      status = use(path, &memory);
      cr_assert(failing_allocator_is_clean(&memory), "%s, %zu", name, steps);
    }
    cr_expect_eq(status, NABLA_OK, "%s: %s", name, nabla_status_name(status));
    cr_expect_gt(steps, 8, "%s: %zu", name, steps);
  }
}
