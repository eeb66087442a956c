/* A kernel that transposes a matrix of any size in tiles that fit in registers,
 * 16 x 16 elements (8 x 8 of 64 bits). */
#ifndef NABLA_KERNELS_TRANSPOSE_TILES_H
#define NABLA_KERNELS_TRANSPOSE_TILES_H

#include <stdint.h>

#include "lib/kernels/builder/text.h"

/* Words of its arguments: addresses of x, R x C row-major, and of y, C x R; R;
 * C. Units are groups of NABLA_TRANSPOSE_COLUMNS columns of x. */
enum {
  NABLA_TRANSPOSE_X,
  NABLA_TRANSPOSE_Y,
  NABLA_TRANSPOSE_ROWS,
  NABLA_TRANSPOSE_COLS,
  NABLA_TRANSPOSE_ARGS
};
#define NABLA_TRANSPOSE_COLUMNS 64u

/* Appends llvm.func internal @NAME(arguments, begin, end). Elements have 2, 4
 * or 8 bytes.
 * @param streams whole lines of y are stored past the caches: a row of y is a
 *                multiple of 64 bytes, and y is aligned to them */
void nabla_transpose_tiles_emit(unsigned bytes, int streams, const char *name,
                                nabla_text *text);

#endif
