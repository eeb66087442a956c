/* The post-processor of a tokenizer.json: the ids around a text. ByteLevel puts
 * none there; TemplateProcessing has a list with one place for the text. */
#include <stdio.h>
#include <string.h>

#include "quant/tokenizers/huggingface.h"

enum { MAX_NAME = 256, MAX_ITEMS = 64 };

/* An item of "single": a name of "special_tokens", or the text itself. */
typedef struct item {
  char name[MAX_NAME];
  int is_text;
} item;

typedef struct reader {
  nabla_tokenizer *tokenizer;
  nabla_json *json;
  item items[MAX_ITEMS];
  size_t count;
  int is_template;
  nabla_diag *diag;
} reader;

static nabla_status refuse(const reader *r, nabla_status code, uint64_t offset,
                           const char *what, const char *name) {
  const nabla_status status = nabla_fail(
      r->diag, code, "post_processor: %s%s%s", what, *name ? " " : "", name);
  nabla_diag_set_offset(r->diag, offset);
  if (code == NABLA_UNSUPPORTED)
    nabla_diag_set_next(r->diag,
                        "ByteLevel, TemplateProcessing and sequences of them "
                        "are read");
  return status;
}

/* {"id": "...", "type_id": 0}; `kind` is the key that it stands under. */
static nabla_status read_item_id(reader *r, const char *kind) {
  nabla_json_event event;
  item *to = &r->items[r->count - 1];
  to->is_text = !strcmp(kind, "Sequence");
  NABLA_TRY(nabla_json_expect(r->json, NABLA_JSON_OBJECT_BEGIN,
                              "an object with an id", &event, r->diag));
  for (;;) {
    NABLA_TRY(nabla_json_next(r->json, &event, r->diag));
    if (event.kind == NABLA_JSON_OBJECT_END) return NABLA_OK;
    const int is_id = !strcmp(event.text, "id");
    NABLA_TRY(nabla_json_next(r->json, &event, r->diag));
    if (is_id && event.kind == NABLA_JSON_STRING) {
      if (event.length >= MAX_NAME)
        return refuse(r, NABLA_TOO_LARGE, event.offset,
                      "a name of more than 255 bytes", "");
      (void)snprintf(to->name, sizeof to->name, "%s", event.text);
    }
    NABLA_TRY(nabla_json_skip(r->json, &event, r->diag));
  }
}

static nabla_status read_single(reader *r) {
  nabla_json_event event;
  for (;;) {
    char kind[16];
    NABLA_TRY(nabla_json_next(r->json, &event, r->diag));
    if (event.kind == NABLA_JSON_ARRAY_END) return NABLA_OK;
    if (event.kind != NABLA_JSON_OBJECT_BEGIN || r->count == MAX_ITEMS)
      return refuse(r, NABLA_UNSUPPORTED, event.offset,
                    "a \"single\" of more than 64 items, or not of objects",
                    "");
    NABLA_TRY(
        nabla_json_expect(r->json, NABLA_JSON_KEY, "a key", &event, r->diag));
    (void)snprintf(kind, sizeof kind, "%s", event.text);
    if (strcmp(kind, "Sequence") != 0 && strcmp(kind, "SpecialToken") != 0)
      return refuse(r, NABLA_UNSUPPORTED, event.offset, "an item", kind);
    r->items[r->count++] = (item){"", 0};
    NABLA_TRY(read_item_id(r, kind));
    NABLA_TRY(nabla_json_expect(r->json, NABLA_JSON_OBJECT_END,
                                "the end of an item", &event, r->diag));
  }
}

/* Appends the ids of one special token to each place that names it. The ids of
 * an item are kept in the order of items: `ids` by item. */
typedef struct ids {
  uint32_t values[MAX_ITEMS][8];
  uint8_t counts[MAX_ITEMS], is_known[MAX_ITEMS];
} ids;

static nabla_status take_id(const reader *r, const nabla_json_event *event,
                            const char *name, ids *out) {
  uint64_t id;
  NABLA_TRY(nabla_json_u64(event, "ids", &id, r->diag));
  const nabla_vocabulary *vocabulary = &r->tokenizer->vocabulary;
  if (id >= nabla_vocabulary_size(vocabulary) ||
      nabla_vocabulary_at(vocabulary, (uint32_t)id)->kind == NABLA_PIECE_ABSENT)
    return refuse(r, NABLA_CORRUPT, event->offset, "no piece has the id of",
                  name);
  for (size_t i = 0; i < r->count; i++) {
    if (r->items[i].is_text || strcmp(r->items[i].name, name) != 0) continue;
    if (out->counts[i] == 8)
      return refuse(r, NABLA_TOO_LARGE, event->offset, "more than 8 ids of",
                    name);
    out->values[i][out->counts[i]++] = (uint32_t)id;
  }
  return NABLA_OK;
}

/* {"id": ..., "ids": [...], "tokens": [...]} */
static nabla_status read_special(const reader *r, const char *name, ids *out) {
  nabla_json_event event;
  NABLA_TRY(nabla_json_expect(r->json, NABLA_JSON_OBJECT_BEGIN,
                              "an object with ids", &event, r->diag));
  for (size_t i = 0; i < r->count; i++)
    out->is_known[i] |= !strcmp(r->items[i].name, name);
  for (;;) {
    NABLA_TRY(nabla_json_next(r->json, &event, r->diag));
    if (event.kind == NABLA_JSON_OBJECT_END) return NABLA_OK;
    const int is_ids = !strcmp(event.text, "ids");
    NABLA_TRY(nabla_json_next(r->json, &event, r->diag));
    if (!is_ids || event.kind != NABLA_JSON_ARRAY_BEGIN) {
      NABLA_TRY(nabla_json_skip(r->json, &event, r->diag));
      continue;
    }
    for (;;) {
      NABLA_TRY(nabla_json_next(r->json, &event, r->diag));
      if (event.kind == NABLA_JSON_ARRAY_END) break;
      NABLA_TRY(take_id(r, &event, name, out));
    }
  }
}

static nabla_status read_specials(const reader *r, ids *out) {
  nabla_json_event event;
  for (;;) {
    char name[MAX_NAME];
    NABLA_TRY(nabla_json_next(r->json, &event, r->diag));
    if (event.kind == NABLA_JSON_OBJECT_END) return NABLA_OK;
    (void)snprintf(name, sizeof name, "%s", event.text);
    NABLA_TRY(read_special(r, name, out));
  }
}

static nabla_status put_ids(const reader *r, const ids *from, size_t index,
                            int is_after) {
  nabla_hf_tokenizer *own = r->tokenizer->own;
  uint32_t *to = is_after ? own->after : own->before;
  size_t *count = is_after ? &own->after_count : &own->before_count;
  for (size_t i = 0; i < from->counts[index]; i++) {
    if (*count == NABLA_HF_MAX_AROUND)
      return refuse(r, NABLA_TOO_LARGE, NABLA_NO_OFFSET,
                    "more than 64 ids around a text", "");
    to[(*count)++] = from->values[index][i];
  }
  return NABLA_OK;
}

static nabla_status resolve(const reader *r, const ids *from, uint64_t offset) {
  int texts = 0;
  for (size_t i = 0; i < r->count; i++) {
    if (r->items[i].is_text) {
      if (texts++ || strcmp(r->items[i].name, "A") != 0)
        return refuse(r, NABLA_UNSUPPORTED, offset,
                      "a \"single\" of other texts than one A", "");
      continue;
    }
    if (!from->is_known[i])
      return refuse(r, NABLA_CORRUPT, offset, "special_tokens lacks",
                    r->items[i].name);
    NABLA_TRY(put_ids(r, from, i, texts));
  }
  return texts ? NABLA_OK
               : refuse(r, NABLA_UNSUPPORTED, offset,
                        "a \"single\" without the text", "");
}

static nabla_status read_processor(reader *r, uint64_t offset);

static nabla_status read_list(reader *r) {
  nabla_json_event event;
  for (;;) {
    NABLA_TRY(nabla_json_next(r->json, &event, r->diag));
    if (event.kind == NABLA_JSON_ARRAY_END) return NABLA_OK;
    if (event.kind != NABLA_JSON_OBJECT_BEGIN)
      return refuse(r, NABLA_UNSUPPORTED, event.offset,
                    "a value that is no object", "");
    NABLA_TRY(read_processor(r, event.offset));
  }
}

/* "single" stands before "special_tokens", as the library writes them. */
static nabla_status read_members(reader *r, char type[MAX_NAME], ids *out) {
  nabla_json_event event;
  for (;;) {
    char key[32];
    NABLA_TRY(nabla_json_next(r->json, &event, r->diag));
    if (event.kind == NABLA_JSON_OBJECT_END) return NABLA_OK;
    (void)snprintf(key, sizeof key, "%s", event.text);
    NABLA_TRY(nabla_json_next(r->json, &event, r->diag));
    if (!strcmp(key, "type") && event.kind == NABLA_JSON_STRING)
      (void)snprintf(type, MAX_NAME, "%s", event.text);
    if (!strcmp(key, "processors") && event.kind == NABLA_JSON_ARRAY_BEGIN)
      NABLA_TRY(read_list(r));
    else if (!strcmp(key, "single") && event.kind == NABLA_JSON_ARRAY_BEGIN)
      NABLA_TRY(read_single(r));
    else if (!strcmp(key, "special_tokens") &&
             event.kind == NABLA_JSON_OBJECT_BEGIN)
      NABLA_TRY(read_specials(r, out));
    else
      NABLA_TRY(nabla_json_skip(r->json, &event, r->diag));
  }
}

static nabla_status read_processor(reader *r, uint64_t offset) {
  char type[MAX_NAME] = "";
  ids found = {.counts = {0}};
  NABLA_TRY(read_members(r, type, &found));
  if (!strcmp(type, "ByteLevel") || !strcmp(type, "Sequence")) return NABLA_OK;
  if (strcmp(type, "TemplateProcessing") != 0)
    return refuse(r, NABLA_UNSUPPORTED, offset, "the type", type);
  if (r->is_template)
    return refuse(r, NABLA_UNSUPPORTED, offset, "two of TemplateProcessing",
                  "");
  r->is_template = 1;
  return resolve(r, &found, offset);
}

nabla_status nabla_hf_read_around(nabla_tokenizer *tokenizer, nabla_json *json,
                                  nabla_diag *diag) {
  reader r = {.tokenizer = tokenizer, .json = json, .diag = diag};
  nabla_json_event event;
  NABLA_TRY(nabla_json_next(json, &event, diag));
  if (event.kind == NABLA_JSON_NULL) return NABLA_OK;
  if (event.kind != NABLA_JSON_OBJECT_BEGIN)
    return refuse(&r, NABLA_UNSUPPORTED, event.offset,
                  "a value that is no object", "");
  return read_processor(&r, event.offset);
}
