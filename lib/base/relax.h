/* One look of a loop that waits for another thread. */
#ifndef NABLA_BASE_RELAX_H
#define NABLA_BASE_RELAX_H

#include <sched.h>

/* Leaves the units of the core to its other hardware thread for some cycles. */
static inline void nabla_relax(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#else
  sched_yield();
#endif
}

#endif
