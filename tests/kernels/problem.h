/* A fused dot product with its arrays, each between pages that cannot be
 * touched, and what it should give, in f64. */
#ifndef NABLA_TESTS_KERNELS_PROBLEM_H
#define NABLA_TESTS_KERNELS_PROBLEM_H

#include "lib/kernels/fused_kernel.h"

/* Bytes that end, or begin, at a page without access. */
typedef struct guarded {
  uint8_t *data;
  size_t size;
  void *map;
  size_t map_size;
} guarded;

typedef enum fill {
  FILL_RANDOM,
  FILL_CONSTANT,
  FILL_POSITIVE,
  FILL_SIGNS
} fill;

typedef struct problem {
  nabla_fused_spec spec;
  uint64_t m;
  int at_start;              /* arrays begin, and not end, at the guard */
  guarded workspace, packed; /* set by problem_give_room */
  guarded nested_scales, nested_offset, nested_map; /* of scales in 8 bits */
  guarded x, y, codes, scales, zeros, operands[NABLA_FUSED_MAX_STEPS];
  uint64_t words[NABLA_KERNEL_ARGS];
  float *dense;  /* the storage decoded and rounded to w_type */
  float *minima; /* what is added in it, of blocks that have such; or NULL */
  int is_apart;  /* sizes of weights are those of products and minima apart */
} problem;

uint64_t random_bits(uint64_t *state);
uint64_t random_below(uint64_t *state, uint64_t bound);

guarded guarded_create(size_t size, int at_start);
void guarded_destroy(guarded *self);

/* Random storage. */
problem problem_create(const nabla_fused_spec *spec, int at_start,
                       uint64_t *state);
void problem_destroy(problem *self);
/* Decodes the storage again, after a change of codes or scales. */
void problem_decode(problem *self);
/* Arrays for M rows: x filled, operands random, y unset. */
void problem_set_rows(problem *self, uint64_t m, fill how, uint64_t *state);
/* Room for a workspace and a prepacked weight, filled with NaN, until M is set
 * again. */
void problem_give_room(problem *self, uint64_t workspace, uint64_t packed);
/* Fills y with a pattern that no result has. */
void problem_reset(problem *self);

/* Element (n, k) of w as the kernel sees it, and elements of arrays. */
float problem_weight(const problem *self, uint64_t n, uint64_t k);
/* Its magnitude; where it is a product and a minimum, that of both together in
 * integer numerics, which round them one by one, or if sizes are apart. */
double problem_weight_size(const problem *self, uint64_t n, uint64_t k);
/* The scale of that element, in f64; 0 of a dense weight. */
double problem_scale(const problem *self, uint64_t n, uint64_t k);
double problem_y(const problem *self, uint64_t m, uint64_t n);
int problem_y_is_unset(const problem *self, uint64_t m, uint64_t n);

/* y[m][n] in f64 from w and x, and how far off the kernel may be when the
 * longest chain of additions is `chain`. */
double problem_expect(const problem *self, uint64_t m, uint64_t n,
                      uint64_t chain, double *out_bound);

#endif
