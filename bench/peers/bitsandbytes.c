/* The CPU library of bitsandbytes: NF4 and FP4 in its packing for CPUs (32 rows
 * side by side), blocks of 64, scales and x in bf16; any number of rows of x.
 * Opened at run time: PEER_LIBRARY is its path, PEER_VERSION its version. */
#include <dlfcn.h>
#include <omp.h>
#include <stdio.h>
#include <string.h>

#include "peer.h"

#define STRING_OF(x) #x
#define STRING(x)    STRING_OF(x)

enum { BLOCK = 64, ROWS = 32 };

typedef void (*product)(int64_t m, int64_t n, int64_t k, const uint16_t *x,
                        const uint8_t *w, const uint16_t *scales, uint16_t *y,
                        int64_t block, int64_t stride_x, int64_t stride_y);

static struct {
  peer_problem problem;
  product call;
  uint8_t *codes;
  uint16_t *scales, *x, *y;
  size_t code_bytes, scale_count;
} self;

static void *library(void) {
  return dlopen(STRING(PEER_LIBRARY), RTLD_NOW | RTLD_LOCAL);
}

static int asks(void *lib, const char *name) {
  int (*has)(void) = NULL;
  if (lib) *(void **)&has = dlsym(lib, name);
  return has && has();
}

void peer_describe(char *out, size_t size) {
  void *lib = library();
  if (!lib)
    snprintf(out, size, "bitsandbytes cannot be opened: %s", dlerror());
  else
    snprintf(out, size, "bitsandbytes %s, avx512f %s, avx512bf16 %s",
             STRING(PEER_VERSION), asks(lib, "has_avx512f_cpu") ? "yes" : "no",
             asks(lib, "has_avx512bf16_cpu") ? "yes" : "no");
}

static int check(const peer_problem *p, void *lib, char *why, size_t size) {
  char name[64];
  snprintf(name, sizeof name, "gemv_4bit_inference_cpu_%s_bf16", p->format);
  if (lib) *(void **)&self.call = dlsym(lib, name);
  if (!self.call) {
    snprintf(why, size, "it has no %s (%s)", p->format, name);
    return 0;
  }
  if (!asks(lib, "has_avx512bf16_cpu")) {
    snprintf(why, size, "it asks for AVX512-BF16, which is not there");
    return 0;
  }
  if (p->n % ROWS || p->k % BLOCK) {
    snprintf(why, size, "it asks for N in multiples of 32 and K of 64");
    return 0;
  }
  return 1;
}

int peer_open(const peer_problem *p, uint64_t *out_bytes, char *why,
              size_t size) {
  if (!check(p, library(), why, size)) return 0;
  omp_set_num_threads((int)p->threads);
  self.problem = *p;
  self.code_bytes = (size_t)(p->n * p->k / 2);
  self.scale_count = (size_t)(p->n * p->k / BLOCK);
  self.codes = peer_memory(self.code_bytes * p->copies);
  self.scales = peer_memory(self.scale_count * 2 * p->copies);
  self.x = peer_memory((size_t)(p->m * p->k) * 2);
  self.y = peer_memory((size_t)(p->m * p->n) * 2);
  peer_fill(self.codes, self.code_bytes * p->copies);
  for (size_t i = 0; i < self.scale_count * p->copies; i++)
    self.scales[i] = peer_bf16(0.01f);
  for (size_t i = 0; i < p->m * p->k; i++)
    self.x[i] = peer_bf16((float)(i % 7) - 3);
  *out_bytes = self.code_bytes + self.scale_count * 2;
  return 1;
}

int peer_run(uint32_t copy) {
  const peer_problem *p = &self.problem;
  self.call((int64_t)p->m, (int64_t)p->n, (int64_t)p->k, self.x,
            self.codes + copy * self.code_bytes,
            self.scales + copy * self.scale_count, self.y, BLOCK, (int64_t)p->k,
            (int64_t)p->n);
  return 1;
}
