/* OpenBLAS: dense f32, y = x W^T. Opened at run time: PEER_LIBRARY is its path,
 * and PEER_PREFIX and PEER_SUFFIX what its names have around them. */
#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "peer.h"

#define STRING_OF(x) #x
#define STRING(x)    STRING_OF(x)
#define NAME(x)      STRING(PEER_PREFIX) x STRING(PEER_SUFFIX)

/* Its numbers: row-major, no transposition, transposition. */
enum { ROWS = 101, PLAIN = 111, TRANSPOSED = 112 };

typedef PEER_INTEGER integer;

typedef void (*sgemm)(int, int, int, integer, integer, integer, float,
                      const float *, integer, const float *, integer, float,
                      float *, integer);
typedef void (*sgemv)(int, int, integer, integer, float, const float *, integer,
                      const float *, integer, float, float *, integer);

static struct {
  peer_problem problem;
  sgemm gemm;
  sgemv gemv;
  float *weights, *x, *y;
} self;

/* Whether a core of OpenBLAS has kernels for AVX-512. */
static int is_avx512(const char *core) {
  static const char *const cores[] = {"SkylakeX", "Cooperlake",
                                      "SapphireRapids"};
  for (size_t i = 0; i < sizeof cores / sizeof *cores; i++)
    if (!strcmp(core, cores[i])) return 1;
  return 0;
}

/* As OpenBLAS chooses by the CPU: OPENBLAS_CORETYPE of the shell, which could
 * hide AVX-512, is ignored. Where OpenBLAS does not know a CPU with AVX-512 and
 * takes kernels of an older one, those of SkylakeX are asked for. */
static void *library(void) {
  unsetenv("OPENBLAS_CORETYPE");
  void *lib = dlopen(STRING(PEER_LIBRARY), RTLD_NOW | RTLD_LOCAL);
#if defined(__x86_64__)
  char *(*core)(void) = NULL;
  if (lib) *(void **)&core = dlsym(lib, NAME("openblas_get_corename"));
  if (core && __builtin_cpu_supports("avx512f") && !is_avx512(core())) {
    dlclose(lib);
    setenv("OPENBLAS_CORETYPE", "SkylakeX", 1);
    lib = dlopen(STRING(PEER_LIBRARY), RTLD_NOW | RTLD_LOCAL);
  }
#endif
  return lib;
}

void peer_describe(char *out, size_t size) {
  void *lib = library();
  char *(*config)(void) = NULL, *(*core)(void) = NULL;
  if (lib) {
    *(void **)&config = dlsym(lib, NAME("openblas_get_config"));
    *(void **)&core = dlsym(lib, NAME("openblas_get_corename"));
  }
  if (!config || !core)
    snprintf(out, size, "OpenBLAS cannot be opened: %s", dlerror());
  else
    snprintf(out, size, "%s, core %s", config(), core());
}

int peer_open(const peer_problem *p, uint64_t *out_bytes, char *why,
              size_t size) {
  void *lib = library();
  void (*set_threads)(int) = NULL;
  if (strcmp(p->format, "f32")) {
    snprintf(why, size, "it has no %s", p->format);
    return 0;
  }
  if (lib) {
    *(void **)&self.gemm = dlsym(lib, NAME("cblas_sgemm"));
    *(void **)&self.gemv = dlsym(lib, NAME("cblas_sgemv"));
    *(void **)&set_threads = dlsym(lib, NAME("openblas_set_num_threads"));
  }
  if (!self.gemm || !self.gemv || !set_threads) {
    snprintf(why, size, "it cannot be opened: %s", dlerror());
    return 0;
  }
  set_threads((int)p->threads);
  const size_t count = (size_t)(p->n * p->k);
  self.problem = *p;
  self.weights = peer_memory(count * p->copies * sizeof(float));
  self.x = peer_memory((size_t)(p->m * p->k) * sizeof(float));
  self.y = peer_memory((size_t)(p->m * p->n) * sizeof(float));
  peer_fill_floats(self.x, (size_t)(p->m * p->k));
  peer_fill_floats(self.weights, count);
  for (uint32_t i = 1; i < p->copies; i++)
    memcpy(self.weights + i * count, self.weights, count * sizeof(float));
  *out_bytes = count * sizeof(float);
  return 1;
}

int peer_run(uint32_t copy) {
  const peer_problem *p = &self.problem;
  const integer n = (integer)p->n, k = (integer)p->k, m = (integer)p->m;
  const float *w = self.weights + copy * (size_t)(p->n * p->k);
  if (m == 1)
    self.gemv(ROWS, PLAIN, n, k, 1, w, k, self.x, 1, 0, self.y, 1);
  else
    self.gemm(ROWS, PLAIN, TRANSPOSED, m, n, k, 1, self.x, k, w, k, 0, self.y,
              n);
  return 1;
}
