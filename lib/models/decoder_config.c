/* Reading config.json for decoders; see decoder_config.h. */
#include "lib/models/decoder_config.h"

#include <string.h>

#include "lib/base/c_locale.h"
#include "lib/base/edit_distance.h"
#include "lib/base/file/file.h"
#include "lib/base/json/json.h"
#include "nabla/decoder.h"
#include "quant/huggingface/architecture.h"

typedef enum key_kind {
  KEY_SIZE,
  KEY_REAL,
  KEY_FLAG,
  KEY_FIXED,
  KEY_IGNORED,
} key_kind;

typedef struct key_row {
  const char *name;
  key_kind kind;
  size_t member;              /* SIZE, REAL, FLAG: its offset */
  const char *value, *lacked; /* FIXED                        */
} key_row;

#define MEMBER(key) offsetof(nabla_decoder_config, key)
static const key_row rows[] = {
#define DECODER_SIZE(key, fallback) {#key, KEY_SIZE, MEMBER(key), NULL, NULL},
#define DECODER_REAL(key, fallback) {#key, KEY_REAL, MEMBER(key), NULL, NULL},
#define DECODER_FLAG(key, fallback) {#key, KEY_FLAG, MEMBER(key), NULL, NULL},
#define DECODER_FIXED(key, value, meaning) {#key, KEY_FIXED, 0, value, meaning},
#define DECODER_IGNORED(key)               {#key, KEY_IGNORED, 0, NULL, NULL},
#include "lib/models/decoder_keys.def"
#undef DECODER_SIZE
#undef DECODER_REAL
#undef DECODER_FLAG
#undef DECODER_FIXED
#undef DECODER_IGNORED
};
#define ROWS (sizeof rows / sizeof *rows)

static const nabla_decoder_config fallbacks = {
#define DECODER_SIZE(key, fallback) .key = fallback,
#define DECODER_REAL(key, fallback) .key = fallback,
#define DECODER_FLAG(key, fallback) .key = fallback,
#define DECODER_FIXED(key, value, meaning)
#define DECODER_IGNORED(key)
#include "lib/models/decoder_keys.def"
#undef DECODER_SIZE
#undef DECODER_REAL
#undef DECODER_FLAG
#undef DECODER_FIXED
#undef DECODER_IGNORED
};

typedef struct reader {
  nabla_json *json;
  nabla_decoder_config config;
  char class_name[64]; /* the first of "architectures", or ""    */
  uint64_t seen[ROWS]; /* offset of the key, plus one; 0: not there */
  nabla_diag *diag;
} reader;

static nabla_status fail_at(const reader *r, nabla_status status,
                            uint64_t offset) {
  nabla_diag_set_offset(r->diag, offset);
  return status;
}

/* The value of a key that this writer has no code for. */
static nabla_status fail_lacked(const reader *r, const key_row *row,
                                const nabla_json_event *event) {
  const nabla_status status =
      nabla_fail(r->diag, NABLA_UNSUPPORTED,
                 "its %s means %s, which decoders are not written with",
                 row->name, row->lacked);
  nabla_diag_set_next(r->diag,
                      "legal is %s; use a model without it, or write its "
                      "program by hand (docs/OPS.md)",
                      row->value);
  return fail_at(r, status, event->offset);
}

static int is_fixed(const key_row *row, const nabla_json_event *event) {
  switch (event->kind) {
    case NABLA_JSON_NULL:
      return 1;
    case NABLA_JSON_TRUE:
      return !strcmp(row->value, "true");
    case NABLA_JSON_FALSE:
      return !strcmp(row->value, "false");
    case NABLA_JSON_STRING:
      return !strcmp(row->value, event->text);
    case NABLA_JSON_NUMBER:
      return *row->value >= '0' && *row->value <= '9' && event->text &&
             nabla_c_strtod(event->text, NULL) ==
                 nabla_c_strtod(row->value, NULL);
    default:
      return 0;
  }
}

static nabla_status fail_value(const reader *r, const key_row *row,
                               const char *want,
                               const nabla_json_event *event) {
  return fail_at(
      r,
      nabla_fail(r->diag, NABLA_CORRUPT, "its %s is not %s", row->name, want),
      event->offset);
}

static nabla_status take_number(reader *r, const key_row *row,
                                const nabla_json_event *event) {
  char *member = (char *)&r->config + row->member;
  if (row->kind == KEY_REAL) {
    if (event->kind != NABLA_JSON_NUMBER || !event->text)
      return fail_value(r, row, "a number", event);
    const double value = nabla_c_strtod(event->text, NULL);
    if (!(value > 0 && value < 1e30))
      return fail_value(r, row, "a positive number", event);
    memcpy(member, &value, sizeof value);
    return NABLA_OK;
  }
  uint64_t value;
  if (event->kind != NABLA_JSON_NUMBER || !event->text)
    return fail_value(r, row, "a positive integer", event);
  const nabla_status status = nabla_json_u64(event, row->name, &value, r->diag);
  if (status) return fail_at(r, status, event->offset);
  if (!value) return fail_value(r, row, "a positive integer", event);
  if (value > NABLA_DECODER_MAX_SIZE)
    return fail_at(
        r,
        nabla_fail(r->diag, NABLA_TOO_LARGE,
                   "its %s is %llu, at most %u is taken", row->name,
                   (unsigned long long)value, NABLA_DECODER_MAX_SIZE),
        event->offset);
  memcpy(member, &value, sizeof value);
  return NABLA_OK;
}

/* A null stands for a value that is not given. */
static nabla_status take_value(reader *r, const key_row *row,
                               const nabla_json_event *event) {
  if (event->kind == NABLA_JSON_NULL && row->kind != KEY_IGNORED)
    return NABLA_OK;
  switch (row->kind) {
    case KEY_SIZE:
    case KEY_REAL:
      return take_number(r, row, event);
    case KEY_FLAG: {
      const int value = event->kind == NABLA_JSON_TRUE;
      if (!value && event->kind != NABLA_JSON_FALSE)
        return fail_value(r, row, "true or false", event);
      memcpy((char *)&r->config + row->member, &value, sizeof value);
      return NABLA_OK;
    }
    case KEY_FIXED:
      return is_fixed(row, event) ? NABLA_OK : fail_lacked(r, row, event);
    default:
      return nabla_json_skip(r->json, event, r->diag);
  }
}

/* "architectures": the first name. */
static nabla_status take_class(reader *r, const nabla_json_event *event) {
  r->class_name[0] = '\0';
  if (event->kind != NABLA_JSON_ARRAY_BEGIN)
    return nabla_json_skip(r->json, event, r->diag);
  for (int i = 0;; i++) {
    nabla_json_event name;
    NABLA_TRY(nabla_json_next(r->json, &name, r->diag));
    if (name.kind == NABLA_JSON_ARRAY_END) return NABLA_OK;
    if (!i && name.kind == NABLA_JSON_STRING &&
        name.length < sizeof r->class_name)
      memcpy(r->class_name, name.text, name.length + 1);
    NABLA_TRY(nabla_json_skip(r->json, &name, r->diag));
  }
}

static nabla_status fail_unknown(const reader *r, const char *key,
                                 uint64_t offset) {
  nabla_nearest nearest = nabla_nearest_begin(key, strlen(key));
  for (size_t i = 0; i < ROWS; i++)
    nabla_nearest_offer(&nearest, rows[i].name, strlen(rows[i].name));
  const nabla_status status =
      nabla_fail(r->diag, NABLA_UNSUPPORTED,
                 "its key '%.80s' is not known to the writer of decoders", key);
  nabla_nearest_say(&nearest, r->diag,
                    "remove it from a copy of the file if it does not change "
                    "what the model computes");
  return fail_at(r, status, offset);
}

static nabla_status take_member(reader *r, const char *key, uint64_t offset) {
  nabla_json_event event;
  for (size_t i = 0; i < ROWS; i++) {
    if (strcmp(rows[i].name, key) != 0) continue;
    r->seen[i] = offset + 1;
    NABLA_TRY(nabla_json_next(r->json, &event, r->diag));
    return strcmp(key, "architectures") ? take_value(r, &rows[i], &event)
                                        : take_class(r, &event);
  }
  return fail_unknown(r, key, offset);
}

/* Members up to the end of an object; transformers 5 writes those of rope into
 * an object of their own, "rope_parameters". */
static nabla_status take_members(reader *r, int is_inner) {
  for (;;) {
    nabla_json_event event;
    char key[96];
    NABLA_TRY(nabla_json_next(r->json, &event, r->diag));
    if (event.kind == NABLA_JSON_OBJECT_END) return NABLA_OK;
    const uint64_t offset = event.offset;
    const size_t size =
        event.length < sizeof key - 1 ? event.length : sizeof key - 1;
    memcpy(key, event.text, size);
    key[size] = '\0';
    if (is_inner || strcmp(key, "rope_parameters") != 0) {
      NABLA_TRY(take_member(r, key, offset));
      continue;
    }
    NABLA_TRY(nabla_json_next(r->json, &event, r->diag));
    if (event.kind == NABLA_JSON_NULL) continue;
    if (event.kind != NABLA_JSON_OBJECT_BEGIN)
      return fail_at(r,
                     nabla_fail(r->diag, NABLA_CORRUPT,
                                "its rope_parameters is no object"),
                     offset);
    NABLA_TRY(take_members(r, 1));
  }
}

static nabla_status read_all(reader *r) {
  nabla_json_event event;
  NABLA_TRY(nabla_json_expect(r->json, NABLA_JSON_OBJECT_BEGIN,
                              "the object of a config.json", &event, r->diag));
  NABLA_TRY(take_members(r, 0));
  return nabla_json_expect(r->json, NABLA_JSON_END, "the end of the file",
                           &event, r->diag);
}

/* The class has a writer, which takes the keys that are there. */
static nabla_status check_class(const reader *r) {
  const nabla_architecture *row = nabla_architecture_find(r->class_name);
  if (!row || !row->writer) {
    const nabla_status status =
        nabla_fail(r->diag, NABLA_UNSUPPORTED, "its architecture is %s%.60s%s",
                   *r->class_name ? "'" : "not said", r->class_name,
                   *r->class_name ? "', for which no program is written" : "");
    nabla_diag_set_next(r->diag,
                        "programs are written for LlamaForCausalLM and "
                        "MistralForCausalLM");
    return status;
  }
  for (size_t i = 0; i < ROWS; i++)
    if (r->seen[i] && rows[i].kind < KEY_FIXED &&
        !nabla_architecture_takes(row, rows[i].name, strlen(rows[i].name)))
      return fail_at(
          r,
          nabla_fail(r->diag, NABLA_UNSUPPORTED, "its key %s is none of %s",
                     rows[i].name, row->name),
          r->seen[i] - 1);
  return NABLA_OK;
}

static nabla_status fail_sizes(const reader *r, const char *what) {
  return nabla_fail(r->diag, NABLA_CORRUPT, "%s", what);
}

/* Fills in what follows from other members, and checks them together. */
static nabla_status finish(reader *r) {
  nabla_decoder_config *c = &r->config;
  NABLA_TRY(check_class(r));
  for (size_t i = 0; i < ROWS; i++) {
    uint64_t value = 1;
    if (rows[i].kind == KEY_SIZE)
      memcpy(&value, (char *)c + rows[i].member, sizeof value);
    if (!value)
      return nabla_fail(r->diag, NABLA_CORRUPT, "it has no %s", rows[i].name);
  }
  if (c->num_key_value_heads == UINT64_MAX)
    c->num_key_value_heads = c->num_attention_heads;
  if (c->num_attention_heads % c->num_key_value_heads)
    return fail_sizes(
        r, "num_attention_heads is no multiple of num_key_value_heads");
  if (c->head_dim == UINT64_MAX) {
    if (c->hidden_size % c->num_attention_heads)
      return fail_sizes(r, "hidden_size is no multiple of num_attention_heads");
    c->head_dim = c->hidden_size / c->num_attention_heads;
  }
  if (c->head_dim % 2)
    return fail_sizes(r, "head_dim is odd: rope turns pairs of elements");
  if (c->num_hidden_layers > NABLA_DECODER_MAX_LAYERS)
    return nabla_fail(r->diag, NABLA_TOO_LARGE,
                      "num_hidden_layers is %llu, at most %u are written",
                      (unsigned long long)c->num_hidden_layers,
                      NABLA_DECODER_MAX_LAYERS);
  if (c->num_attention_heads * c->head_dim > NABLA_DECODER_MAX_SIZE)
    return nabla_fail(r->diag, NABLA_TOO_LARGE,
                      "num_attention_heads times head_dim is more than %u",
                      NABLA_DECODER_MAX_SIZE);
  return NABLA_OK;
}

nabla_status nabla_decoder_config_parse(const nabla_allocator *allocator,
                                        const void *text, size_t size,
                                        nabla_decoder_config *out,
                                        nabla_diag *diag) {
  reader r = {.config = fallbacks, .diag = diag};
  NABLA_TRY(nabla_json_create_span(allocator, text, size, 0, &r.json, diag));
  nabla_status status = read_all(&r);
  nabla_json_destroy(r.json);
  if (!status) status = finish(&r);
  if (!status) *out = r.config;
  return status;
}

static nabla_status load(const nabla_file *file, nabla_buffer *text,
                         nabla_decoder_config *out, nabla_diag *diag) {
  NABLA_TRY(nabla_file_read_all(file, NABLA_DECODER_MAX_CONFIG, text, diag));
  return nabla_decoder_config_parse(text->allocator, text->data, text->size,
                                    out, diag);
}

nabla_status nabla_decoder_config_load(const char *path,
                                       const nabla_environment *environment,
                                       nabla_decoder_config *out,
                                       nabla_diag *diag) {
  const nabla_allocator *allocator =
      environment ? environment->allocator : NULL;
  nabla_file *file;
  nabla_buffer text;
  NABLA_TRY(nabla_file_open(environment ? environment->os : NULL, allocator,
                            path, &file, diag));
  nabla_buffer_init(&text, allocator, "config.json", NABLA_DECODER_MAX_CONFIG);
  const nabla_status status = load(file, &text, out, diag);
  nabla_buffer_deinit(&text);
  nabla_file_close(file);
  if (status) nabla_diag_set_file(diag, path);
  return status;
}
