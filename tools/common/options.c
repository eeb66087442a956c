/* Command lines: getopt_long fed from a tool's tables. See options.h. */
#include "tools/common/options.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <string.h>

#include "lib/base/edit_distance.h"
#include "nabla/version.h"

#define LONG_BASE 256 /* getopt values of long options: LONG_BASE + index */

int tool_is_common(const tool *t, const tool_option *row) {
  for (size_t i = 0; i < t->verb_count; i++)
    if (!tool_has_verb(row, i)) return 0;
  return 1;
}

/* The option of a name; option_count when there is none. */
static size_t find_option(const tool *t, const char *name, size_t length) {
  size_t i = 0;
  while (i < t->option_count && (strlen(t->options[i].name) != length ||
                                 strncmp(t->options[i].name, name, length)))
    i++;
  return i;
}

/* ---- the verb ---- */

static nabla_status fail_verb(const tool *t, const char *typed,
                              nabla_diag *diag) {
  for (size_t i = 0; i < t->moved_count; i++) {
    if (strcmp(typed, t->moved[i].name)) continue;
    nabla_status status =
        nabla_fail(diag, NABLA_INVALID_ARGUMENT, "'%s' is not a verb of %s",
                   typed, t->name);
    nabla_diag_set_next(diag, "%s", t->moved[i].next);
    return status;
  }
  nabla_nearest near = nabla_nearest_begin(typed, strlen(typed));
  for (size_t i = 0; i < t->verb_count; i++)
    nabla_nearest_offer(&near, t->verbs[i].name, strlen(t->verbs[i].name));
  nabla_nearest_offer(&near, "--help", strlen("--help"));
  nabla_nearest_offer(&near, "--version", strlen("--version"));
  nabla_status status =
      *typed == '-' ? nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                                 "a verb must come before option '%s'", typed)
                    : nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                                 "unknown verb '%s'", typed);
  if (near.best) nabla_diag_set_next(diag, "did you mean '%s'?", near.best);
  return status;
}

static nabla_status find_verb(const tool *t, const char *typed, size_t *out,
                              nabla_diag *diag) {
  for (size_t i = 0; i < t->verb_count; i++)
    if (!strcmp(typed, t->verbs[i].name)) return *out = i, NABLA_OK;
  return fail_verb(t, typed, diag);
}

/* "help" and "help VERB" do what --help does; --json may stand anywhere. */
static nabla_status parse_help(const tool *t, int argc, char **argv,
                               tool_line *out, nabla_diag *diag) {
  const char *verb = NULL;
  for (int i = 2; i < argc; i++) {
    if (!strcmp(argv[i], "--json")) continue;
    if (verb)
      return nabla_fail(diag, NABLA_INVALID_ARGUMENT, "unexpected operand '%s'",
                        argv[i]);
    verb = argv[i];
  }
  if (verb && strcmp(verb, "help"))
    NABLA_TRY(find_verb(t, verb, &out->verb, diag));
  return out->about = TOOL_ABOUT_HELP, NABLA_OK;
}

static nabla_status take_verb(const tool *t, int argc, char **argv,
                              tool_line *out, nabla_diag *diag) {
  if (argc < 2)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT, "a verb is missing");
  if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))
    return out->about = TOOL_ABOUT_HELP, NABLA_OK;
  if (!strcmp(argv[1], "--version"))
    return out->about = TOOL_ABOUT_VERSION, NABLA_OK;
  if (!strcmp(argv[1], "help")) return parse_help(t, argc, argv, out, diag);
  return find_verb(t, argv[1], &out->verb, diag);
}

/* ---- options ---- */

/* Option of a getopt value: a letter, or LONG_BASE + index. */
static size_t index_of(const tool *t, int value) {
  if (value >= LONG_BASE) return (size_t)(value - LONG_BASE);
  for (size_t i = 0; i < t->option_count; i++)
    if (t->options[i].letter && t->options[i].letter == value) return i;
  return t->option_count;
}

static nabla_status fail_unknown(const tool *t, size_t verb,
                                 const char *element, nabla_diag *diag) {
  char typed[64];
  size_t length = strcspn(element + 2, "=");
  if (length >= sizeof typed) length = sizeof typed - 1;
  memcpy(typed, element + 2, length);
  typed[length] = '\0';
  nabla_nearest near = nabla_nearest_begin(typed, length);
  const char *first = NULL, *second = NULL;
  for (size_t i = 0; i < t->option_count; i++) {
    const tool_option *row = &t->options[i];
    if (!row->help) continue;
    if (!t->verb_count || tool_has_verb(row, verb))
      nabla_nearest_offer(&near, row->name, strlen(row->name));
    if (strncmp(row->name, typed, length)) continue;
    if (first && !second) second = row->name;
    if (!first) first = row->name;
  }
  if (second) {
    nabla_status status = nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                                     "option '--%s' is ambiguous", typed);
    nabla_diag_set_next(diag, "write --%s or --%s", first, second);
    return status;
  }
  nabla_status status =
      nabla_fail(diag, NABLA_INVALID_ARGUMENT, "unknown option '--%s'", typed);
  if (near.best) nabla_diag_set_next(diag, "did you mean '--%s'?", near.best);
  return status;
}

static nabla_status fail_missing(const tool_option *row, nabla_diag *diag) {
  return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                    "option '--%s' needs an argument: %s", row->name,
                    row->argument);
}

/* What getopt_long returned '?' or ':' for. */
static nabla_status fail_option(const tool *t, size_t verb, int result,
                                const char *element, nabla_diag *diag) {
  size_t index = optopt ? index_of(t, optopt) : t->option_count;
  if (result == ':' && index < t->option_count)
    return fail_missing(&t->options[index], diag);
  if (index < t->option_count)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "option '--%s' takes no argument",
                      t->options[index].name);
  if (optopt)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT, "unknown option '-%c'",
                      optopt);
  return fail_unknown(t, verb, element, diag);
}

/* Refuses a word of its own behind an option when it looks like another option:
 * the argument was forgotten. Numbers below zero and "-" pass. */
static nabla_status check_word(const char *name, const char *argument,
                               nabla_diag *diag) {
  const char second = argument[0] == '-' ? argument[1] : '\0';
  if (second != '-' && !isalpha((unsigned char)second)) return NABLA_OK;
  nabla_status status =
      nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                 "option '--%s' needs an argument, and '%s' looks like another "
                 "option",
                 name, argument);
  nabla_diag_set_next(diag, "if it is the argument, write --%s=%s", name,
                      argument);
  return status;
}

/* Refuses an option that the verb has not: it would do nothing. */
static nabla_status check_verb(const tool *t, size_t verb,
                               const tool_option *row, nabla_diag *diag) {
  if (!t->verb_count || tool_has_verb(row, verb)) return NABLA_OK;
  nabla_status status = nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                                   "option '--%s' does not apply to '%s'",
                                   row->name, t->verbs[verb].name);
  for (size_t i = 0; i < t->verb_count; i++)
    if (tool_has_verb(row, i)) {
      nabla_diag_set_next(diag, "it belongs to '%s'", t->verbs[i].name);
      break;
    }
  return status;
}

static nabla_status set_option(const tool *t, size_t verb, size_t index,
                               char *argument, nabla_diag *diag) {
  const tool_option *row = &t->options[index];
  const char *value;
  size_t at, length;
  NABLA_TRY(check_verb(t, verb, row, diag));
  if (argument && tool_value(row->values, 0, &value, &length)) {
    char unknown[64];
    (void)snprintf(unknown, sizeof unknown, "--%s: unknown value", row->name);
    NABLA_TRY(tool_find_value(unknown, row->values, argument, &at, diag));
    (void)tool_value(row->values, at, &value, &length);
    memcpy(argument, value, length);
  }
  return t->set(t->self, index, argument, diag);
}

static void fill_getopt(const tool *t, struct option *rows, char *letters) {
  *letters++ = ':'; /* a missing argument is ':' and nothing is printed */
  for (size_t i = 0; i < t->option_count; i++) {
    const tool_option *row = &t->options[i];
    int has = row->argument ? required_argument : no_argument;
    rows[i] = (struct option){row->name, has, NULL, LONG_BASE + (int)i};
    if (!row->letter) continue;
    *letters++ = row->letter;
    if (row->argument) *letters++ = ':';
  }
  rows[t->option_count] = (struct option){NULL, 0, NULL, 0};
  *letters = '\0';
}

/* Reads what follows the verb; getopt sees the verb as the program's name. */
static nabla_status parse_options(const tool *t, int argc, char **argv,
                                  tool_line *out, nabla_diag *diag) {
  struct option rows[TOOL_MAX_OPTIONS + 1];
  char letters[2 * TOOL_MAX_OPTIONS + 2];
  fill_getopt(t, rows, letters);
  opterr = 0, optind = 1;
  for (;;) {
    int result = getopt_long(argc, argv, letters, rows, NULL);
    if (result < 0) break;
    if (result == '?' || result == ':')
      return fail_option(t, out->verb, result, argv[optind - 1], diag);
    const size_t index = index_of(t, result);
    if (index + 2 >= t->option_count) {
      out->about =
          index + 2 == t->option_count ? TOOL_ABOUT_HELP : TOOL_ABOUT_VERSION;
      return NABLA_OK;
    }
    if (optarg && optarg == argv[optind - 1])
      NABLA_TRY(check_word(t->options[index].name, optarg, diag));
    NABLA_TRY(set_option(t, out->verb, index, optarg, diag));
    out->given |= UINT64_C(1) << index;
  }
  out->operands = argv + optind;
  out->operand_count = (size_t)(argc - optind);
  return NABLA_OK;
}

/* ---- operands ---- */

static nabla_status check_operands(const tool *t, const tool_line *line,
                                   nabla_diag *diag) {
  const tool_verb *verb = &t->verbs[line->verb];
  if (line->operand_count < verb->min)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT, "'%s' needs %s", verb->name,
                      verb->min == 2 ? "two operands" : "an input");
  if (verb->min > verb->max || line->operand_count <= verb->max)
    return NABLA_OK;
  nabla_status status =
      nabla_fail(diag, NABLA_INVALID_ARGUMENT, "unexpected operand '%s'",
                 line->operands[verb->max]);
  const size_t output = find_option(t, "output", strlen("output"));
  if (output < t->option_count && !(line->given >> output & 1u) &&
      tool_has_verb(&t->options[output], line->verb))
    nabla_diag_set_next(diag, "an output is named with -o");
  return status;
}

nabla_status tool_parse(const tool *t, int argc, char **argv, tool_line *out,
                        nabla_diag *diag) {
  const int skipped = t->verb_count > 0;
  *out = (tool_line){.verb = t->verb_count};
  for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
    out->json |= !strcmp(argv[i], "--json");
  if (skipped) {
    NABLA_TRY(take_verb(t, argc, argv, out, diag));
    if (out->about) return NABLA_OK;
  }
  NABLA_TRY(parse_options(t, argc - skipped, argv + skipped, out, diag));
  return skipped && !out->about ? check_operands(t, out, diag) : NABLA_OK;
}

/* ---- a command line that another parser reads as well ---- */

nabla_status tool_take(const tool *t, int *argc, char **argv,
                       nabla_diag *diag) {
  int kept = 1, at = 1;
  for (; at < *argc && strcmp(argv[at], "--") != 0; at++) {
    char *word = argv[at];
    const size_t length = strcspn(word, "=");
    size_t index = t->option_count;
    if (!strncmp(word, "--", 2)) index = find_option(t, word + 2, length - 2);
    if (index == t->option_count) {
      argv[kept++] = word;
      continue;
    }
    const tool_option *row = &t->options[index];
    char *argument = word[length] ? word + length + 1 : NULL;
    if (argument && !row->argument)
      return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                        "option '--%s' takes no argument", row->name);
    if (!argument && row->argument) {
      if (at + 1 == *argc) return fail_missing(row, diag);
      argument = argv[++at];
      NABLA_TRY(check_word(row->name, argument, diag));
    }
    NABLA_TRY(set_option(t, 0, index, argument, diag));
  }
  while (at < *argc) argv[kept++] = argv[at++];
  argv[kept] = NULL;
  *argc = kept;
  return NABLA_OK;
}

/* ---- help and version ---- */

static nabla_status write_stdout(void *self, const void *data, size_t size,
                                 nabla_diag *diag) {
  (void)self;
  if (fwrite(data, 1, size, stdout) == size) return NABLA_OK;
  return nabla_fail(diag, NABLA_IO, "%s", strerror(errno));
}

nabla_status tool_print_about(const tool *t, const tool_line *line,
                              nabla_diag *diag) {
  if (!line->json && line->about == TOOL_ABOUT_HELP)
    return tool_print_help(t, line->verb, stdout), NABLA_OK;
  if (!line->json) return printf("%s %s\n", t->name, NABLA_VERSION), NABLA_OK;
  nabla_json_out json = {.write = write_stdout, .spaced = 1, .diag = diag};
  nabla_json_out_object(&json);
  nabla_json_out_key(&json, "tool");
  nabla_json_out_string(&json, t->name);
  if (line->about == TOOL_ABOUT_HELP) {
    tool_json_help(t, line->verb, &json);
  } else {
    nabla_json_out_key(&json, "version");
    nabla_json_out_string(&json, NABLA_VERSION);
  }
  nabla_json_out_object_end(&json);
  NABLA_TRY(nabla_json_out_finish(&json));
  return write_stdout(NULL, "\n", 1, diag);
}
