/* INT8, the definition: docs/FORMAT.md (I2, E3, E4). Codes are two's
 * complement, those with a zero point too: they are q - 128. */
#include "quant/codec/int8.h"

#include "quant/codec/scalar.h"

static uint8_t code_of(float x, const nabla_scaler *s) {
  const int low = s->has_zero ? -128 : -127;
  return (uint8_t)nabla_round_code(nabla_scaled(x, s), s, low, 127);
}

static float value_of(uint8_t code) { return (float)(int8_t)code; }

const nabla_recipe nabla_int8_recipe = {.statistic = NABLA_STATISTIC_ABSMAX,
                                        .limit = 127.0f,
                                        .scale_max = NABLA_INT8_SCALE_MAX,
                                        .bias = 128,
                                        .code = code_of,
                                        .value = value_of};

NABLA_SCALAR_STAGES(int8, 8, 0)
