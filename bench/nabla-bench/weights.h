/* Weights of any encoding, made up, in copies that take turns. */
#ifndef NABLA_BENCH_WEIGHTS_H
#define NABLA_BENCH_WEIGHTS_H

#include "bench/nabla-bench/limit.h"
#include "nabla/weight.h"

typedef struct bench_made {
  bench_weights weights;
  nabla_storage layout; /* of BLOCKS format.block is the elements of one  */
  nabla_dtype dense;    /* of a dense weight                              */
  char name[80];        /* "nf4/64:f16", "dense f32" */
  /* number of the area of each component, or -1 */
  int codes, scales, zero_points, nested_scales, nested_offset, nested_map;
} bench_made;

/* @return NABLA_INVALID_ARGUMENT for an encoding or block that is none,
 *         NABLA_TOO_LARGE, NABLA_NO_MEMORY; nothing is left behind then */
NABLA_MUST_USE nabla_status bench_weights_make(const bench_problem *problem,
                                               uint64_t bytes, bench_made *out,
                                               nabla_diag *diag);
void bench_weights_free(bench_made *self);

/* Sets layout, dense and name of what the problem asks for, and makes nothing.
 */
NABLA_MUST_USE nabla_status bench_weights_choose(const bench_problem *problem,
                                                 bench_made *out,
                                                 nabla_diag *diag);

/* The addresses of a copy, where kernels look for them
 * (lib/runtime/matmul/kernel.h).
 */
void bench_weights_words(const bench_made *self, uint64_t copy,
                         uint64_t *words);

/* The value of one element of the first copy, by the C decoder. */
double bench_weights_at(const bench_made *self, uint64_t element);

#endif
