/* nabla/shard.h: meshes, partitions, and arrays and functions on meshes of 2, 4
 * and 2 x 2 threads, against sums in plain C. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "nabla/derivative.h"
#include "nabla/function.h"
#include "tests/support/mesh_arrays.h"

TestSuite(mesh, .init = set_up, .fini = tear_down, .timeout = 300);

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

Test(mesh, sub_axes) {
  nabla_mesh *mesh = make("x=4,y=2");
  const nabla_partition p = nabla_partition_spec(mesh, "x:(2)2,y", "x:(1)2");
  char text[200];
  uint32_t shards;
  int64_t shape[2] = {8, 8};
  cr_assert_eq(nabla_partition_text(&p, text, sizeof text, &diag), NABLA_OK,
               "%s", diag.what);
  cr_expect_str_eq(text,
                   "#nabla.sharding<@mesh.x.4.y.2, [{\"x\":(2)2, \"y\"}, "
                   "{\"x\":(1)2}]>");
  cr_assert_eq(nabla_partition_shards(&p, &shards, &diag), NABLA_OK);
  cr_expect_eq(shards, 8);
  cr_assert_eq(nabla_local_shape(&p, shape, shape, &diag), NABLA_OK);
  cr_expect(shape[0] == 2 && shape[1] == 4);
  const nabla_partition a = nabla_partition_spec(mesh, "x:(2)2"),
                        b = nabla_partition_spec(mesh, "x:(1)2");
  cr_expect_eq(needs(a, a), 0);
  cr_expect_eq(needs(a, b), 1);
  cr_expect_eq(needs(a, nabla_partition_spec(mesh, "x")), 1);
  refuse_partition(nabla_partition_spec(mesh, "x:2"), "is no list of axes");
  refuse_partition(nabla_partition_spec(mesh, "x:(2)"), "is no list of axes");
  refuse_partition(nabla_partition_spec(mesh, "x:(1)3"), "x");
  refuse_partition(nabla_partition_spec(mesh, "x:(1)2", "x"), "x");
  nabla_mesh_destroy(mesh);
}

/* ---- arrays ---- */

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
