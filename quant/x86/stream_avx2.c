/* Stores past the caches for AVX2. */
#include "quant/x86/avx2.h"

void nabla_any_stream_avx2(uint8_t *out, const uint8_t *in, size_t size) {
  if (!size) {
    _mm_sfence();
    return;
  }
  size_t i = (64 - (uintptr_t)out % 64) % 64; /* whole lines from there */
  if (i > size) i = size;
  memcpy(out, in, i);
  for (; i + 64 <= size; i += 64) {
    __m256i *to = (__m256i *)(void *)(out + i);
    _mm256_stream_si256(to, load_bytes(in + i));
    _mm256_stream_si256(to + 1, load_bytes(in + i + 32));
  }
  memcpy(out + i, in + i, size - i);
}
