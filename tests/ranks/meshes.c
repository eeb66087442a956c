/* meshes threads N FILE | meshes mpi FILE: arrays and functions on a mesh of N
 * devices, which are threads, or the processes of mpirun. Each process writes
 * the bytes of all results to FILE, and a process the number of its rank behind
 * the name. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nabla/derivative.h"
#include "nabla/encoding.h"
#include "nabla/function.h"
#include "nabla/shard.h"

enum { M = 6, K = 12, N = 8 };

static float x[M * K], w[K * N];
static nabla_engine *engine;
static nabla_scope *scope;
static nabla_mesh *mesh;
static FILE *out;
static int wrong;
static uint32_t self_rank;

static void fail(const char *what, const nabla_diag *diag) {
  (void)fprintf(stderr, "%s: %s\n", what, diag->what);
  exit(1);
}

static nabla_array *array(float *data, int64_t rows, int64_t columns) {
  const nabla_dense dense = {data, NABLA_DTYPE_F32, 2, {rows, columns}};
  return nabla_array_of(scope, &dense);
}

/* Writes the whole value. */
static void put(const char *name, nabla_array *value) {
  nabla_diag diag = NABLA_DIAG_INIT;
  nabla_dense dense = {0};
  if (nabla_array_read(value, &dense, &diag)) fail(name, &diag);
  size_t count = 1;
  for (uint32_t i = 0; i < dense.rank; i++) count *= (size_t)dense.shape[i];
  (void)fprintf(out, "%s %zu ", name, count);
  (void)fwrite(dense.data, sizeof(float), count, out);
}

static void products(void) {
  nabla_array *a =
      nabla_shard(array(x, M, K), nabla_partition_spec(mesh, NULL, "x"));
  nabla_array *b =
      nabla_shard(array(w, K, N), nabla_partition_spec(mesh, "x", NULL));
  nabla_array *p = nabla_matmul(a, b);
  put("joined", p);
  put("rows", nabla_exp(nabla_sharding_constraint(
                  p, nabla_partition_spec(mesh, "x", NULL))));
  put("columns", nabla_reshard(p, nabla_partition_spec(mesh, NULL, "x")));
  put("undivided", nabla_matmul(array(x, M, K), array(w, K, N)));
}

static void layer(nabla_scope *of, const nabla_tree *in, nabla_tree *result,
                  void *self) {
  (void)of, (void)self;
  nabla_array *p = nabla_sharding_constraint(
      nabla_matmul(in->items[0].array, in->items[1].array),
      nabla_partition_spec(mesh, NULL, "x"));
  result->array = nabla_sum(nabla_mul(p, p), 0, NULL, 0);
}

static void call(const char *name, nabla_function *function) {
  nabla_diag diag = NABLA_DIAG_INIT;
  nabla_tree items[2] = {nabla_tree_of_array(array(x, M, K)),
                         nabla_tree_of_array(array(w, K, N))};
  const nabla_tree in = nabla_tree_of_list(2, items);
  nabla_tree result = nabla_tree_of_array(NULL);
  if (nabla_function_call(function, &in, &result, &diag)) fail(name, &diag);
  put(name, result.array);
}

static void functions(void) {
  nabla_diag diag = NABLA_DIAG_INIT;
  const nabla_function_options options = {.struct_size = sizeof options,
                                          .name = "layer"};
  nabla_function *function, *gradient;
  if (nabla_function_create(engine, layer, &options, &function, &diag) ||
      nabla_grad(function, NULL, &gradient, &diag))
    fail("layer", &diag);
  for (int i = 0; i < 3; i++) {
    call("loss", function);
    call("gradient", gradient);
    w[i] += 1;
  }
  nabla_function_destroy(gradient);
  nabla_function_destroy(function);
}

static void pieces(nabla_scope *of, const nabla_tree *in, nabla_tree *result,
                   void *self) {
  (void)of, (void)self;
  result->array = nabla_all_mean(in->items[0].array, NULL);
}

static void maps(void) {
  nabla_tree item = nabla_tree_of_array(array(w, K, N));
  const nabla_tree in = nabla_tree_of_list(1, &item);
  nabla_tree result = nabla_tree_of_array(NULL);
  const nabla_partition rows = nabla_partition_spec(mesh, "x", NULL),
                        none = nabla_partition_spec(mesh, NULL, NULL);
  nabla_shard_map(pieces, NULL, &in, 1, &rows, &result, 1, &none);
  put("mean", result.array);
}

/* A step of descent, which takes over the pieces of its weight. */
static void step(nabla_scope *of, const nabla_tree *in, nabla_tree *result,
                 void *self) {
  (void)of, (void)self;
  static const int64_t swap[2] = {1, 0};
  const nabla_partition rows = nabla_partition_spec(mesh, "x", NULL);
  nabla_array *a = in->items[1].array;
  nabla_array *v = nabla_shard(in->items[0].array, rows);
  nabla_array *g =
      nabla_matmul(nabla_transpose(a, 2, swap), nabla_matmul(a, v));
  result->items[0].array =
      nabla_sharding_constraint(nabla_sub(v, nabla_tanh(g)), rows);
}

static void steps(uint32_t devices) {
  nabla_diag diag = NABLA_DIAG_INIT;
  const nabla_function_replacement donated = {"0", "0"};
  const nabla_function_options options = {.struct_size = sizeof options,
                                          .name = "step",
                                          .donated = &donated,
                                          .donated_count = 1};
  nabla_function *function;
  nabla_array *v = array(w, K, N);
  const void *memory[3] = {NULL};
  if (nabla_function_create(engine, step, &options, &function, &diag))
    fail("step", &diag);
  for (int i = 0; i < 3; i++) {
    nabla_dense piece;
    nabla_tree items[2] = {nabla_tree_of_array(v),
                           nabla_tree_of_array(array(x, M, K))};
    const nabla_tree in = nabla_tree_of_list(2, items);
    nabla_tree item = nabla_tree_of_array(NULL);
    nabla_tree result = nabla_tree_of_list(1, &item);
    if (nabla_function_call(function, &in, &result, &diag)) fail("step", &diag);
    v = item.array;
    if (nabla_read_local(v, self_rank, &piece, NULL, &diag)) fail("v", &diag);
    memory[i] = piece.data;
  }
  if (devices > 1 && memory[1] != memory[2]) {
    (void)fprintf(stderr, "a step did not take over its weight\n");
    wrong++;
  }
  put("steps", v);
  nabla_function_destroy(function);
}

/* A packed weight, whose rows are divided. */
static void packed(void) {
  static float values[N * 64], ones[64];
  for (int i = 0; i < N * 64; i++) values[i] = (float)(i * 37 % 101 - 50) / 25;
  for (int i = 0; i < 64; i++) ones[i] = (float)(i % 5) / 3;
  const nabla_storage layout = {
      .kind = NABLA_STORAGE_PLANES,
      .format = {.encoding = nabla_encoding_find("nf4"), .block = 64}};
  nabla_array *v = nabla_quantize(array(values, N, 64), &layout);
  nabla_diag diag = NABLA_DIAG_INIT;
  if (nabla_realize(scope, 1, &v, &diag)) fail("packed", &diag);
  nabla_array *y = nabla_linear(array(ones, 1, 64), v, nabla_none());
  put("packed",
      nabla_sharding_constraint(y, nabla_partition_spec(mesh, NULL, "x")));
}

/* A computation takes the pieces of another as they lie; reading gathers. */
static void stay(nabla_comm *comm, uint32_t devices) {
  nabla_diag diag = NABLA_DIAG_INIT;
  nabla_dense piece;
  int64_t start[2] = {0};
  const uint32_t rank = comm ? nabla_comm_rank(comm) : 0;
  const nabla_partition rows = nabla_partition_spec(mesh, "x", NULL);
  nabla_array *p = nabla_shard(nabla_exp(array(x, M, K)), rows);
  if (nabla_realize(scope, 1, &p, &diag)) fail("p", &diag);
  nabla_array *q = nabla_shard(nabla_exp(p), rows);
  const uint64_t before = comm ? nabla_comm_bytes(comm, rank) : 0;
  if (nabla_read_local(q, rank, &piece, start, &diag)) fail("piece", &diag);
  const uint64_t after = comm ? nabla_comm_bytes(comm, rank) : 0;
  if (before != after || piece.shape[0] != M / devices ||
      start[0] != (int64_t)(M / devices * rank)) {
    (void)fprintf(stderr, "a piece of %lld rows from %lld, %llu bytes\n",
                  (long long)piece.shape[0], (long long)start[0],
                  (unsigned long long)(after - before));
    wrong++;
  }
  put("pieces", q);
  const uint64_t want = (M - M / devices) * K * sizeof(float);
  if (comm && nabla_comm_bytes(comm, rank) - after != want) {
    (void)fprintf(stderr, "%llu bytes were gathered\n",
                  (unsigned long long)(nabla_comm_bytes(comm, rank) - after));
    wrong++;
  }
}

/* A mesh of other devices than there are is refused by all. */
static void refuse(uint32_t devices) {
  char axes[32];
  nabla_diag diag = NABLA_DIAG_INIT;
  nabla_mesh *other;
  nabla_dense dense;
  (void)snprintf(axes, sizeof axes, "x=%u", 2 * devices);
  if (nabla_mesh_create(axes, NULL, &other, &diag)) fail(axes, &diag);
  nabla_array *a =
      nabla_shard(array(w, K, N), nabla_partition_spec(other, "x", NULL));
  const nabla_status status = nabla_array_read(nabla_exp(a), &dense, &diag);
  if (status != NABLA_INVALID_ARGUMENT ||
      !strstr(diag.what, "ranks, the communicator has")) {
    (void)fprintf(stderr, "another mesh: %d %s\n", (int)status, diag.what);
    wrong++;
  }
  nabla_mesh_destroy(other);
}

static void run(nabla_comm *comm, uint32_t devices) {
  char axes[32];
  nabla_diag diag = NABLA_DIAG_INIT;
  const nabla_compiler_options compiler = {.struct_size = sizeof compiler,
                                           .cache = ""};
  const nabla_engine_options options = {
      .struct_size = sizeof options, .compiler = &compiler, .comm = comm};
  for (int i = 0; i < M * K; i++) x[i] = (float)(i * i % 131 - 60) / 97;
  for (int i = 0; i < K * N; i++) w[i] = (float)(i * 7 % 113 - 50) / 31;
  (void)snprintf(axes, sizeof axes, "x=%u", devices);
  if (nabla_engine_create(&options, NULL, &engine, &diag) ||
      nabla_scope_create(engine, &scope, &diag) ||
      nabla_mesh_create(axes, NULL, &mesh, &diag))
    fail("start", &diag);
  products();
  functions();
  maps();
  stay(comm, devices);
  steps(devices);
  packed();
  if (comm && devices > 1) refuse(devices);
  nabla_scope_end(scope);
  nabla_mesh_destroy(mesh);
  nabla_engine_destroy(engine);
}

int main(int argc, char **argv) {
  char name[4096];
  nabla_diag diag = NABLA_DIAG_INIT;
  nabla_comm *comm = NULL;
  uint32_t devices = 0;
  if (argc == 4 && !strcmp(argv[1], "threads")) {
    devices = (uint32_t)strtoul(argv[2], NULL, 10);
    (void)snprintf(name, sizeof name, "%s", argv[3]);
  } else if (argc == 3 && !strcmp(argv[1], "mpi")) {
    if (nabla_comm_mpi(&comm, &diag)) fail("nabla_comm_mpi", &diag);
    devices = nabla_comm_size(comm);
    self_rank = nabla_comm_rank(comm);
    (void)snprintf(name, sizeof name, "%s%u", argv[2], nabla_comm_rank(comm));
  } else {
    return 2;
  }
  out = fopen(name, "wb");
  if (!out) return 2;
  run(comm, devices);
  if (fclose(out)) wrong++;
  nabla_comm_destroy(comm);
  return wrong != 0;
}
