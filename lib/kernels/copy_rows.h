/* Kernels that copy rows, of any element type, in vectors of 64 bytes: rows of
 * a table by index, as an embedding look-up does, and runs of an array that is
 * a part of another one, as concatenate does. */
#ifndef NABLA_KERNELS_COPY_ROWS_H
#define NABLA_KERNELS_COPY_ROWS_H

#include <stdint.h>

#include "lib/kernels/builder/text.h"

/* Bytes of a vector, and of the shortest row that the kernel copies: the last
 * vector of a row overlaps the one before. */
#define NABLA_COPY_ROWS_LINE 64u

/* Words of its arguments: addresses of the table, of the indices and of the
 * result, whose rows are contiguous; the last row of the table; bytes of a row.
 * Units are rows of the result. Indices are clamped to the table, which has at
 * least one row. */
enum {
  NABLA_COPY_ROWS_X,
  NABLA_COPY_ROWS_INDICES,
  NABLA_COPY_ROWS_Y,
  NABLA_COPY_ROWS_LAST,
  NABLA_COPY_ROWS_BYTES,
  NABLA_COPY_ROWS_ARGS
};

/* Appends llvm.func internal @NAME(arguments, begin, end).
 * @param bits    of an index: 32 or 64
 * @param streams rows of the result are stored past the caches: they are whole
 *                lines, and the result is aligned to them */
void nabla_copy_rows_emit(unsigned bits, int streams, const char *name,
                          nabla_text *text);

/* Words of the arguments: addresses of the part, whose runs are contiguous, and
 * of its first run in the result; bytes of a run, and between two in the
 * result; the last run and its bytes. Units are runs. */
enum {
  NABLA_COPY_RUNS_X,
  NABLA_COPY_RUNS_Y,
  NABLA_COPY_RUNS_BYTES,
  NABLA_COPY_RUNS_STRIDE,
  NABLA_COPY_RUNS_LAST,
  NABLA_COPY_RUNS_LAST_BYTES,
  NABLA_COPY_RUNS_ARGS
};

/* Appends llvm.func internal @NAME(arguments, begin, end).
 * @param streams as of nabla_copy_rows_emit */
void nabla_copy_runs_emit(int streams, const char *name, nabla_text *text);

#endif
