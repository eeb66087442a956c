/* The kernel under test, with its weights. */
#ifndef NABLA_BENCH_KERNEL_H
#define NABLA_BENCH_KERNEL_H

#include "bench/nabla-bench/limit.h"

typedef struct bench_kernel bench_kernel;

/* Makes weights of at least `bytes` in copies, and a kernel for them.
 * *out_kernel is made also when there is no kernel for the problem: then
 * bench_kernel_objection says why, and the weights are there.
 * @return NABLA_INVALID_ARGUMENT for what the problem cannot be,
 * NABLA_NO_MEMORY, NABLA_UNSUPPORTED where the CPU lacks what `isa` names */
NABLA_MUST_USE nabla_status bench_kernel_open(const bench_problem *problem,
                                              uint64_t bytes,
                                              bench_kernel **out_kernel,
                                              nabla_diag *diag);
void bench_kernel_close(bench_kernel *self);

const char *bench_kernel_objection(const bench_kernel *self);
const bench_weights *bench_kernel_weights(const bench_kernel *self);
nabla_pool *bench_kernel_pool(const bench_kernel *self);

/* "nf4/64:f16", the way of computing it, the features it uses. */
const char *bench_kernel_format(const bench_kernel *self);
const char *bench_kernel_variant(const bench_kernel *self);
/* The instruction of its products, where the variant has one of its own. */
const char *bench_kernel_instruction(const bench_kernel *self);
const char *bench_kernel_features(const bench_kernel *self);

/* The product; prepacking the weight; copying as many bytes as the prepacked
 * weight has. See contest.h. */
nabla_status bench_kernel_run(void *self, uint64_t first, uint32_t count,
                              double *out, nabla_diag *diag);
nabla_status bench_kernel_prepack(void *self, uint64_t first, uint32_t count,
                                  double *out, nabla_diag *diag);
nabla_status bench_kernel_copy(void *self, uint64_t first, uint32_t count,
                               double *out, nabla_diag *diag);
int bench_kernel_is_prepacked(const bench_kernel *self);

/* Compares the first columns of y with what nabla_decode and f64 give; a
 * sentence of what differs, or NULL. */
const char *bench_kernel_wrong(bench_kernel *self);

/* Prints the kernel's assembly. */
void bench_kernel_print(bench_kernel *self);

#endif
