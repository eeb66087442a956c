/* Trees: leaves, structure. */
#include "nabla/tree.h"

#include "lib/array/function/tree_walk.h"
#include "lib/base/require.h"

nabla_tree nabla_tree_of_array(nabla_array *array) {
  return (nabla_tree){.kind = NABLA_TREE_ARRAY, .array = array};
}

nabla_tree nabla_tree_of_list(size_t count, nabla_tree *items) {
  return (nabla_tree){.kind = NABLA_TREE_LIST, .count = count, .items = items};
}

nabla_tree nabla_tree_of_fields(size_t count, const char *const *names,
                                nabla_tree *items) {
  return (nabla_tree){.kind = NABLA_TREE_FIELDS,
                      .count = count,
                      .items = items,
                      .names = names};
}

nabla_tree nabla_tree_of_struct(const nabla_tree_layout *layout, void *data) {
  return (nabla_tree){
      .kind = NABLA_TREE_STRUCT, .layout = layout, .data = data};
}

nabla_tree nabla_tree_of_static(size_t size, void *value) {
  return (nabla_tree){.kind = NABLA_TREE_STATIC, .count = size, .data = value};
}

nabla_tree nabla_tree_of_open(nabla_tree *item) {
  return (nabla_tree){.kind = NABLA_TREE_OPEN, .items = item};
}

nabla_status nabla_tree_visit(const nabla_tree *tree, nabla_tree_visitor visit,
                              void *self, nabla_diag *diag) {
  NABLA_REQUIRE(tree, diag);
  NABLA_REQUIRE(visit, diag);
  nabla_tree_walk walk = {.self = self, .leaf = visit, .has_names = true};
  return nabla_tree_walk_run(&walk, tree, diag);
}

/* ---- lists of leaves ---- */

/* A list that a walk reads, or writes. */
typedef struct list {
  size_t count, capacity;
  nabla_array **out;
  nabla_array *const *in;
} list;

static nabla_status count_leaf(void *self, const char *name,
                               nabla_array **place, nabla_diag *diag) {
  (void)name, (void)place, (void)diag;
  list *l = self;
  l->count++;
  return NABLA_OK;
}

static nabla_status take_leaf(void *self, const char *name, nabla_array **place,
                              nabla_diag *diag) {
  (void)name, (void)diag;
  list *l = self;
  if (l->count < l->capacity) l->out[l->count] = *place;
  l->count++;
  return NABLA_OK;
}

static nabla_status put_leaf(void *self, const char *name, nabla_array **place,
                             nabla_diag *diag) {
  (void)name, (void)diag;
  list *l = self;
  *place = l->in[l->count++];
  return NABLA_OK;
}

static nabla_status each(const nabla_tree *tree, nabla_tree_visitor visit,
                         list *l, nabla_diag *diag) {
  nabla_tree_walk walk = {.self = l, .leaf = visit};
  return nabla_tree_walk_run(&walk, tree, diag);
}

nabla_status nabla_tree_flatten(const nabla_tree *tree, size_t capacity,
                                nabla_array **out, size_t *out_count,
                                nabla_diag *diag) {
  NABLA_REQUIRE(tree, diag);
  NABLA_REQUIRE(out_count, diag);
  if (capacity) NABLA_REQUIRE(out, diag);
  list l = {.capacity = capacity, .out = out};
  NABLA_TRY(each(tree, take_leaf, &l, diag));
  *out_count = l.count;
  if (capacity && l.count > capacity)
    return nabla_fail(diag, NABLA_TOO_LARGE,
                      "a tree of %zu leaves; there is space for %zu", l.count,
                      capacity);
  return NABLA_OK;
}

nabla_status nabla_tree_unflatten(const nabla_tree *tree, size_t count,
                                  nabla_array *const *arrays,
                                  nabla_diag *diag) {
  NABLA_REQUIRE(tree, diag);
  if (count) NABLA_REQUIRE(arrays, diag);
  list l = {.in = arrays};
  nabla_tree_walk walk = {.self = &l, .leaf = count_leaf};
  NABLA_TRY(nabla_tree_walk_run(&walk, tree, diag));
  if (l.count != count && walk.has_open)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "a tree of %zu leaves, and %zu arrays: an open place has "
                      "no tree, or another one",
                      l.count, count);
  if (l.count != count)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "a tree of %zu leaves, and %zu arrays", l.count, count);
  l.count = 0;
  return each(tree, put_leaf, &l, diag);
}

/* ---- structure ---- */

/* A search for a leaf by its number. */
typedef struct search {
  size_t index, count;
  char *name;
} search;

static nabla_status find_name(void *self, const char *name, nabla_array **place,
                              nabla_diag *diag) {
  (void)place, (void)diag;
  search *s = self;
  if (s->count++ == s->index) memcpy(s->name, name, strlen(name) + 1);
  return NABLA_OK;
}

/* Finds the first leaf whose names differ, or that one tree lacks. */
static nabla_status say_difference(const nabla_tree *a, const nabla_tree *b,
                                   size_t count, nabla_diag *diag) {
  for (size_t i = 0; i < count; i++) {
    char left[NABLA_TREE_MAX_NAME + 1] = "",
                                    right[NABLA_TREE_MAX_NAME + 1] = "";
    search s = {.index = i, .name = left}, t = {.index = i, .name = right};
    NABLA_TRY(nabla_tree_visit(a, find_name, &s, diag));
    NABLA_TRY(nabla_tree_visit(b, find_name, &t, diag));
    if (i >= s.count || i >= t.count || strcmp(left, right) != 0)
      return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                        "trees of another structure: leaf %zu is '%.80s' of "
                        "%zu in one, '%.80s' of %zu in the other",
                        i, left, s.count, right, t.count);
  }
  return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                    "trees of another structure: their leaves have the same "
                    "names; kinds or static values differ");
}

nabla_status nabla_tree_same(const nabla_tree *a, const nabla_tree *b,
                             nabla_diag *diag) {
  NABLA_REQUIRE(a, diag);
  NABLA_REQUIRE(b, diag);
  list l = {.count = 0}, r = {.count = 0};
  nabla_buffer left, right;
  nabla_buffer_init(&left, NULL, "a tree", SIZE_MAX / 2);
  nabla_buffer_init(&right, NULL, "a tree", SIZE_MAX / 2);
  nabla_tree_walk first = {.self = &l, .leaf = count_leaf, .structure = &left};
  nabla_tree_walk second = {
      .self = &r, .leaf = count_leaf, .structure = &right};
  nabla_status status = nabla_tree_walk_run(&first, a, diag);
  if (!status) status = nabla_tree_walk_run(&second, b, diag);
  if (!status && (left.size != right.size ||
                  memcmp(left.data, right.data, left.size) != 0))
    status = say_difference(a, b, l.count > r.count ? l.count : r.count, diag);
  nabla_buffer_deinit(&left);
  nabla_buffer_deinit(&right);
  return status;
}

/* ---- map ---- */

nabla_status nabla_tree_map(const nabla_tree *tree,
                            nabla_array *(*change)(void *self, nabla_array *),
                            void *self, const nabla_tree *out,
                            nabla_diag *diag) {
  NABLA_REQUIRE(tree, diag);
  NABLA_REQUIRE(change, diag);
  NABLA_REQUIRE(out, diag);
  size_t count;
  void *memory;
  NABLA_TRY(nabla_tree_same(tree, out, diag));
  NABLA_TRY(nabla_tree_flatten(tree, 0, NULL, &count, diag));
  NABLA_TRY(nabla_alloc(NULL, count, sizeof(nabla_array *), &memory, diag));
  nabla_array **arrays = memory;
  nabla_status status = NABLA_OK;
  if (count) status = nabla_tree_flatten(tree, count, arrays, &count, diag);
  for (size_t i = 0; i < count && !status; i++)
    arrays[i] = change(self, arrays[i]);
  if (!status) status = nabla_tree_unflatten(out, count, arrays, diag);
  nabla_free(NULL, memory, count, sizeof(nabla_array *));
  return status;
}
