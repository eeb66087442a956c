/* GEMV with packed weights, against a plain read of the same bytes.
 *
 *   gemv [--assembly] [--transposed] [--level=NAME]
 *        [ENCODING [N [K [M [BLOCK]]]]]
 *
 * ENCODING is nf4, fp4, int8 or int8-rows; NAME a level of tests/kernels/jit.h.
 * y = x W^T on one thread, weights in the bitsandbytes layout in place. Copies
 * of the weight rotate through at least 400 MB, so that no cache holds them;
 * kernel and read take turns on the same bytes. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "tests/kernels/kernels.h"

#define ROTATED ((size_t)400 << 20)
#define ROUNDS  5

typedef struct weights {
  uint8_t *codes;
  float *scales;
} weights;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

typedef uint64_t wide __attribute__((vector_size(64), aligned(8)));

/* Four sums, so that loads are all that it waits for. */
__attribute__((target_clones("avx512f", "avx2", "default"))) static uint64_t
read_all(const void *data, size_t size) {
  const wide *at = data;
  wide sums[4] = {{0}};
  for (size_t i = 0; i + 4 <= size / sizeof(wide); i += 4) {
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

static void *pages(size_t size) {
  void *data = mmap(NULL, size, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) {
    perror("mmap");
    exit(1);
  }
  return data;
}

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void report(const char *name, double *seconds, size_t count,
                   double bytes, const double *reference) {
  qsort(seconds, count, sizeof *seconds, ascending);
  double median = seconds[count / 2], best = seconds[0];
  printf("%-8s median %8.1f us %6.2f GB/s   best %8.1f us %6.2f GB/s", name,
         median * 1e6, bytes / median * 1e-9, best * 1e6, bytes / best * 1e-9);
  if (reference)
    printf("   of read: median %.2f, best %.2f", reference[count / 2] / median,
           reference[0] / best);
  printf("\n");
}

/* Kernel and read over `copies` weights, in turns. */
static void measure(const nabla_fused_spec *spec, const kernels *compiled,
                    uint64_t m) {
  const nabla_kernel *kernel = kernels_for(compiled, m);
  nabla_packed_size size;
  if (nabla_format_size(&spec->format, spec->storage_elements, &size, NULL))
    exit(1);
  size_t bytes = (size_t)size.code_bytes + (size_t)size.scales * 4;
  size_t copies = ROTATED / bytes + 1, count = copies * ROUNDS, at = 0;
  weights *all = calloc(copies, sizeof *all);
  double *times = calloc(count, sizeof *times);
  double *reads = calloc(count, sizeof *reads);
  float *x = pages((size_t)(m * spec->k * 4));
  float *y = pages((size_t)(m * spec->n * 4));
  void *workspace = pages((size_t)kernels_workspace(compiled, m) + 1);
  uint64_t seed = 1, sink = 0;
  for (uint64_t i = 0; i < m * spec->k; i++) x[i] = (float)(i % 7) - 3;
  for (size_t i = 0; i < copies; i++) {
    all[i].codes = pages((size_t)size.code_bytes);
    all[i].scales = pages((size_t)size.scales * 4);
    for (size_t j = 0; j + 8 <= size.code_bytes; j += 8) {
      seed = seed * 6364136223846793005u + 1442695040888963407u;
      memcpy(all[i].codes + j, &seed, 8);
    }
    for (size_t j = 0; j < size.scales; j++) all[i].scales[j] = 0.01f;
  }
  for (int round = 0; round < ROUNDS; round++)
    for (size_t i = 0; i < copies; i++, at++) {
      const weights *w = &all[i], *other = &all[(i + copies / 2) % copies];
      uint64_t words[NABLA_FUSED_WORDS] = {(uintptr_t)x, (uintptr_t)y, m,
                                           (uintptr_t)w->codes,
                                           (uintptr_t)w->scales};
      words[NABLA_FUSED_WORKSPACE] = (uintptr_t)workspace;
      double start = now();
      kernels_prepare(compiled, words);
      kernel->run(words, 0, spec->n);
      double middle = now();
      sink ^= read_all(other->codes, (size_t)size.code_bytes);
      sink ^= read_all(other->scales, (size_t)size.scales * 4);
      reads[at] = now() - middle;
      times[at] = middle - start;
    }
  report("read", reads, count, (double)bytes, NULL);
  report("kernel", times, count, (double)bytes, reads);
  printf("(%zu weights of %zu bytes, check %" PRIx64 ")\n", copies, bytes,
         sink & 15);
}

typedef struct options {
  int assembly, transposed;
  const jit_level *level;
  const char *encoding;
  uint64_t numbers[4]; /* N, K, M, block */
} options;

static int parse(int argc, char **argv, options *out) {
  const jit_level *levels;
  unsigned count = jit_levels(&levels), at = 0;
  *out = (options){.level = &levels[count - 1],
                   .encoding = "nf4",
                   .numbers = {4096, 4096, 1, 64}};
  for (int i = 1; i < argc; i++) {
    if (!strcmp(argv[i], "--assembly")) {
      out->assembly = 1;
    } else if (!strcmp(argv[i], "--transposed")) {
      out->transposed = 1;
    } else if (!strncmp(argv[i], "--level=", 8)) {
      out->level = NULL;
      for (unsigned j = 0; j < count; j++)
        if (!strcmp(levels[j].name, argv[i] + 8)) out->level = &levels[j];
    } else if (at == 0) {
      out->encoding = argv[i];
      at++;
    } else if (at <= 4) {
      out->numbers[at++ - 1] = strtoull(argv[i], NULL, 10);
    }
  }
  return out->level != NULL;
}

static nabla_fused_spec spec_of(const options *o) {
  uint64_t n = o->numbers[0], k = o->numbers[1];
  int rows = !strcmp(o->encoding, "int8-rows");
  nabla_fused_spec spec = {
      .m_min = o->numbers[2],
      .m_max = o->numbers[2],
      .storage_elements = n * k,
      .n = n,
      .k = k,
      .stride_n = o->transposed ? 1 : k,
      .stride_k = o->transposed ? n : 1,
      .x_type = NABLA_DTYPE_F32,
      .y_type = NABLA_DTYPE_F32,
      .w_type = NABLA_DTYPE_F32,
      .features = nabla_features_parse(o->level->features)};
  spec.format = (nabla_format){
      .encoding = nabla_encoding_find(rows ? "int8" : o->encoding),
      .granularity = rows ? NABLA_PER_ROW : NABLA_PER_BLOCK,
      .block = rows ? k : o->numbers[3]};
  return spec;
}

static void compile_and_measure(jit *compiler, const options *o,
                                const nabla_fused_spec *spec) {
  double mlir, llvm;
  kernels compiled = {0};
  for (int i = 0; i < 5; i++) { /* the last is warm */
    kernels_destroy(&compiled);
    compiled = kernels_create(compiler, *spec, o->level);
  }
  jit_times(compiler, &mlir, &llvm);
  printf("%s%s, N %" PRIu64 " K %" PRIu64 " M %" PRIu64
         ", %s, kernel '%s', one thread; compiled in %.1f + %.1f ms (MLIR + "
         "LLVM)\n",
         o->encoding, o->transposed ? " transposed" : "", spec->n, spec->k,
         o->numbers[2], o->level->name, nabla_fused_body(&compiled.specs[0]),
         mlir, llvm);
  measure(spec, &compiled, o->numbers[2]);
  kernels_destroy(&compiled);
}

static void print_assembly(jit *compiler, const options *o,
                           const nabla_fused_spec *spec) {
  nabla_fused_spec parts[NABLA_FUSED_CLASSES_MAX];
  nabla_text text = {0};
  (void)nabla_fused_classes(spec, parts);
  nabla_fused_emit(&parts[0], "kernel", &text);
  if (!text.failed) jit_print_assembly(compiler, o->level, text.data, "kernel");
  nabla_text_deinit(&text);
}

int main(int argc, char **argv) {
  options o;
  if (!parse(argc, argv, &o)) {
    (void)fprintf(stderr, "gemv: this machine has no such level\n");
    return 2;
  }
  nabla_fused_spec spec = spec_of(&o);
  const char *objection = nabla_fused_objection(&spec);
  if (objection) {
    (void)fprintf(stderr, "gemv: %s\n", objection);
    return 2;
  }
  jit *compiler = jit_create();
  if (o.assembly)
    print_assembly(compiler, &o, &spec);
  else
    compile_and_measure(compiler, &o, &spec);
  jit_destroy(compiler);
  return 0;
}
