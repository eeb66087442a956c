/* Prefetching of the lines to which a loop will store, for loops that store
 * into the caches. */
#ifndef NABLA_QUANT_X86_AHEAD_H
#define NABLA_QUANT_X86_AHEAD_H

#include <immintrin.h>
#include <stdint.h>

/* Prefetch distances in bytes: of the line to be fetched into the second cache,
 * and of the line to be fetched into the first for writing. Other distances up
 * to 109 lines, and a single prefetch, were slower; without prefetch a store
 * waits for its line. */
enum { FAR_AHEAD = 77 * 64, NEAR_AHEAD = 29 * 64 };

static inline __attribute__((always_inline)) void ask_for_line(uintptr_t out) {
  _mm_prefetch((const char *)(out + FAR_AHEAD), _MM_HINT_T1);
  _mm_prefetch((const char *)(out + NEAR_AHEAD), _MM_HINT_T0);
}

#endif
