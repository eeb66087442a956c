/* nabla_shard_map and collectives (nabla/shard.h) on meshes of threads: all of
 * them, over sub-axes, in loops and choices; what is refused. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "nabla/function.h"
#include "tests/support/mesh_arrays.h"

TestSuite(mesh_map, .init = set_up, .fini = tear_down, .timeout = 300);

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

Test(mesh_map, collectives) {
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

/* ---- control flow in shard_map ---- */

/* The sum of all pieces, scaled by the number of a step. */
static void add_pieces(nabla_scope *of, const nabla_tree *in, nabla_tree *out,
                       void *self) {
  (void)self, (void)of;
  nabla_array *sum = nabla_all_reduce(in->items[1].array, NABLA_SHARD_SUM, "x");
  out->items[0].array = nabla_add(in->items[0].array, sum);
  out->items[1].array = nabla_max(sum, 0, NULL, 0);
}

static void largest_pieces(nabla_scope *of, const nabla_tree *in,
                           nabla_tree *out, void *self) {
  (void)of, (void)in;
  out->array = nabla_all_reduce(*(nabla_array **)self, NABLA_SHARD_MAX, "x");
}

static void smallest_pieces(nabla_scope *of, const nabla_tree *in,
                            nabla_tree *out, void *self) {
  (void)of, (void)in;
  out->array = nabla_all_reduce(*(nabla_array **)self, NABLA_SHARD_MIN, "x");
}

/* Steps over the rows of a piece, 4 x 4: the sum over devices of each row's
 * sum; then the largest or smallest of the pieces, by a condition that is equal
 * on all. */
static void step(nabla_scope *of, const nabla_tree *in, nabla_tree *out,
                 void *self) {
  (void)self;
  nabla_array *piece = in->items[0].array;
  nabla_tree initial = nabla_tree_of_array(nabla_scalar(of, 0));
  const int64_t row = 4;
  initial.array = nabla_zeros(of, NABLA_DTYPE_F32, 1, &row);
  nabla_tree inputs = nabla_tree_of_array(piece), last = initial,
             outputs = nabla_tree_of_array(NULL),
             chosen = nabla_tree_of_array(NULL);
  const nabla_scan_options how = {
      .struct_size = sizeof how, .initial = &initial, .inputs = &inputs};
  nabla_scan(add_pieces, NULL, &how, &last, &outputs);
  nabla_array *is_large =
      nabla_greater(nabla_sum(last.array, 0, NULL, 0), nabla_scalar(of, -1000));
  nabla_cond(is_large, largest_pieces, smallest_pieces, &piece, NULL, &chosen);
  out->items[0].array = last.array;
  out->items[1].array = outputs.array;
  out->items[2].array = chosen.array;
}

Test(mesh_map, control_flow_in_shard_map) {
  fill();
  nabla_mesh *mesh = make("x=2");
  const nabla_partition columns = nabla_partition_spec(mesh, NULL, "x"),
                        row = nabla_partition_spec(mesh, NULL),
                        whole = nabla_partition_spec(mesh, NULL, NULL);
  const nabla_partition out[3] = {row, row, whole};
  nabla_tree item = nabla_tree_of_array(array(x, 4, K)), items[3];
  for (int i = 0; i < 3; i++) items[i] = nabla_tree_of_array(NULL);
  const nabla_tree in = nabla_tree_of_list(1, &item);
  nabla_tree results = nabla_tree_of_list(3, items);
  nabla_shard_map(step, NULL, &in, 1, &columns, &results, 3, out);
  cr_assert_eq(nabla_scope_status(scope, &diag), NABLA_OK, "%s", diag.what);
  float last[4] = {0}, most[4], chosen[16];
  for (int r = 0; r < 4; r++) {
    for (int k = 0; k < 4; k++) {
      const float sum = x[r * K + k] + x[r * K + k + 4];
      last[k] += sum;
      most[r] = k ? fmaxf(most[r], sum) : sum;
      chosen[r * 4 + k] = fmaxf(x[r * K + k], x[r * K + k + 4]);
    }
  }
  expect(items[0].array, 4, last);
  expect(items[1].array, 4, most);
  expect(items[2].array, 16, chosen);
  nabla_mesh_destroy(mesh);
}

/* ---- refusals ---- */

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

static void sum_over(nabla_scope *of, const nabla_tree *in, nabla_tree *out,
                     void *self) {
  (void)of;
  out->array = nabla_all_reduce(in->items[0].array, NABLA_SHARD_SUM, self);
}

Test(mesh_map, collectives_over_sub_axes) {
  fill();
  nabla_mesh *four = make("x=4");
  char axis[] = "x:(2)2", other[] = "x:(1)2";
  float sum[24];
  for (int i = 0; i < 24; i++) sum[i] = x[i] + x[i + 24];
  for (int k = 0; k < 2; k++) {
    char *along = k ? axis : other;
    nabla_array *sums =
        map(sum_over, along, nabla_partition_spec(four, along, NULL),
            nabla_partition_spec(four, NULL, NULL));
    expect(sums, 24, sum);
  }
  /* devices along the other part have other pieces */
  expect_failure(map(sum_over, axis, nabla_partition_spec(four, other, NULL),
                     nabla_partition_spec(four, NULL, NULL)),
                 NABLA_INVALID_ARGUMENT,
                 "the program cannot be compiled: 'nabla.shard_map' op result "
                 "#0 varies along axis");
  nabla_mesh_destroy(four);
}

Test(mesh_map, what_shard_map_refuses) {
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
  expect_failure(map(same, NULL, rows, none), NABLA_INVALID_ARGUMENT,
                 "the program cannot be compiled: 'nabla.shard_map' op result "
                 "#0 varies along axis \"x\"");
  nabla_mesh_destroy(mesh);
  nabla_mesh_destroy(four);
}

/* Rows of any number: each device has as many, or the call is refused. */
static void double_rows(nabla_scope *of, const nabla_tree *in, nabla_tree *out,
                        void *self) {
  (void)of, (void)self;
  out->array = nabla_add(in->items[0].array, in->items[0].array);
}

static void over_rows(nabla_scope *of, const nabla_tree *in, nabla_tree *out,
                      void *self) {
  const nabla_partition rows = nabla_partition_spec(self, "x", NULL);
  (void)of;
  nabla_shard_map(double_rows, NULL, in, 1, &rows, out, 1, &rows);
}

Test(mesh_map, unknown_sizes) {
  fill();
  nabla_mesh *mesh = make("x=2");
  static const nabla_function_dim dims[] = {{"0", 0, "n"}};
  nabla_function *function = make_function(
      over_rows, mesh, (nabla_function_options){.dims = dims, .dim_count = 1});
  float want[M * K];
  for (int i = 0; i < M * K; i++) want[i] = 2 * x[i];
  for (int64_t rows = 2; rows <= 6; rows++) {
    nabla_tree item = nabla_tree_of_array(array(x, rows, K));
    const nabla_tree in = nabla_tree_of_list(1, &item);
    nabla_tree out = nabla_tree_of_array(NULL);
    const nabla_status status = nabla_function_call(function, &in, &out, &diag);
    cr_expect_eq(status, rows % 2 ? NABLA_INVALID_ARGUMENT : NABLA_OK, "%s",
                 diag.what);
    if (!status) expect(out.array, (size_t)(rows * K), want);
  }
  nabla_function_destroy(function);
  nabla_mesh_destroy(mesh);
}
