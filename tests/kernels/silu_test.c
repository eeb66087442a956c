/* silu as kernels compute it, against f64: vectors and single values, for every
 * instruction set that this machine has.
 *
 *   silu_test [STEP]    every STEP-th float; 1 is all of them
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/kernels/epilogue.h"
#include "tests/kernels/jit.h"

#define COUNT ((size_t)1 << 16)

static float of_bits(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static uint32_t bits_of(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

/* In units of the last place of what f32 can hold there. */
static double error_of(float got, float x) {
  double expected = x < -745 ? -0.0 : (double)x / (1 + exp(-(double)x));
  if (isnan(x)) return isnan(got) ? 0 : INFINITY;
  if ((double)got == expected) return 0;
  if (isinf(got) || isinf(expected) || isnan(got)) return INFINITY;
  int exponent;
  (void)frexp(expected, &exponent);
  if (exponent < -125) exponent = -125; /* subnormals */
  return fabs((double)got - expected) / ldexp(1, exponent - 24);
}

/* out[i] = silu(in[i]) for i in [begin, end), in vectors or one by one. */
static void write_kernel(nabla_text *text, int vector) {
  const char *type = nabla_type_f32[vector];
  nabla_text_add(text,
                 "llvm.func internal @kernel(%%args: !llvm.ptr, %%begin: i64, "
                 "%%end: i64) {\n"
                 "  %%in = llvm.load %%args : !llvm.ptr -> !llvm.ptr\n"
                 "  %%second = llvm.getelementptr %%args[1] : (!llvm.ptr) -> "
                 "!llvm.ptr, i64\n"
                 "  %%out = llvm.load %%second : !llvm.ptr -> !llvm.ptr\n"
                 "  %%step = arith.constant %d : i64\n"
                 "  scf.for %%i = %%begin to %%end step %%step : i64 {\n"
                 "  %%from = llvm.getelementptr %%in[%%i] : (!llvm.ptr, i64) "
                 "-> !llvm.ptr, f32\n"
                 "  %%to = llvm.getelementptr %%out[%%i] : (!llvm.ptr, i64) "
                 "-> !llvm.ptr, f32\n"
                 "  %%x = llvm.load %%from {alignment = 4 : i64} : !llvm.ptr "
                 "-> %s\n",
                 vector ? (int)NABLA_LANES : 1, type);
  nabla_emit_silu(text, type, "%x", "%y");
  nabla_text_add(text,
                 "  llvm.store %%y, %%to {alignment = 4 : i64} : %s, "
                 "!llvm.ptr\n  }\n  llvm.return\n}\n",
                 type);
}

typedef struct result {
  double worst;
  float at;
  uint32_t hash; /* of all results */
} result;

static void check(jit_kernel kernel, uint64_t step, result *out) {
  float *in = malloc(COUNT * sizeof *in), *got = malloc(COUNT * sizeof *got);
  if (!in || !got) exit(1);
  uint64_t words[2] = {(uintptr_t)in, (uintptr_t)got};
  for (uint64_t first = 0; first <= UINT32_MAX; first += step * COUNT) {
    for (size_t i = 0; i < COUNT; i++) {
      uint64_t bits = first + i * step;
      in[i] = of_bits(bits > UINT32_MAX ? 0xff800000 : (uint32_t)bits);
    }
    kernel(words, 0, COUNT);
    for (size_t i = 0; i < COUNT; i++) {
      double error = error_of(got[i], in[i]);
      out->hash = out->hash * 31 + (isnan(got[i]) ? 0 : bits_of(got[i]));
      if (error <= out->worst) continue;
      out->worst = error;
      out->at = in[i];
    }
  }
  free(in);
  free(got);
}

int main(int argc, char **argv) {
  uint64_t step = argc > 1 ? strtoull(argv[1], NULL, 10) : 4099;
  const jit_level *levels;
  unsigned count = jit_levels(&levels), failures = 0;
  uint32_t hash = 0;
  jit *compiler = jit_create();
  for (unsigned i = 0; i < count; i++)
    for (int vector = 0; vector < 2; vector++) {
      result found = {0};
      nabla_text text = {0};
      write_kernel(&text, vector);
      jit_code *code = jit_compile(compiler, &levels[i], text.data, "kernel");
      check(jit_entry(code), step ? step : 1, &found);
      jit_release(code);
      nabla_text_deinit(&text);
      if (i == 0 && vector == 0) hash = found.hash;
      printf("%-18s %s: at most %.4f ulp, at %.9g; bits %08x\n", levels[i].name,
             vector ? "vector" : "scalar", found.worst, (double)found.at,
             found.hash);
      failures += found.worst > 1 || found.hash != hash;
    }
  jit_destroy(compiler);
  return failures != 0;
}
