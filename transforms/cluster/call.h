/* The function that a cluster becomes: it takes the tensors that the cluster
 * reads, compares their sizes, allocates the results, and runs the kernel in
 * @nabla_parallel. Other kernels of vectors may be called in the same way. */
#ifndef NABLA_TRANSFORMS_CLUSTER_CALL_H
#define NABLA_TRANSFORMS_CLUSTER_CALL_H

#include "transforms/cluster/cluster.h"

/* Of such a function: the arguments of which each element is read where the
 * element of a result at the same place is written, and nowhere else: a result
 * of the type of one may be in its memory. */
#define NABLA_CLUSTER_IN_PLACE "nabla.in_place"

/* Appends "func.func private @NAME", which calls `kernel`, and the names of
 * operations for errors. Its operands are the inputs, then the sizes of the
 * checks. False where an unknown size of a result is that of no operand. */
bool nabla_cluster_write_call(const nabla_cluster *c, const char *name,
                              const char *kernel, nabla_text *text);

/* Parts of such functions. The cost of a unit of work for one thread, at least,
 * in additions: some 10 us. A thread of the pool takes 2 to 5 us to wake up. */
#define NABLA_CLUSTER_TASK_COST 65536
/* The memref of the shape of a tensor. */
void nabla_cluster_add_memref(nabla_text *text, MlirType tensor);
/* %BUFFER_q, the address of memref %BUFFER, as i64. */
void nabla_cluster_add_address(nabla_text *text, const char *buffer,
                               MlirType type);
/* Stores %VALUE as word `word` of the `words` in %words. */
void nabla_cluster_add_word(nabla_text *text, int words, int word,
                            const char *value);
/* Runs `kernel` over %units in multiples of %grain. */
void nabla_cluster_add_parallel(nabla_text *text, int words,
                                const char *kernel);

#endif
