/* INT4, the definition: docs/FORMAT.md (E1, E3, E4). A code is 8 above the
 * integer; without zero points the scale has the sign that makes the value of
 * largest magnitude -8. */
#include "quant/codec/scalar.h"

static uint8_t code_of(float x, const nabla_scaler *s) {
  return (uint8_t)(8 + nabla_round_code(nabla_scaled(x, s), s, -8, 7));
}

static float value_of(uint8_t code) { return (float)code - 8.0f; }

const nabla_recipe nabla_int4_recipe = {.statistic = NABLA_STATISTIC_PEAK,
                                        .limit = -8.0f,
                                        .bias = 8,
                                        .code = code_of,
                                        .value = value_of};

NABLA_SCALAR_STAGES(int4, 4, 0)
