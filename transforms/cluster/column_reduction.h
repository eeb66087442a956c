/* Column reductions: reductions of neighbouring dimensions in front of the last
 * one. The array is outer x rows x columns, and the rows are reduced. Each is
 * computed by a kernel of vectors of columns, split over the pool. */
#ifndef NABLA_TRANSFORMS_CLUSTER_COLUMN_REDUCTION_H
#define NABLA_TRANSFORMS_CLUSTER_COLUMN_REDUCTION_H

#include "transforms/cluster/cluster.h"

enum {
  /* words of a kernel */
  NABLA_COLUMN_X,
  NABLA_COLUMN_Y,
  NABLA_COLUMN_ROWS,
  NABLA_COLUMN_COLUMNS,
  NABLA_COLUMN_WORDS,
  /* columns of a unit; the last one of a matrix has up to twice as many */
  NABLA_COLUMN_BLOCK = 256,
};

typedef struct nabla_column_reduction {
  MlirOperation op;
  nabla_dtype dtype;
  nabla_cluster_reduction how;
  bool is_mean;
  int rank, first, end; /* of the reduced dimensions */
  bool keeps;           /* each as a dimension of size 1 */
} nabla_column_reduction;

/* Whether `op` is a column reduction that is worth a kernel: of f32, f16 or
 * bf16 in memory, with at least 16 columns where their number is known. */
bool nabla_column_reduction_of(MlirOperation op, nabla_column_reduction *out);

/* Appends the kernel: llvm.func internal @NAME(arguments, begin, end). The
 * order of additions depends on the numbers of rows and columns alone. */
void nabla_column_reduction_emit(const nabla_column_reduction *r,
                                 nabla_features features, const char *name,
                                 nabla_text *text);

/* Appends "func.func private @NAME", which calls `kernel`. */
void nabla_column_reduction_write_call(const nabla_column_reduction *r,
                                       const char *name, const char *kernel,
                                       nabla_text *text);

#endif
