/* nabla-quant: quantizes checkpoints and looks at them. Runs a verb, reports
 * its failure, and turns it into an exit code. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "nabla/version.h"
#include "tools/nabla-quant/cli.h"
#include "tools/nabla-quant/signals.h"

static nabla_status (*const runs[CLI_VERB_COUNT])(cli *, nabla_diag *) = {
#define VERB(id, operands, min, max, summary, description) cli_run_##id,
#include "tools/nabla-quant/verbs.def"
#undef VERB
};

nabla_status cli_start_pool(cli *c, nabla_diag *diag) {
  NABLA_TRY(nabla_pool_create(c->options.threads, NULL, &c->pool, diag));
  c->environment.pool = c->pool;
  if (cli_given(&c->options, CLI_OPTION_verbose))
    cli_note(c, "%u threads, %s", cli_threads(c),
             nabla_isa_name(nabla_isa_resolve(c->options.quantize.isa)));
  return NABLA_OK;
}

uint32_t cli_threads(const cli *c) {
  return c->pool ? nabla_pool_size(c->pool) : 1;
}

nabla_status cli_open(cli *c, size_t index, nabla_checkpoint **out,
                      nabla_diag *diag) {
  return nabla_checkpoint_open(c->options.operands[index], &c->environment, out,
                               diag);
}

nabla_status cli_open_importance(cli *c, nabla_checkpoint **out,
                                 nabla_diag *diag) {
  if (!c->options.importance) return NABLA_OK;
  NABLA_TRY(
      nabla_checkpoint_open(c->options.importance, &c->environment, out, diag));
  c->options.quantize.importance = *out;
  return NABLA_OK;
}

static int colored(const cli *c, int fd) {
  const char *no_color = getenv("NO_COLOR"), *terminal = getenv("TERM");
  if (c->options.color != CLI_AUTO) return c->options.color == CLI_ALWAYS;
  if (no_color && *no_color) return 0;
  if (terminal && !strcmp(terminal, "dumb")) return 0;
  if (fd == STDERR_FILENO && cli_given(&c->options, CLI_OPTION_fake_tty))
    return 1;
  return isatty(fd);
}

static void print_usage_error(cli *c, const nabla_diag *diag) {
  cli_verb_id verb = c->options.verb;
  cli_error(c, diag);
  tool_print_usage(&cli_tool, verb, stderr);
  fprintf(stderr, "See 'nabla-quant%s%s --help'.\n",
          verb < CLI_VERB_COUNT ? " " : "",
          verb < CLI_VERB_COUNT ? cli_verbs[verb].name : "");
}

/* Ends as the signal would have ended the program, so that shells see it. */
static void die_of(int signal_number) {
  sigset_t set;
  fflush(NULL);
  sigemptyset(&set);
  sigaddset(&set, signal_number);
  signal(signal_number, SIG_DFL);
  raise(signal_number);
  sigprocmask(SIG_UNBLOCK, &set, NULL);
}

/* Says that a failure which came after the commit has left the output, which
 * the exit code alone would deny. */
static void add_written(const cli *c, nabla_diag *diag) {
  if (!c->written) return;
  char next[sizeof diag->next];
  snprintf(next, sizeof next, "%s", diag->next);
  nabla_diag_set_next(diag, "the output %s is complete and in place%s%s",
                      c->options.output, next[0] ? "; " : "", next);
}

/* A reader that has gone away is no error worth a line; a full disk is. */
static int finish_stdout(cli *c, int exit_code) {
  errno = 0;
  int failed = ferror(stdout);
  if (fflush(stdout)) failed = 1;
  int reason = c->write_error ? c->write_error : errno;
  if (!failed) return exit_code;
  if (reason == EPIPE && cli_signals_pipe_kills()) die_of(SIGPIPE);
  nabla_diag diag = NABLA_DIAG_INIT;
  nabla_status status =
      nabla_fail(&diag, NABLA_IO, "cannot write to standard output%s%s",
                 reason ? ": " : "", reason ? strerror(reason) : "");
  add_written(c, &diag);
  cli_error(c, &diag);
  return exit_code ? exit_code : tool_exit_of_status(status);
}

/* Every shard stays open, and models have more of them than the 1024 files
 * that systems grant at first. Where it fails, opening a shard says so. */
static void raise_file_limit(void) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit)) return;
  limit.rlim_cur = limit.rlim_max;
  (void)setrlimit(RLIMIT_NOFILE, &limit);
}

static nabla_status run_verb(cli *c, nabla_diag *diag) {
  c->options.quantize.only = c->options.only;
  c->options.quantize.skip = c->options.skip;
  c->options.quantize.rules = c->options.rules;
  c->options.quantize.weights_alone =
      c->options.output && cli_is_file_name(c->options.output);
  raise_file_limit();
  cli_signals_install();
  cli_progress_begin(c);
  nabla_status status = runs[c->options.verb](c, diag);
  cli_progress_end(c, status);
  nabla_pool_destroy(c->pool);
  return status;
}

/* The options that do what the library proposes in `next`. */
static const struct {
  cli_verb_id verb;
  nabla_status status;
  const char *option;
} hints[] = {
    {CLI_VERB_quantize, NABLA_NOT_FINITE, "--nonfinite keep"},
    {CLI_VERB_plan, NABLA_NOT_FINITE, "--nonfinite keep"},
    {CLI_VERB_quantize, NABLA_UNSUPPORTED, "--skip REGEX"},
    {CLI_VERB_plan, NABLA_UNSUPPORTED, "--skip REGEX"},
    {CLI_VERB_dequantize, NABLA_UNSUPPORTED, "--dtype bf16 or f32"},
};

/* Where the library sees no way out (`next` is empty), no option is one: what
 * cannot be decoded here is decoded elsewhere. */
static void add_hint(const cli *c, nabla_status status, nabla_diag *diag) {
  if (status == NABLA_EXISTS && !cli_given(&c->options, CLI_OPTION_force))
    nabla_diag_set_next(diag, "choose another name, or replace it: --force");
  int decodes = c->options.verb == CLI_VERB_dequantize ||
                c->options.verb == CLI_VERB_diff;
  if (!diag->tensor[0]) return;
  if (!diag->next[0]) {
    if (status == NABLA_UNSUPPORTED && decodes)
      nabla_diag_set_next(diag, CLI_DECODE_ELSEWHERE);
    return;
  }
  for (size_t i = 0; i < sizeof hints / sizeof *hints; i++)
    if (hints[i].verb == c->options.verb && hints[i].status == status)
      nabla_diag_set_next(diag, "%s: %s", diag->next, hints[i].option);
}

static int report(cli *c, nabla_status status, nabla_diag *diag) {
  int exit_code = status ? tool_exit_of_status(status) : c->exit;
  int signal_number = cli_signals_received();
  if (status == NABLA_CANCELLED) exit_code += signal_number;
  if (status == NABLA_CANCELLED && signal_number) {
    status = nabla_fail(diag, NABLA_CANCELLED,
                        "stopped by a signal (%s); nothing was written",
                        strsignal(signal_number));
    if (c->options.verb != CLI_VERB_quantize &&
        c->options.verb != CLI_VERB_dequantize)
      status = nabla_fail(diag, NABLA_CANCELLED, "stopped by a signal (%s)",
                          strsignal(signal_number));
  }
  add_hint(c, status, diag);
  if (status) add_written(c, diag);
  if (status && !c->error_shown) cli_error(c, diag);
  if (c->json_begun || cli_given(&c->options, CLI_OPTION_json)) {
    nabla_diag why = NABLA_DIAG_INIT;
    if (cli_json_end(c, status, exit_code, diag, &why) == NABLA_NO_MEMORY) {
      exit_code = TOOL_EXIT_MEMORY;
      add_written(c, &why);
      cli_error(c, &why);
    }
  }
  exit_code = finish_stdout(c, exit_code);
  if (status == NABLA_CANCELLED && signal_number) die_of(signal_number);
  return exit_code;
}

/* --help and --version. */
static int print_about(cli *c, const tool_line *line) {
  nabla_diag why = NABLA_DIAG_INIT;
  nabla_status status;
  if (line->json) {
    cli_json_about(c, line);
    status = cli_json_end(c, NABLA_OK, TOOL_EXIT_OK, &why, &why);
  } else {
    status = tool_print_about(&cli_tool, line, &why);
  }
  return finish_stdout(c, status ? tool_exit_of_status(status) : TOOL_EXIT_OK);
}

int main(int argc, char **argv) {
  cli c = {0};
  nabla_diag diag = NABLA_DIAG_INIT;
  tool_line line;
  nabla_status status = cli_parse(argc, argv, &c.options, &line, &diag);
  c.colored_out = colored(&c, STDOUT_FILENO);
  c.colored_error = colored(&c, STDERR_FILENO);
  if (status) {
    int code = tool_exit_of_status(status);
    print_usage_error(&c, &diag);
    nabla_diag why = NABLA_DIAG_INIT;
    if (line.json && cli_json_end(&c, status, code, &diag, &why))
      code = TOOL_EXIT_USAGE;
    return finish_stdout(&c, code);
  }
  if (line.about) return print_about(&c, &line);
  status = run_verb(&c, &diag);
  return report(&c, status, &diag);
}
