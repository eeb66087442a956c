/* How long compiling one fused linear layer takes: the first time in a process,
 * again, and from the object cache.
 *
 *   compile [CACHE_FOLDER]     the folder is made and used; without it the
 *                              cached row is left out */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "nabla/compiler.h"

#define RUNS 21

static double milliseconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

/* y = silu(x W^T + b) with M rows of x, "?" for any number. */
static int program_of(char *out, size_t size, const char *m) {
  return snprintf(
      out, size,
      "!w = !nabla.implicit<4096x4096xf32, #nabla.nf4<block = 64>>\n"
      "func.func @f(%%x: tensor<%sx4096xf32>, %%w: !w, %%b: tensor<4096xf32>)\n"
      "    -> tensor<%sx4096xf32> {\n"
      "  %%y = nabla.dot_general %%x, %%w contracting = [1] x [1]\n"
      "      : tensor<%sx4096xf32>, !w\n"
      "  %%i = arith.constant 0 : index\n"
      "  %%m = tensor.dim %%x, %%i : tensor<%sx4096xf32>\n"
      "  %%c = nabla.broadcast_in_dim %%b dims = [1] %s\n"
      "      : tensor<4096xf32> -> tensor<%sx4096xf32>\n"
      "  %%z = nabla.add %%y, %%c : tensor<%sx4096xf32>, tensor<%sx4096xf32>\n"
      "  %%s = nabla.silu %%z : tensor<%sx4096xf32>\n"
      "  return %%s : tensor<%sx4096xf32>\n"
      "}\n",
      m, m, m, m, *m == '?' ? "sizes(%m)" : "", m, m, m, m, m);
}

static int by_size(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Compiles once; negative on failure. */
static double compile(nabla_compiler *compiler, const char *text) {
  nabla_diag diag = NABLA_DIAG_INIT;
  nabla_executable *executable;
  double start = milliseconds();
  if (nabla_compile_text(compiler, text, strlen(text), "layer.mlir", NULL,
                         &executable, &diag)) {
    fprintf(stderr, "compile: %s\n", diag.what);
    return -1;
  }
  double time = milliseconds() - start;
  nabla_executable_close(executable);
  return time;
}

static void print(const char *m, const char *what, double ms,
                  const nabla_compile_report *r) {
  printf("%-4s %-7s %8.2f %8.2f %8.2f %8.2f %8.2f %8.2f %8.2f\n", m, what, ms,
         r->parse_ms, r->passes_ms, r->translate_ms, r->optimize_ms,
         r->codegen_ms, r->link_ms);
}

/* The first compilation, and the median of those that follow. */
static int measure(nabla_compiler *compiler, const char *m, const char *first,
                   const char *again) {
  char text[2048];
  double times[RUNS];
  program_of(text, sizeof text, m);
  double once = compile(compiler, text);
  if (once < 0) return 1;
  nabla_compile_report report = nabla_compiler_last_report(compiler);
  if (first) print(m, first, once, &report);
  for (int i = 0; i < RUNS; i++)
    if ((times[i] = compile(compiler, text)) < 0) return 1;
  report = nabla_compiler_last_report(compiler);
  qsort(times, RUNS, sizeof *times, by_size);
  print(m, again, times[RUNS / 2], &report);
  return 0;
}

int main(int argc, char **argv) {
  nabla_compiler_options options = {.cache = ""};
  nabla_compiler *compiler;
  nabla_diag diag = NABLA_DIAG_INIT;
  if (nabla_compiler_create(&options, NULL, &compiler, &diag)) {
    fprintf(stderr, "compile: %s\n", diag.what);
    return 1;
  }
  printf(
      "NF4 4096x4096, bias, silu; ms; the steps are of the last run\n"
      "%-4s %-7s %8s %8s %8s %8s %8s %8s %8s\n",
      "M", "", "total", "parse", "passes", "transl.", "optimize", "codegen",
      "link");
  int failed = measure(compiler, "1", "first", "again") ||
               measure(compiler, "?", NULL, "again");
  nabla_compiler_destroy(compiler);
  if (failed || argc < 2) return failed;
  options.cache = argv[1];
  if (nabla_compiler_create(&options, NULL, &compiler, &diag)) {
    fprintf(stderr, "compile: %s\n", diag.what);
    return 1;
  }
  failed = measure(compiler, "1", NULL, "cached");
  nabla_compiler_destroy(compiler);
  return failed;
}
