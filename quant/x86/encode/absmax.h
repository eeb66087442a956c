/* Largest magnitudes of blocks and the values that have them (is_signed), for
 * every instruction set: absmax_avx2.h or absmax_avx512.h bring the vectors. */
#ifndef NABLA_QUANT_X86_ENCODE_ABSMAX_H
#define NABLA_QUANT_X86_ENCODE_ABSMAX_H

#include "quant/codec/kernel.h"

/* The largest of `bytes` bytes: whole vectors, or half of one. */
INLINE vector max_of_span(const uint8_t *in, size_t bytes, nabla_dtype dtype,
                          int is_signed) {
  if (bytes < sizeof(vector))
    return keys_of(load_rest(in, bytes), dtype, is_signed);
  vector most = keys_of(load_bytes(in), dtype, is_signed), other = most;
  size_t i = sizeof most;
  for (; i + 2 * sizeof most <= bytes; i += 2 * sizeof most) {
    const uint8_t *at = in + i;
    most = larger(most, keys_of(load_bytes(at), dtype, is_signed), dtype);
    at += sizeof most;
    other = larger(other, keys_of(load_bytes(at), dtype, is_signed), dtype);
  }
  if (i < bytes)
    most = larger(most, keys_of(load_bytes(in + i), dtype, is_signed), dtype);
  return larger(most, other, dtype);
}

/* As many blocks as a vector has lanes. */
INLINE void absmax_of_lanes(const uint8_t *in, size_t bytes, nabla_dtype dtype,
                            int is_signed, float *out) {
  vector most[LANES];
  for (size_t b = 0; b < LANES; b++)
    most[b] =
        dwords_of(max_of_span(in + b * bytes, bytes, dtype, is_signed), dtype);
  store_floats(out, widened(max_of_lanes(most), dtype, is_signed));
}

/* One block of any length. */
INLINE float absmax_of_one(const uint8_t *in, size_t bytes, nabla_dtype dtype,
                           int is_signed) {
  const size_t whole = bytes / sizeof(vector) * sizeof(vector);
  vector most = keys_of(load_rest(in + whole, bytes - whole), dtype, is_signed);
  if (whole)
    most = larger(most, max_of_span(in, whole, dtype, is_signed), dtype);
  float out[LANES];
  store_floats(
      out, widened(max_of_vector(dwords_of(most, dtype)), dtype, is_signed));
  return out[0];
}

INLINE void absmax_all(const uint8_t *in, nabla_dtype dtype, size_t count,
                       size_t block, int is_signed, float *out) {
  const size_t width = width_of(dtype), bytes = block * width;
  size_t left = count;
  for (; left / LANES >= block; left -= LANES * block) {
    if (block == 64)
      absmax_of_lanes(in, 64 * width, dtype, is_signed, out);
    else if (block == 32)
      absmax_of_lanes(in, 32 * width, dtype, is_signed, out);
    else if (block == 16)
      absmax_of_lanes(in, 16 * width, dtype, is_signed, out);
    else if (bytes % sizeof(vector) == 0)
      absmax_of_lanes(in, bytes, dtype, is_signed, out);
    else
      break; /* rows of any length */
    in += LANES * bytes;
    out += LANES;
  }
  while (left) {
    const size_t some = left < block ? left : block;
    *out++ = absmax_of_one(in, some * width, dtype, is_signed);
    in += some * width;
    left -= some;
  }
}

/* Defines nabla_any_<stage>_<isa>. */
#define ABSMAX_STAGE(stage, isa, is_signed)                                \
  void nabla_any_##stage##_##isa(const void *in, nabla_dtype dtype,        \
                                 size_t count, size_t block, float *out) { \
    if (dtype == NABLA_DTYPE_F32)                                          \
      absmax_all(in, NABLA_DTYPE_F32, count, block, is_signed, out);       \
    else if (dtype == NABLA_DTYPE_F16)                                     \
      absmax_all(in, NABLA_DTYPE_F16, count, block, is_signed, out);       \
    else                                                                   \
      absmax_all(in, NABLA_DTYPE_BF16, count, block, is_signed, out);      \
  }

#define ABSMAX_STAGES(isa)     \
  ABSMAX_STAGE(absmax, isa, 0) \
  ABSMAX_STAGE(peak, isa, 1)

#endif
