/* The layout of a planned block: offsets for parts that are used at different
 * times, such that parts of overlapping lifetimes do not overlap. */
#ifndef NABLA_TRANSFORMS_MEMORY_LAYOUT_H
#define NABLA_TRANSFORMS_MEMORY_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Offsets are multiples of it, and so are sizes, which it rounds up. */
#define NABLA_LAYOUT_ALIGNMENT 64u

/* The most bytes of a block. */
#define NABLA_LAYOUT_MAX ((uint64_t)1 << 46)

/* A part is used from time `first` to time `last`, both included. */
typedef struct nabla_layout_part {
  uint64_t bytes;
  size_t first, last;
  uint64_t offset; /* the result */
} nabla_layout_part;

typedef struct nabla_layout_size {
  uint64_t bytes; /* of the block                                */
  uint64_t peak;  /* the most that is in use at one time: a lower
                     bound of every layout                       */
} nabla_layout_size;

typedef enum nabla_layout_result {
  NABLA_LAYOUT_DONE,
  NABLA_LAYOUT_TOO_LARGE, /* more than NABLA_LAYOUT_MAX */
  NABLA_LAYOUT_NO_MEMORY,
} nabla_layout_result;

/* Places all parts. Up to 1024 parts, the largest go first, each where the
 * smallest gap between its neighbours in time holds it; more are placed in the
 * order of time, in the smallest of the free gaps, in almost linear time. */
nabla_layout_result nabla_layout_place(nabla_layout_part *parts, size_t count,
                                       nabla_layout_size *out);

#endif
