/* nabla/tree.h: leaves and their names, structure, files. */
#include "nabla/tree.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "tests/support/array_scope.h"
#include "tests/support/temp_folder.h"

TestSuite(tree, .init = set_up, .fini = tear_down, .timeout = 300);

typedef struct layer {
  nabla_array *w, *b;
  int width; /* static */
} layer;

typedef struct net {
  layer pair[2];
  layer *layers;
  nabla_array *scale;
  nabla_array *tables[2];
  size_t layer_count;
} net;

static const nabla_tree_member layer_members[] = {
    NABLA_TREE_MEMBER(layer, w), NABLA_TREE_MEMBER_MAYBE(layer, b),
    NABLA_TREE_MEMBER_STATIC(layer, width)};
static const nabla_tree_layout layer_layout = NABLA_TREE_LAYOUT(layer);
static const nabla_tree_member net_members[] = {
    NABLA_TREE_MEMBER_STRUCT(net, pair, layer_layout),
    NABLA_TREE_MEMBER_LIST(net, layers, layer_count, layer_layout),
    NABLA_TREE_MEMBER(net, scale), NABLA_TREE_MEMBER(net, tables)};
static const nabla_tree_layout net_layout = NABLA_TREE_LAYOUT(net);

static nabla_array *number(float value) {
  const nabla_dense dense = {&value, NABLA_DTYPE_F32, 0, {0}};
  return nabla_array_of(scope, &dense);
}

static float value_of(nabla_array *array) {
  nabla_dense out;
  cr_assert_eq(nabla_array_read(array, &out, &diag), NABLA_OK, "%s", diag.what);
  return *(const float *)out.data;
}

static void fill(net *n, layer *one) {
  *one = (layer){.w = number(5)};
  *n = (net){.pair = {{number(1), number(2), 7}, {number(3), number(4), 7}},
             .layers = one,
             .layer_count = 1,
             .scale = number(6),
             .tables = {number(8), number(9)}};
}

static nabla_status add_name(void *self, const char *name, nabla_array **place,
                             nabla_diag *why) {
  (void)place, (void)why;
  char *text = self;
  (void)snprintf(text + strlen(text), 200 - strlen(text), "%s ", name);
  return NABLA_OK;
}

static void expect_names(const nabla_tree *tree, const char *want) {
  char names[200] = "";
  cr_assert_eq(nabla_tree_visit(tree, add_name, names, &diag), NABLA_OK, "%s",
               diag.what);
  cr_expect_str_eq(names, want);
}

Test(tree, names) {
  net n;
  layer one;
  fill(&n, &one);
  static const char *const names[2] = {"net", "x"};
  nabla_tree items[2] = {nabla_tree_of_struct(&net_layout, &n),
                         nabla_tree_of_array(number(0))};
  nabla_tree tree = nabla_tree_of_fields(2, names, items);
  expect_names(&tree,
               "net.pair.0.w net.pair.0.b net.pair.1.w net.pair.1.b "
               "net.layers.0.w net.scale net.tables.0 net.tables.1 x ");
  tree = nabla_tree_of_list(2, items);
  items[0] = nabla_tree_of_list(0, NULL);
  expect_names(&tree, "1 ");
  expect_names(&items[1], " ");
}

Test(tree, flatten_and_unflatten) {
  net n, other;
  layer one, another = {.w = NULL};
  fill(&n, &one);
  nabla_tree tree = nabla_tree_of_struct(&net_layout, &n);
  nabla_array *leaves[8];
  size_t count;
  cr_assert_eq(nabla_tree_flatten(&tree, 0, NULL, &count, &diag), NABLA_OK);
  cr_assert_eq(count, 8);
  cr_assert_eq(nabla_tree_flatten(&tree, 8, leaves, &count, &diag), NABLA_OK);
  for (size_t i = 0; i < 4; i++)
    cr_expect_eq(value_of(leaves[i]), (float)(i + 1));
  cr_expect_eq(nabla_tree_flatten(&tree, 7, leaves, &count, &diag),
               NABLA_TOO_LARGE);
  other = n;
  other.layers = &another;
  other.scale = NULL;
  nabla_tree to = nabla_tree_of_struct(&net_layout, &other);
  cr_expect_eq(nabla_tree_unflatten(&to, 7, leaves, &diag),
               NABLA_INVALID_ARGUMENT);
  cr_expect_null(other.scale);
  cr_assert_eq(nabla_tree_unflatten(&to, 8, leaves, &diag), NABLA_OK);
  cr_expect_eq(other.scale, n.scale);
  cr_expect_eq(another.w, one.w);
}

static nabla_array *twice(void *self, nabla_array *array) {
  (void)self;
  return nabla_add(array, array);
}

Test(tree, map) {
  net n, out;
  layer one, another;
  fill(&n, &one);
  fill(&out, &another);
  nabla_tree tree = nabla_tree_of_struct(&net_layout, &n);
  nabla_tree to = nabla_tree_of_struct(&net_layout, &out);
  cr_assert_eq(nabla_tree_map(&tree, twice, NULL, &to, &diag), NABLA_OK, "%s",
               diag.what);
  cr_expect_eq(value_of(out.pair[1].b), 8);
  cr_expect_eq(value_of(another.w), 10);
  cr_expect_eq(value_of(n.pair[1].b), 4);
  another.b = number(1);
  cr_expect_eq(nabla_tree_map(&tree, twice, NULL, &to, &diag),
               NABLA_INVALID_ARGUMENT);
  cr_expect(strstr(diag.what, "'scale'") && strstr(diag.what, "'layers.0.b'"),
            "%s", diag.what);
}

Test(tree, static_values_are_structure) {
  net n, m;
  layer one, another;
  fill(&n, &one);
  fill(&m, &another);
  nabla_tree a = nabla_tree_of_struct(&net_layout, &n);
  nabla_tree b = nabla_tree_of_struct(&net_layout, &m);
  cr_expect_eq(nabla_tree_same(&a, &b, &diag), NABLA_OK);
  m.pair[0].width = 8;
  cr_expect_eq(nabla_tree_same(&a, &b, &diag), NABLA_INVALID_ARGUMENT);
  cr_expect(strstr(diag.what, "static"), "%s", diag.what);
  int p = 1, q = 1;
  a = nabla_tree_of_static(sizeof p, &p);
  b = nabla_tree_of_static(sizeof q, &q);
  cr_expect_eq(nabla_tree_same(&a, &b, &diag), NABLA_OK);
  q = 2;
  cr_expect_eq(nabla_tree_same(&a, &b, &diag), NABLA_INVALID_ARGUMENT);
  a = (nabla_tree){.kind = NABLA_TREE_NONE};
  b = nabla_tree_of_list(0, NULL);
  cr_expect_eq(nabla_tree_same(&a, &b, &diag), NABLA_INVALID_ARGUMENT);
}

Test(tree, bad_trees) {
  size_t count;
  static const nabla_tree_member wrong[] = {
      {"w", NABLA_TREE_MEMBER_ARRAY, 0, 3, 0, NULL}};
  static const nabla_tree_member no_layout[] = {
      {"w", NABLA_TREE_MEMBER_INLINE, 0, 8, 0, NULL}};
  static const nabla_tree_member no_name[] = {
      {NULL, NABLA_TREE_MEMBER_ARRAY, 0, 8, 0, NULL}};
  const nabla_tree_layout layouts[] = {
      {8, 1, wrong}, {8, 1, no_layout}, {8, 1, no_name}, {8, 1, NULL}};
  void *data = NULL;
  net n = {.layer_count = 2};
  const nabla_tree bad[] = {
      {.kind = (nabla_tree_kind)99},
      {.kind = NABLA_TREE_LIST, .count = 1},
      {.kind = NABLA_TREE_STATIC, .count = 1},
      {.kind = NABLA_TREE_STRUCT, .layout = &layer_layout},
      {.kind = NABLA_TREE_STRUCT, .layout = &layouts[0], .data = &data},
      {.kind = NABLA_TREE_STRUCT, .layout = &layouts[1], .data = &data},
      {.kind = NABLA_TREE_STRUCT, .layout = &layouts[2], .data = &data},
      {.kind = NABLA_TREE_STRUCT, .layout = &layouts[3], .data = &data},
      {.kind = NABLA_TREE_STRUCT, .layout = &net_layout, .data = &n}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    cr_expect_eq(nabla_tree_flatten(&bad[i], 0, NULL, &count, &diag),
                 NABLA_INVALID_ARGUMENT, "%zu", i);
  nabla_tree loop = {.kind = NABLA_TREE_LIST, .count = 1};
  loop.items = &loop;
  cr_expect_eq(nabla_tree_flatten(&loop, 0, NULL, &count, &diag),
               NABLA_TOO_LARGE);
  char name[300];
  memset(name, 'x', sizeof name);
  name[sizeof name - 1] = 0;
  const char *const names[1] = {name};
  nabla_tree leaf = nabla_tree_of_array(number(1));
  const nabla_tree named = nabla_tree_of_fields(1, names, &leaf);
  char text[200] = "";
  cr_expect_eq(nabla_tree_visit(&named, add_name, text, &diag),
               NABLA_TOO_LARGE);
}

/* ---- files ---- */

Test(tree, files) {
  net n, m = {.layer_count = 1};
  layer one, another = {.w = NULL};
  fill(&n, &one);
  n.scale = nabla_add(n.scale, n.scale); /* pending */
  nabla_tree tree = nabla_tree_of_struct(&net_layout, &n);
  char path[300];
  temp_folder folder;
  temp_folder_create(&folder);
  temp_folder_path(&folder, "net.safetensors", path);
  cr_assert_eq(nabla_tree_write(&tree, path, 0, NULL, &diag), NABLA_OK, "%s",
               diag.what);
  cr_expect_eq(nabla_tree_write(&tree, path, 0, NULL, &diag), NABLA_EXISTS);
  cr_expect_eq(nabla_tree_write(&tree, path, 1, NULL, &diag), NABLA_OK);
  m = n;
  m.layers = &another;
  nabla_tree back = nabla_tree_of_struct(&net_layout, &m);
  cr_assert_eq(nabla_tree_read(scope, path, NULL, &back, &diag), NABLA_OK, "%s",
               diag.what);
  cr_expect_neq(m.scale, n.scale);
  cr_expect_eq(value_of(m.scale), 12);
  cr_expect_eq(value_of(another.w), 5);
  /* a leaf that the file lacks; a tensor that the tree lacks */
  another.b = number(1);
  const net before = m;
  cr_expect_eq(nabla_tree_read(scope, path, NULL, &back, &diag),
               NABLA_INVALID_ARGUMENT);
  cr_expect_str_eq(diag.tensor, "layers.0.b");
  cr_expect(!memcmp(&before, &m, sizeof m));
  m.layer_count = 0;
  cr_expect_eq(nabla_tree_read(scope, path, NULL, &back, &diag),
               NABLA_INVALID_ARGUMENT);
  cr_expect(strstr(diag.what, "8 tensors in the file, 7 leaves"), "%s",
            diag.what);
  /* another shape */
  const float two[2] = {1, 2};
  const nabla_dense dense = {(void *)two, NABLA_DTYPE_F32, 1, {2}};
  m.layer_count = 1;
  another.b = NULL;
  m.scale = nabla_array_of(scope, &dense);
  cr_expect_eq(nabla_tree_read(scope, path, NULL, &back, &diag),
               NABLA_INVALID_ARGUMENT);
  cr_expect(strstr(diag.what, "rank 0 in the file"), "%s", diag.what);
  n.scale = NULL;
  cr_expect_eq(nabla_tree_write(&tree, path, 1, NULL, &diag),
               NABLA_INVALID_ARGUMENT);
  cr_expect(strstr(diag.what, "'scale' is NULL"), "%s", diag.what);
  cr_expect_eq(temp_folder_count(&folder), 1); /* complete, or not there */
  temp_folder_destroy(&folder);
}

/* ---- packed leaves ---- */

static void expect_packed(const char *encoding, nabla_scale_type scale) {
  const nabla_storage layout = {
      .kind = NABLA_STORAGE_PLANES,
      .format = {.encoding = nabla_encoding_find(encoding),
                 .block = 64,
                 .scale = scale},
      .nested_block = scale == NABLA_SCALE_DYNAMIC8 ? 256 : 0};
  const int64_t shape[2] = {8, 64};
  nabla_array *dense =
      nabla_normal(nabla_integer(scope, 1), NABLA_DTYPE_F32, 2, shape);
  layer out = {nabla_quantize(dense, &layout), number(1), 0}, in = {.w = NULL};
  char path[300];
  temp_folder folder;
  nabla_dense want, got;
  temp_folder_create(&folder);
  temp_folder_path(&folder, "packed.safetensors", path);
  nabla_tree tree = nabla_tree_of_struct(&layer_layout, &out);
  cr_assert_eq(nabla_tree_write(&tree, path, 0, NULL, &diag), NABLA_OK, "%s",
               diag.what);
  in.b = out.b;
  tree = nabla_tree_of_struct(&layer_layout, &in);
  cr_assert_eq(nabla_tree_read(scope, path, NULL, &tree, &diag), NABLA_OK,
               "%s: %s", encoding, diag.what);
  cr_expect(nabla_array_is_packed(in.w));
  cr_assert_eq(nabla_array_read(nabla_materialize(out.w), &want, &diag),
               NABLA_OK);
  cr_assert_eq(nabla_array_read(nabla_materialize(in.w), &got, &diag),
               NABLA_OK);
  cr_expect_arr_eq(got.data, want.data, 8 * 64 * sizeof(float));
  /* a dense array is no place for a packed one */
  in.w = dense;
  cr_expect_eq(nabla_tree_read(scope, path, NULL, &tree, &diag),
               NABLA_INVALID_ARGUMENT);
  cr_expect(strstr(diag.what, "packed in the file, dense in the tree"), "%s",
            diag.what);
  temp_folder_destroy(&folder);
}

Test(tree, packed_leaves_stay_packed) {
  expect_packed("nf4", NABLA_SCALE_F32);
  expect_packed("int8", NABLA_SCALE_F16);
  expect_packed("ternary", NABLA_SCALE_F32);
  expect_packed("nf4", NABLA_SCALE_DYNAMIC8);
}
