/* What the programs nabla-peer-NAME have in common: the conversation of
 * peer.h. */
#include "peer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define MOST_RUNS 4096

static double now(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

void *peer_memory(size_t bytes) {
  void *data = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) {
    printf("no memory for %zu bytes\n", bytes);
    exit(0);
  }
  (void)madvise(data, bytes, MADV_HUGEPAGE);
  return data;
}

void peer_fill(void *data, size_t bytes) {
  uint64_t seed = 1;
  for (size_t at = 0; at < bytes; at += 8) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    uint64_t value = seed ^ seed >> 29;
    memcpy((char *)data + at, &value, bytes - at < 8 ? bytes - at : 8);
  }
}

void peer_fill_floats(float *out, size_t count) {
  uint64_t seed = 2;
  for (size_t i = 0; i < count; i++) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    out[i] = (float)((double)(seed >> 40) * 0x1p-23 - 1.0);
  }
}

uint16_t peer_bf16(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return (uint16_t)(bits >> 16);
}

static int number(const char *text, uint64_t most, uint64_t *out) {
  char *end;
  *out = strtoull(text, &end, 10);
  return *text >= '0' && *text <= '9' && !*end && *out >= 1 && *out <= most;
}

static int serve(const peer_problem *p) {
  static double times[MOST_RUNS];
  const clockid_t clock =
      p->threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC;
  char line[128];
  while (fgets(line, sizeof line, stdin)) {
    unsigned long long first;
    unsigned count;
    if (sscanf(line, "run %llu %u", &first, &count) != 2 || count > MOST_RUNS)
      return 2;
    for (unsigned i = 0; i < count; i++) {
      const uint32_t copy = (uint32_t)((first + i) % p->copies);
      const double start = now(clock);
      if (!peer_run(copy)) return 1;
      times[i] = now(clock) - start;
    }
    for (unsigned i = 0; i < count; i++)
      printf("%.0f%c", times[i], i + 1 == count ? '\n' : ' ');
    if (fflush(stdout)) return 1;
  }
  return 0;
}

int main(int argc, char **argv) {
  char text[512] = "", why[256] = "it does not say why";
  uint64_t threads, copies, bytes;
  peer_problem p = {0};
  if (argc == 2 && !strcmp(argv[1], "--version")) {
    peer_describe(text, sizeof text);
    return puts(text) < 0;
  }
  if (argc != 7 || !number(argv[2], 1u << 30, &p.n) ||
      !number(argv[3], 1u << 30, &p.k) || !number(argv[4], 1u << 30, &p.m) ||
      !number(argv[5], 256, &threads) || !number(argv[6], 1u << 20, &copies)) {
    (void)fprintf(stderr, "usage: %s FORMAT N K M THREADS COPIES\n", argv[0]);
    return 2;
  }
  p.format = argv[1];
  p.threads = (uint32_t)threads, p.copies = (uint32_t)copies;
  if (!peer_open(&p, &bytes, why, sizeof why)) {
    printf("no %s\n", why);
    return 0;
  }
  peer_describe(text, sizeof text);
  printf("ready %llu %s\n", (unsigned long long)bytes, text);
  return fflush(stdout) ? 1 : serve(&p);
}
