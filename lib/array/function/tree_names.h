/* Names in trees: those that options give, and what a message says of a name
 * that is none. */
#ifndef NABLA_ARRAY_TREE_NAMES_H
#define NABLA_ARRAY_TREE_NAMES_H

#include <stdbool.h>

#include "nabla/tree.h"

/* Whether `name` is that of a leaf or of a tree in `tree`, also of one without
 * leaves; "" is that of the whole. */
bool nabla_tree_has_name(const nabla_tree *tree, const char *name);

/* Sets what to do now in `diag`: "its leaves are x, params.w", as many as fit.
 * `whose` is "the arguments" or "the results". */
void nabla_tree_say_names(const nabla_tree *tree, const char *whose,
                          nabla_diag *diag);

#endif
