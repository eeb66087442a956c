/* AMX: eight tile registers of 16 rows of 64 bytes, and their dot products. The
 * numbers of tiles, 0 to 7, are fixed here and not allocated by LLVM. A
 * function that uses tiles begins with nabla_emit_tiles_begin and ends with
 * nabla_emit_tiles_end. */
#ifndef NABLA_KERNELS_BUILDER_AMX_H
#define NABLA_KERNELS_BUILDER_AMX_H

#include "lib/kernels/builder/emit.h"

#define NABLA_TILE_ROWS      16u
#define NABLA_TILE_ROW_BYTES 64u
#define NABLA_TILE_BYTES     (NABLA_TILE_ROWS * NABLA_TILE_ROW_BYTES)

/* Use of the tiles: accumulators are 0 to 3. */
#define NABLA_W_TILE 4u /* and 5: 16 rows of `bytes`, a multiple of 4  */
#define NABLA_X_TILE 6u /* and 7: bytes / 4 rows                       */

/* Loads the tile configuration, by way of the 64 bytes at `address`. */
void nabla_emit_tiles_begin(nabla_emitter *e, nabla_ssa address,
                            unsigned bytes);
void nabla_emit_tiles_end(nabla_emitter *e);

/* Loads, stores and clears tiles; in memory rows of a tile are consecutive. */
void nabla_emit_tile_load(nabla_emitter *e, unsigned tile, nabla_ssa base,
                          nabla_ssa byte);
void nabla_emit_tile_store(nabla_emitter *e, unsigned tile, nabla_ssa base,
                           nabla_ssa byte);

/* The same with rows that are `apart` bytes from each other in memory. */
void nabla_emit_tile_load_apart(nabla_emitter *e, unsigned tile, nabla_ssa base,
                                nabla_ssa byte, uint64_t apart);
void nabla_emit_tile_store_apart(nabla_emitter *e, unsigned tile,
                                 nabla_ssa base, nabla_ssa byte,
                                 uint64_t apart);

void nabla_emit_tile_zero(nabla_emitter *e, unsigned tile);

/* Adds the products of tiles a (rows of 4-byte groups) and b (a row for each
 * group of a) to `sum`: what = "tdpbf16ps", "tdpbusd", "tdpbssd". */
void nabla_emit_tile_dot(nabla_emitter *e, const char *what, unsigned sum,
                         unsigned a, unsigned b);

#endif
