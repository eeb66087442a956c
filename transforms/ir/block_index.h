/* The operations of a block by number, and the number of an operation. */
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

/* False when memory runs out. Deinitialize in both cases. */
bool nabla_block_index_init(nabla_block_index *index, MlirBlock block);
void nabla_block_index_deinit(nabla_block_index *index);

/* The number of the operation of the block that `op` is, or is in; SIZE_MAX for
 * one outside. */
size_t nabla_block_index_find(const nabla_block_index *index, MlirOperation op);

/* The number of the operation that defines `value`; SIZE_MAX for a value that
 * none of the block defines. */
size_t nabla_block_index_definition(const nabla_block_index *index,
                                    MlirValue value);

#endif
