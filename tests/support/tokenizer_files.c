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

const char *tokenizer_file_make(size_t index, tokenizer_file *out) {
  (void)index;
  tokenizer_file_llama2c(out);
  return "tokenizer.bin";
}
