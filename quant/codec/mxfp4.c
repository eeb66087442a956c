/* MXFP4, the definition: docs/FORMAT.md (E5). */
#include "quant/codec/mxfp4.h"

#include "quant/codec/scalar.h"

/* Half to even: midpoint i lies between codes i and i + 1. NaN gives 0. */
static uint8_t code_of(float x, const nabla_scaler *s) {
  const float scaled = nabla_scaled(x, s), magnitude = fabsf(scaled);
  unsigned code = 0;
  for (int i = 0; i < 7; i++)
    code += i % 2 ? magnitude >= nabla_mxfp4_midpoints[i]
                  : magnitude > nabla_mxfp4_midpoints[i];
  return (uint8_t)(signbit(scaled) ? code | NABLA_MXFP4_SIGN : code);
}

static float value_of(uint8_t code) { return nabla_mxfp4_values[code]; }

const nabla_recipe nabla_mxfp4_recipe = {.statistic = NABLA_STATISTIC_ABSMAX,
                                         .limit = 6.0f,
                                         .emax = 2,
                                         .code = code_of,
                                         .value = value_of};

NABLA_SCALAR_STAGES(mxfp4, 4, 0)
