/* Normalizers, pre-tokenizers, decoders and post-processors of a
 * tokenizer.json: objects with a "type", also in sequences. Each kind is read
 * into a flat list, then turned into what encoding and decoding do. */
#include <stdio.h>
#include <string.h>

#include "lib/base/utf8.h"
#include "quant/tokenizers/huggingface.h"

enum { MAX_TYPE = 40, MAX_COMPONENTS = 64, MAX_IDS = 8, UNSET = -1 };

/* One object. Texts that it lacks have the size NO_TEXT. */
#define NO_TEXT UINT32_MAX

typedef struct component {
  char type[MAX_TYPE];
  nabla_hf_text prepend, text_pattern, regex, content, replacement, scheme,
      behavior;
  int add_prefix_space, use_regex, split, invert;
  uint64_t start, stop;
  uint64_t offset;
} component;

typedef struct list {
  nabla_hf_tokenizer *own;
  nabla_json *json;
  const char *key; /* "normalizer", for messages */
  component items[MAX_COMPONENTS];
  size_t count;
  nabla_diag *diag;
} list;

static nabla_status refuse(const list *l, uint64_t offset, const char *type,
                           const char *what) {
  const nabla_status status =
      nabla_fail(l->diag, NABLA_UNSUPPORTED, "%s: %s%s%s", l->key, type,
                 *what ? ", " : "", what);
  nabla_diag_set_offset(l->diag, offset);
  nabla_diag_set_next(l->diag,
                      "docs/C_API.md, \"Text and tokens\", lists what is read");
  return status;
}

static nabla_status keep(const list *l, const nabla_json_event *event,
                         nabla_hf_text *out) {
  if (event->kind != NABLA_JSON_STRING) return NABLA_OK;
  const uint32_t at = (uint32_t)l->own->texts.size;
  if (event->length)
    NABLA_TRY(nabla_buffer_append(&l->own->texts, event->text, event->length,
                                  l->diag));
  *out = (nabla_hf_text){at, (uint32_t)event->length};
  return NABLA_OK;
}

static int is_text(const list *l, nabla_hf_text text, const char *other) {
  return text.size == strlen(other) &&
         !memcmp(nabla_hf_bytes(l->own, text), other, text.size);
}

/* {"String": "..."} or {"Regex": "..."}. */
static nabla_status read_pattern(const list *l, component *out) {
  nabla_json_event event;
  for (;;) {
    NABLA_TRY(nabla_json_next(l->json, &event, l->diag));
    if (event.kind == NABLA_JSON_OBJECT_END) return NABLA_OK;
    nabla_hf_text *to = !strcmp(event.text, "String")  ? &out->text_pattern
                        : !strcmp(event.text, "Regex") ? &out->regex
                                                       : NULL;
    NABLA_TRY(nabla_json_next(l->json, &event, l->diag));
    if (to) NABLA_TRY(keep(l, &event, to));
    NABLA_TRY(nabla_json_skip(l->json, &event, l->diag));
  }
}

/* Where the value of a key goes. */
typedef struct field {
  nabla_hf_text *text;
  int *flag;
  uint64_t *number;
  int is_pattern, is_list, is_type;
} field;

static field field_of(const char *key, component *c) {
  field f = {NULL, NULL, NULL, 0, 0, 0};
  if (!strcmp(key, "prepend")) f.text = &c->prepend;
  if (!strcmp(key, "content")) f.text = &c->content;
  if (!strcmp(key, "replacement")) f.text = &c->replacement;
  if (!strcmp(key, "prepend_scheme")) f.text = &c->scheme;
  if (!strcmp(key, "behavior")) f.text = &c->behavior;
  if (!strcmp(key, "add_prefix_space")) f.flag = &c->add_prefix_space;
  if (!strcmp(key, "use_regex")) f.flag = &c->use_regex;
  if (!strcmp(key, "split")) f.flag = &c->split;
  if (!strcmp(key, "invert")) f.flag = &c->invert;
  if (!strcmp(key, "start")) f.number = &c->start;
  if (!strcmp(key, "stop")) f.number = &c->stop;
  f.is_pattern = !strcmp(key, "pattern");
  f.is_type = !strcmp(key, "type");
  f.is_list = !strcmp(key, "normalizers") || !strcmp(key, "pretokenizers") ||
              !strcmp(key, "decoders");
  return f;
}

static nabla_status read_component(list *l, uint64_t offset);

/* Reads objects until the end of the array. */
static nabla_status read_list(list *l) {
  nabla_json_event event;
  for (;;) {
    NABLA_TRY(nabla_json_next(l->json, &event, l->diag));
    if (event.kind == NABLA_JSON_ARRAY_END) return NABLA_OK;
    if (event.kind != NABLA_JSON_OBJECT_BEGIN)
      return refuse(l, event.offset, "a value in a sequence",
                    "which is no object");
    NABLA_TRY(read_component(l, event.offset));
  }
}

static nabla_status read_field(list *l, field f, component *c) {
  nabla_json_event event;
  NABLA_TRY(nabla_json_next(l->json, &event, l->diag));
  if (f.is_list && event.kind == NABLA_JSON_ARRAY_BEGIN) return read_list(l);
  if (f.is_pattern && event.kind == NABLA_JSON_OBJECT_BEGIN)
    return read_pattern(l, c);
  if (f.is_type && event.kind == NABLA_JSON_STRING)
    (void)snprintf(c->type, sizeof c->type, "%s", event.text);
  if (f.text) NABLA_TRY(keep(l, &event, f.text));
  if (f.flag && event.kind == NABLA_JSON_TRUE) *f.flag = 1;
  if (f.flag && event.kind == NABLA_JSON_FALSE) *f.flag = 0;
  if (f.number && event.kind == NABLA_JSON_NUMBER)
    NABLA_TRY(nabla_json_u64(&event, l->key, f.number, l->diag));
  return nabla_json_skip(l->json, &event, l->diag);
}

/* Reads an object whose beginning has been read, and appends it; sequences
 * append what they hold. */
static nabla_status read_component(list *l, uint64_t offset) {
  const nabla_hf_text none = {0, NO_TEXT};
  component c = {"",    none,  none,  none,  none, none, none,  none,
                 UNSET, UNSET, UNSET, UNSET, 0,    0,    offset};
  nabla_json_event event;
  const size_t before = l->count;
  for (;;) {
    NABLA_TRY(nabla_json_next(l->json, &event, l->diag));
    if (event.kind == NABLA_JSON_OBJECT_END) break;
    NABLA_TRY(read_field(l, field_of(event.text, &c), &c));
  }
  if (!strcmp(c.type, "Sequence")) return NABLA_OK;
  if (l->count != before)
    return refuse(l, offset, c.type, "which holds others");
  if (l->count == MAX_COMPONENTS)
    return refuse(l, offset, "a sequence", "of more than 64");
  l->items[l->count++] = c;
  return NABLA_OK;
}

static nabla_status read_all(list *l) {
  nabla_json_event event;
  NABLA_TRY(nabla_json_next(l->json, &event, l->diag));
  if (event.kind == NABLA_JSON_NULL) return NABLA_OK;
  if (event.kind != NABLA_JSON_OBJECT_BEGIN)
    return refuse(l, event.offset, "a value", "which is no object");
  return read_component(l, event.offset);
}

static list list_of(const nabla_tokenizer *tokenizer, nabla_json *json,
                    const char *key, nabla_diag *diag) {
  return (list){.own = tokenizer->own, .json = json, .key = key, .diag = diag};
}

/* ---- normalizers ----------------------------------------------------------
 */

static nabla_status to_normalizer(const list *l, const component *c,
                                  nabla_hf_step *out) {
  *out = (nabla_hf_step){.kind = NABLA_HF_NFC};
  if (!strcmp(c->type, "NFC")) return NABLA_OK;
  if (!strcmp(c->type, "Prepend") && c->prepend.size != NO_TEXT) {
    out->kind = NABLA_HF_PREPEND;
    out->content = c->prepend;
    return NABLA_OK;
  }
  if (!strcmp(c->type, "Replace") && c->text_pattern.size != NO_TEXT &&
      c->text_pattern.size && c->content.size != NO_TEXT) {
    out->kind = NABLA_HF_REPLACE;
    out->pattern = c->text_pattern;
    out->content = c->content;
    return NABLA_OK;
  }
  return refuse(l, c->offset, c->type,
                "not one of NFC, Prepend, Replace (of a String), Sequence");
}

nabla_status nabla_hf_read_normalizer(nabla_tokenizer *tokenizer,
                                      nabla_json *json, nabla_diag *diag) {
  list l = list_of(tokenizer, json, "normalizer", diag);
  nabla_hf_tokenizer *own = tokenizer->own;
  own->normalizer_count = 0;
  NABLA_TRY(read_all(&l));
  if (l.count > NABLA_HF_MAX_STEPS)
    return refuse(&l, l.items[0].offset, "a sequence", "of more than 16");
  for (size_t i = 0; i < l.count; i++)
    NABLA_TRY(to_normalizer(&l, &l.items[i], &own->normalizers[i]));
  own->normalizer_count = l.count;
  return NABLA_OK;
}

/* ---- pre-tokenizers -------------------------------------------------------
 */

static nabla_status to_metaspace(const list *l, const component *c,
                                 nabla_hf_step *out) {
  *out = (nabla_hf_step){.kind = NABLA_HF_METASPACE,
                         .content = c->replacement,
                         .prepend = NABLA_HF_PREPEND_ALWAYS,
                         .splits = c->split != 0};
  const size_t size = c->replacement.size;
  if (size == NO_TEXT || !size ||
      nabla_utf8_length(nabla_hf_bytes(l->own, c->replacement), size) != size)
    return refuse(l, c->offset, c->type, "whose replacement is no character");
  if (c->scheme.size != NO_TEXT) {
    if (is_text(l, c->scheme, "first"))
      out->prepend = NABLA_HF_PREPEND_FIRST;
    else if (is_text(l, c->scheme, "never"))
      out->prepend = NABLA_HF_PREPEND_NEVER;
    else if (!is_text(l, c->scheme, "always"))
      return refuse(l, c->offset, c->type, "of this prepend_scheme");
  }
  if (c->add_prefix_space == 0) out->prepend = NABLA_HF_PREPEND_NEVER;
  return NABLA_OK;
}

static nabla_status to_words(const list *l, const component *c, int is_last,
                             nabla_hf_step *out) {
  *out = (nabla_hf_step){.kind = NABLA_HF_SPLIT};
  if (!strcmp(c->type, "Metaspace")) return to_metaspace(l, c, out);
  if (!strcmp(c->type, "ByteLevel")) {
    if (!is_last) return refuse(l, c->offset, c->type, "which is not the last");
    out->kind = NABLA_HF_BYTE_LEVEL;
    out->prepend =
        c->add_prefix_space ? NABLA_HF_PREPEND_ALWAYS : NABLA_HF_PREPEND_NEVER;
    out->words = c->use_regex ? nabla_split_gpt2() : NULL;
    return NABLA_OK;
  }
  if (strcmp(c->type, "Split") != 0)
    return refuse(l, c->offset, c->type,
                  "not one of ByteLevel, Metaspace, Split, Sequence");
  if (c->regex.size != NO_TEXT)
    out->words = nabla_split_find(
        (const char *)nabla_hf_bytes(l->own, c->regex), c->regex.size);
  if (!out->words)
    return refuse(l, c->offset, c->type,
                  "whose pattern is not that of GPT-2, Llama 3 or Qwen 2");
  if (c->behavior.size == NO_TEXT || !is_text(l, c->behavior, "Isolated") ||
      c->invert == 1)
    return refuse(l, c->offset, c->type, "whose behavior is not Isolated");
  return NABLA_OK;
}

nabla_status nabla_hf_read_words(nabla_tokenizer *tokenizer, nabla_json *json,
                                 nabla_diag *diag) {
  list l = list_of(tokenizer, json, "pre_tokenizer", diag);
  nabla_hf_tokenizer *own = tokenizer->own;
  own->word_count = 0;
  NABLA_TRY(read_all(&l));
  if (l.count > NABLA_HF_MAX_STEPS)
    return refuse(&l, l.items[0].offset, "a sequence", "of more than 16");
  for (size_t i = 0; i < l.count; i++)
    NABLA_TRY(to_words(&l, &l.items[i], i + 1 == l.count, &own->words[i]));
  own->word_count = l.count;
  own->is_byte_level =
      l.count && own->words[l.count - 1].kind == NABLA_HF_BYTE_LEVEL;
  return NABLA_OK;
}

/* ---- decoders -------------------------------------------------------------
 */

/* What a decoder does to each token, in order. */
typedef struct decoding {
  const component *replaces[MAX_COMPONENTS];
  size_t replace_count;
  int is_byte_level, has_bytes;
} decoding;

static nabla_status to_decoding(const list *l, nabla_decode_rules *rules,
                                decoding *out) {
  int is_fused = 0;
  for (size_t i = 0; i < l->count; i++) {
    const component *c = &l->items[i];
    const int is_alone = l->count == 1;
    const int is_first = !out->has_bytes && !is_fused;
    if (!strcmp(c->type, "ByteLevel") && is_alone) {
      out->is_byte_level = rules->is_bytes = 1;
    } else if (!strcmp(c->type, "Metaspace") && is_alone &&
               c->replacement.size != NO_TEXT && c->replacement.size) {
      out->replaces[out->replace_count++] = c;
      const int never =
          c->add_prefix_space == 0 ||
          (c->scheme.size != NO_TEXT && is_text(l, c->scheme, "never"));
      rules->strip = never ? NABLA_STRIP_NONE : NABLA_STRIP_FIRST;
    } else if (!strcmp(c->type, "Replace") && is_first &&
               c->text_pattern.size != NO_TEXT && c->text_pattern.size &&
               c->content.size != NO_TEXT) {
      out->replaces[out->replace_count++] = c;
    } else if (!strcmp(c->type, "ByteFallback") && is_first) {
      out->has_bytes = rules->whole_runs = 1;
    } else if (!strcmp(c->type, "Fuse")) {
      is_fused = 1;
    } else if (!strcmp(c->type, "Strip") && is_fused && !c->stop &&
               c->start <= UINT8_MAX && c->content.size != NO_TEXT &&
               is_text(l, c->content, " ") &&
               rules->strip == NABLA_STRIP_NONE) {
      rules->strip = c->start ? NABLA_STRIP_TEXT : NABLA_STRIP_NONE;
      rules->strip_count = (uint32_t)c->start;
    } else {
      return refuse(l, c->offset, c->type,
                    "not ByteLevel or Metaspace alone, nor Replace (of a "
                    "String), ByteFallback, Fuse, Strip (of spaces at the "
                    "start) in this order");
    }
  }
  return NABLA_OK;
}

static int hex(uint8_t c) {
  if (c >= '0' && c <= '9') return c - '0';
  c |= 0x20;
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The byte of "<0x0A>" in either case, or -1. */
static int byte_of(const uint8_t *text, size_t size) {
  if (size != 6 || memcmp(text, "<0x", 3) != 0 || text[5] != '>') return -1;
  return hex(text[3]) < 0 || hex(text[4]) < 0
             ? -1
             : hex(text[3]) * 16 + hex(text[4]);
}

/* Appends the bytes that the letters of a piece stand for; if one stands for
 * none, the piece as it is. */
static nabla_status from_letters(const uint8_t *text, size_t size,
                                 nabla_buffer *out, nabla_diag *diag) {
  const size_t before = out->size;
  for (size_t at = 0, step; at < size; at += step) {
    step = nabla_utf8_length(text + at, size - at);
    const int byte = nabla_letter_byte(step == 1   ? text[at]
                                       : step == 2 ? (text[at] & 0x1fu) << 6 |
                                                         (text[at + 1] & 0x3fu)
                                                   : UINT32_MAX);
    if (byte < 0) {
      out->size = before;
      return nabla_buffer_append(out, text, size, diag);
    }
    const uint8_t one = (uint8_t)byte;
    NABLA_TRY(nabla_buffer_append(out, &one, 1, diag));
  }
  return NABLA_OK;
}

/* Sets the text of piece `id`. `one` and `two` are buffers. */
static nabla_status set_text(const list *l, nabla_vocabulary *vocabulary,
                             uint32_t id, const decoding *how,
                             nabla_buffer *one, nabla_buffer *two) {
  nabla_piece *piece = nabla_vocabulary_at(vocabulary, id);
  const uint8_t *bytes = vocabulary->bytes.data + piece->text_at;
  const int byte = how->has_bytes ? byte_of(bytes, piece->text_length) : -1;
  one->size = 0;
  if (byte >= 0) {
    piece->kind = NABLA_PIECE_BYTE;
    piece->byte = (uint8_t)byte;
    return nabla_vocabulary_set_text(vocabulary, id, &piece->byte, 1, l->diag);
  }
  if (how->is_byte_level)
    NABLA_TRY(from_letters(bytes, piece->text_length, one, l->diag));
  else if (piece->text_length)
    NABLA_TRY(nabla_buffer_append(one, bytes, piece->text_length, l->diag));
  for (size_t i = 0; i < how->replace_count; i++) {
    const component *c = how->replaces[i];
    const int is_mark = c->text_pattern.size == NO_TEXT;
    const nabla_hf_text from = is_mark ? c->replacement : c->text_pattern;
    const nabla_buffer swap = *one;
    two->size = 0;
    NABLA_TRY(nabla_hf_replace(
        one->data, one->size, nabla_hf_bytes(l->own, from), from.size,
        is_mark ? (const uint8_t *)" " : nabla_hf_bytes(l->own, c->content),
        is_mark ? 1 : c->content.size, two, l->diag));
    *one = *two;
    *two = swap;
  }
  if (one->size == piece->text_length &&
      !memcmp(one->data, vocabulary->bytes.data + piece->text_at, one->size))
    return NABLA_OK;
  return nabla_vocabulary_set_text(vocabulary, id, one->data, one->size,
                                   l->diag);
}

static nabla_status set_texts(const list *l, nabla_tokenizer *tokenizer,
                              const decoding *how) {
  nabla_vocabulary *vocabulary = &tokenizer->vocabulary;
  nabla_buffer one, two;
  nabla_status status = NABLA_OK;
  nabla_buffer_init(&one, tokenizer->allocator, "the text of a piece",
                    (size_t)NABLA_TOKENIZER_MAX_PIECE * 256);
  nabla_buffer_init(&two, tokenizer->allocator, "the text of a piece",
                    (size_t)NABLA_TOKENIZER_MAX_PIECE * 256);
  for (uint32_t id = 0; id < nabla_vocabulary_size(vocabulary) && !status; id++)
    if (nabla_vocabulary_at(vocabulary, id)->kind != NABLA_PIECE_ABSENT)
      status = set_text(l, vocabulary, id, how, &one, &two);
  nabla_buffer_deinit(&two);
  nabla_buffer_deinit(&one);
  return status;
}

nabla_status nabla_hf_read_decoder(nabla_tokenizer *tokenizer, nabla_json *json,
                                   nabla_diag *diag) {
  list l = list_of(tokenizer, json, "decoder", diag);
  decoding how = {.replace_count = 0};
  tokenizer->decode = (nabla_decode_rules){.strip = NABLA_STRIP_NONE};
  if (json) NABLA_TRY(read_all(&l));
  tokenizer->decode.is_spaced = !l.count;
  NABLA_TRY(to_decoding(&l, &tokenizer->decode, &how));
  return set_texts(&l, tokenizer, &how);
}
