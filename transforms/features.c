/* Sets of CPU features; see features.h. */
#include "transforms/features.h"

#include <llvm-c/Core.h>
#include <llvm-c/TargetMachine.h>
#include <stdio.h>
#include <string.h>

static const char *const names[] = {
#define NAME(id, name) name,
    NABLA_FEATURE_LIST(NAME)
#undef NAME
};

#define BIT(id) ((nabla_features)1 << NABLA_FEATURE_BIT_##id)

/* What a feature brings with it, as LLVM has it (X86.td): with -avx2 there is
 * no avx512f, whatever stood before. */
static const nabla_features needs[NABLA_FEATURE_COUNT] = {
    [NABLA_FEATURE_BIT_AVX2] = BIT(AVX),
    [NABLA_FEATURE_BIT_FMA] = BIT(AVX),
    [NABLA_FEATURE_BIT_F16C] = BIT(AVX),
    [NABLA_FEATURE_BIT_AVX512F] = BIT(AVX) | BIT(AVX2) | BIT(FMA) | BIT(F16C),
    [NABLA_FEATURE_BIT_AVX512BW] = BIT(AVX512F),
    [NABLA_FEATURE_BIT_AVX512DQ] = BIT(AVX512F),
    [NABLA_FEATURE_BIT_AVX512VL] = BIT(AVX512F),
    [NABLA_FEATURE_BIT_AVX512VBMI] = BIT(AVX512BW),
    [NABLA_FEATURE_BIT_AVX512VNNI] = BIT(AVX512F),
    [NABLA_FEATURE_BIT_AVX512BF16] = BIT(AVX512BW),
};

static nabla_features with(nabla_features features, uint32_t feature) {
  features |= (nabla_features)1 << feature;
  for (uint32_t i = NABLA_FEATURE_COUNT; i-- > 0;) /* needs come earlier */
    if (features >> i & 1u) features |= needs[i];
  return features;
}

static nabla_features without(nabla_features features, uint32_t feature) {
  features &= ~((nabla_features)1 << feature);
  for (uint32_t i = 0; i < NABLA_FEATURE_COUNT; i++)
    if (needs[i] & ~features) features &= ~((nabla_features)1 << i);
  return features;
}

static uint32_t find(const char *name, size_t length) {
  for (uint32_t i = 0; i < NABLA_FEATURE_COUNT; i++)
    if (strlen(names[i]) == length && !memcmp(names[i], name, length)) return i;
  return NABLA_FEATURE_COUNT;
}

nabla_features nabla_features_parse(const char *list) {
  nabla_features features = 0;
  while (*list) {
    size_t length = strcspn(list, ",");
    int off = *list == '-', sign = off || *list == '+';
    if (length > (size_t)sign) {
      uint32_t feature = find(list + sign, length - (size_t)sign);
      if (feature < NABLA_FEATURE_COUNT)
        features = off ? without(features, feature) : with(features, feature);
    }
    list += length + (list[length] == ',');
  }
  return features;
}

nabla_features nabla_features_host(void) {
  char *list = LLVMGetHostCPUFeatures();
  nabla_features features = nabla_features_parse(list);
  LLVMDisposeMessage(list);
  return features;
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
