/* Leaves of trees by name; see names.h. */
#include "lib/array/derivative/names.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "lib/array/function/tree_names.h"

/* ---- lists of texts ---- */

void nabla_leaf_names_init(nabla_leaf_names *names,
                           const nabla_allocator *allocator) {
  nabla_buffer_init(&names->texts, allocator, "names of leaves", SIZE_MAX / 2);
  nabla_buffer_init(&names->offsets, allocator, "names of leaves",
                    SIZE_MAX / 2);
}

void nabla_leaf_names_deinit(nabla_leaf_names *names) {
  nabla_buffer_deinit(&names->texts);
  nabla_buffer_deinit(&names->offsets);
}

size_t nabla_leaf_names_count(const nabla_leaf_names *names) {
  return names->offsets.size / sizeof(size_t);
}

const char *nabla_leaf_names_at(const nabla_leaf_names *names, size_t index) {
  size_t offset;
  memcpy(&offset, names->offsets.data + index * sizeof offset, sizeof offset);
  return (const char *)names->texts.data + offset;
}

nabla_status nabla_leaf_names_add(nabla_leaf_names *names, const char *a,
                                  const char *b, const char *c,
                                  nabla_diag *diag) {
  const char *const parts[3] = {a, b, c};
  const size_t offset = names->texts.size;
  for (int i = 0; i < 3; i++) {
    if (!*parts[i]) continue;
    if (names->texts.size > offset)
      NABLA_TRY(nabla_buffer_append(&names->texts, ".", 1, diag));
    NABLA_TRY(
        nabla_buffer_append(&names->texts, parts[i], strlen(parts[i]), diag));
  }
  NABLA_TRY(nabla_buffer_append(&names->texts, "", 1, diag));
  return nabla_buffer_append(&names->offsets, &offset, sizeof offset, diag);
}

static nabla_status add_name(void *self, const char *name, nabla_array **place,
                             nabla_diag *diag) {
  (void)place;
  return nabla_leaf_names_add(self, name, "", "", diag);
}

nabla_status nabla_leaf_names_of_tree(nabla_leaf_names *names,
                                      const nabla_tree *tree,
                                      nabla_diag *diag) {
  return nabla_tree_visit(tree, add_name, names, diag);
}

/* A tree that is compared. */
typedef struct comparison {
  const nabla_leaf_names *names;
  const char *what;
  size_t count;
} comparison;

static nabla_status compare(void *self, const char *name, nabla_array **place,
                            nabla_diag *diag) {
  (void)place;
  comparison *c = self;
  const bool more = c->count == nabla_leaf_names_count(c->names);
  const char *want = more ? NULL : nabla_leaf_names_at(c->names, c->count);
  if (want && !strcmp(name, want)) {
    c->count++;
    return NABLA_OK;
  }
  if (want && !*want)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "the tree of %s has the leaf '%.80s' where one array is "
                      "wanted",
                      c->what, name);
  return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                    "the tree of %s has the leaf '%.80s' where %s%.80s%s is "
                    "wanted",
                    c->what, name, want ? "'" : "", want ? want : "none",
                    want ? "'" : "");
}

nabla_status nabla_leaf_names_check(const nabla_leaf_names *names,
                                    const char *what, const nabla_tree *tree,
                                    nabla_diag *diag) {
  comparison c = {names, what, 0};
  NABLA_TRY(nabla_tree_visit(tree, compare, &c, diag));
  if (c.count == nabla_leaf_names_count(names)) return NABLA_OK;
  return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                    "the tree of %s lacks the leaf '%.80s'", what,
                    nabla_leaf_names_at(names, c.count));
}

/* ---- leaves that are chosen ---- */

void nabla_selection_init(nabla_selection *selection,
                          const nabla_allocator *allocator, size_t entries) {
  nabla_buffer_init(&selection->leaves, allocator, "leaves", SIZE_MAX / 2);
  nabla_leaf_names_init(&selection->names, allocator);
  selection->entries = entries;
}

void nabla_selection_deinit(nabla_selection *selection) {
  nabla_buffer_deinit(&selection->leaves);
  nabla_leaf_names_deinit(&selection->names);
}

size_t nabla_selection_count(const nabla_selection *selection) {
  return selection->leaves.size / sizeof(size_t);
}

size_t nabla_selection_at(const nabla_selection *selection, size_t index) {
  size_t leaf;
  memcpy(&leaf, selection->leaves.data + index * sizeof leaf, sizeof leaf);
  return leaf;
}

const char *nabla_name_within(const char *leaf, const char *name) {
  const size_t length = strlen(name);
  if (!length) return leaf;
  if (strncmp(leaf, name, length) != 0) return NULL;
  if (!leaf[length]) return leaf + length;
  return leaf[length] == '.' ? leaf + length + 1 : NULL;
}

/* An entry that is searched for. */
typedef struct selecting {
  nabla_selection *selection;
  const char *name, *number;
  size_t count, found;
} selecting;

static nabla_status select_leaf(void *self, const char *name,
                                nabla_array **place, nabla_diag *diag) {
  (void)place;
  selecting *s = self;
  nabla_selection *selection = s->selection;
  const size_t leaf = s->count++;
  const char *rest = nabla_name_within(name, s->name);
  if (!rest) return NABLA_OK;
  for (size_t i = 0; i < nabla_selection_count(selection); i++)
    if (nabla_selection_at(selection, i) == leaf)
      return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                        "the argument '%.80s' is named twice", name);
  s->found++;
  NABLA_TRY(nabla_buffer_append(&selection->leaves, &leaf, sizeof leaf, diag));
  return nabla_leaf_names_add(&selection->names, s->number, rest, "", diag);
}

nabla_status nabla_selection_add(nabla_selection *selection, size_t entry,
                                 const char *name, const nabla_tree *tree,
                                 nabla_diag *diag) {
  char number[24] = "";
  if (selection->entries > 1)
    (void)snprintf(number, sizeof number, "%zu", entry);
  selecting s = {selection, name, number, 0, 0};
  NABLA_TRY(nabla_tree_visit(tree, select_leaf, &s, diag));
  if (s.found) return NABLA_OK;
  const nabla_status status = nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                                         "no argument is called '%.80s'", name);
  nabla_tree_say_names(tree, "the arguments", diag);
  return status;
}
