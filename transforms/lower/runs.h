/* Lowering what decodes many elements of a packed array to a kernel that
 * decodes runs of consecutive ones (lib/kernels/gather_rows.h), on the threads
 * of the caller. A result is cut into runs: its last dimensions, as far as they
 * are consecutive in the storage. */
#ifndef NABLA_TRANSFORMS_LOWER_RUNS_H
#define NABLA_TRANSFORMS_LOWER_RUNS_H

#include "transforms/fused/kernel_call.h"
#include "transforms/lower/lowering.h"

typedef struct nabla_runs {
  intptr_t outer;   /* dimensions of the result that are not of a run      */
  uint64_t length;  /* elements of a run                                   */
  uint64_t aligned; /* every run begins at a multiple of it; 0: all at 0   */
  nabla_text name;  /* of the function that decodes; nabla_runs_deinit     */
  nabla_kernel_args call;
} nabla_runs;

/* Joins dimension `size`, with elements `stride` apart in the storage, to the
 * runs; false when it cannot be or they are long enough. Begins with length
 * 1 and the last dimension. */
bool nabla_runs_join(nabla_runs *runs, int64_t size, int64_t stride);

/* Before the template opens, whose operands are the leaves of `packed`, then
 * others: writes the kernel and a function that calls it. False when there is
 * none for such an array or such runs. `shape`: of the result; `outer`,
 * `length` and `aligned` are set. */
bool nabla_runs_begin(nabla_template *t, nabla_runs *runs, MlirType packed,
                      const nabla_ssa_tensor *shape);

/* The result from where runs begin, i64 in the shape of the outer dimensions;
 * sizes of `shape` that are open are known. */
nabla_ssa_tensor nabla_runs_end(nabla_template *t, const nabla_runs *runs,
                                const nabla_ssa_tensor *starts,
                                const nabla_ssa_tensor *shape);

void nabla_runs_deinit(nabla_runs *runs);

#endif
