/* Reads and writes of given sizes, side by side; see traffic.h. */
#include "bench/nabla-bench/traffic.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define LINE 64

typedef uint64_t wide __attribute__((vector_size(64), aligned(1)));

/* How many lines a part reads and writes. */
typedef struct part {
  const wide *from;
  wide *to;
  uint64_t reads, writes;
} part;

#define STEP 8 /* lines */

/* Reads `reads` and writes `writes` lines, evenly mixed in steps of the longer
 * of both; shares are numbers with 32 bits behind the point. `STORE(address,
 * value)`. */
#define MIX(STORE)                                                        \
  wide sums[4] = {{0}};                                                   \
  const uint64_t longer = p->reads > p->writes ? p->reads : p->writes;    \
  const uint64_t read_share = (p->reads << 32) / (longer + !longer);      \
  const uint64_t write_share = (p->writes << 32) / (longer + !longer);    \
  uint64_t read = 0, written = 0;                                         \
  for (uint64_t at = STEP; at <= longer; at += STEP) {                    \
    const uint64_t reads = at * read_share >> 32;                         \
    const uint64_t writes = at * write_share >> 32;                       \
    for (; read + 4 <= reads; read += 4)                                  \
      for (size_t j = 0; j < 4; j++) {                                    \
        __builtin_prefetch(&p->from[read + j + 32]);                      \
        sums[j] ^= p->from[read + j];                                     \
      }                                                                   \
    for (; written < writes; written++) STORE(&p->to[written], sums[0]);  \
  }                                                                       \
  for (; read < p->reads; read++) sums[0] ^= p->from[read];               \
  for (; written < p->writes; written++) STORE(&p->to[written], sums[0]); \
  uint64_t result = 0;                                                    \
  for (size_t j = 0; j < 4; j++)                                          \
    for (size_t i = 0; i < 8; i++) result ^= sums[j][i];                  \
  return result

#define PLAIN(address, value) (*(address) = (value))

static uint64_t mix_any(const part *p) { MIX(PLAIN); }

#if defined(__x86_64__)
#define STREAM(address, value) \
  _mm512_stream_si512((void *)(address), (__m512i)(value))

__attribute__((target("avx2"))) static uint64_t mix_avx2(const part *p) {
  MIX(PLAIN);
}

__attribute__((target("avx512f"))) static uint64_t mix_avx512(const part *p) {
  MIX(PLAIN);
}

__attribute__((target("avx512f"))) static uint64_t mix_past(const part *p) {
  MIX(STREAM);
}

static uint64_t mix(const part *p, int past_caches) {
  if (__builtin_cpu_supports("avx512f"))
    return past_caches ? mix_past(p) : mix_avx512(p);
  return __builtin_cpu_supports("avx2") ? mix_avx2(p) : mix_any(p);
}
#else
static uint64_t mix(const part *p, int past_caches) {
  (void)past_caches; /* plain stores are all that there is */
  return mix_any(p);
}
#endif

static void run_part(void *context, uint32_t worker, uint32_t workers) {
  bench_traffic *self = context;
  uint64_t read_begin, read_end, write_begin, write_end;
  nabla_pool_split(self->reads / LINE, workers, worker, &read_begin, &read_end);
  nabla_pool_split(self->writes / LINE, workers, worker, &write_begin,
                   &write_end);
  const part p = {(const wide *)(const void *)self->from + read_begin,
                  (wide *)(void *)self->to + write_begin, read_end - read_begin,
                  write_end - write_begin};
  /* by several threads: any will do */
  __atomic_store_n(&self->sink, mix(&p, self->past_caches), __ATOMIC_RELAXED);
}

nabla_status bench_traffic_run(void *context, uint64_t first, uint32_t count,
                               double *out, nabla_diag *diag) {
  bench_traffic *self = context;
  (void)first, (void)diag;
  for (uint32_t i = 0; i < count; i++) {
    const double start = bench_now(self->threads);
    nabla_pool_run(self->pool, run_part, self);
    out[i] = bench_now(self->threads) - start;
  }
  return NABLA_OK;
}
