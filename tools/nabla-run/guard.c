/* A process that guards a rank. MPICH's launcher takes an exit code of 0 for
 * success, also of a rank that others still wait for: one that a handler of a
 * custom call, or a library, ended by _exit(0). The launcher's child therefore
 * waits for the rank, its own child, which says when it has come to its end. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/nabla-run/run.h"

static int told = -1; /* the pipe of the rank: a byte when it ends */

static _Noreturn void watch(pid_t rank, int heard) {
  int how = 0;
  char byte;
  while (waitpid(rank, &how, 0) < 0 && errno == EINTR) continue;
  if (WIFSIGNALED(how)) {
    (void)signal(WTERMSIG(how), SIG_DFL);
    (void)raise(WTERMSIG(how));
    _exit(128 + WTERMSIG(how));
  }
  const int code = WIFEXITED(how) ? WEXITSTATUS(how) : RUN_EXIT_RANKS;
  if (code || read(heard, &byte, 1) == 1) _exit(code);
  static const char why[] = "nabla-run: a rank left before its end\n";
  if (write(STDERR_FILENO, why, sizeof why - 1) < 0) _exit(RUN_EXIT_RANKS);
  _exit(RUN_EXIT_RANKS);
}

nabla_status run_begin_guard(nabla_diag *diag) {
  int ends[2];
  const pid_t guard = getpid();
  if (pipe(ends)) return nabla_fail(diag, NABLA_IO, "no pipe for a rank");
  const pid_t rank = fork();
  if (rank < 0) return nabla_fail(diag, NABLA_IO, "no process for a rank");
  if (rank) {
    (void)close(ends[1]);
    watch(rank, ends[0]);
  }
  (void)close(ends[0]);
  (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != guard) _exit(RUN_EXIT_RANKS); /* it died before */
  told = ends[1];
  return NABLA_OK;
}

int run_leave_guard(int exit_code) {
  if (told >= 0 && write(told, "", 1) != 1) return RUN_EXIT_RANKS;
  return exit_code;
}
