/* A thread that ends the process when a call of MPI takes too long: MPI_Init
 * and MPI_Finalize wait for all ranks and cannot be left otherwise. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/thread.h"
#include "lib/runtime/collectives/mpi_internal.h"

struct nabla_mpi_watch {
  pthread_t thread;
  pthread_mutex_t lock;
  pthread_cond_t changed;
  struct timespec end;
  time_t seconds;
  int is_over;
  char what[128];
};

/* Only calls that a signal handler may make: nothing of the process is sure. */
static _Noreturn void leave(const nabla_mpi_watch *watch) {
  char text[256];
  const int length = snprintf(text, sizeof text,
                              "nabla: %s for %lld s (NABLA_RANK_TIMEOUT): the "
                              "process is ended\n",
                              watch->what, (long long)watch->seconds);
  if (length > 0 && write(STDERR_FILENO, text, (size_t)length) < 0)
    _exit(NABLA_MPI_EXIT);
  _exit(NABLA_MPI_EXIT);
}

static void *watch_over(void *self) {
  nabla_mpi_watch *watch = self;
  pthread_mutex_lock(&watch->lock);
  while (!watch->is_over)
    if (pthread_cond_timedwait(&watch->changed, &watch->lock, &watch->end) ==
            ETIMEDOUT &&
        !watch->is_over)
      leave(watch);
  pthread_mutex_unlock(&watch->lock);
  return NULL;
}

nabla_mpi_watch *nabla_mpi_watch_begin(time_t seconds, const char *what) {
  nabla_mpi_watch *watch = calloc(1, sizeof *watch);
  if (!watch) return NULL;
  pthread_condattr_t attributes;
  (void)snprintf(watch->what, sizeof watch->what, "%s", what);
  watch->seconds = seconds;
  clock_gettime(CLOCK_MONOTONIC, &watch->end);
  watch->end.tv_sec += seconds;
  pthread_mutex_init(&watch->lock, NULL);
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_cond_init(&watch->changed, &attributes);
  pthread_condattr_destroy(&attributes);
  if (!nabla_thread_start(&watch->thread, NULL, watch_over, watch))
    return watch;
  pthread_cond_destroy(&watch->changed);
  pthread_mutex_destroy(&watch->lock);
  free(watch);
  return NULL;
}

void nabla_mpi_watch_end(nabla_mpi_watch *watch) {
  if (!watch) return;
  pthread_mutex_lock(&watch->lock);
  watch->is_over = 1;
  pthread_cond_signal(&watch->changed);
  pthread_mutex_unlock(&watch->lock);
  pthread_join(watch->thread, NULL);
  pthread_cond_destroy(&watch->changed);
  pthread_mutex_destroy(&watch->lock);
  free(watch);
}
