/* Kernels that copy a box of elements from one array to another, each with
 * strides of its own: slices, parts of a concatenation, updates of a cache. */
#ifndef NABLA_KERNELS_COPY_BOX_H
#define NABLA_KERNELS_COPY_BOX_H

#include "lib/kernels/builder/text.h"

/* Bytes of one piece of a run that threads share. */
#define NABLA_COPY_BOX_PIECE 65536u

/* Words of the arguments: addresses of the first elements; bytes of a run,
 * which is contiguous in y; the unit whose run is shorter, or -1, and its
 * bytes; bytes between neighbouring elements of a run in x; whether lines go
 * past the caches. Then for each dimension, outermost first, its size and the
 * bytes between two places of it, in x and in y. Units are runs: their number
 * is the product of the sizes. */
enum {
  NABLA_COPY_BOX_X,
  NABLA_COPY_BOX_Y,
  NABLA_COPY_BOX_RUN,
  NABLA_COPY_BOX_SHORT,
  NABLA_COPY_BOX_SHORT_BYTES,
  NABLA_COPY_BOX_STEP,
  NABLA_COPY_BOX_PAST,
  NABLA_COPY_BOX_DIMS
};
enum { NABLA_COPY_BOX_SIZE, NABLA_COPY_BOX_DX, NABLA_COPY_BOX_DY };
#define NABLA_COPY_BOX_ARGS(rank) (NABLA_COPY_BOX_DIMS + 3 * (rank))
#define NABLA_COPY_BOX_WORD(dim, which) \
  (NABLA_COPY_BOX_DIMS + 3 * (dim) + (which))

/* Appends llvm.func internal @NAME(arguments, begin, end).
 * @param bytes of an element: 1, 2, 4 or 8
 * @param rank  dimensions of the words, at least 1 */
void nabla_copy_box_emit(unsigned bytes, unsigned rank, const char *name,
                         nabla_text *text);

#endif
