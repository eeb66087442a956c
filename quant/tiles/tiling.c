/* See tiling.h. */
#include "quant/tiles/tiling.h"

#include "lib/base/checked.h"
#include "quant/codec/codec.h"

/* Elements of all workers together: 32 MiB of buffers. */
#define SHARED (((uint64_t)32 << 20) / 23)

uint64_t nabla_tile_for(uint32_t workers) {
  uint64_t tile = NABLA_TILE_LARGE;
  while (tile > NABLA_BLOCK_MAX && tile * workers > SHARED) tile /= 2;
  return tile;
}

nabla_tiling nabla_tiling_of(const nabla_format *format, uint64_t elements,
                             uint64_t tile) {
  nabla_tiling tiling = {.elements = elements, .span = tile};
  if (format && format->encoding &&
      (format->granularity != NABLA_PER_BLOCK || format->segment)) {
    const uint64_t unit = nabla_format_unit(format);
    if (unit > tile) {
      tiling.row = unit;
      tiling.tiles_per_row = nabla_ceil_div_u64(unit, tile);
      tiling.tiles = elements / unit * tiling.tiles_per_row;
      return tiling;
    }
    tiling.span = tile / unit * unit;
  }
  tiling.tiles = nabla_ceil_div_u64(elements, tiling.span);
  return tiling;
}

void nabla_tiling_get(const nabla_tiling *tiling, uint64_t index,
                      uint64_t *first, uint64_t *count) {
  if (tiling->row) {
    const uint64_t at = index % tiling->tiles_per_row * tiling->span;
    const uint64_t left = tiling->row - at;
    *first = index / tiling->tiles_per_row * tiling->row + at;
    *count = left < tiling->span ? left : tiling->span;
    return;
  }
  *first = index * tiling->span;
  const uint64_t left = tiling->elements - *first;
  *count = left < tiling->span ? left : tiling->span;
}
