/* Finding operations that repeat, one copy behind the other, as the layers of a
 * model do. */
#ifndef NABLA_TRANSFORMS_OUTLINE_OUTLINE_FIND_H
#define NABLA_TRANSFORMS_OUTLINE_OUTLINE_FIND_H

#include "transforms/ir/ir.h"

/* The operations of a block, in order. */
typedef struct nabla_sequence {
  size_t count;
  MlirOperation *ops;
  MlirAttribute *keys; /* equal of ops that differ in operands alone; null of
                          one that nothing equals                            */
  struct nabla_place *places; /* sorted by op */
} nabla_sequence;

/* What repeats: `copies` times `length` ops from `begin` on. */
typedef struct nabla_repeat {
  size_t begin, length, copies;
} nabla_repeat;

/* False when memory runs out. Destroy it in both cases. */
bool nabla_sequence_init(nabla_sequence *s, MlirBlock block);
void nabla_sequence_deinit(nabla_sequence *s);

/* The index of the op of the block that `op` is, or is in; SIZE_MAX for one
 * outside. */
size_t nabla_sequence_find(const nabla_sequence *s, MlirOperation op);

/* The index of the op that defines `value`; SIZE_MAX for one outside. */
size_t nabla_sequence_definition(const nabla_sequence *s, MlirValue value);

/* The repeat that spares most operations; false when there is none of at least
 * `least` ops and `copies` copies whose data flows alike. */
bool nabla_repeat_find(const nabla_sequence *s, size_t least, size_t copies,
                       nabla_repeat *out);

#endif
