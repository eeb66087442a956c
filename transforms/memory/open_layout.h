/* The layout of parts whose sizes are known at run time alone: which parts each
 * one lies on. A part begins at the greatest of `floor` and the ends of those
 * parts, so that no parts overlap in time and in memory, whatever the sizes. */
#ifndef NABLA_TRANSFORMS_MEMORY_OPEN_LAYOUT_H
#define NABLA_TRANSFORMS_MEMORY_OPEN_LAYOUT_H

#include "transforms/memory/layout.h"

/* The most parts of a layout: its time is the square of it. */
#define NABLA_OPEN_LAYOUT_MAX 1024

typedef struct nabla_open_part {
  uint64_t likely;    /* bytes, a guess: the closer it is to what other parts
                         have in proportion, the smaller is the block        */
  size_t first, last; /* times, as of nabla_layout_part                      */
  /* results */
  uint64_t floor; /* the end of all parts of static size that live at a time
                     with it                                                 */
  size_t *below;  /* the parts that it lies on: `below_count` of them        */
  size_t below_count;
} nabla_open_part;

/* Computes `floor` and `below` of all parts, at most NABLA_OPEN_LAYOUT_MAX, and
 * `order`, in which parts come after those that they lie on. `fixed` are the
 * parts of static size, which are placed. Returns false if out of memory;
 * nabla_open_layout_deinit in both cases. */
bool nabla_open_layout_make(nabla_open_part *parts, size_t count,
                            const nabla_layout_part *fixed, size_t fixed_count,
                            size_t *order);
void nabla_open_layout_deinit(nabla_open_part *parts, size_t count);

#endif
