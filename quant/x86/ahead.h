/* What loops that write into the caches ask for before they get there. */
#ifndef NABLA_QUANT_X86_AHEAD_H
#define NABLA_QUANT_X86_AHEAD_H

#include <immintrin.h>
#include <stdint.h>

/* Bytes ahead of what is written: of the line to be in the second cache, and of
 * the line to be in the first, to be written. Other distances up to 109 lines
 * and one step alone were slower; without, a store waits for its line. */
enum { FAR_AHEAD = 77 * 64, NEAR_AHEAD = 29 * 64 };

static inline __attribute__((always_inline)) void ask_for_line(uintptr_t out) {
  _mm_prefetch((const char *)(out + FAR_AHEAD), _MM_HINT_T1);
  _mm_prefetch((const char *)(out + NEAR_AHEAD), _MM_HINT_T0);
}

#endif
