/* Copies of trees; see tree_walk.h. */
#include "lib/array/function/tree_walk.h"
#include "lib/base/checked.h"

typedef struct nabla_tree_block {
  struct nabla_tree_block *next;
  size_t bytes;
  max_align_t data[];
} nabla_tree_block;

static nabla_status take(nabla_tree_copy *copy, size_t count, size_t size,
                         void **out, nabla_diag *diag) {
  void *memory;
  size_t bytes;
  *out = NULL;
  if (!count || !size) return NABLA_OK;
  if (!nabla_mul_size(count, size, &bytes) || bytes > SIZE_MAX / 2)
    return nabla_fail(diag, NABLA_TOO_LARGE, "a tree of %zu items", count);
  bytes += sizeof(nabla_tree_block);
  NABLA_TRY(nabla_alloc(copy->allocator, 1, bytes, &memory, diag));
  nabla_tree_block *block = memory;
  block->next = copy->blocks;
  block->bytes = bytes;
  copy->blocks = block;
  *out = block->data;
  return NABLA_OK;
}

static void clear_places(char *at, size_t size, bool is_optional) {
  for (size_t i = 0; i + sizeof(nabla_array *) <= size;
       i += sizeof(nabla_array *)) {
    nabla_array **place = (nabla_array **)(void *)(at + i);
    if (!is_optional) *place = NULL;
  }
}

/* Makes the lists of a struct, whose bytes were copied, copies. Optional
 * arrays stay as they are: where one is NULL is structure. */
static nabla_status own_struct(nabla_tree_copy *copy,
                               const nabla_tree_layout *layout, char *data,
                               nabla_diag *diag) {
  for (size_t i = 0; i < layout->member_count; i++) {
    const nabla_tree_member *member = &layout->members[i];
    char *at = data + member->offset;
    size_t count = 0;
    if (member->kind == NABLA_TREE_MEMBER_ARRAY ||
        member->kind == NABLA_TREE_MEMBER_OPTIONAL) {
      clear_places(at, member->size,
                   member->kind == NABLA_TREE_MEMBER_OPTIONAL);
      continue;
    }
    if (!member->layout || !member->layout->size) continue;
    const size_t size = member->layout->size;
    if (member->kind == NABLA_TREE_MEMBER_POINTER) {
      const void *from;
      void *to;
      memcpy(&count, data + member->count_offset, sizeof count);
      memcpy(&from, at, sizeof from);
      NABLA_TRY(take(copy, count, size, &to, diag));
      if (to) memcpy(to, from, count * size);
      memcpy(at, &to, sizeof to);
      if (!to) continue;
      at = to;
    } else {
      count = member->size / size;
    }
    for (size_t k = 0; k < count; k++)
      NABLA_TRY(own_struct(copy, member->layout, at + k * size, diag));
  }
  return NABLA_OK;
}

static nabla_status own(nabla_tree_copy *copy, nabla_tree *tree,
                        nabla_diag *diag) {
  void *memory;
  while (copy->is_settled && tree->kind == NABLA_TREE_OPEN && tree->items)
    *tree = *tree->items;
  tree->array = NULL;
  if (tree->kind == NABLA_TREE_OPEN) tree->items = NULL;
  if (tree->kind == NABLA_TREE_STRUCT) {
    const void *from_data = tree->data;
    NABLA_TRY(take(copy, 1, tree->layout->size, &memory, diag));
    tree->data = memory;
    if (!memory) return NABLA_OK;
    memcpy(memory, from_data, tree->layout->size);
    return own_struct(copy, tree->layout, memory, diag);
  }
  if (tree->kind == NABLA_TREE_STATIC) {
    NABLA_TRY(take(copy, 1, tree->count, &memory, diag));
    if (memory) memcpy(memory, tree->data, tree->count);
    tree->data = memory;
    return NABLA_OK;
  }
  if (tree->kind != NABLA_TREE_LIST && tree->kind != NABLA_TREE_FIELDS)
    return NABLA_OK;
  const nabla_tree *from = tree->items;
  NABLA_TRY(take(copy, tree->count, sizeof *from, &memory, diag));
  tree->items = memory;
  if (!memory) return NABLA_OK;
  for (size_t i = 0; i < tree->count; i++) {
    tree->items[i] = from[i];
    NABLA_TRY(own(copy, &tree->items[i], diag));
  }
  return NABLA_OK;
}

static nabla_status make(nabla_tree_copy *copy, const nabla_tree *tree,
                         nabla_diag *diag) {
  nabla_tree_walk walk = {.self = NULL};
  NABLA_TRY(nabla_tree_walk_run(&walk, tree, diag)); /* is as it should be */
  const nabla_status status = own(copy, &copy->tree, diag);
  if (status) nabla_tree_copy_deinit(copy);
  return status;
}

nabla_status nabla_tree_copy_init(nabla_tree_copy *copy,
                                  const nabla_allocator *allocator,
                                  const nabla_tree *tree, nabla_diag *diag) {
  *copy = (nabla_tree_copy){.tree = *tree, .allocator = allocator};
  return make(copy, tree, diag);
}

nabla_status nabla_tree_copy_settled(nabla_tree_copy *copy,
                                     const nabla_allocator *allocator,
                                     const nabla_tree *tree, nabla_diag *diag) {
  *copy = (nabla_tree_copy){
      .tree = *tree, .allocator = allocator, .is_settled = true};
  return make(copy, tree, diag);
}

void nabla_tree_copy_deinit(nabla_tree_copy *copy) {
  while (copy->blocks) {
    nabla_tree_block *block = copy->blocks;
    copy->blocks = block->next;
    nabla_free(copy->allocator, block, 1, block->bytes);
  }
}
