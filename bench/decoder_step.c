/* A decoder step with its caches as states, beside the parts that it cannot do
 * without: its products by plans, and one read of the valid rows of the caches.
 *
 *   decoder_step [THREADS] [ENCODING]
 *
 * The decoder: dimension 1024, 8 layers of 16 heads, hidden 2816, vocabulary
 * 32000, packed weights (nf4, blocks of 64), caches of 512 positions in f32.
 * For positions 10 and 500: the time of a step, that of the parts, and their
 * quotient, the rate of the step by the rate that the parts allow. One thread:
 * CPU time; more: the time of a clock. Medians, the two in turns. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "nabla/compiler.h"
#include "nabla/matmul.h"
#include "nabla/session.h"

enum {
  DIM = 1024,
  LAYERS = 8,
  HEADS = 16,
  HEAD = DIM / HEADS,
  HIDDEN = 2816,
  VOCABULARY = 32000,
  POSITIONS = 512,
  PER_LAYER = 7,
  WEIGHTS = LAYERS * PER_LAYER + 1,
  NORMS = 2 * LAYERS + 1,
  TURNS = 15
};

/* The products of a layer: rows and columns of their weights. */
static const struct {
  const char *name;
  int rows, columns;
} parts[PER_LAYER] = {{"q", DIM, DIM},       {"k", DIM, DIM},
                      {"v", DIM, DIM},       {"o", DIM, DIM},
                      {"gate", HIDDEN, DIM}, {"up", HIDDEN, DIM},
                      {"down", DIM, HIDDEN}};

static nabla_diag diag = NABLA_DIAG_INIT;

static void check(nabla_status status) {
  if (!status) return;
  (void)fprintf(stderr, "%s\n", diag.what);
  exit(2);
}

static void *allocate(uint64_t bytes) {
  void *data = aligned_alloc(64, (size_t)(bytes + 63) / 64 * 64);
  if (!data) exit(2);
  return data;
}

/* ---- weights ---- */

static int rows_of(int weight) {
  return weight == WEIGHTS - 1 ? VOCABULARY : parts[weight % PER_LAYER].rows;
}

static int columns_of(int weight) {
  return weight == WEIGHTS - 1 ? DIM : parts[weight % PER_LAYER].columns;
}

static uint32_t seed = 1;

static uint8_t draw(void) {
  seed = seed * 1664525 + 1013904223;
  return (uint8_t)(seed >> 24);
}

/* A packed weight of random codes, and scales near 1 / sqrt(columns). */
static nabla_weight_desc make_weight(int weight, const char *encoding) {
  nabla_weight_desc w = {
      .rank = 2,
      .shape = {(uint64_t)rows_of(weight), (uint64_t)columns_of(weight)},
      .dtype = NABLA_DTYPE_F32,
      .layout = {
          .kind = NABLA_STORAGE_PLANES,
          .format = {.encoding = nabla_encoding_find(encoding), .block = 64}}};
  if (!w.layout.format.encoding) {
    (void)fprintf(stderr, "there is no encoding '%s'\n", encoding);
    exit(2);
  }
  check(nabla_weight_components(&w, w.components, &w.component_count, &diag));
  for (uint32_t i = 0; i < w.component_count; i++) {
    nabla_weight_component *c = &w.components[i];
    uint8_t *data = allocate(c->bytes);
    if (!strcmp(c->name, "scales"))
      for (uint64_t at = 0; at < c->bytes / sizeof(float); at++)
        ((float *)(void *)data)[at] = (float)(draw() + 128) / 8192;
    else
      for (uint64_t at = 0; at < c->bytes; at++) data[at] = draw();
    c->data = data;
  }
  return w;
}

/* ---- the program ---- */

static char text[1 << 18];
static size_t used;

#define ADD(...) \
  used += (size_t)snprintf(text + used, sizeof text - used, __VA_ARGS__)

static void add_signature(const char *encoding) {
  ADD("!c = tensor<%dx%dx%dxf32>\n!r = tensor<1x%dxf32>\n!f = "
      "tensor<1x%dxf32>\n"
      "!h = tensor<%dx1x%dxf32>\n",
      HEADS, POSITIONS, HEAD, DIM, HIDDEN, HEADS, HEAD);
  for (int i = 0; i < WEIGHTS; i++)
    ADD("!w%d = !nabla.implicit<%dx%dxf32, #nabla.%s<block = 64>>\n", i,
        rows_of(i), columns_of(i), encoding);
  ADD("func.func @step(%%x: !r, %%position: tensor<i64>");
  for (int i = 0; i < WEIGHTS; i++)
    ADD(", %%w%d: !w%d {nabla.name = \"w%d\"}", i, i, i);
  for (int i = 0; i < NORMS; i++)
    ADD(", %%n%d: tensor<%dxf32> {nabla.name = \"n%d\"}", i, DIM, i);
  for (int i = 0; i < LAYERS; i++)
    ADD(", %%k%d: !c {nabla.state = \"k%d\"}, %%v%d: !c {nabla.state = "
        "\"v%d\"}",
        i, i, i, i);
  ADD(") -> (tensor<1x%dxf32>", VOCABULARY);
  for (int i = 0; i < LAYERS; i++)
    ADD(", !c {nabla.state = \"k%d\"}, !c {nabla.state = \"v%d\"}", i, i);
  ADD(") {\n  %%c0 = arith.constant 0 : index\n"
      "  %%from = tensor.extract %%position[] : tensor<i64>\n"
      "  %%at = arith.index_cast %%from : i64 to index\n"
      "  %%one = nabla.constant dense<1> : tensor<i64>\n"
      "  %%keys = nabla.add %%position, %%one : tensor<i64>, tensor<i64>\n"
      "  %%p = nabla.reshape %%position : tensor<i64> -> tensor<1xi64>\n");
}

static void add_norm(const char *to, const char *from, int number) {
  ADD("  %s = nabla.rms_norm %s, %%n%d eps = 1.0e-5 : !r, tensor<%dxf32>\n", to,
      from, number, DIM);
}

static void add_layer(int l) {
  char in[16], out[16];
  (void)snprintf(in, sizeof in, l ? "%%x%d" : "%%x", l);
  (void)snprintf(out, sizeof out, "%%a%d", l);
  add_norm(out, in, 2 * l);
  for (int i = 0; i < 3; i++) {
    const int w = l * PER_LAYER + i;
    ADD("  %%l%d = nabla.linear %%a%d, %%w%d : !r, !w%d\n"
        "  %%h%d = nabla.reshape %%l%d : !r -> !h\n",
        w, l, w, w, w, w);
    if (i < 2)
      ADD("  %%r%d = nabla.rope halves %%h%d, %%p dim = 1 : !h, "
          "tensor<1xi64>\n",
          w, w);
  }
  const int q = l * PER_LAYER;
  ADD("  %%k%dn = nabla.dynamic_update_slice %%k%d, %%r%d at (%%c0, %%at, %%c0 "
      ": index, index, index) : !c, !h\n"
      "  %%v%dn = nabla.dynamic_update_slice %%v%d, %%h%d at (%%c0, %%at, %%c0 "
      ": index, index, index) : !c, !h\n"
      "  %%y%d = nabla.attention %%r%d, %%k%dn, %%v%dn keys(%%keys : "
      "tensor<i64>) : !h, !c, !c\n"
      "  %%z%d = nabla.reshape %%y%d : !h -> !r\n"
      "  %%o%d = nabla.linear %%z%d, %%w%d : !r, !w%d\n"
      "  %%b%d = nabla.add %s, %%o%d : !r, !r\n",
      l, l, q + 1, l, l, q + 2, l, q, l, l, l, l, l, l, q + 3, q + 3, l, in, l);
  char sum[16], normed[16];
  (void)snprintf(sum, sizeof sum, "%%b%d", l);
  (void)snprintf(normed, sizeof normed, "%%m%d", l);
  add_norm(normed, sum, 2 * l + 1);
  ADD("  %%g%d = nabla.linear %%m%d, %%w%d : !r, !w%d\n"
      "  %%s%d = nabla.silu %%g%d : !f\n"
      "  %%u%d = nabla.linear %%m%d, %%w%d : !r, !w%d\n"
      "  %%e%d = nabla.mul %%s%d, %%u%d : !f, !f\n"
      "  %%d%d = nabla.linear %%e%d, %%w%d : !f, !w%d\n"
      "  %%x%d = nabla.add %%b%d, %%d%d : !r, !r\n",
      l, l, q + 4, q + 4, l, l, l, l, q + 5, q + 5, l, l, l, l, l, q + 6, q + 6,
      l + 1, l, l);
}

static void add_program(const char *encoding) {
  add_signature(encoding);
  for (int l = 0; l < LAYERS; l++) add_layer(l);
  char last[16];
  (void)snprintf(last, sizeof last, "%%x%d", LAYERS);
  add_norm("%last", last, NORMS - 1);
  ADD("  %%logits = nabla.linear %%last, %%w%d : !r, !w%d\n"
      "  return %%logits",
      WEIGHTS - 1, WEIGHTS - 1);
  for (int i = 0; i < LAYERS; i++) ADD(", %%k%dn, %%v%dn", i, i);
  ADD(" : tensor<1x%dxf32>", VOCABULARY);
  for (int i = 0; i < 2 * LAYERS; i++) ADD(", !c");
  ADD("\n}\n");
}

/* ---- what is measured ---- */

typedef struct bench {
  int threads;
  nabla_pool *pool;
  nabla_weight_desc weights[WEIGHTS];
  nabla_matmul_plan *plans[WEIGHTS];
  void *workspace;
  nabla_executable *executable;
  nabla_session *session;
  float *x, *hidden, *logits; /* of one token */
  float *caches[2 * LAYERS];  /* beside those of the session */
  float norm[DIM];
  volatile float sink;
} bench;

static double now(const bench *b) {
  struct timespec t;
  clock_gettime(b->threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC,
                &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static void open_bench(bench *b, const char *encoding) {
  nabla_environment environment = {0};
  nabla_compiler_options options = {.struct_size = sizeof options, .cache = ""};
  nabla_compiler *compiler = NULL;
  uint64_t most = 0;
  check(nabla_pool_create((uint32_t)b->threads, NULL, &b->pool, &diag));
  environment.pool = b->pool;
  add_program(encoding);
  check(nabla_compiler_create(&options, &environment, &compiler, &diag));
  check(nabla_compile_text(compiler, text, used, "step", NULL, &b->executable,
                           &diag));
  nabla_compiler_destroy(compiler);
  nabla_compiler_provide_plans();
  for (int i = 0; i < WEIGHTS; i++) {
    char name[16];
    const nabla_matmul_options plan = {.struct_size = sizeof plan,
                                       .environment = environment};
    b->weights[i] = make_weight(i, encoding);
    (void)snprintf(name, sizeof name, "w%d", i);
    check(nabla_executable_bind(b->executable, name, &b->weights[i], &diag));
    check(nabla_matmul_plan_create(&b->weights[i], &plan, &b->plans[i], &diag));
    const uint64_t size = nabla_matmul_plan_workspace_size(b->plans[i], 1);
    if (size > most) most = size;
  }
  for (int i = 0; i < DIM; i++) b->norm[i] = 1;
  for (int i = 0; i < NORMS; i++) {
    char name[16];
    const nabla_weight_desc norm = {
        .rank = 1,
        .shape = {DIM},
        .dtype = NABLA_DTYPE_F32,
        .component_count = 1,
        .components = {{NULL, NABLA_DTYPE_F32, b->norm, sizeof b->norm}}};
    (void)snprintf(name, sizeof name, "n%d", i);
    check(nabla_executable_bind(b->executable, name, &norm, &diag));
  }
  b->workspace = allocate(most + 64);
  check(nabla_session_create(b->executable, NULL, &b->session, &diag));
}

static double run_step(bench *b, int64_t position) {
  const nabla_dense in[] = {{b->x, NABLA_DTYPE_F32, 2, {1, DIM}},
                            {&position, NABLA_DTYPE_I64, 0, {0}}};
  nabla_dense out = {b->logits, NABLA_DTYPE_F32, 2, {1, VOCABULARY}};
  const double begin = now(b);
  check(nabla_session_run(b->session, "step", in, 2, &out, 1, &diag));
  return now(b) - begin;
}

/* Sums of eight lanes, as fast as memory gives. */
static float sum_of(const float *data, size_t count) {
  typedef float lanes __attribute__((vector_size(64)));
  lanes sums[4] = {{0}};
  for (size_t i = 0; i + 64 <= count; i += 64)
    for (int j = 0; j < 4; j++)
      sums[j] += *(const lanes *)(const void *)(data + i + 16 * (size_t)j);
  const lanes all = (sums[0] + sums[1]) + (sums[2] + sums[3]);
  return all[0] + all[7];
}

typedef struct cache_read {
  bench *b;
  size_t count; /* of numbers of a head */
} cache_read;

/* The valid rows of the heads of all caches, divided among threads. */
static void read_part(void *self, uint32_t worker, uint32_t workers) {
  const cache_read *r = self;
  uint64_t begin, end;
  nabla_pool_split((uint64_t)2 * LAYERS * HEADS, workers, worker, &begin, &end);
  float sum = 0;
  for (uint64_t i = begin; i < end; i++)
    sum +=
        sum_of(r->b->caches[i / HEADS] + (size_t)(i % HEADS) * POSITIONS * HEAD,
               r->count);
  if (sum == 1234567.F) r->b->sink = sum; /* is not left out */
}

static double run_parts(bench *b, int64_t position) {
  cache_read read = {b, (size_t)(position + 1) * HEAD};
  const double begin = now(b);
  for (int i = 0; i < WEIGHTS; i++) {
    const int is_down = i % PER_LAYER == PER_LAYER - 1 && i < WEIGHTS - 1;
    check(nabla_matmul_plan_run(b->plans[i], is_down ? b->hidden : b->x, 1,
                                b->logits, b->workspace, &diag));
  }
  nabla_pool_run(b->pool, read_part, &read);
  return now(b) - begin;
}

static int ascending(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void measure(bench *b, int64_t position) {
  double steps[TURNS], all[TURNS];
  for (int i = -2; i < TURNS; i++) {
    const double step = run_step(b, position), part = run_parts(b, position);
    if (i >= 0) steps[i] = step, all[i] = part;
  }
  qsort(steps, TURNS, sizeof *steps, ascending);
  qsort(all, TURNS, sizeof *all, ascending);
  printf(
      "position %3lld: step %6.2f ms, products and caches %6.2f ms, rate "
      "%.3f (of the fastest of each: %.3f)\n",
      (long long)position, steps[TURNS / 2], all[TURNS / 2],
      all[TURNS / 2] / steps[TURNS / 2], all[0] / steps[0]);
}

int main(int argc, char **argv) {
  static bench b;
  b.threads = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 1;
  if (b.threads < 1 || b.threads > 64) return 2;
  b.x = allocate(DIM * sizeof(float));
  b.hidden = allocate(HIDDEN * sizeof(float));
  b.logits = allocate(VOCABULARY * sizeof(float));
  for (int i = 0; i < HIDDEN; i++) b.hidden[i] = (float)(i % 7 - 3);
  for (int i = 0; i < DIM; i++) b.x[i] = (float)(i % 7 - 3);
  const size_t bytes = sizeof(float) * HEADS * POSITIONS * HEAD;
  for (int i = 0; i < 2 * LAYERS; i++)
    b.caches[i] = memset(allocate(bytes), 0, bytes);
  open_bench(&b, argc > 2 ? argv[2] : "nf4");
  for (int64_t p = 0; p <= 500; p += 100) (void)run_step(&b, p);
  printf("%d thread%s\n", b.threads, b.threads == 1 ? "" : "s");
  measure(&b, 10);
  measure(&b, 500);
  return 0;
}
