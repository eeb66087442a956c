/* Completion for bash, which splits words at '='. Files are left to readline,
 * which quotes their names: the function then offers nothing. */
#include "tools/manual/manual.h"

static void print_offer(const tool *t, const char *arguments) {
  putchar('_');
  manual_print_identifier(t->name);
  printf("_offer%s", arguments);
}

/* The branch of an option that takes an argument. */
static void print_argument(const tool *t, const tool_option *row) {
  if (!row->help || !row->argument) return;
  printf("    --%s", row->name);
  if (row->letter) printf(" | -%c", row->letter);
  fputs(") ", stdout);
  if (manual_is_path(row)) {
    fputs("return", stdout);
  } else {
    if (manual_is_named_path(row)) fputs("((named)) || ", stdout);
    print_offer(t, " '");
    if (manual_has_values(row)) manual_print_values(row, " ");
    putchar('\'');
  }
  fputs(" ;;\n", stdout);
}

static void print_options(const manual_page *page, size_t verb) {
  const tool *t = page->tool;
  fputs("options='", stdout);
  for (size_t i = 0; i < t->option_count; i++)
    if (manual_applies(t, &t->options[i], verb))
      printf("--%s ", t->options[i].name);
  for (size_t i = 0; i < page->flag_count; i++)
    if (page->flags[i].kind != MANUAL_SETTING)
      printf("--%s ", page->flags[i].name);
  putchar('\'');
}

/* Completes the verb, and sets `options` to those of the one that is there. */
static void print_verbs(const manual_page *page) {
  const tool *t = page->tool;
  fputs("  local verbs='", stdout);
  for (size_t i = 0; i < t->verb_count; i++) printf("%s ", t->verbs[i].name);
  fputs("help'\n  if ((COMP_CWORD == 1)); then\n    ", stdout);
  print_offer(t,
              " \"$verbs --help --version\"\n"
              "    return\n"
              "  fi\n"
              "  case ${COMP_WORDS[1]} in\n"
              "    help) ");
  print_offer(t, " \"$verbs\"; return ;;\n");
  for (size_t i = 0; i < t->verb_count; i++) {
    printf("    %s) ", t->verbs[i].name);
    print_options(page, i);
    fputs(" ;;\n", stdout);
  }
  fputs("  esac\n", stdout);
}

/* Sets `word` to what is completed and `at` to the word of its option, of
 *   --option WORD, --option=WORD, --option NAME=WORD, --option=NAME=WORD
 * in the last two, which not every tool has, `named` is 1. */
static void print_find_option(const tool *t) {
  size_t named = 0;
  while (named < t->option_count && !manual_is_named_path(&t->options[named]))
    named++;
  fputs(
      "  if ((at > 0)) && [[ $word == = || ${COMP_WORDS[at]} == = ]]; then\n"
      "    if [[ $word == = ]]; then word=; else at=$((at - 1)); fi\n",
      stdout);
  if (named < t->option_count)
    fputs(
        "    if ((at > 1)) && [[ ${COMP_WORDS[at]} != -* ]]; then\n"
        "      named=1 at=$((at - 1))\n"
        "      [[ ${COMP_WORDS[at]} != = ]] || at=$((at - 1))\n"
        "    fi\n",
        stdout);
  fputs("  fi\n", stdout);
}

static void print_function(const manual_page *page) {
  const tool *t = page->tool;
  putchar('_');
  manual_print_identifier(t->name);
  fputs(
      "() {\n"
      "  local word=${COMP_WORDS[COMP_CWORD]} at=$((COMP_CWORD - 1)) "
      "named=0 options=\n"
      "  COMPREPLY=()\n",
      stdout);
  if (t->verb_count) {
    print_verbs(page);
  } else {
    fputs("  ", stdout);
    print_options(page, 0);
    putchar('\n');
  }
  print_find_option(t);
  fputs("  case ${COMP_WORDS[at]} in\n", stdout);
  for (size_t i = 0; i < t->option_count; i++)
    print_argument(t, &t->options[i]);
  fputs("    *) [[ $word != -* ]] || ", stdout);
  print_offer(t, " \"$options\" ;;\n  esac\n}\n");
}

void manual_print_bash(const manual_page *page) {
  const tool *t = page->tool;
  printf("# bash completion for %s, made from its table of options\n\n",
         t->name);
  print_offer(t,
              "() { # the words of $1 that begin with $word, and no files\n"
              "  compopt +o default 2>/dev/null\n"
              "  mapfile -t COMPREPLY < <(compgen -W \"$1\" -- \"$word\")\n"
              "}\n\n");
  print_function(page);
  fputs("\ncomplete -o default -F _", stdout);
  manual_print_identifier(t->name);
  printf(" %s\n", t->name);
}
