/* The shape of a 4-bit encoder, for each instruction set: nibbles_avx2.h and
 * nibbles_avx512.h include it behind their pieces, which are: `factors` and
 * `same` (a factor for 64 values), `nibble_tables`, `code_fn` (what turns
 * scaled values into codes), encode_values, encode_small, max_of_span and
 * is_easy. */
#ifndef NABLA_QUANT_X86_NIBBLES_H
#define NABLA_QUANT_X86_NIBBLES_H

/* Blocks of 128 and more: once over for the absmax, once more for the codes. */
INLINE void encode_large(const float *in, size_t count, size_t block,
                         uint8_t *codes, float *scales, const nibble_tables *t,
                         code_fn *code, nabla_kernel_encode *scalar) {
  for (size_t at = 0; at < count; at += block) {
    uint32_t most = max_of_span(in + at, block);
    float absmax = nabla_f32_of_bits(most);
    *scales = absmax;
    if (__builtin_expect(is_easy(most, NABLA_F32_NORMAL), 1)) {
      factors inverse = same(1.0f / absmax);
      for (size_t i = at; i < at + block; i += 64)
        encode_values(in + i, inverse, codes + i / 2, t, code);
    } else {
      scalar(in + at, block, block, codes + at / 2, scales);
    }
    scales++;
  }
}

INLINE void encode_nibbles(const float *in, size_t count, size_t block,
                           uint8_t *codes, float *scales,
                           const nibble_tables *t, code_fn *code,
                           nabla_kernel_encode *scalar) {
  size_t unit = block > 64 ? block : 64, whole = count / unit * unit;
  if (block == 64)
    encode_small(in, whole, 64, codes, scales, t, code, scalar);
  else if (block == 32)
    encode_small(in, whole, 32, codes, scales, t, code, scalar);
  else if (block == 16)
    encode_small(in, whole, 16, codes, scales, t, code, scalar);
  else
    encode_large(in, whole, block, codes, scales, t, code, scalar);
  if (whole < count)
    scalar(in + whole, count - whole, block, codes + whole / 2,
           scales + whole / block);
}

#endif
