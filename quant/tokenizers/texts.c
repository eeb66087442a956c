/* What pieces decode to, and how their spaces are written. */
#include <string.h>

#include "quant/tokenizers/tokenizer_internal.h"

static int has_space_inside(const uint8_t *piece, size_t size,
                            const char *space, size_t mark) {
  int in_word = 0;
  for (size_t at = 0; at < size;) {
    const int is_space = size - at >= mark && !memcmp(piece + at, space, mark);
    if (is_space && in_word) return 1;
    in_word |= !is_space;
    at += is_space ? mark : 1;
  }
  return 0;
}

void nabla_tokenizer_set_space(nabla_tokenizer *tokenizer, const char *space) {
  const nabla_vocabulary *vocabulary = &tokenizer->vocabulary;
  tokenizer->space = space;
  tokenizer->space_size = strlen(space);
  tokenizer->has_words_apart = 1;
  for (uint32_t id = 0; id < nabla_vocabulary_size(vocabulary); id++) {
    const nabla_piece *piece = nabla_vocabulary_at(vocabulary, id);
    if ((piece->kind == NABLA_PIECE_NORMAL ||
         piece->kind == NABLA_PIECE_USER) &&
        has_space_inside(vocabulary->bytes.data + piece->at, piece->length,
                         space, tokenizer->space_size))
      tokenizer->has_words_apart = 0;
  }
}

/* Copies a piece with spaces in place of marks; `out` has space for it. */
static size_t replace_marks(const nabla_tokenizer *tokenizer,
                            const uint8_t *piece, size_t size, uint8_t *out) {
  const size_t mark = tokenizer->space_size;
  size_t to = 0;
  for (size_t at = 0; at < size; to++) {
    const int is_mark =
        size - at >= mark && !memcmp(piece + at, tokenizer->space, mark);
    out[to] = is_mark ? ' ' : piece[at];
    at += is_mark ? mark : 1;
  }
  return to;
}

nabla_status nabla_tokenizer_set_texts(nabla_tokenizer *tokenizer,
                                       nabla_diag *diag) {
  nabla_vocabulary *vocabulary = &tokenizer->vocabulary;
  uint8_t text[NABLA_TOKENIZER_MAX_PIECE];
  for (uint32_t id = 0; id < nabla_vocabulary_size(vocabulary); id++) {
    const nabla_piece *piece = nabla_vocabulary_at(vocabulary, id);
    const uint8_t *bytes = vocabulary->bytes.data + piece->at;
    size_t size = 0;
    if (piece->kind == NABLA_PIECE_BYTE)
      text[size++] = piece->byte;
    else if (piece->kind != NABLA_PIECE_CONTROL)
      size = replace_marks(tokenizer, bytes, piece->length, text);
    if (size != piece->length || memcmp(text, bytes, size) != 0)
      NABLA_TRY(nabla_vocabulary_set_text(vocabulary, id, text, size, diag));
  }
  return NABLA_OK;
}
