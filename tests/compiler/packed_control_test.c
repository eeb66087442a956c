/* nabla/function.h and nabla/tree.h: packed arrays that loops and choices
 * carry, slices of packed arrays, layers of trees. */
#include <math.h>
#include <string.h>

#include "nabla/encoding.h"
#include "nabla/function.h"
#include "tests/support/array_scope.h"

TestSuite(packed_control, .init = set_up, .fini = tear_down, .timeout = 300);

#define LAYERS  3
#define ROWS    64
#define COLUMNS 64

static nabla_array *stacked(float scale) {
  static float values[LAYERS * ROWS * COLUMNS];
  for (size_t i = 0; i < sizeof values / sizeof *values; i++)
    values[i] = scale * (float)((int)(i * 37 % 101) - 50) / 25;
  const nabla_dense dense = {
      values, NABLA_DTYPE_F32, 3, {LAYERS, ROWS, COLUMNS}};
  return nabla_array_of(scope, &dense);
}

static nabla_array *nf4(nabla_array *x) {
  const nabla_storage layout = {
      .kind = NABLA_STORAGE_PLANES,
      .format = {.encoding = nabla_encoding_find("nf4"), .block = 64}};
  return nabla_quantize(x, &layout);
}

static nabla_array *layer_of(nabla_array *x, int64_t index) {
  return nabla_reshape(
      nabla_slice(x, NABLA_DIMS(index, 0, 0),
                  (const int64_t[]){index + 1, ROWS, COLUMNS}, NULL),
      NABLA_DIMS(ROWS, COLUMNS));
}

static void expect_near(nabla_array *got, nabla_array *want, double most) {
  nabla_dense a = {0}, b = {0};
  size_t count = 1;
  cr_assert_eq(nabla_array_read(want, &b, &diag), NABLA_OK, "%s", diag.what);
  cr_assert_eq(nabla_array_read(nabla_materialize(got), &a, &diag), NABLA_OK,
               "%s", diag.what);
  cr_assert_eq(a.rank, b.rank);
  for (uint32_t d = 0; d < a.rank; d++) {
    cr_assert_eq(a.shape[d], b.shape[d]);
    count *= (size_t)a.shape[d];
  }
  for (size_t i = 0; i < count; i++) {
    const double x = ((const float *)a.data)[i], y = ((const float *)b.data)[i];
    cr_assert(fabs(x - y) <= most, "%zu: %g, not %g", i, x, y);
  }
}

/* ---- cond ---- */

static void first(nabla_scope *s, const nabla_tree *in, nabla_tree *out,
                  void *self) {
  (void)s, (void)self;
  out->array = in->items[0].array;
}

static void second(nabla_scope *s, const nabla_tree *in, nabla_tree *out,
                   void *self) {
  (void)s, (void)self;
  out->array =
      nf4(nabla_mul(nabla_materialize(in->items[1].array), nabla_scalar(s, 2)));
}

Test(packed_control, cond_gives_packed_arrays) {
  nabla_array *a = nf4(stacked(1)), *b = nf4(stacked(0.5F));
  nabla_tree items[2] = {nabla_tree_of_array(a), nabla_tree_of_array(b)};
  const nabla_tree operands = nabla_tree_of_list(2, items);
  for (int yes = 0; yes < 2; yes++) {
    nabla_array *predicate =
        nabla_less(nabla_convert(nabla_integer(scope, yes), NABLA_DTYPE_F32),
                   nabla_scalar(scope, 0.5));
    nabla_tree out = nabla_tree_of_array(NULL);
    nabla_cond(predicate, first, second, NULL, &operands, &out);
    cr_assert(nabla_array_is_packed(out.array), "%d",
              nabla_scope_status(scope, &diag));
    nabla_array *want =
        yes ? nabla_mul(nabla_materialize(b), nabla_scalar(scope, 2))
            : nabla_materialize(a);
    expect_near(out.array, want, 1e-6);
  }
}

/* ---- while ---- */

static void below_three(nabla_scope *s, const nabla_tree *in, nabla_tree *out,
                        void *self) {
  (void)self;
  out->array = nabla_less(in->items[0].array, nabla_integer(s, 3));
}

static void halve(nabla_scope *s, const nabla_tree *in, nabla_tree *out,
                  void *self) {
  (void)self;
  out->items[0].array = nabla_add(in->items[0].array, nabla_integer(s, 1));
  out->items[1].array = nf4(
      nabla_mul(nabla_materialize(in->items[1].array), nabla_scalar(s, 0.5)));
}

Test(packed_control, while_carries_packed_arrays) {
  nabla_array *w = nf4(stacked(1));
  nabla_tree items[2] = {nabla_tree_of_array(nabla_integer(scope, 0)),
                         nabla_tree_of_array(w)};
  nabla_tree results[2] = {nabla_tree_of_array(NULL),
                           nabla_tree_of_array(NULL)};
  const nabla_tree initial = nabla_tree_of_list(2, items);
  nabla_tree out = nabla_tree_of_list(2, results);
  nabla_while(below_three, halve, NULL, &initial, &out);
  cr_assert(nabla_array_is_packed(results[1].array), "%d %s",
            nabla_scope_status(scope, &diag), diag.what);
  /* halving is exact: codes stay, scales are halved */
  expect_near(results[1].array,
              nabla_mul(nabla_materialize(w), nabla_scalar(scope, 0.125)),
              1e-7);
}

/* ---- scan ---- */

/* Carries x and a packed array; the outputs are packed too. */
static void step(nabla_scope *s, const nabla_tree *in, nabla_tree *out,
                 void *self) {
  const nabla_tree *carried = in->items[0].items;
  nabla_array *w = in->items[1].array;
  *(int *)self += nabla_array_is_packed(w);
  out->items[0].items[0].array =
      nabla_add(carried[0].array,
                nabla_matmul(carried[0].array, nabla_transpose(w, 0, NULL)));
  out->items[0].items[1].array = w;
  out->items[1].array =
      nf4(nabla_mul(nabla_materialize(carried[1].array), nabla_scalar(s, 2)));
}

Test(packed_control, scan_takes_carries_and_gives_packed_arrays) {
  int packed = 0;
  nabla_array *w = nf4(stacked(0.01F)), *dense = nabla_materialize(w);
  nabla_array *start = nf4(layer_of(stacked(1), 0));
  nabla_array *x = nabla_slice(layer_of(stacked(1), 1), NABLA_DIMS(0, 0),
                               (const int64_t[]){2, COLUMNS}, NULL);
  nabla_tree items[2] = {nabla_tree_of_array(x), nabla_tree_of_array(start)};
  const nabla_tree initial = nabla_tree_of_list(2, items);
  const nabla_tree inputs = nabla_tree_of_array(w);
  const nabla_scan_options options = {
      .struct_size = sizeof options, .initial = &initial, .inputs = &inputs};
  nabla_tree last[2] = {nabla_tree_of_array(NULL), nabla_tree_of_array(NULL)};
  nabla_tree carried = nabla_tree_of_list(2, last);
  nabla_tree outputs = nabla_tree_of_array(NULL);
  nabla_scan(step, &packed, &options, &carried, &outputs);
  (void)nabla_scope_status(scope, &diag);
  cr_assert_not_null(outputs.array, "%s", diag.what);
  cr_expect_eq(packed, 1);
  cr_expect(nabla_array_is_packed(last[1].array));
  cr_expect(nabla_array_is_packed(outputs.array));
  cr_expect_eq(nabla_array_dense(outputs.array)->shape[0], LAYERS);
  nabla_array *twice =
      nabla_mul(nabla_materialize(start), nabla_scalar(scope, 2));
  nabla_array *each[LAYERS] = {twice};
  for (int i = 0; i < LAYERS; i++) {
    nabla_array *layer = layer_of(dense, i);
    x = nabla_add(x, nabla_matmul(x, nabla_transpose(layer, 0, NULL)));
    /* the second output is of what was carried on from the first step */
    if (i)
      each[i] = nabla_mul(nabla_materialize(nf4(layer_of(dense, i - 1))),
                          nabla_scalar(scope, 2));
  }
  expect_near(last[0].array, x, 1e-3);
  expect_near(last[1].array, layer_of(dense, LAYERS - 1), 0);
  expect_near(outputs.array, nabla_stack(LAYERS, each, 0), 1e-5);
}

/* ---- slices ---- */

Test(packed_control, packed_slices_are_results) {
  nabla_array *w = nf4(stacked(1)), *dense = nabla_materialize(w);
  nabla_array *part = nabla_slice(w, NABLA_DIMS(1, 0, 0),
                                  (const int64_t[]){2, ROWS, COLUMNS}, NULL);
  nabla_array *want = nabla_slice(dense, NABLA_DIMS(1, 0, 0),
                                  (const int64_t[]){2, ROWS, COLUMNS}, NULL);
  cr_assert(nabla_array_is_packed(part));
  expect_near(part, want, 0);
  nabla_weight_desc weight;
  cr_assert_eq(nabla_array_weight(part, &weight, &diag), NABLA_OK, "%s",
               diag.what);
  cr_expect_eq(weight.rank, 3);
  cr_expect_eq(weight.shape[0], 1);
  cr_expect_eq(weight.components[0].bytes, ROWS * COLUMNS / 2);
  /* as a leaf of a later graph */
  expect_near(nabla_array_of_weight(scope, &weight), want, 0);
  expect_near(part, want, 0);
  /* a view that is not in the order of the storage has no description */
  cr_expect_eq(nabla_array_weight(nabla_transpose(w, 0, NULL), &weight, &diag),
               NABLA_UNSUPPORTED);
}

/* Scales in 8 bits share an absmax for 256 of them. */
Test(packed_control, slices_of_nested_scales_are_results) {
  nabla_array *x =
      nabla_concatenate(2, (nabla_array *[]){stacked(1), stacked(3)}, 0);
  const nabla_storage layout = {
      .kind = NABLA_STORAGE_PLANES,
      .format = {.encoding = nabla_encoding_find("nf4"),
                 .block = 64,
                 .scale = NABLA_SCALE_DYNAMIC8},
      .nested_block = 64};
  nabla_array *w = nabla_quantize(x, &layout), *dense = nabla_materialize(w);
  (void)nabla_scope_status(scope, &diag);
  cr_assert_not_null(w, "%s", diag.what);
  const int64_t end[3] = {5, ROWS, COLUMNS};
  nabla_array *part = nabla_slice(w, NABLA_DIMS(3, 0, 0), end, NULL);
  nabla_weight_desc weight;
  cr_assert_eq(nabla_array_weight(part, &weight, &diag), NABLA_OK, "%s",
               diag.what);
  cr_expect_eq(weight.shape[0], 2);
  expect_near(nabla_array_of_weight(scope, &weight),
              nabla_slice(dense, NABLA_DIMS(3, 0, 0), end, NULL), 0);
}

/* ---- layers ---- */

Test(packed_control, one_layer_of_a_tree_opens_and_closes) {
  nabla_array *w = nf4(stacked(1)), *x = stacked(2);
  nabla_tree items[2] = {nabla_tree_of_array(x), nabla_tree_of_array(w)};
  const nabla_tree tree = nabla_tree_of_list(2, items);
  nabla_tree places[2] = {nabla_tree_of_array(NULL), nabla_tree_of_array(NULL)};
  const nabla_tree out = nabla_tree_of_list(2, places);
  nabla_array *list[4];
  size_t count;
  cr_assert_eq(nabla_tree_open_layer(&tree, 0, NULL, &count, &diag), NABLA_OK);
  cr_assert_eq(count, 3);
  cr_expect_eq(nabla_tree_open_layer(&tree, 2, list, &count, &diag),
               NABLA_TOO_LARGE);
  cr_assert_eq(nabla_tree_open_layer(&tree, 4, list, &count, &diag), NABLA_OK);
  cr_assert_eq(count, 3);
  cr_expect_eq(list[0], x);
  cr_expect_eq(nabla_array_dense(list[1])->dtype, NABLA_DTYPE_I8);
  cr_expect_eq(nabla_array_dense(list[2])->dtype, NABLA_DTYPE_F32);
  list[2] = nabla_mul(list[2], nabla_scalar(scope, 2));
  cr_expect_eq(nabla_tree_close_layer(&tree, 2, list, &out, &diag),
               NABLA_INVALID_ARGUMENT);
  cr_assert_eq(nabla_tree_close_layer(&tree, 3, list, &out, &diag), NABLA_OK,
               "%s", diag.what);
  cr_expect_eq(places[0].array, x);
  cr_assert(nabla_array_is_packed(places[1].array));
  expect_near(places[1].array,
              nabla_mul(nabla_materialize(w), nabla_scalar(scope, 2)), 1e-6);
  places[1].array = NULL;
  cr_expect_eq(nabla_tree_open_layer(&out, 4, list, &count, &diag),
               NABLA_INVALID_ARGUMENT);
  cr_expect(strstr(diag.what, "'1' is NULL"), "%s", diag.what);
  list[1] = list[0];
  cr_expect_eq(nabla_tree_close_layer(&tree, 3, list, &tree, &diag),
               NABLA_INVALID_ARGUMENT);
  cr_expect_eq(items[1].array, w);
}
