/* Search for repeated sequences of operations, such as the layers of a model.
 */
#ifndef NABLA_TRANSFORMS_OUTLINE_OUTLINE_FIND_H
#define NABLA_TRANSFORMS_OUTLINE_OUTLINE_FIND_H

#include "transforms/ir/ir.h"

/* The operations of a block, in order. */
typedef struct nabla_sequence {
  size_t count;
  MlirOperation *ops;
  MlirAttribute *keys; /* equal for ops that differ only in operands; null for
                        * an op that equals no other */
  struct nabla_place *places; /* sorted by op */
} nabla_sequence;

/* A repeated sequence: `copies` times `length` ops from `begin` on. */
typedef struct nabla_repeat {
  size_t begin, length, copies;
} nabla_repeat;

/* Returns false if out of memory. Destroy the sequence in both cases. */
bool nabla_sequence_init(nabla_sequence *s, MlirBlock block);
void nabla_sequence_deinit(nabla_sequence *s);

/* Returns the index of the op of the block that is `op` or contains it;
 * SIZE_MAX if it is outside. */
size_t nabla_sequence_find(const nabla_sequence *s, MlirOperation op);

/* Returns the index of the op that defines `value`; SIZE_MAX if it is outside.
 */
size_t nabla_sequence_definition(const nabla_sequence *s, MlirValue value);

/* Finds the repeat that saves most operations. Returns false if there is none
 * with at least `least` ops, `copies` copies and the same data flow in each. */
bool nabla_repeat_find(const nabla_sequence *s, size_t least, size_t copies,
                       nabla_repeat *out);

#endif
