/* Text that lowerings to kernels of moves share: element sizes, types of
 * buffers, names of functions. */
#ifndef NABLA_TRANSFORMS_LOWER_MOVE_TEXT_H
#define NABLA_TRANSFORMS_LOWER_MOVE_TEXT_H

#include "transforms/lower/lowering.h"

/* Bytes of an element; 0 for types that kernels do not move. */
unsigned nabla_move_bytes(const nabla_element *element);

/* The memref type of a tensor. */
void nabla_move_add_buffer(nabla_text *text, const nabla_ssa_tensor *tensor);

/* _TYPE_SIZE_SIZE, for the name of a function. */
void nabla_move_add_name(nabla_text *text, const nabla_ssa_tensor *tensor);

#endif
