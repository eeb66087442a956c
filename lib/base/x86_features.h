/* Features of x86 CPUs, what each brings with it, and which of them are
 * here: x86_features.def. Functions are defined in x86_here.c too. */
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

/* Row i is there: has[i]. */
typedef struct nabla_x86_features {
  uint8_t has[NABLA_X86_FEATURE_COUNT];
} nabla_x86_features;

/* Index of a feature, or NABLA_X86_FEATURE_COUNT. */
size_t nabla_x86_feature_find(const char *name, size_t length);
const char *nabla_x86_feature_name(size_t index);

/* 1 when LLVM uses its instructions only where code names them. */
int nabla_x86_feature_is_asked(size_t index);

/* Adds a feature and what it implies; takes one away, and what needs it. */
void nabla_x86_feature_add(nabla_x86_features *set, size_t feature);
void nabla_x86_feature_remove(nabla_x86_features *set, size_t feature);

/* What this CPU has and the operating system lets programs use, as CPUID and
 * XGETBV tell; none on other machines. Asked once. Thread-safe. */
const nabla_x86_features *nabla_x86_features_here(void);

/* Asks the operating system, once, whether this process may use the tile
 * registers of AMX; without it their instructions end the process. Thread-safe.
 * @return 1, or 0 where they are not there or not to be had */
int nabla_x86_tiles_allowed(void);

/* 1 for features whose instructions use tile registers. */
int nabla_x86_feature_uses_tiles(size_t index);

static inline int nabla_x86_has(nabla_x86_feature feature) {
  return nabla_x86_features_here()->has[feature];
}

#endif
