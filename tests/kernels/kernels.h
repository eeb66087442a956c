/* The kernels of a spec, one for each range of M, compiled and called as a
 * program does it: workspace filled by `prepare`, weight by `prepack`. */
#ifndef NABLA_TESTS_KERNELS_KERNELS_H
#define NABLA_TESTS_KERNELS_KERNELS_H

#include "tests/kernels/jit.h"

typedef struct kernels {
  uint32_t count;
  nabla_fused_spec specs[NABLA_FUSED_CLASSES_MAX];
  nabla_kernel called[NABLA_FUSED_CLASSES_MAX];
  jit_code *code[NABLA_FUSED_CLASSES_MAX];
} kernels;

/* Of `spec`, which must not object, for `level`, whose features it gets. */
kernels kernels_create(jit *compiler, nabla_fused_spec spec,
                       const jit_level *level);
void kernels_destroy(kernels *self);

/* The kernel for M = m. */
const nabla_kernel *kernels_for(const kernels *self, uint64_t m);

/* Bytes of the workspace for M = m, and of the prepacked weight. */
uint64_t kernels_workspace(const kernels *self, uint64_t m);
uint64_t kernels_packed(const kernels *self, uint64_t m);

/* Fills the workspace (words[NABLA_ARG_WORKSPACE]) where there is one. */
void kernels_prepare(const kernels *self, const uint64_t *words);
/* Fills words[NABLA_ARG_PACKED] with what the kernel for `m` reads. */
void kernels_prepack(const kernels *self, const uint64_t *words, uint64_t m);

#endif
