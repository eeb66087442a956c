/* The verb arrays: what recording an operation costs, realizing a graph whose
 * program is there, and calling a function for the second time. */
#define NABLA_NO_HERE /* what builds with NDEBUG cost */

#include <stdbool.h>
#include <stdlib.h>

#include "bench/nabla-bench/bench.h"
#include "nabla/array.h"
#include "nabla/encoding.h"
#include "nabla/function.h"

enum { NODES = 100, ROUNDS = 2000, LAYERS = 32, DECODERS = 20 };

/* Seconds: of an operation, or of a graph of NODES operations. */
typedef struct figures {
  double plain;     /* an operation without attributes   */
  double debug;     /* the same in a debug build         */
  double attribute; /* with attributes                   */
  double scalar;    /* an operation of an array and a new scalar */
  double record;    /* a graph                            */
  double realize;   /* realizing it for the second time   */
  double packed;    /* realizing a product of a packed weight */
  double decoder;   /* recording a decoder of LAYERS layers   */
  double call;      /* of a traced function of NODES operations */
  double session;   /* a run of its session                   */
  double adds;      /* the difference of their medians        */
} figures;

typedef struct workbench {
  nabla_engine *engine;
  nabla_scope *scope; /* of the whole measurement */
  nabla_array *x, *y;
  double *times[2];
} workbench;

typedef nabla_array *(*operation)(nabla_array *x, nabla_array *y);

static nabla_array *plain(nabla_array *x, nabla_array *y) {
  return nabla_add(x, y);
}

/* As where NDEBUG is not defined. */
static nabla_array *debug(nabla_array *x, nabla_array *y) {
  return NABLA_HERE(nabla_add(x, y));
}

static nabla_array *with_attributes(nabla_array *x, nabla_array *y) {
  (void)y;
  return nabla_transpose(x, NABLA_DIMS(1, 0));
}

/* NODES operations of one kind. */
static nabla_array *record(nabla_array *x, nabla_array *y, operation make) {
  for (int i = 0; i < NODES; i++) x = make(x, y);
  return x;
}

/* The median of an operation, which is recorded and dropped. */
static nabla_status time_operation(workbench *w, operation make, double *out,
                                   nabla_diag *diag) {
  nabla_scope *scope;
  for (int i = 0; i < ROUNDS; i++) {
    NABLA_TRY(nabla_scope_create(w->engine, &scope, diag));
    const double start = bench_now(1);
    const nabla_array *last = record(w->x, w->y, make);
    w->times[0][i] = (bench_now(1) - start) / (double)NODES;
    const nabla_status status =
        last ? NABLA_OK : nabla_scope_status(scope, diag);
    nabla_scope_end(scope);
    if (status) return status;
  }
  *out = bench_quantile(w->times[0], ROUNDS, 0.5);
  return NABLA_OK;
}

static nabla_status time_scalar(workbench *w, double *out, nabla_diag *diag) {
  nabla_scope *scope;
  for (int i = 0; i < ROUNDS; i++) {
    NABLA_TRY(nabla_scope_create(w->engine, &scope, diag));
    nabla_array *x = w->x;
    const double start = bench_now(1);
    for (int k = 0; k < NODES; k++) x = nabla_mul(x, nabla_scalar(scope, k));
    w->times[0][i] = (bench_now(1) - start) / (double)NODES;
    nabla_scope_end(scope);
  }
  *out = bench_quantile(w->times[0], ROUNDS, 0.5);
  return NABLA_OK;
}

/* One graph: recorded, realized. */
static nabla_status realize(workbench *w, double *record_time, double *time,
                            nabla_diag *diag) {
  nabla_scope *scope;
  NABLA_TRY(nabla_scope_create(w->engine, &scope, diag));
  const double start = bench_now(1);
  nabla_array *last = record(w->x, w->y, plain);
  const double middle = bench_now(1);
  const nabla_status status = nabla_realize(scope, 1, &last, diag);
  *time = bench_now(1) - middle;
  *record_time = middle - start;
  nabla_scope_end(scope);
  return status;
}

static nabla_status time_graph(workbench *w, figures *out, nabla_diag *diag) {
  double first[2];
  NABLA_TRY(realize(w, &first[0], &first[1], diag)); /* compiles */
  for (int i = 0; i < ROUNDS; i++)
    NABLA_TRY(realize(w, &w->times[0][i], &w->times[1][i], diag));
  out->record = bench_quantile(w->times[0], ROUNDS, 0.5);
  out->realize = bench_quantile(w->times[1], ROUNDS, 0.5);
  return NABLA_OK;
}

/* Realizes a product of 1 x 64 and a packed 4 x 64. */
static nabla_status time_packed(workbench *w, double *out, nabla_diag *diag) {
  static float values[256];
  const nabla_dense dense = {values, NABLA_DTYPE_F32, 2, {4, 64}},
                    row = {values, NABLA_DTYPE_F32, 2, {1, 64}};
  const nabla_storage nf4 = {
      .kind = NABLA_STORAGE_PLANES,
      .format = {.encoding = nabla_encoding_find("nf4"), .block = 64}};
  nabla_array *both[2] = {
      nabla_array_of(w->scope, &row),
      nabla_quantize(nabla_array_of(w->scope, &dense), &nf4)};
  NABLA_TRY(nabla_realize(w->scope, 2, both, diag));
  for (int i = -1; i < ROUNDS; i++) {
    nabla_scope *scope;
    NABLA_TRY(nabla_scope_create(w->engine, &scope, diag));
    nabla_array *y = nabla_linear(both[0], both[1], nabla_none());
    const double start = bench_now(1);
    const nabla_status status = nabla_realize(scope, 1, &y, diag);
    if (i >= 0) w->times[0][i] = bench_now(1) - start;
    nabla_scope_end(scope);
    if (status) return status;
  }
  *out = bench_quantile(w->times[0], ROUNDS, 0.5);
  return NABLA_OK;
}

/* ---- a decoder ---- */

enum { WIDTH = 64, HEADS = 4, HEAD = WIDTH / HEADS, HIDDEN = 128, TOKENS = 8 };

static nabla_array *weight(nabla_scope *scope, int64_t rows, int64_t columns) {
  static float values[HIDDEN * WIDTH];
  const nabla_dense dense = {values, NABLA_DTYPE_F32, 2, {rows, columns}};
  return nabla_array_borrow(scope, &dense);
}

static nabla_array *project(nabla_scope *scope, nabla_array *x, int64_t rows,
                            int64_t columns) {
  return nabla_linear(x, weight(scope, rows, columns), nabla_none());
}

/* [1, HEADS, TOKENS, HEAD]. */
static nabla_array *heads(nabla_scope *scope, nabla_array *x, bool has_place) {
  nabla_array *y = nabla_reshape(project(scope, x, WIDTH, WIDTH),
                                 NABLA_DIMS(1, TOKENS, HEADS, HEAD));
  y = nabla_transpose(y, NABLA_DIMS(0, 2, 1, 3));
  return has_place ? nabla_rope(y, nabla_none(), 2, NULL) : y;
}

static nabla_array *norm(nabla_scope *scope, nabla_array *x) {
  static float ones[WIDTH];
  const nabla_dense dense = {ones, NABLA_DTYPE_F32, 1, {WIDTH}};
  return nabla_rms_norm(x, nabla_array_borrow(scope, &dense), 1e-5);
}

static nabla_array *record_layer(nabla_scope *scope, nabla_array *x) {
  nabla_array *y = norm(scope, x);
  nabla_array *a =
      nabla_attention(heads(scope, y, true), heads(scope, y, true),
                      heads(scope, y, false), nabla_none(), nabla_none(), 0, 1);
  a = nabla_reshape(nabla_transpose(a, NABLA_DIMS(0, 2, 1, 3)),
                    NABLA_DIMS(TOKENS, WIDTH));
  x = nabla_add(x, project(scope, a, WIDTH, WIDTH));
  y = norm(scope, x);
  nabla_array *gate = nabla_silu(project(scope, y, HIDDEN, WIDTH));
  gate = nabla_mul(gate, project(scope, y, HIDDEN, WIDTH));
  return nabla_add(x, project(scope, gate, WIDTH, HIDDEN));
}

static nabla_status time_decoder(workbench *w, double *out, nabla_diag *diag) {
  for (int i = 0; i < DECODERS; i++) {
    nabla_scope *scope;
    NABLA_TRY(nabla_scope_create(w->engine, &scope, diag));
    const double start = bench_now(1);
    nabla_array *x = weight(scope, TOKENS, WIDTH);
    for (int layer = 0; layer < LAYERS; layer++) x = record_layer(scope, x);
    (void)project(scope, norm(scope, x), HIDDEN, WIDTH);
    w->times[0][i] = bench_now(1) - start;
    const nabla_status status = nabla_scope_status(scope, diag);
    nabla_scope_end(scope);
    if (status) return status;
  }
  *out = bench_quantile(w->times[0], DECODERS, 0.5);
  return NABLA_OK;
}

/* ---- a traced function ---- */

static void trace(nabla_scope *scope, const nabla_tree *arguments,
                  nabla_tree *results, void *self) {
  (void)scope, (void)self;
  results->array =
      record(arguments->items[0].array, arguments->items[1].array, plain);
}

/* Times calls of the function and runs of its session, alternately, on the
 * same two arguments. */
static nabla_status time_turns(workbench *w, nabla_function *function,
                               nabla_session *session, const nabla_tree *in,
                               figures *out, nabla_diag *diag) {
  float memory[16];
  const nabla_dense inputs[2] = {*nabla_array_dense(w->x),
                                 *nabla_array_dense(w->y)};
  nabla_dense output = {memory, NABLA_DTYPE_F32, 2, {4, 4}};
  for (int i = 0; i < ROUNDS; i++) {
    nabla_scope *scope;
    nabla_tree result = nabla_tree_of_array(NULL);
    NABLA_TRY(nabla_scope_create(w->engine, &scope, diag));
    const double start = bench_now(1);
    nabla_status status = nabla_function_call(function, in, &result, diag);
    const double middle = bench_now(1);
    if (!status)
      status = nabla_session_run(session, "main", inputs, 2, &output, 1, diag);
    w->times[0][i] = middle - start;
    w->times[1][i] = bench_now(1) - middle;
    nabla_scope_end(scope);
    if (status) return status;
  }
  out->call = bench_quantile(w->times[0], ROUNDS, 0.5);
  out->session = bench_quantile(w->times[1], ROUNDS, 0.5);
  out->adds = out->call - out->session;
  return NABLA_OK;
}

static nabla_status time_function(workbench *w, figures *out,
                                  nabla_diag *diag) {
  nabla_function *function;
  nabla_session *session = NULL;
  nabla_tree items[2] = {nabla_tree_of_array(w->x), nabla_tree_of_array(w->y)};
  const nabla_tree in = nabla_tree_of_list(2, items);
  const nabla_tree shape = nabla_tree_of_array(NULL);
  NABLA_TRY(nabla_function_create(w->engine, trace, NULL, &function, diag));
  nabla_status status =
      nabla_function_session(function, &in, &shape, NULL, &session, diag);
  if (!status) status = time_turns(w, function, session, &in, out, diag);
  nabla_session_close(session);
  nabla_function_destroy(function);
  return status;
}

/* The scope and two arrays of 4 x 4. */
static nabla_status begin(workbench *w, nabla_diag *diag) {
  static float values[16];
  const nabla_dense dense = {values, NABLA_DTYPE_F32, 2, {4, 4}};
  NABLA_TRY(nabla_scope_create(w->engine, &w->scope, diag));
  w->x = nabla_array_of(w->scope, &dense);
  w->y = nabla_array_of(w->scope, &dense);
  return nabla_scope_status(w->scope, diag);
}

static nabla_status time_debug(const nabla_engine_options *options,
                               workbench *w, double *out, nabla_diag *diag) {
  NABLA_TRY(nabla_engine_create_debug(options, NULL, &w->engine, diag));
  nabla_status status = begin(w, diag);
  if (!status) status = time_operation(w, debug, out, diag);
  nabla_scope_end(w->scope);
  nabla_engine_destroy(w->engine);
  return status;
}

static nabla_status measure(workbench *w, figures *out, nabla_diag *diag) {
  NABLA_TRY(begin(w, diag));
  NABLA_TRY(time_operation(w, plain, &out->plain, diag));
  NABLA_TRY(time_operation(w, with_attributes, &out->attribute, diag));
  NABLA_TRY(time_scalar(w, &out->scalar, diag));
  NABLA_TRY(time_packed(w, &out->packed, diag));
  NABLA_TRY(time_decoder(w, &out->decoder, diag));
  NABLA_TRY(time_function(w, out, diag));
  return time_graph(w, out, diag);
}

static const struct {
  const char *name, *text;
  size_t offset;
  double target; /* us; 0: none */
} rows[] = {
    {"plain_us", "record an operation without attributes",
     offsetof(figures, plain), 1},
    {"debug_us", "the same without NDEBUG", offsetof(figures, debug), 1},
    {"attribute_us", "record an operation with attributes",
     offsetof(figures, attribute), 2},
    {"scalar_us", "a new scalar, and an operation of it",
     offsetof(figures, scalar), 2},
    {"record_us", "record a graph of 100 operations", offsetof(figures, record),
     100},
    {"realize_us", "realize it, once its program is there",
     offsetof(figures, realize), 0},
    {"packed_us", "realize a product of a packed weight",
     offsetof(figures, packed), 0},
    {"decoder_us", "record a decoder of 32 layers", offsetof(figures, decoder),
     20000},
    {"call_us", "a function of 100 operations, called again",
     offsetof(figures, call), 0},
    {"session_us", "a run of its session", offsetof(figures, session), 0},
    {"adds_us", "so much does the call add", offsetof(figures, adds), 5},
};
enum { ROWS = sizeof rows / sizeof *rows };

static double value_of(const figures *f, size_t row) {
  return 1e6 *
         *(const double *)(const void *)((const char *)f + rows[row].offset);
}

static nabla_status print_json(const figures *f, nabla_diag *diag) {
  nabla_json_out out;
  bench_json_begin(&out, BENCH_VERB_arrays);
  for (size_t i = 0; i < ROWS; i++)
    bench_json_number(&out, rows[i].name, value_of(f, i));
  return bench_json_end(&out, diag);
}

static void print_text(const figures *f) {
  printf("medians, us of CPU time\n");
  for (size_t i = 0; i < ROWS; i++) {
    printf("%-48s %10.3f", rows[i].text, value_of(f, i));
    if (rows[i].target > 0) printf(" %10s%g", "<= ", rows[i].target);
    printf("\n");
  }
}

nabla_status bench_run_arrays(const bench_settings *s, nabla_diag *diag) {
  const nabla_compiler_options compiler = {.struct_size = sizeof compiler,
                                           .cache = ""};
  const nabla_engine_options options = {.struct_size = sizeof options,
                                        .compiler = &compiler};
  workbench w = {0};
  figures f = {0};
  double *times = calloc((size_t)2 * ROUNDS, sizeof *times);
  if (!times) return nabla_fail(diag, NABLA_NO_MEMORY, "no memory");
  w.times[0] = times;
  w.times[1] = times + ROUNDS;
  nabla_status status = time_debug(&options, &w, &f.debug, diag);
  if (!status) {
    w.scope = NULL;
    status = nabla_engine_create(&options, NULL, &w.engine, diag);
  }
  if (!status) {
    status = measure(&w, &f, diag);
    nabla_scope_end(w.scope);
    nabla_engine_destroy(w.engine);
  }
  free(times);
  if (status) return status;
  if (s->json) return print_json(&f, diag);
  print_text(&f);
  return NABLA_OK;
}
