/* Trees whose packed leaves are opened: one layer of components each. */
#include <inttypes.h>

#include "lib/array/function/tree_walk.h"
#include "lib/array/make.h"
#include "lib/base/require.h"

#define MAX_COMPONENTS 4 /* NABLA_MAX_PARTS */

/* A walk that opens the leaves of a tree, or closes them. */
typedef struct layer {
  const nabla_making *m;
  size_t count, capacity;
  nabla_array **out;      /* open: NULL to count                        */
  nabla_array *const *in; /* close                                      */
  nabla_array **closed;   /* close: the leaves, which are not placed yet */
  size_t closed_count;
} layer;

static nabla_status check(const char *name, const nabla_array *leaf,
                          nabla_diag *diag) {
  if (leaf) return NABLA_OK;
  (void)!nabla_fail(diag, NABLA_INVALID_ARGUMENT, "the leaf '%s' is NULL",
                    name);
  return NABLA_INVALID_ARGUMENT;
}

static uint32_t components_of(const layer *l, const nabla_array *leaf) {
  if (!nabla_dtype_is_packed(leaf->dense.dtype)) return 1;
  return nabla_packed_components(nabla_recorder_context(l->m->scope->recorder),
                                 &leaf->dense);
}

/* ---- open ---- */

static nabla_status open_leaf(void *self, const char *name, nabla_array **place,
                              nabla_diag *diag) {
  layer *l = self;
  nabla_array *parts[MAX_COMPONENTS] = {*place};
  NABLA_TRY(check(name, *place, diag));
  const uint32_t count = components_of(l, *place);
  if (l->out && nabla_dtype_is_packed((*place)->dense.dtype)) {
    const nabla_recording recording = {.op = "nabla.unpack",
                                       .operand_count = 1};
    if (!nabla_record_all(l->m->site, l->m->scope, &recording, place, count,
                          parts))
      return nabla_scope_status(l->m->scope, diag);
  }
  for (uint32_t i = 0; i < count; i++, l->count++)
    if (l->out && l->count < l->capacity) l->out[l->count] = parts[i];
  return NABLA_OK;
}

static nabla_status each(const nabla_tree *tree, nabla_tree_visitor visit,
                         layer *l, nabla_diag *diag) {
  nabla_tree_walk walk = {.self = l, .leaf = visit, .has_names = true};
  return nabla_tree_walk_run(&walk, tree, diag);
}

/* The innermost scope of the thread, in which components are recorded. */
static nabla_status begin(const nabla_making *m, nabla_diag *diag) {
  if (m->scope) return NABLA_OK;
  return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                    "%s: this thread has no scope", m->site->function);
}

nabla_status nabla_tree_open_layer(const nabla_tree *tree, size_t capacity,
                                   nabla_array **out, size_t *out_count,
                                   nabla_diag *diag) {
  NABLA_REQUIRE(tree, diag);
  NABLA_REQUIRE(out_count, diag);
  if (capacity) NABLA_REQUIRE(out, diag);
  NABLA_MAKE_IN(m, tree_open_layer, nabla_scope_innermost());
  NABLA_TRY(begin(m, diag));
  layer l = {.m = m};
  NABLA_TRY(each(tree, open_leaf, &l, diag));
  *out_count = l.count;
  if (!capacity) return NABLA_OK;
  if (l.count > capacity)
    return nabla_fail(diag, NABLA_TOO_LARGE,
                      "a tree of %zu leaves and components; there is space for "
                      "%zu",
                      l.count, capacity);
  l = (layer){.m = m, .out = out, .capacity = capacity};
  return each(tree, open_leaf, &l, diag);
}

/* ---- close ---- */

static nabla_status close_leaf(void *self, const char *name,
                               nabla_array **place, nabla_diag *diag) {
  layer *l = self;
  NABLA_TRY(check(name, *place, diag));
  const uint32_t count = components_of(l, *place);
  nabla_array *const *parts = l->in + l->count;
  for (uint32_t i = 0; i < count; i++) NABLA_TRY(check(name, parts[i], diag));
  l->count += count;
  nabla_array *made = parts[0];
  if (nabla_dtype_is_packed((*place)->dense.dtype))
    made = nabla_make_op(l->m, "nabla.pack", count, parts, 0, NULL,
                         &(*place)->dense);
  if (!made) return nabla_scope_status(l->m->scope, diag);
  l->closed[l->closed_count++] = made;
  return NABLA_OK;
}

static nabla_status close(layer *l, const nabla_tree *like,
                          const nabla_tree *out, nabla_diag *diag) {
  size_t leaves;
  void *memory;
  NABLA_TRY(nabla_tree_flatten(like, 0, NULL, &leaves, diag));
  NABLA_TRY(nabla_alloc(NULL, leaves, sizeof(nabla_array *), &memory, diag));
  l->closed = memory;
  nabla_status status = each(like, close_leaf, l, diag);
  if (!status) status = nabla_tree_unflatten(out, leaves, l->closed, diag);
  nabla_free(NULL, memory, leaves, sizeof(nabla_array *));
  return status;
}

nabla_status nabla_tree_close_layer(const nabla_tree *like, size_t count,
                                    nabla_array *const *arrays,
                                    const nabla_tree *out, nabla_diag *diag) {
  NABLA_REQUIRE(like, diag);
  if (count) NABLA_REQUIRE(arrays, diag);
  NABLA_REQUIRE(out, diag);
  NABLA_MAKE_IN(m, tree_close_layer, nabla_scope_innermost());
  NABLA_TRY(begin(m, diag));
  layer l = {.m = m, .in = arrays};
  NABLA_TRY(nabla_tree_same(like, out, diag));
  NABLA_TRY(each(like, open_leaf, &l, diag));
  if (l.count != count)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "a tree of %zu leaves and components, and %zu arrays",
                      l.count, count);
  l.count = 0;
  return close(&l, like, out, diag);
}
