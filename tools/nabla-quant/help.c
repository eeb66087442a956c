/* --help, from the tables: as text, and as JSON (docs/JSON.md). */
#include <string.h>

#include "tools/nabla-quant/cli.h"

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

static void print_option(FILE *out, const cli_option *row) {
  char left[64], text[512];
  const char *value;
  size_t used = 0;
  int width = snprintf(
      left, sizeof left, "  %c%c%s --%s%s%s", row->letter ? '-' : ' ',
      row->letter ? row->letter : ' ', row->letter ? "," : " ", row->name,
      row->argument ? " " : "", row->argument ? row->argument : "");
  fputs(left, out);
  if (width + 2 > INDENT)
    fprintf(out, "\n%*s", INDENT, "");
  else
    fprintf(out, "%*s", INDENT - width, "");
  used += (size_t)snprintf(text, sizeof text, "%s", row->help);
  for (size_t i = 0; row->values != CLI_BLOCK && used < sizeof text &&
                     (value = cli_value(row->values, i)) != NULL;
       i++)
    used += (size_t)snprintf(text + used, sizeof text - used, "%s%s",
                             i ? ", " : " One of ", value);
  if (row->fallback && used < sizeof text)
    snprintf(text + used, sizeof text - used, " (default: %s)", row->fallback);
  print_wrapped(out, text, INDENT, INDENT);
}

void cli_print_usage(FILE *out, cli_verb_id verb) {
  if (verb == CLI_VERB_COUNT) {
    fputs("usage: nabla-quant VERB [options] [files]\n", out);
    return;
  }
  const char *operands = cli_verbs[verb].operands;
  fprintf(out, "usage: nabla-quant %s%s%s [options]\n", cli_verbs[verb].name,
          *operands ? " " : "", operands);
}

static void print_exits(FILE *out) {
  cli_exit row;
  fputs("\nexit codes:\n", out);
  for (size_t i = 0; (row = cli_exit_row(i)).meaning; i++)
    fprintf(out, "  %3d  %s\n", row.code, row.meaning);
}

static void print_all(FILE *out) {
  cli_print_usage(out, CLI_VERB_COUNT);
  fputs(
      "\nQuantizes checkpoints in safetensors files, and looks at them.\n"
      "\nverbs:\n",
      out);
  for (size_t i = 0; i < CLI_VERB_COUNT; i++)
    fprintf(out, "  %-12s%s\n", cli_verbs[i].name, cli_verbs[i].summary);
  fputs(
      "\nIN is a .safetensors file, an index.json, or a folder with one of "
      "these; OUT too.\n"
      "\nexamples:\n"
      "  nabla-quant plan model.safetensors\n"
      "  nabla-quant quantize model.safetensors -o model-nf4.safetensors\n"
      "  nabla-quant diff model.safetensors model-nf4.safetensors "
      "--tolerance 0.2\n",
      out);
  print_exits(out);
  fputs(
      "\n'nabla-quant VERB --help' or 'nabla-quant help VERB' lists the "
      "options of a\nverb; --version prints the version.\n",
      out);
}

void cli_print_help(FILE *out, cli_verb_id verb) {
  if (verb == CLI_VERB_COUNT) {
    print_all(out);
    return;
  }
  cli_print_usage(out, verb);
  fputc('\n', out);
  print_wrapped(out, cli_verbs[verb].summary, 0, 0);
  print_wrapped(out, cli_verbs[verb].description, 0, 0);
  fputs("\noptions:\n", out);
  for (size_t i = 0; i < CLI_OPTION_COUNT; i++)
    if (cli_option_rows[i].help && cli_option_rows[i].verbs >> verb & 1u)
      print_option(out, &cli_option_rows[i]);
}

/* ---- --help --json ---- */

static void json_verbs(nabla_json_out *json) {
  nabla_json_out_key(json, "verbs");
  nabla_json_out_array(json);
  for (size_t i = 0; i < CLI_VERB_COUNT; i++) {
    nabla_json_out_object(json);
    cli_json_text(json, "name", cli_verbs[i].name);
    cli_json_text(json, "summary", cli_verbs[i].summary);
    nabla_json_out_object_end(json);
  }
  nabla_json_out_array_end(json);
}

static void json_option(nabla_json_out *json, const cli_option *row) {
  const char letter[2] = {row->letter, '\0'}, *value;
  nabla_json_out_object(json);
  cli_json_text(json, "name", row->name);
  cli_json_text(json, "letter", row->letter ? letter : NULL);
  cli_json_text(json, "argument", row->argument);
  nabla_json_out_key(json, "values");
  if (!cli_value(row->values, 0)) {
    nabla_json_out_null(json);
  } else {
    nabla_json_out_array(json);
    for (size_t i = 0; (value = cli_value(row->values, i)) != NULL; i++)
      nabla_json_out_string(json, value);
    nabla_json_out_array_end(json);
  }
  cli_json_text(json, "default", row->fallback);
  cli_json_text(json, "help", row->help);
  nabla_json_out_object_end(json);
}

static void json_exits(nabla_json_out *json) {
  cli_exit row;
  nabla_json_out_key(json, "exits");
  nabla_json_out_array(json);
  for (size_t i = 0; (row = cli_exit_row(i)).meaning; i++) {
    nabla_json_out_object(json);
    cli_json_number(json, "code", (uint64_t)row.code);
    cli_json_text(json, "meaning", row.meaning);
    nabla_json_out_object_end(json);
  }
  nabla_json_out_array_end(json);
}

void cli_json_help(cli *c) {
  const cli_verb_id verb = c->options.verb;
  nabla_json_out *json = &c->json;
  cli_json_begin(c);
  nabla_json_out_key(json, "help");
  nabla_json_out_object(json);
  if (verb == CLI_VERB_COUNT) {
    json_verbs(json);
  } else {
    cli_json_text(json, "operands", cli_verbs[verb].operands);
    cli_json_text(json, "summary", cli_verbs[verb].summary);
    cli_json_text(json, "description", cli_verbs[verb].description);
    nabla_json_out_key(json, "options");
    nabla_json_out_array(json);
    for (size_t i = 0; i < CLI_OPTION_COUNT; i++)
      if (cli_option_rows[i].help && cli_option_rows[i].verbs >> verb & 1u)
        json_option(json, &cli_option_rows[i]);
    nabla_json_out_array_end(json);
  }
  json_exits(json);
  nabla_json_out_object_end(json);
}
