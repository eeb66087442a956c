/* The kernel under test; see kernel.h. */
#include "bench/nabla-bench/kernel.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/nabla-bench/weights.h"
#include "lib/base/checked.h"
#include "tests/kernels/kernels.h"

#define MOST_BYTES ((uint64_t)1 << 36) /* of all that is allocated */

struct bench_kernel {
  bench_problem problem;
  nabla_fused_spec spec;
  const char *objection;
  const jit_level *level;
  jit *compiler;
  kernels compiled;
  const nabla_kernel *kernel;
  bench_made made;      /* as files have it */
  bench_weights packed; /* prepacked: one area */
  float *x, *y;
  size_t x_bytes, y_bytes, workspace_bytes;
  void *workspace;
  nabla_pool *pool;
  uint64_t words[NABLA_KERNEL_ARGS]; /* of the region that runs */
};

/* ---- making it ---- */

/* The same CPU without what uses tiles. */
static const jit_level *without_tiles(const jit_level *host) {
  static char features[160];
  static jit_level level;
  level = *host;
  nabla_features_format(
      nabla_features_parse(host->features) & ~NABLA_FEATURES_OF_TILES, features,
      sizeof features);
  level.name = "no-amx";
  level.features = features;
  return &level;
}

static const jit_level *find_level(const char *isa) {
  const jit_level *levels;
  const unsigned count = jit_levels(&levels);
  if (!strcmp(isa, "best")) return &levels[count - 1];
  if (!strcmp(isa, "no-amx")) return without_tiles(&levels[count - 1]);
  for (unsigned i = 0; i < count; i++)
    if (!strcmp(levels[i].name, isa)) return &levels[i];
  return NULL;
}

static void fill_spec(bench_kernel *self) {
  const bench_problem *p = &self->problem;
  self->spec = (nabla_fused_spec){
      .w = self->made.layout,
      .w_stored = self->made.dense,
      .storage_elements = p->n * p->k,
      .m_min = p->m,
      .m_max = p->m,
      .n = p->n,
      .k = p->k,
      .stride_n = p->transposed ? 1 : p->k,
      .stride_k = p->transposed ? p->n : 1,
      .numerics = p->numerics,
      .layout = p->layout,
      .x_type = NABLA_DTYPE_F32,
      .y_type = NABLA_DTYPE_F32,
      .w_type = NABLA_DTYPE_F32,
      .variant = p->variant,
      .features = nabla_features_parse(self->level->features)};
}

static void *pages_or_fail(uint64_t bytes, nabla_diag *diag) {
  void *data = bytes <= MOST_BYTES ? bench_pages((size_t)bytes) : NULL;
  if (!data)
    (void)!nabla_fail(diag, NABLA_NO_MEMORY, "no memory for %llu bytes",
                      (unsigned long long)bytes);
  return data;
}

static nabla_status make_operands(bench_kernel *self, nabla_diag *diag) {
  const bench_problem *p = &self->problem;
  self->x_bytes = (size_t)(p->m * p->k * sizeof(float));
  self->y_bytes = (size_t)(p->m * p->n * sizeof(float));
  self->x = pages_or_fail(self->x_bytes, diag);
  self->y = pages_or_fail(self->y_bytes, diag);
  if (!self->x || !self->y) return NABLA_NO_MEMORY;
  for (uint64_t i = 0; i < p->m * p->k; i++)
    self->x[i] = (float)((i * 2654435761u >> 16) % 1021) / 510 - 1;
  return p->threads == 1
             ? NABLA_OK
             : nabla_pool_create(p->threads, NULL, &self->pool, diag);
}

static nabla_status compile(bench_kernel *self, nabla_diag *diag) {
  uint64_t packed;
  self->compiler = jit_create();
  self->compiled = kernels_create(self->compiler, self->spec, self->level);
  self->kernel = kernels_for(&self->compiled, self->problem.m);
  self->workspace_bytes =
      (size_t)kernels_workspace(&self->compiled, self->problem.m);
  if (self->workspace_bytes &&
      !(self->workspace = pages_or_fail(self->workspace_bytes, diag)))
    return NABLA_NO_MEMORY;
  if (!bench_kernel_is_prepacked(self)) return NABLA_OK;
  packed = kernels_packed(&self->compiled, self->problem.m);
  bench_weights *w = &self->packed;
  w->area_count = 1;
  w->copies = self->made.weights.copies;
  w->bytes = w->areas[0].bytes = (size_t)packed;
  w->areas[0].stride = (size_t)(packed + 63) / 64 * 64;
  w->areas[0].base = pages_or_fail(w->areas[0].stride * w->copies, diag);
  return w->areas[0].base ? NABLA_OK : NABLA_NO_MEMORY;
}

static nabla_status check(const bench_problem *p, const jit_level *level,
                          nabla_diag *diag) {
  uint64_t elements, bytes;
  if (!level) {
    nabla_status status =
        nabla_fail(diag, NABLA_UNSUPPORTED, "this CPU has no %s", p->isa);
    nabla_diag_set_next(diag, "--isa best takes what it has");
    return status;
  }
  if (!nabla_mul_u64(p->n, p->k, &elements) ||
      !nabla_mul_u64(elements, 8, &bytes) || bytes > MOST_BYTES ||
      !nabla_mul_u64(p->m, p->k > p->n ? p->k : p->n, &bytes) ||
      bytes > MOST_BYTES / 8)
    return nabla_fail(diag, NABLA_TOO_LARGE,
                      "a product of these sizes does not fit in memory");
  return NABLA_OK;
}

static void prepack_all(bench_kernel *self);

nabla_status bench_kernel_open(const bench_problem *problem, uint64_t bytes,
                               bench_kernel **out_kernel, nabla_diag *diag) {
  const jit_level *level = find_level(problem->isa);
  NABLA_TRY(check(problem, level, diag));
  bench_kernel *self = calloc(1, sizeof *self);
  if (!self) return nabla_fail(diag, NABLA_NO_MEMORY, "no memory");
  self->problem = *problem;
  self->level = level;
  nabla_status status = bench_weights_make(problem, bytes, &self->made, diag);
  if (!status) status = make_operands(self, diag);
  if (!status) {
    fill_spec(self);
    self->objection = nabla_fused_objection(&self->spec);
    if (!self->objection) status = compile(self, diag);
  }
  if (!status && self->packed.area_count) prepack_all(self);
  if (status)
    bench_kernel_close(self);
  else
    *out_kernel = self;
  return status;
}

void bench_kernel_close(bench_kernel *self) {
  if (!self) return;
  kernels_destroy(&self->compiled);
  jit_destroy(self->compiler);
  nabla_pool_destroy(self->pool);
  bench_unmap(self->x, self->x_bytes);
  bench_unmap(self->y, self->y_bytes);
  bench_unmap(self->workspace, self->workspace_bytes);
  bench_unmap(self->packed.areas[0].base,
              self->packed.areas[0].stride * self->packed.copies);
  bench_weights_free(&self->made);
  free(self);
}

/* ---- running it ---- */

static void fill_words(bench_kernel *self, uint64_t copy) {
  uint64_t *words = self->words;
  bench_weights_words(&self->made, copy, words);
  words[NABLA_ARG_X] = (uintptr_t)self->x;
  words[NABLA_ARG_Y] = (uintptr_t)self->y;
  words[NABLA_ARG_M] = self->problem.m;
  words[NABLA_ARG_N] = self->problem.n;
  words[NABLA_ARG_K] = self->problem.k;
  words[NABLA_ARG_WORKSPACE] = (uintptr_t)self->workspace;
  if (self->packed.area_count)
    words[NABLA_ARG_PACKED] = (uintptr_t)(self->packed.areas[0].base +
                                          copy * self->packed.areas[0].stride);
}

/* [0, count) in multiples of the grain. */
static void call(const bench_kernel *self, nabla_kernel_function function,
                 uint64_t count, uint64_t grain, uint32_t worker,
                 uint32_t workers) {
  uint64_t begin, end;
  nabla_pool_split((count + grain - 1) / grain, workers, worker, &begin, &end);
  begin *= grain, end *= grain;
  if (end > count) end = count;
  if (begin < end) function(self->words, begin, end);
}

/* Cut between tiles of the workspace. */
static void prepare_part(void *context, uint32_t worker, uint32_t workers) {
  bench_kernel *self = context;
  call(self, self->kernel->prepare, self->problem.m,
       self->kernel->workspace.rows, worker, workers);
}

static void run_part(void *context, uint32_t worker, uint32_t workers) {
  bench_kernel *self = context;
  call(self, self->kernel->run, self->problem.n, self->kernel->grain, worker,
       workers);
}

static void prepack_part(void *context, uint32_t worker, uint32_t workers) {
  bench_kernel *self = context;
  call(self, self->kernel->prepack, self->problem.n, self->kernel->grain,
       worker, workers);
}

static void run_once(bench_kernel *self) {
  /* one row of x is not worth waking anybody */
  if (self->kernel->prepare && self->problem.m == 1)
    self->kernel->prepare(self->words, 0, 1);
  else if (self->kernel->prepare)
    nabla_pool_run(self->pool, prepare_part, self);
  nabla_pool_run(self->pool, run_part, self);
}

nabla_status bench_kernel_run(void *context, uint64_t first, uint32_t count,
                              double *out, nabla_diag *diag) {
  bench_kernel *self = context;
  (void)diag;
  for (uint32_t i = 0; i < count; i++) {
    fill_words(self, (first + i) % self->made.weights.copies);
    const double start = bench_now(self->problem.threads);
    run_once(self);
    out[i] = bench_now(self->problem.threads) - start;
  }
  return NABLA_OK;
}

static void prepack_all(bench_kernel *self) {
  for (uint32_t i = 0; i < self->packed.copies; i++) {
    fill_words(self, i);
    nabla_pool_run(self->pool, prepack_part, self);
  }
}

nabla_status bench_kernel_prepack(void *context, uint64_t first, uint32_t count,
                                  double *out, nabla_diag *diag) {
  bench_kernel *self = context;
  (void)diag;
  for (uint32_t i = 0; i < count; i++) {
    fill_words(self, (first + i) % self->made.weights.copies);
    const double start = bench_now(self->problem.threads);
    nabla_pool_run(self->pool, prepack_part, self);
    out[i] = bench_now(self->problem.threads) - start;
  }
  return NABLA_OK;
}

static void copy_part(void *context, uint32_t worker, uint32_t workers) {
  bench_kernel *self = context;
  uint64_t begin, end;
  const char *from = (const char *)self->words[NABLA_ARG_CODES];
  char *to = (char *)self->words[NABLA_ARG_PACKED];
  nabla_pool_split(self->made.weights.areas[0].bytes, workers, worker, &begin,
                   &end);
  if (end > self->packed.bytes) end = self->packed.bytes;
  if (begin < end) memcpy(to + begin, from + begin, (size_t)(end - begin));
}

nabla_status bench_kernel_copy(void *context, uint64_t first, uint32_t count,
                               double *out, nabla_diag *diag) {
  bench_kernel *self = context;
  (void)diag;
  for (uint32_t i = 0; i < count; i++) {
    fill_words(self, (first + i) % self->made.weights.copies);
    const double start = bench_now(self->problem.threads);
    nabla_pool_run(self->pool, copy_part, self);
    out[i] = bench_now(self->problem.threads) - start;
  }
  prepack_all(self); /* what was copied is no weight */
  return NABLA_OK;
}

/* ---- what it is ---- */

const char *bench_kernel_wrong(bench_kernel *self) {
  static char why[200];
  const bench_problem *p = &self->problem;
  /* the errors that docs/COMPILER.md promises are far below these */
  static const double bounds[] = {1e-4, 2e-2, 4e-2};
  const uint64_t columns = p->n < 4 ? p->n : 4;
  for (uint64_t i = 0; i < columns; i++) {
    double sum = 0, size = 0;
    for (uint64_t j = 0; j < p->k; j++) {
      const double w = bench_weights_at(
          &self->made, p->transposed ? j * p->n + i : i * p->k + j);
      sum += w * (double)self->x[j];
      size += fabs(w * (double)self->x[j]);
    }
    fill_words(self, 0);
    run_once(self);
    const double got = (double)self->y[i];
    if (fabs(got - sum) <= bounds[p->numerics] * size + 1e-30) continue;
    snprintf(why, sizeof why,
             "the kernel computes %.9g in column %llu, where f64 has %.9g", got,
             (unsigned long long)i, sum);
    return why;
  }
  return NULL;
}

void bench_kernel_print(bench_kernel *self) {
  nabla_text text = {0};
  const uint32_t at = nabla_fused_class_of(
      self->compiled.specs, self->compiled.count, self->problem.m);
  nabla_fused_emit(&self->compiled.specs[at], "kernel", &text);
  if (!text.failed)
    jit_print_assembly(self->compiler, self->level, text.data, "kernel");
  nabla_text_deinit(&text);
}

int bench_kernel_is_prepacked(const bench_kernel *self) {
  return self->kernel && self->kernel->prepack != NULL;
}

const char *bench_kernel_objection(const bench_kernel *self) {
  return self->objection;
}

const bench_weights *bench_kernel_weights(const bench_kernel *self) {
  return self->packed.area_count ? &self->packed : &self->made.weights;
}

nabla_pool *bench_kernel_pool(const bench_kernel *self) { return self->pool; }

const char *bench_kernel_format(const bench_kernel *self) {
  return self->made.name;
}

const char *bench_kernel_variant(const bench_kernel *self) {
  return self->objection ? NULL : nabla_fused_variant(&self->compiled.specs[0]);
}

const char *bench_kernel_instruction(const bench_kernel *self) {
  return self->objection ? NULL
                         : nabla_fused_instruction(&self->compiled.specs[0]);
}

const char *bench_kernel_features(const bench_kernel *self) {
  return self->level->features;
}
