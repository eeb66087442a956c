/* Programs that are divided over a mesh, on ranks of threads: collectives
 * against values by hand, a feed-forward layer and a decoder against the
 * programs of one rank, and what is refused. */
#include <criterion/criterion.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nabla/compiler.h"
#include "nabla/decoder.h"
#include "nabla/quantize.h"
#include "nabla/session.h"
#include "tests/support/model.h"
#include "tests/support/temp_folder.h"

enum { MOST_RANKS = 8, IDS = 200 };

static nabla_diag diag;
static nabla_compiler *compiler;
static temp_folder folder;

static void set_up(void) {
  const nabla_compiler_options options = {.struct_size = sizeof options,
                                          .cache = ""};
  diag = (nabla_diag)NABLA_DIAG_INIT;
  cr_assert_eq(nabla_compiler_create(&options, NULL, &compiler, &diag), 0);
  temp_folder_create(&folder);
}

static void tear_down(void) {
  nabla_compiler_destroy(compiler);
  model_remove_tree(folder.path);
}

TestSuite(sharded, .init = set_up, .fini = tear_down, .timeout = 300);

/* ---- ranks --------------------------------------------------------------- */

typedef struct rank {
  nabla_session *session;
  void (*run)(struct rank *);
  uint32_t number;
  pthread_t thread;
  nabla_status status;
  nabla_diag diag;
  nabla_dense in, out;
  size_t in_count;
  int64_t ids[IDS + 1];
  float logits[512];
} rank;

static nabla_comm *comm;
static rank ranks[MOST_RANKS];
static uint32_t rank_count;

static void *run_rank(void *self) {
  rank *r = self;
  r->run(r);
  return NULL;
}

static void open_ranks(nabla_executable *executable, uint32_t count) {
  rank_count = count;
  cr_assert_eq(nabla_comm_threads(count, &comm, &diag), 0, "%s", diag.what);
  for (uint32_t i = 0; i < count; i++) {
    const nabla_session_options options = {
        .struct_size = sizeof options, .threads = 1, .comm = comm, .rank = i};
    ranks[i] = (rank){.number = i, .diag = NABLA_DIAG_INIT};
    cr_assert_eq(
        nabla_session_create(executable, &options, &ranks[i].session, &diag), 0,
        "%s", diag.what);
  }
}

static void run_ranks(void (*run)(rank *)) {
  for (uint32_t i = 0; i < rank_count; i++) {
    ranks[i].run = run;
    cr_assert_eq(pthread_create(&ranks[i].thread, NULL, run_rank, &ranks[i]),
                 0);
  }
  for (uint32_t i = 0; i < rank_count; i++) pthread_join(ranks[i].thread, NULL);
}

static void close_ranks(nabla_executable *executable) {
  for (uint32_t i = 0; i < rank_count; i++) {
    if (ranks[i].out.data) nabla_dense_release(executable, &ranks[i].out);
    nabla_session_close(ranks[i].session);
  }
  nabla_comm_destroy(comm);
}

static nabla_executable *compile(const char *text, const char *mesh,
                                 const char *shard) {
  const nabla_compile_options options = {.struct_size = sizeof options,
                                         .policy = "error",
                                         .mesh = mesh,
                                         .shard = shard};
  nabla_executable *out = NULL;
  diag = (nabla_diag)NABLA_DIAG_INIT;
  cr_assert_eq(nabla_compile_text(compiler, text, strlen(text), "sharded",
                                  &options, &out, &diag),
               0, "%s", diag.what);
  return out;
}

static void run_f(rank *r) {
  r->status = nabla_session_run(r->session, "f", &r->in, r->in_count, &r->out,
                                1, &r->diag);
}

/* ---- collectives --------------------------------------------------------- */

/* %v is x of [4, 4] plus the number of the rank. */
#define COLLECTIVE(line, type)                                    \
  "nabla.mesh @m <[\"a\"=2, \"b\"=2]>\n"                          \
  "func.func @f(%x: tensor<4x4xf32>) -> " type                    \
  " attributes {nabla.partitioned = @m} {\n"                      \
  "  %i = nabla.axis_index axes = [\"a\", \"b\"] : tensor<i64>\n" \
  "  %n = nabla.convert %i : tensor<i64> -> tensor<f32>\n"        \
  "  %w = nabla.broadcast_in_dim %n dims = [] : tensor<f32> -> "  \
  "tensor<4x4xf32>\n"                                             \
  "  %v = nabla.add %x, %w : tensor<4x4xf32>, tensor<4x4xf32>\n"  \
  "  %r = nabla." line "\n  return %r : " type "\n}\n"

static float x_at(int64_t i, int64_t j) { return (float)(10 * i + j); }

/* What rank r has at (i, j) of the result. */
static float sum_a(uint32_t r, int64_t i, int64_t j) {
  return 2 * x_at(i, j) + (float)(r % 2 + r % 2 + 2);
}
static float most_b(uint32_t r, int64_t i, int64_t j) {
  return x_at(i, j) + (float)(r / 2 * 2 + 1);
}
static float gather_b(uint32_t r, int64_t i, int64_t j) {
  return x_at(i, j % 4) + (float)(r / 2 * 2) + (float)(j / 4);
}
static float gather_all(uint32_t r, int64_t i, int64_t j) {
  (void)r;
  return x_at(i % 4, j) + (float)(i / 4);
}
static float slice_a(uint32_t r, int64_t i, int64_t j) {
  return x_at(i + r / 2 * 2, j) + (float)r;
}
static float scatter_b(uint32_t r, int64_t i, int64_t j) {
  return 2 * x_at(i, j + r % 2 * 2) + (float)(4 * (r / 2) + 1);
}
static float move_a(uint32_t r, int64_t i, int64_t j) {
  return x_at(i + r / 2 * 2, j % 4) + (float)(r % 2) + (float)(j / 4 * 2);
}
static float permuted(uint32_t r, int64_t i, int64_t j) {
  return r / 2 == 1 ? x_at(i, j) + (float)(r % 2) : 0;
}
static float from_one(uint32_t r, int64_t i, int64_t j) {
  return x_at(i, j) + (float)(r / 2 * 2 + 1);
}

static const struct {
  const char *text;
  int64_t shape[2];
  float (*at)(uint32_t, int64_t, int64_t);
} collectives[] = {
    {COLLECTIVE("all_reduce sum %v axes = [\"a\"] : tensor<4x4xf32>",
                "tensor<4x4xf32>"),
     {4, 4},
     sum_a},
    {COLLECTIVE("all_reduce max %v axes = [\"b\"] : tensor<4x4xf32>",
                "tensor<4x4xf32>"),
     {4, 4},
     most_b},
    {COLLECTIVE("all_gather %v dim = 1 axes = [\"b\"] : tensor<4x4xf32> -> "
                "tensor<4x8xf32>",
                "tensor<4x8xf32>"),
     {4, 8},
     gather_b},
    {COLLECTIVE("all_gather %v dim = 0 axes = [\"a\", \"b\"] : "
                "tensor<4x4xf32> -> tensor<16x4xf32>",
                "tensor<16x4xf32>"),
     {16, 4},
     gather_all},
    {COLLECTIVE("all_slice %v dim = 0 axes = [\"a\"] : tensor<4x4xf32> -> "
                "tensor<2x4xf32>",
                "tensor<2x4xf32>"),
     {2, 4},
     slice_a},
    {COLLECTIVE("reduce_scatter sum %v dim = 1 axes = [\"b\"] : "
                "tensor<4x4xf32> -> tensor<4x2xf32>",
                "tensor<4x2xf32>"),
     {4, 2},
     scatter_b},
    {COLLECTIVE("all_to_all %v split = 0 concat = 1 axes = [\"a\"] : "
                "tensor<4x4xf32> -> tensor<2x8xf32>",
                "tensor<2x8xf32>"),
     {2, 8},
     move_a},
    {COLLECTIVE("permute %v pairs = [0, 1] axes = [\"a\"] : tensor<4x4xf32>",
                "tensor<4x4xf32>"),
     {4, 4},
     permuted},
    {COLLECTIVE("broadcast %v from = 1 axes = [\"b\"] : tensor<4x4xf32>",
                "tensor<4x4xf32>"),
     {4, 4},
     from_one},
};

/* Runs each program on a mesh with this order of devices, in which rank r has
 * the number places[r]. */
static void check_collectives(const char *devices, const uint32_t *places) {
  float x[16];
  for (int i = 0; i < 16; i++) x[i] = x_at(i / 4, i % 4);
  for (size_t c = 0; c < sizeof collectives / sizeof *collectives; c++) {
    char text[1500];
    const int first = (int)strcspn(collectives[c].text, "\n");
    (void)snprintf(text, sizeof text, "%.*s%s%s", first, collectives[c].text,
                   devices, collectives[c].text + first);
    nabla_executable *executable = compile(text, NULL, NULL);
    const int64_t *shape = collectives[c].shape;
    open_ranks(executable, 4);
    for (uint32_t r = 0; r < 4; r++) {
      ranks[r].in = (nabla_dense){x, NABLA_DTYPE_F32, 2, {4, 4}};
      ranks[r].in_count = 1;
    }
    run_ranks(run_f);
    for (uint32_t r = 0; r < 4; r++) {
      const rank *one = &ranks[r];
      cr_assert_eq(one->status, 0, "%zu: %s", c, one->diag.what);
      cr_assert(one->out.shape[0] == shape[0] && one->out.shape[1] == shape[1]);
      for (int64_t i = 0; i < shape[0] * shape[1]; i++)
        cr_assert_eq(((const float *)one->out.data)[i],
                     collectives[c].at(places[r], i / shape[1], i % shape[1]),
                     "%zu: rank %u, element %d is %g", c, r, (int)i,
                     (double)((const float *)one->out.data)[i]);
    }
    close_ranks(executable);
    nabla_executable_close(executable);
  }
}

Test(sharded, collectives) {
  static const uint32_t places[] = {0, 1, 2, 3};
  check_collectives("", places);
}

Test(sharded, collectives_in_an_order_of_devices) {
  static const uint32_t places[] = {1, 3, 0, 2};
  check_collectives(" {devices = [2, 0, 3, 1]}", places);
}

/* ---- a layer ------------------------------------------------------------- */

static const char layer[] =
    "func.func @f(%x: tensor<3x64xf32>,\n"
    "    %up: tensor<256x64xf32> {nabla.name = \"up\"},\n"
    "    %down: tensor<64x256xf32> {nabla.name = \"down\"})\n"
    "    -> tensor<3x64xf32> {\n"
    "  %h = nabla.linear %x, %up : tensor<3x64xf32>, tensor<256x64xf32>\n"
    "  %s = nabla.silu %h : tensor<3x256xf32>\n"
    "  %y = nabla.linear %s, %down : tensor<3x256xf32>, tensor<64x256xf32>\n"
    "  return %y : tensor<3x64xf32>\n}\n";

static float *numbers(size_t count, uint64_t seed) {
  float *out = malloc(count * sizeof *out);
  cr_assert(out);
  model_fill(out, count, seed);
  return out;
}

static void bind(nabla_executable *executable, const char *name, float *data,
                 uint64_t rows, uint64_t columns) {
  const nabla_weight_desc weight = {
      .rank = 2,
      .shape = {rows, columns},
      .dtype = NABLA_DTYPE_F32,
      .component_count = 1,
      .components = {
          {NULL, NABLA_DTYPE_F32, data, rows * columns * sizeof *data}}};
  cr_assert_eq(nabla_executable_bind(executable, name, &weight, &diag), 0, "%s",
               diag.what);
}

/* One annotation divides both weights; one exchange joins the result, of which
 * each rank takes as many bytes as a ring would. */
Test(sharded, layer) {
  float *x = numbers(3 * 64, 1), *up = numbers(256 * 64, 2);
  float *down = numbers(64 * 256, 3), want[3 * 64];
  nabla_executable *whole = compile(layer, NULL, NULL);
  bind(whole, "up", up, 256, 64);
  bind(whole, "down", down, 64, 256);
  const nabla_dense in = {x, NABLA_DTYPE_F32, 2, {3, 64}};
  nabla_dense out = {want, NABLA_DTYPE_F32, 2, {3, 64}};
  cr_assert_eq(nabla_executable_run(whole, "f", &in, 1, &out, 1, &diag), 0);
  for (uint32_t n = 2; n <= MOST_RANKS; n *= 2) {
    char mesh[24];
    (void)snprintf(mesh, sizeof mesh, "model=%u", n);
    nabla_executable *executable = compile(layer, mesh, "up=[{\"model\"}, {}]");
    bind(executable, "up", up, 256, 64);
    bind(executable, "down", down, 64, 256);
    open_ranks(executable, n);
    for (uint32_t r = 0; r < n; r++) ranks[r].in = in, ranks[r].in_count = 1;
    run_ranks(run_f);
    for (uint32_t r = 0; r < n; r++) {
      nabla_session_usage usage = {.struct_size = sizeof usage};
      cr_assert_eq(ranks[r].status, 0, "%s", ranks[r].diag.what);
      for (int i = 0; i < 3 * 64; i++)
        cr_assert_float_eq(((float *)ranks[r].out.data)[i], want[i], 1e-4f);
      cr_assert(!memcmp(ranks[r].out.data, ranks[0].out.data, sizeof want));
      cr_assert_eq(nabla_comm_bytes(comm, r), 2 * (n - 1) * sizeof want / n);
      cr_assert_eq(nabla_session_memory(ranks[r].session, &usage, &diag), 0);
      /* up's rows lie in a row, down's columns do not */
      cr_assert_eq(usage.piece_bytes, 64 * 256 * sizeof(float) / n);
      cr_assert_eq(usage.weight_bytes, 2 * 64 * 256 * sizeof(float) / n);
    }
    close_ranks(executable);
    nabla_executable_close(executable);
  }
  nabla_executable_close(whole);
  free(x), free(up), free(down);
}

/* The order of devices says which rank has which piece; sums are joined in the
 * order of the mesh, so that the bytes are the same. */
Test(sharded, an_order_of_devices) {
  static const char *const meshes[] = {
      "nabla.mesh @m <[\"model\"=4]>\n",
      "nabla.mesh @m <[\"model\"=4]> {devices = [2, 0, 3, 1]}\n"};
  float *x = numbers(3 * 64, 1), *up = numbers(256 * 64, 2);
  float *down = numbers(64 * 256, 3), want[3 * 64];
  const nabla_dense in = {x, NABLA_DTYPE_F32, 2, {3, 64}};
  for (int m = 0; m < 2; m++) {
    char text[1500];
    (void)snprintf(text, sizeof text, "%s%s", meshes[m], layer);
    nabla_executable *executable = compile(text, NULL, "up=[{\"model\"}, {}]");
    bind(executable, "up", up, 256, 64);
    bind(executable, "down", down, 64, 256);
    open_ranks(executable, 4);
    for (uint32_t r = 0; r < 4; r++) ranks[r].in = in, ranks[r].in_count = 1;
    run_ranks(run_f);
    for (uint32_t r = 0; r < 4; r++) {
      cr_assert_eq(ranks[r].status, 0, "%s", ranks[r].diag.what);
      if (!m && !r) memcpy(want, ranks[r].out.data, sizeof want);
      cr_expect(!memcmp(ranks[r].out.data, want, sizeof want), "mesh %d", m);
    }
    close_ranks(executable);
    nabla_executable_close(executable);
  }
  free(x), free(up), free(down);
}

/* Sizes that are no multiple of a block stay whole; the result is the same. */
Test(sharded, an_axis_that_does_not_divide) {
  nabla_executable *executable =
      compile(layer, "model=3", "up=[{\"model\"}, {}]");
  cr_expect_eq(nabla_executable_function(executable, 0)->arguments[1].shape[0],
               256);
  nabla_executable_close(executable);
}

/* ---- bytes of each class of operations ------------------------------------
 */

/* %x has 8 rows of 8 floats, 256 bytes, which are divided among `count` ranks.
 * `bytes` are those that a rank takes, by hand: gathers of the result's pieces
 * of the others, and what the operation exchanges. */
#define GATHERED(whole, n) ((whole) / (n) * ((n) - 1))
#define REDUCED(whole, n)  (2 * GATHERED(whole, n))
static const struct {
  const char *lines, *type; /* of %r */
  uint32_t count;
  uint64_t bytes;
} classes[] = {
    {"%r = nabla.exp %x : X", "8x8xf32", 4, GATHERED(256, 4)},
    {"%r = nabla.reduce sum %x dims = [0] : X", "8xf32", 4, REDUCED(32, 4)},
    {"%r = nabla.reduce mean %x dims = [0] : X", "8xf32", 4, REDUCED(32, 4)},
    {"%r = nabla.reduce max %x dims = [1] : X", "8xf32", 4, GATHERED(32, 4)},
    {"%r = nabla.transpose %x permutation = [1, 0] : X", "8x8xf32", 2,
     GATHERED(256, 2)},
    {"%r = nabla.reshape %x : X -> tensor<4x16xf32>", "4x16xf32", 4,
     GATHERED(256, 4)},
    {"%r = nabla.softmax %x dim = 1 : X", "8x8xf32", 4, GATHERED(256, 4)},
    {"%r = nabla.softmax %x dim = 0 : X", "8x8xf32", 4, GATHERED(256, 4)},
    {"%r = nabla.flip %x dims = [0] : X", "8x8xf32", 4, GATHERED(256, 4)},
    {"%r = nabla.slice %x starts = [0, 2] limits = [8, 6] : X", "8x4xf32", 4,
     GATHERED(128, 4)},
    {"%r = nabla.concatenate %x, %x dim = 1 : X, X", "8x16xf32", 4,
     GATHERED(512, 4)},
    {"%r = nabla.stack %x, %x dim = 0 : X, X", "2x8x8xf32", 4,
     GATHERED(512, 4)},
    {"%z = nabla.full 0.0 : f32 -> tensor<f32>\n"
     "  %r = nabla.pad %x, %z low = [0, 1] high = [0, 1] : X, tensor<f32>",
     "8x10xf32", 4, GATHERED(320, 4)},
    {"%r = nabla.pool max %x window = [1, 3] : X", "8x6xf32", 4,
     GATHERED(192, 4)},
    {"%w = nabla.full 1.0 : f32 -> tensor<4x8xf32>\n"
     "  %r = nabla.linear %x, %w : X, tensor<4x8xf32>",
     "8x4xf32", 4, GATHERED(128, 4)},
    /* the contraction is divided: the second operand follows without exchange
     */
    {"%w = nabla.full 1.0 : f32 -> tensor<8x4xf32>\n"
     "  %r = nabla.dot_general %x, %w contracting = [0] x [0] : X, "
     "tensor<8x4xf32>",
     "8x4xf32", 4, REDUCED(128, 4)},
    {"%i = nabla.iota dim = 0 -> tensor<4xi64>\n"
     "  %r = nabla.gather %x, %i offset_dims = [1] collapsed_dims = [0] "
     "index_map = [0] vector_dim = 1 sizes = [1, 8] : X, tensor<4xi64>",
     "4x8xf32", 4, REDUCED(128, 4)},
    {"%i = nabla.iota dim = 0 -> tensor<2xi64>\n"
     "  %u = nabla.full 1.0 : f32 -> tensor<2x8xf32>\n"
     "  %r = nabla.scatter add %x, %i, %u offset_dims = [1] collapsed_dims = "
     "[0] index_map = [0] vector_dim = 1 : X, tensor<2xi64>, tensor<2x8xf32>",
     "8x8xf32", 4, GATHERED(256, 4)},
    /* 8 values and 8 indices of each device */
    {"%r = nabla.argmax %x dim = 0 : X", "8xi64", 4, 3 * (32 + 64)},
    /* each iteration joins 8 floats */
    {"%h = nabla.full 0.0 : f32 -> tensor<8xf32>\n"
     "  %l = nabla.full 0.0 : f32 -> tensor<5x1xf32>\n"
     "  %r = nabla.scan init(%h : tensor<8xf32>) over(%l : tensor<5x1xf32>) -> "
     "tensor<8xf32> {\n  ^bb0(%c: tensor<8xf32>, %s: tensor<1xf32>):\n"
     "    %e = nabla.reduce sum %x dims = [0] : X\n"
     "    %d = nabla.add %c, %e : tensor<8xf32>, tensor<8xf32>\n"
     "    nabla.yield %d : tensor<8xf32>\n  }",
     "8xf32", 4, 5 * REDUCED(32, 4)},
    /* 3 pieces of 3 rows; a row of padding is exchanged too */
    {"%r = nabla.exp %x : X", "8x8xf32", 3, 2 * 3 * 32},
    /* from rows to columns: a device keeps a quarter of its piece */
    {"%y = nabla.sharding_constraint %x : X sharding = #nabla.sharding<@m, "
     "[{}, "
     "{\"a\"}]>\n  %r = nabla.reduce sum %y dims = [1] : X",
     "8xf32", 4, GATHERED(64, 4) + REDUCED(32, 4)},
};

static char *class_text(size_t i, uint32_t n) {
  static char text[4096];
  char body[2048] = "";
  size_t at = 0;
  for (const char *c = classes[i].lines; *c; c++)
    at +=
        (size_t)snprintf(body + at, sizeof body - at, "%.*s",
                         *c == 'X' ? 15 : 1, *c == 'X' ? "tensor<8x8xf32>" : c);
  (void)snprintf(text, sizeof text,
                 "nabla.mesh @m <[\"a\"=%u]>\nfunc.func @f(%%x: "
                 "tensor<8x8xf32> {nabla.sharding = #nabla.sharding<@m, "
                 "[{\"a\"}, {}]>}) -> tensor<%s> {\n  %s\n  return %%r : "
                 "tensor<%s>\n}\n",
                 n, classes[i].type, body, classes[i].type);
  return text;
}

Test(sharded, bytes_of_classes) {
  float x[64];
  for (int i = 0; i < 64; i++) x[i] = (float)(i % 7);
  for (size_t i = 0; i < sizeof classes / sizeof *classes; i++) {
    const uint32_t n = classes[i].count;
    nabla_executable *executable = compile(class_text(i, n), NULL, NULL);
    open_ranks(executable, n);
    for (uint32_t r = 0; r < n; r++) {
      ranks[r].in = (nabla_dense){x, NABLA_DTYPE_F32, 2, {8, 8}};
      ranks[r].in_count = 1;
    }
    run_ranks(run_f);
    for (uint32_t r = 0; r < n; r++) {
      cr_assert_eq(ranks[r].status, 0, "%s", ranks[r].diag.what);
      cr_expect_eq(nabla_comm_bytes(comm, r), classes[i].bytes,
                   "%s: rank %u took %zu bytes, not %zu", classes[i].lines, r,
                   (size_t)nabla_comm_bytes(comm, r), (size_t)classes[i].bytes);
    }
    close_ranks(executable);
    nabla_executable_close(executable);
  }
}

/* ---- sizes that are known when the program runs ---------------------------
 */

#define UNKNOWN(sharding)                                              \
  "nabla.mesh @m <[\"a\"=4]>\nfunc.func @f(%x: tensor<?x?xf32> {"      \
  "nabla.name = \"x\", nabla.sharding = #nabla.sharding<@m, " sharding \
  ">})"                                                                \
  " -> tensor<f32> {\n  %r = nabla.reduce sum %x dims = [0, 1] : "     \
  "tensor<?x?xf32>\n  return %r : tensor<f32>\n}\n"

/* Pieces of rows lie in a row, those of columns are copied; what 4 ranks do not
 * divide is refused by each. */
Test(sharded, unknown_sizes) {
  static const char *const texts[] = {UNKNOWN("[{\"a\"}, {}]"),
                                      UNKNOWN("[{}, {\"a\"}]")};
  float x[64];
  for (int i = 0; i < 64; i++) x[i] = 1;
  for (int axis = 0; axis < 2; axis++)
    for (int64_t size = 4; size <= 8; size += 2) {
      nabla_executable *executable = compile(texts[axis], NULL, NULL);
      open_ranks(executable, 4);
      for (uint32_t r = 0; r < 4; r++) {
        ranks[r].in = (nabla_dense){x, NABLA_DTYPE_F32, 2, {3, 3}};
        ranks[r].in.shape[axis] = size;
        ranks[r].in_count = 1;
      }
      run_ranks(run_f);
      for (uint32_t r = 0; r < 4; r++) {
        const bool good = size % 4 == 0;
        cr_expect_eq(ranks[r].status, good ? 0 : NABLA_INVALID_ARGUMENT, "%s",
                     ranks[r].diag.what);
        if (good)
          cr_expect_eq(*(float *)ranks[r].out.data, (float)(3 * size));
        else
          cr_expect(
              strstr(ranks[r].diag.what, "'x') has 6 elements along dimension"),
              "%s", ranks[r].diag.what);
      }
      close_ranks(executable);
      nabla_executable_close(executable);
    }
}

/* ---- a decoder ----------------------------------------------------------- */

static void step(rank *r, size_t at) {
  r->status = nabla_decoder_run(r->session, &r->ids[at], 1, at, r->logits, 512,
                                &r->diag);
  int64_t best = 0;
  for (int64_t i = 1; i < 512; i++)
    if (r->logits[i] > r->logits[best]) best = i;
  r->ids[at + 1] = best;
}

static void generate(rank *r) {
  r->ids[0] = 1;
  for (size_t i = 0; i < IDS && !r->status; i++) step(r, i);
}

static char *read_program(nabla_model *model) {
  nabla_blob text = {0};
  nabla_decoder_shape shape;
  const nabla_sink sink = nabla_blob_sink(&text);
  cr_assert_eq(nabla_decoder_write(model, NULL, NULL, &sink, &shape, &diag), 0,
               "%s", diag.what);
  char *out = strndup((const char *)text.bytes, text.size);
  nabla_blob_release(&text);
  return out;
}

static nabla_executable *open_decoder(nabla_model *model, const char *text,
                                      const char *mesh) {
  nabla_executable *out = compile(
      text, mesh,
      mesh
          ? "*.q_proj.weight=[{\"model\"}, {}];*.gate_proj.weight=[{\"model\"},"
            " {}]"
          : NULL);
  cr_assert_eq(nabla_executable_bind_model(out, model, NULL, NULL, &diag), 0,
               "%s", diag.what);
  return out;
}

static void check_decoder(const char *path) {
  static rank whole;
  nabla_session_usage all = {.struct_size = sizeof all};
  nabla_model *model;
  cr_assert_eq(nabla_model_open(path, NULL, &model, &diag), 0, "%s", diag.what);
  char *text = read_program(model);
  nabla_executable *executable = open_decoder(model, text, NULL);
  whole = (rank){.diag = NABLA_DIAG_INIT};
  cr_assert_eq(nabla_session_create(executable, NULL, &whole.session, &diag),
               0);
  generate(&whole);
  cr_assert_eq(whole.status, 0, "%s", whole.diag.what);
  cr_assert_eq(nabla_session_memory(whole.session, &all, &diag), 0);
  nabla_session_close(whole.session);
  nabla_executable_close(executable);
  for (uint32_t n = 2; n <= MOST_RANKS; n *= 2) {
    char mesh[24];
    (void)snprintf(mesh, sizeof mesh, "model=%u", n);
    executable = open_decoder(model, text, mesh);
    open_ranks(executable, n);
    run_ranks(generate);
    for (uint32_t r = 0; r < n; r++) {
      nabla_session_usage usage = {.struct_size = sizeof usage};
      cr_assert_eq(ranks[r].status, 0, "%s", ranks[r].diag.what);
      cr_assert(!memcmp(ranks[r].ids, whole.ids, sizeof whole.ids),
                "%u ranks: other ids", n);
      cr_assert_eq(nabla_session_memory(ranks[r].session, &usage, &diag), 0);
      /* 4 heads of keys: 8 ranks share them by a sub-axis of 4 */
      cr_assert_lt(usage.state_bytes, all.state_bytes / (n < 4 ? n : 4) + 4096,
                   "%zu of %zu bytes", (size_t)usage.state_bytes,
                   (size_t)all.state_bytes);
    }
    close_ranks(executable);
    nabla_executable_close(executable);
  }
  free(text);
  nabla_model_close(model);
}

/* 200 greedy tokens on 2, 4 and 8 ranks equal those of one, dense and packed in
 * nf4, whose rows of 172 and of one block are not divided along rows. */
Test(sharded, stories) {
  static const char *const only[] = {"_proj", "lm_head", "embed_tokens"};
  const char *models = getenv("NABLA_MODELS");
  char dense[512], packed[256], config[512], bytes[4096];
  (void)snprintf(dense, sizeof dense,
                 "%s/stories260K/stories260K-f32.safetensors",
                 models ? models : "");
  (void)snprintf(config, sizeof config, "%s/stories260K/config.json",
                 models ? models : "");
  if (!models || !model_exists(dense)) cr_skip_test("no $NABLA_MODELS");
  check_decoder(dense);
  FILE *from = fopen(config, "r");
  cr_assert(from);
  temp_folder_write(&folder, "config.json", bytes,
                    fread(bytes, 1, sizeof bytes, from));
  (void)fclose(from);
  temp_folder_path(&folder, "packed.safetensors", packed);
  const nabla_quantize_options options = {
      .struct_size = sizeof options,
      .encoding = nabla_encoding_find("nf4"),
      .settings = {.block = 64},
      .layout = NABLA_CHOOSE_NABLA,
      .only = only,
      .only_count = 3};
  model_quantize(dense, packed, &options);
  check_decoder(packed);
}

/* ---- refusals ------------------------------------------------------------ */

static nabla_session *refused(nabla_executable *executable, nabla_comm *of,
                              uint32_t number, const char *why) {
  nabla_session *session = NULL;
  const nabla_session_options options = {
      .struct_size = sizeof options, .comm = of, .rank = number};
  diag = (nabla_diag)NABLA_DIAG_INIT;
  cr_expect_eq(nabla_session_create(executable, &options, &session, &diag),
               NABLA_INVALID_ARGUMENT);
  cr_expect(strstr(diag.what, why), "'%s', not '%s'", diag.what, why);
  return session;
}

Test(sharded, a_program_for_other_ranks) {
  nabla_executable *executable =
      compile(layer, "model=2", "up=[{\"model\"}, {}]");
  nabla_executable *whole = compile(layer, NULL, NULL);
  nabla_comm *four;
  nabla_dense none[3] = {{0}}, out = {0};
  cr_assert_eq(nabla_comm_threads(4, &four, &diag), 0);
  cr_expect_null(refused(executable, NULL, 0, "is for 2 ranks, the session"));
  cr_expect_null(
      refused(executable, four, 0, "is for 2 ranks, the communicator has 4"));
  cr_expect_null(
      refused(whole, four, 0, "is for 1 ranks, the communicator has 4"));
  cr_expect_eq(nabla_executable_run(executable, "f", none, 3, &out, 1, &diag),
               NABLA_INVALID_ARGUMENT);
  cr_expect(strstr(diag.what, "the program is for 2 ranks"), "%s", diag.what);
  nabla_comm_destroy(four);
  nabla_comm *two;
  cr_assert_eq(nabla_comm_threads(2, &two, &diag), 0);
  cr_expect_null(
      refused(executable, two, 2, "rank 2 of a communicator with 2"));
  nabla_comm_destroy(two);
  nabla_executable_close(whole);
  nabla_executable_close(executable);
}

/* Rank 1 has no inputs: it fails at once, and rank 0 does not wait for it. */
static void run_half(rank *r) {
  r->status = nabla_session_run(r->session, "f", &r->in, r->number ? 0 : 1,
                                &r->out, 1, &r->diag);
}

Test(sharded, a_rank_that_fails_wakes_all) {
  float *x = numbers(3 * 64, 1), *up = numbers(256 * 64, 2);
  nabla_executable *executable =
      compile(layer, "model=2", "up=[{\"model\"}, {}]");
  bind(executable, "up", up, 256, 64);
  bind(executable, "down", up, 64, 256);
  open_ranks(executable, 2);
  ranks[0].in = (nabla_dense){x, NABLA_DTYPE_F32, 2, {3, 64}};
  run_ranks(run_half);
  cr_expect_eq(ranks[1].status, NABLA_INVALID_ARGUMENT);
  cr_expect_eq(ranks[0].status, NABLA_CANCELLED, "%s", ranks[0].diag.what);
  cr_expect(strstr(ranks[0].diag.what, "rank 1: 'f' takes 1 inputs"), "%s",
            ranks[0].diag.what);
  close_ranks(executable);
  nabla_executable_close(executable);
  free(x), free(up);
}

/* ---- ranks that differ --------------------------------------------------- */

/* Two executables of the layer, for two ranks. */
static void open_two(nabla_executable *const *executables,
                     nabla_session_check check) {
  rank_count = 2;
  cr_assert_eq(nabla_comm_threads(2, &comm, &diag), 0, "%s", diag.what);
  for (uint32_t i = 0; i < 2; i++) {
    const nabla_session_options options = {.struct_size = sizeof options,
                                           .threads = 1,
                                           .comm = comm,
                                           .rank = i,
                                           .check = check};
    ranks[i] = (rank){.number = i, .diag = NABLA_DIAG_INIT, .in_count = 1};
    cr_assert_eq(nabla_session_create(executables[i], &options,
                                      &ranks[i].session, &diag),
                 0, "%s", diag.what);
  }
}

static void expect_two(nabla_status status, const char *why) {
  for (uint32_t r = 0; r < 2; r++) {
    cr_expect_eq(ranks[r].status, status, "%s", ranks[r].diag.what);
    cr_expect(strstr(ranks[r].diag.what, why), "'%s', not '%s'",
              ranks[r].diag.what, why);
  }
}

static void close_two(nabla_executable *const *executables) {
  for (uint32_t i = 0; i < 2; i++) {
    if (ranks[i].out.data) nabla_dense_release(executables[i], &ranks[i].out);
    nabla_session_close(ranks[i].session);
  }
  nabla_comm_destroy(comm);
}

Test(sharded, ranks_that_differ) {
  float *x = numbers(3 * 64, 1), *other_x = numbers(3 * 64, 5);
  float *up = numbers(256 * 64, 2), *other = numbers(256 * 64, 3);
  char relu[sizeof layer];
  memcpy(relu, layer, sizeof layer);
  memcpy(strstr(relu, "nabla.silu"), "nabla.relu", 10);
  nabla_executable *one = compile(layer, "model=2", "up=[{\"model\"}, {}]");
  nabla_executable *two = compile(layer, "model=2", "up=[{\"model\"}, {}]");
  nabla_executable *program = compile(relu, "model=2", "up=[{\"model\"}, {}]");
  nabla_executable *mesh = compile(layer, "model=2", "down=[{\"model\"}, {}]");
  nabla_executable *const all[] = {one, two, program, mesh};
  for (size_t i = 0; i < 4; i++) {
    bind(all[i], "up", i == 1 ? other : up, 256, 64);
    bind(all[i], "down", up, 64, 256);
  }
  static const char *const why[] = {"", "different weights: rank 1",
                                    "different programs: rank 1",
                                    "different meshes: rank 1"};
  const nabla_dense in = {x, NABLA_DTYPE_F32, 2, {3, 64}};
  const nabla_dense other_in = {other_x, NABLA_DTYPE_F32, 2, {3, 64}};
  for (size_t i = 0; i < 4; i++) {
    nabla_executable *const pair[] = {one, all[i]};
    open_two(pair, NABLA_CHECK_START);
    ranks[0].in = ranks[1].in = in;
    run_ranks(run_f);
    expect_two(i ? NABLA_INVALID_ARGUMENT : NABLA_OK, why[i]);
    if (!i) { /* compared once */
      ranks[1].in = other_in;
      run_ranks(run_f);
      expect_two(NABLA_OK, "");
    }
    close_two(pair);
  }
  nabla_executable *const same[] = {one, one}, *const unlike[] = {one, two};
  open_two(same, NABLA_CHECK_EVERY);
  ranks[0].in = ranks[1].in = in;
  run_ranks(run_f);
  expect_two(NABLA_OK, "");
  ranks[1].in = other_in;
  run_ranks(run_f);
  expect_two(NABLA_INVALID_ARGUMENT, "different inputs: rank 1");
  close_two(same);
  open_two(unlike, NABLA_CHECK_NEVER);
  ranks[0].in = ranks[1].in = in;
  run_ranks(run_f);
  expect_two(NABLA_OK, "");
  close_two(unlike);
  for (size_t i = 0; i < 4; i++) nabla_executable_close(all[i]);
  free(x), free(other_x), free(up), free(other);
}
