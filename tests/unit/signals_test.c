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

static const int kinds[] = {SIGINT, SIGTERM};

Test(signals, a_second_one_ends_the_process) {
  for (size_t i = 0; i < 2; i++) {
    pid_t child = fork();
    cr_assert_geq(child, 0);
    if (child == 0) {
      cli_signals_install();
      raise(kinds[i]);
      if (cli_signals_received() != kinds[i]) _exit(1);
      raise(kinds[i]);
      _exit(2);
    }
    int status;
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_expect(WIFSIGNALED(status), "it lived on");
    cr_expect_eq(WTERMSIG(status), kinds[i]);
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
