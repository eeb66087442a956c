/* Putting a quantization_config into the text of a config.json, or taking it
 * out; see hf_config.h. */
#include <string.h>

#include "lib/base/json/json.h"
#include "quant/huggingface/hf_config.h"

/* How the file is laid out. */
typedef struct style {
  int is_lines;       /* members stand on lines of their own  */
  const char *end;    /* "\n" or "\r\n"                       */
  const char *indent; /* white space before a member          */
  size_t indent_size;
  int spaced; /* ": " and, in one line, ", "                  */
} style;

/* Where errors and text go; the first failure sticks. */
typedef struct writer {
  nabla_buffer *out;
  const style *style;
  nabla_status status;
  nabla_diag *diag;
  int in_value; /* a member of the value has been written */
} writer;

static void put_n(writer *w, const char *text, size_t size) {
  if (!w->status) w->status = nabla_buffer_append(w->out, text, size, w->diag);
}

static void put(writer *w, const char *text) { put_n(w, text, strlen(text)); }

static nabla_status sink(void *self, const void *data, size_t size,
                         nabla_diag *diag) {
  writer *w = self;
  (void)diag;
  put_n(w, data, size);
  return w->status;
}

/* A string with its quotes, escaped. */
static void put_string(writer *w, const char *text, size_t size) {
  nabla_json_out json = {.self = w, .write = sink, .diag = w->diag};
  nabla_json_out_string_n(&json, text, size);
  const nabla_status status = nabla_json_out_finish(&json);
  if (!w->status) w->status = status;
}

/* The start of a line that is `depth` members deep; in one line, nothing. */
static void new_line(writer *w, int depth) {
  const style *s = w->style;
  if (!s->is_lines) return;
  put(w, s->end);
  for (int i = 0; i < depth; i++) put_n(w, s->indent, s->indent_size);
}

/* What stands between two items that are `depth` deep. */
static void next_item(writer *w, int depth) {
  put(w, w->style->spaced && !w->style->is_lines ? ", " : ",");
  new_line(w, depth);
}

static void put_key(writer *w, const char *key) {
  put_string(w, key, strlen(key));
  put(w, w->style->spaced ? ": " : ":");
}

/* A key of the value, with what stands before it. */
static void field(writer *w, const char *key) {
  if (w->in_value)
    next_item(w, 2);
  else
    new_line(w, 2);
  w->in_value = 1;
  put_key(w, key);
}

static void text_field(writer *w, const char *key, const char *value) {
  field(w, key);
  put_string(w, value, strlen(value));
}

static void flag_field(writer *w, const char *key, int value) {
  field(w, key);
  put(w, value ? "true" : "false");
}

static void skip_field(writer *w, const nabla_hf_value *value) {
  field(w, "llm_int8_skip_modules");
  if (!value->has_skip) {
    put(w, "null");
    return;
  }
  put(w, "[");
  for (size_t i = 0; i < value->skip_count && !w->status; i++) {
    if (i)
      next_item(w, 3);
    else
      new_line(w, 3);
    put_string(w, value->skip[i], value->skip_length[i]);
  }
  if (value->skip_count) new_line(w, 2);
  put(w, "]");
}

/* The keys that transformers itself writes, in the same (sorted) order. */
static void put_value(writer *w, const nabla_hf_value *value) {
  const int wide = !strcmp(value->type, "int8");
  put(w, "{");
  flag_field(w, "_load_in_4bit", !wide);
  flag_field(w, "_load_in_8bit", wide);
  text_field(w, "bnb_4bit_compute_dtype", value->compute_dtype);
  text_field(w, "bnb_4bit_quant_storage", "uint8");
  text_field(w, "bnb_4bit_quant_type", wide ? "fp4" : value->type);
  flag_field(w, "bnb_4bit_use_double_quant", value->double_quant);
  flag_field(w, "llm_int8_enable_fp32_cpu_offload", 0);
  flag_field(w, "llm_int8_has_fp16_weight", 0);
  skip_field(w, value);
  field(w, "llm_int8_threshold");
  put(w, "6.0");
  flag_field(w, "load_in_4bit", !wide);
  flag_field(w, "load_in_8bit", wide);
  text_field(w, "quant_method", "bitsandbytes");
  new_line(w, 1);
  put(w, "}");
}

/* Looks at the white space between '{' and what follows it. */
static style style_of(const char *text, size_t size,
                      const nabla_hf_config *from) {
  size_t end = from->first;
  if (!end) {
    end = from->open;
    while (end < size && text[end] != '}') end++;
  }
  style s = {
      .end = "\n", .indent = "  ", .indent_size = 2, .spaced = from->spaced};
  for (size_t i = from->open; i < end; i++) {
    if (text[i] != '\n') continue;
    s.is_lines = 1;
    s.end = i > from->open && text[i - 1] == '\r' ? "\r\n" : "\n";
    if (!from->first) continue; /* '}' is not indented as a member is */
    s.indent = text + i + 1;
    s.indent_size = end - i - 1;
  }
  return s;
}

static void insert(writer *w, const char *text, size_t size,
                   const nabla_hf_config *from, const nabla_hf_value *value) {
  put_n(w, text, from->last);
  if (from->members)
    next_item(w, 1);
  else
    new_line(w, 1);
  put_key(w, NABLA_HF_CONFIG_MEMBER);
  put_value(w, value);
  put_n(w, text + from->last, size - from->last);
}

/* Takes the member out with one comma and the white space on one side. */
static void take_out(writer *w, const char *text, size_t size,
                     const nabla_hf_config *from) {
  const size_t begin = from->after ? from->key : from->before;
  const size_t end = from->after ? from->after : from->end;
  put_n(w, text, begin);
  put_n(w, text + end, size - end);
}

nabla_status nabla_hf_config_splice(const void *text, size_t size,
                                    const nabla_hf_config *from,
                                    const nabla_hf_value *value,
                                    nabla_buffer *out, nabla_diag *diag) {
  const char *bytes = text;
  const style s = style_of(bytes, size, from);
  writer w = {.out = out, .style = &s, .diag = diag};
  if (!value && !from->has_member) {
    put_n(&w, bytes, size);
  } else if (!value) {
    take_out(&w, bytes, size, from);
  } else if (!from->has_member) {
    insert(&w, bytes, size, from, value);
  } else {
    put_n(&w, bytes, from->begin);
    put_value(&w, value);
    put_n(&w, bytes + from->end, size - from->end);
  }
  return w.status;
}
