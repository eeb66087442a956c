/* The verb report: the tables of docs/BENCHMARKS.md, as Markdown, and the
 * chart.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/nabla-bench/chart.h"
#include "bench/nabla-bench/measure.h"

#define USUAL_TURNS 5
#define USUAL_MIB   400
#define ROWS        BENCH_BLOCK_ROW

typedef struct report_row {
  const char *table;
  bench_problem problem;
  int shapes;
  double one, two;
} report_row;

static const report_row report_rows[] = {
#define ROW(table, encoding, block, scale, numerics, layout, isa, transposed, \
            m, shapes, one, two)                                              \
  {table,                                                                     \
   {encoding, block, 4096, 4096, m, 1, scale, NABLA_NUMERICS_##numerics,      \
    NABLA_WEIGHT_LAYOUT_##layout, isa, NULL, transposed},                     \
   shapes,                                                                    \
   one,                                                                       \
   two},
#define CURVE(encoding, block, numerics, layout)
#include "bench/nabla-bench/report.def"
#undef ROW
#undef CURVE
};
enum { REPORT_ROWS = sizeof report_rows / sizeof *report_rows };

static const bench_problem curves[] = {
#define ROW(table, encoding, block, scale, numerics, layout, isa, transposed, \
            m, shapes, one, two)
#define CURVE(encoding, block, numerics, layout) \
  {encoding,                                     \
   block,                                        \
   4096,                                         \
   4096,                                         \
   1,                                            \
   1,                                            \
   "f32",                                        \
   NABLA_NUMERICS_##numerics,                    \
   NABLA_WEIGHT_LAYOUT_##layout,                 \
   "best",                                       \
   NULL,                                         \
   0},
#include "bench/nabla-bench/report.def"
#undef ROW
#undef CURVE
};
enum { CURVES = sizeof curves / sizeof *curves };

static const unsigned ms[] = {1,  2,  3,  4,  5,  6,   8,   12, 16,
                              24, 31, 32, 48, 64, 128, 256, 512};
enum { MS = sizeof ms / sizeof *ms };

static uint64_t bytes_of(const bench_settings *s) {
  return (s->size_mib ? s->size_mib : USUAL_MIB) << 20;
}

static uint32_t turns_of(const bench_settings *s) {
  return s->turns ? (uint32_t)s->turns : USUAL_TURNS;
}

/* ---- tables ---- */

static void print_head(const char *table) {
  printf(
      "\n%s (limit: %s)\n\n"
      "| weight | computed in | N x K | M | threads | us | GB/s | GFLOP/s | "
      "of limit | target | times as fast as |\n"
      "|---|---|---|---|---|---|---|---|---|---|---|\n",
      !strcmp(table, "gemv") ? "GEMV" : "GEMM",
      "the larger of reading the weight and of multiplying in registers");
}

/* What a problem's process found out. */
typedef struct outcome {
  int done; /* it came to its end */
  nabla_status status;
  char why[512]; /* there are no figures */
  char format[80], limit[64], peers[512];
  int has_kernel;
  double us, gb_per_s, gflop_per_s, share;
} outcome;

static void list_peers(const bench_measured *m, outcome *out) {
  size_t used = 0;
  for (uint32_t i = 0; i < m->count && used < sizeof out->peers; i++)
    if (m->peers[i] && !m->rows[i].failed)
      used += (size_t)snprintf(out->peers + used, sizeof out->peers - used,
                               "%s%s %.2f", used ? ", " : "", m->rows[i].name,
                               bench_measured_ratio(m, (int)i));
}

static void fill_outcome(const bench_measured *m, outcome *out) {
  const char *why = "it failed";
  for (uint32_t i = 0; i < m->skipped_count; i++)
    if (!strcmp(m->skipped[i].name, "kernel")) why = m->skipped[i].why;
  snprintf(out->format, sizeof out->format, "%s",
           bench_kernel_format(m->kernel));
  snprintf(out->limit, sizeof out->limit, "%s", m->rows[m->limit_row].name);
  snprintf(out->why, sizeof out->why, "no kernel: %s", why);
  if (m->kernel_row < 0 || m->rows[m->kernel_row].failed) return;
  const contestant *kernel = &m->rows[m->kernel_row];
  out->has_kernel = 1;
  out->us = kernel->median * 1e6;
  out->gb_per_s = kernel->bytes / kernel->median * 1e-9;
  out->gflop_per_s = kernel->flops / kernel->median * 1e-9;
  out->share = bench_measured_share(m, m->kernel_row);
  list_peers(m, out);
}

/* In a process of its own: a kernel that crashes costs its row only. */
static void measure_apart(const bench_settings *s, const bench_problem *p,
                          const char *peers, outcome *shared) {
  *shared = (outcome){.why = "its process failed"};
  fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    bench_measured measured;
    nabla_diag diag = NABLA_DIAG_INIT;
    shared->status =
        bench_measure(p, peers, bytes_of(s), turns_of(s), &measured, &diag);
    if (shared->status)
      snprintf(shared->why, sizeof shared->why, "%s", diag.what);
    else
      fill_outcome(&measured, shared);
    if (!shared->status) bench_measured_free(&measured);
    shared->done = 1;
    _exit(0);
  }
  while (child > 0 && waitpid(child, NULL, 0) < 0 && errno == EINTR) continue;
  if (child < 0 || !shared->done) shared->has_kernel = 0;
}

static void print_row(const bench_problem *p, const outcome *o, double target) {
  printf("| %s%s | %s%s%s, %s | %llu x %llu | %llu | %u |",
         *o->format ? o->format : p->encoding,
         p->transposed ? " transposed" : "", nabla_numerics_name(p->numerics),
         strcmp(p->isa, "best") ? " " : "",
         strcmp(p->isa, "best") ? p->isa : "",
         nabla_weight_layout_name(p->layout), (unsigned long long)p->n,
         (unsigned long long)p->k, (unsigned long long)p->m, p->threads);
  if (!o->has_kernel) {
    printf(" | | | | | %s |\n", o->why);
    return;
  }
  printf(" %.0f | %.1f | %.0f | %.2f (%s) |", o->us, o->gb_per_s,
         o->gflop_per_s, o->share, o->limit);
  if (target > 0)
    printf(" %.2f | ", target);
  else
    printf(" | ");
  printf("%s |\n", o->peers);
}

static void run_row(const bench_settings *s, const report_row *row,
                    outcome *shared) {
  static const uint64_t rows_of_weight[] = {4096, 11008};
  for (int shape = 0; shape < row->shapes; shape++)
    for (uint32_t threads = 1; threads <= 2; threads++) {
      bench_problem p = row->problem;
      p.n = rows_of_weight[shape];
      p.threads = threads;
      measure_apart(s, &p, s->peers, shared);
      print_row(&p, shared, threads == 1 ? row->one : row->two);
      fflush(stdout);
    }
}

static void print_tables(const bench_settings *s, outcome *shared) {
  const char *table = "";
  for (size_t i = 0; i < REPORT_ROWS; i++) {
    const report_row *row = &report_rows[i];
    if (s->rows && strcmp(s->rows, row->table) != 0) continue;
    if (strcmp(table, row->table) != 0) print_head(row->table);
    table = row->table;
    run_row(s, row, shared);
  }
}

/* ---- the chart ---- */

typedef struct curve {
  chart_line line;
  double us[CHART_MAX_POINTS];
} curve;

/* A curve without a kernel has no points. */
static void measure_curve(const bench_settings *s, const bench_problem *problem,
                          outcome *shared, curve *out) {
  for (size_t i = 0; i < MS; i++) {
    bench_problem p = *problem;
    p.m = ms[i];
    measure_apart(s, &p, "none", shared);
    if (!shared->has_kernel) continue;
    snprintf(out->line.name, sizeof out->line.name, "%.30s %s%s",
             shared->format, nabla_numerics_name(p.numerics),
             p.layout == NABLA_WEIGHT_LAYOUT_PREPACKED ? ", prepacked" : "");
    const unsigned at = out->line.count++;
    out->line.m[at] = ms[i];
    out->line.share[at] = shared->share;
    out->us[at] = shared->us;
  }
}

static void print_curve(const curve *c) {
  printf("| %s |", c->line.name);
  for (size_t i = 0, at = 0; i < MS; i++) {
    if (at < c->line.count && c->line.m[at] == ms[i]) {
      printf(" %.2f (%.0f) |", c->line.share[at], c->us[at]);
      at++;
    } else {
      printf(" |");
    }
  }
  printf("\n");
  fflush(stdout);
}

static nabla_status draw_chart(const bench_settings *s, outcome *shared,
                               nabla_diag *diag) {
  static curve all[CURVES];
  chart_line lines[CURVES];
  unsigned count = 0;
  printf(
      "\nBy M, N = K = 4096, one thread: share of the limit, and us\n\n"
      "| M |");
  for (size_t i = 0; i < MS; i++) printf(" %u |", ms[i]);
  printf("\n|---|");
  for (size_t i = 0; i < MS; i++) printf("---|");
  printf("\n");
  for (size_t i = 0; i < CURVES; i++) {
    measure_curve(s, &curves[i], shared, &all[i]);
    if (!all[i].line.count) continue;
    print_curve(&all[i]);
    lines[count++] = all[i].line;
  }
  return chart_write(s->svg, lines, count, diag);
}

nabla_status bench_run_report(const bench_settings *s, nabla_diag *diag) {
  outcome *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE,
                         MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED)
    return nabla_fail(diag, NABLA_NO_MEMORY, "no memory");
  nabla_status status = NABLA_OK;
  if (!s->rows || strcmp(s->rows, "chart") != 0) print_tables(s, shared);
  if (s->svg) status = draw_chart(s, shared, diag);
  munmap(shared, sizeof *shared);
  return status;
}
