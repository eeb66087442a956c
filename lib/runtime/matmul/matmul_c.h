/* Products in C: tiles of dot products with rows that were decoded. */
#ifndef NABLA_RUNTIME_MATMUL_MATMUL_C_H
#define NABLA_RUNTIME_MATMUL_MATMUL_C_H

#include <stddef.h>

#define NABLA_TILE_LANES       16u  /* sums of one dot product               */
#define NABLA_MATMUL_TILE_ROWS 4u   /* of w                                  */
#define NABLA_TILE_CHUNK       512u /* elements of a row: stay in the caches */
#define NABLA_TILE_M           32u  /* rows of x                             */

/* Adds products of `m` rows of x, `stride` elements apart, with ROWS rows of w,
 * CHUNK elements apart, both of `count` <= CHUNK elements, w with zeros up to a
 * multiple of NABLA_TILE_LANES. sums: m x ROWS x NABLA_TILE_LANES. */
typedef void nabla_tile_function(const float *x, size_t stride, size_t m,
                                 const float *w, size_t count, float *sums);

nabla_tile_function nabla_tile_scalar;
nabla_tile_function nabla_tile_avx2;
nabla_tile_function nabla_tile_avx512;

#endif
