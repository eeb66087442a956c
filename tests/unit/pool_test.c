/* nabla/pool.h: every share runs once per region, whatever happened before,
 * and splits depend on nothing but their arguments. */
#include "nabla/pool.h"

#include <criterion/criterion.h>
#include <ftw.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/cpus.h"
#include "tests/support/callback_pool.h"
#include "tests/support/failing_allocator.h"
#include "tests/support/temp_folder.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

/* .timeout: a lost wake-up shows as a region that never ends */
TestSuite(pool, .timeout = 300);

static nabla_pool *make(uint32_t threads) {
  nabla_pool *pool = NULL;
  nabla_diag diag = NABLA_DIAG_INIT;
  cr_assert_eq(nabla_pool_create(threads, NULL, &pool, &diag), NABLA_OK, "%s",
               diag.what);
  return pool;
}

/* Not atomic: only a region that really ended makes reading these no race. */
typedef struct tally {
  uint64_t runs[NABLA_POOL_MAX_THREADS];
  uint32_t workers[NABLA_POOL_MAX_THREADS];
  pthread_t threads[NABLA_POOL_MAX_THREADS];
} tally;

static void count(void *context, uint32_t worker, uint32_t workers) {
  tally *all = context;
  all->runs[worker]++;
  all->workers[worker] = workers;
  all->threads[worker] = pthread_self();
}

static void expect_runs(const tally *all, uint32_t workers, uint64_t runs) {
  for (uint32_t i = 0; i < NABLA_POOL_MAX_THREADS; i++) {
    cr_expect_eq(all->runs[i], i < workers ? runs : 0u, "worker %u", i);
    if (i < workers) cr_expect_eq(all->workers[i], workers);
  }
}

static const uint32_t sizes[] = {1, 2, 3, 7, 64, NABLA_POOL_MAX_THREADS};

Test(pool, every_share_runs_once_and_share_0_on_the_caller) {
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    static tally all;
    memset(&all, 0, sizeof all);
    nabla_pool *pool = make(sizes[i]);
    cr_expect_eq(nabla_pool_size(pool), sizes[i]);
    nabla_pool_run(pool, count, &all);
    expect_runs(&all, sizes[i], 1);
    cr_expect(pthread_equal(all.threads[0], pthread_self()));
    nabla_pool_destroy(pool);
  }
}

/* Share 0 lasts until worker 1 has begun its own. */
static void wait_for_1(void *context, uint32_t worker, uint32_t workers) {
  atomic_int *has_begun = context;
  (void)workers;
  if (worker == 1) atomic_store(has_begun, 1);
  while (worker == 0 && !atomic_load(has_begun)) sched_yield();
}

Test(pool, workers_begin_while_the_caller_is_in_its_share) {
  nabla_pool *pool = make(2);
  for (int i = 0; i < 200; i++) {
    atomic_int has_begun = 0;
    if (i % 2) usleep(300); /* so that the worker sleeps */
    nabla_pool_run(pool, wait_for_1, &has_begun);
    cr_expect_eq(atomic_load(&has_begun), 1);
  }
  nabla_pool_destroy(pool);
}

/* Regions are so short that the worker is late for some. */
Test(pool, the_caller_does_shares_that_nobody_has_begun) {
  nabla_pool *pool = make(7);
  static tally all;
  uint64_t taken = 0;
  for (uint64_t i = 0; i < 2000; i++) {
    memset(&all, 0, sizeof all);
    nabla_pool_run(pool, count, &all);
    expect_runs(&all, 7, 1);
    for (int j = 1; j < 7; j++)
      taken += pthread_equal(all.threads[j], pthread_self()) != 0;
  }
  cr_expect_gt(taken, 0u);
  nabla_pool_destroy(pool);
}

Test(pool, many_regions_back_to_back) {
  static const struct {
    uint32_t threads;
    int regions;
  } rows[] = {{1, 100000}, {2, 100000}, {7, SANITIZED ? 5000 : 20000}};
  for (size_t i = 0; i < 3; i++) {
    tally all = {0};
    nabla_pool *pool = make(rows[i].threads);
    for (int region = 0; region < rows[i].regions; region++)
      nabla_pool_run(pool, count, &all);
    expect_runs(&all, rows[i].threads, (uint64_t)rows[i].regions);
    nabla_pool_destroy(pool);
  }
}

/* Pauses from none to long enough for every thread to be asleep, through the
 * moment at which they fall asleep. */
Test(pool, regions_after_pauses) {
  static const uint32_t threads[] = {2, 7};
  for (size_t i = 0; i < 2; i++) {
    tally all = {0};
    nabla_pool *pool = make(threads[i]);
    uint64_t regions = 0;
    for (useconds_t pause_us = 0; pause_us < 400; pause_us++, regions++) {
      usleep(pause_us);
      nabla_pool_run(pool, count, &all);
    }
    expect_runs(&all, threads[i], regions);
    nabla_pool_destroy(pool);
  }
}

static void slow_worker(void *context, uint32_t worker, uint32_t workers) {
  if (worker + 1 == workers) usleep(2000);
  count(context, worker, workers);
}

Test(pool, the_caller_waits_asleep_for_a_slow_worker) {
  tally all = {0};
  nabla_pool *pool = make(3);
  for (int i = 0; i < 50; i++) nabla_pool_run(pool, slow_worker, &all);
  expect_runs(&all, 3, 50);
  nabla_pool_destroy(pool);
}

Test(pool, can_be_destroyed_at_any_moment) {
  for (useconds_t pause_us = 0; pause_us < 300; pause_us += 3) {
    nabla_pool *pool = make(3);
    usleep(pause_us);
    nabla_pool_destroy(pool);
  }
  nabla_pool_destroy(NULL);
}

Test(pool, no_pool_is_one_worker) {
  tally all = {0};
  nabla_pool_run(NULL, count, &all);
  expect_runs(&all, 1, 1);
}

/* ---- callers ------------------------------------------------------------ */

enum { CALLERS = 4 };

typedef struct shared {
  nabla_pool *pool;
  atomic_int inside[CALLERS]; /* workers inside the task of each caller */
  atomic_int mixed;
  tally all;
} shared;

typedef struct caller {
  shared *common;
  int number;
} caller;

/* Notes when workers of two callers are inside a task at once. */
static void take_turns(void *context, uint32_t worker, uint32_t workers) {
  caller *self = context;
  shared *common = self->common;
  int before = atomic_fetch_add(&common->inside[self->number], 1);
  sched_yield();
  count(&common->all, worker, workers);
  if (workers == 1 && before != 0) atomic_store(&common->mixed, 1);
  for (int i = 0; i < CALLERS; i++)
    if (i != self->number && atomic_load(&common->inside[i]))
      atomic_store(&common->mixed, 1);
  atomic_fetch_sub(&common->inside[self->number], 1);
}

static void *call_often(void *argument) {
  caller *self = argument;
  for (int i = 0; i < 500; i++)
    nabla_pool_run(self->common->pool, take_turns, self);
  return NULL;
}

Test(pool, concurrent_callers_take_turns) {
  static const uint32_t threads[] = {1, 2, 7};
  for (size_t t = 0; t < 3; t++) {
    shared common = {.pool = make(threads[t])};
    caller callers[CALLERS];
    pthread_t ids[CALLERS];
    for (int i = 0; i < CALLERS; i++) {
      callers[i] = (caller){&common, i};
      cr_assert_eq(pthread_create(&ids[i], NULL, call_often, &callers[i]), 0);
    }
    for (int i = 0; i < CALLERS; i++) pthread_join(ids[i], NULL);
    expect_runs(&common.all, threads[t], CALLERS * 500);
    cr_expect_eq(atomic_load(&common.mixed), 0);
    nabla_pool_destroy(common.pool);
  }
}

/* ---- creation ----------------------------------------------------------- */

Test(pool, zero_threads_means_one_per_cpu) {
  cpu_set_t allowed;
  cr_assert_eq(sched_getaffinity(0, sizeof allowed, &allowed), 0);
  nabla_pool *pool = make(0);
  cr_expect_eq(nabla_pool_size(pool), (uint32_t)CPU_COUNT(&allowed));
  nabla_pool_destroy(pool);
  size_t first = 0;
  while (!CPU_ISSET(first, &allowed)) first++;
  CPU_ZERO(&allowed);
  CPU_SET(first, &allowed);
  cr_assert_eq(sched_setaffinity(0, sizeof allowed, &allowed), 0);
  pool = make(0);
  cr_expect_eq(nabla_pool_size(pool), 1u);
  nabla_pool_destroy(pool);
}

Test(pool, works_with_more_workers_than_cpus) {
  cpu_set_t allowed;
  cr_assert_eq(sched_getaffinity(0, sizeof allowed, &allowed), 0);
  size_t first = 0;
  while (!CPU_ISSET(first, &allowed)) first++;
  CPU_ZERO(&allowed);
  CPU_SET(first, &allowed);
  cr_assert_eq(sched_setaffinity(0, sizeof allowed, &allowed), 0);
  tally all = {0};
  nabla_pool *pool = make(2);
  for (int i = 0; i < 20000; i++) nabla_pool_run(pool, count, &all);
  expect_runs(&all, 2, 20000);
  nabla_pool_destroy(pool);
}

static void read_affinity(void *context, uint32_t worker, uint32_t workers) {
  (void)workers;
  cpu_set_t *sets = context;
  sched_getaffinity(0, sizeof *sets, &sets[worker]);
}

Test(pool, workers_may_run_wherever_the_caller_may) {
  cpu_set_t sets[2];
  nabla_pool *pool = make(2);
  for (int i = 0; i < 100; i++) {
    usleep(300); /* so that the worker wakes up, perhaps beside us */
    nabla_pool_run(pool, read_affinity, sets);
    cr_expect(CPU_EQUAL(&sets[0], &sets[1]));
  }
  nabla_pool_destroy(pool);
}

Test(pool, too_many_threads_are_refused) {
  nabla_pool *pool = NULL;
  nabla_diag diag = NABLA_DIAG_INIT;
  cr_expect_eq(
      nabla_pool_create(NABLA_POOL_MAX_THREADS + 1, NULL, &pool, &diag),
      NABLA_INVALID_ARGUMENT);
  cr_expect_eq(nabla_pool_create(UINT32_MAX, NULL, &pool, NULL),
               NABLA_INVALID_ARGUMENT);
  cr_expect_null(pool);
  cr_expect_not_null(strstr(diag.what, "257"));
}

Test(pool, survives_failing_allocations) {
  for (size_t n = 1;; n++) {
    failing_allocator failing;
    failing_allocator_init(&failing, n);
    nabla_pool *pool = NULL;
    nabla_status status = nabla_pool_create(3, &failing.allocator, &pool, NULL);
    size_t failures = failing.failures;
    cr_expect_eq(status, failures ? NABLA_NO_MEMORY : NABLA_OK);
    cr_expect_eq(pool == NULL, failures != 0);
    nabla_pool_destroy(pool);
    cr_expect(failing_allocator_is_clean(&failing));
    if (!failures) break;
  }
}

static size_t live_threads(void) {
  const temp_folder tasks = {"/proc/self/task"};
  return temp_folder_count(&tasks);
}

/* A joined thread may be listed for a moment longer. */
static size_t settled_threads(size_t expected) {
  for (int i = 0; i < 1000 && live_threads() != expected; i++) usleep(1000);
  return live_threads();
}

#if !SANITIZED /* they reserve terabytes of addresses */
/* Leaves room for a few thread stacks only. */
static void limit_memory(void) {
  unsigned long pages = 0;
  FILE *file = fopen("/proc/self/statm", "r");
  cr_assert(file && fscanf(file, "%lu", &pages) == 1);
  fclose(file);
  struct rlimit stack;
  cr_assert_eq(getrlimit(RLIMIT_STACK, &stack), 0);
  cr_assert_neq(stack.rlim_cur, RLIM_INFINITY);
  rlim_t bytes = pages * (rlim_t)sysconf(_SC_PAGESIZE) + 5 * stack.rlim_cur;
  const struct rlimit limit = {bytes, RLIM_INFINITY};
  cr_assert_eq(setrlimit(RLIMIT_AS, &limit), 0);
}

Test(pool, a_thread_that_cannot_start_is_no_memory) {
  size_t before = live_threads();
  failing_allocator failing;
  failing_allocator_init(&failing, 0);
  limit_memory();
  nabla_pool *pool = NULL;
  nabla_diag diag = NABLA_DIAG_INIT;
  cr_expect_eq(nabla_pool_create(200, &failing.allocator, &pool, &diag),
               NABLA_NO_MEMORY);
  cr_expect_null(pool);
  unsigned number = 0;
  cr_expect_eq(sscanf(diag.what, "cannot start thread %u of 200", &number), 1,
               "%s", diag.what);
  cr_expect(number > 2 && number < 10, "some started: %u", number);
  cr_expect(strstr(diag.next, "fewer threads"), "%s", diag.next);
  cr_expect_eq(settled_threads(before), before);
  cr_expect(failing_allocator_is_clean(&failing));
}
#endif

Test(pool, destroy_ends_its_threads) {
  size_t before = live_threads();
  nabla_pool *pool = make(5);
  cr_expect_eq(live_threads(), before + 4);
  nabla_pool_destroy(pool);
  cr_expect_eq(settled_threads(before), before);
}

typedef struct own_masks {
  sigset_t of[2];
  atomic_int has_begun;
} own_masks;

static void read_mask(void *context, uint32_t worker, uint32_t workers) {
  own_masks *masks = context;
  pthread_sigmask(SIG_SETMASK, NULL, &masks->of[worker]);
  wait_for_1(&masks->has_begun, worker, workers);
}

Test(pool, only_the_caller_gets_signals) {
  sigset_t before, after;
  own_masks masks = {.has_begun = 0};
  pthread_sigmask(SIG_SETMASK, NULL, &before);
  nabla_pool *pool = make(2);
  pthread_sigmask(SIG_SETMASK, NULL, &after);
  cr_expect_eq(sigismember(&after, SIGINT), sigismember(&before, SIGINT));
  nabla_pool_run(pool, read_mask, &masks);
  nabla_pool_destroy(pool);
  static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGALRM, SIGXFSZ};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
    cr_expect_not(sigismember(&masks.of[0], numbers[i]));
    cr_expect(sigismember(&masks.of[1], numbers[i]));
  }
  cr_expect_not(sigismember(&masks.of[1], SIGSEGV), "a crash must show");
}

/* ---- fork --------------------------------------------------------------- */

/* Exit code of a child that runs `work`; a hang is ended by SIGALRM. */
static int status_of_child(int (*work)(nabla_pool *pool), nabla_pool *pool) {
  const pid_t child = fork();
  if (!child) {
    alarm(30);
    _exit(work(pool));
  }
  int status = -1;
  cr_assert_eq(waitpid(child, &status, 0), child);
  return status;
}

static int runs_alone(nabla_pool *pool) {
  for (int i = 0; i < 3; i++) {
    tally all = {0};
    nabla_pool_run(pool, count, &all);
    if (all.runs[0] != 1 || all.runs[1] || all.workers[0] != 1) return 1;
    if (!pthread_equal(all.threads[0], pthread_self())) return 2;
  }
  return 0;
}

/* A child of the child too; and a pool of its own has workers. */
static int works_in_children(nabla_pool *pool) {
  const pid_t child = fork();
  if (!child) {
    alarm(30);
    const int failed = runs_alone(pool);
    nabla_pool_destroy(pool);
    _exit(failed);
  }
  int status;
  if (waitpid(child, &status, 0) != child || status) return 3;
  const int failed = runs_alone(pool);
  if (failed) return failed;
  nabla_pool_destroy(pool);
  nabla_pool *own = NULL;
  if (nabla_pool_create(3, NULL, &own, NULL)) return 4;
  tally all = {0};
  nabla_pool_run(own, count, &all);
  nabla_pool_destroy(own);
  return all.runs[0] == 1 && all.runs[1] == 1 && all.runs[2] == 1 ? 0 : 5;
}

Test(pool, children_work_alone) {
  static const uint32_t threads[] = {1, 2, 7};
  for (size_t i = 0; i < sizeof threads / sizeof *threads; i++) {
    nabla_pool *pool = make(threads[i]);
    tally all = {0};
    cr_expect_eq(status_of_child(works_in_children, pool), 0, "unused");
    nabla_pool_run(pool, count, &all);
    cr_expect_eq(status_of_child(works_in_children, pool), 0, "used");
    nabla_pool_run(pool, count, &all);
    expect_runs(&all, threads[i], 2);
    nabla_pool_destroy(pool);
  }
}

static atomic_int inside, may_end;

static void linger(void *context, uint32_t worker, uint32_t workers) {
  (void)context, (void)worker, (void)workers;
  atomic_fetch_add(&inside, 1);
  while (!atomic_load(&may_end)) sched_yield();
}

static void *run_lingering(void *pool) {
  nabla_pool_run(pool, linger, NULL);
  return NULL;
}

/* The child has the pool's lock as it was: held, by a thread that is no more.
 */
Test(pool, a_region_of_the_parent_does_not_stop_a_child) {
  for (uint32_t threads = 1; threads <= 3; threads += 2) {
    nabla_pool *pool = make(threads);
    pthread_t other;
    atomic_store(&inside, 0);
    atomic_store(&may_end, 0);
    cr_assert_eq(pthread_create(&other, NULL, run_lingering, pool), 0);
    while (atomic_load(&inside) < (int)threads) sched_yield();
    cr_expect_eq(status_of_child(works_in_children, pool), 0);
    atomic_store(&may_end, 1);
    pthread_join(other, NULL);
    tally all = {0};
    nabla_pool_run(pool, count, &all);
    expect_runs(&all, threads, 1);
    nabla_pool_destroy(pool);
  }
}

/* ---- CPUs --------------------------------------------------------------- */

static void put(const temp_folder *root, const char *name, const char *text) {
  char path[4096];
  snprintf(path, sizeof path, "%s%s", root->path, name);
  for (char *slash = path + strlen(root->path) + 1;
       (slash = strchr(slash, '/')) != NULL; *slash++ = '/') {
    *slash = 0;
    (void)!mkdir(path, 0755);
  }
  FILE *file = fopen(path, "w");
  cr_assert_not_null(file, "%s", path);
  cr_assert_geq(fputs(text, file), 0);
  fclose(file);
}

static int remove_one(const char *path, const struct stat *info, int kind,
                      struct FTW *at) {
  (void)info, (void)kind, (void)at;
  return remove(path);
}

static void drop(const temp_folder *root) {
  cr_assert_eq(nftw(root->path, remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
}

#define GROUPS "/proc/self/cgroup"
#define V2     "/sys/fs/cgroup"
#define V1     "/sys/fs/cgroup/cpu,cpuacct"

/* Files in pairs of name and text, and the CPUs that they leave. */
typedef struct quota_case {
  uint32_t cpus;
  const char *files[10];
} quota_case;

static const quota_case quota_cases[] = {
    {UINT32_MAX, {NULL}},
    {UINT32_MAX, {GROUPS, "0::/a\n", V2 "/a/cpu.max", "max 100000\n"}},
    {2, {GROUPS, "0::/a\n", V2 "/a/cpu.max", "200000 100000\n"}},
    {2, {GROUPS, "0::/a\n", V2 "/a/cpu.max", "150000 100000\n"}},
    {1, {GROUPS, "0::/a\n", V2 "/a/cpu.max", "1000 100000\n"}},
    /* any group above */
    {3,
     {GROUPS, "0::/a/b/c\n", V2 "/a/b/c/cpu.max", "800000 100000\n",
      V2 "/a/cpu.max", "300000 100000\n"}},
    {4,
     {GROUPS, "0::/a/b\n", V2 "/a/b/cpu.max", "400000 100000\n",
      V2 "/a/cpu.max", "max 100000\n"}},
    /* in a container: names of the host, or out of the namespace */
    {5, {GROUPS, "0::/docker/x\n", V2 "/cpu.max", "500000 100000\n"}},
    {5, {GROUPS, "0::/../..\n", V2 "/cpu.max", "500000 100000\n"}},
    {2, {GROUPS, "0::/a..b\n", V2 "/a..b/cpu.max", "200000 100000\n"}},
    {5, {GROUPS, "0::/\n", V2 "/cpu.max", "500000 100000\n"}},
    /* version 1, alone and beside version 2 */
    {2,
     {GROUPS, "4:memory:/m\n3:cpu,cpuacct:/j\n1:name=systemd:/\n",
      V1 "/j/cpu.cfs_quota_us", "150000\n", V1 "/j/cpu.cfs_period_us",
      "100000\n"}},
    {6,
     {GROUPS, "3:cpu:/docker/x\n", "/sys/fs/cgroup/cpu/cpu.cfs_quota_us",
      "60000\n", "/sys/fs/cgroup/cpu/cpu.cfs_period_us", "10000\n"}},
    {UINT32_MAX,
     {GROUPS, "3:cpu,cpuacct:/j\n", V1 "/j/cpu.cfs_quota_us", "-1\n",
      V1 "/j/cpu.cfs_period_us", "100000\n"}},
    {UINT32_MAX, /* cpuset is not cpu */
     {GROUPS, "3:cpuset,cpuacct:/j\n", V1 "/j/cpu.cfs_quota_us", "100000\n",
      V1 "/j/cpu.cfs_period_us", "100000\n"}},
    {7,
     {GROUPS, "3:cpu:/\n0::/s\n", V2 "/unified/s/cpu.max", "70 10\n",
      "/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n",
      "/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"}},
    /* what cannot be understood limits nothing */
    {UINT32_MAX, {GROUPS, "0::/a\n", V2 "/a/cpu.max", "100000 0\n"}},
    {UINT32_MAX, {GROUPS, "0::/a\n", V2 "/a/cpu.max", "0 100000\n"}},
    {UINT32_MAX, {GROUPS, "0::/a\n", V2 "/a/cpu.max", "100000\n"}},
    {UINT32_MAX, {GROUPS, "0::/a\n", V2 "/a/cpu.max", ""}},
    {UINT32_MAX,
     {GROUPS, "0::/a\n", V2 "/a/cpu.max", "99999999999999999999 100000\n"}},
    {UINT32_MAX,
     {GROUPS, "0::/a\n", V2 "/a/cpu.max",
      "100000 100000000000000000000000000000000000000000000000000000000000\n"}},
    {UINT32_MAX, {GROUPS, "no lines of groups", V2 "/cpu.max", "1 1\n"}},
    {UINT32_MAX, {GROUPS, "0::a\n::\n:\n", V2 "/cpu.max", "1 1\n"}},
};

Test(pool, quotas_of_control_groups) {
  for (size_t i = 0; i < sizeof quota_cases / sizeof *quota_cases; i++) {
    temp_folder root;
    temp_folder_create(&root);
    const char *const *files = quota_cases[i].files;
    for (; *files; files += 2) put(&root, files[0], files[1]);
    cr_expect_eq(nabla_cpus_quota(root.path), quota_cases[i].cpus,
                 "case %zu: %u", i, nabla_cpus_quota(root.path));
    uint32_t cpus, all;
    cr_assert_eq(nabla_cpus_count("/nowhere", NULL, &all, NULL), NABLA_OK);
    cr_assert_eq(nabla_cpus_count(root.path, NULL, &cpus, NULL), NABLA_OK);
    cr_expect_eq(cpus, all < quota_cases[i].cpus ? all : quota_cases[i].cpus);
    drop(&root);
  }
}

/* A file that never ends, and a path that is too long. */
Test(pool, quotas_that_cannot_be_read) {
  temp_folder root;
  temp_folder_create(&root);
  char text[20000], path[4200];
  memset(text, 'x', sizeof text);
  memcpy(text, "0::/", 4);
  text[sizeof text - 1] = 0;
  put(&root, V2 "/cpu.max", "1 1\n");
  put(&root, GROUPS, text);
  cr_expect_eq(nabla_cpus_quota(root.path), UINT32_MAX);
  text[6000] = 0;
  put(&root, GROUPS, text);
  cr_expect_eq(nabla_cpus_quota(root.path), UINT32_MAX);
  memset(path, '/', sizeof path - 1);
  path[sizeof path - 1] = 0;
  cr_expect_eq(nabla_cpus_quota(path), UINT32_MAX);
  drop(&root);
}

/* ---- splitting ---------------------------------------------------------- */

static void expect_split(uint64_t total, uint32_t parts) {
  uint64_t at = 0, least = UINT64_MAX, most = 0;
  for (uint32_t part = 0; part < parts; part++) {
    uint64_t begin, end;
    nabla_pool_split(total, parts, part, &begin, &end);
    cr_expect_eq(begin, at, "no gap, no overlap");
    cr_expect_geq(end, begin);
    uint64_t size = end - begin;
    least = size < least ? size : least;
    most = size > most ? size : most;
    at = end;
  }
  cr_expect_eq(at, total, "everything is covered");
  cr_expect_leq(most - least, 1u, "shares are even");
}

Test(pool, split_covers_everything_evenly) {
  static const uint64_t totals[] = {
      0,          1,         2, 6, 7, 8, 1000, 4294967296, UINT64_MAX - 1,
      UINT64_MAX, 1ull << 63};
  static const uint32_t parts[] = {1, 2, 3, 7, 256, 1000};
  for (size_t i = 0; i < sizeof totals / sizeof *totals; i++)
    for (size_t j = 0; j < sizeof parts / sizeof *parts; j++)
      expect_split(totals[i], parts[j]);
  for (uint64_t total = 0; total < 100; total++)
    for (uint32_t some = 1; some < 20; some++) expect_split(total, some);
}

Test(pool, split_of_a_part_that_is_not_there_is_empty) {
  uint64_t begin = 1, end = 2;
  nabla_pool_split(10, 3, 3, &begin, &end);
  cr_expect_eq(begin, end);
  nabla_pool_split(10, 0, 0, &begin, &end);
  cr_expect_eq(begin, end);
}

/* ---- threads of the caller ---- */

Test(pool, callbacks_call_every_worker_once) {
  for (int order = 0; order < CALLBACK_ORDERS; order++)
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
      static tally all;
      memset(&all, 0, sizeof all);
      const unsigned before = callback_pool_regions();
      nabla_pool *pool = callback_pool_create((callback_order)order, sizes[i]);
      cr_expect_eq(nabla_pool_size(pool), sizes[i]);
      for (int r = 0; r < 3; r++) nabla_pool_run(pool, count, &all);
      expect_runs(&all, sizes[i], 3);
      cr_expect_eq(callback_pool_regions() - before, sizes[i] > 1 ? 3u : 0u);
      nabla_pool_destroy(pool);
    }
}

Test(pool, a_forked_child_does_not_call_back) {
  nabla_pool *pool = callback_pool_create(CALLBACK_THREADS, 4);
  const pid_t child = fork();
  if (!child) {
    static tally all;
    alarm(60);
    nabla_pool_run(pool, count, &all);
    const int good = !callback_pool_regions() && all.runs[0] == 1 &&
                     all.workers[0] == 1 && !all.runs[1];
    nabla_pool_destroy(pool);
    _exit(!good);
  }
  int status;
  cr_assert_eq(waitpid(child, &status, 0), child);
  cr_expect(WIFEXITED(status) && !WEXITSTATUS(status));
  nabla_pool_destroy(pool);
}

static void run_nothing(void *self, nabla_pool_task task, void *context,
                        uint32_t workers) {
  (void)self, (void)task, (void)context, (void)workers;
}

Test(pool, wrong_callbacks_are_refused) {
  static const nabla_pool_callbacks wrong[] = {
      {.struct_size = 0, .workers = 2, .run = run_nothing},
      {.struct_size = sizeof *wrong + 8, .workers = 2, .run = run_nothing},
      {.struct_size = sizeof *wrong, .workers = 0, .run = run_nothing},
      {.struct_size = sizeof *wrong,
       .workers = NABLA_POOL_MAX_THREADS + 1,
       .run = run_nothing},
      {.struct_size = sizeof *wrong, .workers = 2},
  };
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    nabla_pool *pool = NULL;
    nabla_diag diag = NABLA_DIAG_INIT;
    cr_expect_eq(nabla_pool_from_callbacks(&wrong[i], NULL, &pool, &diag),
                 NABLA_INVALID_ARGUMENT);
    cr_expect_null(pool);
    cr_expect_neq(diag.what[0], 0);
  }
}
