/* The tokenizer.bin of llama2.c: a u32 (length of the longest piece), then for
 * each piece, by id, an f32 score, an i32 length and its bytes. Its export has
 * replaced U+2581 by spaces; 0 is the unknown piece, 1 begins and 2 ends a
 * text, 3 to 258 are bytes (llama2.c, tokenizer.py and run.c, encode and
 * decode). */
#include <math.h>
#include <string.h>

#include "lib/base/bytes.h"
#include "lib/base/utf8.h"
#include "quant/tokenizers/tokenizer_internal.h"

enum { UNK = 0, BOS = 1, EOS = 2, FIRST_BYTE = 3, BYTES_END = 259 };

static nabla_status corrupt(nabla_diag *diag, size_t offset, const char *what) {
  const nabla_status status = nabla_fail(diag, NABLA_CORRUPT, "%s", what);
  nabla_diag_set_offset(diag, offset);
  nabla_diag_set_next(diag, "check that it is a tokenizer.bin of llama2.c");
  return status;
}

static nabla_piece_kind kind_of(uint32_t id, const uint8_t *bytes,
                                size_t size) {
  if (id == UNK) return NABLA_PIECE_UNKNOWN;
  if (id == BOS || id == EOS) return NABLA_PIECE_CONTROL;
  if (id < BYTES_END && size == 6 && !memcmp(bytes, "<0x", 3))
    return NABLA_PIECE_BYTE;
  return NABLA_PIECE_NORMAL;
}

static nabla_status read_piece(nabla_tokenizer *tokenizer, uint32_t id,
                               nabla_cursor *cursor, nabla_diag *diag) {
  const size_t begin = cursor->at;
  uint32_t bits, length;
  const uint8_t *bytes;
  if (!nabla_cursor_take_u32(cursor, &bits) ||
      !nabla_cursor_take_u32(cursor, &length) ||
      !nabla_cursor_take(cursor, length, &bytes))
    return corrupt(diag, begin, "the file ends within a piece");
  const float score = nabla_f32_of_bits(bits);
  if (isnan(score)) return corrupt(diag, begin, "a score is not a number");
  if (!length) return corrupt(diag, begin, "a piece is empty");
  for (size_t at = 0, step; at < length; at += step)
    if (!(step = nabla_utf8_length(bytes + at, length - at)))
      return corrupt(diag, begin, "a piece is not UTF-8");
  const nabla_piece_source source = {(const char *)bytes, length, score,
                                     kind_of(id, bytes, length)};
  const nabla_status status =
      nabla_vocabulary_put(&tokenizer->vocabulary, id, source, diag);
  if (status) nabla_diag_set_offset(diag, begin);
  return status;
}

static nabla_status read_file(nabla_tokenizer *tokenizer, const uint8_t *data,
                              size_t size, nabla_diag *diag) {
  nabla_cursor cursor = {data, size, 0};
  uint32_t longest; /* run.c's buffer; of no use here */
  if (!nabla_cursor_take_u32(&cursor, &longest))
    return corrupt(diag, 0, "the file has fewer than 4 bytes");
  uint32_t id = 0;
  for (; nabla_cursor_left(&cursor); id++)
    NABLA_TRY(read_piece(tokenizer, id, &cursor, diag));
  if (id <= EOS) return corrupt(diag, 0, "it has fewer than three pieces");
  tokenizer->roles = (nabla_token_roles){BOS, EOS, UNK};
  tokenizer->falls_to_bytes = 1;
  tokenizer->decode.strip = NABLA_STRIP_PIECE;
  for (id = 0; id <= EOS; id++)
    nabla_vocabulary_at(&tokenizer->vocabulary, id)->is_special = 1;
  NABLA_TRY(nabla_vocabulary_finish(&tokenizer->vocabulary, diag));
  nabla_tokenizer_set_space(tokenizer, " ");
  return nabla_tokenizer_set_texts(tokenizer, diag);
}

/* Characters that are no piece become bytes at once, and take no part in what
 * follows. */
static nabla_status add_symbols(nabla_encode_run *run, const uint8_t *text,
                                size_t size) {
  const nabla_vocabulary *vocabulary = &run->tokenizer->vocabulary;
  for (size_t at = 0; at < size;) {
    const size_t length = nabla_utf8_length(text + at, size - at);
    const uint32_t id = nabla_vocabulary_find(vocabulary, text + at, length);
    NABLA_TRY(nabla_merger_add(&run->merger, (uint32_t)at, (uint32_t)length, id,
                               id == NABLA_TOKEN_NONE, run->diag));
    at += length;
  }
  return NABLA_OK;
}

static nabla_status encode(nabla_encode_run *run, const uint8_t *text,
                           size_t size) {
  if (run->flags & NABLA_ENCODE_ADD_SPECIAL)
    NABLA_TRY(nabla_encode_id(run, run->tokenizer->roles.bos));
  if (!size) return NABLA_OK;
  NABLA_TRY(nabla_buffer_append(&run->text, " ", 1, run->diag));
  NABLA_TRY(nabla_buffer_append(&run->text, text, size, run->diag));
  return nabla_encode_scored(run, run->text.data, run->text.size, add_symbols);
}

const nabla_tokenizer_calls nabla_llama2c_tokenizer = {read_file, encode, NULL};
