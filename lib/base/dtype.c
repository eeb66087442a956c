/* The dtype table, and conversions of whole arrays from and to f32. */
#include "nabla/dtype.h"

#include <string.h>

#include "lib/base/bytes.h"
#include "lib/base/floats.h"
#include "lib/base/require.h"
#include "lib/base/x86_features.h"

#if defined(__x86_64__)
#include <immintrin.h>
#define HAVE_F16C   1
#define TARGET_F16C __attribute__((target("avx2,f16c")))
#else
#define HAVE_F16C 0
#endif

#define F32_MAGNITUDE 0x7fffffffu
#define F32_INFINITY  0x7f800000u
/* The least f32 magnitudes that round to infinity: half a step above the
 * largest finite value, where the tie goes to the even neighbour. */
#define F16_OVERFLOW  0x477ff000u /* 65520 */
#define BF16_OVERFLOW 0x7f7f8000u /* 2^128 - 2^119 */

typedef struct row {
  const char *name, *torch;
  uint32_t bits;
  uint32_t length; /* of the name */
} row;

static const row rows[] = {
#define ROW(id, bits, torch) {#id, torch, bits, sizeof #id - 1},
    NABLA_DTYPE_LIST(ROW)
#undef ROW
};

static const row *row_of(nabla_dtype dtype) {
  static const row unknown = {"?", NULL, 0, 1};
  return (unsigned)dtype < NABLA_DTYPE_COUNT ? &rows[dtype] : &unknown;
}

const char *nabla_dtype_name(nabla_dtype dtype) { return row_of(dtype)->name; }

uint32_t nabla_dtype_bits(nabla_dtype dtype) { return row_of(dtype)->bits; }

const char *nabla_dtype_torch_name(nabla_dtype dtype) {
  return row_of(dtype)->torch;
}

nabla_status nabla_dtype_find(const char *name, size_t length, nabla_dtype *out,
                              nabla_diag *diag) {
  NABLA_REQUIRE(name, diag);
  NABLA_REQUIRE(out, diag);
  for (int i = 0; i < NABLA_DTYPE_COUNT; i++) {
    if (rows[i].length != length || rows[i].name[0] != name[0]) continue;
    if (memcmp(rows[i].name, name, length) != 0) continue;
    *out = (nabla_dtype)i;
    return NABLA_OK;
  }
  const int shown = length < 40 ? (int)length : 40;
  return nabla_fail(diag, NABLA_UNSUPPORTED, "the dtype '%.*s' is unknown",
                    shown, name);
}

int nabla_dtype_is_float(nabla_dtype dtype) {
  return dtype == NABLA_DTYPE_F16 || dtype == NABLA_DTYPE_BF16 ||
         dtype == NABLA_DTYPE_F32 || dtype == NABLA_DTYPE_F64;
}

/* As nabla_load_le16, in the one form that gcc 12 vectorises. */
static inline uint16_t load16(const uint8_t *in) {
  uint16_t value;
  memcpy(&value, in, sizeof value);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
  value = __builtin_bswap16(value);
#endif
  return value;
}

static inline void store16(uint8_t *out, uint16_t value) {
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
  value = __builtin_bswap16(value);
#endif
  memcpy(out, &value, sizeof value);
}

/* Counts the finite inputs whose magnitude is at least `least`. */
static size_t count_overflows(const float *in, size_t count, uint32_t least) {
  size_t overflows = 0;
  while (count > 0) {
    const size_t part = count < 4096 ? count : 4096;
    uint32_t sum = 0; /* 32 bits, so that lanes are as wide as the floats */
    for (size_t i = 0; i < part; i++) {
      const uint32_t magnitude = nabla_bits_of_f32(in[i]) & F32_MAGNITUDE;
      sum += (magnitude >= least) & (magnitude < F32_INFINITY);
    }
    overflows += sum;
    in += part;
    count -= part;
  }
  return overflows;
}

#if HAVE_F16C
/* VCVTPH2PS and VCVTPS2PH keep the high bits of a NaN's payload and make it
 * quiet, as floats.c does. Both return how many elements they converted. */
TARGET_F16C static size_t f16_to_f32_f16c(const uint8_t *in, size_t count,
                                          float *out) {
  size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m128i half = _mm_loadu_si128((const void *)(in + 2 * i));
    _mm256_storeu_ps(out + i, _mm256_cvtph_ps(half));
  }
  return i;
}

TARGET_F16C static size_t f32_to_f16_f16c(const float *in, size_t count,
                                          uint8_t *out) {
  size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m256 value = _mm256_loadu_ps(in + i);
    _mm_storeu_si128((void *)(out + 2 * i),
                     _mm256_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT));
  }
  return i;
}

static int has_f16c(void) {
  return nabla_x86_has(NABLA_X86_AVX2) && nabla_x86_has(NABLA_X86_F16C);
}
#endif

static void f16_to_f32(const uint8_t *in, size_t count, float *out) {
  size_t i = 0;
#if HAVE_F16C
  if (has_f16c()) i = f16_to_f32_f16c(in, count, out);
#endif
  for (; i < count; i++) out[i] = nabla_f16_to_f32(load16(in + 2 * i));
}

static void f32_to_f16(const float *in, size_t count, uint8_t *out) {
  size_t i = 0;
#if HAVE_F16C
  if (has_f16c()) i = f32_to_f16_f16c(in, count, out);
#endif
  for (; i < count; i++) store16(out + 2 * i, nabla_f32_to_f16(in[i]));
}

static void bf16_to_f32(const uint8_t *restrict in, size_t count,
                        float *restrict out) {
  for (size_t i = 0; i < count; i++)
    out[i] = nabla_f32_of_bits((uint32_t)load16(in + 2 * i) << 16);
}

/* nabla_f32_to_bf16, here where the compiler can inline and vectorise it. */
static void f32_to_bf16(const float *restrict in, size_t count,
                        uint8_t *restrict out) {
  for (size_t i = 0; i < count; i++) {
    const uint32_t bits = nabla_bits_of_f32(in[i]);
    const uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    const uint32_t quiet = bits >> 16 | 0x40;
    const int is_nan = (bits & F32_MAGNITUDE) > F32_INFINITY;
    store16(out + 2 * i, (uint16_t)(is_nan ? quiet : rounded));
  }
}

static void copy_f32(const void *in, size_t count, void *out) {
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
  for (size_t i = 0; i < count; i++) {
    const uint32_t bits = nabla_load_le32((const uint8_t *)in + 4 * i);
    memcpy((uint8_t *)out + 4 * i, &bits, sizeof bits);
  }
#else
  if (count > 0) memcpy(out, in, count * sizeof(float));
#endif
}

/* A NaN's bits are moved by hand, for some machines would replace them. */
static float f64_to_f32(uint64_t bits) {
  const uint64_t magnitude = bits & 0x7fffffffffffffffu;
  if (magnitude > 0x7ff0000000000000u) {
    const uint32_t sign = (uint32_t)(bits >> 32) & 0x80000000u;
    const uint32_t payload = (uint32_t)(bits >> 29) & 0x003fffffu;
    return nabla_f32_of_bits(sign | 0x7fc00000u | payload);
  }
  double value;
  memcpy(&value, &bits, sizeof value);
  return (float)value;
}

static uint64_t f32_to_f64(float narrow) {
  const uint32_t bits = nabla_bits_of_f32(narrow);
  if ((bits & F32_MAGNITUDE) > F32_INFINITY)
    return (uint64_t)(bits & 0x80000000u) << 32 | 0x7ff8000000000000u |
           (uint64_t)(bits & 0x003fffffu) << 29;
  const double value = (double)narrow;
  uint64_t wide;
  memcpy(&wide, &value, sizeof wide);
  return wide;
}

void nabla_to_f32(nabla_dtype dtype, const void *in, size_t count, float *out) {
  const uint8_t *bytes = in;
  if (dtype == NABLA_DTYPE_F16) f16_to_f32(bytes, count, out);
  if (dtype == NABLA_DTYPE_BF16) bf16_to_f32(bytes, count, out);
  if (dtype == NABLA_DTYPE_F32) copy_f32(in, count, out);
  if (dtype == NABLA_DTYPE_F64)
    for (size_t i = 0; i < count; i++)
      out[i] = f64_to_f32(nabla_load_le64(bytes + 8 * i));
}

size_t nabla_from_f32(nabla_dtype dtype, const float *in, size_t count,
                      void *out) {
  uint8_t *bytes = out;
  if (dtype == NABLA_DTYPE_F16) {
    f32_to_f16(in, count, bytes);
    return count_overflows(in, count, F16_OVERFLOW);
  }
  if (dtype == NABLA_DTYPE_BF16) {
    f32_to_bf16(in, count, bytes);
    return count_overflows(in, count, BF16_OVERFLOW);
  }
  if (dtype == NABLA_DTYPE_F32) copy_f32(in, count, out);
  if (dtype == NABLA_DTYPE_F64)
    for (size_t i = 0; i < count; i++)
      nabla_store_le64(bytes + 8 * i, f32_to_f64(in[i]));
  return 0;
}
