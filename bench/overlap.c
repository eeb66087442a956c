/* Exchanges that are hidden behind computations: the backward of four layers of
 * which the batch is divided between two ranks of threads, on a communicator
 * that delivers gradients of weights 5 ms after their start, without using the
 * CPU.
 *
 *   overlap [RUNS]
 *
 * prints the median times of a step without the delay and with it, and the
 * share of the delays that the step does not take longer. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "nabla/compiler.h"
#include "nabla/session.h"
#include "tests/support/delayed_comm.h"

enum {
  RANKS = 2,
  LAYERS = 4,
  ROWS = 1280, /* of both ranks */
  WIDTH = 768,
  DELAY_US = 5000,
  MOST_RUNS = 99
};

static nabla_diag diag = NABLA_DIAG_INIT;

static void check(nabla_status status) {
  if (!status) return;
  fprintf(stderr, "overlap: %s\n", diag.what);
  exit(1);
}

/* ---- the program ---- */

static char text[8192];

static void add(const char *format, int a, int b) {
  const size_t at = strlen(text);
  (void)snprintf(text + at, sizeof text - at, format, a, b);
}

static void write_program(void) {
  add("nabla.mesh @m <[\"data\"=%d]>\n", RANKS, 0);
  add("func.func @f(%%x: tensor<%dx%dxf32> {nabla.sharding = "
      "#nabla.sharding<@m, [{\"data\"}, {}]>}",
      ROWS, WIDTH);
  for (int l = 0; l < LAYERS; l++) {
    add(", %%w%d: ", l, 0);
    add("tensor<%dx%dxf32> {nabla.sharding = #nabla.sharding<@m, [{}, {}]>}",
        WIDTH, WIDTH);
  }
  add(") -> tensor<%dx%dxf32> {\n  %%y0 = nabla.neg %%x : ", ROWS, WIDTH);
  add("tensor<%dx%dxf32>\n", ROWS, WIDTH);
  for (int l = 0; l < LAYERS; l++) {
    add("  %%z%d = nabla.linear %%y%d", l, l);
    add(", %%w%d", l, 0);
    add(" : tensor<%dx%dxf32>", ROWS, WIDTH);
    add(", tensor<%dx%dxf32>\n", WIDTH, WIDTH);
    add("  %%y%d = nabla.tanh %%z%d", l + 1, l);
    add(" : tensor<%dx%dxf32>\n", ROWS, WIDTH);
  }
  add("  %%r = nabla.reduce mean %%y%d dims = [0, 1]", LAYERS, 0);
  add(" : tensor<%dx%dxf32>\n", ROWS, WIDTH);
  add("  return %%r : tensor<f32>\n}\n", 0, 0);
  char *const type = strstr(text, ") -> tensor<");
  char *const end = strchr(type, '{');
  const char result[] = ") -> tensor<f32> ";
  memmove(type + strlen(result), end, strlen(end) + 1);
  memcpy(type, result, strlen(result));
}

static nabla_status take_text(void *self, const void *data, size_t size,
                              nabla_diag *out) {
  (void)out;
  strncat(self, data, size);
  return NABLA_OK;
}

/* ---- ranks ---- */

typedef struct rank {
  nabla_session *session;
  pthread_t thread;
  nabla_status status;
  nabla_diag diag;
  nabla_dense out[LAYERS + 2];
} rank;

static nabla_dense in[LAYERS + 2];
static float cotangent = 1;

static void fill(nabla_dense *d, int64_t rows, int64_t columns) {
  float *data = malloc((size_t)(rows * columns) * sizeof *data);
  if (!data) exit(1);
  for (int64_t i = 0; i < rows * columns; i++)
    data[i] = (float)((i * 7919) % 1000 - 500) / 10000;
  *d = (nabla_dense){data, NABLA_DTYPE_F32, 2, {rows, columns}};
}

static void *run(void *self) {
  rank *r = self;
  r->status = nabla_session_run(r->session, "f.vjp", in, LAYERS + 2, r->out,
                                LAYERS + 2, &r->diag);
  return NULL;
}

static double now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static double step(nabla_executable *executable, rank ranks[RANKS]) {
  const double start = now_ms();
  for (int r = 0; r < RANKS; r++) {
    ranks[r].diag = (nabla_diag)NABLA_DIAG_INIT;
    if (pthread_create(&ranks[r].thread, NULL, run, &ranks[r])) exit(1);
  }
  for (int r = 0; r < RANKS; r++) pthread_join(ranks[r].thread, NULL);
  const double time = now_ms() - start;
  for (int r = 0; r < RANKS; r++) {
    diag = ranks[r].diag;
    check(ranks[r].status);
    for (int i = 0; i < LAYERS + 2; i++)
      nabla_dense_release(executable, &ranks[r].out[i]);
  }
  return time;
}

static int compare(const void *a, const void *b) {
  return (*(const double *)a > *(const double *)b) -
         (*(const double *)a < *(const double *)b);
}

static double median(double *times, int count) {
  qsort(times, (size_t)count, sizeof *times, compare);
  return times[count / 2];
}

int main(int argc, char **argv) {
  static char derived[65536];
  static double times[2][MOST_RUNS];
  int runs = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 15;
  if (runs < 1 || runs > MOST_RUNS) runs = 15;
  nabla_compiler *compiler;
  nabla_executable *executable;
  nabla_comm *inner, *comm;
  rank ranks[RANKS] = {0};
  write_program();
  check(nabla_compiler_create(NULL, NULL, &compiler, &diag));
  const nabla_derivation vjp = {
      .struct_size = sizeof vjp, .transform = "vjp", .function = "f"};
  const nabla_sink sink = {take_text, derived};
  check(nabla_derive_text(compiler, text, strlen(text), "overlap", &vjp, 1,
                          &sink, &diag));
  check(nabla_compile_text(compiler, derived, strlen(derived), "overlap", NULL,
                           &executable, &diag));
  check(nabla_comm_threads(RANKS, &inner, &diag));
  comm = delayed_comm_create(inner, WIDTH * WIDTH * 4, NABLA_COMM_ALL_RANKS, 0);
  if (!comm) return 1;
  for (uint32_t r = 0; r < RANKS; r++) {
    const nabla_session_options options = {
        .struct_size = sizeof options, .threads = 1, .comm = comm, .rank = r};
    check(nabla_session_create(executable, &options, &ranks[r].session, &diag));
  }
  fill(&in[0], ROWS, WIDTH);
  for (int l = 0; l < LAYERS; l++) fill(&in[l + 1], WIDTH, WIDTH);
  in[LAYERS + 1] = (nabla_dense){&cotangent, NABLA_DTYPE_F32, 0, {0}};
  for (int i = -1; i < runs; i++)
    for (int delayed = 0; delayed < 2; delayed++) {
      delayed_comm_set(comm, delayed ? DELAY_US : 0);
      const double time = step(executable, ranks);
      if (i >= 0) times[delayed][i] = time;
    }
  const double without = median(times[0], runs), with = median(times[1], runs);
  printf("%.2f ms without delays, %.2f with %d of %.1f ms: %.0f %% hidden\n",
         without, with, LAYERS, (double)DELAY_US / 1e3,
         100 * (1 - (with - without) / ((double)(LAYERS * DELAY_US) / 1e3)));
  for (int r = 0; r < RANKS; r++) nabla_session_close(ranks[r].session);
  nabla_comm_destroy(comm);
  nabla_executable_close(executable);
  nabla_compiler_destroy(compiler);
  for (int i = 0; i <= LAYERS; i++) free(in[i].data);
  return 0;
}
