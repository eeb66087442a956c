/* Inside quant/: the signature of each operation, the prototypes of all
 * kernels (made from the two tables), and how one is found.
 *
 * A kernel never allocates, calls out of quant/ or holds state. It reads
 * exactly `count` values and writes exactly what nabla_format_size says; no
 * pointer need be aligned beyond its type. It assumes the default floating-
 * point environment: round to nearest even, subnormals kept. */
#ifndef NABLA_QUANT_KERNEL_H
#define NABLA_QUANT_KERNEL_H

#include "lib/base/bytes.h"
#include "nabla/encoding.h"

#if defined(__x86_64__)
#define NABLA_X86 1
#else
#define NABLA_X86 0
#endif

typedef void nabla_kernel_encode(const float *in, size_t count, size_t block,
                                 uint8_t *codes, float *scales);
typedef void nabla_kernel_decode(const uint8_t *codes, const float *scales,
                                 size_t count, size_t block, float *out);
/* The same with rows of `block` values, any number from 1. */
typedef nabla_kernel_encode nabla_kernel_encode_rows;
typedef nabla_kernel_decode nabla_kernel_decode_rows;
/* Pieces of encode_rows: see nabla_absmax and nabla_encode_scaled. */
typedef float nabla_kernel_absmax(const float *in, size_t count);
typedef void nabla_kernel_encode_scaled(const float *in, size_t count,
                                        float absmax, uint8_t *codes);

typedef enum nabla_operation {
  NABLA_OPERATION_encode,
  NABLA_OPERATION_decode,
  NABLA_OPERATION_encode_rows,
  NABLA_OPERATION_decode_rows,
  NABLA_OPERATION_absmax,
  NABLA_OPERATION_encode_scaled,
} nabla_operation;

/* A kernel of any operation; cast it to the operation's type to call it. */
typedef void (*nabla_kernel)(void);

/* Finds the last kernel of the tables for `encoding` and `operation` that
 * `isa` can run; NULL when the encoding lacks the operation. */
nabla_kernel nabla_kernel_find(const char *encoding, nabla_operation operation,
                               nabla_isa isa);

#define KERNEL(id, operation, isa) \
  nabla_kernel_##operation nabla_##id##_##operation##_##isa;
#define NABLA_SCALAR_ROWS_0(id)
#define NABLA_SCALAR_ROWS_1(id)   \
  KERNEL(id, encode_rows, scalar) \
  KERNEL(id, decode_rows, scalar) \
  KERNEL(id, absmax, scalar)      \
  KERNEL(id, encode_scaled, scalar)
#define ENCODING(id, wire, bits, rows, bnb, rmse, summary) \
  KERNEL(id, encode, scalar)                               \
  KERNEL(id, decode, scalar)                               \
  NABLA_SCALAR_ROWS_##rows(id)
#include "quant/encodings.def"
#if NABLA_X86
#include "quant/kernels.def"
#endif
#undef ENCODING
#undef KERNEL

#define NABLA_F32_MAGNITUDE 0x7fffffffu /* all bits but the sign           */
#define NABLA_F32_INFINITY  0x7f800000u /* magnitudes from here: not finite */
#define NABLA_F32_NORMAL    0x00800000u /* 2^-126: below are subnormals     */

/* The bits of the largest |x|. Comparing magnitudes as integers makes NaN
 * larger than infinity, and the result independent of the order. */
static inline uint32_t nabla_max_magnitude(const float *in, size_t count) {
  uint32_t most = 0;
  for (size_t i = 0; i < count; i++) {
    uint32_t bits = nabla_bits_of_f32(in[i]) & NABLA_F32_MAGNITUDE;
    if (bits > most) most = bits;
  }
  return most;
}

/* From this many values up a call decodes past the caches, with stores that do
 * not read the memory they replace; below, the result is likely read soon and
 * should stay in them. 8 MiB of f32. */
#define NABLA_STREAM_VALUES ((size_t)1 << 21)

static inline int nabla_should_stream(const float *out, size_t count) {
  return count >= NABLA_STREAM_VALUES && (uintptr_t)out % 16 == 0;
}

#endif
