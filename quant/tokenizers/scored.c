/* Byte pair encoding by the scores of pieces: llama2.c and SentencePiece. */
#include "lib/base/bytes.h"
#include "quant/tokenizers/tokenizer_internal.h"

/* Greater scores give smaller keys. */
static uint32_t key_of(float score) {
  const uint32_t bits = nabla_bits_of_f32(score + 0.0f); /* no -0 */
  return bits & 0x80000000u ? bits : ~(bits | 0x80000000u);
}

static int join(const void *self, const uint8_t *text, const nabla_symbol *left,
                const nabla_symbol *right, uint32_t *out_key,
                uint32_t *out_id) {
  const nabla_vocabulary *vocabulary = self;
  const uint32_t id = nabla_vocabulary_find(vocabulary, text + left->at,
                                            left->length + right->length);
  if (id == NABLA_TOKEN_NONE) return 0;
  const nabla_piece *piece = nabla_vocabulary_at(vocabulary, id);
  if (piece->kind != NABLA_PIECE_NORMAL && piece->kind != NABLA_PIECE_USER)
    return 0;
  *out_key = key_of(piece->score);
  *out_id = id;
  return 1;
}

static nabla_status encode_word(nabla_encode_run *run, const uint8_t *text,
                                size_t size, nabla_add_symbols *add) {
  const nabla_merge_rule rule = {join, &run->tokenizer->vocabulary};
  nabla_merger_clear(&run->merger);
  NABLA_TRY(add(run, text, size));
  NABLA_TRY(nabla_merger_run(&run->merger, text, rule, run->diag));
  for (const nabla_symbol *symbol = nabla_merger_first(&run->merger); symbol;
       symbol = nabla_merger_next(&run->merger, symbol)) {
    if (symbol->id != NABLA_TOKEN_NONE)
      NABLA_TRY(nabla_encode_id(run, symbol->id));
    else
      NABLA_TRY(
          nabla_encode_unknown(run, text + symbol->at, symbol->length, 1));
  }
  return NABLA_OK;
}

nabla_status nabla_encode_scored(nabla_encode_run *run, const uint8_t *text,
                                 size_t size, nabla_add_symbols *add) {
  for (size_t at = 0; at < size;) {
    const size_t word = nabla_encode_word(run->tokenizer, text + at, size - at);
    NABLA_TRY(encode_word(run, text + at, word, add));
    at += word;
  }
  return NABLA_OK;
}
