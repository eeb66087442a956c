/* MXFP8 with E4M3 elements, the definition: docs/FORMAT.md (E5). */
#include "quant/codec/scalar.h"

/* The conversion saturates and keeps signs. */
static uint8_t code_of(float x, const nabla_scaler *s) {
  return nabla_f32_to_f8e4m3(nabla_scaled(x, s));
}

static float value_of(uint8_t code) { return nabla_f8e4m3_to_f32(code); }

const nabla_recipe nabla_mxfp8_recipe = {.statistic = NABLA_STATISTIC_ABSMAX,
                                         .limit = 448.0f,
                                         .emax = 8,
                                         .code = code_of,
                                         .value = value_of};

NABLA_SCALAR_STAGES(mxfp8, 8, 0)
