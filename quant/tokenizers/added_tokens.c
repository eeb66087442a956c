/* Added tokens of a tokenizer.json: reading them, and finding them in texts,
 * the leftmost first and of several there the longest. */
#include <string.h>

#include "lib/base/controls.h"
#include "lib/base/utf8.h"
#include "quant/tokenizers/huggingface.h"
#include "quant/tokenizers/unicode.h"

/* One object of the list. */
typedef struct entry {
  uint64_t id, offset;
  int has_id, has_content, is_single_word, is_special;
  unsigned bits; /* of nabla_piece.is_added */
  char content[NABLA_HF_MAX_ADDED + 1];
  size_t length;
} entry;

static nabla_status refuse(nabla_diag *diag, nabla_status code, uint64_t offset,
                           const char *what) {
  const nabla_status status = nabla_fail(diag, code, "added_tokens: %s", what);
  nabla_diag_set_offset(diag, offset);
  return status;
}

static nabla_status take_field(const char *key, const nabla_json_event *event,
                               entry *out, nabla_diag *diag) {
  const int is_true = event->kind == NABLA_JSON_TRUE;
  if (!strcmp(key, "id")) {
    out->has_id = 1;
    return event->kind == NABLA_JSON_NUMBER
               ? nabla_json_u64(event, "id", &out->id, diag)
               : refuse(diag, NABLA_CORRUPT, event->offset,
                        "an id that is no number");
  }
  if (!strcmp(key, "content") && event->kind == NABLA_JSON_STRING) {
    if (event->length > NABLA_HF_MAX_ADDED)
      return refuse(diag, NABLA_TOO_LARGE, event->offset,
                    "a content of more than 1024 bytes");
    out->has_content = 1;
    out->length = event->length;
    memcpy(out->content, event->text, event->length);
  }
  if (!strcmp(key, "single_word")) out->is_single_word = is_true;
  if (!strcmp(key, "special")) out->is_special = is_true;
  if (!strcmp(key, "lstrip") && is_true) out->bits |= NABLA_HF_STRIPS_LEFT;
  if (!strcmp(key, "rstrip") && is_true) out->bits |= NABLA_HF_STRIPS_RIGHT;
  if (!strcmp(key, "normalized") && is_true) out->bits |= NABLA_HF_NORMALIZED;
  return NABLA_OK;
}

/* Gives the entry its piece: that of the model, or a new one. */
static nabla_status put_entry(nabla_tokenizer *tokenizer, entry *one,
                              nabla_diag *diag) {
  nabla_vocabulary *vocabulary = &tokenizer->vocabulary;
  if (!one->has_id || !one->has_content)
    return refuse(diag, NABLA_CORRUPT, one->offset,
                  "one without id or content");
  if (one->is_single_word)
    return refuse(diag, NABLA_UNSUPPORTED, one->offset, "single_word");
  if (!one->length) return NABLA_OK; /* the reference ignores them too */
  if (one->id >= NABLA_TOKENIZER_MAX_PIECES)
    return refuse(diag, NABLA_TOO_LARGE, one->offset, "an id above 2^21");
  const uint32_t id = (uint32_t)one->id;
  if (id >= nabla_vocabulary_size(vocabulary) ||
      nabla_vocabulary_at(vocabulary, id)->kind == NABLA_PIECE_ABSENT) {
    const nabla_piece_source source = {one->content, one->length, 0,
                                       NABLA_PIECE_NORMAL};
    NABLA_TRY(nabla_vocabulary_put(vocabulary, id, source, diag));
    one->bits |= NABLA_HF_ONLY_ADDED;
  }
  nabla_piece *piece = nabla_vocabulary_at(vocabulary, id);
  if (piece->length != one->length || memcmp(vocabulary->bytes.data + piece->at,
                                             one->content, one->length) != 0)
    return refuse(diag, NABLA_CORRUPT, one->offset,
                  "a content that is not the piece of its id");
  if (piece->is_added & NABLA_HF_ONLY_ADDED) one->bits |= NABLA_HF_ONLY_ADDED;
  piece->is_added = (uint8_t)(one->bits | NABLA_HF_ADDED);
  piece->is_special = (uint8_t)one->is_special;
  return NABLA_OK;
}

static nabla_status read_entry(nabla_tokenizer *tokenizer, nabla_json *json,
                               uint64_t offset, nabla_diag *diag) {
  entry one = {.offset = offset, .bits = 0};
  nabla_json_event event;
  for (;;) {
    char key[16] = "";
    NABLA_TRY(nabla_json_next(json, &event, diag));
    if (event.kind == NABLA_JSON_OBJECT_END)
      return put_entry(tokenizer, &one, diag);
    if (event.length < sizeof key) memcpy(key, event.text, event.length + 1);
    NABLA_TRY(nabla_json_next(json, &event, diag));
    NABLA_TRY(take_field(key, &event, &one, diag));
    NABLA_TRY(nabla_json_skip(json, &event, diag));
  }
}

nabla_status nabla_hf_read_added(nabla_tokenizer *tokenizer, nabla_json *json,
                                 nabla_diag *diag) {
  nabla_json_event event;
  NABLA_TRY(nabla_json_next(json, &event, diag));
  if (event.kind == NABLA_JSON_NULL) return NABLA_OK;
  if (event.kind != NABLA_JSON_ARRAY_BEGIN)
    return refuse(diag, NABLA_CORRUPT, event.offset, "no array");
  for (;;) {
    NABLA_TRY(nabla_json_next(json, &event, diag));
    if (event.kind == NABLA_JSON_ARRAY_END) return NABLA_OK;
    if (event.kind != NABLA_JSON_OBJECT_BEGIN)
      return refuse(diag, NABLA_CORRUPT, event.offset, "one that is no object");
    NABLA_TRY(read_entry(tokenizer, json, event.offset, diag));
  }
}

/* Normalizes the piece `id` and makes that a pattern, and what it decodes to.
 */
static nabla_status put_pattern(nabla_tokenizer *tokenizer, uint32_t id,
                                nabla_buffer *text, nabla_diag *diag) {
  nabla_hf_tokenizer *own = tokenizer->own;
  nabla_vocabulary *vocabulary = &tokenizer->vocabulary;
  const nabla_piece *piece = nabla_vocabulary_at(vocabulary, id);
  text->size = 0;
  NABLA_TRY(nabla_hf_normalize(own, vocabulary->bytes.data + piece->at,
                               piece->length, text, diag));
  if (!text->size) return NABLA_OK;
  const nabla_piece_source source = {(const char *)text->data, text->size, 0,
                                     NABLA_PIECE_NORMAL};
  NABLA_TRY(nabla_vocabulary_put(&own->patterns, id, source, diag));
  return nabla_vocabulary_set_text(vocabulary, id, text->data, text->size,
                                   diag);
}

static nabla_status build_trees(nabla_tokenizer *tokenizer, nabla_buffer *ids,
                                nabla_diag *diag) {
  nabla_hf_tokenizer *own = tokenizer->own;
  nabla_buffer *order = &own->patterns.order;
  NABLA_TRY(nabla_trie_build(&own->raw, &tokenizer->vocabulary,
                             (void *)ids->data, ids->size / sizeof(uint32_t),
                             diag));
  if (!order->size) return NABLA_OK;
  NABLA_TRY(nabla_vocabulary_finish(&own->patterns, diag));
  ids->size = 0;
  NABLA_TRY(nabla_buffer_append(ids, order->data, order->size, diag));
  return nabla_trie_build(&own->normalized, &own->patterns, (void *)ids->data,
                          ids->size / sizeof(uint32_t), diag);
}

static nabla_status prepare(nabla_tokenizer *tokenizer, nabla_buffer *ids,
                            nabla_buffer *text, nabla_diag *diag) {
  const nabla_vocabulary *vocabulary = &tokenizer->vocabulary;
  for (uint32_t id = 0; id < nabla_vocabulary_size(vocabulary); id++) {
    const unsigned bits = nabla_vocabulary_at(vocabulary, id)->is_added;
    if (!bits) continue;
    if (bits & NABLA_HF_NORMALIZED)
      NABLA_TRY(put_pattern(tokenizer, id, text, diag));
    else
      NABLA_TRY(nabla_buffer_append(ids, &id, sizeof id, diag));
  }
  return build_trees(tokenizer, ids, diag);
}

nabla_status nabla_hf_prepare_added(nabla_tokenizer *tokenizer,
                                    nabla_diag *diag) {
  nabla_buffer ids, text;
  nabla_buffer_init(&ids, tokenizer->allocator, "added tokens",
                    sizeof(uint32_t) * NABLA_TOKENIZER_MAX_PIECES);
  nabla_buffer_init(&text, tokenizer->allocator, "an added token",
                    (size_t)NABLA_TOKENIZER_MAX_PIECE * 64);
  const nabla_status status = prepare(tokenizer, &ids, &text, diag);
  nabla_buffer_deinit(&text);
  nabla_buffer_deinit(&ids);
  return status;
}

/* ---- finding them ---------------------------------------------------------
 */

static nabla_letter letter_at(const uint8_t *text, size_t size,
                              size_t *out_length) {
  *out_length = nabla_utf8_length(text, size);
  return nabla_letter_of(nabla_utf8_code(text, *out_length));
}

/* Where the white space that ends at `end` begins, not before `least`. */
static size_t spaces_before(const uint8_t *text, size_t least, size_t end) {
  while (end > least) {
    size_t at = end - 1, length;
    while (at > least && (text[at] & 0xc0) == 0x80) at--;
    if (letter_at(text + at, end - at, &length) != NABLA_LETTER_SPACE) break;
    end = at;
  }
  return end;
}

static size_t spaces_after(const uint8_t *text, size_t at, size_t size) {
  size_t length;
  while (at < size &&
         letter_at(text + at, size - at, &length) == NABLA_LETTER_SPACE)
    at += length;
  return at;
}

/* Finds the next token from parts->search on. */
static int find_next(nabla_hf_parts *parts, nabla_hf_part *out) {
  const nabla_vocabulary *vocabulary = &parts->tokenizer->vocabulary;
  while (parts->search < parts->size) {
    const size_t begin = parts->search;
    uint32_t id;
    const size_t length = nabla_trie_longest(parts->tree, parts->text + begin,
                                             parts->size - begin, &id);
    parts->search += length ? length : 1;
    if (!length) continue;
    const nabla_piece *piece = nabla_vocabulary_at(vocabulary, id);
    if (piece->is_special && !parts->parses_special) continue;
    *out = (nabla_hf_part){begin, begin + length, id};
    if (piece->is_added & NABLA_HF_STRIPS_LEFT)
      out->begin = spaces_before(parts->text, parts->at, begin);
    if (piece->is_added & NABLA_HF_STRIPS_RIGHT)
      out->end = spaces_after(parts->text, out->end, parts->size);
    return 1;
  }
  return 0;
}

int nabla_hf_next_part(nabla_hf_parts *parts, nabla_hf_part *out) {
  const size_t at = parts->at;
  if (parts->has_pending) {
    *out = parts->pending;
    parts->has_pending = 0;
    return 1;
  }
  if (!parts->tree->nodes.size || !find_next(parts, &parts->pending)) {
    *out = (nabla_hf_part){at, parts->size, NABLA_TOKEN_NONE};
    parts->at = parts->search = parts->size;
    return at < parts->size;
  }
  parts->at = parts->pending.end;
  *out = parts->pending;
  if (at >= parts->pending.begin) return 1;
  parts->has_pending = 1;
  *out = (nabla_hf_part){at, parts->pending.begin, NABLA_TOKEN_NONE};
  return 1;
}
