/* Tiles for AVX2 and FMA; see matmul_tile.h. */
#if defined(__AVX2__)
#define TILE_NAME nabla_tile_avx2
#define TILE_PAIR 1
#include "lib/runtime/matmul/matmul_tile.h"
#endif
