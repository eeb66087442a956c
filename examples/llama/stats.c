/* --stats: speed, memory, and the share of the read limit. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "llama.h"

double now_ms(void) {
  struct timespec now;
  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

/* Memory that this process holds, mapped files counted. */
static double resident_bytes(void) {
  unsigned long long total = 0, resident = 0;
  FILE *file = fopen("/proc/self/statm", "r");
  if (file && fscanf(file, "%llu %llu", &total, &resident) != 2) resident = 0;
  if (file) (void)fclose(file);
  return (double)resident * (double)sysconf(_SC_PAGESIZE);
}

enum { READ_BYTES = 1 << 28 };
static volatile uint64_t sums[256][8]; /* a cache line for each thread */

static void read_part(void *data, uint32_t worker, uint32_t workers) {
  uint64_t from, to, sum = 0;
  const uint64_t *words = data;
  nabla_pool_split(READ_BYTES / 64, workers, worker, &from, &to);
  for (uint64_t i = from * 8; i < to * 8; i++) sum += words[i];
  sums[worker % 256][0] = sum;
}

/* Bytes a second that all threads read: nothing can generate faster than the
 * weights are read. */
static double read_limit(const engine *e) {
  double best = 1e30;
  void *data = aligned_alloc(64, READ_BYTES);
  if (!data) return 0;
  memset(data, 1, READ_BYTES);
  for (int i = 0; i < 4; i++) {
    const double start = now_ms();
    nabla_pool_run(e->environment.pool, read_part, data);
    const double took = now_ms() - start;
    if (took < best) best = took;
  }
  free(data);
  return (double)READ_BYTES / best * 1e3;
}

void print_stats(const engine *e, const speed *v) {
  const double resident = resident_bytes(), limit = read_limit(e),
               bytes = (double)e->weight_bytes,
               rate = (double)v->generated / (v->generated_ms + 1e-9) * 1e3;
  fprintf(stderr, "program    %.0f ms\n", e->program_ms);
  fprintf(stderr, "prompt     %zu tokens, %.1f tokens/s\n", v->prompt,
          (double)v->prompt / (v->prompt_ms + 1e-9) * 1e3);
  fprintf(stderr, "generation %zu tokens, %.1f tokens/s\n", v->generated, rate);
  fprintf(stderr, "weights    %.1f MiB, cache %.1f MiB, resident %.1f MiB\n",
          bytes / 0x1p20, (double)e->cache_bytes / 0x1p20, resident / 0x1p20);
  fprintf(stderr, "read limit %.1f GB/s, %.2f of it\n", limit / 1e9,
          limit > 0 ? rate * bytes / limit : 0);
}
