/* Command lines; see tool.h. */
#include "tools/common/tool.h"

#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/controls.h"
#include "lib/base/edit_distance.h"
#include "lib/base/utf8.h"
#include "nabla/version.h"
#include "tools/nabla-quant/cli.h"

#define LONG_BASE 256 /* getopt values of long options: LONG_BASE + index */

int tool_exit_of_status(nabla_status status) {
  switch (status) {
#define EXIT(id, code, meaning)
#define STATUS(status, id) \
  case NABLA_##status:     \
    return TOOL_EXIT_##id;
#include "tools/nabla-quant/exits.def"
#undef EXIT
#undef STATUS
  }
  return TOOL_EXIT_USAGE;
}

/* ---- errors ---- */

/* Controls could change what a terminal shows around the text. */
static void print_escaped(const char *text) {
  const uint8_t *bytes = (const uint8_t *)text;
  for (size_t left = strlen(text), taken; left; bytes += taken, left -= taken) {
    taken = nabla_utf8_length(bytes, left);
    const uint32_t code = taken ? nabla_utf8_code(bytes, taken) : 0;
    if (!taken) taken = 1;
    if (!nabla_is_control(code) || code == '\n' || code == '\t')
      fwrite(bytes, 1, taken, stderr);
    else
      for (size_t i = 0; i < taken; i++) fprintf(stderr, "\\x%02x", bytes[i]);
  }
  fputc('\n', stderr);
}

void tool_say(const tool *t, const char *text) {
  fprintf(stderr, "%s: ", t->name);
  print_escaped(text);
}

void tool_diagnostic(void *unused, const char *text) {
  (void)unused;
  print_escaped(text);
}

void tool_error(const tool *t, const nabla_diag *diag) {
  char text[sizeof *diag + 64];
  nabla_diag_format(diag, text, sizeof text);
  tool_say(t, text);
}

int tool_finish(const tool *t, int exit_code) {
  errno = 0;
  int failed = ferror(stdout);
  if (fflush(stdout)) failed = 1;
  if (!failed) return exit_code;
  int reason = errno;
  if (reason == EPIPE) { /* a reader that has gone away is no error */
    signal(SIGPIPE, SIG_DFL);
    raise(SIGPIPE);
  }
  nabla_diag diag = NABLA_DIAG_INIT;
  nabla_status status =
      nabla_fail(&diag, NABLA_IO, "cannot write to standard output: %s",
                 reason ? strerror(reason) : "no reason given");
  tool_error(t, &diag);
  return exit_code ? exit_code : tool_exit_of_status(status);
}

/* ---- options ---- */

static size_t index_of(const tool *t, int value) {
  if (value >= LONG_BASE) return (size_t)(value - LONG_BASE);
  for (size_t i = 0; i < t->option_count; i++)
    if (t->options[i].letter && t->options[i].letter == value) return i;
  return t->option_count;
}

static nabla_status fail_unknown(const tool *t, const char *element,
                                 nabla_diag *diag) {
  char typed[64];
  size_t length = strcspn(element + 2, "=");
  if (length >= sizeof typed) length = sizeof typed - 1;
  memcpy(typed, element + 2, length);
  typed[length] = '\0';
  nabla_nearest near = nabla_nearest_begin(typed, strlen(typed));
  for (size_t i = 0; i < t->option_count; i++)
    nabla_nearest_offer(&near, t->options[i].name, strlen(t->options[i].name));
  nabla_status status =
      nabla_fail(diag, NABLA_INVALID_ARGUMENT, "unknown option '--%s'", typed);
  if (near.best) nabla_diag_set_next(diag, "did you mean '--%s'?", near.best);
  return status;
}

/* What getopt_long returned '?' or ':' for. */
static nabla_status fail_option(const tool *t, int result, int subject,
                                const char *element, nabla_diag *diag) {
  size_t index = subject ? index_of(t, subject) : t->option_count;
  if (result == ':' && index < t->option_count)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "option '--%s' needs an argument: %s",
                      t->options[index].name, t->options[index].argument);
  if (index < t->option_count)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "option '--%s' takes no argument",
                      t->options[index].name);
  if (subject)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT, "unknown option '-%c'",
                      subject);
  return fail_unknown(t, element, diag);
}

static nabla_status check_value(const tool_option *row, const char *argument,
                                nabla_diag *diag) {
  char words[1024], list[1024] = "", *save = NULL;
  if (!row->values) return NABLA_OK;
  nabla_nearest near = nabla_nearest_begin(argument, strlen(argument));
  snprintf(words, sizeof words, "%s", row->values);
  for (char *word = strtok_r(words, "|", &save); word;
       word = strtok_r(NULL, "|", &save)) {
    if (!strcmp(word, argument)) return NABLA_OK;
    nabla_nearest_offer(&near, word, strlen(word));
    size_t used = strlen(list);
    snprintf(list + used, sizeof list - used, "%s%s", used ? ", " : "", word);
  }
  nabla_status status =
      nabla_fail(diag, NABLA_INVALID_ARGUMENT, "--%s: unknown value '%s'",
                 row->name, argument);
  if (near.best)
    nabla_diag_set_next(diag, "did you mean '%s'? Legal are %s", near.best,
                        list);
  else
    nabla_diag_set_next(diag, "legal are %s", list);
  return status;
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

/* --json anywhere, of a tool that has it. */
static int wants_json(const tool *t, int argc, char **argv) {
  int has = 0;
  for (size_t i = 0; i < t->option_count; i++)
    has |= !strcmp(t->options[i].name, "json");
  for (int i = 1; has && i < argc && strcmp(argv[i], "--"); i++)
    if (!strcmp(argv[i], "--json")) return 1;
  return 0;
}

nabla_status tool_parse(const tool *t, int argc, char **argv, tool_line *out,
                        nabla_diag *diag) {
  struct option rows[TOOL_MAX_OPTIONS + 1];
  char letters[2 * TOOL_MAX_OPTIONS + 2];
  fill_getopt(t, rows, letters);
  opterr = 0, optind = 1;
  *out = (tool_line){0};
  for (;;) {
    int result = getopt_long(argc, argv, letters, rows, NULL);
    if (result < 0) break;
    if (result == '?' || result == ':')
      return fail_option(t, result, optopt, argv[optind - 1], diag);
    size_t index = index_of(t, result);
    if (index + 2 == t->option_count) {
      if (wants_json(t, argc, argv))
        NABLA_TRY(tool_json_help(t, stdout, diag));
      else
        tool_print_help(t, stdout);
      return out->done = 1, NABLA_OK;
    }
    if (index + 1 == t->option_count) {
      printf("%s %s\n", t->name, NABLA_VERSION);
      return out->done = 1, NABLA_OK;
    }
    if (optarg && optarg == argv[optind - 1])
      NABLA_TRY(cli_check_word(t->options[index].name, optarg, diag));
    if (optarg) NABLA_TRY(check_value(&t->options[index], optarg, diag));
    NABLA_TRY(t->set(t->self, index, optarg, diag));
  }
  out->operands = argv + optind;
  out->operand_count = argc - optind;
  return NABLA_OK;
}

nabla_status tool_number(const char *option, const char *argument,
                         uint64_t least, uint64_t most, uint64_t *out,
                         nabla_diag *diag) {
  uint64_t value = 0;
  int good = *argument != '\0';
  for (const char *at = argument; *at && good; at++)
    good = *at >= '0' && *at <= '9' &&
           !__builtin_mul_overflow(value, 10u, &value) &&
           !__builtin_add_overflow(value, (uint64_t)(*at - '0'), &value);
  if (!good || value < least || value > most)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "--%s '%s' is not a number from %llu to %llu", option,
                      argument, (unsigned long long)least,
                      (unsigned long long)most);
  *out = value;
  return NABLA_OK;
}
