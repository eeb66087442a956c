/* Sizes of what kernels work on; see kernel.h. */
#include "lib/runtime/matmul/kernel.h"

int nabla_kernel_tiles_size(const nabla_kernel_tiles *tiles, uint64_t rows,
                            uint64_t columns, uint64_t *out) {
  uint64_t count;
  *out = 0;
  if (!tiles->bytes) return 1;
  uint64_t down = rows / tiles->rows + (rows % tiles->rows != 0);
  uint64_t across = columns / tiles->columns + (columns % tiles->columns != 0);
  return !__builtin_mul_overflow(down, across, &count) &&
         !__builtin_mul_overflow(count, tiles->bytes, out) && *out <= INT64_MAX;
}
