/* Exchanges that are started and waited for: each rank has a thread that
 * carries them out in their order, so that the rank computes meanwhile. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/thread.h"
#include "lib/runtime/collectives/comm_internal.h"
#include "lib/runtime/program/calls.h"

/* An exchange, from its start until it is waited for. */
typedef struct entry {
  struct entry *next;
  nabla_collective c;
  int64_t dims[NABLA_CALL_MAX_RANK];
  int is_done;
  nabla_status status;
  nabla_diag diag;
} entry;

struct nabla_exchange_queue {
  nabla_comm *comm;
  int is_sequential;
  pthread_t thread;
  pthread_mutex_t lock; /* of all that follows */
  pthread_cond_t changed;
  entry *first; /* the oldest */
  int ends;
};

static entry *oldest_to_do(nabla_exchange_queue *queue) {
  entry *e = queue->first;
  while (e && e->is_done) e = e->next;
  return e;
}

static void forget(nabla_exchange_queue *queue) {
  for (entry *e = queue->first; e;) {
    entry *next = e->next;
    free(e);
    e = next;
  }
  queue->first = NULL;
}

/* ---- the thread ---- */

static void *work(void *self) {
  nabla_exchange_queue *queue = self;
  pthread_mutex_lock(&queue->lock);
  for (;;) {
    entry *e = oldest_to_do(queue);
    if (!e && queue->ends) break;
    if (!e) {
      pthread_cond_wait(&queue->changed, &queue->lock);
      continue;
    }
    pthread_mutex_unlock(&queue->lock);
    const nabla_status status =
        queue->comm->class->run(queue->comm, &e->c, &e->diag);
    pthread_mutex_lock(&queue->lock);
    e->status = status;
    e->is_done = 1;
    pthread_cond_broadcast(&queue->changed);
  }
  pthread_mutex_unlock(&queue->lock);
  return NULL;
}

/* Without a thread exchanges are carried out when they are started. */
static nabla_exchange_queue *create(nabla_comm *comm) {
  nabla_exchange_queue *queue = calloc(1, sizeof *queue);
  if (!queue) return NULL;
  queue->comm = comm;
  pthread_mutex_init(&queue->lock, NULL);
  pthread_cond_init(&queue->changed, NULL);
  queue->is_sequential =
      comm->is_sequential ||
      nabla_thread_start(&queue->thread, NULL, work, queue) != 0;
  return queue;
}

void nabla_exchange_queue_destroy(nabla_exchange_queue *queue) {
  if (!queue) return;
  pthread_mutex_lock(&queue->lock);
  queue->ends = 1;
  pthread_cond_broadcast(&queue->changed);
  pthread_mutex_unlock(&queue->lock);
  if (!queue->is_sequential) pthread_join(queue->thread, NULL);
  forget(queue);
  pthread_cond_destroy(&queue->changed);
  pthread_mutex_destroy(&queue->lock);
  free(queue);
}

/* ---- a rank's side ---- */

static entry *make_entry(const nabla_collective *c) {
  entry *e = calloc(1, sizeof *e);
  if (!e) return NULL;
  e->c = *c;
  e->diag = (nabla_diag)NABLA_DIAG_INIT;
  if (c->dims) memcpy(e->dims, c->dims, c->dim_count * sizeof *c->dims);
  e->c.dims = e->dims;
  e->c.is_behind = 1;
  return e;
}

nabla_status nabla_comm_start(nabla_comm *comm, const nabla_collective *c,
                              nabla_diag *diag) {
  nabla_exchange_queue **queue = &comm->queues[c->rank];
  entry *e = make_entry(c);
  if (!*queue) *queue = create(comm);
  if (!e || !*queue) {
    free(e);
    return nabla_fail(diag, NABLA_NO_MEMORY, "no memory for an exchange");
  }
  if ((*queue)->is_sequential) {
    e->status = comm->class->run(comm, &e->c, &e->diag);
    e->is_done = 1;
  }
  pthread_mutex_lock(&(*queue)->lock);
  entry **end = &(*queue)->first;
  while (*end) end = &(*end)->next;
  *end = e;
  pthread_cond_broadcast(&(*queue)->changed);
  pthread_mutex_unlock(&(*queue)->lock);
  return NABLA_OK;
}

nabla_status nabla_comm_wait(nabla_comm *comm, uint32_t rank, const void *out,
                             nabla_diag *diag) {
  nabla_exchange_queue *queue = comm->queues[rank];
  entry **at = queue ? &queue->first : NULL;
  entry *found = NULL;
  if (queue) {
    pthread_mutex_lock(&queue->lock);
    while (*at && (*at)->c.out != out) at = &(*at)->next;
    found = *at;
    while (found && !found->is_done)
      pthread_cond_wait(&queue->changed, &queue->lock);
    if (found) {
      for (at = &queue->first; *at != found;) at = &(*at)->next;
      *at = found->next;
    }
    pthread_mutex_unlock(&queue->lock);
  }
  if (!found)
    return nabla_fail(diag, NABLA_CORRUPT,
                      "the code waits for an exchange that was not started");
  const nabla_status status = found->status;
  if (status && diag) *diag = found->diag;
  free(found);
  return status;
}

void nabla_comm_settle(nabla_comm *comm, uint32_t rank) {
  nabla_exchange_queue *queue = comm->queues[rank];
  if (!queue) return;
  pthread_mutex_lock(&queue->lock);
  while (oldest_to_do(queue)) pthread_cond_wait(&queue->changed, &queue->lock);
  pthread_mutex_unlock(&queue->lock);
}

void nabla_comm_leave(nabla_comm *comm, uint32_t rank, const char *why) {
  nabla_exchange_queue *queue = comm->queues[rank];
  if (!queue) return;
  if (why) nabla_comm_fail(comm, rank, why);
  nabla_comm_settle(comm, rank);
  pthread_mutex_lock(&queue->lock);
  forget(queue);
  pthread_mutex_unlock(&queue->lock);
}
