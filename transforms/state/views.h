/* Slices that are views: which arrays are read where they are. Functions are
 * defined in views.c. */
#ifndef NABLA_TRANSFORMS_STATE_VIEWS_H
#define NABLA_TRANSFORMS_STATE_VIEWS_H

#include "transforms/ir/ir.h"

/* Whether `slice` is of a state, or of one of which parts were written in
 * place: of an argument of a public function; or of what a loop carries of one,
 * or an argument of a private function that every call gives one, where the
 * slice does not leave the block and nothing behind it may write to the array:
 * bufferization would copy the state. Not where a kernel takes elements one
 * after the other, and the slice has gaps. */
bool nabla_view_is_of_state(MlirOperation slice);

/* Whether all that uses a slice are calls of functions that read it where it
 * is, also behind a reshape: by strides, as kernels of attention do, or one
 * element after the other, as kernels of products read a weight, where the
 * slice has no gaps. Its steps are 1. */
bool nabla_view_is_taken(MlirOperation slice);

#endif
