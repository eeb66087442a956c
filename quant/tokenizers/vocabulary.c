/* Storing and finding pieces; see vocabulary.h. */
#include "quant/tokenizers/vocabulary.h"

#include <string.h>

/* Of all pieces and what they decode to; at most 4 GiB, for offsets of 32
 * bits. */
#define MAX_BYTES ((size_t)2 * NABLA_TOKENIZER_MAX_FILE)

void nabla_vocabulary_init(nabla_vocabulary *vocabulary,
                           const nabla_allocator *allocator) {
  *vocabulary = (nabla_vocabulary){.allocator = allocator};
  nabla_buffer_init(&vocabulary->bytes, allocator, "pieces of a tokenizer",
                    MAX_BYTES);
  nabla_buffer_init(&vocabulary->pieces, allocator, "pieces of a tokenizer",
                    sizeof(nabla_piece) * NABLA_TOKENIZER_MAX_PIECES);
  nabla_buffer_init(&vocabulary->order, allocator, "pieces of a tokenizer",
                    sizeof(uint32_t) * NABLA_TOKENIZER_MAX_PIECES);
  vocabulary->index.allocator = allocator;
  for (int i = 0; i < 256; i++) vocabulary->byte_ids[i] = NABLA_TOKEN_NONE;
}

void nabla_vocabulary_deinit(nabla_vocabulary *vocabulary) {
  nabla_name_index_deinit(&vocabulary->index);
  nabla_buffer_deinit(&vocabulary->order);
  nabla_buffer_deinit(&vocabulary->pieces);
  nabla_buffer_deinit(&vocabulary->bytes);
}

static int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

/* The byte of "<0x0A>", or -1. */
static int byte_of(const char *text, size_t length) {
  if (length != 6 || memcmp(text, "<0x", 3) != 0 || text[5] != '>') return -1;
  const int high = hex_digit(text[3]), low = hex_digit(text[4]);
  return high < 0 || low < 0 ? -1 : high * 16 + low;
}

/* Appends absent pieces until `id` is one. */
static nabla_status reach(nabla_vocabulary *vocabulary, uint32_t id,
                          nabla_diag *diag) {
  const uint32_t size = nabla_vocabulary_size(vocabulary);
  if (id < size) return NABLA_OK;
  return nabla_buffer_append(&vocabulary->pieces, NULL,
                             (size_t)(id - size + 1) * sizeof(nabla_piece),
                             diag);
}

static nabla_status check(const nabla_vocabulary *vocabulary, uint32_t id,
                          nabla_piece_source source, nabla_diag *diag) {
  if (id >= NABLA_TOKENIZER_MAX_PIECES)
    return nabla_fail(diag, NABLA_TOO_LARGE, "piece %u; at most %u are read",
                      id, NABLA_TOKENIZER_MAX_PIECES);
  if (source.length > NABLA_TOKENIZER_MAX_PIECE)
    return nabla_fail(diag, NABLA_TOO_LARGE,
                      "piece %u has %zu bytes; at most %u are read", id,
                      source.length, NABLA_TOKENIZER_MAX_PIECE);
  if (id < nabla_vocabulary_size(vocabulary) &&
      nabla_vocabulary_at(vocabulary, id)->kind != NABLA_PIECE_ABSENT)
    return nabla_fail(diag, NABLA_CORRUPT, "two pieces have the id %u", id);
  return NABLA_OK;
}

static nabla_status set_byte(nabla_vocabulary *vocabulary, uint32_t id,
                             nabla_piece_source source, nabla_piece *piece,
                             nabla_diag *diag) {
  const int byte = byte_of(source.bytes, source.length);
  if (byte < 0)
    return nabla_fail(diag, NABLA_CORRUPT,
                      "piece %u stands for a byte, but is not spelled <0xXX>",
                      id);
  if (vocabulary->byte_ids[byte] != NABLA_TOKEN_NONE)
    return nabla_fail(diag, NABLA_CORRUPT,
                      "pieces %u and %u stand for the same byte",
                      vocabulary->byte_ids[byte], id);
  vocabulary->byte_ids[byte] = id;
  piece->byte = (uint8_t)byte;
  return NABLA_OK;
}

nabla_status nabla_vocabulary_put(nabla_vocabulary *vocabulary, uint32_t id,
                                  nabla_piece_source source, nabla_diag *diag) {
  nabla_piece piece = {.at = (uint32_t)vocabulary->bytes.size,
                       .length = (uint32_t)source.length,
                       .score = source.score,
                       .kind = (uint8_t)source.kind};
  NABLA_TRY(check(vocabulary, id, source, diag));
  if (source.kind == NABLA_PIECE_BYTE)
    NABLA_TRY(set_byte(vocabulary, id, source, &piece, diag));
  piece.text_at = piece.at;
  piece.text_length = piece.length;
  if (piece.length > vocabulary->longest_text)
    vocabulary->longest_text = piece.length;
  NABLA_TRY(reach(vocabulary, id, diag));
  NABLA_TRY(nabla_buffer_append(&vocabulary->order, &id, sizeof id, diag));
  if (source.length)
    NABLA_TRY(nabla_buffer_append(&vocabulary->bytes, source.bytes,
                                  source.length, diag));
  *nabla_vocabulary_at(vocabulary, id) = piece;
  return NABLA_OK;
}

nabla_status nabla_vocabulary_set_text(nabla_vocabulary *vocabulary,
                                       uint32_t id, const void *text,
                                       size_t size, nabla_diag *diag) {
  nabla_piece *piece = nabla_vocabulary_at(vocabulary, id);
  const size_t at = vocabulary->bytes.size;
  if (size)
    NABLA_TRY(nabla_buffer_append(&vocabulary->bytes, text, size, diag));
  piece->text_at = (uint32_t)at;
  piece->text_length = (uint32_t)size;
  if (piece->text_length > vocabulary->longest_text)
    vocabulary->longest_text = piece->text_length;
  return NABLA_OK;
}

static const char *name_at(const void *self, size_t index, size_t *out_length) {
  const nabla_vocabulary *vocabulary = self;
  const uint32_t *ids = (const void *)vocabulary->order.data;
  const nabla_piece *piece = nabla_vocabulary_at(vocabulary, ids[index]);
  *out_length = piece->length;
  return (const char *)vocabulary->bytes.data + piece->at;
}

nabla_status nabla_vocabulary_finish(nabla_vocabulary *vocabulary,
                                     nabla_diag *diag) {
  const uint32_t *ids = (const void *)vocabulary->order.data;
  const size_t count = vocabulary->order.size / sizeof *ids;
  const nabla_names names = {vocabulary, name_at};
  size_t first, second;
  if (!count) return nabla_fail(diag, NABLA_CORRUPT, "it has no pieces");
  NABLA_TRY(nabla_name_index_build(&vocabulary->index, vocabulary->allocator,
                                   names, count, &first, &second, diag));
  if (second != SIZE_MAX)
    return nabla_fail(diag, NABLA_CORRUPT, "pieces %u and %u are equal",
                      ids[first], ids[second]);
  return NABLA_OK;
}

uint32_t nabla_vocabulary_find(const nabla_vocabulary *vocabulary,
                               const void *bytes, size_t length) {
  const nabla_names names = {vocabulary, name_at};
  const size_t at =
      nabla_name_index_find(&vocabulary->index, names, bytes, length);
  return at == SIZE_MAX
             ? NABLA_TOKEN_NONE
             : ((const uint32_t *)(const void *)vocabulary->order.data)[at];
}
