/* Choosing the family of a CPU; see families.h. */
#include "lib/kernels/builder/families.h"

const nabla_cpu_family *nabla_cpu_family_of(nabla_features f) {
#define FAMILY(id, condition, ...)                             \
  static const nabla_cpu_family id##_row = {#id, __VA_ARGS__}; \
  if (condition) return &id##_row;
#include "lib/kernels/builder/families.def"
#undef FAMILY
  return &avx2_row;
}
