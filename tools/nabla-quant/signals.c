/* The one global of the tool: a signal handler has nowhere else to write. */
#include "tools/nabla-quant/signals.h"

#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>

/* lock-free, as C17 7.14.1.1 asks of what a handler touches */
_Static_assert(ATOMIC_INT_LOCK_FREE == 2, "atomic int is always lock-free");
static atomic_int received;

static void note(int number) {
  int none = 0;
  atomic_compare_exchange_strong(&received, &none, number);
}

void cli_signals_install(void) {
  struct sigaction action = {.sa_handler = note,
                             .sa_flags = (int)(SA_RESETHAND | SA_RESTART)};
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, NULL);
  sigaction(SIGTERM, &action, NULL);
  struct sigaction ignore = {.sa_handler = SIG_IGN};
  sigemptyset(&ignore.sa_mask);
  sigaction(SIGXFSZ, &ignore, NULL);
  sigaction(SIGPIPE, &ignore, NULL);
}

int cli_signals_received(void) { return atomic_load(&received); }
