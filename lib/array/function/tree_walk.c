/* The walk over a tree; see tree_walk.h. */
#include "lib/array/function/tree_walk.h"

#include <stdio.h>

#include "lib/base/require.h"

/* ---- structure and names ---- */

static nabla_status add(nabla_tree_walk *walk, const void *bytes, size_t size,
                        nabla_diag *diag) {
  if (!walk->structure || !size) return NABLA_OK;
  return nabla_buffer_append(walk->structure, bytes, size, diag);
}

/* A kind, and a count or size. */
static nabla_status add_kind(nabla_tree_walk *walk, char kind, size_t count,
                             nabla_diag *diag) {
  NABLA_TRY(add(walk, &kind, 1, diag));
  return add(walk, &count, sizeof count, diag);
}

static nabla_status add_name(nabla_tree_walk *walk, const char *name,
                             nabla_diag *diag) {
  return add(walk, name, strlen(name) + 1, diag);
}

static nabla_status enter(nabla_tree_walk *walk, const char *name,
                          size_t length, nabla_diag *diag) {
  const size_t dot = walk->length ? 1 : 0;
  if (!walk->has_names) return NABLA_OK;
  if (walk->length + dot + length > NABLA_TREE_MAX_NAME)
    return nabla_fail(diag, NABLA_TOO_LARGE,
                      "the name of a leaf of a tree has more than %d bytes: "
                      "%.60s...",
                      NABLA_TREE_MAX_NAME, walk->name);
  if (dot) walk->name[walk->length] = '.';
  memcpy(walk->name + walk->length + dot, name, length);
  walk->length += dot + length;
  walk->name[walk->length] = 0;
  return NABLA_OK;
}

static nabla_status enter_number(nabla_tree_walk *walk, size_t index,
                                 nabla_diag *diag) {
  char text[24];
  if (!walk->has_names) return NABLA_OK;
  const int length = snprintf(text, sizeof text, "%zu", index);
  return enter(walk, text, (size_t)length, diag);
}

static void leave(nabla_tree_walk *walk, size_t length) {
  walk->length = length;
  walk->name[length] = 0;
}

static nabla_status deeper(nabla_tree_walk *walk, nabla_diag *diag) {
  if (++walk->depth <= NABLA_TREE_MAX_DEPTH) return NABLA_OK;
  return nabla_fail(diag, NABLA_TOO_LARGE,
                    "a tree is nested more than %d deep at '%s'",
                    NABLA_TREE_MAX_DEPTH, walk->name);
}

static nabla_status refuse(const nabla_tree_walk *walk, const char *what,
                           nabla_diag *diag) {
  return nabla_fail(diag, NABLA_INVALID_ARGUMENT, "a tree at '%s': %s",
                    walk->name, what);
}

/* ---- structs ---- */

static nabla_status walk_struct(nabla_tree_walk *walk,
                                const nabla_tree_layout *layout, char *data,
                                nabla_diag *diag);

static nabla_status walk_place(nabla_tree_walk *walk, nabla_array **place,
                               bool is_optional, nabla_diag *diag) {
  if (is_optional && !*place) return add_kind(walk, '-', 0, diag);
  NABLA_TRY(add_kind(walk, 'a', 1, diag));
  return walk->leaf ? walk->leaf(walk->self, walk->name, place, diag)
                    : NABLA_OK;
}

static nabla_status walk_element(nabla_tree_walk *walk,
                                 const nabla_tree_member *member, char *at,
                                 nabla_diag *diag) {
  if (member->layout) return walk_struct(walk, member->layout, at, diag);
  return walk_place(walk, (nabla_array **)(void *)at,
                    member->kind == NABLA_TREE_MEMBER_OPTIONAL, diag);
}

/* The elements of a member: where they are, and how many. */
static nabla_status find_elements(const nabla_tree_walk *walk,
                                  const nabla_tree_member *member, char *data,
                                  char **out, size_t *count, size_t *size,
                                  nabla_diag *diag) {
  const bool is_struct = member->kind == NABLA_TREE_MEMBER_INLINE ||
                         member->kind == NABLA_TREE_MEMBER_POINTER;
  if (is_struct != (member->layout != NULL))
    return refuse(walk, "a member whose layout does not go with its kind",
                  diag);
  *size = is_struct ? member->layout->size : sizeof(nabla_array *);
  *out = data + member->offset;
  if (member->kind == NABLA_TREE_MEMBER_POINTER) {
    memcpy(count, data + member->count_offset, sizeof *count);
    memcpy(out, data + member->offset, sizeof *out);
    if (*count && !*out) return refuse(walk, "a list that is NULL", diag);
    return NABLA_OK;
  }
  if (!*size || member->size % *size)
    return refuse(walk, "a member that is no array or struct of its layout",
                  diag);
  *count = member->size / *size;
  return NABLA_OK;
}

static nabla_status walk_member(nabla_tree_walk *walk,
                                const nabla_tree_member *member, char *data,
                                nabla_diag *diag) {
  char *at = NULL;
  size_t count = 0, size = 0;
  const size_t length = walk->length;
  if (!member->name) return refuse(walk, "a member without a name", diag);
  NABLA_TRY(add_name(walk, member->name, diag));
  NABLA_TRY(enter(walk, member->name, strlen(member->name), diag));
  if (member->kind == NABLA_TREE_MEMBER_VALUE) {
    NABLA_TRY(add_kind(walk, 'v', member->size, diag));
    NABLA_TRY(add(walk, data + member->offset, member->size, diag));
    leave(walk, length);
    return NABLA_OK;
  }
  NABLA_TRY(find_elements(walk, member, data, &at, &count, &size, diag));
  const bool is_list = count != 1 || member->kind == NABLA_TREE_MEMBER_POINTER;
  if (is_list) NABLA_TRY(add_kind(walk, 'l', count, diag));
  for (size_t i = 0; i < count; i++) {
    const size_t before = walk->length;
    if (is_list) NABLA_TRY(enter_number(walk, i, diag));
    NABLA_TRY(walk_element(walk, member, at + i * size, diag));
    leave(walk, before);
  }
  leave(walk, length);
  return NABLA_OK;
}

static nabla_status walk_struct(nabla_tree_walk *walk,
                                const nabla_tree_layout *layout, char *data,
                                nabla_diag *diag) {
  NABLA_TRY(deeper(walk, diag));
  NABLA_TRY(add_kind(walk, 's', layout->member_count, diag));
  if (layout->member_count && !layout->members)
    return refuse(walk, "a layout without members", diag);
  for (size_t i = 0; i < layout->member_count; i++)
    NABLA_TRY(walk_member(walk, &layout->members[i], data, diag));
  walk->depth--;
  return NABLA_OK;
}

/* ---- trees ---- */

static nabla_status walk_tree(nabla_tree_walk *walk, const nabla_tree *tree,
                              nabla_diag *diag);

static nabla_status walk_items(nabla_tree_walk *walk, const nabla_tree *tree,
                               nabla_diag *diag) {
  const bool has_names = tree->kind == NABLA_TREE_FIELDS;
  NABLA_TRY(deeper(walk, diag));
  NABLA_TRY(add_kind(walk, has_names ? 'f' : 'l', tree->count, diag));
  if (tree->count && (!tree->items || (has_names && !tree->names)))
    return refuse(walk, "a list without items or names", diag);
  for (size_t i = 0; i < tree->count; i++) {
    const size_t length = walk->length;
    if (has_names) {
      if (!tree->names[i]) return refuse(walk, "a field without a name", diag);
      NABLA_TRY(add_name(walk, tree->names[i], diag));
      NABLA_TRY(enter(walk, tree->names[i], strlen(tree->names[i]), diag));
    } else {
      NABLA_TRY(enter_number(walk, i, diag));
    }
    NABLA_TRY(walk_tree(walk, &tree->items[i], diag));
    leave(walk, length);
  }
  walk->depth--;
  return NABLA_OK;
}

/* The tree at the place has its names, and no part in the structure. */
static nabla_status walk_open(nabla_tree_walk *walk, const nabla_tree *tree,
                              nabla_diag *diag) {
  nabla_buffer *structure = walk->structure;
  walk->has_open = true;
  NABLA_TRY(add_kind(walk, 'o', 0, diag));
  if (!tree->items) return NABLA_OK;
  NABLA_TRY(deeper(walk, diag));
  walk->structure = NULL;
  NABLA_TRY(walk_tree(walk, tree->items, diag));
  walk->structure = structure;
  walk->depth--;
  return NABLA_OK;
}

static nabla_status walk_tree(nabla_tree_walk *walk, const nabla_tree *tree,
                              nabla_diag *diag) {
  switch ((int)tree->kind) {
    case NABLA_TREE_NONE:
      return add_kind(walk, 'n', 0, diag);
    case NABLA_TREE_ARRAY: /* a tree is a description: its places are written */
      return walk_place(walk, &((nabla_tree *)tree)->array, false, diag);
    case NABLA_TREE_LIST:
    case NABLA_TREE_FIELDS:
      return walk_items(walk, tree, diag);
    case NABLA_TREE_STRUCT:
      if (!tree->layout || !tree->data)
        return refuse(walk, "a struct without layout or data", diag);
      return walk_struct(walk, tree->layout, tree->data, diag);
    case NABLA_TREE_STATIC:
      if (tree->count && !tree->data)
        return refuse(walk, "a static value without data", diag);
      NABLA_TRY(add_kind(walk, 'v', tree->count, diag));
      return add(walk, tree->data, tree->count, diag);
    case NABLA_TREE_OPEN:
      return walk_open(walk, tree, diag);
    default:
      return refuse(walk, "an unknown kind", diag);
  }
}

nabla_status nabla_tree_walk_run(nabla_tree_walk *walk, const nabla_tree *tree,
                                 nabla_diag *diag) {
  walk->depth = 0;
  walk->length = 0;
  walk->name[0] = 0;
  walk->has_open = false;
  return walk_tree(walk, tree, diag);
}

nabla_status nabla_tree_settle(const nabla_tree *to, const nabla_tree *from,
                               nabla_diag *diag) {
  if (to->kind == NABLA_TREE_OPEN) {
    if (!from->items)
      return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                        "a callback left an open place of its results empty");
    if (to->items) return nabla_tree_same(to->items, from->items, diag);
    ((nabla_tree *)to)->items = from->items;
  }
  if (to->kind != NABLA_TREE_LIST && to->kind != NABLA_TREE_FIELDS)
    return NABLA_OK;
  for (size_t i = 0; i < to->count; i++)
    NABLA_TRY(nabla_tree_settle(&to->items[i], &from->items[i], diag));
  return NABLA_OK;
}
