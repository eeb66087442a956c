/* Encoding a part of text: pre-tokenizers split it into words, whose symbols
 * are joined by the merges. */
#include <string.h>

#include "lib/base/utf8.h"
#include "quant/tokenizers/huggingface.h"

uint32_t nabla_byte_letter(uint8_t byte) {
  if (byte > 0x20 && byte < 0x7f) return byte;
  if (byte > 0xa0 && byte != 0xad) return byte;
  if (byte <= 0x20) return 0x100u + byte;
  if (byte <= 0xa0) return 0x121u + (byte - 0x7fu);
  return 0x143;
}

int nabla_letter_byte(uint32_t code) {
  if ((code > 0x20 && code < 0x7f) ||
      (code > 0xa0 && code < 0x100 && code != 0xad))
    return (int)code;
  if (code >= 0x100 && code <= 0x120) return (int)code - 0x100;
  if (code >= 0x121 && code <= 0x142) return (int)code - 0x121 + 0x7f;
  return code == 0x143 ? 0xad : -1;
}

static int join(const void *self, const uint8_t *text, const nabla_symbol *left,
                const nabla_symbol *right, uint32_t *out_key,
                uint32_t *out_id) {
  (void)text;
  const nabla_merge *merge = nabla_hf_find_merge(self, left->id, right->id);
  if (!merge) return 0;
  *out_key = merge->rank;
  *out_id = merge->id;
  return 1;
}

/* The unknown token that is not yet a symbol, as the reference holds it back.
 */
typedef struct unknown {
  uint32_t at, length; /* length 0: none */
} unknown;

static nabla_status flush(nabla_encode_run *run, unknown *held) {
  const uint32_t length = held->length;
  held->length = 0;
  if (!length) return NABLA_OK;
  return nabla_merger_add(&run->merger, held->at, length,
                          run->tokenizer->roles.unk, 0, run->diag);
}

/* Adds what stands for a character that no piece is: its bytes, or the unknown
 * token. */
static nabla_status add_unknown(nabla_encode_run *run, uint32_t at,
                                const uint8_t *bytes, size_t size,
                                unknown *held) {
  const nabla_hf_tokenizer *own = run->tokenizer->own;
  const uint32_t *ids = run->tokenizer->vocabulary.byte_ids;
  size_t known = 0;
  while (own->falls_to_bytes && known < size &&
         ids[bytes[known]] != NABLA_TOKEN_NONE)
    known++;
  for (size_t i = 0; known == size && i < size; i++)
    NABLA_TRY(nabla_merger_add(&run->merger, at + (uint32_t)i, 1, ids[bytes[i]],
                               0, run->diag));
  if (known == size) return NABLA_OK;
  if (run->tokenizer->roles.unk == NABLA_TOKEN_NONE)
    return nabla_encode_unknown(run, bytes, size, 0); /* says what is wrong */
  if (!own->fuses_unknown) NABLA_TRY(flush(run, held));
  if (!held->length) held->at = at;
  held->length += (uint32_t)size;
  return NABLA_OK;
}

/* Adds the symbols of a word: its characters, or the letters of its bytes. */
static nabla_status add_symbols(nabla_encode_run *run, const uint8_t *text,
                                size_t size) {
  const nabla_hf_tokenizer *own = run->tokenizer->own;
  unknown held = {0, 0};
  for (size_t at = 0, step; at < size; at += step) {
    uint8_t letter[4];
    const uint8_t *bytes = text + at;
    step = own->is_byte_level ? 1 : nabla_utf8_length(bytes, size - at);
    const uint32_t id = own->is_byte_level
                            ? own->letter_ids[*bytes]
                            : nabla_hf_find(run->tokenizer, bytes, step);
    if (id != NABLA_TOKEN_NONE) {
      NABLA_TRY(flush(run, &held));
      NABLA_TRY(nabla_merger_add(&run->merger, (uint32_t)at, (uint32_t)step, id,
                                 0, run->diag));
      continue;
    }
    size_t length = step;
    if (own->is_byte_level) {
      length = nabla_utf8_encode(nabla_byte_letter(*bytes), letter);
      bytes = letter;
    }
    NABLA_TRY(add_unknown(run, (uint32_t)at, bytes, length, &held));
  }
  return flush(run, &held);
}

/* The piece that a word is as a whole, or NABLA_TOKEN_NONE. */
static uint32_t whole_word(const nabla_encode_run *run, const uint8_t *text,
                           size_t size) {
  const nabla_hf_tokenizer *own = run->tokenizer->own;
  uint8_t letters[2 * NABLA_TOKENIZER_MAX_PIECE];
  size_t length = 0;
  if (size > NABLA_TOKENIZER_MAX_PIECE) return NABLA_TOKEN_NONE;
  if (!own->is_byte_level) return nabla_hf_find(run->tokenizer, text, size);
  for (size_t i = 0; i < size; i++)
    length += nabla_utf8_encode(nabla_byte_letter(text[i]), letters + length);
  return nabla_hf_find(run->tokenizer, letters, length);
}

/* Encodes a word that pieces do not leave. */
static nabla_status encode_part(nabla_encode_run *run, const uint8_t *text,
                                size_t size) {
  const nabla_merge_rule rule = {join, run->tokenizer};
  nabla_merger_clear(&run->merger);
  NABLA_TRY(add_symbols(run, text, size));
  NABLA_TRY(nabla_merger_run(&run->merger, text, rule, run->diag));
  for (const nabla_symbol *symbol = nabla_merger_first(&run->merger); symbol;
       symbol = nabla_merger_next(&run->merger, symbol))
    NABLA_TRY(nabla_encode_id(run, symbol->id));
  return NABLA_OK;
}

static nabla_status encode_word(nabla_encode_run *run, const uint8_t *text,
                                size_t size) {
  const nabla_hf_tokenizer *own = run->tokenizer->own;
  if (own->ignores_merges) {
    const uint32_t id = whole_word(run, text, size);
    if (id != NABLA_TOKEN_NONE) return nabla_encode_id(run, id);
  }
  if (own->is_byte_level) return encode_part(run, text, size);
  for (size_t at = 0; at < size;) {
    const size_t part = nabla_encode_word(run->tokenizer, text + at, size - at);
    NABLA_TRY(encode_part(run, text + at, part));
    at += part;
  }
  return NABLA_OK;
}

static nabla_status encode_step(nabla_encode_run *run, size_t index,
                                const uint8_t *text, size_t size, int is_first);

/* The size of the piece that Metaspace splits off: up to the next mark. */
static size_t mark_end(const uint8_t *text, size_t size, const uint8_t *mark,
                       size_t mark_size) {
  const size_t from =
      size >= mark_size && !memcmp(text, mark, mark_size) ? mark_size : 1;
  const uint8_t *found =
      from < size ? memmem(text + from, size - from, mark, mark_size) : NULL;
  return found ? (size_t)(found - text) : size;
}

/* Splits text that a step has changed, and goes on with the next step. */
static nabla_status split(nabla_encode_run *run, size_t index,
                          const uint8_t *text, size_t size, int is_first) {
  const nabla_hf_tokenizer *own = run->tokenizer->own;
  const nabla_hf_step *step = &own->words[index];
  const uint8_t *mark = nabla_hf_bytes(own, step->content);
  for (size_t at = 0, part; at < size; at += part) {
    part = size - at;
    if (step->words)
      part = nabla_split_word(step->words, text + at, size - at);
    else if (step->kind == NABLA_HF_METASPACE && step->splits)
      part = mark_end(text + at, size - at, mark, step->content.size);
    NABLA_TRY(encode_step(run, index + 1, text + at, part, is_first && !at));
  }
  return NABLA_OK;
}

static nabla_status change_text(const nabla_hf_tokenizer *own,
                                const nabla_hf_step *step, const uint8_t *text,
                                size_t size, int is_first, nabla_buffer *out,
                                nabla_diag *diag) {
  const int is_mark = step->kind == NABLA_HF_METASPACE;
  const uint8_t *mark =
      is_mark ? nabla_hf_bytes(own, step->content) : (const uint8_t *)" ";
  const size_t mark_size = is_mark ? step->content.size : 1;
  const int has_mark =
      *text == ' ' || (size >= mark_size && !memcmp(text, mark, mark_size));
  if (!has_mark && (step->prepend == NABLA_HF_PREPEND_ALWAYS ||
                    (step->prepend == NABLA_HF_PREPEND_FIRST && is_first)))
    NABLA_TRY(nabla_buffer_append(out, mark, mark_size, diag));
  if (!is_mark) return nabla_buffer_append(out, text, size, diag);
  return nabla_hf_replace(text, size, (const uint8_t *)" ", 1, mark, mark_size,
                          out, diag);
}

/* Applies the pre-tokenizers from `index` on. */
static nabla_status encode_step(nabla_encode_run *run, size_t index,
                                const uint8_t *text, size_t size,
                                int is_first) {
  const nabla_hf_tokenizer *own = run->tokenizer->own;
  if (index == own->word_count) return encode_word(run, text, size);
  const nabla_hf_step *step = &own->words[index];
  const int changes =
      step->kind == NABLA_HF_METASPACE ||
      (step->kind == NABLA_HF_BYTE_LEVEL &&
       step->prepend == NABLA_HF_PREPEND_ALWAYS && *text != ' ');
  if (!changes) return split(run, index, text, size, is_first);
  nabla_buffer changed;
  nabla_buffer_init(&changed, run->tokenizer->allocator, run->text.what,
                    run->text.limit);
  nabla_status status =
      change_text(own, step, text, size, is_first, &changed, run->diag);
  if (!status) status = split(run, index, changed.data, changed.size, is_first);
  nabla_buffer_deinit(&changed);
  return status;
}

nabla_status nabla_hf_encode_words(nabla_encode_run *run, const uint8_t *text,
                                   size_t size, int is_first) {
  return size ? encode_step(run, 0, text, size, is_first) : NABLA_OK;
}
