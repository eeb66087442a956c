/* The fast search, inside quant/: for encodings of up to 16 values in blocks of
 * 16 to 256, without weights and zero points.
 *
 * The values of a block are rounded to 8-bit integers. Each candidate for the
 * scale has a table of 128 bytes that maps such an integer to the decoded
 * value, also in 8 bits. The sums of squared differences are integers, so that
 * their order does not matter. The best candidate is refined once by least
 * squares on the values themselves, and the result is compared with the plain
 * scale. */
#ifndef NABLA_QUANT_SEARCH_SEARCH_TABLE_H
#define NABLA_QUANT_SEARCH_SEARCH_TABLE_H

#include <math.h>

#include "lib/base/bytes.h"
#include "quant/codec/kernel.h"

enum {
  NABLA_SEARCH_CANDIDATES = 16,
  NABLA_SEARCH_STEPS = 128,  /* bins of the 8-bit values, two to each        */
  NABLA_SEARCH_PEAK = 113,   /* absmax in 8 bits; 1.12 times it fits */
  NABLA_SEARCH_BINS = 32,    /* of scaled values, at most one threshold each */
  NABLA_SEARCH_LARGEST = 256 /* largest block */
};

/* Largest difference of 8-bit values: 32 squares, in pairs, fit in 16 bits. */
#define NABLA_SEARCH_MISS 31

typedef struct nabla_search_table {
  /* steps[k][b]: decoded value, by candidate k, of the values 2b - 128 and 2b -
   * 127. */
  _Alignas(64) int8_t steps[NABLA_SEARCH_CANDIDATES][NABLA_SEARCH_STEPS];
  /* Candidates, as factors of the plain scale. */
  _Alignas(64) float factors[NABLA_SEARCH_CANDIDATES];
  /* Decoded value of a scaled value s in bin b: above[b] if s is above
   * thresholds[b], else below[b]. */
  _Alignas(64) float thresholds[NABLA_SEARCH_BINS];
  _Alignas(64) float below[NABLA_SEARCH_BINS];
  _Alignas(64) float above[NABLA_SEARCH_BINS];
  /* The decoded values as steps: values in rising order, the threshold after
   * each, and the index of the first value in each bin. */
  _Alignas(64) float values[16], ends[16];
  _Alignas(64) uint8_t first[NABLA_SEARCH_BINS];
  float limit;    /* base / plain scale                                  */
  int is_signed;  /* the base of a block is its peak, else its absmax    */
  float reach;    /* scaled values beyond it get the code of +-reach */
  float per_unit; /* bin = floor(s * per_unit + 16), s within reach      */
  const nabla_recipe *recipe;
} nabla_search_table;

/* Returns the table of an encoding, NULL if it has none. Thread-safe. */
const nabla_search_table *nabla_search_table_find(
    const nabla_encoding *encoding);

/* Range of absmax in which blocks are searched; all others get the plain scale.
 * In this range no candidate overflows or vanishes in the scale type, and
 * squares of values are normal numbers. */
typedef struct nabla_search_range {
  float low, high;
} nabla_search_range;

static inline nabla_search_range nabla_search_range_of(nabla_scale_type type) {
  if (type == NABLA_SCALE_F16) return (nabla_search_range){0x1p-16f, 0x1p15f};
  return (nabla_search_range){0x1p-60f, 0x1p60f};
}

/* @param block  a power of two from 16 to NABLA_SEARCH_LARGEST
 * @param scales out: as from nabla_search */
typedef void nabla_search_blocks(const nabla_search_table *table,
                                 const float *in, size_t count, size_t block,
                                 nabla_scale_type type, float *scales);

nabla_search_blocks nabla_search_blocks_scalar, nabla_search_blocks_avx2,
    nabla_search_blocks_avx512;

#endif
