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

#include "lib/base/cpus.h"
#include "lib/base/relax.h"
#include "lib/base/require.h"
#include "lib/runtime/collectives/comm_internal.h"

/* How long a rank looks for the others before it sleeps, from which it is woken
 * in 5 to 10 us: neighbours compute the same, and come at about the same time.
 * LOOKS are made between two looks at the clock. */
#define SPIN_NS 50000
#define LOOKS   32

/* Ranks that exchange with each other. */
typedef struct group {
  struct group *next;
  uint32_t count, members[NABLA_COMM_MAX_RANKS];
  uint32_t arrived;
  uint64_t here;                       /* bits: the members that have come */
  _Atomic uint64_t generation;         /* meetings that were held */
  uint64_t keys[NABLA_COMM_MAX_RANKS]; /* of what members bring */
  const nabla_collective *brought[NABLA_COMM_MAX_RANKS]; /* where all agree */
} group;

typedef struct thread_comm {
  nabla_comm base;
  pthread_mutex_t lock; /* of all that follows */
  pthread_cond_t changed;
  group *groups;
  atomic_int is_spent;
  int spins; /* each rank has a CPU */
  char why[160];
} thread_comm;

static thread_comm *of(nabla_comm *comm) { return (thread_comm *)comm; }

/* ---- failing ---- */

static void spend(thread_comm *comm, uint32_t rank, const char *why) {
  if (!comm->is_spent)
    (void)snprintf(comm->why, sizeof comm->why, "rank %u: %.140s", rank, why);
  comm->is_spent = 1;
  pthread_cond_broadcast(&comm->changed);
}

static void fail(nabla_comm *base, uint32_t rank, const char *why) {
  thread_comm *comm = of(base);
  pthread_mutex_lock(&comm->lock);
  spend(comm, rank, why);
  pthread_mutex_unlock(&comm->lock);
}

static nabla_status status_of(const thread_comm *comm, nabla_diag *diag) {
  if (!comm->is_spent) return NABLA_OK;
  return nabla_fail(diag, NABLA_CANCELLED, "the communicator is spent: %s",
                    comm->why);
}

static nabla_status take_status(nabla_comm *base, nabla_diag *diag) {
  thread_comm *comm = of(base);
  pthread_mutex_lock(&comm->lock);
  const nabla_status status = status_of(comm, diag);
  pthread_mutex_unlock(&comm->lock);
  return status;
}

/* ---- meeting: with the lock ---- */

static group *find_group(thread_comm *comm, const nabla_collective *c) {
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
static int arrive(thread_comm *comm, group *g, uint32_t index) {
  g->here |= UINT64_C(1) << index;
  if (++g->arrived < g->count) return 0;
  g->arrived = 0;
  g->here = 0;
  g->generation++;
  pthread_cond_broadcast(&comm->changed);
  return 1;
}

/* Names the first member that did not come in time. */
static void spend_late(thread_comm *comm, const group *g, uint32_t rank) {
  char text[96];
  uint32_t missing = 0;
  while (missing + 1 < g->count && g->here >> missing & 1) missing++;
  (void)snprintf(text, sizeof text,
                 "rank %u did not come in NABLA_RANK_TIMEOUT (%lld s)",
                 g->members[missing], (long long)comm->base.timeout);
  spend(comm, rank, text);
}

static uint64_t now_ns(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

/* Looks for the meeting without the lock, for a while. */
static void look(thread_comm *comm, const group *g, uint64_t generation,
                 const nabla_collective *c) {
  if (!comm->spins || c->is_behind) return;
  pthread_mutex_unlock(&comm->lock);
  const uint64_t end = now_ns() + SPIN_NS;
  do
    for (int i = 0; i < LOOKS && g->generation == generation; i++)
      nabla_relax();
  while (g->generation == generation && !comm->is_spent && now_ns() < end);
  pthread_mutex_lock(&comm->lock);
}

/* Waits until all members have come, or the communicator is spent. */
static nabla_status meet(thread_comm *comm, group *g, const nabla_collective *c,
                         nabla_diag *diag) {
  NABLA_TRY(status_of(comm, diag));
  const uint64_t generation = g->generation;
  if (arrive(comm, g, c->index)) return NABLA_OK;
  look(comm, g, generation, c);
  struct timespec end;
  clock_gettime(CLOCK_MONOTONIC, &end);
  end.tv_sec += comm->base.timeout;
  while (g->generation == generation && !comm->is_spent)
    if (pthread_cond_timedwait(&comm->changed, &comm->lock, &end) == ETIMEDOUT)
      spend_late(comm, g, c->rank);
  return g->generation == generation ? status_of(comm, diag) : NABLA_OK;
}

/* Waits until no member uses the arrays of others. All of them are busy with
 * copies: none stays away, and none may leave before, not even where the
 * communicator is spent. */
static void part(thread_comm *comm, group *g, const nabla_collective *c) {
  const uint64_t generation = g->generation;
  if (arrive(comm, g, c->index)) return;
  look(comm, g, generation, c);
  while (g->generation == generation)
    pthread_cond_wait(&comm->changed, &comm->lock);
}

static nabla_status bring(thread_comm *comm, group *g,
                          const nabla_collective *c, nabla_diag *diag) {
  const uint64_t key = nabla_collective_key(c);
  NABLA_TRY(status_of(comm, diag)); /* others may still read what it brought */
  g->keys[c->index] = key;
  g->brought[c->index] = c;
  NABLA_TRY(meet(comm, g, c, diag));
  int agree = 1; /* all members find the same; without, some have left */
  for (uint32_t i = 0; i < c->count; i++) agree = agree && g->keys[i] == key;
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

static nabla_status run(nabla_comm *base, const nabla_collective *c,
                        nabla_diag *diag) {
  thread_comm *comm = of(base);
  pthread_mutex_lock(&comm->lock);
  group *g = find_group(comm, c);
  nabla_status status =
      g ? bring(comm, g, c, diag)
        : nabla_fail(diag, NABLA_NO_MEMORY, "no memory for a group of ranks");
  pthread_mutex_unlock(&comm->lock);
  if (status) return status;
  const uint64_t bytes = exchange(c, g);
  if (!c->is_check) atomic_fetch_add(&base->bytes[c->rank], bytes);
  pthread_mutex_lock(&comm->lock);
  part(comm, g, c);
  pthread_mutex_unlock(&comm->lock);
  return NABLA_OK;
}

/* ---- making ---- */

static void destroy(nabla_comm *base) {
  thread_comm *comm = of(base);
  for (group *g = comm->groups; g;) {
    group *next = g->next;
    free(g);
    g = next;
  }
  pthread_cond_destroy(&comm->changed);
  pthread_mutex_destroy(&comm->lock);
  free(comm);
}

static const nabla_comm_class threads_class = {
    .destroy = destroy, .fail = fail, .status = take_status, .run = run};

nabla_status nabla_comm_threads(uint32_t ranks, nabla_comm **out,
                                nabla_diag *diag) {
  NABLA_REQUIRE(out, diag);
  if (!ranks || ranks > NABLA_COMM_MAX_RANKS)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "%u ranks; from 1 to %u are possible", ranks,
                      NABLA_COMM_MAX_RANKS);
  uint32_t cpus = 0;
  if (nabla_cpus_count("", NULL, &cpus, NULL)) cpus = 0; /* no looking */
  thread_comm *comm = calloc(1, sizeof *comm);
  if (!comm)
    return nabla_fail(diag, NABLA_NO_MEMORY, "no memory for a communicator");
  pthread_condattr_t attributes;
  comm->spins = ranks <= cpus;
  comm->base.class = &threads_class;
  comm->base.ranks = comm->base.local_ranks = ranks;
  comm->base.rank = NABLA_COMM_ALL_RANKS;
  comm->base.timeout = nabla_comm_timeout();
  pthread_mutex_init(&comm->lock, NULL);
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_cond_init(&comm->changed, &attributes);
  pthread_condattr_destroy(&attributes);
  *out = &comm->base;
  return NABLA_OK;
}
