/* Choosing the next token, and figures of --stats. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "llama.h"

static int64_t greatest(const float *logits, uint64_t count) {
  uint64_t best = 0;
  for (uint64_t i = 1; i < count; i++)
    if (logits[i] > logits[best]) best = i;
  return (int64_t)best;
}

/* SplitMix64, as a number in [0, 1). */
static double draw(uint64_t *state) {
  uint64_t x = *state += 0x9e3779b97f4a7c15u;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return (double)((x ^ x >> 31) >> 11) * 0x1p-53;
}

static const float *sorted_by;

static int by_logit(const void *a, const void *b) {
  const float x = sorted_by[*(const uint32_t *)a],
              y = sorted_by[*(const uint32_t *)b];
  return x < y ? 1 : x > y ? -1 : 0;
}

int64_t sample(const settings *s, const float *logits, uint64_t count,
               uint64_t *random, uint32_t *order) {
  const int64_t best = greatest(logits, count);
  if (s->temperature <= 0) return best;
  double sum = 0, kept = 0;
  for (uint64_t i = 0; i < count; i++) order[i] = (uint32_t)i;
  sorted_by = logits;
  qsort(order, count, sizeof *order, by_logit);
  for (uint64_t i = 0; i < count; i++)
    sum += exp((double)(logits[i] - logits[best]) / s->temperature);
  uint64_t last = 0;
  for (; last < count && kept < s->top_p * sum; last++)
    kept += exp((double)(logits[order[last]] - logits[best]) / s->temperature);
  double at = draw(random) * kept;
  for (uint64_t i = 0; i < last; i++) {
    at -= exp((double)(logits[order[i]] - logits[best]) / s->temperature);
    if (at < 0) return order[i];
  }
  return best;
}

double now_ms(void) {
  struct timespec now;
  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

uint64_t resident_bytes(void) {
  unsigned long long total = 0, resident = 0;
  FILE *file = fopen("/proc/self/statm", "r");
  if (file && fscanf(file, "%llu %llu", &total, &resident) != 2) resident = 0;
  if (file) (void)fclose(file);
  return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

typedef struct reading {
  const uint8_t *data;
  uint64_t bytes;
  uint64_t sums[256][8]; /* a cache line for each thread */
} reading;

static void read_part(void *context, uint32_t worker, uint32_t workers) {
  reading *r = context;
  uint64_t from, to, sum = 0;
  nabla_pool_split(r->bytes / 64, workers, worker, &from, &to);
  const uint64_t *words = (const uint64_t *)(const void *)r->data;
  for (uint64_t i = from * 8; i < to * 8; i++) sum += words[i];
  r->sums[worker % 256][0] = sum;
}

double read_limit(const engine *e) {
  enum { BYTES = 1 << 28 };
  static reading r;
  double best = 1e30;
  void *data = aligned_alloc(64, BYTES);
  if (!data) return 0;
  memset(data, 1, BYTES);
  r.data = data;
  r.bytes = BYTES;
  for (int i = 0; i < 4; i++) {
    const double start = now_ms();
    nabla_pool_run(e->environment.pool, read_part, &r);
    const double took = now_ms() - start;
    if (took < best) best = took;
  }
  free(data);
  return (double)BYTES / best * 1e3;
}
