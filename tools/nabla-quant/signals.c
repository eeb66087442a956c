/* The globals of the tool: a signal handler has nowhere else to write. */
#include "tools/nabla-quant/signals.h"

#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>

/* lock-free, as C17 7.14.1.1 asks of what a handler touches */
_Static_assert(ATOMIC_INT_LOCK_FREE == 2, "atomic int is always lock-free");
static atomic_int received;
static int pipe_was_ignored = 1; /* an EPIPE before tells that it is */

static void note(int number) {
  int none = 0;
  atomic_compare_exchange_strong(&received, &none, number);
}

/* 1 when whoever started the process had it ignored, as nohup does. */
static int is_ignored(int number) {
  struct sigaction now;
  return !sigaction(number, NULL, &now) && now.sa_handler == SIG_IGN;
}

static void stop_on(int number, int repeats) {
  struct sigaction action = {
      .sa_handler = note,
      .sa_flags = repeats ? SA_RESTART : (int)(SA_RESETHAND | SA_RESTART)};
  if (is_ignored(number)) return;
  sigemptyset(&action.sa_mask);
  sigaction(number, &action, NULL);
}

void cli_signals_install(void) {
#define STOPS(name, repeats) stop_on(name, repeats);
#include "tools/nabla-quant/signals.def"
#undef STOPS
  for (int number = SIGRTMIN; number <= SIGRTMAX; number++) stop_on(number, 0);
  pipe_was_ignored = is_ignored(SIGPIPE);
  struct sigaction ignore = {.sa_handler = SIG_IGN};
  sigemptyset(&ignore.sa_mask);
  sigaction(SIGXFSZ, &ignore, NULL);
  sigaction(SIGPIPE, &ignore, NULL);
}

int cli_signals_pipe_kills(void) { return !pipe_was_ignored; }

int cli_signals_received(void) { return atomic_load(&received); }
