/* Limits of memory and of arithmetic; see limit.h. */
#include "bench/nabla-bench/limit.h"

#include <string.h>
#include <sys/mman.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

/* A region of the peak computes so much at least, and at most: it is scaled. */
#define LEAST_FLOPS 1e8
#define MOST_FLOPS  2e9

void *bench_pages(size_t bytes) {
  void *data = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) return NULL;
  (void)madvise(data, bytes, MADV_HUGEPAGE);
  return data;
}

void bench_unmap(void *data, size_t bytes) {
  if (data) munmap(data, bytes);
}

/* ---- memory ---- */

typedef uint64_t wide __attribute__((vector_size(64), aligned(1)));

typedef uint64_t read_function(const uint8_t *data, size_t size);

/* Four sums, so that loads are all that it waits for. Inlined into a function
 * for each instruction set: GCC could clone it, but chooses by an ifunc, whose
 * resolver crashes under TSan, which is not set up when it runs. */
static inline __attribute__((always_inline)) uint64_t
read_wide(const uint8_t *data, size_t size) {
  const wide *at = (const void *)data;
  wide sums[4] = {{0}};
  const size_t whole = size / sizeof(wide);
  for (size_t i = 0; i + 4 <= whole; i += 4) {
    __builtin_prefetch(&at[i + 32]);
    __builtin_prefetch(&at[i + 33]);
    __builtin_prefetch(&at[i + 34]);
    __builtin_prefetch(&at[i + 35]);
    for (size_t j = 0; j < 4; j++) sums[j] ^= at[i + j];
  }
  uint64_t result = 0;
  for (size_t j = 0; j < 4; j++)
    for (size_t i = 0; i < 8; i++) result ^= sums[j][i];
  return result;
}

static uint64_t read_any(const uint8_t *data, size_t size) {
  return read_wide(data, size);
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) static uint64_t read_avx2(const uint8_t *data,
                                                          size_t size) {
  return read_wide(data, size);
}

__attribute__((target("avx512f"))) static uint64_t read_avx512(
    const uint8_t *data, size_t size) {
  return read_wide(data, size);
}

static read_function *fastest_read(void) {
  if (__builtin_cpu_supports("avx512f")) return read_avx512;
  return __builtin_cpu_supports("avx2") ? read_avx2 : read_any;
}
#else
static read_function *fastest_read(void) { return read_any; }
#endif

static void read_part(void *context, uint32_t worker, uint32_t workers) {
  bench_limit *self = context;
  const bench_weights *w = self->weights;
  read_function *const read = fastest_read();
  uint64_t sum = 0;
  for (uint32_t i = 0; i < w->area_count; i++) {
    uint64_t begin, end;
    nabla_pool_split(w->areas[i].bytes, workers, worker, &begin, &end);
    sum ^= read(w->areas[i].base + self->copy * w->areas[i].stride + begin,
                (size_t)(end - begin));
  }
  /* by several threads: any will do */
  __atomic_store_n(&self->sink, sum, __ATOMIC_RELAXED);
}

nabla_status bench_limit_read(void *context, uint64_t first, uint32_t count,
                              double *out, nabla_diag *diag) {
  bench_limit *self = context;
  (void)diag;
  for (uint32_t i = 0; i < count; i++) {
    /* not the copy that the kernel reads in the same turn */
    self->copy =
        (first + i + self->weights->copies / 2) % self->weights->copies;
    const double start = bench_now(self->threads);
    nabla_pool_run(self->pool, read_part, self);
    out[i] = bench_now(self->threads) - start;
  }
  return NABLA_OK;
}

/* ---- arithmetic ---- */

/* Twelve chains of dependent instructions; `repeats` times all of them. */
#define CHAINS 12

typedef struct peak {
  const char *instruction;
  double flops; /* of one instruction */
  void (*run)(uint64_t repeats);
} peak;

#if defined(__x86_64__)
/* Variables, not an array: one that stays in memory would be waited for. */
/* clang-format off */
#define LOOP(type, zero, step)                                             \
  type a = zero, c = zero, d = zero, e = zero, f = zero, g = zero;         \
  type h = zero, i = zero, j = zero, k = zero, l = zero, m = zero;         \
  for (uint64_t n = 0; n < repeats; n++) {                                 \
    step(a); step(c); step(d); step(e); step(f); step(g);                  \
    step(h); step(i); step(j); step(k); step(l); step(m);                  \
  }
/* clang-format on */

/* Written as instructions: a compiler would fold what is computed here. */
#define FMA(x)  __asm__ volatile("vfmadd231ps %1, %1, %0" : "+v"(x) : "v"(b))
#define BF16(x) __asm__ volatile("vdpbf16ps %1, %1, %0" : "+v"(x) : "v"(b))
#define VNNI(x) __asm__ volatile("vpdpbusd %1, %1, %0" : "+v"(x) : "v"(b))

__attribute__((target("avx512f"))) static void fma_512(uint64_t repeats) {
  const __m512 b = _mm512_set1_ps(0.5f);
  LOOP(__m512, _mm512_setzero_ps(), FMA);
}

__attribute__((target("avx,fma"))) static void fma_256(uint64_t repeats) {
  const __m256 b = _mm256_set1_ps(0.5f);
  LOOP(__m256, _mm256_setzero_ps(), FMA);
}

__attribute__((target("avx512f,avx512bf16"))) static void bf16_512(
    uint64_t repeats) {
  const __m512i b = _mm512_set1_epi32(0x3f003f00);
  LOOP(__m512, _mm512_setzero_ps(), BF16);
}

__attribute__((target("avx512f,avx512vnni"))) static void vnni_512(
    uint64_t repeats) {
  const __m512i b = _mm512_set1_epi32(0x01010101);
  LOOP(__m512i, _mm512_setzero_si512(), VNNI);
}

static int is(const char *isa, const char *name) { return !strcmp(isa, name); }

/* The fastest that there is. Where bf16 dot products are slower than FMA, and
 * bf16 could be computed in f32, they are the peak all the same: it is what
 * kernels of these numerics use. */
static const peak *peak_of(nabla_numerics numerics, const char *isa) {
  static const peak fma512 = {"vfmadd231ps zmm", 32, fma_512},
                    fma256 = {"vfmadd231ps ymm", 16, fma_256},
                    bf16 = {"vdpbf16ps zmm", 64, bf16_512},
                    vnni = {"vpdpbusd zmm", 128, vnni_512};
  const int all = is(isa, "best") || is(isa, "no-amx");
  const int wide512 = all || is(isa, "avx512");
  if (all && numerics == NABLA_NUMERICS_BF16 &&
      __builtin_cpu_supports("avx512bf16"))
    return &bf16;
  if (all && numerics == NABLA_NUMERICS_INT8 &&
      __builtin_cpu_supports("avx512vnni"))
    return &vnni;
  if (numerics == NABLA_NUMERICS_INT8) return NULL;
  if (wide512 && __builtin_cpu_supports("avx512f")) return &fma512;
  if (!is(isa, "portable") && __builtin_cpu_supports("fma")) return &fma256;
  return NULL;
}
#else
static const peak *peak_of(nabla_numerics numerics, const char *isa) {
  (void)numerics, (void)isa;
  return NULL;
}
#endif

const char *bench_limit_instruction(nabla_numerics numerics, const char *isa) {
  const peak *p = peak_of(numerics, isa);
  return p ? p->instruction : NULL;
}

static void compute_part(void *context, uint32_t worker, uint32_t workers) {
  bench_limit *self = context;
  (void)worker, (void)workers; /* each its share, see below */
  peak_of(self->numerics, self->isa)->run(self->repeats);
}

nabla_status bench_limit_peak(void *context, uint64_t first, uint32_t count,
                              double *out, nabla_diag *diag) {
  bench_limit *self = context;
  const peak *p = peak_of(self->numerics, self->isa);
  (void)first;
  if (!p)
    return nabla_fail(diag, NABLA_UNSUPPORTED,
                      "no instruction that this program knows");
  const double flops = self->flops < LEAST_FLOPS  ? LEAST_FLOPS
                       : self->flops > MOST_FLOPS ? MOST_FLOPS
                                                  : self->flops;
  self->repeats = (uint64_t)(flops / p->flops / CHAINS / self->threads) + 1;
  for (uint32_t i = 0; i < count; i++) {
    const double start = bench_now(self->threads);
    nabla_pool_run(self->pool, compute_part, self);
    const double done =
        (double)self->repeats * CHAINS * p->flops * self->threads;
    out[i] = (bench_now(self->threads) - start) * self->flops / done;
  }
  return NABLA_OK;
}
