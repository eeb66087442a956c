/* The verb pool: what a parallel region costs, and whether idle workers sleep.
 */
#include <math.h>
#include <stdlib.h>
#include <time.h>

#include "bench/nabla-bench/bench.h"

enum { WARM = 1000, REGIONS = 20000, PAUSES = 300, FEWEST = 10, IDLES = 5 };
#define MOST_SECONDS 2.0 /* of one row */
#define BODY_SECONDS 50e-6
#define PAUSE_NS     1000000   /* 1 ms */
#define IDLE_NS      100000000 /* 100 ms */

/* Of many regions, seconds. Others may use the machine: hence the fastest, of
 * which a hundredth is faster. */
typedef struct timing {
  double median, spread, fastest;
} timing;

typedef struct figures {
  timing empty;
  timing rested;            /* after 1 ms in which there was none    */
  timing body, body_rested; /* the same where each worker has 50 us  */
  double awake;    /* of CPU time of one worker after the last region   */
  double idle_cpu; /* share of a CPU that all workers use after that    */
} figures;

static double seconds(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void rest(long ns) {
  const struct timespec time = {0, ns};
  (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &time, NULL);
}

/* As long as a pause, but this thread goes on: a program computes meanwhile. */
static void work_alone(double length) {
  const double end = seconds(CLOCK_MONOTONIC) + length;
  while (seconds(CLOCK_MONOTONIC) < end) continue;
}

static void nothing(void *context, uint32_t worker, uint32_t workers) {
  (void)context, (void)worker, (void)workers;
}

static void body(void *context, uint32_t worker, uint32_t workers) {
  (void)context, (void)worker, (void)workers;
  work_alone(BODY_SECONDS);
}

/* `count` regions, each after `pause` seconds; fewer where others use the
 * machine so much that they take too long. */
static timing region(nabla_pool *pool, nabla_pool_task task, uint32_t count,
                     double pause, double *times) {
  const double begin = seconds(CLOCK_MONOTONIC);
  uint32_t done = 0;
  while (done < count &&
         (done < FEWEST || seconds(CLOCK_MONOTONIC) - begin < MOST_SECONDS)) {
    if (pause > 0) work_alone(pause);
    const double start = seconds(CLOCK_MONOTONIC);
    nabla_pool_run(pool, task, NULL);
    times[done++] = seconds(CLOCK_MONOTONIC) - start;
  }
  const double median = bench_quantile(times, done, 0.5);
  return (timing){.median = median,
                  .spread = (bench_quantile(times, done, 0.75) -
                             bench_quantile(times, done, 0.25)) /
                            median,
                  .fastest = bench_quantile(times, done, 0.01)};
}

/* CPU time of all threads but this one. */
static double others_cpu(void) {
  return seconds(CLOCK_PROCESS_CPUTIME_ID) - seconds(CLOCK_THREAD_CPUTIME_ID);
}

static void watch_idle(nabla_pool *pool, uint32_t threads, figures *out) {
  double awake[IDLES], later[IDLES];
  for (int i = 0; i < IDLES; i++) {
    nabla_pool_run(pool, nothing, NULL);
    const double begin = others_cpu();
    rest(IDLE_NS);
    const double middle = others_cpu();
    rest(IDLE_NS);
    awake[i] = (middle - begin) / (threads > 1 ? threads - 1 : 1);
    later[i] = (others_cpu() - middle) / (IDLE_NS * 1e-9);
  }
  /* clocks of CPU time do not tick together: a little less than nothing is
   * nothing */
  out->awake = fmax(bench_quantile(awake, IDLES, 0.5), 0);
  out->idle_cpu = fmax(bench_quantile(later, IDLES, 0.5), 0);
}

static void measure(nabla_pool *pool, double *times, figures *out) {
  const double pause = PAUSE_NS * 1e-9;
  (void)region(pool, nothing, WARM, 0, times);
  out->empty = region(pool, nothing, REGIONS, 0, times);
  out->rested = region(pool, nothing, PAUSES, pause, times);
  (void)region(pool, nothing, WARM, 0, times);
  out->body = region(pool, body, PAUSES, 0, times);
  out->body_rested = region(pool, body, PAUSES, pause, times);
  watch_idle(pool, nabla_pool_size(pool), out);
}

static const struct {
  const char *name, *text;
  size_t offset;
  double factor, target; /* 0: none */
} rows[] = {
    {"empty_us", "empty region, back to back, us",
     offsetof(figures, empty.median), 1e6, 0.5},
    {"fastest_us", "  the fastest hundredth, us",
     offsetof(figures, empty.fastest), 1e6, 0},
    {"empty_spread", "  spread", offsetof(figures, empty.spread), 1, 0},
    {"empty_after_1_ms_us", "empty region after 1 ms, us",
     offsetof(figures, rested.median), 1e6, 0},
    {"body_us", "50 us for each worker, us", offsetof(figures, body.median),
     1e6, 0},
    {"body_after_1_ms_us", "the same after 1 ms, us",
     offsetof(figures, body_rested.median), 1e6, 0},
    {"awake_us", "a worker's CPU time after the last region, us",
     offsetof(figures, awake), 1e6, 1000},
    {"idle_cpu", "CPUs in use from 100 ms later on",
     offsetof(figures, idle_cpu), 1, 0.001},
};
enum { ROWS = sizeof rows / sizeof *rows };

static double value_of(const figures *f, size_t row) {
  return *(const double *)(const void *)((const char *)f + rows[row].offset) *
         rows[row].factor;
}

static void print_text(const figures *f, uint32_t threads) {
  printf("%u threads; medians\n%-48s %10s %10s\n", threads, "", "", "target");
  for (size_t i = 0; i < ROWS; i++) {
    printf("%-48s %10.3f", rows[i].text, value_of(f, i));
    if (rows[i].target > 0) printf(" %10s%g", "<= ", rows[i].target);
    printf("\n");
  }
}

static nabla_status print_json(const figures *f, uint32_t threads,
                               nabla_diag *diag) {
  nabla_json_out out;
  bench_json_begin(&out, BENCH_VERB_pool);
  bench_json_count(&out, "threads", threads);
  for (size_t i = 0; i < ROWS; i++)
    bench_json_number(&out, rows[i].name, value_of(f, i));
  return bench_json_end(&out, diag);
}

nabla_status bench_run_pool(const bench_settings *s, nabla_diag *diag) {
  const uint32_t threads =
      bench_given(s, BENCH_OPTION_threads) ? s->problem.threads : 2;
  nabla_pool *pool;
  figures f = {0};
  double *times = calloc(REGIONS, sizeof *times);
  if (!times) return nabla_fail(diag, NABLA_NO_MEMORY, "no memory");
  nabla_status status = nabla_pool_create(threads, NULL, &pool, diag);
  if (!status) {
    measure(pool, times, &f);
    nabla_pool_destroy(pool);
  }
  free(times);
  if (status) return status;
  if (s->json) return print_json(&f, threads, diag);
  print_text(&f, threads);
  return NABLA_OK;
}
