/* Reading config.json; see hf_config.h. */
#include <string.h>

#include "lib/base/json/json.h"
#include "quant/huggingface/hf_config.h"

static const char byte_order_mark[] = "\xef\xbb\xbf";

typedef struct reader {
  nabla_json *json;
  nabla_hf_config *out;
  const char *text;
  nabla_diag *diag;
} reader;

static size_t here(const reader *r) {
  return (size_t)nabla_json_offset(r->json);
}

static nabla_status corrupt(const reader *r, uint64_t offset,
                            const char *what) {
  nabla_status status = nabla_fail(r->diag, NABLA_CORRUPT, "%s", what);
  nabla_diag_set_offset(r->diag, offset);
  return status;
}

/* Keeps a string; one that is too long keeps its beginning, which then equals
 * none of the texts that it is compared with. */
static void keep_text(const nabla_json_event *event, char out[NABLA_HF_TEXT]) {
  out[0] = '\0';
  if (event->kind != NABLA_JSON_STRING) return;
  const size_t size =
      event->length < NABLA_HF_TEXT - 1 ? event->length : NABLA_HF_TEXT - 1;
  memcpy(out, event->text, size);
  out[size] = '\0';
}

/* One member of a quantization_config; of repeated ones the last counts, as
 * for Python. */
static nabla_status take_field(const reader *r, const char *key) {
  nabla_hf_quantization *q = &r->out->quantization;
  nabla_json_event event;
  char *text = !strcmp(key, "quant_method")             ? q->method
               : !strcmp(key, "bnb_4bit_quant_type")    ? q->type
               : !strcmp(key, "bnb_4bit_compute_dtype") ? q->compute_dtype
                                                        : NULL;
  int *flag = !strcmp(key, "load_in_4bit")   ? &q->load_in_4bit
              : !strcmp(key, "load_in_8bit") ? &q->load_in_8bit
                                             : NULL;
  NABLA_TRY(nabla_json_next(r->json, &event, r->diag));
  if (text) keep_text(&event, text);
  if (flag) *flag = event.kind == NABLA_JSON_TRUE;
  return nabla_json_skip(r->json, &event, r->diag);
}

static nabla_status take_quantization(const reader *r) {
  nabla_json_event event;
  char key[NABLA_HF_TEXT];
  for (;;) {
    NABLA_TRY(nabla_json_next(r->json, &event, r->diag));
    if (event.kind == NABLA_JSON_OBJECT_END) return NABLA_OK;
    event.kind = NABLA_JSON_STRING;
    keep_text(&event, key);
    NABLA_TRY(take_field(r, key));
  }
}

/* "architectures": the first name. `event` is the beginning of the value. */
static nabla_status take_class(const reader *r, const nabla_json_event *event) {
  char *out = r->out->class_name;
  *out = '\0'; /* of a key that stands there twice the last counts */
  if (event->kind != NABLA_JSON_ARRAY_BEGIN)
    return nabla_json_skip(r->json, event, r->diag);
  for (int i = 0;; i++) {
    nabla_json_event name;
    NABLA_TRY(nabla_json_next(r->json, &name, r->diag));
    if (name.kind == NABLA_JSON_ARRAY_END) return NABLA_OK;
    if (!i && name.kind == NABLA_JSON_STRING && name.length < NABLA_HF_CLASS) {
      memcpy(out, name.text, name.length);
      out[name.length] = '\0';
    }
    NABLA_TRY(nabla_json_skip(r->json, &name, r->diag));
  }
}

/* The value of a member that begins with `event`. */
static nabla_status take_value(const reader *r, const char *key,
                               const nabla_json_event *event) {
  nabla_hf_config *out = r->out;
  if (!strcmp(key, "torch_dtype") || !strcmp(key, "dtype"))
    keep_text(event, out->dtype);
  if (!strcmp(key, "tie_word_embeddings"))
    out->is_untied = event->kind == NABLA_JSON_FALSE;
  if (!strcmp(key, "architectures")) return take_class(r, event);
  if (strcmp(key, NABLA_HF_CONFIG_MEMBER) != 0)
    return nabla_json_skip(r->json, event, r->diag);
  out->begin = (size_t)event->offset;
  out->is_null = event->kind == NABLA_JSON_NULL;
  if (event->kind == NABLA_JSON_OBJECT_BEGIN) return take_quantization(r);
  if (out->is_null) return NABLA_OK;
  return corrupt(r, event->offset,
                 "its " NABLA_HF_CONFIG_MEMBER " is not an object");
}

/* One member; `event` is its key. */
static nabla_status take_member(const reader *r, nabla_json_event event) {
  nabla_hf_config *out = r->out;
  char key[NABLA_HF_TEXT];
  const int is_next = out->has_member && !out->after;
  event.kind = NABLA_JSON_STRING;
  keep_text(&event, key);
  const int is_member = !strcmp(key, NABLA_HF_CONFIG_MEMBER);
  if (is_member && out->has_member)
    return corrupt(r, event.offset,
                   "it has two members " NABLA_HF_CONFIG_MEMBER);
  if (is_next) out->after = (size_t)event.offset;
  if (is_member) {
    out->has_member = 1;
    out->key = (size_t)event.offset;
    out->before = out->last;
  }
  if (!out->members++) out->first = (size_t)event.offset;
  NABLA_TRY(nabla_json_next(r->json, &event, r->diag));
  if (out->members == 1) out->spaced = r->text[event.offset - 1] != ':';
  NABLA_TRY(take_value(r, key, &event));
  out->last = here(r);
  if (is_member) out->end = out->last;
  return NABLA_OK;
}

static nabla_status take_all(const reader *r) {
  nabla_json_event event;
  NABLA_TRY(nabla_json_expect(r->json, NABLA_JSON_OBJECT_BEGIN,
                              "the object of a config.json", &event, r->diag));
  r->out->open = r->out->last = here(r);
  for (;;) {
    NABLA_TRY(nabla_json_next(r->json, &event, r->diag));
    if (event.kind == NABLA_JSON_OBJECT_END) break;
    NABLA_TRY(take_member(r, event));
  }
  return nabla_json_expect(r->json, NABLA_JSON_END, "the end of the file",
                           &event, r->diag);
}

nabla_status nabla_hf_config_read(const nabla_allocator *allocator,
                                  const void *text, size_t size,
                                  nabla_hf_config *out, nabla_diag *diag) {
  const size_t mark_size = sizeof byte_order_mark - 1;
  if (size > NABLA_HF_CONFIG_MAX)
    return nabla_fail(diag, NABLA_TOO_LARGE,
                      "it has %zu bytes, at most %u are read", size,
                      NABLA_HF_CONFIG_MAX);
  const size_t mark =
      size >= mark_size && !memcmp(text, byte_order_mark, mark_size) ? mark_size
                                                                     : 0;
  nabla_hf_config config = {.spaced = 1};
  reader r = {.out = &config, .text = text, .diag = diag};
  NABLA_TRY(nabla_json_create_span(allocator, r.text + mark, size - mark, mark,
                                   &r.json, diag));
  nabla_json_allow_nonfinite(r.json);
  nabla_status status = take_all(&r);
  nabla_json_destroy(r.json);
  config.size = size;
  config.architecture = nabla_architecture_find(config.class_name);
  if (!status) *out = config;
  return status;
}

static nabla_status load(const nabla_file *file, nabla_buffer *text,
                         nabla_hf_config *out, nabla_diag *diag) {
  NABLA_TRY(nabla_file_read_all(file, NABLA_HF_CONFIG_MAX, text, diag));
  return nabla_hf_config_read(text->allocator, text->data, text->size, out,
                              diag);
}

nabla_status nabla_hf_config_load(const nabla_os *os, const char *path,
                                  nabla_buffer *text, nabla_hf_config *out,
                                  nabla_diag *diag) {
  nabla_file *file;
  NABLA_TRY(nabla_file_open(os, text->allocator, path, &file, diag));
  nabla_status status = load(file, text, out, diag);
  nabla_file_close(file);
  if (status) nabla_diag_set_file(diag, path);
  return status;
}
