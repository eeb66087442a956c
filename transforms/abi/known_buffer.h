/* Buffers of known sizes and strides: only their addresses need be passed, and
 * descriptors are built from constants. */
#ifndef NABLA_TRANSFORMS_ABI_KNOWN_BUFFER_H
#define NABLA_TRANSFORMS_ABI_KNOWN_BUFFER_H

#include "transforms/ir/ir.h"

/* Whether a type is such a buffer: of numbers, in ordinary memory. Its offset
 * need not be known. */
bool nabla_known_buffer(MlirType type);

/* Such a buffer, from the address of its allocation and from that of its first
 * element, less the offset that its type has, before `before`. */
MlirValue nabla_known_buffer_at(MlirOperation before, MlirValue allocation,
                                MlirValue address, MlirType type);

/* Field `field`, an address or a number, of the descriptor of a buffer. */
MlirValue nabla_known_buffer_field(MlirOperation before, MlirValue descriptor,
                                   int64_t field);

/* The descriptor of a buffer. */
MlirValue nabla_known_buffer_descriptor(MlirOperation before, MlirValue buffer);

/* The address from which nabla_known_buffer_at makes a buffer of this type. */
MlirValue nabla_known_buffer_address(MlirOperation before, MlirValue buffer);

#endif
