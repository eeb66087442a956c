/* Stores past the caches for AVX-512. */
#include "quant/x86/avx512.h"

/* Whole lines; `out` need not begin with one. */
void nabla_any_stream_avx512(uint8_t *out, const uint8_t *in, size_t size) {
  const size_t head = (64 - (uintptr_t)out % 64) % 64;
  size_t i = head < size ? head : size;
  if (size == 0) {
    _mm_sfence();
    return;
  }
  memcpy(out, in, i);
  for (; i + 64 <= size; i += 64)
    _mm512_stream_si512((__m512i *)(void *)(out + i), load_bytes(in + i));
  memcpy(out + i, in + i, size - i);
}
