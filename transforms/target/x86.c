/* x86 CPUs: the kernels of lib/kernels, for the features that the text names.
 */
#include "transforms/fused/lower_attention.h"
#include "transforms/fused/lower_fused.h"
#include "transforms/ir/target.h"

const nabla_target nabla_target_x86 = {
    .name = "x86",
    .features = nabla_features_parse,
    .objection = nabla_fused_objection,
    .lower_fused = nabla_lower_fused_cpu,
    .lower_attention = nabla_lower_attention_cpu,
};
