/* Features of x86 CPUs, the features that each implies, and detection of those
 * on this CPU: x86_features.def. Functions are defined in x86_here.c too. */
#ifndef NABLA_BASE_X86_FEATURES_H
#define NABLA_BASE_X86_FEATURES_H

#include <stddef.h>
#include <stdint.h>

#define FEATURE(id, name, implied, leaf, subleaf, reg, bit, state, use) \
  NABLA_X86_##id,
typedef enum nabla_x86_feature {
#include "lib/base/x86_features.def"
  NABLA_X86_FEATURE_COUNT
} nabla_x86_feature;
#undef FEATURE

/* has[i]: the feature of row i is available. */
typedef struct nabla_x86_features {
  uint8_t has[NABLA_X86_FEATURE_COUNT];
} nabla_x86_features;

/* Returns the index of a feature, NABLA_X86_FEATURE_COUNT if it is unknown. */
size_t nabla_x86_feature_find(const char *name, size_t length);
const char *nabla_x86_feature_name(size_t index);

/* Returns 1 if LLVM uses the feature's instructions only on request, by
 * intrinsics. */
int nabla_x86_feature_is_asked(size_t index);

/* Add a feature and those that it implies; remove a feature and those that need
 * it. */
void nabla_x86_feature_add(nabla_x86_features *set, size_t feature);
void nabla_x86_feature_remove(nabla_x86_features *set, size_t feature);

/* Returns the features that this CPU has and the operating system permits, by
 * CPUID and XGETBV; none on other machines. Detected once. Thread-safe. */
const nabla_x86_features *nabla_x86_features_here(void);

/* Requests from the operating system, once, the use of the tile registers of
 * AMX by this process; without permission their instructions end the process.
 * Thread-safe.
 * @return 1, or 0 if there are none or the request was refused */
int nabla_x86_tiles_allowed(void);

/* Returns 1 for features whose instructions use tile registers. */
int nabla_x86_feature_uses_tiles(size_t index);

static inline int nabla_x86_has(nabla_x86_feature feature) {
  return nabla_x86_features_here()->has[feature];
}

#endif
