/* Largest magnitudes of blocks for AVX2: the bits of quant/stages.c. */
#include "quant/x86/absmax_avx2.h"

/* Eight blocks, each of whole vectors. */
INLINE void absmax_of_eight(const uint8_t *in, size_t bytes, nabla_dtype dtype,
                            float *out) {
  __m256i most[8];
  for (size_t b = 0; b < 8; b++)
    most[b] = dwords_of(max_of_span(in + b * bytes, bytes, dtype), dtype);
  _mm256_storeu_ps(out, widened(max_of_eight(most), dtype));
}

/* One block of any length. */
INLINE float absmax_of_one(const uint8_t *in, size_t bytes, nabla_dtype dtype) {
  const size_t whole = bytes / 32 * 32;
  uint8_t rest[32] = {0};
  __m256i most[8];
  memcpy(rest, in + whole, bytes - whole);
  most[0] = magnitudes_at(rest, dtype);
  if (whole) most[0] = larger(most[0], max_of_span(in, whole, dtype), dtype);
  most[0] = dwords_of(most[0], dtype);
  for (int i = 1; i < 8; i++) most[i] = most[0];
  return _mm256_cvtss_f32(widened(max_of_eight(most), dtype));
}

INLINE void absmax_all(const uint8_t *in, nabla_dtype dtype, size_t count,
                       size_t block, float *out) {
  const size_t bytes = block * width_of(dtype);
  size_t left = count;
  for (; left / 8 >= block; left -= 8 * block) {
    if (block == 64)
      absmax_of_eight(in, 64 * width_of(dtype), dtype, out);
    else if (block == 32)
      absmax_of_eight(in, 32 * width_of(dtype), dtype, out);
    else if (block == 16)
      absmax_of_eight(in, 16 * width_of(dtype), dtype, out);
    else
      absmax_of_eight(in, bytes, dtype, out);
    in += 8 * bytes;
    out += 8;
  }
  while (left) {
    const size_t some = left < block ? left : block;
    *out++ = absmax_of_one(in, some * width_of(dtype), dtype);
    in += some * width_of(dtype);
    left -= some;
  }
}

void nabla_any_absmax_avx2(const void *in, nabla_dtype dtype, size_t count,
                           size_t block, float *out) {
  if (dtype == NABLA_DTYPE_F32)
    absmax_all(in, NABLA_DTYPE_F32, count, block, out);
  else if (dtype == NABLA_DTYPE_F16)
    absmax_all(in, NABLA_DTYPE_F16, count, block, out);
  else
    absmax_all(in, NABLA_DTYPE_BF16, count, block, out);
}
