/* --help of a tool, from its tables: as text, and as JSON. */
#include <string.h>

#include "tools/common/options.h"

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
  char left[64], text[1024];
  const char *value;
  size_t length;
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
  if (used < sizeof text && tool_value(row->values, 0, &value, &length)) {
    (void)snprintf(text + used, sizeof text - used, " One of ");
    tool_list_values(row->values, ", ", text, sizeof text);
    used = strlen(text);
    used += (size_t)snprintf(text + used, sizeof text - used, ".");
  }
  if (row->fallback && used < sizeof text)
    (void)snprintf(text + used, sizeof text - used, " (default: %s)",
                   row->fallback);
  print_wrapped(out, text, INDENT, INDENT);
}

/* Whether the help of a verb, or of a tool without verbs, shows the option. */
static int is_shown(const tool *t, size_t verb, const tool_option *row) {
  return row->help && (!t->verb_count || tool_has_verb(row, verb));
}

/* Whether an earlier option that is shown has the group. */
static int was_group(const tool *t, size_t verb, size_t index) {
  for (size_t i = 0; i < index; i++)
    if (is_shown(t, verb, &t->options[i]) &&
        !strcmp(t->options[i].group, t->options[index].group))
      return 1;
  return 0;
}

void tool_print_options(const tool *t, size_t verb, FILE *out) {
  for (size_t i = 0; i < t->option_count; i++) {
    const tool_option *row = &t->options[i];
    if (!is_shown(t, verb, row) || was_group(t, verb, i)) continue;
    fprintf(out, "\n%s options:\n", row->group);
    for (size_t k = i; k < t->option_count; k++)
      if (is_shown(t, verb, &t->options[k]) &&
          !strcmp(t->options[k].group, row->group))
        print_option(out, &t->options[k]);
  }
}

void tool_print_usage(const tool *t, size_t verb, FILE *out) {
  if (verb == t->verb_count) {
    fprintf(out, "usage: %s %s\n", t->name, t->operands);
    return;
  }
  const char *operands = t->verbs[verb].operands;
  fprintf(out, "usage: %s %s%s%s [options]\n", t->name, t->verbs[verb].name,
          *operands ? " " : "", operands);
}

static void print_verbs(const tool *t, FILE *out) {
  fputs("\nverbs:\n", out);
  for (size_t i = 0; i < t->verb_count; i++)
    fprintf(out, "  %-12s%s\n", t->verbs[i].name, t->verbs[i].summary);
  if (!t->operand_help) return;
  fputc('\n', out);
  print_wrapped(out, t->operand_help, 0, 0);
}

static void print_exits(const tool *t, FILE *out) {
  tool_exit row;
  fputs("\nexit codes:\n", out);
  for (size_t i = 0; (row = tool_exit_row(t, i)).meaning; i++)
    fprintf(out, "  %3d  %s\n", row.code, row.meaning);
}

void tool_print_help(const tool *t, size_t verb, FILE *out) {
  tool_print_usage(t, verb, out);
  fputc('\n', out);
  if (verb < t->verb_count) {
    print_wrapped(out, t->verbs[verb].summary, 0, 0);
    print_wrapped(out, t->verbs[verb].description, 0, 0);
    tool_print_options(t, verb, out);
    return;
  }
  print_wrapped(out, t->summary, 0, 0);
  if (t->verb_count)
    print_verbs(t, out);
  else
    tool_print_options(t, verb, out);
  fprintf(out, "\nexamples:\n%s", t->examples);
  print_exits(t, out);
  if (t->verb_count)
    fprintf(out,
            "\n'%s VERB --help' or '%s help VERB' lists the options of a\n"
            "verb; --version prints the version.\n",
            t->name, t->name);
}

/* ---- as JSON ---- */

static void json_text(nabla_json_out *json, const char *key,
                      const char *value) {
  nabla_json_out_key(json, key);
  if (value)
    nabla_json_out_string(json, value);
  else
    nabla_json_out_null(json);
}

static void json_option(nabla_json_out *json, const tool_option *row) {
  const char letter[2] = {row->letter, '\0'}, *value;
  size_t length;
  const int listed = tool_value(row->values, 0, &value, &length);
  nabla_json_out_object(json);
  json_text(json, "name", row->name);
  json_text(json, "letter", row->letter ? letter : NULL);
  json_text(json, "argument", row->argument);
  nabla_json_out_key(json, "values");
  if (listed) {
    nabla_json_out_array(json);
    for (size_t i = 0; tool_value(row->values, i, &value, &length); i++)
      nabla_json_out_string_n(json, value, length);
    nabla_json_out_array_end(json);
  } else {
    nabla_json_out_null(json);
  }
  nabla_json_out_key(json, "is_path");
  nabla_json_out_bool(json, row->values && !strcmp(row->values, TOOL_PATH));
  json_text(json, "group", row->group);
  json_text(json, "default", row->fallback);
  json_text(json, "help", row->help);
  nabla_json_out_object_end(json);
}

static void json_options(const tool *t, size_t verb, nabla_json_out *json) {
  nabla_json_out_key(json, "options");
  nabla_json_out_array(json);
  for (size_t i = 0; i < t->option_count; i++)
    if (is_shown(t, verb, &t->options[i])) json_option(json, &t->options[i]);
  nabla_json_out_array_end(json);
}

static void json_verbs(const tool *t, nabla_json_out *json) {
  nabla_json_out_key(json, "verbs");
  nabla_json_out_array(json);
  for (size_t i = 0; i < t->verb_count; i++) {
    nabla_json_out_object(json);
    json_text(json, "name", t->verbs[i].name);
    json_text(json, "summary", t->verbs[i].summary);
    nabla_json_out_object_end(json);
  }
  nabla_json_out_array_end(json);
}

static void json_exits(const tool *t, nabla_json_out *json) {
  tool_exit row;
  nabla_json_out_key(json, "exits");
  nabla_json_out_array(json);
  for (size_t i = 0; (row = tool_exit_row(t, i)).meaning; i++) {
    nabla_json_out_object(json);
    nabla_json_out_key(json, "code");
    nabla_json_out_u64(json, (uint64_t)row.code);
    json_text(json, "meaning", row.meaning);
    nabla_json_out_object_end(json);
  }
  nabla_json_out_array_end(json);
}

void tool_json_help(const tool *t, size_t verb, nabla_json_out *json) {
  if (verb < t->verb_count) {
    json_text(json, "operands", t->verbs[verb].operands);
    json_text(json, "summary", t->verbs[verb].summary);
    json_text(json, "description", t->verbs[verb].description);
    json_options(t, verb, json);
  } else if (t->verb_count) {
    json_verbs(t, json);
  } else {
    json_text(json, "operands", t->operands);
    json_text(json, "summary", t->summary);
    json_options(t, verb, json);
  }
  json_exits(t, json);
}
