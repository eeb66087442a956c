/* The verb report: the tables of docs/BENCHMARKS.md, as Markdown, and the
 * chart.
 */
#include <stdlib.h>
#include <string.h>

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
    NABLA_WEIGHT_LAYOUT_##layout, isa, transposed},                           \
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

static void print_peers(const bench_measured *m) {
  const char *separator = "";
  for (uint32_t i = 0; i < m->count; i++) {
    if (!m->peers[i] || m->rows[i].failed) continue;
    printf("%s%s %.2f", separator, m->rows[i].name,
           bench_measured_ratio(m, (int)i));
    separator = ", ";
  }
}

static void print_row(const bench_measured *m, double target) {
  const bench_problem *p = &m->problem;
  printf("| %s%s | %s%s%s, %s | %llu x %llu | %llu | %u |",
         bench_kernel_format(m->kernel), p->transposed ? " transposed" : "",
         nabla_numerics_name(p->numerics), strcmp(p->isa, "best") ? " " : "",
         strcmp(p->isa, "best") ? p->isa : "",
         nabla_weight_layout_name(p->layout), (unsigned long long)p->n,
         (unsigned long long)p->k, (unsigned long long)p->m, p->threads);
  if (m->kernel_row < 0) {
    printf(" | | | | | no kernel: %s |\n",
           m->skipped_count ? m->skipped[0].why : "");
    return;
  }
  const contestant *kernel = &m->rows[m->kernel_row];
  printf(" %.0f | %.1f | %.0f | %.2f (%s) |", kernel->median * 1e6,
         kernel->bytes / kernel->median * 1e-9,
         kernel->flops / kernel->median * 1e-9,
         bench_measured_share(m, m->kernel_row), m->rows[m->limit_row].name);
  if (target > 0)
    printf(" %.2f | ", target);
  else
    printf(" | ");
  print_peers(m);
  printf(" |\n");
}

/* What `--rows` does not name, or a problem that this program cannot make
 * (encodings that it does not know), is no error here. */
static nabla_status run_row(const bench_settings *s, const report_row *row,
                            nabla_diag *diag) {
  static const uint64_t rows_of_weight[] = {4096, 11008};
  for (int shape = 0; shape < row->shapes; shape++)
    for (uint32_t threads = 1; threads <= 2; threads++) {
      bench_problem p = row->problem;
      bench_measured measured;
      p.n = rows_of_weight[shape];
      p.threads = threads;
      nabla_status status = bench_measure(&p, s->peers, bytes_of(s),
                                          turns_of(s), &measured, diag);
      if (status == NABLA_INVALID_ARGUMENT || status == NABLA_UNSUPPORTED) {
        printf("| %s | %s | | | | | | | | | not measured: %s |\n", p.encoding,
               nabla_numerics_name(p.numerics), diag->what);
        return NABLA_OK;
      }
      if (status) return status;
      print_row(&measured, threads == 1 ? row->one : row->two);
      fflush(stdout);
      bench_measured_free(&measured);
    }
  return NABLA_OK;
}

static nabla_status print_tables(const bench_settings *s, nabla_diag *diag) {
  const char *table = "";
  for (size_t i = 0; i < REPORT_ROWS; i++) {
    const report_row *row = &report_rows[i];
    if (s->rows && strcmp(s->rows, row->table) != 0) continue;
    if (strcmp(table, row->table) != 0) print_head(row->table);
    table = row->table;
    NABLA_TRY(run_row(s, row, diag));
  }
  return NABLA_OK;
}

/* ---- the chart ---- */

typedef struct curve {
  chart_line line;
  double us[CHART_MAX_POINTS];
} curve;

/* A curve without a kernel has no points. */
static nabla_status measure_curve(const bench_settings *s,
                                  const bench_problem *problem, curve *out,
                                  nabla_diag *diag) {
  for (size_t i = 0; i < MS; i++) {
    bench_problem p = *problem;
    bench_measured measured;
    p.m = ms[i];
    nabla_status status =
        bench_measure(&p, "none", bytes_of(s), turns_of(s), &measured, diag);
    if (status == NABLA_INVALID_ARGUMENT || status == NABLA_UNSUPPORTED)
      return NABLA_OK;
    if (status) return status;
    snprintf(out->line.name, sizeof out->line.name, "%.30s %s%s",
             bench_kernel_format(measured.kernel),
             nabla_numerics_name(p.numerics),
             p.layout == NABLA_WEIGHT_LAYOUT_PREPACKED ? ", prepacked" : "");
    if (measured.kernel_row >= 0) {
      const unsigned at = out->line.count++;
      out->line.m[at] = ms[i];
      out->line.share[at] =
          bench_measured_share(&measured, measured.kernel_row);
      out->us[at] = measured.rows[measured.kernel_row].median * 1e6;
    }
    bench_measured_free(&measured);
  }
  return NABLA_OK;
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

static nabla_status draw_chart(const bench_settings *s, nabla_diag *diag) {
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
    NABLA_TRY(measure_curve(s, &curves[i], &all[i], diag));
    if (!all[i].line.count) continue;
    print_curve(&all[i]);
    lines[count++] = all[i].line;
  }
  return chart_write(s->svg, lines, count, diag);
}

nabla_status bench_run_report(const bench_settings *s, nabla_diag *diag) {
  if (!s->rows || strcmp(s->rows, "chart") != 0)
    NABLA_TRY(print_tables(s, diag));
  return s->svg ? draw_chart(s, diag) : NABLA_OK;
}
