/* Threads of the library, and work that needs a larger stack than its caller
 * may have. */
#ifndef NABLA_BASE_THREAD_H
#define NABLA_BASE_THREAD_H

#include <pthread.h>
#include <stddef.h>

#include "nabla/status.h"

/* Starts a thread in which signals are blocked, so that the host's threads get
 * them. Signals that a thread causes itself (SIGSEGV, ...) stay unblocked, or a
 * crash would be silent. Returns 0 or an error number; `attributes` may be
 * NULL. */
int nabla_thread_start(pthread_t *thread, const pthread_attr_t *attributes,
                       void *(*run)(void *self), void *self);

/* The stack of nabla_stack_run: address space, of which the system gives what
 * is touched. MLIR and LLVM call themselves once for each level of a program's
 * nesting, and for each operation of some chains. */
#define NABLA_STACK_BYTES ((size_t)256 << 20)

/* Calls `run` once, on a thread with such a stack, and waits for its end. No
 * signal handler runs on that thread, and the caller is not cancelled
 * meanwhile. NABLA_NO_MEMORY: there is no such thread, and `run` was not
 * called. */
NABLA_MUST_USE nabla_status nabla_stack_run(void (*run)(void *self), void *self,
                                            nabla_diag *diag);

#endif
