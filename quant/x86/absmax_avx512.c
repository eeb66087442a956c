/* Largest magnitudes of blocks for AVX-512: the bits of quant/stages.c. */
#include "quant/x86/absmax_avx512.h"

/* Sixteen blocks. */
INLINE void absmax_of_sixteen(const uint8_t *in, size_t bytes,
                              nabla_dtype dtype, float *out) {
  __m512i most[16];
  for (size_t b = 0; b < 16; b++)
    most[b] = dwords_of(max_of_span(in + b * bytes, bytes, dtype), dtype);
  _mm512_storeu_ps(out, widened(max_of_sixteen(most), dtype));
}

/* One block of any length. */
INLINE float absmax_of_one(const uint8_t *in, size_t bytes, nabla_dtype dtype) {
  const size_t whole = bytes / 64 * 64;
  const __mmask64 some = _bzhi_u64(~UINT64_C(0), (unsigned)(bytes - whole));
  __m512i most =
      magnitudes_of(_mm512_maskz_loadu_epi8(some, in + whole), dtype);
  if (whole) most = larger(most, max_of_span(in, whole, dtype), dtype);
  const uint32_t all = _mm512_reduce_max_epu32(dwords_of(most, dtype));
  return _mm512_cvtss_f32(widened(_mm512_set1_epi32((int)all), dtype));
}

INLINE void absmax_all(const uint8_t *in, nabla_dtype dtype, size_t count,
                       size_t block, float *out) {
  const size_t width = width_of(dtype), bytes = block * width;
  size_t left = count;
  for (; left / 16 >= block; left -= 16 * block) {
    if (block == 64)
      absmax_of_sixteen(in, 64 * width, dtype, out);
    else if (block == 32)
      absmax_of_sixteen(in, 32 * width, dtype, out);
    else if (block == 16)
      absmax_of_sixteen(in, 16 * width, dtype, out);
    else if (bytes % 64 == 0)
      absmax_of_sixteen(in, bytes, dtype, out);
    else
      break; /* rows of any length */
    in += 16 * bytes;
    out += 16;
  }
  while (left) {
    const size_t some = left < block ? left : block;
    *out++ = absmax_of_one(in, some * width, dtype);
    in += some * width;
    left -= some;
  }
}

void nabla_any_absmax_avx512(const void *in, nabla_dtype dtype, size_t count,
                             size_t block, float *out) {
  if (dtype == NABLA_DTYPE_F32)
    absmax_all(in, NABLA_DTYPE_F32, count, block, out);
  else if (dtype == NABLA_DTYPE_F16)
    absmax_all(in, NABLA_DTYPE_F16, count, block, out);
  else
    absmax_all(in, NABLA_DTYPE_BF16, count, block, out);
}
