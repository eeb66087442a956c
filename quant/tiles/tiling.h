/* Cuts a tensor into tiles that workers process on their own: whole blocks,
 * whole rows or segments, or pieces of one that is larger than a tile. */
#ifndef NABLA_QUANT_TILES_TILING_H
#define NABLA_QUANT_TILES_TILING_H

#include <stdint.h>

#include "nabla/encoding.h"

/* Elements of a tile, a multiple of the largest block and of two (nibbles).
 * Each worker has 23 bytes of buffers per element: LARGE is for few workers,
 * SMALL for sums whose order must not depend on the number of workers, and
 * which at most NABLA_FIXED_WORKERS share. */
#define NABLA_TILE_LARGE    ((uint64_t)1 << 18)
#define NABLA_TILE_SMALL    ((uint64_t)1 << 16)
#define NABLA_FIXED_WORKERS 16u

/* The tile for `workers` workers, at most NABLA_POOL_MAX_THREADS: their
 * buffers together stay within 32 MiB. No output byte depends on it. */
uint64_t nabla_tile_for(uint32_t workers);

typedef struct nabla_tiling {
  uint64_t elements;
  uint64_t span;          /* elements of a full tile              */
  uint64_t row;           /* length of the rows (segments, the tensor) that
                             are cut, else 0                       */
  uint64_t tiles_per_row; /* when they are cut                    */
  uint64_t tiles;
} nabla_tiling;

/* `format` NULL or without encoding: dense, cut anywhere. */
nabla_tiling nabla_tiling_of(const nabla_format *format, uint64_t elements,
                             uint64_t tile);

/* The elements [*first, *first + *count) of tile `index`. */
void nabla_tiling_get(const nabla_tiling *tiling, uint64_t index,
                      uint64_t *first, uint64_t *count);

/* Where element `first` of a packed tensor starts in its codes, in bytes.
 * `first` is the start of a tile. */
static inline uint64_t nabla_code_offset(const nabla_format *format,
                                         uint64_t first) {
  return first / (8 / format->encoding->bits);
}

#endif
