/* The verb compile: one fused linear layer; the first time in the process,
 * again, and from the cache of objects; and the kernel of a plan alone. */
#include <errno.h>
#include <ftw.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench/nabla-bench/bench.h"
#include "nabla/compiler.h"
#include "nabla/matmul.h"

#define USUAL_TURNS 21

#define PLAN_N 4096u
#define PLAN_K 4096u

typedef struct timed {
  const char *m, *when;
  double ms; /* first, or the median */
  double spread;
  nabla_compile_report steps; /* of the last */
} timed;

static double milliseconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

/* y = silu(x W^T + b) with M rows of x, "?" for any number. */
static int program_of(char *out, size_t size, const char *m) {
  return snprintf(
      out, size,
      "!w = !nabla.implicit<4096x4096xf32, #nabla.nf4<block = 64>>\n"
      "func.func @f(%%x: tensor<%sx4096xf32>, %%w: !w, %%b: tensor<4096xf32>)\n"
      "    -> tensor<%sx4096xf32> {\n"
      "  %%y = nabla.dot_general %%x, %%w contracting = [1] x [1]\n"
      "      : tensor<%sx4096xf32>, !w\n"
      "  %%i = arith.constant 0 : index\n"
      "  %%m = tensor.dim %%x, %%i : tensor<%sx4096xf32>\n"
      "  %%c = nabla.broadcast_in_dim %%b dims = [1] %s\n"
      "      : tensor<4096xf32> -> tensor<%sx4096xf32>\n"
      "  %%z = nabla.add %%y, %%c : tensor<%sx4096xf32>, tensor<%sx4096xf32>\n"
      "  %%s = nabla.silu %%z : tensor<%sx4096xf32>\n"
      "  return %%s : tensor<%sx4096xf32>\n"
      "}\n",
      m, m, m, m, *m == '?' ? "sizes(%m)" : "", m, m, m, m, m);
}

static nabla_status compile(nabla_compiler *compiler, const char *m,
                            double *out_ms, nabla_diag *diag) {
  char text[2048];
  nabla_executable *executable;
  program_of(text, sizeof text, m);
  double start = milliseconds();
  NABLA_TRY(nabla_compile_text(compiler, text, strlen(text), "layer.mlir", NULL,
                               &executable, diag));
  *out_ms = milliseconds() - start;
  nabla_executable_close(executable);
  return NABLA_OK;
}

static void summarize(timed *row, uint32_t turns, double *times) {
  row->ms = bench_quantile(times, turns, 0.5);
  row->spread = (bench_quantile(times, turns, 0.75) -
                 bench_quantile(times, turns, 0.25)) /
                row->ms;
}

/* `times` has room for `turns`. */
static nabla_status measure(nabla_compiler *compiler, timed *row,
                            uint32_t turns, double *times, nabla_diag *diag) {
  for (uint32_t i = 0; i < turns; i++)
    NABLA_TRY(compile(compiler, row->m, &times[i], diag));
  row->steps = nabla_compiler_last_report(compiler);
  summarize(row, turns, times);
  return NABLA_OK;
}

/* ---- the cache: a folder of its own ---- */

static nabla_status make_folder(char *out, size_t size, nabla_diag *diag) {
  const char *parent = getenv("TMPDIR");
  const int length = snprintf(out, size, "%s/nabla-bench-XXXXXX",
                              parent && *parent ? parent : P_tmpdir);
  if (length > 0 && (size_t)length < size && mkdtemp(out)) return NABLA_OK;
  nabla_status status =
      nabla_fail(diag, NABLA_IO, "cannot make a folder for the cache: %s",
                 strerror(errno));
  nabla_diag_set_file(diag, parent && *parent ? parent : P_tmpdir);
  return status;
}

static int remove_entry(const char *path, const struct stat *unused, int kind,
                        struct FTW *place) {
  (void)unused, (void)kind, (void)place;
  return remove(path);
}

static nabla_status measure_cached(const char *folder, timed *row,
                                   uint32_t turns, double *times,
                                   nabla_diag *diag) {
  nabla_compiler_options options = {.struct_size = sizeof options,
                                    .cache = folder};
  nabla_compiler *compiler;
  double unused;
  NABLA_TRY(nabla_compiler_create(&options, NULL, &compiler, diag));
  nabla_status status = compile(compiler, row->m, &unused, diag);
  if (!status) status = measure(compiler, row, turns, times, diag);
  nabla_compiler_destroy(compiler);
  return status;
}

/* ---- a kernel alone: of plans, each for another N ---- */

static nabla_status make_plan(uint8_t *codes, float *scales, uint64_t n,
                              double *out_ms, nabla_diag *diag) {
  const nabla_matmul_options options = {.struct_size = sizeof options,
                                        .m_max = 1,
                                        .provider = NABLA_MATMUL_COMPILED};
  const nabla_weight_desc weight = {
      .rank = 2,
      .shape = {n, PLAN_K},
      .layout = {.kind = NABLA_STORAGE_PLANES,
                 .format = {.encoding = nabla_encoding_find("nf4"),
                            .block = 64}},
      .component_count = 2,
      .components = {
          {.data = codes, .bytes = n * PLAN_K / 2},
          {.data = scales, .bytes = n * PLAN_K / 64 * sizeof(float)}}};
  nabla_matmul_plan *plan;
  const double start = milliseconds();
  NABLA_TRY(nabla_matmul_plan_create(&weight, &options, &plan, diag));
  *out_ms = milliseconds() - start;
  nabla_matmul_plan_destroy(plan);
  return NABLA_OK;
}

static nabla_status measure_plans(timed *row, uint32_t turns, double *times,
                                  nabla_diag *diag) {
  const size_t most = (size_t)(PLAN_N + turns) * PLAN_K;
  double unused;
  uint8_t *codes = calloc(most / 2, 1);
  float *scales = calloc(most / 64, sizeof *scales);
  nabla_status status = codes && scales ? NABLA_OK : NABLA_NO_MEMORY;
  if (status) (void)!nabla_fail(diag, status, "no memory");
  nabla_compiler_provide_plans();
  if (!status) status = make_plan(codes, scales, PLAN_N, &unused, diag);
  for (uint32_t i = 0; i < turns && !status; i++)
    status = make_plan(codes, scales, PLAN_N + 1 + i, &times[i], diag);
  nabla_compiler_withhold_plans();
  free(codes);
  free(scales);
  if (!status) summarize(row, turns, times);
  row->steps = (nabla_compile_report){.parse_ms = NAN,
                                      .passes_ms = NAN,
                                      .translate_ms = NAN,
                                      .optimize_ms = NAN,
                                      .codegen_ms = NAN,
                                      .link_ms = NAN}; /* plans do not tell */
  return status;
}

static nabla_status measure_all(timed *rows, uint32_t turns, double *times,
                                nabla_diag *diag) {
  nabla_compiler_options options = {.struct_size = sizeof options, .cache = ""};
  nabla_compiler *compiler;
  NABLA_TRY(nabla_compiler_create(&options, NULL, &compiler, diag));
  nabla_status status = measure(compiler, &rows[0], 1, times, diag);
  for (int i = 1; i < 3 && !status; i++)
    status = measure(compiler, &rows[i], turns, times, diag);
  nabla_compiler_destroy(compiler);
  if (status) return status;
  char folder[4096];
  NABLA_TRY(make_folder(folder, sizeof folder, diag));
  status = measure_cached(folder, &rows[3], turns, times, diag);
  if (nftw(folder, remove_entry, 8, FTW_DEPTH | FTW_PHYS))
    (void)fprintf(stderr, "nabla-bench: %s stays\n", folder);
  return status ? status : measure_plans(&rows[4], turns, times, diag);
}

/* ---- printing ---- */

static void print_text(const timed *rows, size_t count) {
  printf(
      "NF4 4096x4096, bias, silu; ms; the steps are of the last run; plan: a "
      "kernel alone\n"
      "%-4s %-7s %8s %7s %8s %8s %8s %8s %8s %8s\n",
      "M", "", "total", "spread", "parse", "passes", "transl.", "optimize",
      "codegen", "link");
  for (size_t i = 0; i < count; i++) {
    const nabla_compile_report *r = &rows[i].steps;
    printf("%-4s %-7s %8.2f %6.1f%%", rows[i].m, rows[i].when, rows[i].ms,
           rows[i].spread * 100);
    if (isnan(r->parse_ms))
      printf("\n");
    else
      printf(" %8.2f %8.2f %8.2f %8.2f %8.2f %8.2f\n", r->parse_ms,
             r->passes_ms, r->translate_ms, r->optimize_ms, r->codegen_ms,
             r->link_ms);
  }
}

static nabla_status print_json(const timed *rows, size_t count, uint32_t turns,
                               nabla_diag *diag) {
  nabla_json_out out;
  bench_json_begin(&out, BENCH_VERB_compile);
  bench_json_count(&out, "turns", turns);
  nabla_json_out_key(&out, "rows");
  nabla_json_out_array(&out);
  for (size_t i = 0; i < count; i++) {
    const nabla_compile_report *r = &rows[i].steps;
    nabla_json_out_object(&out);
    bench_json_text(&out, "m", rows[i].m);
    bench_json_text(&out, "when", rows[i].when);
    bench_json_number(&out, "median_ms", rows[i].ms);
    bench_json_number(&out, "spread", rows[i].spread);
    bench_json_number(&out, "parse_ms", r->parse_ms);
    bench_json_number(&out, "passes_ms", r->passes_ms);
    bench_json_number(&out, "translate_ms", r->translate_ms);
    bench_json_number(&out, "optimize_ms", r->optimize_ms);
    bench_json_number(&out, "codegen_ms", r->codegen_ms);
    bench_json_number(&out, "link_ms", r->link_ms);
    nabla_json_out_object_end(&out);
  }
  nabla_json_out_array_end(&out);
  return bench_json_end(&out, diag);
}

nabla_status bench_run_compile(const bench_settings *s, nabla_diag *diag) {
  timed rows[] = {{.m = "1", .when = "first"},
                  {.m = "1", .when = "again"},
                  {.m = "?", .when = "again"},
                  {.m = "1", .when = "cached"},
                  {.m = "1", .when = "plan"}};
  enum { COUNT = sizeof rows / sizeof *rows };
  const uint32_t turns = s->turns ? (uint32_t)s->turns : USUAL_TURNS;
  double *times = calloc(turns, sizeof *times);
  if (!times) return nabla_fail(diag, NABLA_NO_MEMORY, "no memory");
  nabla_status status = measure_all(rows, turns, times, diag);
  free(times);
  if (status) return status;
  if (s->json) return print_json(rows, COUNT, turns, diag);
  print_text(rows, COUNT);
  return NABLA_OK;
}
