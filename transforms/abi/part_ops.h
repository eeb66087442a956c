/* Operations on parts of planned blocks (nabla/services.h, part_begin). Each is
 * created before the operation `before`. */
#ifndef NABLA_TRANSFORMS_ABI_PART_OPS_H
#define NABLA_TRANSFORMS_ABI_PART_OPS_H

#include "transforms/ir/ir.h"

/* Of an allocation and its release: upstream's deallocation leaves both. */
#define NABLA_PART_MANUAL "bufferization.manual_deallocation"

/* Adds declarations of the functions below to a module that lacks them. */
void nabla_part_declare(MlirOperation module);

/* A number of bytes, as offsets and sizes are. */
MlirValue nabla_part_word(MlirOperation before, uint64_t number);

/* The address of a part, from here to nabla_part_end. */
MlirValue nabla_part_begin(MlirOperation before, MlirValue base,
                           MlirValue offset, MlirValue bytes);
void nabla_part_end(MlirOperation before, MlirValue address, MlirValue bytes);

/* Ends the run where a part of `bytes` has no place in its block: out of
 * memory. */
void nabla_part_require(MlirOperation before, MlirValue bytes);

/* The bytes that `alloc` allocates, a word. */
MlirValue nabla_part_bytes(MlirOperation before, MlirOperation alloc);

/* Memory for result `number`, which the allocation `alloc` returns: as much as
 * it allocates. */
MlirValue nabla_part_result(MlirOperation alloc, uint64_t number);

/* Whether a buffer has its elements in row-major order, in ordinary memory, and
 * they are numbers. */
bool nabla_part_is_plain(MlirType buffer);

/* Bytes of an element of such a buffer. */
uint64_t nabla_part_element(MlirType buffer);

/* The buffer at an address that `alloc` would allocate. */
MlirValue nabla_part_buffer(MlirOperation before, MlirValue address,
                            MlirOperation alloc);

/* Puts `value` into a descriptor, at a field or an element of one. */
MlirValue nabla_part_insert(MlirOperation before, MlirValue descriptor,
                            MlirValue value, intptr_t depth,
                            const int64_t *position);

/* A block of `bytes`, and its release: upstream's deallocation leaves both as
 * they are. */
MlirValue nabla_part_block(MlirOperation before, uint64_t bytes);
MlirValue nabla_part_open_block(MlirOperation before, MlirValue bytes);
MlirValue nabla_part_address(MlirOperation before, MlirValue block);
void nabla_part_release(MlirOperation before, MlirValue block);

#endif
