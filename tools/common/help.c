/* --help of a tool, from its table: as text, and as JSON. */
#include <errno.h>
#include <string.h>

#include "lib/base/json/json.h"
#include "tools/common/tool.h"

#define WIDTH  80
#define INDENT 28 /* where the sentences of options begin */

/* Prints `text` in lines of WIDTH; the cursor stands at `column`, later lines
 * begin at `indent`. */
static void print_wrapped(FILE *out, const char *text, size_t column,
                          size_t indent) {
  while (*text) {
    size_t word = strcspn(text, " ");
    if (column > indent && column + 1 + word > WIDTH) {
      fprintf(out, "\n%*s", (int)indent, "");
      column = indent;
    } else if (column > indent) {
      fputc(' ', out);
      column++;
    }
    fprintf(out, "%.*s", (int)word, text);
    column += word;
    text += word;
    text += *text == ' ';
  }
  fputc('\n', out);
}

static void print_option(FILE *out, const tool_option *row) {
  char left[64], text[512];
  int width = snprintf(
      left, sizeof left, "  %c%c%s --%s%s%s", row->letter ? '-' : ' ',
      row->letter ? row->letter : ' ', row->letter ? "," : " ", row->name,
      row->argument ? " " : "", row->argument ? row->argument : "");
  fputs(left, out);
  if (width + 2 > INDENT)
    fprintf(out, "\n%*s", INDENT, "");
  else
    fprintf(out, "%*s", INDENT - width, "");
  size_t used = (size_t)snprintf(text, sizeof text, "%s", row->help);
  if (row->values && used < sizeof text) {
    used += (size_t)snprintf(text + used, sizeof text - used, " One of ");
    for (const char *v = row->values; *v && used + 3 < sizeof text; v++) {
      text[used++] = *v == '|' ? ',' : *v;
      if (*v == '|') text[used++] = ' ';
    }
    text[used++] = '.';
    text[used] = '\0';
  }
  if (row->fallback && used < sizeof text)
    snprintf(text + used, sizeof text - used, " (default: %s)", row->fallback);
  print_wrapped(out, text, INDENT, INDENT);
}

void tool_print_usage(const tool *t, FILE *out) {
  fprintf(out, "usage: %s %s [options]\n", t->name, t->operands);
}

void tool_print_help(const tool *t, FILE *out) {
  tool_print_usage(t, out);
  fputc('\n', out);
  print_wrapped(out, t->summary, 0, 0);
  fputs("\noptions:\n", out);
  for (size_t i = 0; i < t->option_count; i++)
    print_option(out, &t->options[i]);
  fprintf(out, "\nexamples:\n%s\nexit codes:\n", t->examples);
#define EXIT(id, code, meaning)                 \
  if (TOOL_EXIT_##id != TOOL_EXIT_SIGNAL)       \
    fprintf(out, "  %3d  %s\n", TOOL_EXIT_##id, \
            TOOL_EXIT_##id == TOOL_EXIT_FAILED ? t->failed : meaning);
#define STATUS(status, id)
#include "tools/nabla-quant/exits.def"
#undef EXIT
#undef STATUS
}

/* ---- --help --json ---- */

static nabla_status write_stream(void *self, const void *data, size_t size,
                                 nabla_diag *diag) {
  if (fwrite(data, 1, size, self) == size) return NABLA_OK;
  return nabla_fail(diag, NABLA_IO, "%s", strerror(errno));
}

static void json_text(nabla_json_out *json, const char *key,
                      const char *value) {
  nabla_json_out_key(json, key);
  if (value)
    nabla_json_out_string(json, value);
  else
    nabla_json_out_null(json);
}

static void json_option(nabla_json_out *json, const tool_option *row) {
  const char letter[2] = {row->letter, '\0'};
  nabla_json_out_object(json);
  json_text(json, "name", row->name);
  json_text(json, "letter", row->letter ? letter : NULL);
  json_text(json, "argument", row->argument);
  nabla_json_out_key(json, "values");
  if (!row->values) nabla_json_out_null(json);
  if (row->values) nabla_json_out_array(json);
  for (const char *v = row->values; v && *v;) {
    const size_t size = strcspn(v, "|");
    nabla_json_out_string_n(json, v, size);
    v += size + (v[size] == '|');
  }
  if (row->values) nabla_json_out_array_end(json);
  json_text(json, "default", row->fallback);
  json_text(json, "help", row->help);
  nabla_json_out_object_end(json);
}

static void json_exit(nabla_json_out *json, int code, const char *meaning) {
  if (code == TOOL_EXIT_SIGNAL) return;
  nabla_json_out_object(json);
  nabla_json_out_key(json, "code");
  nabla_json_out_u64(json, (uint64_t)code);
  json_text(json, "meaning", meaning);
  nabla_json_out_object_end(json);
}

nabla_status tool_json_help(const tool *t, FILE *out, nabla_diag *diag) {
  nabla_json_out json = {
      .self = out, .write = write_stream, .spaced = 1, .diag = diag};
  nabla_json_out_object(&json);
  json_text(&json, "tool", t->name);
  json_text(&json, "operands", t->operands);
  json_text(&json, "summary", t->summary);
  nabla_json_out_key(&json, "options");
  nabla_json_out_array(&json);
  for (size_t i = 0; i < t->option_count; i++)
    json_option(&json, &t->options[i]);
  nabla_json_out_array_end(&json);
  nabla_json_out_key(&json, "exits");
  nabla_json_out_array(&json);
#define EXIT(id, code, meaning) \
  json_exit(&json, code,        \
            TOOL_EXIT_##id == TOOL_EXIT_FAILED ? t->failed : meaning);
#define STATUS(status, id)
#include "tools/nabla-quant/exits.def"
#undef EXIT
#undef STATUS
  nabla_json_out_array_end(&json);
  nabla_json_out_object_end(&json);
  NABLA_TRY(nabla_json_out_finish(&json));
  return write_stream(out, "\n", 1, diag);
}
