/* Kernels made ahead of time beside compiled ones.
 *
 *   ahead [FACTOR]   for each row of quant/ahead/ahead.def that this CPU can
 *                    run, N = K = 4096 and 1, 8 and 32 rows of x: the time of
 *                    both, and their quotient. Exit status 1 if one is above
 *                    FACTOR (1.15)
 *
 * CPU time of one thread, medians, the two in turns. Rows that a later one
 * replaces on this CPU are left out. */
#include "lib/runtime/matmul/ahead.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "nabla/compiler.h"
#include "nabla/matmul.h"

enum { N = 4096, K = 4096, ROWS = 32, TURNS = 7 };

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static int ascending(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void *filled(uint64_t bytes, int byte) {
  void *data = aligned_alloc(64, (size_t)(bytes + 63) / 64 * 64);
  if (!data) exit(2);
  return memset(data, byte, (size_t)(bytes + 63) / 64 * 64);
}

/* A weight of the set's layout; made up, and finite. */
static nabla_weight_desc weight_of(const nabla_ahead_set *set) {
  nabla_weight_desc w = {
      .rank = 2,
      .shape = {N, K},
      .dtype = set->dense,
      .layout = {.kind = set->kind,
                 .nested_block = (uint32_t)set->nested_block}};
  if (set->kind == NABLA_STORAGE_BLOCKS)
    w.layout.ggml = nabla_ggml_find(set->ggml);
  else if (set->kind == NABLA_STORAGE_PLANES)
    w.layout.format =
        (nabla_format){.encoding = nabla_encoding_find(set->encoding),
                       .granularity = set->granularity,
                       .block = set->block ? set->block : K,
                       .scale = set->scale,
                       .zero_point = set->zero_point};
  if (nabla_weight_components(&w, w.components, &w.component_count, NULL))
    exit(2);
  for (uint32_t i = 0; i < w.component_count; i++) {
    nabla_weight_component *c = &w.components[i];
    const int byte = !strcmp(c->name, "scales")        ? 0x3c
                     : !strcmp(c->name, "zero_points") ? 3
                                                       : 0x25;
    c->data = filled(c->bytes, byte);
  }
  return w;
}

static void free_weight(nabla_weight_desc *w) {
  for (uint32_t i = 0; i < w->component_count; i++)
    free((void *)(uintptr_t)w->components[i].data);
}

static const char *kernel_of(const nabla_matmul_plan *plan, uint64_t m) {
  nabla_matmul_info info;
  uint32_t i = 0;
  nabla_matmul_plan_describe(plan, &info);
  while (info.kernels[i].m_last < m) i++;
  return info.kernels[i].name;
}

/* The median of both for `m` rows. */
static void measure(nabla_matmul_plan *const plans[2], uint64_t m,
                    double out[2]) {
  static _Alignas(64) float x[ROWS * K], y[ROWS * N];
  double times[2][TURNS];
  for (size_t i = 0; i < (size_t)ROWS * K; i++)
    x[i] = (float)((i * 2654435761u >> 16) % 1021) / 510 - 1;
  for (int i = -1; i < TURNS; i++)
    for (int p = 0; p < 2; p++) {
      void *workspace =
          filled(nabla_matmul_plan_workspace_size(plans[p], m), 0);
      const double begin = now();
      if (nabla_matmul_plan_run(plans[p], x, m, y, workspace, NULL)) exit(2);
      times[p][i < 0 ? 0 : i] = now() - begin;
      free(workspace);
    }
  for (int p = 0; p < 2; p++) {
    qsort(times[p], TURNS, sizeof *times[p], ascending);
    out[p] = times[p][TURNS / 2];
  }
}

/* How many of its products are too slow. */
static int compare(const nabla_ahead_set *set, double most) {
  static const uint64_t some_m[] = {1, 8, ROWS};
  static const nabla_matmul_provider from[] = {NABLA_MATMUL_AHEAD,
                                               NABLA_MATMUL_COMPILED};
  nabla_weight_desc w = weight_of(set);
  nabla_matmul_plan *plans[2] = {NULL, NULL};
  int slow = 0;
  for (int p = 0; p < 2; p++) {
    nabla_diag diag = NABLA_DIAG_INIT;
    const nabla_matmul_options options = {.struct_size = sizeof options,
                                          .numerics = set->numerics,
                                          .provider = from[p]};
    if (!nabla_matmul_plan_create(&w, &options, &plans[p], &diag)) continue;
    (void)fprintf(stderr, "plan: %s\n", diag.what);
    exit(2);
  }
  for (size_t i = 0; i < sizeof some_m / sizeof *some_m; i++) {
    double times[2];
    measure(plans, some_m[i], times);
    const int is_slow = times[0] > most * times[1];
    printf("%-10s %5u %-5s %-6s M %2u  %8.0f us %-26s %8.0f us %-22s %.2f%s\n",
           set->ggml       ? set->ggml
           : set->encoding ? set->encoding
                           : "dense",
           (unsigned)w.layout.format.block,
           set->encoding ? nabla_scale_info_of(set->scale)->name
           : set->ggml   ? ""
                         : nabla_dtype_name(set->dense),
           nabla_numerics_name(set->numerics), (unsigned)some_m[i], times[0],
           kernel_of(plans[0], some_m[i]), times[1],
           kernel_of(plans[1], some_m[i]), times[0] / times[1],
           is_slow ? "  slow" : "");
    slow += is_slow;
  }
  for (int p = 0; p < 2; p++) nabla_matmul_plan_destroy(plans[p]);
  free_weight(&w);
  return slow;
}

static int same_weight(const nabla_ahead_set *a, const nabla_ahead_set *b) {
  if (a->numerics != b->numerics) return 0;
  if (a->ggml || b->ggml)
    return a->ggml && b->ggml && !strcmp(a->ggml, b->ggml);
  if (!a->encoding || !b->encoding)
    return !a->encoding && !b->encoding && a->dense == b->dense;
  return !strcmp(a->encoding, b->encoding) &&
         a->granularity == b->granularity && a->block == b->block &&
         a->scale == b->scale && a->zero_point == b->zero_point;
}

/* Whether a set before it has the same weights: measured once. */
static int is_again(size_t i) {
  for (size_t j = 0; j < i; j++)
    if (same_weight(&nabla_ahead.sets[i], &nabla_ahead.sets[j])) return 1;
  return 0;
}

int main(int argc, char **argv) {
  const double most = argc > 1 ? strtod(argv[1], NULL) : 1.15;
  int slow = 0;
  if (!nabla_ahead.count) {
    (void)fprintf(stderr, "nothing was made ahead of time\n");
    return 2;
  }
  nabla_compiler_provide_plans();
  for (size_t i = 0; i < nabla_ahead.count; i++)
    if (!is_again(i) &&
        nabla_level_available(nabla_ahead.sets[i].level, NABLA_ISA_BEST))
      slow += compare(&nabla_ahead.sets[i], most);
  nabla_compiler_withhold_plans();
  printf("%d products take more than %.2f of the compiled kernel's time\n",
         slow, most);
  return slow != 0;
}
