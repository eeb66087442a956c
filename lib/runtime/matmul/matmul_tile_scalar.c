/* Tiles for every CPU; see matmul_tile.h. */
#define TILE_NAME nabla_tile_scalar
#define TILE_PAIR 1
#include "lib/runtime/matmul/matmul_tile.h"
