/* See tree_names.h. */
#include "lib/array/function/tree_names.h"

#include <stdio.h>
#include <string.h>

#define LIST_BYTES 300

/* The rest of `name` behind the part `first` and a dot, or "" where it is that
 * part; NULL if it begins otherwise. */
static const char *behind(const char *name, const char *first) {
  const size_t length = strlen(first);
  if (strncmp(name, first, length) != 0) return NULL;
  if (!name[length]) return name + length;
  return name[length] == '.' ? name + length + 1 : NULL;
}

/* Members alone: those that are optional may have no leaves. */
static bool has_member(const nabla_tree_layout *layout, const char *name) {
  for (size_t i = 0; i < layout->member_count; i++)
    if (behind(name, layout->members[i].name)) return true;
  return false;
}

bool nabla_tree_has_name(const nabla_tree *tree, const char *name) {
  char number[24];
  if (!*name) return true;
  if (tree->kind == NABLA_TREE_OPEN)
    return tree->items && nabla_tree_has_name(tree->items, name);
  if (tree->kind == NABLA_TREE_STRUCT) return has_member(tree->layout, name);
  if (tree->kind != NABLA_TREE_LIST && tree->kind != NABLA_TREE_FIELDS)
    return false;
  for (size_t i = 0; i < tree->count; i++) {
    (void)snprintf(number, sizeof number, "%zu", i);
    const char *rest =
        behind(name, tree->kind == NABLA_TREE_FIELDS ? tree->names[i] : number);
    if (rest && nabla_tree_has_name(&tree->items[i], rest)) return true;
  }
  return false;
}

/* "x, params.w" */
typedef struct name_list {
  char text[LIST_BYTES];
  size_t used, count;
} name_list;

static nabla_status add_name(void *self, const char *name, nabla_array **place,
                             nabla_diag *diag) {
  (void)place, (void)diag;
  name_list *list = self;
  const size_t room = sizeof list->text - list->used;
  const char *separator = list->count ? ", " : "";
  list->count++;
  if (strlen(separator) + strlen(name) + sizeof ", ..." > room) {
    if (room > sizeof ", ...")
      list->used += (size_t)snprintf(list->text + list->used, room, ", ...");
    list->used = sizeof list->text - 1; /* no more */
    return NABLA_OK;
  }
  list->used +=
      (size_t)snprintf(list->text + list->used, room, "%s%s", separator, name);
  return NABLA_OK;
}

void nabla_tree_say_names(const nabla_tree *tree, const char *whose,
                          nabla_diag *diag) {
  name_list list = {{0}, 0, 0};
  if (!diag || nabla_tree_visit(tree, add_name, &list, NULL)) return;
  if (!list.count)
    nabla_diag_set_next(diag, "%s have no leaves", whose);
  else if (list.count == 1 && !*list.text)
    nabla_diag_set_next(diag, "%s are one array, whose name is ''", whose);
  else
    nabla_diag_set_next(diag, "%s have the leaves %s", whose, list.text);
}
