/* Reading operations with regions: their blocks, what ends them, and the parts
 * of a scan. */
#ifndef NABLA_DIALECT_CONTROL_H
#define NABLA_DIALECT_CONTROL_H

#include <mlir-c/Rewrite.h>

#include "dialect/encoding/encoding_nested.h"

MlirBlock nabla_region_block(MlirOperation op, intptr_t region);

/* The last op of a block; null when it is empty. */
MlirOperation nabla_block_end(MlirBlock block);

/* Groups of a scan's operands, in their order, and of its results: carries,
 * then stacked outputs. Operands of groups stand one behind the other. */
typedef struct nabla_scan {
  MlirOperation op;
  intptr_t carries, inputs, lengths, sizes; /* operands of each group */
  intptr_t outputs;                         /* results that are stacked */
  bool reverse;
} nabla_scan;
nabla_scan nabla_scan_read(MlirOperation op);

/* How a slice of an implicit array lies in the whole: leaf i of the slice is a
 * part of that of the whole, `count[i]` elements at index * count[i], or, where
 * `shared`, all of it. */
typedef struct nabla_slices {
  uint32_t leaves;
  int64_t count[NABLA_MAX_LEAVES];
  bool shared[NABLA_MAX_LEAVES];
  bool any_shared; /* slices can be taken, but not be stacked */
} nabla_slices;

/* Is an array of type `slice` a part, without the first dimension, of one of
 * the implicit type `whole`, leaf by leaf? Slices of `whole` have
 * whole blocks, one behind the other; each is seen as the whole is. */
bool nabla_slices_find(MlirType whole, MlirType slice, nabla_slices *out);

/* The type that such a slice of an implicit type of rank 1 or more has; null
 * when it has none. nabla_slices_find says whether it is one. */
MlirType nabla_slice_type(MlirType whole);

/* Is `slice` the type of a part of `whole` without its first dimension, as a
 * tensor? */
bool nabla_slice_is_dense(MlirType whole, MlirType slice);

#endif
