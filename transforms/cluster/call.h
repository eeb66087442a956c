/* The function that a cluster becomes: it takes the tensors that the cluster
 * reads, compares their sizes, allocates the results, and runs the kernel in
 * @nabla_parallel. Other kernels of vectors may be called in the same way. */
#ifndef NABLA_TRANSFORMS_CLUSTER_CALL_H
#define NABLA_TRANSFORMS_CLUSTER_CALL_H

#include "transforms/cluster/cluster.h"

/* Appends "func.func private @NAME", which calls `kernel`, and the names of
 * operations for errors. Its operands are the inputs, then the sizes of the
 * checks. False where an unknown size of a result is that of no operand. */
bool nabla_cluster_write_call(const nabla_cluster *c, const char *name,
                              const char *kernel, nabla_text *text);

#endif
