/* --help of a tool, from its table. */
#include <string.h>

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
