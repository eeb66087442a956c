/* What a plan costs beside its kernel.
 *
 *   plan          the first result of this process with kernels made ahead of
 *                 time, the call of a plan beside the bare kernel, a region of
 *                 two threads, and products by each provider that a process
 *                 without the compiler has, with AMX and without
 *
 * CPU time of one thread for the calls, so that others on the machine do not
 * count; best and median of many turns, the sides in turns. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "lib/runtime/matmul/matmul_internal.h"

#define N 4096u
#define K 4096u

#define TURNS   400
#define CALLS   200
#define REGIONS 20
#define RUNS    9

static double read_clock(clockid_t id) {
  struct timespec t;
  clock_gettime(id, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int ascending(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static int maps_llvm(void) {
  char line[512];
  int found = 0;
  FILE *file = fopen("/proc/self/maps", "r");
  while (file && fgets(line, sizeof line, file))
    found |= strstr(line, "LLVM") || strstr(line, "MLIR");
  if (file) (void)fclose(file);
  return found;
}

typedef struct weight {
  uint8_t *codes;
  float *scales;
  nabla_weight_desc described;
} weight;

/* By blocks of 64; made up. */
static weight weight_of(const char *name, uint64_t n, uint64_t k) {
  const nabla_encoding *encoding = nabla_encoding_find(name);
  const size_t codes = (size_t)(n * k * encoding->bits / 8);
  const size_t scales = (size_t)(n * k / 64);
  weight w = {.codes = malloc(codes), .scales = malloc(scales * 4)};
  if (!w.codes || !w.scales) exit(1);
  for (size_t i = 0; i < codes; i++) w.codes[i] = (uint8_t)(i * 37);
  for (size_t i = 0; i < scales; i++) w.scales[i] = 0.01f;
  w.described = (nabla_weight_desc){
      .rank = 2,
      .shape = {n, k},
      .layout = {.kind = NABLA_STORAGE_PLANES,
                 .format = {.encoding = encoding, .block = 64}},
      .component_count = 2,
      .components = {{.data = w.codes, .bytes = codes},
                     {.data = w.scales, .bytes = scales * 4}}};
  return w;
}

static void destroy(weight *w) {
  free(w->codes);
  free(w->scales);
}

static nabla_matmul_plan *plan_by(const weight *w,
                                  nabla_matmul_options options) {
  nabla_diag diag = NABLA_DIAG_INIT;
  nabla_matmul_plan *plan = NULL;
  if (nabla_matmul_plan_create(&w->described, &options, &plan, &diag)) {
    (void)fprintf(stderr, "plan: %s\n", diag.what);
    exit(1);
  }
  return plan;
}

static nabla_matmul_plan *plan_of(const weight *w) {
  return plan_by(
      w, (nabla_matmul_options){.struct_size = sizeof(nabla_matmul_options),
                                .m_max = 1});
}

static void say_plan(const nabla_matmul_plan *plan) {
  nabla_matmul_info info;
  nabla_matmul_plan_describe(plan, &info);
  printf("nf4 %llu x %llu, %s, kernel '%s'", (unsigned long long)info.n,
         (unsigned long long)info.k, nabla_matmul_provider_name(info.provider),
         info.kernels[0].name);
}

/* `started`: CPU time of the process when main began. */
static void measure_cold(double started) {
  static _Alignas(64) float x[K], y[N];
  weight w = weight_of("nf4", N, K);
  const double begin = read_clock(CLOCK_PROCESS_CPUTIME_ID);
  nabla_matmul_plan *plan = plan_of(&w);
  const double created = read_clock(CLOCK_PROCESS_CPUTIME_ID);
  const uint64_t bytes = nabla_matmul_plan_workspace_size(plan, 1);
  void *workspace = aligned_alloc(64, (size_t)bytes / 64 * 64 + 64);
  if (!workspace || nabla_matmul_plan_run(plan, x, 1, y, workspace, NULL))
    exit(1);
  const double done = read_clock(CLOCK_PROCESS_CPUTIME_ID);
  say_plan(plan);
  printf(
      "\ncold process: %.2f ms to main, %.3f ms plan, %.2f ms first result, "
      "%.2f ms in all; LLVM %s\n",
      started * 1e-6, (created - begin) * 1e-6, (done - created) * 1e-6,
      (started + done - begin) * 1e-6, maps_llvm() ? "is mapped" : "is not");
  free(workspace);
  nabla_matmul_plan_destroy(plan);
  destroy(&w);
}

static void measure_calls(void) {
  static _Alignas(64) float x[64], y[16], workspace[4096];
  double plans[TURNS], kernels[TURNS], beyond[TURNS];
  weight w = weight_of("nf4", 16, 64);
  nabla_matmul_plan *plan = plan_of(&w);
  const nabla_kernel *kernel = &plan->provided.kernels[0].code;
  if (nabla_matmul_plan_workspace_size(plan, 1) > sizeof workspace) exit(1);
  uint64_t words[NABLA_KERNEL_ARGS];
  memcpy(words, plan->args, sizeof words);
  words[NABLA_ARG_X] = (uintptr_t)x;
  words[NABLA_ARG_Y] = (uintptr_t)y;
  words[NABLA_ARG_M] = 1;
  words[NABLA_ARG_WORKSPACE] = (uintptr_t)workspace;
  for (int i = 0; i < TURNS; i++) {
    const double a = read_clock(CLOCK_THREAD_CPUTIME_ID);
    for (int j = 0; j < CALLS; j++)
      if (nabla_matmul_plan_run(plan, x, 1, y, workspace, NULL)) exit(1);
    const double b = read_clock(CLOCK_THREAD_CPUTIME_ID);
    for (int j = 0; j < CALLS; j++) {
      if (kernel->prepare) kernel->prepare(words, 0, 1);
      kernel->run(words, 0, 16);
    }
    const double c = read_clock(CLOCK_THREAD_CPUTIME_ID);
    plans[i] = (b - a) / CALLS;
    kernels[i] = (c - b) / CALLS;
    beyond[i] = plans[i] - kernels[i];
  }
  qsort(plans, TURNS, sizeof *plans, ascending);
  qsort(kernels, TURNS, sizeof *kernels, ascending);
  qsort(beyond, TURNS, sizeof *beyond, ascending);
  say_plan(plan);
  printf(
      "\ncall: plan %.0f ns (best %.0f), kernel %.0f ns (best %.0f), beyond "
      "it median %.0f ns\n",
      plans[TURNS / 2], plans[0], kernels[TURNS / 2], kernels[0],
      beyond[TURNS / 2]);
  nabla_matmul_plan_destroy(plan);
  destroy(&w);
}

static void do_nothing(void *context, uint32_t worker, uint32_t workers) {
  (void)context;
  (void)worker;
  (void)workers;
}

/* For a second at most: a busy machine makes a worker wait for a CPU. */
static void measure_region(void) {
  double times[TURNS];
  int count = 0;
  nabla_pool *pool = NULL;
  if (nabla_pool_create(2, NULL, &pool, NULL)) exit(1);
  const double start = read_clock(CLOCK_MONOTONIC);
  double end = start;
  while (count < TURNS && end - start < 1e9) {
    const double begin = end;
    for (int j = 0; j < REGIONS; j++) nabla_pool_run(pool, do_nothing, NULL);
    end = read_clock(CLOCK_MONOTONIC);
    times[count++] = (end - begin) / REGIONS;
  }
  qsort(times, (size_t)count, sizeof *times, ascending);
  printf("region of two threads: median %.0f ns, best %.0f ns\n",
         times[count / 2], times[0]);
  nabla_pool_destroy(pool);
}

/* Blocks of a GGUF file; made up: all bytes are alike, and so factors are
 * finite. */
static weight blocks_of(const nabla_ggml *ggml, uint64_t n, uint64_t k) {
  const size_t bytes = (size_t)(n * k / ggml->elements * ggml->bytes);
  weight w = {.codes = malloc(bytes)};
  if (!w.codes) exit(1);
  memset(w.codes, 0x25, bytes);
  w.described = (nabla_weight_desc){
      .rank = 2,
      .shape = {n, k},
      .layout = {.kind = NABLA_STORAGE_BLOCKS, .ggml = ggml},
      .component_count = 1,
      .components = {{.data = w.codes, .bytes = bytes}}};
  return w;
}

static double run_once(const nabla_matmul_plan *plan, const float *x,
                       uint64_t m, float *y, void *workspace) {
  const double begin = read_clock(CLOCK_THREAD_CPUTIME_ID);
  if (nabla_matmul_plan_run(plan, x, m, y, workspace, NULL)) exit(1);
  return read_clock(CLOCK_THREAD_CPUTIME_ID) - begin;
}

static void say_kernel(const nabla_matmul_plan *plan, uint64_t m) {
  nabla_matmul_info info;
  nabla_matmul_plan_describe(plan, &info);
  uint32_t i = 0;
  while (info.kernels[i].m_last < m) i++;
  printf("; %s '%s' %s", nabla_matmul_provider_name(info.provider),
         info.kernels[i].name, nabla_numerics_name(info.numerics));
}

/* The kinds in turns, the second time on from memory that is mapped. */
static void measure_product(const weight *w, uint64_t m, const float *x,
                            float *y) {
  static const nabla_matmul_options kinds[] = {
      {.struct_size = sizeof *kinds, .numerics = NABLA_NUMERICS_F32},
      {.struct_size = sizeof *kinds, .isa = NABLA_ISA_AVX512},
      {.struct_size = sizeof *kinds, .numerics = NABLA_NUMERICS_INT8},
      {.struct_size = sizeof *kinds, .provider = NABLA_MATMUL_C}};
  enum { KINDS = sizeof kinds / sizeof *kinds };
  const int has_isa = nabla_isa_available(NABLA_ISA_AVX512);
  double times[KINDS][RUNS];
  nabla_matmul_plan *plans[KINDS];
  uint64_t bytes = 0;
  for (int j = 0; j < KINDS; j++) {
    nabla_matmul_options options = kinds[j];
    if (!has_isa) options.isa = NABLA_ISA_BEST; /* the same once more */
    plans[j] = plan_by(w, options);
  }
  for (int j = 0; j < KINDS; j++)
    if (bytes < nabla_matmul_plan_workspace_size(plans[j], m))
      bytes = nabla_matmul_plan_workspace_size(plans[j], m);
  void *workspace = aligned_alloc(64, (size_t)bytes / 64 * 64 + 64);
  if (!workspace) exit(1);
  for (int i = -1; i < RUNS; i++)
    for (int j = 0; j < KINDS; j++)
      times[j][i < 0 ? 0 : i] = run_once(plans[j], x, m, y, workspace);
  for (int j = 0; j < KINDS; j++) {
    qsort(times[j], RUNS, sizeof *times[j], ascending);
    say_kernel(plans[j], m);
    printf(" %.2f ms (best %.2f)", times[j][RUNS / 2] * 1e-6,
           times[j][0] * 1e-6);
    nabla_matmul_plan_destroy(plans[j]);
  }
  printf("\n");
  free(workspace);
}

static void measure_products(void) {
  enum { ROWS = 32 };
  static const char *const names[] = {"nf4",  "int8", "q4_0",
                                      "q8_0", "q4_k", "q6_k"};
  static const uint64_t some_m[] = {1, 8, ROWS};
  static _Alignas(64) float x[ROWS * K], y[ROWS * N];
  for (size_t i = 0; i < ROWS * K; i++)
    x[i] = (float)((i * 2654435761u >> 16) % 1021) / 510 - 1;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    for (size_t j = 0; j < sizeof some_m / sizeof *some_m; j++) {
      const nabla_ggml *ggml = nabla_ggml_find(names[i]);
      weight w = ggml ? blocks_of(ggml, N, K) : weight_of(names[i], N, K);
      printf("%s %u x %u, M = %u", names[i], N, K, (unsigned)some_m[j]);
      measure_product(&w, some_m[j], x, y);
      destroy(&w);
    }
}

int main(void) {
  measure_cold(read_clock(CLOCK_PROCESS_CPUTIME_ID));
  measure_calls();
  measure_region();
  measure_products();
  return 0;
}
