/* Features of x86 CPUs and what each brings with it: x86_features.def. */
#ifndef NABLA_TRANSFORMS_X86_FEATURES_H
#define NABLA_TRANSFORMS_X86_FEATURES_H

#include <stddef.h>
#include <stdint.h>

#define FEATURE(name, implied) +1
enum {
  NABLA_X86_FEATURE_COUNT = 0
#include "transforms/x86_features.def"
};
#undef FEATURE

/* Row i is there: has[i]. */
typedef struct nabla_x86_features {
  uint8_t has[NABLA_X86_FEATURE_COUNT];
} nabla_x86_features;

/* Index of a feature, or NABLA_X86_FEATURE_COUNT. */
size_t nabla_x86_feature_find(const char *name, size_t length);
const char *nabla_x86_feature_name(size_t index);

/* Adds a feature and what it implies; takes one away, and what needs it. */
void nabla_x86_feature_add(nabla_x86_features *set, size_t feature);
void nabla_x86_feature_remove(nabla_x86_features *set, size_t feature);

#endif
