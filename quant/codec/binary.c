/* Binary, the definition: docs/FORMAT.md (E3). */
#include "quant/codec/scalar.h"

static uint8_t code_of(float x, const nabla_scaler *s) {
  (void)s;
  return x >= 0.0f;
}

static float value_of(uint8_t code) { return code ? 1.0f : -1.0f; }

const nabla_recipe nabla_binary_recipe = {.statistic = NABLA_STATISTIC_MEAN,
                                          .limit = 1.0f,
                                          .code = code_of,
                                          .value = value_of};

NABLA_SCALAR_STAGES(binary, 1, 0)
