/* Turns; see contest.h. Each turn is long enough to be past what the one before
 * left behind, and short enough that the machine is the same for all of it. */
#include "bench/nabla-bench/contest.h"

#include <stdlib.h>
#include <string.h>

#define TURN_SECONDS 0.03
#define LEAST_RUNS   3
#define LONG_SECONDS 2.0

static void leave_out(contestant *c, const nabla_diag *diag) {
  c->failed = 1;
  snprintf(c->why, sizeof c->why, "%s", diag->what);
}

/* How many runs make a turn, from the second of two. */
static void calibrate(contestant *c, uint32_t turns, double *out_first) {
  double time;
  nabla_diag diag = NABLA_DIAG_INIT;
  if (c->run(c->self, 0, 1, out_first, &diag)) {
    leave_out(c, &diag);
    return;
  }
  c->turns = c->count = 1;
  c->next = 1;
  if (c->fixed) {
    c->turns = turns;
    c->count = c->fixed;
    return;
  }
  if (*out_first > LONG_SECONDS) return;
  if (c->run(c->self, 1, 1, &time, &diag)) {
    leave_out(c, &diag);
    return;
  }
  const double wanted = time > 0 ? TURN_SECONDS / time : LEAST_RUNS;
  c->count = wanted < LEAST_RUNS         ? LEAST_RUNS
             : wanted > CONTEST_MAX_RUNS ? CONTEST_MAX_RUNS
                                         : (uint32_t)wanted;
  c->turns = turns;
  c->next = 2;
}

static nabla_status prepare(contestant *c, uint32_t turns, nabla_diag *diag) {
  double first;
  calibrate(c, turns, &first);
  if (c->failed) return NABLA_OK;
  c->medians = calloc(turns, sizeof(double));
  c->all = calloc((size_t)turns * c->count, sizeof(double));
  if (!c->medians || !c->all)
    return nabla_fail(diag, NABLA_NO_MEMORY, "no memory for times");
  if (first > LONG_SECONDS && !c->fixed) {
    c->medians[0] = c->all[0] = first;
    c->all_count = 1;
  }
  return NABLA_OK;
}

static void take_turn(contestant *c, uint32_t turn) {
  double sorted[CONTEST_MAX_RUNS];
  nabla_diag diag = NABLA_DIAG_INIT;
  double *times = c->all + c->all_count;
  if (c->run(c->self, c->next, c->count, times, &diag)) {
    leave_out(c, &diag);
    return;
  }
  c->next += c->count;
  c->all_count += c->count;
  memcpy(sorted, times, c->count * sizeof *times);
  c->medians[turn] = bench_quantile(sorted, c->count, 0.5);
}

static void sum_up(contestant *c) {
  c->median = bench_quantile(c->all, c->all_count, 0.5);
  c->fastest = bench_quantile(c->all, c->all_count, 0);
  c->spread = (bench_quantile(c->all, c->all_count, 0.75) -
               bench_quantile(c->all, c->all_count, 0.25)) /
              c->median;
}

nabla_status contest_run(contestant *all, size_t count, uint32_t turns,
                         nabla_diag *diag) {
  for (size_t i = 0; i < count; i++) {
    if (!all[i].failed) NABLA_TRY(prepare(&all[i], turns, diag));
  }
  for (uint32_t turn = 0; turn < turns; turn++)
    for (size_t i = 0; i < count; i++)
      if (!all[i].failed && (turn || !all[i].all_count) && turn < all[i].turns)
        take_turn(&all[i], turn);
  for (size_t i = 0; i < count; i++)
    if (!all[i].failed) sum_up(&all[i]);
  return NABLA_OK;
}

double contest_ratio(const contestant *a, const contestant *b, uint32_t turns) {
  double *ratios = calloc(turns, sizeof *ratios);
  if (!ratios || a->failed || b->failed) {
    free(ratios);
    return 0;
  }
  if (a->turns < turns) turns = a->turns;
  if (b->turns < turns) turns = b->turns;
  for (uint32_t i = 0; i < turns; i++)
    ratios[i] = a->medians[i] / b->medians[i];
  const double result = bench_quantile(ratios, turns, 0.5);
  free(ratios);
  return result;
}

void contest_deinit(contestant *all, size_t count) {
  for (size_t i = 0; i < count; i++) {
    free(all[i].medians);
    free(all[i].all);
    all[i].medians = all[i].all = NULL;
  }
}
