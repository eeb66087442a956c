/* FP4, the definition: docs/FORMAT.md (B6, B8). */
#include "quant/codec/fp4.h"

#include "quant/codec/scalar.h"

/* The nearest magnitude, the smaller when between two; then the sign, which
 * -0 has not. */
static uint8_t code_of(float x, const nabla_scaler *s) {
  const float scaled = nabla_clamp(nabla_scaled(x, s), -1.0f, 1.0f);
  const float magnitude = fabsf(scaled);
  unsigned below = 0;
  for (int i = 0; i < 7; i++) below += magnitude > nabla_fp4_thresholds[i];
  const unsigned sign = scaled < 0.0f ? NABLA_FP4_SIGN : 0;
  return (uint8_t)(nabla_fp4_codes[below] | sign);
}

static float value_of(uint8_t code) { return nabla_fp4_values[code]; }

const nabla_recipe nabla_fp4_recipe = {.statistic = NABLA_STATISTIC_ABSMAX,
                                       .limit = 1.0f,
                                       .divide_at = 0x1p-126f,
                                       .code = code_of,
                                       .value = value_of};

NABLA_SCALAR_STAGES(fp4, 4, 1)
