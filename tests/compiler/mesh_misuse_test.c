/* Arrays on meshes, misused: garbage for joins, devices, axes and pairs,
 * collectives in control flow, callbacks without results, empty arrays, two
 * meshes in a scope, a mesh that is destroyed early, reads by many threads. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "nabla/function.h"
#include "nabla/shard.h"
#include "tests/support/array_scope.h"

TestSuite(mesh_misuse, .init = set_up, .fini = tear_down, .timeout = 120);

enum { ROWS = 4, COLUMNS = 6 };
static float values[ROWS * COLUMNS];

static nabla_mesh *make(const char *axes) {
  nabla_mesh *mesh = NULL;
  cr_assert_eq(nabla_mesh_create(axes, NULL, &mesh, &diag), 0, "%s", diag.what);
  return mesh;
}

static nabla_array *array(void) {
  for (int i = 0; i < ROWS * COLUMNS; i++) values[i] = (float)i;
  const nabla_dense dense = {values, NABLA_DTYPE_F32, 2, {ROWS, COLUMNS}};
  return nabla_array_of(scope, &dense);
}

static void expect_failure(const char *label, const char *why) {
  cr_expect(nabla_scope_status(scope, &diag), "%s: no failure", label);
  cr_expect(*diag.what, "%s", label);
  cr_expect(strstr(diag.what, why), "%s: %s", label, diag.what);
  nabla_scope_end(scope);
  cr_assert_eq(nabla_scope_create(engine, &scope, &diag), 0);
}

/* ---- garbage in a callback ----------------------------------------------- */

typedef struct garbage {
  const char *label;
  nabla_array *(*record)(nabla_scope *of, nabla_array *piece);
  const char *why; /* a part of the message */
} garbage;

static nabla_array *join_4(nabla_scope *of, nabla_array *x) {
  (void)of;
  return nabla_all_reduce(x, (nabla_shard_join)4, "x");
}
static nabla_array *join_99(nabla_scope *of, nabla_array *x) {
  (void)of;
  return nabla_reduce_scatter(x, (nabla_shard_join)99, 1, "x");
}
static nabla_array *join_negative(nabla_scope *of, nabla_array *x) {
  (void)of;
  return nabla_all_reduce(x, (nabla_shard_join)-1, "x");
}
static nabla_array *any_of_floats(nabla_scope *of, nabla_array *x) {
  (void)of;
  return nabla_all_reduce(x, NABLA_SHARD_ANY, "x");
}
static nabla_array *from_behind(nabla_scope *of, nabla_array *x) {
  (void)of;
  return nabla_broadcast(x, 2, "x");
}
static nabla_array *from_before(nabla_scope *of, nabla_array *x) {
  (void)of;
  return nabla_broadcast(x, INT64_MIN, "x");
}
static nabla_array *pairs_missing(nabla_scope *of, nabla_array *x) {
  (void)of;
  return nabla_permute(x, 2, NULL, "x");
}
static nabla_array *pairs_of_nobody(nabla_scope *of, nabla_array *x) {
  static const int64_t pairs[] = {0, 7};
  (void)of;
  return nabla_permute(x, 1, pairs, "x");
}
static nabla_array *pairs_twice(nabla_scope *of, nabla_array *x) {
  static const int64_t pairs[] = {0, 1, 1, 1};
  (void)of;
  return nabla_permute(x, 2, pairs, "x");
}
static nabla_array *pairs_too_many(nabla_scope *of, nabla_array *x) {
  static const int64_t pairs[2] = {0, 1};
  (void)of;
  return nabla_permute(x, UINT32_MAX, pairs, "x");
}
static nabla_array *dim_behind(nabla_scope *of, nabla_array *x) {
  (void)of;
  return nabla_all_gather(x, INT64_MAX, "x");
}
static nabla_array *dim_before(nabla_scope *of, nabla_array *x) {
  (void)of;
  return nabla_all_to_all(x, 0, INT64_MIN, "x");
}
static nabla_array *sum_of_truth(nabla_scope *of, nabla_array *x) {
  (void)of;
  return nabla_all_reduce(nabla_convert(x, NABLA_DTYPE_BOOL), NABLA_SHARD_SUM,
                          "x");
}
static nabla_array *no_axes(nabla_scope *of, nabla_array *x) {
  (void)of;
  return nabla_all_reduce(x, NABLA_SHARD_SUM, "");
}
static nabla_array *axes_twice(nabla_scope *of, nabla_array *x) {
  (void)of;
  return nabla_all_reduce(x, NABLA_SHARD_SUM, "x,x");
}
static nabla_array *of_null(nabla_scope *of, nabla_array *x) {
  (void)of, (void)x;
  return nabla_all_reduce(NULL, NABLA_SHARD_SUM, "x");
}
static nabla_array *nothing(nabla_scope *of, nabla_array *x) {
  (void)of, (void)x;
  return NULL;
}

static void yes(nabla_scope *of, const nabla_tree *in, nabla_tree *out,
                void *self) {
  (void)of, (void)self;
  out->array = nabla_all_reduce(in->array, NABLA_SHARD_SUM, "x");
}
static void no(nabla_scope *of, const nabla_tree *in, nabla_tree *out,
               void *self) {
  (void)of, (void)self;
  out->array = in->array;
}
static nabla_array *in_a_branch(nabla_scope *of, nabla_array *x) {
  nabla_tree in = nabla_tree_of_array(x), out = nabla_tree_of_array(NULL);
  nabla_array *here = nabla_convert(nabla_axis_index("x"), NABLA_DTYPE_BOOL);
  (void)of;
  nabla_cond(here, yes, no, NULL, &in, &out);
  return out.array;
}

static void run_garbage(nabla_scope *of, const nabla_tree *in, nabla_tree *out,
                        void *self) {
  const garbage *g = self;
  out->array = g->record(of, in->items[0].array);
}

static nabla_array *map(nabla_mesh *mesh, nabla_function_callback callback,
                        void *self) {
  const nabla_partition rows = nabla_partition_spec(mesh, "x", NULL);
  nabla_tree item = nabla_tree_of_array(array());
  const nabla_tree in = nabla_tree_of_list(1, &item);
  nabla_tree out = nabla_tree_of_array(NULL);
  nabla_shard_map(callback, self, &in, 1, &rows, &out, 1, &rows);
  return out.array;
}

Test(mesh_misuse, garbage_in_collectives) {
  static const garbage all[] = {
      {"join 4", join_4, ""},
      {"join 99", join_99, ""},
      {"join -1", join_negative, ""},
      {"any of floats", any_of_floats, ""},
      {"from 2 of 2", from_behind, ""},
      {"from below 0", from_before, ""},
      {"no pairs", pairs_missing, ""},
      {"pairs of nobody", pairs_of_nobody, ""},
      {"a target twice", pairs_twice, ""},
      {"too many pairs", pairs_too_many, "of 2 devices"},
      {"a dimension behind", dim_behind, ""},
      {"a dimension before", dim_before, ""},
      {"a sum of truth values", sum_of_truth, "a sum of truth values"},
      {"no axes", no_axes, ""},
      {"axes twice", axes_twice, ""},
      {"NULL", of_null, ""},
      {"no result", nothing, ""},
      {"in a branch", in_a_branch, ""}};
  nabla_mesh *mesh = make("x=2");
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    nabla_dense out;
    nabla_array *y = map(mesh, run_garbage, (void *)(uintptr_t)&all[i]);
    if (y) (void)!nabla_array_read(y, &out, &diag);
    expect_failure(all[i].label, all[i].why);
  }
  nabla_mesh_destroy(mesh);
}

/* A size of 2^60 from each of 16 devices: a product of 0 in 64 bits. */
static nabla_array *gather_2_64(nabla_scope *of, nabla_array *x) {
  (void)x;
  return nabla_all_gather(
      nabla_zeros(of, NABLA_DTYPE_BOOL, NABLA_DIMS(0, INT64_C(1) << 60)), 1,
      "x");
}
/* The same from all_to_all, which divides one dimension, and gathers another.
 */
static nabla_array *to_all_2_64(nabla_scope *of, nabla_array *x) {
  (void)x;
  return nabla_all_to_all(
      nabla_zeros(of, NABLA_DTYPE_BOOL, NABLA_DIMS(0, INT64_C(1) << 60)), 0, 1,
      "x");
}

Test(mesh_misuse, sizes_that_overflow) {
  static const garbage all[] = {
      {"all_gather", gather_2_64, "the sizes overflow"},
      {"all_to_all", to_all_2_64, "the sizes overflow"}};
  nabla_mesh *mesh = make("x=16");
  const nabla_partition rows = nabla_partition_spec(mesh, "x", NULL);
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    nabla_tree item = nabla_tree_of_array(
        nabla_zeros(scope, NABLA_DTYPE_F32, NABLA_DIMS(16, 2)));
    const nabla_tree in = nabla_tree_of_list(1, &item);
    nabla_tree out = nabla_tree_of_array(NULL);
    nabla_shard_map(run_garbage, (void *)(uintptr_t)&all[i], &in, 1, &rows,
                    &out, 1, &rows);
    expect_failure(all[i].label, all[i].why);
  }
  nabla_mesh_destroy(mesh);
}

/* ---- meshes -------------------------------------------------------------- */

static void add_up(nabla_scope *of, const nabla_tree *in, nabla_tree *out,
                   void *self) {
  (void)of, (void)self;
  out->array = nabla_all_reduce(in->items[0].array, NABLA_SHARD_SUM, NULL);
}

/* Programs of one scope may be of different meshes, which may be gone by then.
 */
Test(mesh_misuse, meshes_of_a_scope) {
  nabla_mesh *two = make("x=2"), *four = make("x=4");
  nabla_array *a = map(two, add_up, NULL), *b = map(four, add_up, NULL);
  nabla_dense x, y;
  nabla_mesh_destroy(two);
  nabla_mesh_destroy(four);
  cr_assert_eq(nabla_array_read(a, &x, &diag), 0, "%s", diag.what);
  cr_assert_eq(nabla_array_read(b, &y, &diag), 0, "%s", diag.what);
  cr_expect_eq(((const float *)x.data)[1], values[1] + values[13]);
  cr_expect_eq(((const float *)y.data)[1],
               values[1] + values[7] + values[13] + values[19]);
}

Test(mesh_misuse, partitions_of_null) {
  nabla_mesh *mesh = make("x=2");
  char text[100];
  const nabla_partition p = nabla_partition_of(mesh, 2, NULL);
  cr_assert_eq(nabla_partition_text(&p, text, sizeof text, &diag), 0);
  cr_expect_str_eq(text, "#nabla.sharding<@mesh.x.2, [{}, {}]>");
  nabla_mesh_destroy(mesh);
}

/* ---- empty arrays -------------------------------------------------------- */

Test(mesh_misuse, empty_arrays) {
  static const int64_t shapes[][2] = {{0, 6}, {6, 0}, {0, 0}};
  nabla_mesh *mesh = make("x=2");
  for (int i = 0; i < 3; i++)
    for (int d = 0; d < 2; d++) {
      const nabla_dense dense = {
          NULL, NABLA_DTYPE_F32, 2, {shapes[i][0], shapes[i][1]}};
      nabla_dense out;
      nabla_array *x = nabla_array_of(scope, &dense);
      nabla_array *y = nabla_shard(
          nabla_exp(nabla_shard(
              x, nabla_partition_spec(mesh, d ? NULL : "x", d ? "x" : NULL))),
          nabla_partition_spec(mesh, d ? NULL : "x", d ? "x" : NULL));
      cr_assert_eq(nabla_array_read(y, &out, &diag), 0, "%s", diag.what);
      cr_expect(out.shape[0] == shapes[i][0] && out.shape[1] == shapes[i][1]);
      cr_assert_eq(nabla_read_local(y, 1, &out, NULL, &diag), 0, "%s",
                   diag.what);
    }
  nabla_mesh_destroy(mesh);
}

/* ---- threads ------------------------------------------------------------- */

static nabla_array *shared;
static atomic_int good;

/* A realized array is used by all threads, and dropped by any. */
static void *use(void *self) {
  nabla_scope *own = NULL;
  nabla_diag why = NABLA_DIAG_INIT;
  nabla_dense out;
  (void)self;
  if (nabla_scope_create(engine, &own, &why)) return NULL;
  nabla_array *y = nabla_add(shared, shared);
  if (!nabla_array_read(y, &out, &why) &&
      ((const float *)out.data)[7] == 2 * values[7])
    atomic_fetch_add(&good, 1);
  nabla_release(shared);
  nabla_scope_end(own);
  return NULL;
}

Test(mesh_misuse, threads_share_pieces) {
  enum { THREADS = 4 };
  pthread_t threads[THREADS];
  nabla_mesh *mesh = make("x=2");
  const nabla_partition rows = nabla_partition_spec(mesh, "x", NULL);
  shared = nabla_shard(nabla_neg(nabla_neg(nabla_shard(array(), rows))), rows);
  cr_assert_eq(nabla_realize(scope, 1, &shared, &diag), 0, "%s", diag.what);
  for (int i = 0; i < THREADS; i++) nabla_retain(shared);
  for (int i = 0; i < THREADS; i++)
    cr_assert_eq(pthread_create(&threads[i], NULL, use, NULL), 0);
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  cr_expect_eq(atomic_load(&good), THREADS);
  nabla_mesh_destroy(mesh);
}
