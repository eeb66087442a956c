/* Features of a target CPU that kernel generators use. */
#ifndef NABLA_KERNELS_BUILDER_FEATURES_H
#define NABLA_KERNELS_BUILDER_FEATURES_H

#include <stdint.h>

#include "lib/base/x86_features.h"
#include "nabla/status.h"

/* X(id, name): a bit, and LLVM's spelling of the feature: of x86 but NEON,
 * which every AArch64 CPU has, and ZEN, no feature but a family of CPUs
 * (families.h), which "zen" in a list names. */
#define NABLA_FEATURE_LIST(X) \
  X(AVX, "avx")               \
  X(AVX2, "avx2")             \
  X(FMA, "fma")               \
  X(F16C, "f16c")             \
  X(AVX512F, "avx512f")       \
  X(AVX512BW, "avx512bw")     \
  X(AVX512DQ, "avx512dq")     \
  X(AVX512VL, "avx512vl")     \
  X(AVX512VBMI, "avx512vbmi") \
  X(AVX512VNNI, "avx512vnni") \
  X(AVX512BF16, "avx512bf16") \
  X(AVX512FP16, "avx512fp16") \
  X(AMX_BF16, "amx-bf16")     \
  X(AMX_INT8, "amx-int8")     \
  X(NEON, "neon")             \
  X(ZEN, "zen")

enum nabla_feature_bit {
#define NABLA_FEATURE_ROW(id, name) NABLA_FEATURE_BIT_##id,
  NABLA_FEATURE_LIST(NABLA_FEATURE_ROW)
#undef NABLA_FEATURE_ROW
      NABLA_FEATURE_COUNT
};

/* A set of feature bits; 0 is a CPU without any: portable vectors. */
typedef uint32_t nabla_features;
#define NABLA_HAS(features, id) ((features) >> NABLA_FEATURE_BIT_##id & 1u)

/* Features that need AMX tile state, for which a process needs permission of
 * the system. */
#define NABLA_FEATURES_OF_TILES                      \
  ((nabla_features)1 << NABLA_FEATURE_BIT_AMX_BF16 | \
   (nabla_features)1 << NABLA_FEATURE_BIT_AMX_INT8)

/* The bits of those features in `set` that are in NABLA_FEATURE_LIST. */
nabla_features nabla_features_of(const nabla_x86_features *set);

/* "host", or reads a comma-separated list as LLVM spells it:
 * "+avx2,+fma,-avx512f" or "avx2,fma". A feature brings those that it needs,
 * and takes those that need it. Unknown names are ignored: LLVM has hundreds.
 * Later ones win; "" is the empty set. */
nabla_features nabla_features_parse(const char *list);

/* The same for the CPU that this process runs on; with AMX where the operating
 * system, which is asked, permits it. */
nabla_features nabla_features_host(void);

/* The bit of the family of a CPU by LLVM's name, "znver4", or 0. */
nabla_features nabla_features_of_cpu(const char *name);

/* Writes the names in `features`, comma-separated and NUL-terminated; 160 bytes
 * are enough for all. */
void nabla_features_format(nabla_features features, char *out, uint64_t size);

#endif
