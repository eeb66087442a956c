/* Packing of x for GEMM, f32: tiles of some rows, whose elements of one k are
 * consecutive. Tiles of one range of k, as long as a panel of the weight, are
 * consecutive too, so that a panel is multiplied with one stream, whatever K is
 * (rows a power of two apart would fall into the same sets of a cache). */
#ifndef NABLA_KERNELS_F32_PACK_A_H
#define NABLA_KERNELS_F32_PACK_A_H

#include "lib/kernels/variants.h"

/* Tile size of x. */
typedef struct nabla_row_tiles {
  unsigned rows;  /* of a tile: a power of two up to 16 */
  unsigned panel; /* elements of k: a multiple of 16    */
} nabla_row_tiles;

/* The code of `prepare`: packs rows [begin, end) of x, f32, f16 or bf16, to the
 * workspace. The last tile is filled up with the last row. */
void nabla_emit_pack_a(nabla_emitter *e, nabla_row_tiles tiles);

/* The address of element (row, k), where `row` is the first of a tile and `k`
 * that of a range of `count` elements. */
nabla_ssa nabla_emit_packed_a(nabla_emitter *e, nabla_row_tiles tiles,
                              nabla_ssa row, nabla_ssa k, nabla_ssa count);

/* The size of the workspace. */
static inline nabla_kernel_tiles nabla_row_tiles_size(nabla_row_tiles tiles) {
  return (nabla_kernel_tiles){tiles.rows, 1, tiles.rows * 4};
}

#endif
