/* INT4, the definition: docs/FORMAT.md (E3, E4). A code is 8 above the
 * integer. */
#include "quant/scalar.h"

static uint8_t code_of(float x, const nabla_scaler *s) {
  const int low = s->has_zero ? -8 : -7;
  return (uint8_t)(8 + nabla_round_code(nabla_scaled(x, s), s, low, 7));
}

static float value_of(uint8_t code) { return (float)code - 8.0f; }

const nabla_recipe nabla_int4_recipe = {.statistic = NABLA_STATISTIC_ABSMAX,
                                        .limit = 7.0f,
                                        .bias = 8,
                                        .code = code_of,
                                        .value = value_of};

NABLA_SCALAR_STAGES(int4, 4, 0)
