/* Leaves of trees by name: what derivatives are taken of, and the leaves that
 * trees of gradients have. */
#ifndef NABLA_ARRAY_DERIVATIVE_NAMES_H
#define NABLA_ARRAY_DERIVATIVE_NAMES_H

#include "lib/base/memory.h"
#include "nabla/tree.h"

/* A list of texts. */
typedef struct nabla_leaf_names {
  nabla_buffer texts, offsets; /* offsets: size_t for each text */
} nabla_leaf_names;

void nabla_leaf_names_init(nabla_leaf_names *names,
                           const nabla_allocator *allocator);
void nabla_leaf_names_deinit(nabla_leaf_names *names);
size_t nabla_leaf_names_count(const nabla_leaf_names *names);
/* A text, until the next is added. */
const char *nabla_leaf_names_at(const nabla_leaf_names *names, size_t index);
/* Adds those of the three texts that are not empty, with dots between. */
NABLA_MUST_USE nabla_status nabla_leaf_names_add(nabla_leaf_names *names,
                                                 const char *a, const char *b,
                                                 const char *c,
                                                 nabla_diag *diag);

/* Adds the names of the leaves of a tree. */
NABLA_MUST_USE nabla_status nabla_leaf_names_of_tree(nabla_leaf_names *names,
                                                     const nabla_tree *tree,
                                                     nabla_diag *diag);

/* Compares the leaves of a tree, called `what` in the message, with names. */
NABLA_MUST_USE nabla_status
nabla_leaf_names_check(const nabla_leaf_names *names, const char *what,
                       const nabla_tree *tree, nabla_diag *diag);

/* Leaves that are chosen, by entry, then in order. */
typedef struct nabla_selection {
  nabla_buffer leaves;    /* size_t: the number among the leaves of the tree */
  nabla_leaf_names names; /* without that of the entry; with the number of the
                        entry before it if there are several */
  size_t entries;         /* with those that are added by others */
} nabla_selection;

void nabla_selection_init(nabla_selection *selection,
                          const nabla_allocator *allocator, size_t entries);
void nabla_selection_deinit(nabla_selection *selection);
size_t nabla_selection_count(const nabla_selection *selection);
size_t nabla_selection_at(const nabla_selection *selection, size_t index);
/* Chooses the leaves of the tree that `name` stands for, as entry `entry`.
 * @return also NABLA_INVALID_ARGUMENT  no leaf has the name, or one was chosen
 *         before */
NABLA_MUST_USE nabla_status nabla_selection_add(nabla_selection *selection,
                                                size_t entry, const char *name,
                                                const nabla_tree *tree,
                                                nabla_diag *diag);

/* The rest of `leaf` behind the name of a tree around it, or its own; NULL if
 * it is not in it. */
const char *nabla_name_within(const char *leaf, const char *name);

#endif
