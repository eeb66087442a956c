/* Lifetimes of buffers: which operation of a block uses one last. */
#ifndef NABLA_TRANSFORMS_MEMORY_LIFETIME_H
#define NABLA_TRANSFORMS_MEMORY_LIFETIME_H

#include "transforms/ir/block_index.h"

/* Finds the last operation of the block of `op`, an allocation, that uses its
 * buffer, or anything that may be in its memory: views, results of regions that
 * yield it, results of calls that take it. `index` holds the operations inside
 * of the function; `*out_last` is a number of it. A buffer whose address is
 * read as a number is used until the end of the block. Returns false if the
 * buffer leaves the block, is deallocated, or has too many aliases to follow.
 */
bool nabla_lifetime_find(const nabla_block_index *index, MlirOperation op,
                         size_t *out_last);

/* The same of a buffer that `block` does not allocate, such as an argument. */
bool nabla_lifetime_find_last(const nabla_block_index *index, MlirBlock block,
                              MlirValue buffer, size_t *out_last);

#endif
