/* Packed arrays on meshes of threads (nabla/shard.h), against those of one
 * device: weights that are divided across and along rows, packed results,
 * functions. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "nabla/derivative.h"
#include "nabla/encoding.h"
#include "nabla/function.h"
#include "nabla/shard.h"
#include "tests/support/array_scope.h"

TestSuite(mesh_packed, .init = set_up, .fini = tear_down, .timeout = 300);

/* 4 scales of each row: pieces of 12 rows begin within a group of 32. */
enum { M = 3, N = 48, K = 256 };

static nabla_mesh *make(const char *axes) {
  nabla_mesh *mesh = NULL;
  cr_assert_eq(nabla_mesh_create(axes, NULL, &mesh, &diag), NABLA_OK);
  return mesh;
}

static nabla_array *matrix(int64_t rows, int64_t columns, int seed) {
  static float values[N * K];
  for (int i = 0; i < N * K; i++)
    values[i] = (float)((i + seed) * 7919 % 2003 - 1001) / 1001;
  const nabla_dense dense = {values, NABLA_DTYPE_F32, 2, {rows, columns}};
  return nabla_array_of(scope, &dense);
}

/* Types of scales: 8-bit ones of a piece are decoded. */
static const nabla_scale_type scales[] = {NABLA_SCALE_F32,
                                          NABLA_SCALE_DYNAMIC8};
enum { SCALES = sizeof scales / sizeof *scales };

static nabla_array *pack(nabla_array *x, int scale) {
  const nabla_storage layout = {
      .kind = NABLA_STORAGE_PLANES,
      .format = {.encoding = nabla_encoding_find("nf4"),
                 .block = 64,
                 .scale = scales[scale]},
      .nested_block = scales[scale] == NABLA_SCALE_DYNAMIC8 ? 32 : 0};
  return nabla_quantize(x, &layout);
}

static nabla_array *weight(int seed, int scale) {
  nabla_array *w = pack(matrix(N, K, seed), scale);
  cr_assert_eq(nabla_realize(scope, 1, &w, &diag), NABLA_OK, "%s", diag.what);
  return w;
}

static void expect_close(nabla_array *got, const float *want) {
  nabla_dense out = {0};
  diag = (nabla_diag)NABLA_DIAG_INIT;
  cr_assert_eq(nabla_array_read(got, &out, &diag), NABLA_OK, "%s", diag.what);
  for (int i = 0; i < M * N; i++)
    cr_expect_float_eq(((const float *)out.data)[i], want[i], 1e-4,
                       "[%d]: %g, not %g", i,
                       (double)((const float *)out.data)[i], (double)want[i]);
}

static const float *product_of_one(nabla_array *x, nabla_array *w) {
  nabla_dense out = {0};
  cr_assert_eq(nabla_array_read(nabla_linear(x, w, nabla_none()), &out, &diag),
               NABLA_OK, "%s", diag.what);
  return out.data;
}

Test(mesh_packed, divided_weights) {
  nabla_mesh *mesh = make("x=4");
  const nabla_partition columns = nabla_partition_spec(mesh, NULL, "x");
  for (int seed = 0; seed < 6; seed++) {
    nabla_array *x = matrix(M, K, 5), *w = weight(seed, seed % SCALES);
    const float *want = product_of_one(x, w);
    /* 4 rows of each device */
    nabla_array *y =
        nabla_sharding_constraint(nabla_linear(x, w, nabla_none()), columns);
    nabla_dense piece;
    cr_assert_eq(nabla_read_local(y, 3, &piece, NULL, &diag), NABLA_OK, "%s",
                 diag.what);
    cr_expect_eq(piece.shape[1], N / 4);
    expect_close(y, want);
    /* a block of each row */
    expect_close(nabla_linear(nabla_shard(x, columns), w, nabla_none()), want);
  }
  nabla_mesh_destroy(mesh);
}

/* The weight says how it is divided. */
static void check_shards(int scale) {
  nabla_mesh *mesh = make("x=4");
  nabla_array *x = matrix(M, K, 5), *w = weight(3, scale);
  const float *want = product_of_one(x, w);
  for (int i = 0; i < 2; i++) {
    const nabla_partition p = i ? nabla_partition_spec(mesh, NULL, "x")
                                : nabla_partition_spec(mesh, "x", NULL);
    nabla_array *y = nabla_linear(x, nabla_shard(w, p), nabla_none());
    nabla_dense piece;
    cr_assert_eq(nabla_read_local(y, 1, &piece, NULL, &diag), NABLA_OK, "%s",
                 diag.what);
    cr_expect_eq(piece.shape[1], i ? N : N / 4);
    expect_close(y, want);
  }
  /* its own value is whole */
  nabla_array *s = nabla_shard(w, nabla_partition_spec(mesh, "x", NULL));
  nabla_weight_desc a, b;
  cr_assert(nabla_array_is_packed(s));
  cr_assert_eq(nabla_array_weight(s, &a, &diag), NABLA_OK, "%s", diag.what);
  cr_assert_eq(nabla_array_weight(w, &b, &diag), NABLA_OK);
  for (uint32_t i = 0; i < b.component_count; i++)
    cr_expect_arr_eq(a.components[i].data, b.components[i].data,
                     b.components[i].bytes);
  nabla_mesh_destroy(mesh);
}

Test(mesh_packed, shards_of_weights) {
  for (int scale = 0; scale < SCALES; scale++) check_shards(scale);
}

static void check_results(int scale) {
  nabla_mesh *mesh = make("x=2");
  nabla_array *rows[2], *want = weight(1, scale);
  nabla_weight_desc a, b;
  rows[0] = nabla_shard(nabla_exp(matrix(N, K, 2)),
                        nabla_partition_spec(mesh, "x", NULL));
  rows[1] = pack(matrix(N, K, 1), scale);
  cr_assert_eq(nabla_realize(scope, 2, rows, &diag), NABLA_OK, "%s", diag.what);
  cr_assert_eq(nabla_array_weight(rows[1], &a, &diag), NABLA_OK, "%s",
               diag.what);
  cr_assert_eq(nabla_array_weight(want, &b, &diag), NABLA_OK);
  cr_assert_eq(a.component_count, b.component_count);
  for (uint32_t i = 0; i < a.component_count; i++)
    cr_expect_arr_eq(a.components[i].data, b.components[i].data,
                     b.components[i].bytes);
  nabla_mesh_destroy(mesh);
}

Test(mesh_packed, results) {
  for (int scale = 0; scale < SCALES; scale++) check_results(scale);
}

static void layer(nabla_scope *of, const nabla_tree *in, nabla_tree *out,
                  void *self) {
  (void)of;
  const nabla_mesh *mesh = self;
  out->array = nabla_sharding_constraint(
      nabla_linear(in->items[0].array, in->items[1].array, nabla_none()),
      nabla_partition_spec(mesh, NULL, "x"));
}

Test(mesh_packed, functions) {
  nabla_mesh *mesh = make("x=2");
  const nabla_function_options options = {
      .struct_size = sizeof options, .name = "layer", .self = mesh};
  nabla_function *function;
  cr_assert_eq(nabla_function_create(engine, layer, &options, &function, &diag),
               NABLA_OK);
  for (int seed = 0; seed < 4; seed++) {
    nabla_tree items[2] = {nabla_tree_of_array(matrix(M, K, 5)),
                           nabla_tree_of_array(weight(seed, seed % SCALES))};
    const nabla_tree in = nabla_tree_of_list(2, items);
    nabla_tree out = nabla_tree_of_array(NULL);
    const float *want = product_of_one(items[0].array, items[1].array);
    cr_assert_eq(nabla_function_call(function, &in, &out, &diag), NABLA_OK,
                 "%s", diag.what);
    expect_close(out.array, want);
  }
  nabla_function_destroy(function);
  nabla_mesh_destroy(mesh);
}

/* Products with a transpose of a packed weight, which is divided as that is:
 * the sum of x @ w.T * (x @ w.T). */
static void sum_of_squares(nabla_scope *of, const nabla_tree *in,
                           nabla_tree *out, void *self) {
  (void)of;
  nabla_array *x = in->items[0].array;
  nabla_array *w = in->items[1].array;
  if (self) w = nabla_shard(w, *(const nabla_partition *)self);
  nabla_array *y = nabla_matmul(x, nabla_transpose(w, 0, NULL));
  out->array = nabla_sum(nabla_mul(y, y), 0, NULL, 0);
}

/* The sum and its gradient by x: 1 + M * K floats. */
static void find_gradient(nabla_array *x, nabla_array *w,
                          nabla_partition *partition, float *values) {
  const nabla_function_options options = {
      .struct_size = sizeof options, .name = "squares", .self = partition};
  nabla_function *function, *gradient;
  nabla_tree items[2] = {nabla_tree_of_array(x), nabla_tree_of_array(w)};
  const nabla_tree in = nabla_tree_of_list(2, items);
  nabla_tree out = nabla_tree_of_array(NULL);
  nabla_dense dense;
  cr_assert_eq(
      nabla_function_create(engine, sum_of_squares, &options, &function, &diag),
      NABLA_OK);
  cr_assert_eq(nabla_grad(function, NULL, &gradient, &diag), NABLA_OK);
  cr_assert_eq(nabla_function_call(function, &in, &out, &diag), NABLA_OK, "%s",
               diag.what);
  cr_assert_eq(nabla_array_read(out.array, &dense, &diag), NABLA_OK, "%s",
               diag.what);
  values[0] = *(const float *)dense.data;
  out = nabla_tree_of_array(NULL);
  cr_assert_eq(nabla_function_call(gradient, &in, &out, &diag), NABLA_OK, "%s",
               diag.what);
  cr_assert_eq(nabla_array_read(out.array, &dense, &diag), NABLA_OK, "%s",
               diag.what);
  memcpy(values + 1, dense.data, M * K * sizeof(float));
  nabla_function_destroy(gradient);
  nabla_function_destroy(function);
}

static void check_transposes(const char *axes) {
  nabla_mesh *mesh = make(axes);
  nabla_array *x = matrix(M, K, 5), *w = weight(3, 0);
  static float want[1 + M * K], got[1 + M * K];
  find_gradient(x, w, NULL, want);
  for (int i = 0; i < 2; i++) {
    nabla_partition p = i ? nabla_partition_spec(mesh, NULL, "x")
                          : nabla_partition_spec(mesh, "x", NULL);
    find_gradient(x, w, &p, got);
    for (int k = 0; k < 1 + M * K; k++)
      cr_expect_float_eq(got[k], want[k], 1e-4 * (1 + fabs((double)want[k])),
                         "%s, %d, [%d]: %g, not %g", axes, i, k, (double)got[k],
                         (double)want[k]);
  }
  nabla_mesh_destroy(mesh);
}

Test(mesh_packed, transposes_of_weights) {
  check_transposes("x=2");
  check_transposes("x=4");
}

/* x times a lora of the weight, which is divided with its components. */
static nabla_array *adapted(nabla_array *x, nabla_array *w) {
  nabla_array *parts[] = {w, matrix(4, K, 8), matrix(N, 4, 9)};
  nabla_array *l = nabla_pack_as(
      3, parts, "#nabla.lora<base = #nabla.nf4<block = 64>, rank = 4>",
      NABLA_DIMS(N, K));
  return nabla_linear(x, l, nabla_none());
}

static void check_loras(const char *axes) {
  nabla_mesh *mesh = make(axes);
  nabla_array *x = matrix(M, K, 5), *w = weight(3, 0);
  nabla_dense want;
  cr_assert_eq(nabla_array_read(adapted(x, w), &want, &diag), NABLA_OK, "%s",
               diag.what);
  for (int i = 0; i < 2; i++) {
    const nabla_partition p = i ? nabla_partition_spec(mesh, NULL, "x")
                                : nabla_partition_spec(mesh, "x", NULL);
    nabla_array *y = adapted(x, nabla_shard(w, p));
    nabla_dense piece;
    cr_assert_eq(nabla_read_local(y, 1, &piece, NULL, &diag), NABLA_OK, "%s",
                 diag.what);
    cr_expect_eq(piece.shape[1] == N, i);
    expect_close(y, want.data);
  }
  nabla_mesh_destroy(mesh);
}

Test(mesh_packed, loras_of_weights) {
  check_loras("x=2");
  check_loras("x=4");
}

/* A product of pieces: the rows of w, or its columns, whose terms are summed.
 */
static void multiply(nabla_scope *of, const nabla_tree *in, nabla_tree *out,
                     void *self) {
  (void)of;
  const char *sums = self;
  nabla_array *y =
      nabla_linear(in->items[0].array, in->items[1].array, nabla_none());
  cr_expect(nabla_array_is_packed(in->items[1].array));
  out->array = sums ? nabla_all_reduce(y, NABLA_SHARD_SUM, sums) : y;
}

Test(mesh_packed, operands_of_shard_map) {
  nabla_mesh *mesh = make("x=4");
  const nabla_partition none = nabla_partition_spec(mesh, NULL, NULL);
  const nabla_partition rows = nabla_partition_spec(mesh, "x", NULL);
  const nabla_partition columns = nabla_partition_spec(mesh, NULL, "x");
  const nabla_partition by_rows[] = {none, rows}, along[] = {columns, columns};
  for (int i = 0; i < 2 * SCALES; i++) {
    nabla_array *x = matrix(M, K, 5), *w = weight(3, i / 2);
    const float *want = product_of_one(x, w);
    nabla_tree items[2] = {nabla_tree_of_array(x), nabla_tree_of_array(w)};
    const nabla_tree in = nabla_tree_of_list(2, items);
    nabla_tree out = nabla_tree_of_array(NULL);
    char sums[] = "x";
    if (i % 2)
      nabla_shard_map(multiply, sums, &in, 2, along, &out, 1, &none);
    else
      nabla_shard_map(multiply, NULL, &in, 2, by_rows, &out, 1, &columns);
    cr_assert_eq(nabla_scope_status(scope, &diag), NABLA_OK, "%s", diag.what);
    expect_close(out.array, want);
  }
  nabla_mesh_destroy(mesh);
}

/* Pieces that begin within a block. */
Test(mesh_packed, operands_that_no_block_divides) {
  nabla_mesh *mesh = make("x=8");
  const nabla_partition in[] = {nabla_partition_spec(mesh, NULL, "x"),
                                nabla_partition_spec(mesh, NULL, "x")};
  const nabla_partition none = nabla_partition_spec(mesh, NULL, NULL);
  nabla_tree items[2] = {nabla_tree_of_array(matrix(M, K, 5)),
                         nabla_tree_of_array(weight(3, 0))};
  const nabla_tree list = nabla_tree_of_list(2, items);
  nabla_tree out = nabla_tree_of_array(NULL);
  nabla_shard_map(multiply, NULL, &list, 2, in, &out, 1, &none);
  cr_expect_eq(nabla_scope_status(scope, &diag), NABLA_INVALID_ARGUMENT);
  cr_expect(strstr(diag.what,
                   "operand 1 is packed: pieces of rows of 256 are "
                   "no whole blocks of 64"),
            "%s", diag.what);
  nabla_mesh_destroy(mesh);
}

/* ---- packed results of shard_map ---- */

static void pack_piece(nabla_scope *of, const nabla_tree *in, nabla_tree *out,
                       void *self) {
  (void)of;
  out->array = pack(in->items[0].array, *(int *)self);
}

static nabla_array *pack_in_pieces(nabla_array *w, nabla_partition by,
                                   int scale) {
  nabla_tree item = nabla_tree_of_array(w);
  const nabla_tree in = nabla_tree_of_list(1, &item);
  nabla_tree out = nabla_tree_of_array(NULL);
  nabla_shard_map(pack_piece, &scale, &in, 1, &by, &out, 1, &by);
  return out.array;
}

/* What devices pack is the array that one device packs: its product, and its
 * values. */
Test(mesh_packed, results_of_shard_map) {
  for (int along = 0; along < 2; along++) {
    nabla_mesh *mesh = make("x=4");
    const nabla_partition by = along ? nabla_partition_spec(mesh, NULL, "x")
                                     : nabla_partition_spec(mesh, "x", NULL);
    nabla_array *x = matrix(M, K, 5);
    nabla_array *w = pack_in_pieces(matrix(N, K, 9), by, 0);
    cr_assert_eq(nabla_scope_status(scope, &diag), NABLA_OK, "%s", diag.what);
    cr_expect(nabla_array_is_packed(w));
    expect_close(nabla_linear(x, w, nabla_none()),
                 product_of_one(x, weight(9, 0)));
    nabla_dense got = {0}, want = {0};
    cr_assert_eq(nabla_array_read(nabla_materialize(w), &got, &diag), NABLA_OK,
                 "%s", diag.what);
    cr_assert_eq(
        nabla_array_read(nabla_materialize(weight(9, 0)), &want, &diag),
        NABLA_OK);
    cr_expect_eq(got.shape[0], N);
    cr_expect_eq(got.shape[1], K);
    cr_expect_eq(memcmp(got.data, want.data, N * K * sizeof(float)), 0);
    nabla_mesh_destroy(mesh);
  }
}

/* Pieces would have other packed scales. */
Test(mesh_packed, results_with_packed_scales) {
  nabla_mesh *mesh = make("x=4");
  nabla_array *w =
      pack_in_pieces(matrix(N, K, 9), nabla_partition_spec(mesh, "x", NULL), 1);
  cr_expect(!w);
  cr_expect_eq(nabla_scope_status(scope, &diag), NABLA_INVALID_ARGUMENT);
  cr_expect(strstr(diag.what, "result 0 is packed: its scales are packed"),
            "%s", diag.what);
  nabla_mesh_destroy(mesh);
}

/* ---- packed and dense results ---- */

/* A packed result is several of its program: one that is divided and stands
 * behind it is in pieces still. */
Test(mesh_packed, dense_results_behind_packed_ones) {
  for (int scale = 0; scale < SCALES; scale++) {
    nabla_mesh *mesh = make("x=4");
    const nabla_partition rows = nabla_partition_spec(mesh, "x", NULL);
    nabla_array *both[2] = {nabla_shard(weight(9, 0), rows),
                            nabla_neg(nabla_shard(matrix(N, K, 5), rows))};
    nabla_array *first = pack(matrix(N, K, 3), scale);
    nabla_array *all[3] = {first, both[0], both[1]};
    cr_assert_eq(nabla_realize(scope, 3, all, &diag), NABLA_OK, "%s",
                 diag.what);
    nabla_dense got = {0}, piece = {0};
    cr_assert_eq(nabla_read_local(all[2], 1, &piece, NULL, &diag), NABLA_OK,
                 "%s", diag.what);
    cr_expect_eq(piece.shape[0], N / 4);
    cr_assert_eq(nabla_array_read(all[2], &got, &diag), NABLA_OK, "%s",
                 diag.what);
    nabla_dense want = {0};
    cr_assert_eq(nabla_array_read(nabla_neg(matrix(N, K, 5)), &want, &diag),
                 NABLA_OK);
    cr_expect_eq(memcmp(got.data, want.data, N * K * sizeof(float)), 0);
    nabla_mesh_destroy(mesh);
  }
}
