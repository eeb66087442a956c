/* Inside quant/: the search for scales and zero points of least squared
 * error (docs/FORMAT.md, E7). The format stays: every reader decodes the
 * result. Functions are defined in quant/search/search.c. */
#ifndef NABLA_QUANT_CODEC_SEARCH_H
#define NABLA_QUANT_CODEC_SEARCH_H

#include "nabla/encoding.h"

/* What a search is given and gives: whole blocks of f32 (the last may be
 * short). */
typedef struct nabla_search {
  const nabla_format
      *format;          /* PER_BLOCK: encoding, block, scale, zero_point */
  const float *in;      /* count values                               */
  const float *weights; /* NULL, or count weights: finite, >= 0       */
  size_t count;
  float *scales; /* out: one per block, for the round stage as they are
                    (from_peaks 0). Rounding to the scale type changes none,
                    but those that the type cannot hold                    */
  float *zeros;  /* out: z in 0..levels per block, as a number; NULL
                    without zero points                                    */
} nabla_search;

/* Chooses scales whose squared error, with the codes that the ordinary rule
 * chooses from them (E2, k = 1/scale), is never above that of the scales that
 * no search would give, and mostly is well below. Blocks outside of about
 * 2^-60 .. 2^60 get the latter; blocks with a value that is not finite get a
 * scale that is not. The result is the same for every instruction set.
 * Thread-safe, allocates nothing. */
void nabla_search_run(const nabla_search *search, nabla_isa isa);

#endif
