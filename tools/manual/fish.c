/* Completion for fish, by `complete`. */
#include "tools/manual/manual.h"

static void print_description(const char *help) {
  char sentence[512];
  manual_first_sentence(help, sentence, sizeof sentence);
  fputs(" -d '", stdout);
  manual_print_escaped(sentence, "'\\", '\\');
  fputs("'\n", stdout);
}

/* The condition under which an option is one: a verb that has it. */
static void print_condition(const tool *t, const tool_option *row) {
  if (!t->verb_count || row->verbs == TOOL_ALL) return;
  fputs(" -n '__fish_seen_subcommand_from", stdout);
  for (size_t i = 0; i < t->verb_count; i++)
    if (tool_has_verb(row, i)) printf(" %s", t->verbs[i].name);
  putchar('\'');
}

static void print_option(const tool *t, const tool_option *row) {
  printf("complete -c %s", t->name);
  print_condition(t, row);
  printf(" -l %s", row->name);
  if (row->letter) printf(" -s %c", row->letter);
  if (manual_has_values(row)) {
    fputs(" -x -a '", stdout);
    manual_print_values(row, " ");
    putchar('\'');
  } else if (manual_is_path(row) || manual_is_named_path(row)) {
    fputs(" -r -F", stdout); /* of NAME=FILE it completes FILE */
  } else if (row->argument) {
    fputs(" -x", stdout);
  }
  print_description(row->help);
}

static void print_verb(const tool *t, const char *name, const char *summary) {
  printf("complete -c %s -f -n __fish_use_subcommand -a %s", t->name, name);
  print_description(summary);
}

static void print_verbs(const tool *t) {
  for (size_t i = 0; i < t->verb_count; i++)
    print_verb(t, t->verbs[i].name, t->verbs[i].summary);
  print_verb(t, "help", "Print help and exit");
  printf("complete -c %s -f -n '__fish_seen_subcommand_from help' -a '",
         t->name);
  for (size_t i = 0; i < t->verb_count; i++) printf("%s ", t->verbs[i].name);
  fputs("'\n", stdout);
}

void manual_print_fish(const manual_page *page) {
  const tool *t = page->tool;
  printf("# fish completion for %s, made from its table of options\n", t->name);
  if (t->verb_count) print_verbs(t);
  for (size_t i = 0; i < t->option_count; i++)
    if (t->options[i].help) print_option(t, &t->options[i]);
  for (size_t i = 0; i < page->flag_count; i++) {
    if (page->flags[i].kind == MANUAL_SETTING) continue;
    printf("complete -c %s -l %s", t->name, page->flags[i].name);
    print_description(page->flags[i].help);
  }
}
