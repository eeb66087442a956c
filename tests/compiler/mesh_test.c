/* nabla/shard.h: meshes, partitions, and arrays on meshes of 2, 4 and 2 x 2
 * threads, against sums in plain C. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "nabla/derivative.h"
#include "nabla/function.h"
#include "nabla/shard.h"
#include "tests/support/array_scope.h"

TestSuite(mesh, .init = set_up, .fini = tear_down, .timeout = 300);

static nabla_mesh *make(const char *axes) {
  nabla_mesh *mesh = NULL;
  cr_assert_eq(nabla_mesh_create(axes, NULL, &mesh, &diag), NABLA_OK, "%s",
               diag.what);
  return mesh;
}

/* ---- meshes and partitions ---- */

static void refuse_mesh(const char *axes, nabla_status status,
                        const char *why) {
  nabla_mesh *mesh = NULL;
  diag = (nabla_diag)NABLA_DIAG_INIT;
  cr_expect_eq(nabla_mesh_create(axes, NULL, &mesh, &diag), status, "%s", axes);
  cr_expect_null(mesh);
  cr_expect(strstr(diag.what, why), "'%s', not '%s'", diag.what, why);
}

Test(mesh, meshes) {
  nabla_mesh *mesh = make("data=2,model=4");
  cr_expect_eq(nabla_mesh_size(mesh), 8);
  nabla_mesh_destroy(mesh);
  nabla_mesh_destroy(NULL);
  static const char *const bad[] = {
      "",     "x",     "x=",   "x=0", "x=-1", "=2",   "x=2,", "x=2 ",
      "x= 2", "x-y=2", "x=2x", "x,y", ",x=2", "x=+2", "x=a",  "a b=2"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    refuse_mesh(bad[i], NABLA_INVALID_ARGUMENT, "is no list of axes");
  refuse_mesh("x=2,x=2", NABLA_INVALID_ARGUMENT, "the axis 'x' twice");
  refuse_mesh("x=65", NABLA_TOO_LARGE, "more than 64 devices");
  refuse_mesh("x=8,y=8,z=2", NABLA_TOO_LARGE, "more than 64 devices");
  refuse_mesh("x=99999999999999999999", NABLA_TOO_LARGE, "more than 64");
  refuse_mesh("a=1,b=1,c=1,d=1,e=1,f=1,g=1,h=1,i=1", NABLA_TOO_LARGE,
              "more than 8 axes");
  refuse_mesh(
      "a123456789012345678901234567890=1,"
      "b123456789012345678901234567890=1",
      NABLA_TOO_LARGE, "more than 58 bytes");
}

static void refuse_partition(nabla_partition p, const char *why) {
  char text[200];
  diag = (nabla_diag)NABLA_DIAG_INIT;
  cr_expect_eq(nabla_partition_text(&p, text, sizeof text, &diag),
               NABLA_INVALID_ARGUMENT);
  cr_expect(strstr(diag.what, why), "'%s', not '%s'", diag.what, why);
}

Test(mesh, partitions) {
  nabla_mesh *mesh = make("x=2,y=4,data=3");
  const nabla_partition p = nabla_partition_spec(mesh, "data", NULL, "x,y");
  static const char want[] =
      "#nabla.sharding<@mesh.x.2.y.4.data.3, [{\"data\"}, {}, {\"x\", \"y\"}]>";
  char text[sizeof want];
  uint32_t shards;
  int64_t shape[3] = {7, 5, 16};
  cr_assert_eq(nabla_partition_text(&p, text, sizeof text, &diag), NABLA_OK,
               "%s", diag.what);
  cr_expect_str_eq(text, want);
  cr_expect_eq(nabla_partition_text(&p, text, sizeof text - 1, &diag),
               NABLA_TOO_LARGE);
  cr_assert_eq(nabla_partition_shards(&p, &shards, &diag), NABLA_OK);
  cr_expect_eq(shards, 24);
  cr_assert_eq(nabla_local_shape(&p, shape, shape, &diag), NABLA_OK);
  cr_expect(shape[0] == 3 && shape[1] == 5 && shape[2] == 2);
  cr_assert_eq(nabla_global_shape(&p, shape, shape, &diag), NABLA_OK);
  cr_expect(shape[0] == 9 && shape[1] == 5 && shape[2] == 16);
  shape[1] = -1;
  cr_expect_eq(nabla_local_shape(&p, shape, shape, &diag),
               NABLA_INVALID_ARGUMENT);
  shape[1] = 1, shape[2] = INT64_MAX / 4;
  cr_expect_eq(nabla_global_shape(&p, shape, shape, &diag), NABLA_TOO_LARGE);
  refuse_partition(nabla_partition_spec(mesh, "z"), "z");
  refuse_partition(nabla_partition_spec(mesh, "x", "x"), "x");
  refuse_partition(nabla_partition_spec(mesh, "x,x"), "x");
  refuse_partition(nabla_partition_spec(mesh, ""), "is no list of axes");
  refuse_partition(nabla_partition_spec(mesh, "x, y"), "is no list of axes");
  refuse_partition(nabla_partition_spec(mesh, "x\"}]>"), "is no list of axes");
  refuse_partition(nabla_partition_spec(NULL, "x"), "its mesh is NULL");
  refuse_partition(nabla_partition_of(mesh, 17, (const char *[17]){NULL}),
                   "17 dimensions; at most 16");
  nabla_mesh_destroy(mesh);
}

static int needs(nabla_partition from, nabla_partition to) {
  int out = -1;
  cr_assert_eq(nabla_needs_reshard(&from, &to, &out, &diag), NABLA_OK, "%s",
               diag.what);
  return out;
}

Test(mesh, whether_a_reshard_is_needed) {
  nabla_mesh *mesh = make("x=2,y=4,one=1"), *other = make("x=4");
  int out;
  const nabla_partition a = nabla_partition_spec(mesh, "x", NULL),
                        b = nabla_partition_spec(mesh, "x,one", NULL),
                        c = nabla_partition_spec(mesh, NULL, "x"),
                        d = nabla_partition_spec(other, "x", NULL);
  cr_expect_eq(needs(a, a), 0);
  cr_expect_eq(needs(a, b), 0);
  cr_expect_eq(needs(a, c), 1);
  cr_expect_eq(needs(nabla_partition_spec(mesh, "x,y"),
                     nabla_partition_spec(mesh, "y,x")),
               1);
  cr_expect_eq(nabla_needs_reshard(&a, &d, &out, &diag),
               NABLA_INVALID_ARGUMENT);
  /* an axis twice, of size 1 too */
  const nabla_partition twice = nabla_partition_spec(mesh, "x,one", "one");
  cr_expect_eq(nabla_needs_reshard(&a, &twice, &out, &diag),
               NABLA_INVALID_ARGUMENT);
  nabla_mesh_destroy(mesh);
  nabla_mesh_destroy(other);
}

/* ---- arrays ---- */

enum { M = 6, K = 8, N = 4 };
static float x[M * K], w[K * N], y[M * N];

static nabla_array *array(float *data, int64_t rows, int64_t columns) {
  const nabla_dense dense = {data, NABLA_DTYPE_F32, 2, {rows, columns}};
  return nabla_array_of(scope, &dense);
}

/* Small integers: sums are exact in any order. */
static void fill(void) {
  for (int i = 0; i < M * K; i++) x[i] = (float)(i * i % 13 - 6);
  for (int i = 0; i < K * N; i++) w[i] = (float)(i * 7 % 11 - 5);
  for (int i = 0; i < M; i++)
    for (int j = 0; j < N; j++) {
      y[i * N + j] = 0;
      for (int k = 0; k < K; k++) y[i * N + j] += x[i * K + k] * w[k * N + j];
    }
}

static void expect(nabla_array *array, size_t count, const float *want) {
  nabla_dense out = {0};
  diag = (nabla_diag)NABLA_DIAG_INIT;
  cr_assert_eq(nabla_array_read(array, &out, &diag), NABLA_OK, "%s", diag.what);
  size_t elements = 1;
  for (uint32_t i = 0; i < out.rank; i++) elements *= (size_t)out.shape[i];
  cr_assert_eq(elements, count);
  for (size_t i = 0; i < count; i++)
    cr_expect_eq(((const float *)out.data)[i], want[i], "[%zu]: %g, not %g", i,
                 (double)((const float *)out.data)[i], (double)want[i]);
}

/* The product, with the contraction, rows or columns divided, and what is
 * computed from it. */
static void check_product(nabla_mesh *mesh, const char *rows, const char *depth,
                          const char *columns) {
  nabla_array *a =
      nabla_shard(array(x, M, K), nabla_partition_spec(mesh, rows, depth));
  nabla_array *b =
      nabla_shard(array(w, K, N), nabla_partition_spec(mesh, depth, columns));
  nabla_array *p = nabla_matmul(a, b);
  expect(p, M * N, y);
  expect(nabla_reshard(p, nabla_partition_spec(mesh, columns, rows)), M * N, y);
  float sum = 0, columns_of[N] = {0};
  for (int i = 0; i < M * N; i++) sum += y[i], columns_of[i % N] += y[i];
  const int64_t first = 0;
  p = nabla_sharding_constraint(nabla_matmul(a, b),
                                nabla_partition_spec(mesh, rows, columns));
  expect(nabla_sum(p, 1, &first, 0), N, columns_of);
  expect(nabla_sum(p, 0, NULL, 0), 1, &sum);
  nabla_dense mean = {0};
  cr_assert_eq(nabla_array_read(nabla_mean(p, 0, NULL, 0), &mean, &diag), 0);
  cr_expect_float_eq(*(const float *)mean.data, sum / (M * N), 1e-5);
}

Test(mesh, products_on_meshes) {
  fill();
  static const char *const texts[] = {"x=2", "x=4", "x=2,y=2"};
  for (int i = 0; i < 3; i++) {
    nabla_mesh *mesh = make(texts[i]);
    if (i < 2) {
      check_product(mesh, "x", NULL, NULL); /* 6 rows on 4: padded */
      check_product(mesh, NULL, i ? "x" : NULL, i ? NULL : "x");
    } else {
      check_product(mesh, "x", "y", NULL);
      check_product(mesh, "y", NULL, "x");
    }
    nabla_mesh_destroy(mesh);
  }
}

/* ---- pieces ---- */

/* Checks the pieces of all devices, which are of an array whose element i is
 * want[i], and that they were not gathered. */
static void expect_pieces(nabla_array *value, nabla_partition p,
                          const float *want) {
  const nabla_dense *type = nabla_array_dense(value);
  const uint32_t devices = nabla_mesh_size(p.mesh);
  int64_t local[NABLA_ARRAY_MAX_RANK], start[NABLA_ARRAY_MAX_RANK];
  cr_assert_eq(nabla_local_shape(&p, type->shape, local, &diag), NABLA_OK);
  for (uint32_t rank = 0; rank < devices; rank++) {
    nabla_dense piece = {0};
    cr_assert_eq(nabla_read_local(value, rank, &piece, start, &diag), NABLA_OK,
                 "%s", diag.what);
    cr_expect_eq(nabla_read_local(value, rank, &piece, NULL, &diag), NABLA_OK);
    cr_expect_null(nabla_array_dense(value)->data);
    size_t count = 1;
    for (uint32_t d = 0; d < piece.rank; d++) {
      cr_assert_eq(piece.shape[d], local[d], "dimension %u", d);
      count *= (size_t)local[d];
    }
    for (size_t i = 0; i < count; i++) {
      size_t left = i, at = 0, stride = 1;
      for (uint32_t d = piece.rank; d-- > 0;) {
        at += (left % (size_t)local[d] + (size_t)start[d]) * stride;
        left /= (size_t)local[d];
        stride *= (size_t)type->shape[d];
      }
      cr_expect_eq(((const float *)piece.data)[i], want[at], "rank %u [%zu]",
                   rank, i);
    }
  }
}

Test(mesh, results_stay_divided) {
  enum { A = 4, B = 8, C = 6 };
  static float data[A * B * C], twice[A * B * C];
  nabla_mesh *mesh = make("x=2,y=2");
  const nabla_partition parts[] = {
      nabla_partition_spec(mesh, "x", NULL, NULL),
      nabla_partition_spec(mesh, NULL, "y", NULL),
      nabla_partition_spec(mesh, NULL, NULL, "x"),
      nabla_partition_spec(mesh, "y", "x", NULL),
      nabla_partition_spec(mesh, NULL, "y,x", NULL),
      nabla_partition_spec(mesh, "x", NULL, "y")};
  const nabla_dense dense = {data, NABLA_DTYPE_F32, 3, {A, B, C}};
  nabla_dense out;
  for (int i = 0; i < A * B * C; i++)
    data[i] = (float)i, twice[i] = 2.0f * (float)i;
  nabla_array *x3 = nabla_array_of(scope, &dense);
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
    nabla_array *y3 = nabla_shard(nabla_add(x3, x3), parts[i]);
    expect_pieces(y3, parts[i], twice);
    expect(y3, A * B * C, twice);
    /* divided in this way, in another, and not at all */
    nabla_array *half = nabla_scalar(scope, 0.5);
    y3 = nabla_shard(nabla_add(x3, x3), parts[i]);
    cr_assert_eq(nabla_realize(scope, 1, &y3, &diag), NABLA_OK);
    expect_pieces(nabla_shard(nabla_mul(y3, half), parts[i]), parts[i], data);
    cr_expect_null(nabla_array_dense(y3)->data);
    expect(nabla_shard(nabla_mul(y3, half), parts[(i + 1) % 6]), A * B * C,
           data);
    expect(nabla_mul(y3, half), A * B * C, data);
    cr_expect_eq(nabla_read_local(y3, 4, &out, NULL, &diag),
                 NABLA_INVALID_ARGUMENT);
    cr_expect(strstr(diag.what, "has no device 4"), "%s", diag.what);
  }
  int64_t start[3] = {1, 1, 1}; /* not divided: 6 is no multiple of 4 */
  nabla_array *whole = nabla_shard(
      nabla_add(x3, x3), nabla_partition_spec(mesh, NULL, NULL, "x,y"));
  cr_assert_eq(nabla_read_local(whole, 3, &out, start, &diag), NABLA_OK);
  cr_expect(out.shape[2] == C && !start[0] && !start[1] && !start[2]);
  cr_assert_eq(nabla_read_local(x3, 0, &out, NULL, &diag), NABLA_OK);
  cr_expect_eq(((const float *)out.data)[A * B * C - 1], A * B * C - 1);
  nabla_mesh_destroy(mesh);
}

/* A layer whose first weight is divided by rows, as Megatron does. */
static void layer(nabla_scope *of, const nabla_tree *in, nabla_tree *out,
                  void *self) {
  (void)of;
  const nabla_mesh *mesh = self;
  nabla_array *p = nabla_sharding_constraint(
      nabla_matmul(in->items[0].array, in->items[1].array),
      nabla_partition_spec(mesh, NULL, "model"));
  out->array = nabla_sum(nabla_mul(p, p), 0, NULL, 0);
}

static nabla_array *call(nabla_function *function) {
  nabla_tree items[2] = {nabla_tree_of_array(array(x, M, K)),
                         nabla_tree_of_array(array(w, K, N))};
  nabla_tree in = nabla_tree_of_list(2, items);
  nabla_tree out = nabla_tree_of_array(NULL);
  diag = (nabla_diag)NABLA_DIAG_INIT;
  cr_expect_eq(nabla_function_call(function, &in, &out, &diag), NABLA_OK, "%s",
               diag.what);
  return out.array;
}

Test(mesh, functions_and_their_gradients) {
  fill();
  nabla_mesh *mesh = make("model=4");
  const nabla_function_options options = {
      .struct_size = sizeof options, .name = "layer", .self = mesh};
  nabla_function *function, *gradient;
  float want = 0, back[M * K] = {0};
  for (int i = 0; i < M * N; i++) want += y[i] * y[i];
  for (int i = 0; i < M; i++)
    for (int k = 0; k < K; k++)
      for (int j = 0; j < N; j++)
        back[i * K + k] += 2 * y[i * N + j] * w[k * N + j];
  cr_assert_eq(nabla_function_create(engine, layer, &options, &function, &diag),
               NABLA_OK);
  cr_assert_eq(nabla_grad(function, NULL, &gradient, &diag), NABLA_OK);
  for (int i = 0; i < 3; i++) {
    expect(call(function), 1, &want);
    expect(call(gradient), M * K, back);
    w[0] += 1; /* other data: the same program */
    want = 0;
    memset(back, 0, sizeof back);
    for (int r = 0; r < M; r++) {
      y[r * N] += x[r * K];
      for (int j = 0; j < N; j++) want += y[r * N + j] * y[r * N + j];
      for (int k = 0; k < K; k++)
        for (int j = 0; j < N; j++)
          back[r * K + k] += 2 * y[r * N + j] * w[k * N + j];
    }
  }
  nabla_tree items[2] = {nabla_tree_of_array(array(x, M, K)),
                         nabla_tree_of_array(array(w, K, N))};
  const nabla_tree in = nabla_tree_of_list(2, items);
  const nabla_tree out = nabla_tree_of_array(NULL);
  nabla_session *session;
  cr_expect_eq(
      nabla_function_session(function, &in, &out, NULL, &session, &diag),
      NABLA_INVALID_ARGUMENT);
  cr_expect(strstr(diag.what, "the program is for 4 ranks"), "%s", diag.what);
  nabla_function_statistics counts = {.struct_size = sizeof counts};
  cr_assert_eq(nabla_function_count(function, &counts, &diag), NABLA_OK);
  cr_expect_eq(counts.misses, 1);
  nabla_function_destroy(gradient);
  nabla_function_destroy(function);
  nabla_mesh_destroy(mesh);
}

/* ---- shard_map ---- */

/* What each device computes; the results are of rank 1 or 2. */
static void pieces(nabla_scope *of, const nabla_tree *in, nabla_tree *out,
                   void *self) {
  nabla_array *piece = in->items[0].array; /* 3 x 4 of 6 x 8 */
  const int64_t last = -1, ring[4] = {0, 1, 1, 0};
  (void)self;
  nabla_array *sums =
      nabla_all_reduce(nabla_sum(piece, 1, &last, 0), NABLA_SHARD_SUM, "model");
  nabla_array *number =
      nabla_convert(nabla_axis_index("data,model"), NABLA_DTYPE_F32);
  nabla_array *tens = nabla_mul(number, nabla_scalar(of, 10));
  out->items[0].array = sums;
  out->items[1].array = nabla_add(piece, tens);
  out->items[2].array =
      nabla_all_reduce(nabla_all_reduce(piece, NABLA_SHARD_MAX, "data"),
                       NABLA_SHARD_MIN, "model");
  out->items[3].array = nabla_all_mean(piece, NULL);
  out->items[4].array = nabla_permute(piece, 2, ring, "model");
  out->items[5].array = nabla_broadcast(piece, 1, "data");
  out->items[6].array =
      nabla_all_slice(nabla_all_gather(piece, 1, "model"), -1, "model");
  out->items[7].array =
      nabla_reduce_scatter(piece, NABLA_SHARD_SUM, 1, "model");
  out->items[8].array =
      nabla_all_to_all(nabla_all_gather(piece, 0, "data"), 0, 1, "model");
}

static float piece_at(int data, int model, int i, int j) {
  return x[(3 * data + i) * K + 4 * model + j];
}

Test(mesh, collectives) {
  enum { RESULTS = 9 };
  fill();
  nabla_mesh *mesh = make("data=2,model=2");
  const nabla_partition whole = nabla_partition_spec(mesh, "data", "model");
  const nabla_partition none = nabla_partition_spec(mesh, NULL, NULL);
  const nabla_partition out[RESULTS] = {
      nabla_partition_spec(mesh, "data"),
      whole,
      none,
      none,
      whole,
      nabla_partition_spec(mesh, NULL, "model"),
      whole,
      whole,
      nabla_partition_spec(mesh, "model", NULL)};
  nabla_tree item = nabla_tree_of_array(array(x, M, K)), items[RESULTS];
  const nabla_tree in = nabla_tree_of_list(1, &item);
  for (int i = 0; i < RESULTS; i++) items[i] = nabla_tree_of_array(NULL);
  nabla_tree results = nabla_tree_of_list(RESULTS, items);
  nabla_shard_map(pieces, NULL, &in, 1, &whole, &results, RESULTS, out);
  cr_assert_eq(nabla_scope_status(scope, &diag), NABLA_OK, "%s", diag.what);
  float want[RESULTS][M * K] = {{0}};
  for (int r = 0; r < M; r++)
    for (int k = 0; k < K; k++) {
      const int d = r / 3, m = k / 4, i = r % 3, j = k % 4, at = r * K + k;
      want[0][r] += x[at];
      want[1][at] = x[at] + 10.0f * (float)(2 * d + m);
      want[4][at] = piece_at(d, 1 - m, i, j);
      want[6][at] = x[at];
    }
  for (int i = 0; i < 3; i++)
    for (int j = 0; j < 4; j++) {
      float most[2], sum = 0;
      for (int m = 0; m < 2; m++) {
        most[m] = fmaxf(piece_at(0, m, i, j), piece_at(1, m, i, j));
        sum += piece_at(0, m, i, j) + piece_at(1, m, i, j);
        want[5][i * K + 4 * m + j] = piece_at(1, m, i, j);
      }
      want[2][i * 4 + j] = fminf(most[0], most[1]);
      want[3][i * 4 + j] = sum / 4;
    }
  for (int r = 0; r < M; r++)
    for (int j = 0; j < 4; j++) /* columns 2 m, 2 m + 1 of the sums of pieces */
      want[7][r * 4 + j] =
          piece_at(r / 3, 0, r % 3, j) + piece_at(r / 3, 1, r % 3, j);
  memcpy(want[8], x, sizeof x); /* rows 3 m to 3 m + 2, all columns */
  static const size_t counts[RESULTS] = {M,  M * K, 12, 12,   M * K,
                                         24, M * K, 24, M * K};
  for (int i = 0; i < RESULTS; i++) expect(items[i].array, counts[i], want[i]);
  nabla_mesh_destroy(mesh);
}

/* ---- refusals ---- */

/* The failure of the scope, which is replaced by a new one. */
static void expect_failure(nabla_array *array, nabla_status status,
                           const char *why) {
  nabla_dense out;
  diag = (nabla_diag)NABLA_DIAG_INIT;
  if (array) (void)!nabla_array_read(array, &out, &diag);
  cr_expect_eq(nabla_scope_status(scope, &diag), status, "%s", diag.what);
  cr_expect(strstr(diag.what, why), "'%s', not '%s'", diag.what, why);
  nabla_scope_end(scope);
  cr_assert_eq(nabla_scope_create(engine, &scope, &diag), NABLA_OK);
}

Test(mesh, what_arrays_refuse) {
  nabla_mesh *mesh = make("x=2"), *other = make("y=2");
  expect_failure(nabla_shard(array(x, M, K), nabla_partition_spec(mesh, "x")),
                 NABLA_INVALID_ARGUMENT,
                 "nabla_shard(F32[6, 8]): a partition of 1 dimensions");
  expect_failure(
      nabla_reshard(array(x, M, K), nabla_partition_spec(mesh, "z", NULL)),
      NABLA_INVALID_ARGUMENT, "nabla_reshard(F32[6, 8]): a partition: ");
  expect_failure(
      nabla_add(
          nabla_shard(array(x, M, K), nabla_partition_spec(mesh, "x", NULL)),
          nabla_shard(array(x, M, K), nabla_partition_spec(other, "y", NULL))),
      NABLA_INVALID_ARGUMENT,
      "arrays of one program are on two meshes, @mesh.x.2 and @mesh.y.2");
  nabla_mesh_destroy(mesh);
  nabla_mesh_destroy(other);
}

/* A result that differs between devices which share its piece. */
static void same(nabla_scope *of, const nabla_tree *in, nabla_tree *out,
                 void *self) {
  (void)of, (void)self;
  out->array = in->items[0].array;
}

static void gather_badly(nabla_scope *of, const nabla_tree *in, nabla_tree *out,
                         void *self) {
  (void)of;
  out->array = nabla_all_slice(in->items[0].array, 0, self);
}

static nabla_array *map(nabla_function_callback callback, void *self,
                        nabla_partition in, nabla_partition out) {
  nabla_tree item = nabla_tree_of_array(array(x, M, K));
  const nabla_tree operands = nabla_tree_of_list(1, &item);
  nabla_tree result = nabla_tree_of_array(NULL);
  nabla_shard_map(callback, self, &operands, 1, &in, &result, 1, &out);
  return result.array;
}

Test(mesh, what_shard_map_refuses) {
  nabla_mesh *mesh = make("x=2"), *four = make("x=4");
  const nabla_partition rows = nabla_partition_spec(mesh, "x", NULL);
  const nabla_partition none = nabla_partition_spec(mesh, NULL, NULL);
  expect_failure(nabla_all_reduce(array(x, M, K), NABLA_SHARD_SUM, "x"),
                 NABLA_INVALID_ARGUMENT,
                 "stands in a callback of nabla_shard_map");
  expect_failure(map(same, NULL, nabla_partition_spec(four, "x", NULL),
                     nabla_partition_spec(four, "x", NULL)),
                 NABLA_INVALID_ARGUMENT, "do not divide dimension 0 of size 6");
  expect_failure(map(same, NULL, rows, nabla_partition_spec(four, "x", NULL)),
                 NABLA_INVALID_ARGUMENT, "of another mesh");
  expect_failure(map(same, NULL, nabla_partition_spec(mesh, "x"), rows),
                 NABLA_INVALID_ARGUMENT, "operand 0 of rank 2");
  expect_failure(map(gather_badly, "y", rows, rows), NABLA_INVALID_ARGUMENT,
                 "no axis \"y\"");
  expect_failure(map(gather_badly, "x", rows, rows), NABLA_INVALID_ARGUMENT,
                 "dimension 0 of size 3 is not divided by 2 devices");
  /* what MLIR says of the result goes to standard error */
  expect_failure(map(same, NULL, rows, none), NABLA_CORRUPT,
                 "the program cannot be compiled");
  nabla_mesh_destroy(mesh);
  nabla_mesh_destroy(four);
}

/* ---- donated arguments ---- */

static void twice(nabla_scope *of, const nabla_tree *in, nabla_tree *out,
                  void *self) {
  (void)of;
  const nabla_mesh *mesh = self;
  nabla_array *p =
      nabla_shard(in->items[0].array, nabla_partition_spec(mesh, "x", NULL));
  out->items[0].array = nabla_add(p, p);
}

/* Every rank has the whole. */
static void whole_twice(nabla_scope *of, const nabla_tree *in, nabla_tree *out,
                        void *self) {
  (void)of;
  const nabla_mesh *mesh = self;
  nabla_array *p =
      nabla_shard(in->items[0].array, nabla_partition_spec(mesh, NULL, NULL));
  out->items[0].array = nabla_add(p, p);
}

static nabla_array *call_donated(nabla_function_callback callback,
                                 nabla_mesh *mesh, nabla_array *argument) {
  const nabla_function_replacement donated = {"0", "0"};
  const nabla_function_options options = {.struct_size = sizeof options,
                                          .name = "twice",
                                          .self = mesh,
                                          .donated = &donated,
                                          .donated_count = 1};
  nabla_function *function;
  nabla_tree item = nabla_tree_of_array(argument);
  nabla_tree in = nabla_tree_of_list(1, &item);
  nabla_tree result = nabla_tree_of_array(NULL);
  nabla_tree out = nabla_tree_of_list(1, &result);
  cr_assert_eq(
      nabla_function_create(engine, callback, &options, &function, &diag),
      NABLA_OK);
  cr_assert_eq(nabla_function_call(function, &in, &out, &diag), NABLA_OK, "%s",
               diag.what);
  nabla_function_destroy(function);
  return result.array;
}

static const void *piece_of(nabla_array *value) {
  nabla_dense out = {0};
  cr_assert_eq(nabla_read_local(value, 1, &out, NULL, &diag), NABLA_OK, "%s",
               diag.what);
  cr_expect_eq(out.shape[0], M / 2);
  return out.data;
}

Test(mesh, donated_arguments) {
  fill();
  nabla_mesh *mesh = make("x=2");
  float want[3][M * K];
  for (int i = 0; i < M * K; i++)
    for (int k = 0; k < 3; k++) want[k][i] = (float)(2 << k) * x[i];
  nabla_array *one = call_donated(twice, mesh, array(x, M, K));
  const void *memory = piece_of(one);
  expect(one, M * K, want[0]);
  nabla_array *two = call_donated(twice, mesh, one);
  cr_expect_eq(piece_of(two), memory); /* in place */
  expect(two, M * K, want[1]);
  nabla_retain(two); /* somebody else needs it */
  nabla_array *held = nabla_add(two, two);
  nabla_array *three = call_donated(twice, mesh, two);
  cr_expect_neq(piece_of(three), memory);
  expect(three, M * K, want[2]);
  expect(two, M * K, want[1]);
  expect(held, M * K, want[2]);
  nabla_release(two);
  expect(call_donated(whole_twice, mesh, two), M * K, want[2]);
  expect(call_donated(whole_twice, mesh, array(x, M, K)), M * K, want[0]);
  nabla_dense out;
  nabla_array *gone = array(x, M, K);
  gone =
      nabla_shard(nabla_add(gone, gone), nabla_partition_spec(mesh, "x", NULL));
  cr_assert_eq(nabla_realize(scope, 1, &gone, &diag), NABLA_OK);
  (void)call_donated(twice, mesh, gone);
  cr_expect_eq(nabla_array_read(gone, &out, &diag), NABLA_INVALID_ARGUMENT);
  cr_expect(strstr(diag.what, "donated"), "%s", diag.what);
  nabla_mesh_destroy(mesh);
}
