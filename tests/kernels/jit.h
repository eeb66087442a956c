/* Kernels from their MLIR text to code in this process, for tests and
 * benchmarks: the passes that the pipeline has for them, and nothing else. */
#ifndef NABLA_TESTS_KERNELS_JIT_H
#define NABLA_TESTS_KERNELS_JIT_H

#include "lib/kernels/fused_kernel.h"

/* What is compiled for: a CPU by LLVM's name and the features of it that the
 * generator may use; `triple`: of another machine than this one, for assembly
 * alone, whose target the caller has initialized. */
typedef struct jit_level {
  const char *name, *cpu, *features, *triple;
} jit_level;

/* Those that this machine can run; the last is the machine itself. */
unsigned jit_levels(const jit_level **out);

/* The sets that kernels differ by, whatever this machine has: for their text.
 */
unsigned jit_levels_all(const jit_level **out);

/* Appends text to the file that the variable NABLA_TEST_KERNEL_TEXT names, so
 * that the kernels of two builds can be compared (scripts/compare-kernels).
 * Returns whether the variable is set. */
int jit_keep_text(const char *text);

typedef void (*jit_kernel)(const uint64_t *arguments, uint64_t begin,
                           uint64_t end);

typedef struct jit jit;
typedef struct jit_code jit_code;

jit *jit_create(void); /* exits when LLVM does not start */
void jit_destroy(jit *self);

/* Compiles functions in text, of which `symbol` is a kernel. Exits, with the
 * text shown, when that fails. */
jit_code *jit_compile(jit *self, const jit_level *level, const char *text,
                      const char *symbol);
jit_code *jit_compile_all(jit *self, const jit_level *level, const char *text,
                          const char *const *symbols, unsigned count);
jit_kernel jit_entry(const jit_code *code); /* of the first symbol */
/* NULL when `symbol` was not named. */
jit_kernel jit_find(const jit_code *code, const char *symbol);
void jit_release(jit_code *code);

/* The same as assembly, NUL-terminated, to be freed; or on standard output. */
char *jit_assembly(jit *self, const jit_level *level, const char *text,
                   const char *symbol);
void jit_print_assembly(jit *self, const jit_level *level, const char *text,
                        const char *symbol);

/* Milliseconds that the last jit_compile took: passes and translation of MLIR,
 * optimization and code generation of LLVM. */
void jit_times(const jit *self, double *mlir, double *llvm);

#endif
