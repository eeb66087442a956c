/* Ternary, the definition: docs/FORMAT.md (E3). Code 3 is never written; it
 * decodes to 2 times the scale. */
#include "quant/codec/scalar.h"

static uint8_t code_of(float x, const nabla_scaler *s) {
  if (s->scale == 0.0f) return 1;
  return (uint8_t)(1.0f + nabla_clamp(rintf(x / s->scale), -1.0f, 1.0f));
}

static float value_of(uint8_t code) { return (float)code - 1.0f; }

const nabla_recipe nabla_ternary_recipe = {.statistic = NABLA_STATISTIC_MEAN,
                                           .limit = 1.0f,
                                           .code = code_of,
                                           .value = value_of};

NABLA_SCALAR_STAGES(ternary, 2, 0)
