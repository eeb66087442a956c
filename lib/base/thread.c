/* See thread.h. */
#include "lib/base/thread.h"

#include <signal.h>
#include <string.h>

typedef struct call {
  void (*run)(void *self);
  void *self;
} call;

/* LLVM gives the thread that it is started on an alternate signal stack of its
 * own. The one before is put back: AddressSanitizer unmaps what it finds. */
static void *start(void *self) {
  const call *c = self;
  stack_t before;
  const int known = sigaltstack(NULL, &before) == 0;
  c->run(c->self);
  if (known) (void)sigaltstack(&before, NULL);
  return NULL;
}

int nabla_thread_start(pthread_t *thread, const pthread_attr_t *attributes,
                       void *(*run)(void *self), void *self) {
  static const int own[] = {SIGSEGV, SIGBUS,  SIGFPE, SIGILL,
                            SIGTRAP, SIGABRT, SIGSYS};
  sigset_t blocked, before;
  sigfillset(&blocked);
  for (size_t i = 0; i < sizeof own / sizeof *own; i++)
    sigdelset(&blocked, own[i]);
  (void)pthread_sigmask(SIG_BLOCK, &blocked, &before);
  const int error = pthread_create(thread, attributes, run, self);
  (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
  return error;
}

static int create(pthread_t *thread, call *c) {
  pthread_attr_t attributes;
  int error = pthread_attr_init(&attributes);
  if (error) return error;
  error = pthread_attr_setstacksize(&attributes, NABLA_STACK_BYTES);
  if (!error) error = nabla_thread_start(thread, &attributes, start, c);
  (void)pthread_attr_destroy(&attributes);
  return error;
}

nabla_status nabla_stack_run(void (*run)(void *self), void *self,
                             nabla_diag *diag) {
  call c = {run, self};
  pthread_t thread;
  int cancel;
  (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
  const int error = create(&thread, &c);
  if (!error) (void)pthread_join(thread, NULL);
  (void)pthread_setcancelstate(cancel, &cancel);
  if (!error) return NABLA_OK;
  const nabla_status status =
      nabla_fail(diag, NABLA_NO_MEMORY,
                 "no thread with a stack of %zu MiB can be started: %s",
                 NABLA_STACK_BYTES >> 20, strerror(error));
  nabla_diag_set_next(diag, "raise the limits of threads and address space");
  return status;
}
