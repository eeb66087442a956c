/* nabla_comm_threads: ranks are threads of one process, and read each other's
 * arrays. A group of ranks that exchange meets twice: when all have said what
 * they bring, and when all have taken what they need. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "lib/base/require.h"
#include "lib/runtime/collectives/collective.h"

#define DEFAULT_TIMEOUT 60 /* seconds */

/* Ranks that exchange with each other. */
typedef struct group {
  struct group *next;
  uint32_t count, members[NABLA_COMM_MAX_RANKS];
  uint32_t arrived;
  uint64_t generation; /* meetings that were held */
  const nabla_collective *brought[NABLA_COMM_MAX_RANKS];
} group;

struct nabla_comm {
  uint32_t ranks;
  time_t timeout;
  pthread_mutex_t lock; /* of all that follows but `bytes` */
  pthread_cond_t changed;
  group *groups;
  int is_spent;
  char why[160];
  _Atomic uint64_t bytes[NABLA_COMM_MAX_RANKS];
};

static time_t read_timeout(void) {
  const char *text = getenv("NABLA_RANK_TIMEOUT");
  char *end = NULL;
  const long seconds = text ? strtol(text, &end, 10) : 0;
  return text && end > text && !*end && seconds > 0 ? (time_t)seconds
                                                    : DEFAULT_TIMEOUT;
}

nabla_status nabla_comm_threads(uint32_t ranks, nabla_comm **out,
                                nabla_diag *diag) {
  NABLA_REQUIRE(out, diag);
  if (!ranks || ranks > NABLA_COMM_MAX_RANKS)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "%u ranks; from 1 to %u are possible", ranks,
                      NABLA_COMM_MAX_RANKS);
  nabla_comm *comm = calloc(1, sizeof *comm);
  if (!comm)
    return nabla_fail(diag, NABLA_NO_MEMORY, "no memory for a communicator");
  pthread_condattr_t attributes;
  comm->ranks = ranks;
  comm->timeout = read_timeout();
  pthread_mutex_init(&comm->lock, NULL);
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_cond_init(&comm->changed, &attributes);
  pthread_condattr_destroy(&attributes);
  *out = comm;
  return NABLA_OK;
}

void nabla_comm_destroy(nabla_comm *comm) {
  if (!comm) return;
  for (group *g = comm->groups; g;) {
    group *next = g->next;
    free(g);
    g = next;
  }
  pthread_cond_destroy(&comm->changed);
  pthread_mutex_destroy(&comm->lock);
  free(comm);
}

uint32_t nabla_comm_size(const nabla_comm *comm) { return comm->ranks; }

uint64_t nabla_comm_bytes(nabla_comm *comm, uint32_t rank) {
  return rank < comm->ranks ? atomic_load(&comm->bytes[rank]) : 0;
}

/* ---- failing ---- */

static void spend(nabla_comm *comm, uint32_t rank, const char *why) {
  if (!comm->is_spent)
    (void)snprintf(comm->why, sizeof comm->why, "rank %u: %.140s", rank, why);
  comm->is_spent = 1;
  pthread_cond_broadcast(&comm->changed);
}

void nabla_comm_fail(nabla_comm *comm, uint32_t rank, const char *why) {
  pthread_mutex_lock(&comm->lock);
  spend(comm, rank, why);
  pthread_mutex_unlock(&comm->lock);
}

static nabla_status status_of(const nabla_comm *comm, nabla_diag *diag) {
  if (!comm->is_spent) return NABLA_OK;
  return nabla_fail(diag, NABLA_CANCELLED, "the communicator is spent: %s",
                    comm->why);
}

nabla_status nabla_comm_status(nabla_comm *comm, nabla_diag *diag) {
  NABLA_REQUIRE(comm, diag);
  pthread_mutex_lock(&comm->lock);
  const nabla_status status = status_of(comm, diag);
  pthread_mutex_unlock(&comm->lock);
  return status;
}

/* ---- meeting: with the lock ---- */

static group *find_group(nabla_comm *comm, const nabla_collective *c) {
  for (group *g = comm->groups; g; g = g->next)
    if (g->count == c->count &&
        !memcmp(g->members, c->members, c->count * sizeof *c->members))
      return g;
  group *g = calloc(1, sizeof *g);
  if (!g) return NULL;
  g->count = c->count;
  memcpy(g->members, c->members, c->count * sizeof *c->members);
  g->next = comm->groups;
  return comm->groups = g;
}

/* Comes to a meeting; whether this was the last member. */
static int arrive(nabla_comm *comm, group *g) {
  if (++g->arrived < g->count) return 0;
  g->arrived = 0;
  g->generation++;
  pthread_cond_broadcast(&comm->changed);
  return 1;
}

/* Waits until all members have come, or the communicator is spent. */
static nabla_status meet(nabla_comm *comm, group *g, uint32_t rank,
                         nabla_diag *diag) {
  NABLA_TRY(status_of(comm, diag));
  const uint64_t generation = g->generation;
  if (arrive(comm, g)) return NABLA_OK;
  struct timespec end;
  clock_gettime(CLOCK_MONOTONIC, &end);
  end.tv_sec += comm->timeout;
  while (g->generation == generation && !comm->is_spent)
    if (pthread_cond_timedwait(&comm->changed, &comm->lock, &end) == ETIMEDOUT)
      spend(comm, rank, "another rank did not come in NABLA_RANK_TIMEOUT");
  return g->generation == generation ? status_of(comm, diag) : NABLA_OK;
}

/* Waits until no member uses the arrays of others. All of them are busy with
 * copies: none stays away, and none may leave before, not even where the
 * communicator is spent. */
static void part(nabla_comm *comm, group *g) {
  const uint64_t generation = g->generation;
  if (arrive(comm, g)) return;
  while (g->generation == generation)
    pthread_cond_wait(&comm->changed, &comm->lock);
}

/* Whether two members bring parts of one exchange. */
static int agrees(const nabla_collective *a, const nabla_collective *b) {
  return a->kind == b->kind && a->join == b->join && a->dtype == b->dtype &&
         a->outer == b->outer && a->rows == b->rows && a->inner == b->inner &&
         a->dim_count == b->dim_count && a->split == b->split &&
         a->concat == b->concat &&
         (!a->dim_count ||
          !memcmp(a->dims, b->dims, a->dim_count * sizeof *a->dims));
}

static nabla_status bring(nabla_comm *comm, group *g, const nabla_collective *c,
                          nabla_diag *diag) {
  g->brought[c->index] = c;
  NABLA_TRY(meet(comm, g, c->rank, diag));
  int agree = 1; /* all members find the same */
  for (uint32_t i = 0; i < c->count; i++)
    agree = agree && agrees(c, g->brought[i]);
  if (agree) return NABLA_OK;
  spend(comm, c->rank, "ranks exchange arrays of different types or sizes");
  return status_of(comm, diag);
}

/* ---- exchanging: without the lock ---- */

/* Joins this member's share of the elements, for all members. */
static uint64_t reduce_all(const nabla_collective *c, const group *g) {
  const void *in[NABLA_COMM_MAX_RANKS];
  const uint64_t count = c->outer * c->rows * c->inner;
  const uint64_t element = nabla_dtype_bits(c->dtype) / 8;
  const uint64_t first = count / c->count * c->index;
  const uint64_t share =
      c->index + 1 == c->count ? count - first : count / c->count;
  for (uint32_t i = 0; i < c->count; i++) in[i] = g->brought[i]->in;
  nabla_collective_join(c->join, c->dtype, in, c->count, first, share, c->out);
  for (uint32_t i = 0; share && i < c->count; i++)
    if (i != c->index)
      memcpy((uint8_t *)g->brought[i]->out + first * element,
             (const uint8_t *)c->out + first * element,
             (size_t)(share * element));
  return 2 * (c->count - 1) * share * element;
}

static uint64_t reduce_scatter(const nabla_collective *c, const group *g) {
  const uint64_t element = nabla_dtype_bits(c->dtype) / 8;
  const uint64_t piece = c->rows * c->inner;
  for (uint64_t o = 0; o < c->outer; o++) {
    const void *in[NABLA_COMM_MAX_RANKS];
    const uint64_t first = (o * c->count + c->index) * piece * element;
    for (uint32_t i = 0; i < c->count; i++)
      in[i] = (const uint8_t *)g->brought[i]->in + first;
    nabla_collective_join(c->join, c->dtype, in, c->count, 0, piece,
                          (uint8_t *)c->out + o * piece * element);
  }
  return (c->count - 1) * c->outer * piece * element;
}

static uint64_t exchange(const nabla_collective *c, const group *g) {
  uint64_t bytes = 0;
  if (c->kind == NABLA_COLLECTIVE_ALL_REDUCE) return reduce_all(c, g);
  if (c->kind == NABLA_COLLECTIVE_REDUCE_SCATTER) return reduce_scatter(c, g);
  if (c->kind == NABLA_COLLECTIVE_PERMUTE && c->source == UINT32_MAX)
    memset(c->out, 0,
           (size_t)(c->outer * c->rows * c->inner *
                    (nabla_dtype_bits(c->dtype) / 8)));
  for (uint32_t i = 0; i < c->count; i++) {
    const uint64_t taken = nabla_collective_take(c, i, g->brought[i]->in);
    if (i != c->index) bytes += taken;
  }
  return bytes;
}

nabla_status nabla_comm_run(nabla_comm *comm, const nabla_collective *c,
                            nabla_diag *diag) {
  pthread_mutex_lock(&comm->lock);
  group *g = find_group(comm, c);
  nabla_status status =
      g ? bring(comm, g, c, diag)
        : nabla_fail(diag, NABLA_NO_MEMORY, "no memory for a group of ranks");
  pthread_mutex_unlock(&comm->lock);
  if (status) return status;
  atomic_fetch_add(&comm->bytes[c->rank], exchange(c, g));
  pthread_mutex_lock(&comm->lock);
  part(comm, g);
  pthread_mutex_unlock(&comm->lock);
  return NABLA_OK;
}
