/* Tiles for AVX-512; see matmul_tile.h. */
#if defined(__AVX512F__)
#define TILE_NAME nabla_tile_avx512
#define TILE_PAIR 2
#include "lib/runtime/matmul/matmul_tile.h"
#endif
