/* The pool of worker threads. A region is one call of nabla_pool_run. It starts
 * when the caller increments `generation`, for which workers wait: first
 * spinning, because waking a thread costs more than a short region, then asleep
 * on a futex. A worker claims its share before it begins. The caller does share
 * 0, then each share that nobody has claimed, and waits for the others in the
 * same way as workers do. So it never waits for a thread that other processes
 * keep from running, unless that thread has begun its share. */
#include "nabla/pool.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "lib/base/cpus.h"
#include "lib/base/memory.h"
#include "lib/base/relax.h"
#include "lib/base/require.h"
#include "lib/base/thread.h"

/* How long a waiting thread spins. A worker that sleeps is late by tens of
 * microseconds, so this covers the pauses between the regions of one kernel
 * and burns little when there are none. */
#define SPIN_NS 100000

/* Reads of the word between two reads of the clock. One read of the clock costs
 * as much as all of them. */
#define LOOKS 16

/* A spinning thread does not yield within this time: between regions that
 * follow each other closely, the system call would be a delay. */
#define ALONE_NS 20000

/* A yield that took longer shows that other processes want this CPU. The caller
 * then makes none for the next CROWDED_WAITS occasions: each costs it a time
 * slice of theirs. */
#define CROWDED_NS    500000
#define CROWDED_WAITS 256

/* The size of a cache line. Words that different threads write are on separate
 * ones. */
#define LINE 64

/* NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): on purpose */
typedef struct worker {
  /* The region whose share of this worker was claimed last. */
  _Alignas(LINE) _Atomic uint32_t claimed;
  uint32_t number;
  nabla_pool *pool;
  pthread_t thread;
} worker;

/* NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): on purpose */
struct nabla_pool {
  void *block; /* as allocated: not aligned to a cache line, as the pool is */
  const nabla_allocator *allocator;
  uint32_t size;                  /* workers, the caller included     */
  uint32_t started;               /* threads that run: size - 1       */
  nabla_pool_callbacks callbacks; /* run NULL: threads of its own */
  uint64_t spin_ns;
  uint32_t crowded;            /* occasions left, see CROWDED_WAITS */
  pthread_mutex_t turn;        /* held while a region runs         */
  uint32_t forks;              /* `forks` when the pool was made   */
  _Atomic uint64_t taken_over; /* state of take_over, in a child */
  /* The word that workers wait for and the description of the region: in one
   * cache line, so that a worker fetches only one. */
  _Alignas(LINE) _Atomic uint32_t generation; /* futex of the workers */
  _Atomic int caller_cpu; /* where the region was announced   */
  nabla_pool_task task;   /* NULL: stop                       */
  void *context;
  _Alignas(LINE) _Atomic uint32_t asleep; /* workers on that futex */
  /* shares not done; futex of the caller */
  _Alignas(LINE) _Atomic uint32_t pending;
  _Atomic uint32_t caller_asleep; /* 1: wake it at the end */
  _Alignas(LINE) worker workers[NABLA_POOL_MAX_THREADS];
};

#define BLOCK (sizeof(nabla_pool) + LINE - 1)

/* ---- waiting ------------------------------------------------------------ */

static uint64_t now_ns(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

/* Spins while *word is `old`. Returns 1 when it changed, 0 when time ran out.
 * After ALONE_NS it also yields: the thread that is to change the word may be
 * waiting for this CPU. */
static int spin(const _Atomic uint32_t *word, uint32_t old, uint64_t ns) {
  if (atomic_load(word) != old) return 1;
  if (ns == 0) return 0;
  uint64_t start = now_ns(), passed = 0;
  do {
    for (int i = 0; i < LOOKS; i++) {
      if (atomic_load(word) != old) return 1;
      nabla_relax();
    }
    if (passed >= ALONE_NS) sched_yield();
    passed = now_ns() - start;
  } while (passed < ns);
  return 0;
}

/* Sleeps while *word is `old`; may return early, so callers read it again. */
static void sleep_on(_Atomic uint32_t *word, uint32_t old) {
  syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, old, NULL, NULL, 0);
}

static void wake(_Atomic uint32_t *word, int threads) {
  syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, threads, NULL, NULL, 0);
}

/* Whether the caller should not yield now. */
static int is_crowded(nabla_pool *pool) {
  if (!pool->crowded) return 0;
  pool->crowded--;
  return 1;
}

/* Wakes the workers, and yields. Linux may put a woken thread on the CPU of the
 * thread that woke it, where it would wait milliseconds for the load balancer.
 * After the yield it runs at once, and step_aside moves it. */
static void wake_workers(nabla_pool *pool) {
  wake(&pool->generation, NABLA_POOL_MAX_THREADS);
  if (is_crowded(pool)) return;
  const uint64_t start = now_ns();
  sched_yield();
  if (now_ns() - start > CROWDED_NS) pool->crowded = CROWDED_WAITS;
}

/* Moves this thread off the CPU of the caller, if it is on that: excludes the
 * CPU from its affinity mask, then restores the mask. This costs tens of
 * microseconds; sharing a CPU would cost milliseconds at half the speed. Best
 * effort: beyond 1024 CPUs it does nothing. */
static void step_aside(int caller_cpu) {
  cpu_set_t before, others;
  if (caller_cpu < 0 || caller_cpu >= CPU_SETSIZE) return;
  if (sched_getcpu() != caller_cpu) return;
  if (sched_getaffinity(0, sizeof before, &before)) return;
  others = before;
  CPU_CLR((size_t)caller_cpu, &others);
  if (CPU_COUNT(&others) == 0) return;
  if (sched_setaffinity(0, sizeof others, &others)) return;
  (void)!sched_setaffinity(0, sizeof before, &before);
}

/* All accesses below are sequentially consistent: either the sleeper sees the
 * new value and does not sleep, or the other side sees that it may sleep and
 * wakes it. */
static void await_generation(nabla_pool *pool, uint32_t old) {
  if (spin(&pool->generation, old, pool->spin_ns)) return;
  atomic_fetch_add(&pool->asleep, 1);
  while (atomic_load(&pool->generation) == old)
    sleep_on(&pool->generation, old);
  atomic_fetch_sub(&pool->asleep, 1);
}

static void announce(nabla_pool *pool, nabla_pool_task task, void *context) {
  const int cpu = sched_getcpu();
  /* no worker reads these before it sees the new generation; the atomic
   * increment orders the stores */
  atomic_store_explicit(&pool->pending, pool->started, memory_order_relaxed);
  pool->task = task;
  pool->context = context;
  atomic_store_explicit(&pool->caller_cpu, cpu, memory_order_relaxed);
  atomic_fetch_add(&pool->generation, 1);
  if (atomic_load(&pool->asleep) > 0) wake_workers(pool);
}

static void report_done(nabla_pool *pool) {
  if (atomic_fetch_sub(&pool->pending, 1) == 1 &&
      atomic_load(&pool->caller_asleep)) {
    wake(&pool->pending, 1);
    sched_yield(); /* see wake_workers */
  }
}

/* Claims the share of a worker in region `generation`, for the thread that
 * calls. All shares of the region before it were claimed. */
static int claim(worker *of, uint32_t generation) {
  uint32_t before = generation - 1;
  return atomic_compare_exchange_strong(&of->claimed, &before, generation);
}

/* Does the shares of workers that have not begun. The last worker is likeliest
 * to be late: it was started last. */
static void do_unclaimed(nabla_pool *pool) {
  const uint32_t generation = atomic_load(&pool->generation);
  for (uint32_t i = pool->started; i-- > 0;) {
    worker *of = &pool->workers[i];
    if (!claim(of, generation)) continue;
    pool->task(pool->context, of->number, pool->size);
    atomic_fetch_sub(&pool->pending, 1);
  }
}

static void await_all(nabla_pool *pool) {
  uint32_t left = atomic_load(&pool->pending);
  const uint64_t most =
      left && pool->spin_ns && is_crowded(pool) ? ALONE_NS : pool->spin_ns;
  uint64_t start = left && most ? now_ns() : 0;
  while (left && most && now_ns() - start < most) {
    spin(&pool->pending, left, most);
    left = atomic_load(&pool->pending);
  }
  if (left && most == pool->spin_ns && most && now_ns() - start > CROWDED_NS)
    pool->crowded = CROWDED_WAITS;
  if (!left) return;
  atomic_store(&pool->caller_asleep, 1);
  while ((left = atomic_load(&pool->pending)) != 0)
    sleep_on(&pool->pending, left);
  atomic_store(&pool->caller_asleep, 0);
}

/* ---- threads ------------------------------------------------------------ */

static void *work(void *argument) {
  worker *self = argument;
  nabla_pool *pool = self->pool;
  for (uint32_t seen = 0;;) {
    await_generation(pool, seen);
    seen = atomic_load(&pool->generation);
    if (pool->spin_ns)
      step_aside(atomic_load_explicit(&pool->caller_cpu, memory_order_relaxed));
    if (!claim(self, seen)) continue;
    if (!pool->task) return NULL;
    pool->task(pool->context, self->number, pool->size);
    report_done(pool);
  }
}

/* Starts the workers. Returns 0, or the error number of the first that could
 * not be started. */
static int start_workers(nabla_pool *pool) {
  int error = 0;
  while (!error && pool->started + 1 < pool->size) {
    worker *next = &pool->workers[pool->started];
    next->pool = pool;
    next->number = pool->started + 1;
    error = nabla_thread_start(&next->thread, NULL, work, next);
    if (!error) pool->started++;
  }
  return error;
}

/* ---- fork --------------------------------------------------------------- */

/* The number of forks between this process and the one that made the first
 * pool. One counter for the process, because a fork concerns all pools: a child
 * has none of their workers. */
static _Atomic uint32_t forks;

static void count_fork(void) { atomic_fetch_add(&forks, 1); }

static void watch_forks(void) {
  (void)pthread_atfork(NULL, NULL, count_fork); /* fails without memory alone */
}

/* Initialises the lock again in a child, in its first region; other regions
 * wait for that. At the fork the lock may have been held by a thread that the
 * child does not have. */
static void take_over(nabla_pool *pool, uint32_t now) {
  const uint64_t done = (uint64_t)now << 1, begun = done | 1;
  uint64_t seen = atomic_load(&pool->taken_over);
  while (seen != done) {
    if (seen != begun &&
        atomic_compare_exchange_strong(&pool->taken_over, &seen, begun)) {
      pthread_mutex_init(&pool->turn, NULL);
      atomic_store(&pool->taken_over, done);
      return;
    }
    sched_yield();
    seen = atomic_load(&pool->taken_over);
  }
}

/* Whether this process was forked after the pool was made, so that it has no
 * workers. */
static int has_no_workers(nabla_pool *pool) {
  const uint32_t now = atomic_load_explicit(&forks, memory_order_relaxed);
  if (now == pool->forks) return 0;
  take_over(pool, now);
  return 1;
}

/* ---- the interface ------------------------------------------------------ */

/* A pool without threads. */
static nabla_status make_empty(uint32_t threads,
                               const nabla_allocator *allocator,
                               nabla_pool **out, nabla_diag *diag) {
  void *block;
  NABLA_TRY(nabla_alloc(allocator, BLOCK, 1, &block, diag));
  nabla_pool *pool = (void *)(((uintptr_t)block + LINE - 1) / LINE * LINE);
  pool->block = block;
  pool->allocator = allocator;
  pool->size = threads;
  pthread_mutex_init(&pool->turn, NULL); /* cannot fail on Linux */
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, watch_forks);
  pool->forks = atomic_load(&forks);
  atomic_store(&pool->taken_over, 0);
  *out = pool;
  return NABLA_OK;
}

static nabla_status make(uint32_t threads, uint32_t cpus,
                         const nabla_allocator *allocator, nabla_pool **out,
                         nabla_diag *diag) {
  nabla_pool *pool;
  NABLA_TRY(make_empty(threads, allocator, &pool, diag));
  pool->spin_ns = threads > cpus ? 0 : SPIN_NS;
  int error = start_workers(pool);
  if (error) {
    uint32_t started = pool->started;
    nabla_pool_destroy(pool);
    const nabla_status status = nabla_fail(
        diag, NABLA_NO_MEMORY, "cannot start thread %u of %u (error %d)",
        started + 2, threads, error);
    nabla_diag_set_next(diag,
                        "ask for fewer threads, or raise the limits of threads "
                        "and memory (ulimit -u, ulimit -v)");
    return status;
  }
  *out = pool;
  return NABLA_OK;
}

nabla_status nabla_pool_create(uint32_t threads,
                               const nabla_allocator *allocator,
                               nabla_pool **out_pool, nabla_diag *diag) {
  if (threads > NABLA_POOL_MAX_THREADS)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "%u threads are more than the limit of %d", threads,
                      NABLA_POOL_MAX_THREADS);
  uint32_t cpus;
  NABLA_REQUIRE(out_pool, diag);
  NABLA_TRY(nabla_cpus_count("", allocator, &cpus, diag));
  if (threads == 0)
    threads = cpus < NABLA_POOL_MAX_THREADS ? cpus : NABLA_POOL_MAX_THREADS;
  return make(threads, cpus, allocator, out_pool, diag);
}

nabla_status nabla_pool_from_callbacks(const nabla_pool_callbacks *callbacks,
                                       const nabla_allocator *allocator,
                                       nabla_pool **out_pool,
                                       nabla_diag *diag) {
  NABLA_REQUIRE(callbacks, diag);
  NABLA_REQUIRE(out_pool, diag);
  NABLA_REQUIRE_SIZE(callbacks, "a nabla_pool_callbacks", diag);
  if (!callbacks->run)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "a nabla_pool_callbacks without `run`");
  if (!callbacks->workers || callbacks->workers > NABLA_POOL_MAX_THREADS)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "%u workers; a pool has 1 to %d", callbacks->workers,
                      NABLA_POOL_MAX_THREADS);
  NABLA_TRY(make_empty(callbacks->workers, allocator, out_pool, diag));
  (*out_pool)->callbacks = *callbacks;
  return NABLA_OK;
}

void nabla_pool_destroy(nabla_pool *pool) {
  if (!pool) return;
  const int is_child = has_no_workers(pool);
  if (!is_child && pool->started) announce(pool, NULL, NULL);
  for (uint32_t i = 0; i < pool->started && !is_child; i++)
    pthread_join(pool->workers[i].thread, NULL);
  pthread_mutex_destroy(&pool->turn);
  nabla_free(pool->allocator, pool->block, BLOCK, 1);
}

uint32_t nabla_pool_size(const nabla_pool *pool) {
  return pool ? pool->size : 1;
}

/* A region on threads of the caller; called[i] is 1 once worker i was called.
 */
typedef struct foreign {
  nabla_pool_task task;
  void *context;
  uint32_t workers;
  _Atomic uint8_t called[NABLA_POOL_MAX_THREADS];
} foreign;

static void call_once(void *context, uint32_t number, uint32_t workers) {
  foreign *f = context;
  (void)workers;
  if (number < f->workers && !atomic_exchange(&f->called[number], 1))
    f->task(f->context, number, f->workers);
}

static void run_foreign(nabla_pool *pool, nabla_pool_task task, void *context) {
  foreign f = {.task = task, .context = context, .workers = pool->size};
  pool->callbacks.run(pool->callbacks.self, call_once, &f, pool->size);
  for (uint32_t i = 0; i < pool->size; i++) call_once(&f, i, pool->size);
}

void nabla_pool_run(nabla_pool *pool, nabla_pool_task task, void *context) {
  if (!pool || has_no_workers(pool) || pool->size == 1) {
    if (pool) pthread_mutex_lock(&pool->turn);
    task(context, 0, 1);
    if (pool) pthread_mutex_unlock(&pool->turn);
    return;
  }
  pthread_mutex_lock(&pool->turn);
  if (pool->callbacks.run) {
    run_foreign(pool, task, context);
  } else {
    announce(pool, task, context);
    task(context, 0, pool->size);
    do_unclaimed(pool);
    await_all(pool);
  }
  pthread_mutex_unlock(&pool->turn);
}

void nabla_pool_split(uint64_t count, uint32_t parts, uint32_t part,
                      uint64_t *out_begin, uint64_t *out_end) {
  if (part >= parts) {
    *out_begin = *out_end = count;
    return;
  }
  uint64_t each = count / parts, longer = count % parts;
  *out_begin = each * part + (part < longer ? part : longer);
  *out_end = *out_begin + each + (part < longer);
}
