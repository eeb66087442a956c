/* Which values depend on others to first order, and what surrounds that:
 * operations that regions use from outside, and copies of blocks. */
#ifndef NABLA_TRANSFORMS_AUTODIFF_VARIED_H
#define NABLA_TRANSFORMS_AUTODIFF_VARIED_H

#include "transforms/autodiff/value_map.h"
#include "transforms/ir/ir.h"

/* Adds to `varied` the values in `block`, and in regions in it, that depend on
 * values that are in it already. */
void nabla_varied_mark(nabla_value_map *varied, MlirBlock block);

/* Adds a value, if it can have a derivative. */
void nabla_varied_add(nabla_value_map *varied, MlirValue value);

/* Whether an operation, or one in its regions, has an operand in `varied`. */
bool nabla_varied_uses(const nabla_value_map *varied, MlirOperation op);

/* A list of values. Zero-initialise. */
typedef struct nabla_value_list {
  MlirValue *values;
  size_t count, capacity;
  bool failed; /* out of memory */
} nabla_value_list;
void nabla_value_list_add(nabla_value_list *list, MlirValue value);
void nabla_value_list_deinit(nabla_value_list *list);

/* Adds the values in `varied` (NULL: all values) that the regions of `op` use
 * and that are defined outside of `op`, each once, in the order of their first
 * use. */
void nabla_varied_captured(const nabla_value_map *varied, MlirOperation op,
                           nabla_value_list *out);

/* Copies the operations of `block` but its terminator before `before`. `map`
 * has what the arguments of the block become, and gets the results. Returns
 * false if out of memory. */
bool nabla_block_copy(MlirBlock block, MlirOperation before,
                      nabla_value_map *map);
/* What a value of the copied block, or from outside, is in the copy. */
MlirValue nabla_copied(const nabla_value_map *map, MlirValue value);

/* Whether running the operations of `op` again could be seen: it, or one in it
 * or in a function of `module` that it calls, has effects. */
bool nabla_has_effects(MlirOperation module, MlirOperation op);

/* The function of `module` that a func.call calls, or that has this name; null:
 * none. Operations may be in regions that are not in the module yet. */
MlirOperation nabla_callee(MlirOperation module, MlirOperation call);
MlirOperation nabla_function_named(MlirOperation module, MlirStringRef name);

/* Erases the operations in `block`, and in regions in it, whose results nothing
 * uses and that have no effects. */
void nabla_unused_erase(MlirOperation module, MlirBlock block);

#endif
