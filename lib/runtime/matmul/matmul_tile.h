/* Dot products of rows of x with decoded rows of a weight: the code, compiled
 * once for each instruction set by the files that include this and define
 *   TILE_NAME  the function
 *   TILE_PAIR  rows of x at a time: 1 or 2, as many as registers hold
 * Products may be fused with sums: -ffp-contract=fast. */
#include <string.h>

#include "lib/runtime/matmul/matmul_c.h"

#define ROWS  NABLA_MATMUL_TILE_ROWS
#define CHUNK NABLA_TILE_CHUNK

typedef float lanes
    __attribute__((vector_size(4 * NABLA_TILE_LANES), aligned(4)));

/* `pair` rows of x against ROWS of w, `pair` known when compiled. */
static inline __attribute__((always_inline)) void rows_of_x(
    const float *x, size_t stride, size_t pair, const float *w, size_t count,
    float *sums) {
  lanes sum[2 * ROWS], value[2], weight;
  for (size_t i = 0; i < pair * ROWS; i++)
    memcpy(&sum[i], sums + i * NABLA_TILE_LANES, sizeof *sum);
  const size_t whole = count - count % NABLA_TILE_LANES;
  for (size_t k = 0; k < whole; k += NABLA_TILE_LANES) {
    for (size_t i = 0; i < pair; i++)
      value[i] = *(const lanes *)(const void *)(x + i * stride + k);
    for (size_t r = 0; r < ROWS; r++) {
      weight = *(const lanes *)(const void *)(w + r * CHUNK + k);
      for (size_t i = 0; i < pair; i++) sum[i * ROWS + r] += value[i] * weight;
    }
  }
  if (whole < count) { /* w has zeros there */
    for (size_t i = 0; i < pair; i++) {
      float rest[NABLA_TILE_LANES] = {0};
      memcpy(rest, x + i * stride + whole, (count - whole) * sizeof *rest);
      memcpy(&value[i], rest, sizeof *value);
    }
    for (size_t r = 0; r < ROWS; r++) {
      weight = *(const lanes *)(const void *)(w + r * CHUNK + whole);
      for (size_t i = 0; i < pair; i++) sum[i * ROWS + r] += value[i] * weight;
    }
  }
  for (size_t i = 0; i < pair * ROWS; i++)
    memcpy(sums + i * NABLA_TILE_LANES, &sum[i], sizeof *sum);
}

void TILE_NAME(const float *x, size_t stride, size_t m, const float *w,
               size_t count, float *sums) {
  size_t i = 0;
  for (; i + TILE_PAIR <= m; i += TILE_PAIR)
    rows_of_x(x + i * stride, stride, TILE_PAIR, w, count,
              sums + i * ROWS * NABLA_TILE_LANES);
  for (; i < m; i++)
    rows_of_x(x + i * stride, stride, 1, w, count,
              sums + i * ROWS * NABLA_TILE_LANES);
}
