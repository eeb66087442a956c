/* See tool.h. */
#include "tools/common/tool.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/controls.h"
#include "lib/base/utf8.h"

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

int tool_fail_line(const tool *t, const tool_line *line,
                   const nabla_diag *diag) {
  tool_error(t, diag);
  tool_print_usage(t, line->verb, stderr);
  fprintf(stderr, "See '%s%s%s --help'.\n", t->name,
          line->verb < t->verb_count ? " " : "",
          line->verb < t->verb_count ? t->verbs[line->verb].name : "");
  return tool_exit_of_status(diag->code);
}

int tool_finish_about(const tool *t, const tool_line *line) {
  nabla_diag diag = NABLA_DIAG_INIT;
  nabla_status status = tool_print_about(t, line, &diag);
  return tool_finish(t, tool_exit_of_status(status));
}

/* ---- numbers ---- */

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
