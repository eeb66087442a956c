/* The walk over a tree on which all functions of nabla/tree.h are built, and
 * copies of trees (tree_copy.c). */
#ifndef NABLA_ARRAY_TREE_WALK_H
#define NABLA_ARRAY_TREE_WALK_H

#include <stdbool.h>

#include "lib/base/memory.h"
#include "nabla/tree.h"

/* What a walk calls; NULL members are left out. */
typedef struct nabla_tree_walk {
  void *self;
  nabla_tree_visitor leaf;
  nabla_buffer *structure; /* gets bytes that are equal for trees of the same
                              structure only; NULL: not wanted            */
  bool has_names;          /* false: names given to `leaf` are ""         */
  bool has_open;           /* the walk found an open place                */
  /* of the walk */
  unsigned depth;
  size_t length;
  char name[NABLA_TREE_MAX_NAME + 1];
} nabla_tree_walk;

NABLA_MUST_USE nabla_status nabla_tree_walk_run(nabla_tree_walk *walk,
                                                const nabla_tree *tree,
                                                nabla_diag *diag);

/* Gives the open places of `to` that are empty the trees that those of `from`
 * have, a tree of the same structure. NABLA_INVALID_ARGUMENT where one of
 * `from` is empty, or that of `to` has a tree of another structure. */
NABLA_MUST_USE nabla_status nabla_tree_settle(const nabla_tree *to,
                                              const nabla_tree *from,
                                              nabla_diag *diag);

/* A copy of a tree, whose structs and lists are copies with places of their
 * own, which have NULL; open places are empty. Names and layouts are those of
 * the original. */
typedef struct nabla_tree_copy {
  nabla_tree tree;
  const nabla_allocator *allocator;
  bool is_settled;
  struct nabla_tree_block *blocks; /* its memory */
} nabla_tree_copy;

NABLA_MUST_USE nabla_status
nabla_tree_copy_init(nabla_tree_copy *copy, const nabla_allocator *allocator,
                     const nabla_tree *tree, nabla_diag *diag);
/* The same, with the trees that open places have in place of these. */
NABLA_MUST_USE nabla_status
nabla_tree_copy_settled(nabla_tree_copy *copy, const nabla_allocator *allocator,
                        const nabla_tree *tree, nabla_diag *diag);
void nabla_tree_copy_deinit(nabla_tree_copy *copy);

#endif
