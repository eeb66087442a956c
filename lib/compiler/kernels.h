/* Kernels alone, without a program: for plans (nabla/matmul.h), and ahead of
 * time. */
#ifndef NABLA_COMPILER_KERNELS_H
#define NABLA_COMPILER_KERNELS_H

#include <llvm-c/Core.h>

#include "lib/compiler/context.h"
#include "lib/compiler/target.h"
#include "lib/kernels/fused_kernel.h"

/* The functions of a kernel, by the suffixes of their symbols. */
#define NABLA_KERNEL_SUFFIXES {"", "_prepare", "_prepack"}
#define NABLA_KERNEL_PARTS    3u

/* One object with the kernels of a spec. */
typedef struct nabla_kernel_object {
  uint32_t count; /* of ranges of M */
  nabla_fused_spec specs[NABLA_FUSED_CLASSES_MAX];
  LLVMMemoryBufferRef object; /* the caller's: LLVMDisposeMemoryBuffer */
} nabla_kernel_object;

/* Is that function there? `part` is an index of NABLA_KERNEL_SUFFIXES. */
int nabla_kernel_has_part(const nabla_fused_spec *spec, uint32_t part);

/* Compiles `spec`, with the features of `target`. Kernel i is the symbol
 * nabla_entry_<prefix><i> and a suffix, hidden. `prefix` "": for
 * nabla_jit_link.
 * @return NABLA_UNSUPPORTED  there is no such kernel
 *         NABLA_NO_MEMORY, NABLA_CORRUPT as of nabla_codegen */
NABLA_MUST_USE nabla_status nabla_kernels_compile(nabla_context *context,
                                                  const nabla_machine *target,
                                                  const nabla_fused_spec *spec,
                                                  const char *prefix,
                                                  nabla_kernel_object *out,
                                                  nabla_diag *diag);

#endif
