/* Completion for zsh, by _arguments. */
#include <string.h>

#include "tools/manual/manual.h"

/* Text within single quotes and the brackets of a specification. */
static void print_help(const char *help) {
  char sentence[512];
  manual_first_sentence(help, sentence, sizeof sentence);
  for (const char *at = sentence; *at; at++) {
    if (*at == '\'') fputs("'\\'", stdout);
    if (strchr("[]\\", *at)) putchar('\\');
    putchar(*at);
  }
}

/* ":NAME:ACTION" of an option's argument. */
static void print_argument(const tool_option *row) {
  if (!row->argument) return;
  putchar(':');
  for (const char *at = row->argument; *at; at++) {
    if (strchr(":\\", *at)) putchar('\\');
    putchar(*at);
  }
  putchar(':');
  if (manual_has_values(row)) {
    putchar('(');
    manual_print_values(row, " ");
    putchar(')');
  } else if (manual_is_path(row)) {
    fputs("_files", stdout);
  } else if (manual_is_named_path(row)) {
    fputs("{compset -P \"*=\" && _files}", stdout);
  }
}

static void print_option(const tool_option *row) {
  printf(" \\\n    '*--%s%s[", row->name, row->argument ? "=" : "");
  print_help(row->help);
  putchar(']');
  print_argument(row);
  putchar('\'');
  if (!row->letter) return;
  printf(" \\\n    '*-%c%s[", row->letter, row->argument ? "+" : "");
  print_help(row->help);
  putchar(']');
  print_argument(row);
  putchar('\'');
}

static void print_arguments(const manual_page *page, size_t verb) {
  const tool *t = page->tool;
  fputs("_arguments -s -S", stdout);
  for (size_t i = 0; i < t->option_count; i++)
    if (manual_applies(t, &t->options[i], verb)) print_option(&t->options[i]);
  for (size_t i = 0; i < page->flag_count; i++) {
    const manual_flag *flag = &page->flags[i];
    if (flag->kind == MANUAL_SETTING) continue;
    /* a pass takes its settings behind '=' */
    printf(" \\\n    '*--%s%s[", flag->name,
           flag->kind == MANUAL_PASS ? "=-" : "");
    print_help(flag->help);
    fputs(flag->kind == MANUAL_PASS ? "]::settings:'" : "]'", stdout);
  }
  fputs(" \\\n    '*:file:_files'\n", stdout);
}

static void print_verbs(const tool *t) {
  fputs("  local -a verbs=(\n", stdout);
  for (size_t i = 0; i < t->verb_count; i++) {
    printf("    '%s:", t->verbs[i].name);
    print_help(t->verbs[i].summary);
    fputs("'\n", stdout);
  }
  fputs(
      "    'help:Print help and exit'\n"
      "  )\n"
      "  if ((CURRENT == 2)); then\n"
      "    _describe -t verbs verb verbs\n"
      "    _arguments '--help[Print help and exit]' "
      "'--version[Print the version and exit]'\n"
      "    return\n"
      "  fi\n"
      "  local verb=$words[2]\n"
      "  shift words\n"
      "  ((CURRENT--))\n"
      "  case $verb in\n"
      "    help) _describe -t verbs verb verbs ;;\n",
      stdout);
}

void manual_print_zsh(const manual_page *page) {
  const tool *t = page->tool;
  printf("#compdef %s\n# made from its table of options\n\n_", t->name);
  manual_print_identifier(t->name);
  fputs("() {\n", stdout);
  if (t->verb_count) {
    print_verbs(t);
    for (size_t i = 0; i < t->verb_count; i++) {
      printf("    %s)\n    ", t->verbs[i].name);
      print_arguments(page, i);
      fputs("    ;;\n", stdout);
    }
    fputs("  esac\n", stdout);
  } else {
    fputs("  ", stdout);
    print_arguments(page, 0);
  }
  fputs("}\n\n_", stdout);
  manual_print_identifier(t->name);
  fputs(" \"$@\"\n", stdout);
}
