/* Copies between buffers of which one is strided, by a kernel
 * (lib/kernels/copy_box.h) on the threads of the caller. */
#ifndef NABLA_TRANSFORMS_COPIES_BOX_H
#define NABLA_TRANSFORMS_COPIES_BOX_H

#include "transforms/ir/ir.h"

/* Bytes of an array below which loops are as fast. */
#define NABLA_BOX_FEWEST 4096

/* Bytes of an element type ("f32"); 0 for types that kernels do not move. */
unsigned nabla_box_element_bytes(const char *element);

/* Whether the kernel copies memref `from` to memref `to`, of the same shape:
 * elements of 1, 2, 4 or 8 bytes, and an array that is not known to be small,
 * for which loops are as fast. */
bool nabla_box_copies(MlirType from, MlirType to);

/* Replaces `op`, a memref.copy of such buffers, by a call. */
bool nabla_box_replace(MlirOperation op);

#endif
