/* The family of a CPU, which kernels choose prefetch distances and costs by:
 * rows of families.def, which says what the members are. */
#ifndef NABLA_KERNELS_BUILDER_FAMILIES_H
#define NABLA_KERNELS_BUILDER_FAMILIES_H

#include "lib/kernels/builder/features.h"

typedef struct nabla_cpu_family {
  const char *name;
  uint64_t line, stream, lanes, blocks, scales, near_x, near_int8; /* bytes */
  uint64_t key, keys, dense;
  unsigned tail_rows;
  double crowded, pack_bf16, dot_bf16; /* picoseconds */
} nabla_cpu_family;

/* Static; never NULL. */
const nabla_cpu_family *nabla_cpu_family_of(nabla_features features);

#endif
