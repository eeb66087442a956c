/* The operations of a block, or inside of an operation, by number, and the
 * number of an operation. */
#ifndef NABLA_TRANSFORMS_IR_BLOCK_INDEX_H
#define NABLA_TRANSFORMS_IR_BLOCK_INDEX_H

#include "transforms/ir/ir.h"

/* The operations of a block before its terminator, in order. */
typedef struct nabla_block_index {
  MlirOperation *ops;
  size_t count;
  size_t *slots; /* of a hash table: number + 1, 0 where empty */
  size_t mask;   /* slots - 1 */
} nabla_block_index;

/* Returns false if out of memory. Deinitialize in both cases. */
bool nabla_block_index_init(nabla_block_index *index, MlirBlock block);
/* The same of all operations inside of `root`, and `root` itself, each after
 * those that it contains. */
bool nabla_block_index_init_inside(nabla_block_index *index,
                                   MlirOperation root);
void nabla_block_index_deinit(nabla_block_index *index);

/* Returns the number of the operation of the block that is `op` or contains it;
 * SIZE_MAX if it is outside. */
size_t nabla_block_index_find(const nabla_block_index *index, MlirOperation op);

/* Returns the number of the operation that defines `value`; SIZE_MAX if no
 * operation of the block does. */
size_t nabla_block_index_definition(const nabla_block_index *index,
                                    MlirValue value);

#endif
