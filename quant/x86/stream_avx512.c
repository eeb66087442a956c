/* Stores past the caches for AVX-512. */
#include "quant/x86/decode_avx512.h"

void nabla_any_stream_avx512(uint8_t *out, const uint8_t *in, size_t size) {
  if (size)
    stream_bytes(out, in, size);
  else
    _mm_sfence();
}
