/* What one rank does, and measures, for the verb collectives. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench/nabla-bench/collectives/collectives.h"
#include "lib/runtime/collectives/collective.h"
#include "nabla/matmul.h"

const char *const bench_collective_names[BENCH_COLLECTIVE_KINDS] = {
    "all_reduce", "reduce_scatter", "all_gather",
    "all_to_all", "permute",        "broadcast"};
const uint64_t bench_collective_sizes[BENCH_COLLECTIVE_SIZES] = {
    256, 4096, 65536, 1048576, 4194304};

#define MOST_BYTES ((size_t)4194304)
#define COPIED     ((size_t)1 << 25)
#define ROWS       128u /* of the product, whose weight has SIDE x SIDE */
#define SIDE       512u

/* One rank's arrays. */
typedef struct bench_rank {
  bench_mesh *mesh;
  uint32_t number;
  void *in, *out; /* of MOST_BYTES */
  double *times;
} bench_rank;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

double bench_ring_bytes(size_t kind, uint64_t bytes, uint32_t n) {
  const double share = (double)bytes * (n - 1) / n;
  if (kind == NABLA_COLLECTIVE_ALL_REDUCE) return 2 * share;
  return kind >= NABLA_COLLECTIVE_PERMUTE ? (double)bytes : share;
}

/* The group of the rank: those that differ from it along the axis alone. */
static nabla_collective exchange_of(const bench_rank *r, const bench_axis *axis,
                                    size_t kind, uint64_t bytes,
                                    int64_t dims[2]) {
  const uint32_t n = axis->size, index = r->number / axis->stride % n;
  nabla_collective c = {.kind = (nabla_collective_kind)kind,
                        .dtype = NABLA_DTYPE_F32,
                        .rank = r->number,
                        .index = index,
                        .count = n,
                        .in = r->in,
                        .out = r->out,
                        .outer = 1,
                        .rows = bytes / 4,
                        .inner = 1,
                        .dim_count = 2,
                        .concat = 1,
                        .dims = dims};
  for (uint32_t i = 0; i < n; i++)
    c.members[i] = r->number + (i - index) * axis->stride;
  if (kind == NABLA_COLLECTIVE_REDUCE_SCATTER ||
      kind == NABLA_COLLECTIVE_ALL_GATHER)
    c.rows /= n;
  if (kind == NABLA_COLLECTIVE_PERMUTE) c.source = (index + 1) % n;
  dims[0] = n;
  dims[1] = (int64_t)(bytes / 4 / n);
  return c;
}

static nabla_status measure(const bench_rank *r, const nabla_collective *c,
                            uint64_t bytes, double *out, nabla_diag *diag) {
  const uint64_t repeats = bytes < 65536 ? 64 : bytes < 1048576 ? 8 : 1;
  const uint64_t turns = r->mesh->turns;
  for (uint64_t turn = 0; turn <= turns; turn++) { /* the first one warms up */
    const double start = now();
    for (uint64_t i = 0; i < repeats; i++)
      NABLA_TRY(nabla_comm_run(r->mesh->comm, c, diag));
    if (turn) r->times[turn - 1] = (now() - start) / (double)repeats;
  }
  *out = bench_quantile(r->times, (size_t)turns, .5);
  return NABLA_OK;
}

static nabla_status measure_axis(const bench_rank *r, bench_axis *axis,
                                 nabla_diag *diag) {
  for (size_t kind = 0; kind < BENCH_COLLECTIVE_KINDS; kind++)
    for (size_t i = 0; i < BENCH_COLLECTIVE_SIZES; i++) {
      int64_t dims[2];
      double seconds = 0;
      const uint64_t bytes = bench_collective_sizes[i];
      const nabla_collective c = exchange_of(r, axis, kind, bytes, dims);
      NABLA_TRY(measure(r, &c, bytes, &seconds, diag));
      if (r->number == r->mesh->first_rank) axis->seconds[kind][i] = seconds;
    }
  return NABLA_OK;
}

/* ---- what a rank computes ---- */

static double copy_rate(bench_rank *r) {
  char *from = malloc(COPIED), *to = malloc(COPIED);
  const uint64_t turns = r->mesh->turns;
  for (uint64_t turn = 0; from && to && turn <= turns; turn++) {
    if (!turn) memset(from, 1, COPIED);
    const double start = now();
    memcpy(to, from, COPIED);
    if (turn) r->times[turn - 1] = 2.0 * (double)COPIED / (now() - start);
  }
  const int is_done = from && to;
  free(from);
  free(to);
  return is_done ? bench_quantile(r->times, (size_t)turns, .5) : 0;
}

static nabla_status time_product(const bench_rank *r,
                                 const nabla_matmul_plan *plan, double *out,
                                 nabla_diag *diag) {
  nabla_status status = NABLA_OK;
  float *x = calloc(ROWS * SIDE, sizeof *x), *y = calloc(ROWS * SIDE, 4);
  const uint64_t bytes = nabla_matmul_plan_workspace_size(plan, ROWS);
  void *room = aligned_alloc(NABLA_MATMUL_WORKSPACE_ALIGNMENT, bytes + 64);
  if (!x || !y || !room)
    status = nabla_fail(diag, NABLA_NO_MEMORY, "no memory");
  for (uint64_t turn = 0; !status && turn <= r->mesh->turns; turn++) {
    const double start = now();
    status = nabla_matmul_plan_run(plan, x, ROWS, y, room, diag);
    if (turn) r->times[turn - 1] = 2.0 * ROWS * SIDE * SIDE / (now() - start);
  }
  free(x);
  free(y);
  free(room);
  if (!status) *out = bench_quantile(r->times, (size_t)r->mesh->turns, .5);
  return status;
}

static nabla_status product_rate(const bench_rank *r, double *out,
                                 nabla_diag *diag) {
  const nabla_weight_desc weight = {
      .rank = 2,
      .shape = {SIDE, SIDE},
      .dtype = NABLA_DTYPE_F32,
      .component_count = 1,
      .components = {{.data = r->in, .bytes = 4ull * SIDE * SIDE}}};
  const nabla_matmul_options options = {.struct_size = sizeof options};
  nabla_matmul_plan *plan = NULL;
  NABLA_TRY(nabla_matmul_plan_create(&weight, &options, &plan, diag));
  const nabla_status status = time_product(r, plan, out, diag);
  nabla_matmul_plan_destroy(plan);
  return status;
}

static nabla_status run(bench_rank *r, nabla_diag *diag) {
  bench_mesh *mesh = r->mesh;
  double product = 0;
  for (uint32_t i = 0; i < mesh->axis_count; i++)
    NABLA_TRY(measure_axis(r, &mesh->axes[i], diag));
  const double copied = copy_rate(r);
  NABLA_TRY(product_rate(r, &product, diag));
  if (r->number != mesh->first_rank) return NABLA_OK;
  mesh->bytes_per_second = copied;
  mesh->operations_per_second = product;
  return NABLA_OK;
}

nabla_status bench_measure_rank(bench_mesh *mesh, uint32_t rank,
                                nabla_diag *diag) {
  bench_rank r = {.mesh = mesh,
                  .number = rank,
                  .in = calloc(MOST_BYTES, 1),
                  .out = calloc(MOST_BYTES, 1),
                  .times = calloc((size_t)mesh->turns, sizeof(double))};
  nabla_status status = r.in && r.out && r.times
                            ? run(&r, diag)
                            : nabla_fail(diag, NABLA_NO_MEMORY, "no memory");
  if (status) nabla_comm_fail(mesh->comm, rank, diag->what);
  free(r.in);
  free(r.out);
  free(r.times);
  return status;
}
