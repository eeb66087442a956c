/* Pieces of arrays on meshes of threads (nabla/shard.h): results that stay
 * divided, nabla_read_local, donated arguments. */
#include <criterion/criterion.h>
#include <string.h>

#include "nabla/function.h"
#include "tests/support/mesh_arrays.h"

TestSuite(mesh_pieces, .init = set_up, .fini = tear_down, .timeout = 300);

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

Test(mesh_pieces, results_stay_divided) {
  enum { A = 4, B = 8, C = 6 };
  static float data[A * B * C], twice[A * B * C];
  nabla_mesh *mesh = make("x=2,y=2"), *four = make("x=4");
  const nabla_partition parts[] = {
      nabla_partition_spec(four, "x:(2)2", NULL, NULL),
      nabla_partition_spec(four, "x:(1)2", "x:(2)2", NULL),
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
    expect(nabla_shard(nabla_mul(y3, half),
                       parts[i < 2 ? 1 - i : 2 + (i - 1) % 6]),
           A * B * C, data);
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
  nabla_mesh_destroy(four);
  nabla_mesh_destroy(mesh);
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

Test(mesh_pieces, donated_arguments) {
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
