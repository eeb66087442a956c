/* The command line: getopt_long fed from options.def, and what it means for
 * an option to belong to a verb. What each option sets: values.c. */
#include <getopt.h>
#include <string.h>

#include "lib/base/edit_distance.h"
#include "nabla/status.h"
#include "tools/nabla-quant/cli.h"

#define LONG_BASE 256 /* getopt values of long options: LONG_BASE + id */

int cli_given(const cli_options *options, cli_option_id id) {
  return (options->given >> id & 1u) != 0;
}

/* Refuses a verb that another tool has now. */
static nabla_status check_moved(const char *typed, nabla_diag *diag) {
  static const struct {
    const char *verb, *next;
  } moved[] = {
#define VERB(...)
#define MOVED(verb, next) {#verb, next},
#include "tools/nabla-quant/verbs.def"
#undef VERB
  };
  for (size_t i = 0; i < sizeof moved / sizeof *moved; i++) {
    if (strcmp(typed, moved[i].verb)) continue;
    nabla_status status =
        nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                   "'%s' is not a verb of nabla-quant", typed);
    nabla_diag_set_next(diag, "%s", moved[i].next);
    return status;
  }
  return NABLA_OK;
}

static nabla_status find_verb(const char *typed, cli_verb_id *out,
                              nabla_diag *diag) {
  NABLA_TRY(check_moved(typed, diag));
  nabla_nearest near = nabla_nearest_begin(typed, strlen(typed));
  for (size_t i = 0; i < CLI_VERB_COUNT; i++) {
    if (!strcmp(typed, cli_verbs[i].name)) {
      *out = (cli_verb_id)i;
      return NABLA_OK;
    }
    nabla_nearest_offer(&near, cli_verbs[i].name, strlen(cli_verbs[i].name));
  }
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

/* Option of a getopt value: a letter, or LONG_BASE + id. */
static cli_option_id option_of(int value) {
  if (value >= LONG_BASE) return (cli_option_id)(value - LONG_BASE);
  for (size_t i = 0; i < CLI_OPTION_COUNT; i++)
    if (cli_option_rows[i].letter && cli_option_rows[i].letter == value)
      return (cli_option_id)i;
  return CLI_OPTION_COUNT;
}

static nabla_status fail_unknown_long(cli_verb_id verb, const char *element,
                                      nabla_diag *diag) {
  char typed[64];
  size_t length = strcspn(element + 2, "=");
  if (length >= sizeof typed) length = sizeof typed - 1;
  memcpy(typed, element + 2, length);
  typed[length] = '\0';
  nabla_nearest near = nabla_nearest_begin(typed, strlen(typed));
  const char *first = NULL, *second = NULL;
  for (size_t i = 0; i < CLI_OPTION_COUNT; i++) {
    const cli_option *row = &cli_option_rows[i];
    if (!row->help) continue;
    if (row->verbs >> verb & 1u)
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

/* What getopt_long returned '?' or ':' for. */
static nabla_status fail_option(int result, int subject, cli_verb_id verb,
                                const char *element, nabla_diag *diag) {
  cli_option_id id = subject ? option_of(subject) : CLI_OPTION_COUNT;
  if (result == ':' && id < CLI_OPTION_COUNT) {
    const cli_option *row = &cli_option_rows[id];
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "option '--%s' needs an argument: %s", row->name,
                      row->argument);
  }
  if (id < CLI_OPTION_COUNT)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "option '--%s' takes no argument",
                      cli_option_rows[id].name);
  if (subject)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT, "unknown option '-%c'",
                      subject);
  return fail_unknown_long(verb, element, diag);
}

static nabla_status take_option(cli_options *out, cli_option_id id,
                                char *argument, nabla_diag *diag) {
  const cli_option *row = &cli_option_rows[id];
  if (!(row->verbs >> out->verb & 1u)) {
    nabla_status status = nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                                     "option '--%s' does not apply to '%s'",
                                     row->name, cli_verbs[out->verb].name);
    for (size_t i = 0; i < CLI_VERB_COUNT; i++)
      if (row->verbs >> i & 1u) {
        nabla_diag_set_next(diag, "it belongs to '%s'", cli_verbs[i].name);
        break;
      }
    return status;
  }
  NABLA_TRY(cli_set_option(out, id, argument, diag));
  out->given |= 1u << id;
  return NABLA_OK;
}

static void fill_getopt(struct option *rows, char *letters) {
  *letters++ = ':'; /* a missing argument is ':' and nothing is printed */
  for (size_t i = 0; i < CLI_OPTION_COUNT; i++) {
    const cli_option *row = &cli_option_rows[i];
    int has = row->argument ? required_argument : no_argument;
    rows[i] = (struct option){row->name, has, NULL, LONG_BASE + (int)i};
    if (!row->letter) continue;
    *letters++ = row->letter;
    if (row->argument) *letters++ = ':';
  }
  rows[CLI_OPTION_COUNT] = (struct option){NULL, 0, NULL, 0};
  *letters = '\0';
}

static nabla_status check_operands(const cli_options *options,
                                   nabla_diag *diag) {
  const cli_verb *verb = &cli_verbs[options->verb];
  for (size_t i = 0; i < options->operand_count; i++) {
    const char *operand = options->operands[i];
    if (!*operand)
      return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                        "an operand is an empty text");
    if (!strcmp(operand, "-")) {
      nabla_status status =
          nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                     "'-' (standard input) cannot be read: checkpoints need "
                     "random access");
      nabla_diag_set_next(diag, "name a file");
      return status;
    }
  }
  if (options->operand_count < verb->min)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT, "'%s' needs %s", verb->name,
                      verb->min == 2 ? "two operands" : "an input");
  int extra = verb->min == verb->max || verb->max;
  if (extra && options->operand_count > verb->max) {
    nabla_status status =
        nabla_fail(diag, NABLA_INVALID_ARGUMENT, "unexpected operand '%s'",
                   options->operands[verb->max]);
    if (!options->output &&
        cli_option_rows[CLI_OPTION_output].verbs >> options->verb & 1u)
      nabla_diag_set_next(diag, "an output is named with -o");
    return status;
  }
  if ((options->verb == CLI_VERB_quantize ||
       options->verb == CLI_VERB_dequantize) &&
      !options->output) {
    nabla_status status = nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                                     "'%s' needs an output", verb->name);
    nabla_diag_set_next(diag, "name it with -o OUT");
    return status;
  }
  return NABLA_OK;
}

static void set_defaults(cli_options *out) {
  *out = (cli_options){.verb = CLI_VERB_COUNT,
                       .quantize.struct_size = sizeof out->quantize};
  size_t count;
  out->quantize.encoding = nabla_encodings(&count);
}

/* "help" and "help VERB" do what --help does; --json may stand anywhere. */
static nabla_status parse_help(int argc, char **argv, cli_options *out,
                               nabla_diag *diag) {
  const char *verb = NULL;
  for (int i = 2; i < argc; i++) {
    if (!strcmp(argv[i], "--json")) continue;
    if (verb)
      return nabla_fail(diag, NABLA_INVALID_ARGUMENT, "unexpected operand '%s'",
                        argv[i]);
    verb = argv[i];
  }
  if (verb && strcmp(verb, "help"))
    NABLA_TRY(find_verb(verb, &out->verb, diag));
  out->given |= 1u << CLI_OPTION_help;
  return NABLA_OK;
}

nabla_status cli_parse(int argc, char **argv, cli_options *out,
                       nabla_diag *diag) {
  struct option rows[CLI_OPTION_COUNT + 1];
  char letters[2 * CLI_OPTION_COUNT + 2];
  set_defaults(out);
  if (argc < 2)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT, "a verb is missing");
  if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))
    return out->given |= 1u << CLI_OPTION_help, NABLA_OK;
  if (!strcmp(argv[1], "--version"))
    return out->given |= 1u << CLI_OPTION_version, NABLA_OK;
  if (!strcmp(argv[1], "help")) return parse_help(argc, argv, out, diag);
  NABLA_TRY(find_verb(argv[1], &out->verb, diag));
  fill_getopt(rows, letters);
  opterr = 0, optind = 1;
  for (;;) {
    int result = getopt_long(argc - 1, argv + 1, letters, rows, NULL);
    if (result < 0) break;
    if (result == '?' || result == ':')
      return fail_option(result, optopt, out->verb, argv[optind], diag);
    cli_option_id id = option_of(result);
    if (optarg && optarg == (argv + 1)[optind - 1])
      NABLA_TRY(cli_check_word(cli_option_rows[id].name, optarg, diag));
    NABLA_TRY(take_option(out, id, optarg, diag));
    if (id == CLI_OPTION_help || id == CLI_OPTION_version) return NABLA_OK;
  }
  out->operands = argv + 1 + optind;
  out->operand_count = (size_t)(argc - 1 - optind);
  cli_preset_apply(out);
  return check_operands(out, diag);
}
