/* NF4 for AVX-512: the bits of quant/codec/nf4.c.
 *
 * Values are compared with the thresholds as 16-bit integers, half as many
 * instructions as with 32 bits. A value that is too near to a threshold to tell
 * (one in 3000) has its unit done again with all bits. */
#include "quant/codec/nf4.h"
#include "quant/x86/encode/bins_avx512.h"

/* Bins of width 1/14.6 around the 16th: no two thresholds share one. */
#define PER_UNIT 14.6f
#define FIRST    16.0f

#define NONE INFINITY

/* The threshold in each bin. */
static const float bounds[32] __attribute__((aligned(64))) = {NONE,
                                                              NONE,
                                                              NONE,
                                                              NONE,
                                                              -0x1.b239bp-1f,
                                                              NONE,
                                                              NONE,
                                                              -0x1.38a4ep-1f,
                                                              NONE,
                                                              -0x1.d709p-2f,
                                                              NONE,
                                                              -0x1.5bd4ecp-2f,
                                                              NONE,
                                                              -0x1.e079d8p-3f,
                                                              -0x1.1a7178p-3f,
                                                              -0x1.74f0e2p-5f,
                                                              NONE,
                                                              0x1.45f5fep-5f,
                                                              0x1.ec90c4p-4f,
                                                              0x1.a0cfcp-3f,
                                                              0x1.2b05a8p-2f,
                                                              NONE,
                                                              0x1.8ea7f2p-2f,
                                                              0x1.00da08p-1f,
                                                              NONE,
                                                              0x1.491b5ep-1f,
                                                              NONE,
                                                              NONE,
                                                              NONE,
                                                              0x1.b913b4p-1f,
                                                              NONE,
                                                              NONE};

/* By bin: the code up to the bin's threshold, then the code above it. */
static const uint8_t codes_of_bins[64] __attribute__((aligned(64))) = {
    0, 0, 0, 0,  0,  1,  1,  1,  2,  2,  3,  3,  4,  4,  5,  6,
    7, 7, 8, 9,  10, 11, 11, 12, 13, 13, 14, 14, 14, 14, 15, 15,
    1, 1, 1, 1,  1,  2,  2,  2,  3,  3,  4,  4,  5,  5,  6,  7,
    8, 8, 9, 10, 11, 12, 12, 13, 14, 14, 15, 15, 15, 15, 15, 15};

/* A unit with all bits.
 * @param factors  of each 16 values */
__attribute__((noinline, cold)) static void nf4_exact(unit_place at, __m512 f0,
                                                      __m512 f1, __m512 f2,
                                                      __m512 f3) {
  const __m512 factors[4] = {f0, f1, f2, f3};
  const __m512 low = _mm512_load_ps(bounds), high = _mm512_load_ps(bounds + 16);
  __m512i bins[4];
  for (int j = 0; j < 4; j++) {
    const __m512 x =
        _mm512_mul_ps(load_part(at.in, at.dtype, (size_t)j), factors[j]);
    const __m512i bin = bin_of(clamp_unit(x), PER_UNIT, FIRST);
    const __m512 bound = _mm512_permutex2var_ps(low, bin, high);
    const __mmask16 above = _mm512_cmp_ps_mask(x, bound, _CMP_GT_OQ);
    bins[j] = _mm512_mask_or_epi32(bin, above, bin, _mm512_set1_epi32(32));
  }
  const __m512i codes = _mm512_permutexvar_epi8(
      pack_bytes(bins), _mm512_load_si512(codes_of_bins));
  store_half(at.codes, nibbles_in_order(codes, 16, 1, at.dtype));
}

/* Scaled values times this, rounded, are the integers. No threshold times this
 * is within 1/8 of where rounding turns, so that only an integer that is equal
 * to a threshold's may lie on its other side. 5 % above 1 still fit. */
#define STEPS 31035.0f

#define NO 32767

/* The threshold in each bin of 2048, from 0 up and then the negatives. The
 * first of these is where all that did not fit ends. */
static const int16_t steps[32] __attribute__((aligned(64))) = {
    1235,   3732,   NO,     6316,   9063,  12082, NO,     15569,
    NO,     19949,  NO,     NO,     NO,    26736, NO,     NO,
    -32768, NO,     NO,     -26321, NO,    NO,    -18951, NO,
    NO,     -14276, -10542, NO,     -7281, -4280, NO,     -1413};

/* By bin: the code up to the bin's threshold, then the code above it. */
static const uint8_t codes_of_steps[64] __attribute__((aligned(64))) = {
    7, 8, 9, 9,  10, 11, 12, 12, 13, 13, 14, 14, 14, 14, 15, 15,
    0, 0, 0, 0,  1,  1,  1,  2,  2,  2,  3,  4,  4,  5,  6,  6,
    8, 9, 9, 10, 11, 12, 12, 13, 13, 14, 14, 14, 14, 15, 15, 15,
    0, 0, 0, 1,  1,  1,  2,  2,  2,  3,  4,  4,  5,  6,  6,  7};

typedef struct nf4_tables {
  __m512i steps, codes;
} nf4_tables;

INLINE void nf4_unit(unit_place at, const unit_scales *scales,
                     const void *tables) {
  const nf4_tables *t = tables;
  const __m512 *f = scales->factor;
  __m512i q[4], places[2], near[2];
  for (int j = 0; j < 4; j++) {
    const __m512 times = _mm512_mul_ps(f[j], _mm512_set1_ps(STEPS));
    q[j] = _mm512_cvtps_epi32(
        _mm512_mul_ps(load_part(at.in, at.dtype, (size_t)j), times));
  }
  for (int i = 0; i < 2; i++) {
    const __m512i x = _mm512_packs_epi32(q[2 * i], q[2 * i + 1]);
    const __m512i bin = _mm512_srli_epi16(x, 11);
    near[i] = _mm512_subs_epi16(_mm512_permutexvar_epi16(bin, t->steps), x);
    /* The sign above the bin: c ? a : b. */
    places[i] = _mm512_ternarylogic_epi32(bin, _mm512_srli_epi16(near[i], 10),
                                          _mm512_set1_epi16(31), 0xe4);
  }
  const __m512i codes = _mm512_permutexvar_epi8(
      _mm512_packus_epi16(places[0], places[1]), t->codes);
  store_half(at.codes, nibbles_in_order(codes, 16, 1, at.dtype));
  const __m512i nearest = _mm512_min_epu16(near[0], near[1]);
  if (__builtin_expect(_mm512_testn_epi16_mask(nearest, nearest) != 0, 0))
    nf4_exact(at, f[0], f[1], f[2], f[3]);
}

INLINE nf4_tables nf4_tables_of(const nabla_blocks *blocks) {
  (void)blocks;
  return (nf4_tables){_mm512_load_si512(steps),
                      _mm512_load_si512(codes_of_steps)};
}

CODE_STAGES(nf4, avx512, 4, nf4_unit, nf4_tables, nf4_tables_of, 109, 17)
