/* Man pages in the language man(7). */
#include <ctype.h>
#include <string.h>

#include "nabla/version.h"
#include "tools/manual/manual.h"

/* ---- text ---- */

/* What stands for a character; NULL: itself. */
static const char *roff_of(char c) {
  switch (c) {
    case '\\':
      return "\\e";
    case '-':
      return "\\-";
    case '\'':
      return "\\(aq";
    case '`':
      return "\\(ga";
    case '^':
      return "\\(ha";
    case '~':
      return "\\(ti";
    default:
      return NULL;
  }
}

/* Text in which no line is a request. */
static void print_text(const char *text) {
  for (int begins = 1; *text; begins = *text++ == '\n') {
    const char *roff = roff_of(*text);
    if (begins && (*text == '.' || *text == '\'')) fputs("\\&", stdout);
    if (roff)
      fputs(roff, stdout);
    else
      putchar(*text);
  }
}

/* Paragraphs: an empty line becomes a request. */
static void print_paragraphs(const char *text) {
  for (const char *end; (end = strstr(text, "\n\n")); text = end + 2) {
    char part[1024];
    (void)snprintf(part, sizeof part, "%.*s", (int)(end - text), text);
    print_text(part);
    fputs("\n.PP\n", stdout);
  }
  print_text(text);
  putchar('\n');
}

static void print_bold(const char *text) {
  fputs("\\fB", stdout);
  print_text(text);
  fputs("\\fR", stdout);
}

/* Operands as in the usage line: names in capitals are italic. */
static void print_operands(const char *text) {
  while (*text) {
    char word[64];
    const size_t length = strcspn(text, " ");
    (void)snprintf(word, sizeof word, "%.*s", (int)length, text);
    putchar(' ');
    if (isupper((unsigned char)*word)) {
      fputs("\\fI", stdout);
      print_text(word);
      fputs("\\fR", stdout);
    } else if (*word == '-') {
      print_bold(word);
    } else {
      print_text(word);
    }
    text += length;
    text += *text == ' ';
  }
}

static void print_heading(const char *heading) { printf(".SH %s\n", heading); }

/* ---- options ---- */

static void print_option(const tool_option *row) {
  fputs(".TP\n", stdout);
  if (row->letter) printf("\\fB\\-%c\\fR, ", row->letter);
  fputs("\\fB\\-\\-", stdout);
  print_text(row->name);
  fputs("\\fR", stdout);
  if (row->argument) {
    fputs(" \\fI", stdout);
    print_text(row->argument);
    fputs("\\fR", stdout);
  }
  putchar('\n');
  print_text(row->help);
  if (manual_has_values(row)) {
    char values[1024] = "";
    tool_list_values(row->values, ", ", values, sizeof values);
    fputs("\nOne of ", stdout);
    print_text(values);
    putchar('.');
  }
  if (row->fallback) {
    fputs("\nDefault: ", stdout);
    print_text(row->fallback);
    putchar('.');
  }
  putchar('\n');
}

static void print_verbs(const tool *t) {
  print_heading("VERBS");
  for (size_t i = 0; i < t->verb_count; i++) {
    const tool_verb *verb = &t->verbs[i];
    printf(".SS %s\n", verb->name);
    print_bold(t->name);
    putchar(' ');
    print_bold(verb->name);
    print_operands(verb->operands);
    print_operands("[options]");
    fputs("\n.PP\n", stdout);
    print_text(verb->summary);
    putchar('\n');
    print_paragraphs(verb->description);
    for (size_t k = 0; k < t->option_count; k++)
      if (manual_applies(t, &t->options[k], i) &&
          !tool_is_common(t, &t->options[k]))
        print_option(&t->options[k]);
  }
}

static void print_options(const tool *t) {
  print_heading(t->verb_count ? "OPTIONS OF EVERY VERB" : "OPTIONS");
  for (size_t k = 0; k < t->option_count; k++)
    if (t->options[k].help && tool_is_common(t, &t->options[k]))
      print_option(&t->options[k]);
}

static void print_flags(const manual_page *page, int pipelines) {
  print_heading(pipelines ? "PIPELINES" : "PASSES");
  for (size_t i = 0; i < page->flag_count; i++) {
    const manual_flag *flag = &page->flags[i];
    if ((flag->kind == MANUAL_PIPELINE) != pipelines) continue;
    if (flag->kind == MANUAL_SETTING) fputs(".RS\n", stdout);
    fputs(".TP\n", stdout);
    fputs(flag->kind == MANUAL_SETTING ? "\\fI" : "\\fB\\-\\-", stdout);
    print_text(flag->name);
    fputs("\\fR\n", stdout);
    print_text(flag->help);
    fputs(".\n", stdout);
    if (flag->kind != MANUAL_SETTING) continue;
    if (*flag->fallback) {
      fputs("Default: ", stdout);
      print_text(flag->fallback);
      fputs(".\n", stdout);
    }
    fputs(".RE\n", stdout);
  }
}

/* ---- the page ---- */

static void print_synopsis(const tool *t) {
  print_heading("SYNOPSIS");
  for (size_t i = 0; i < t->verb_count; i++) {
    if (i) fputs(".br\n", stdout);
    print_bold(t->name);
    putchar(' ');
    print_bold(t->verbs[i].name);
    print_operands(t->verbs[i].operands);
    print_operands("[options]");
    putchar('\n');
  }
  if (t->verb_count) return;
  print_bold(t->name);
  print_operands(t->operands);
  putchar('\n');
}

static void print_name(const tool *t) {
  char summary[256];
  manual_first_sentence(t->summary, summary, sizeof summary);
  *summary = (char)tolower((unsigned char)*summary);
  printf(".TH %s 1 \"\" \"nabla " NABLA_VERSION "\" \"User commands\"\n",
         t->name);
  print_heading("NAME");
  print_text(t->name);
  fputs(" \\- ", stdout);
  print_text(summary);
  putchar('\n');
}

static void print_description(const manual_page *page) {
  print_heading("DESCRIPTION");
  print_paragraphs(page->tool->summary);
  if (!page->description) return;
  fputs(".PP\n", stdout);
  print_paragraphs(page->description);
}

static void print_exits(const tool *t) {
  tool_exit row;
  print_heading("EXIT STATUS");
  for (size_t i = 0; (row = tool_exit_row(t, i)).meaning; i++) {
    printf(".TP\n\\fB%d\\fR\n", row.code);
    print_text(row.meaning);
    putchar('\n');
  }
}

void manual_print_man(const manual_page *page) {
  const tool *t = page->tool;
  print_name(t);
  print_synopsis(t);
  print_description(page);
  if (t->verb_count) print_verbs(t);
  print_options(t);
  if (page->flag_count) {
    print_flags(page, 1);
    print_flags(page, 0);
  }
  print_exits(t);
  for (size_t i = 0; i < page->section_count; i++) {
    print_heading(page->sections[i].heading);
    print_paragraphs(page->sections[i].text);
  }
  if (t->examples) {
    print_heading("EXAMPLES");
    fputs(".nf\n", stdout);
    print_text(t->examples);
    fputs(".fi\n", stdout);
  }
  print_heading("SEE ALSO");
  fputs("The pages installed in share/doc/nabla.\n", stdout);
}
