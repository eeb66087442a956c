/* tools/nabla-quant/signals.h: one signal asks, two insist. */
#include "tools/nabla-quant/signals.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

TestSuite(signals, .timeout = 60);

Test(signals, nothing_is_received_at_first) {
  cr_expect_eq(cli_signals_received(), 0);
  cli_signals_install();
  cr_expect_eq(cli_signals_received(), 0);
}

Test(signals, the_first_of_each_kind_sets_the_flag) {
  cli_signals_install();
  raise(SIGTERM);
  cr_expect_eq(cli_signals_received(), SIGTERM);
  raise(SIGINT); /* another kind: still alive, the first one counts */
  cr_expect_eq(cli_signals_received(), SIGTERM);
}

static const struct {
  int number, repeats;
} kinds[] = {
#define STOPS(name, repeats) {name, repeats},
#include "tools/nabla-quant/signals.def"
#undef STOPS
};

enum { KINDS = sizeof kinds / sizeof *kinds };

static int is_of_table(int number) {
  for (size_t i = 0; i < KINDS; i++)
    if (kinds[i].number == number) return 1;
  return number >= SIGRTMIN && number <= SIGRTMAX;
}

/* Runs `number` once in a child that has installed the handlers, and perhaps
 * ignored it before; 0: it ended by itself and saw `seen`. */
static int status_of_child(int number, int ignored, int seen) {
  pid_t child = fork();
  cr_assert_geq(child, 0);
  if (child == 0) {
    if (ignored) signal(number, SIG_IGN);
    cli_signals_install();
    raise(number);
    _exit(cli_signals_received() == seen ? 0 : 1);
  }
  int status;
  cr_assert_eq(waitpid(child, &status, 0), child);
  return status;
}

/* Of all signals, those that end a process by default are caught, but for
 * faults of the program, its own ends and what cannot be caught. */
Test(signals, every_signal_that_ends_a_process_is_caught) {
  static const int others[] = {SIGKILL, SIGSTOP, SIGABRT, SIGBUS,
                               SIGFPE,  SIGILL,  SIGSEGV, SIGSYS,
                               SIGTRAP, SIGPIPE, SIGXFSZ};
  for (int number = 1; number <= SIGRTMAX; number++) {
    int skip = number >= 32 && number < SIGRTMIN; /* of the C library */
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
      skip |= others[i] == number;
    if (skip) continue;
    pid_t child = fork();
    cr_assert_geq(child, 0);
    if (child == 0) {
      signal(number, SIG_DFL);
      raise(number);
      _exit(0);
    }
    int status;
    cr_assert_eq(waitpid(child, &status, WUNTRACED), child);
    if (WIFSTOPPED(status)) {
      kill(child, SIGKILL);
      cr_assert_eq(waitpid(child, &status, 0), child);
      continue;
    }
    cr_expect_eq(WIFSIGNALED(status), is_of_table(number), "signal %d", number);
    if (!WIFSIGNALED(status)) continue;
    cr_expect_eq(status_of_child(number, 0, number), 0, "signal %d", number);
    cr_expect_eq(status_of_child(number, 1, 0), 0, "signal %d ignored", number);
  }
}

Test(signals, what_comes_again_and_again_counts_once) {
  cli_signals_install();
  for (int i = 0; i < 3; i++) raise(SIGXCPU);
  cr_expect_eq(cli_signals_received(), SIGXCPU);
}

Test(signals, a_pipe_that_was_ignored_does_not_kill) {
  cr_expect(!cli_signals_pipe_kills());
  cli_signals_install();
  cr_expect(cli_signals_pipe_kills());
  signal(SIGPIPE, SIG_IGN);
  cli_signals_install();
  cr_expect(!cli_signals_pipe_kills());
}

Test(signals, a_second_one_ends_the_process) {
  for (size_t i = 0; i < KINDS; i++) {
    if (kinds[i].repeats) continue;
    pid_t child = fork();
    cr_assert_geq(child, 0);
    if (child == 0) {
      cli_signals_install();
      raise(kinds[i].number);
      if (cli_signals_received() != kinds[i].number) _exit(1);
      raise(kinds[i].number);
      _exit(2);
    }
    int status;
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_expect(WIFSIGNALED(status), "it lived on");
    cr_expect_eq(WTERMSIG(status), kinds[i].number);
  }
}

Test(signals, pipes_and_size_limits_are_errors) {
  cli_signals_install();
  int ends[2];
  cr_assert_eq(pipe(ends), 0);
  close(ends[0]);
  cr_expect_eq(write(ends[1], "x", 1), -1);
  cr_expect_eq(errno, EPIPE);
  raise(SIGXFSZ);
  cr_expect_eq(cli_signals_received(), 0);
}
