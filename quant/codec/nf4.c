/* NF4, the definition: docs/FORMAT.md (B6, B7). */
#include "quant/codec/nf4.h"

#include "quant/codec/scalar.h"

/* The number of thresholds below the scaled value. */
static uint8_t code_of(float x, const nabla_scaler *s) {
  const float scaled = nabla_clamp(nabla_scaled(x, s), -1.0f, 1.0f);
  unsigned below = 0;
  for (int i = 0; i < 15; i++) below += scaled > nabla_nf4_thresholds[i];
  return (uint8_t)below;
}

static float value_of(uint8_t code) { return nabla_nf4_values[code]; }

const nabla_recipe nabla_nf4_recipe = {.statistic = NABLA_STATISTIC_ABSMAX,
                                       .limit = 1.0f,
                                       .divide_at = 0x1p-126f,
                                       .code = code_of,
                                       .value = value_of};

NABLA_SCALAR_STAGES(nf4, 4, 1)
