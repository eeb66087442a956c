/* Reading tokenizer.json of Hugging Face's `tokenizers` with a model BPE, and
 * encoding with it. The file is parsed three times, because its keys may stand
 * in any order: pieces and settings; added tokens; what refers to pieces. */
#include "quant/tokenizers/huggingface.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/utf8.h"

enum { PIECES, ADDED, REFERENCES, PASSES, MAX_KEY = 32 };

typedef struct reader {
  nabla_tokenizer *tokenizer;
  nabla_hf_tokenizer *own;
  nabla_json *json;
  int pass, is_bpe, has_vocab, has_decoder;
  nabla_hf_text unknown; /* unk_token; size 0: none */
  nabla_diag *diag;
} reader;

static nabla_status refuse(const reader *r, nabla_status code, uint64_t offset,
                           const char *what) {
  const nabla_status status = nabla_fail(r->diag, code, "%s", what);
  nabla_diag_set_offset(r->diag, offset);
  return status;
}

/* Reads a key, or the end of the object. */
static nabla_status next_key(const reader *r, char out[MAX_KEY],
                             int *out_is_end) {
  nabla_json_event event;
  NABLA_TRY(nabla_json_next(r->json, &event, r->diag));
  *out_is_end = event.kind == NABLA_JSON_OBJECT_END;
  out[0] = '\0';
  if (!*out_is_end && event.length < MAX_KEY)
    memcpy(out, event.text, event.length + 1);
  return NABLA_OK;
}

static nabla_status skip(const reader *r) {
  nabla_json_event event;
  NABLA_TRY(nabla_json_next(r->json, &event, r->diag));
  return nabla_json_skip(r->json, &event, r->diag);
}

static nabla_status read_vocabulary(reader *r) {
  nabla_json_event event;
  nabla_buffer key;
  nabla_status status;
  r->has_vocab = 1;
  NABLA_TRY(nabla_json_expect(r->json, NABLA_JSON_OBJECT_BEGIN,
                              "the vocabulary", &event, r->diag));
  nabla_buffer_init(&key, r->tokenizer->allocator, "a piece",
                    NABLA_JSON_MAX_STRING);
  for (;;) {
    uint64_t id = 0;
    key.size = 0;
    status = nabla_json_next(r->json, &event, r->diag);
    if (status || event.kind == NABLA_JSON_OBJECT_END) break;
    if (event.length)
      status = nabla_buffer_append(&key, event.text, event.length, r->diag);
    if (!status)
      status = nabla_json_expect(r->json, NABLA_JSON_NUMBER,
                                 "the id of a piece", &event, r->diag);
    if (!status) status = nabla_json_u64(&event, "an id", &id, r->diag);
    if (id >= NABLA_TOKENIZER_MAX_PIECES) id = NABLA_TOKENIZER_MAX_PIECES;
    const nabla_piece_source source = {(const char *)key.data, key.size, 0,
                                       NABLA_PIECE_NORMAL};
    if (!status)
      status = nabla_vocabulary_put(&r->tokenizer->vocabulary, (uint32_t)id,
                                    source, r->diag);
    if (status) break;
  }
  if (status) nabla_diag_set_offset(r->diag, nabla_json_offset(r->json));
  nabla_buffer_deinit(&key);
  return status;
}

/* A setting of the model that must be absent, null, 0, false or "". */
static nabla_status check_unset(const reader *r, const char *key,
                                const nabla_json_event *event) {
  const int is_set =
      event->kind == NABLA_JSON_NUMBER   ? strtod(event->text, NULL) != 0
      : event->kind == NABLA_JSON_STRING ? event->length != 0
                                         : event->kind != NABLA_JSON_NULL;
  if (!is_set) return NABLA_OK;
  const nabla_status status =
      nabla_fail(r->diag, NABLA_UNSUPPORTED, "model.%s: is not supported", key);
  nabla_diag_set_offset(r->diag, event->offset);
  return status;
}

static nabla_status read_setting(reader *r, const char *key) {
  nabla_hf_tokenizer *own = r->own;
  nabla_json_event event;
  NABLA_TRY(nabla_json_next(r->json, &event, r->diag));
  const int is_true = event.kind == NABLA_JSON_TRUE;
  if (!strcmp(key, "type")) {
    r->is_bpe = event.kind == NABLA_JSON_STRING && !strcmp(event.text, "BPE");
    if (!r->is_bpe)
      return refuse(r, NABLA_UNSUPPORTED, event.offset,
                    "model.type: only BPE is supported");
  }
  if (!strcmp(key, "dropout") || !strcmp(key, "continuing_subword_prefix") ||
      !strcmp(key, "end_of_word_suffix"))
    NABLA_TRY(check_unset(r, key, &event));
  if (!strcmp(key, "fuse_unk")) own->fuses_unknown = is_true;
  if (!strcmp(key, "byte_fallback")) own->falls_to_bytes = is_true;
  if (!strcmp(key, "ignore_merges")) own->ignores_merges = is_true;
  if (!strcmp(key, "unk_token") && event.kind == NABLA_JSON_STRING) {
    r->unknown =
        (nabla_hf_text){(uint32_t)own->texts.size, (uint32_t)event.length};
    if (event.length)
      NABLA_TRY(
          nabla_buffer_append(&own->texts, event.text, event.length, r->diag));
  }
  return nabla_json_skip(r->json, &event, r->diag);
}

static nabla_status read_model(reader *r) {
  nabla_json_event event;
  NABLA_TRY(nabla_json_expect(r->json, NABLA_JSON_OBJECT_BEGIN, "the model",
                              &event, r->diag));
  for (;;) {
    char key[MAX_KEY];
    int is_end;
    NABLA_TRY(next_key(r, key, &is_end));
    if (is_end) return NABLA_OK;
    if (!strcmp(key, "merges") && r->pass == REFERENCES)
      NABLA_TRY(nabla_hf_read_merges(r->tokenizer, r->json, r->diag));
    else if (!strcmp(key, "vocab") && r->pass == PIECES)
      NABLA_TRY(read_vocabulary(r));
    else if (strcmp(key, "merges") != 0 && strcmp(key, "vocab") != 0 &&
             r->pass == PIECES)
      NABLA_TRY(read_setting(r, key));
    else
      NABLA_TRY(skip(r));
  }
}

static nabla_status read_version(const reader *r) {
  nabla_json_event event;
  NABLA_TRY(nabla_json_next(r->json, &event, r->diag));
  if (event.kind != NABLA_JSON_STRING || strcmp(event.text, "1.0") != 0)
    return refuse(r, NABLA_UNSUPPORTED, event.offset,
                  "version: only 1.0 is known");
  return NABLA_OK;
}

/* Reads the value of a key of the file. */
static nabla_status read_member(reader *r, const char *key) {
  nabla_tokenizer *tokenizer = r->tokenizer;
  if (!strcmp(key, "model") && r->pass != ADDED) return read_model(r);
  if (r->pass == PIECES) {
    if (!strcmp(key, "version")) return read_version(r);
    if (!strcmp(key, "normalizer"))
      return nabla_hf_read_normalizer(tokenizer, r->json, r->diag);
    if (!strcmp(key, "pre_tokenizer"))
      return nabla_hf_read_words(tokenizer, r->json, r->diag);
  }
  if (r->pass == ADDED && !strcmp(key, "added_tokens"))
    return nabla_hf_read_added(tokenizer, r->json, r->diag);
  if (r->pass == REFERENCES) {
    if (!strcmp(key, "post_processor"))
      return nabla_hf_read_around(tokenizer, r->json, r->diag);
    if (!strcmp(key, "decoder") && !r->has_decoder) {
      r->has_decoder = 1;
      return nabla_hf_read_decoder(tokenizer, r->json, r->diag);
    }
  }
  return skip(r);
}

static nabla_status read_members(reader *r) {
  nabla_json_event event;
  NABLA_TRY(nabla_json_expect(r->json, NABLA_JSON_OBJECT_BEGIN,
                              "the object of a tokenizer.json", &event,
                              r->diag));
  for (;;) {
    char key[MAX_KEY];
    int is_end;
    NABLA_TRY(next_key(r, key, &is_end));
    if (is_end) break;
    NABLA_TRY(read_member(r, key));
  }
  return nabla_json_expect(r->json, NABLA_JSON_END, "the end of the file",
                           &event, r->diag);
}

uint32_t nabla_hf_find(const nabla_tokenizer *tokenizer, const void *bytes,
                       size_t length) {
  const nabla_vocabulary *vocabulary = &tokenizer->vocabulary;
  const uint32_t id = nabla_vocabulary_find(vocabulary, bytes, length);
  if (id == NABLA_TOKEN_NONE) return id;
  return nabla_vocabulary_at(vocabulary, id)->is_added & NABLA_HF_ONLY_ADDED
             ? NABLA_TOKEN_NONE
             : id;
}

/* What depends on all pieces. */
static nabla_status prepare(const reader *r) {
  static const char hex[] = "0123456789ABCDEF";
  nabla_tokenizer *tokenizer = r->tokenizer;
  nabla_hf_tokenizer *own = r->own;
  NABLA_TRY(nabla_vocabulary_finish(&tokenizer->vocabulary, r->diag));
  for (unsigned i = 0; i < 256; i++) {
    uint8_t letter[4];
    const char byte[6] = {'<', '0', 'x', hex[i >> 4], hex[i & 15], '>'};
    const size_t size =
        nabla_utf8_encode(nabla_byte_letter((uint8_t)i), letter);
    own->letter_ids[i] = nabla_hf_find(tokenizer, letter, size);
    tokenizer->vocabulary.byte_ids[i] =
        nabla_hf_find(tokenizer, byte, sizeof byte);
  }
  if (r->unknown.size) {
    tokenizer->roles.unk = nabla_hf_find(
        tokenizer, nabla_hf_bytes(own, r->unknown), r->unknown.size);
    if (tokenizer->roles.unk == NABLA_TOKEN_NONE)
      return refuse(r, NABLA_CORRUPT, NABLA_NO_OFFSET,
                    "model.unk_token: no piece of the vocabulary");
  }
  nabla_tokenizer_set_space(tokenizer, NABLA_SPACE_MARK);
  if (own->fuses_unknown &&
      nabla_hf_find(tokenizer, NABLA_SPACE_MARK, NABLA_SPACE_MARK_SIZE) ==
          NABLA_TOKEN_NONE)
    tokenizer->has_words_apart = 0; /* unknown ones join over it */
  return nabla_hf_prepare_added(tokenizer, r->diag);
}

static nabla_status read_pass(reader *r, const uint8_t *data, size_t size) {
  NABLA_TRY(nabla_json_create_span(r->tokenizer->allocator, data, size, 0,
                                   &r->json, r->diag));
  nabla_status status = read_members(r);
  nabla_json_destroy(r->json);
  if (status || r->pass == ADDED) return status ? status : prepare(r);
  if (r->pass == REFERENCES) return NABLA_OK;
  if (r->is_bpe && r->has_vocab) return NABLA_OK;
  return refuse(r, NABLA_CORRUPT, NABLA_NO_OFFSET,
                "it has no model with a type and a vocab");
}

static nabla_status read_file(nabla_tokenizer *tokenizer, const uint8_t *data,
                              size_t size, nabla_diag *diag) {
  void *memory;
  reader r = {.tokenizer = tokenizer, .diag = diag};
  NABLA_TRY(nabla_alloc(tokenizer->allocator, 1, sizeof *r.own, &memory, diag));
  tokenizer->own = r.own = memory;
  nabla_buffer_init(&r.own->texts, tokenizer->allocator,
                    "texts of a tokenizer.json", NABLA_HF_MAX_SETTINGS);
  nabla_vocabulary_init(&r.own->patterns, tokenizer->allocator);
  for (r.pass = PIECES; r.pass < PASSES; r.pass++)
    NABLA_TRY(read_pass(&r, data, size));
  if (!r.has_decoder) NABLA_TRY(nabla_hf_read_decoder(tokenizer, NULL, diag));
  if (r.own->before_count) tokenizer->roles.bos = r.own->before[0];
  return NABLA_OK;
}

static void deinit(nabla_tokenizer *tokenizer) {
  nabla_hf_tokenizer *own = tokenizer->own;
  if (!own) return;
  nabla_free(tokenizer->allocator, own->merges, own->merge_slots,
             sizeof *own->merges);
  nabla_vocabulary_deinit(&own->patterns);
  nabla_trie_deinit(&own->normalized);
  nabla_trie_deinit(&own->raw);
  nabla_buffer_deinit(&own->texts);
  nabla_free(tokenizer->allocator, own, 1, sizeof *own);
}

static nabla_status put_ids(nabla_encode_run *run, const uint32_t *ids,
                            size_t count) {
  if (!(run->flags & NABLA_ENCODE_ADD_SPECIAL)) return NABLA_OK;
  for (size_t i = 0; i < count; i++) NABLA_TRY(nabla_encode_id(run, ids[i]));
  return NABLA_OK;
}

/* Encodes text between added tokens, `begin` bytes from the text's start. */
static nabla_status encode_text(nabla_encode_run *run, const uint8_t *text,
                                size_t size, size_t begin) {
  const nabla_hf_tokenizer *own = run->tokenizer->own;
  nabla_hf_part part;
  run->text.size = 0;
  NABLA_TRY(nabla_hf_normalize(own, text, size, &run->text, run->diag));
  nabla_hf_parts parts = {
      .tokenizer = run->tokenizer,
      .tree = &own->normalized,
      .text = run->text.data,
      .size = run->text.size,
      .parses_special = (run->flags & NABLA_ENCODE_PARSE_SPECIAL) != 0};
  while (nabla_hf_next_part(&parts, &part)) {
    if (part.id != NABLA_TOKEN_NONE)
      NABLA_TRY(nabla_encode_id(run, part.id));
    else
      NABLA_TRY(nabla_hf_encode_words(run, run->text.data + part.begin,
                                      part.end - part.begin,
                                      !begin && !part.begin));
  }
  return NABLA_OK;
}

static nabla_status encode(nabla_encode_run *run, const uint8_t *text,
                           size_t size) {
  const nabla_hf_tokenizer *own = run->tokenizer->own;
  nabla_hf_part part;
  nabla_hf_parts parts = {
      .tokenizer = run->tokenizer,
      .tree = &own->raw,
      .text = text,
      .size = size,
      .parses_special = (run->flags & NABLA_ENCODE_PARSE_SPECIAL) != 0};
  NABLA_TRY(put_ids(run, own->before, own->before_count));
  while (nabla_hf_next_part(&parts, &part)) {
    if (part.id != NABLA_TOKEN_NONE)
      NABLA_TRY(nabla_encode_id(run, part.id));
    else
      NABLA_TRY(encode_text(run, text + part.begin, part.end - part.begin,
                            part.begin));
  }
  return put_ids(run, own->after, own->after_count);
}

const nabla_tokenizer_calls nabla_huggingface_tokenizer = {read_file, encode,
                                                           deinit};
