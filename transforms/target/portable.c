/* Any CPU: the kernels of lib/kernels that need no feature of x86. */
#include "transforms/fused/lower_attention.h"
#include "transforms/fused/lower_fused.h"
#include "transforms/ir/target.h"

#define NEON ((nabla_features)1 << NABLA_FEATURE_BIT_NEON)

static nabla_features features(const char *text) {
  return nabla_features_parse(text) & NEON;
}

static const char *objection(const nabla_fused_spec *spec) {
  nabla_fused_spec here = *spec;
  here.features &= NEON;
  return nabla_fused_objection(&here);
}

const nabla_target nabla_target_portable = {
    .name = "portable",
    .features = features,
    .objection = objection,
    .lower_fused = nabla_lower_fused_cpu,
    .lower_attention = nabla_lower_attention_cpu,
};
