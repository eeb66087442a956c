/* Sets of CPU features; see features.h. */
#include "lib/kernels/builder/features.h"

#include <llvm-c/Core.h>
#include <llvm-c/TargetMachine.h>
#include <stdio.h>
#include <string.h>

static const char *const names[] = {
#define NAME(id, name) name,
    NABLA_FEATURE_LIST(NAME)
#undef NAME
};

nabla_features nabla_features_of(const nabla_x86_features *set) {
  nabla_features features = 0;
  for (uint32_t i = 0; i < NABLA_FEATURE_COUNT; i++) {
    size_t feature = nabla_x86_feature_find(names[i], strlen(names[i]));
    if (feature < NABLA_X86_FEATURE_COUNT && set->has[feature])
      features |= (nabla_features)1 << i;
  }
  return features;
}

/* The bit of a feature that is not of x86, or 0. */
static nabla_features other_feature(const char *name, size_t length) {
  static const int others[] = {NABLA_FEATURE_BIT_NEON, NABLA_FEATURE_BIT_ZEN};
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    if (length == strlen(names[others[i]]) &&
        !memcmp(name, names[others[i]], length))
      return (nabla_features)1 << others[i];
  return 0;
}

nabla_features nabla_features_of_cpu(const char *name) {
  return strncmp(name, "znver", 5) ? 0
                                   : (nabla_features)1 << NABLA_FEATURE_BIT_ZEN;
}

nabla_features nabla_features_parse(const char *list) {
  if (!strcmp(list, "host")) return nabla_features_host();
  nabla_x86_features set = {{0}};
  nabla_features others = 0;
  while (*list) {
    size_t length = strcspn(list, ",");
    size_t sign = *list == '-' || *list == '+';
    size_t feature = length > sign
                         ? nabla_x86_feature_find(list + sign, length - sign)
                         : NABLA_X86_FEATURE_COUNT;
    if (feature < NABLA_X86_FEATURE_COUNT && *list == '-')
      nabla_x86_feature_remove(&set, feature);
    else if (feature < NABLA_X86_FEATURE_COUNT)
      nabla_x86_feature_add(&set, feature);
    else if (*list == '-')
      others &= ~other_feature(list + sign, length - sign);
    else
      others |= other_feature(list + sign, length - sign);
    list += length + (list[length] == ',');
  }
  return nabla_features_of(&set) | others;
}

nabla_features nabla_features_host(void) {
  char *list = LLVMGetHostCPUFeatures(), *name = LLVMGetHostCPUName();
  const nabla_features features =
      nabla_features_parse(list) | nabla_features_of_cpu(name);
  LLVMDisposeMessage(list);
  LLVMDisposeMessage(name);
  const nabla_features tiles = NABLA_FEATURES_OF_TILES;
  return features & tiles && !nabla_x86_tiles_allowed() ? features & ~tiles
                                                        : features;
}

void nabla_features_format(nabla_features features, char *out, uint64_t size) {
  size_t at = 0;
  if (size) out[0] = 0;
  for (uint32_t i = 0; i < NABLA_FEATURE_COUNT; i++) {
    if (!(features >> i & 1u) || at >= size) continue;
    int length = snprintf(out + at, size - at, "%s%s", at ? "," : "", names[i]);
    if (length > 0) at += (size_t)length;
  }
}
