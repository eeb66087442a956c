/* Operations along neighbouring dimensions that one kernel of vectors computes,
 * split over the pool: reductions of dimensions in front of the last one,
 * argmax, argmin and cumsum of any. The array is outer x rows x columns, and
 * the operation runs over the rows. */
#ifndef NABLA_TRANSFORMS_CLUSTER_ALONG_H
#define NABLA_TRANSFORMS_CLUSTER_ALONG_H

#include "transforms/cluster/cluster.h"

enum {
  /* words of a kernel */
  NABLA_ALONG_X,
  NABLA_ALONG_Y,
  NABLA_ALONG_ROWS,
  NABLA_ALONG_COLUMNS,
  NABLA_ALONG_WORDS,
  /* columns of a unit; the last one of a matrix has up to twice as many */
  NABLA_ALONG_BLOCK = 256,
};

typedef enum nabla_along_kind {
  NABLA_ALONG_REDUCE,
  NABLA_ALONG_LARGEST,  /* argmax */
  NABLA_ALONG_SMALLEST, /* argmin */
  NABLA_ALONG_SUMS,     /* cumsum */
} nabla_along_kind;

typedef struct nabla_along {
  MlirOperation op;
  nabla_along_kind kind;
  nabla_dtype dtype;
  unsigned lanes; /* of vectors of columns: 16; 64 of many columns of bytes */
  nabla_cluster_reduction how; /* of a reduction */
  bool is_mean;
  int cost;             /* of an element, in additions */
  int rank, first, end; /* of the dimensions that are rows */
} nabla_along;

/* Whether `op` is such an operation that is worth a kernel: of an array in
 * memory, with one column or at least 16 where their number is known. */
bool nabla_along_of(MlirOperation op, nabla_along *out);

/* Appends the kernel: llvm.func internal @NAME(arguments, begin, end). The
 * order of additions depends on the numbers of rows and columns alone. */
void nabla_along_emit(const nabla_along *a, nabla_features features,
                      const char *name, nabla_text *text);

/* Appends "func.func private @NAME", which calls `kernel`, and what it names in
 * errors. */
void nabla_along_write_call(const nabla_along *a, const char *name,
                            const char *kernel, nabla_text *text);

#endif
