/* Writing small tokenizers; see tokenizer_files.h. */
#include "tests/support/tokenizer_files.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/bytes.h"

/* Pieces after the bytes, with the space as ' '. */
static const struct {
  const char *text;
  float score;
} words[] = {{" ", -9},  {"a", -9},  {"b", -9},  {"c", -9},
             {"ab", -3}, {"bc", -2}, {" a", -1}, {" b", -4}};

static float score_of(uint32_t id) {
  return id < SPACE ? 0 : words[id - SPACE].score;
}

/* Writes the text of piece `id` and a NUL. */
static void text_of(uint32_t id, char out[16]) {
  static const char *const first[] = {"<unk>", "\n<s>\n", "\n</s>\n"};
  if (id < BYTE)
    (void)snprintf(out, 16, "%s", first[id]);
  else if (id < SPACE)
    (void)snprintf(out, 16, "<0x%02X>", id - BYTE);
  else
    (void)snprintf(out, 16, "%s", words[id - SPACE].text);
}

static void put(tokenizer_file *out, const void *data, size_t size) {
  assert(size <= sizeof out->bytes - out->size);
  memcpy(out->bytes + out->size, data, size);
  out->size += size;
}

static void put_u32(tokenizer_file *out, uint32_t value) {
  uint8_t bytes[4];
  nabla_store_le32(bytes, value);
  put(out, bytes, sizeof bytes);
}

void tokenizer_file_llama2c(tokenizer_file *out) {
  out->size = 0;
  put_u32(out, 7);
  for (uint32_t id = 0; id < VOCABULARY_SIZE; id++) {
    char text[16];
    text_of(id, text);
    put_u32(out, nabla_bits_of_f32(score_of(id)));
    put_u32(out, (uint32_t)strlen(text));
    put(out, text, strlen(text));
  }
}

/* A varint of less than 2^14. */
static void put_size(tokenizer_file *out, size_t size) {
  const uint8_t bytes[] = {(uint8_t)(0x80 | (size & 0x7f)),
                           (uint8_t)(size >> 7)};
  put(out, bytes, 2);
}

static void put_field(tokenizer_file *out, unsigned number, const void *data,
                      size_t size) {
  const uint8_t key[] = {(uint8_t)(number << 3 | 2)};
  put(out, key, 1);
  put_size(out, size);
  put(out, data, size);
}

static void put_piece(tokenizer_file *out, uint32_t id) {
  static const char *const first[] = {"<unk>", "<s>", "</s>"};
  static const uint8_t types[] = {2, 3, 3};
  tokenizer_file piece = {.size = 0};
  char text[16], marked[16];
  size_t size = 0;
  text_of(id, text);
  if (id < BYTE) (void)snprintf(text, sizeof text, "%s", first[id]);
  for (const char *c = text; *c; c++) {
    const char *as = *c == ' ' ? "\xe2\x96\x81" : c;
    const size_t step = *c == ' ' ? 3 : 1;
    memcpy(marked + size, as, step);
    size += step;
  }
  put_field(&piece, 1, marked, size);
  put(&piece, "\x15", 1); /* score */
  put_u32(&piece, nabla_bits_of_f32(score_of(id)));
  const uint8_t type[] = {0x18, id < BYTE ? types[id] : id < SPACE ? 6 : 1};
  put(&piece, type, 2);
  put_field(out, 1, piece.bytes, piece.size);
}

/* A double array with one rule, 'B' to "b": the root leads to unit 'B', which
 * leads to the leaf 'B' ^ 2. */
static void put_map(tokenizer_file *out) {
  tokenizer_file map = {.size = 0};
  put_u32(&map, 4 * 256);
  for (uint32_t i = 0; i < 256; i++)
    put_u32(&map, i == 'B'         ? 'B' | 1u << 8 | 2u << 10
                  : i == ('B' ^ 2) ? 1u << 31
                                   : 0);
  put(&map, "b", 2);
  put_field(out, 2, map.bytes, map.size);
}

void tokenizer_file_sentencepiece_with(tokenizer_file *out, const void *trainer,
                                       size_t trainer_size, const void *model,
                                       size_t model_size) {
  tokenizer_file inner = {.size = 0};
  out->size = 0;
  for (uint32_t id = 0; id < VOCABULARY_SIZE; id++) put_piece(out, id);
  put(&inner, "\x98\x02\x01", 3); /* byte_fallback */
  put(&inner, trainer, trainer_size);
  put_field(out, 2, inner.bytes, inner.size);
  inner.size = 0;
  put_map(&inner);
  put_field(out, 3, inner.bytes, inner.size);
  put(out, model, model_size);
}

void tokenizer_file_sentencepiece(tokenizer_file *out, int is_unigram) {
  tokenizer_file_sentencepiece_with(out, is_unigram ? "\x18\x01" : "\x18\x02",
                                    2, "", 0);
}

const char tokenizer_file_llama2[] =
    ",\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":"
    "\"Prepend\",\"prepend\":\"\u2581\"},{\"type\":\"Replace\",\"pattern\":{"
    "\"String\":\" \"},\"content\":\"\u2581\"}]},\"added_tokens\":[{\"id\":1,"
    "\"content\":\"<s>\",\"special\":true,\"normalized\":false},{\"id\":400,"
    "\"content\":\"[x]\",\"lstrip\":true,\"normalized\":true}],"
    "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{"
    "\"SpecialToken\":{\"id\":\"<s>\",\"type_id\":0}},{\"Sequence\":{\"id\":"
    "\"A\",\"type_id\":0}}],\"special_tokens\":{\"<s>\":{\"id\":\"<s>\","
    "\"ids\":[1],\"tokens\":[\"<s>\"]}}},\"decoder\":{\"type\":\"Sequence\","
    "\"decoders\":[{\"type\":\"Replace\",\"pattern\":{\"String\":\"\u2581\"},"
    "\"content\":\" \"},{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"},{"
    "\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0}]}";

static void put_text(tokenizer_file *out, const char *text) {
  put(out, text, strlen(text));
}

void tokenizer_file_json(tokenizer_file *out, const char *more,
                         const char *model) {
  static const char *const first[] = {"<unk>", "<s>", "</s>"};
  out->size = 0;
  put_text(out,
           "{\"version\":\"1.0\",\"model\":{\"type\":\"BPE\",\"unk_token\":"
           "\"<unk>\",\"byte_fallback\":true,\"vocab\":{");
  for (uint32_t id = 0; id < VOCABULARY_SIZE; id++) {
    char text[16], row[40];
    text_of(id, text);
    const char *piece = id < BYTE ? first[id] : text;
    (void)snprintf(row, sizeof row, "%s\"%s%s\":%u", id ? "," : "",
                   *piece == ' ' ? "\u2581" : "",
                   *piece == ' ' ? piece + 1 : piece, id);
    put_text(out, row);
  }
  put_text(out,
           "},\"merges\":[[\"\u2581\",\"a\"],\"b c\",\"a b\",\"\u2581 b\"]");
  put_text(out, model);
  put_text(out, "}");
  put_text(out, more);
  put_text(out, "}");
}

const char *tokenizer_file_make(size_t index, tokenizer_file *out) {
  if (!index) {
    tokenizer_file_llama2c(out);
    return "tokenizer.bin";
  }
  if (index == 3) {
    tokenizer_file_json(out, tokenizer_file_llama2, "");
    return "tokenizer.json";
  }
  tokenizer_file_sentencepiece(out, index == 2);
  return "tokenizer.model";
}
