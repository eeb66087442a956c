/* Access to operations with regions: their blocks, the terminators of these,
 * and the parts of a scan. */
#ifndef NABLA_DIALECT_CONTROL_H
#define NABLA_DIALECT_CONTROL_H

#include <mlir-c/Rewrite.h>

#include "dialect/encoding/encoding_nested.h"

MlirBlock nabla_region_block(MlirOperation op, intptr_t region);

/* Returns the last op of a block; null if the block is empty. */
MlirOperation nabla_block_end(MlirBlock block);

/* The operands of a scan by group, in the order of the members; one group
 * follows the other. Its results are the carries, then the stacked outputs. */
typedef struct nabla_scan_parts {
  MlirOperation op;
  intptr_t carries, inputs, lengths, sizes; /* operands of each group */
  intptr_t outputs;                         /* results that are stacked */
  bool reverse;
} nabla_scan_parts;
nabla_scan_parts nabla_scan_read(MlirOperation op);

/* Position of a slice of an implicit array in the whole array. Leaf i of the
 * slice is a part of leaf i of the whole: the `count[i]` elements from index *
 * count[i] on, or all of it if `shared`. */
typedef struct nabla_slices {
  uint32_t leaves;
  int64_t count[NABLA_MAX_LEAVES];
  bool shared[NABLA_MAX_LEAVES];
  bool any_shared; /* slices can be read, but not written */
} nabla_slices;

/* Returns whether an array of type `slice` is a slice along the first dimension
 * of one of the implicit type `whole`, leaf by leaf. Such slices consist of
 * whole blocks, one after the other, and have the view of `whole`. */
bool nabla_slices_find(MlirType whole, MlirType slice, nabla_slices *out);

/* Returns the type that a slice of an implicit type of rank 1 or more must
 * have; null if there is none. nabla_slices_find returns whether it really is a
 * slice. */
MlirType nabla_slice_type(MlirType whole);

/* Returns whether `slice` is the tensor type of a slice of `whole` along its
 * first dimension. */
bool nabla_slice_is_dense(MlirType whole, MlirType slice);

#endif
