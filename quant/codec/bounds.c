/* How large decoded values can be. */
#include <float.h>
#include <math.h>

#include "quant/codec/codec.h"
#include "quant/codec/kernel.h"

/* Codes of floats in 8 bits rise with their magnitude: from which on they are
 * not finite, or 128. */
static unsigned first_not_finite(const nabla_recipe *recipe) {
  unsigned code = 0;
  while (code < 128 && isfinite(recipe->value((uint8_t)code))) code++;
  return code;
}

static int has_not_finite(const nabla_recipe *recipe, const uint8_t *codes,
                          size_t size) {
  const unsigned bad = first_not_finite(recipe);
  uint8_t most = 0;
  if (bad == 128) return 0;
  for (size_t i = 0; i < size; i++) {
    const uint8_t magnitude = codes[i] & 127;
    most = magnitude > most ? magnitude : most;
  }
  return most >= bad;
}

float nabla_format_largest(const nabla_format *format) {
  const nabla_recipe *recipe = nabla_recipe_find(format->encoding);
  const unsigned codes = 1u << format->encoding->bits;
  float most = 0;
  if (format->zero_point) return (float)(codes - 1);
  for (unsigned i = 0; i < codes; i++) {
    const float value = fabsf(recipe->value((uint8_t)i));
    if (isfinite(value) && value > most) most = value;
  }
  return most;
}

static double largest_of(nabla_dtype dtype) {
  if (dtype == NABLA_DTYPE_F16) return 65504;
  if (dtype == NABLA_DTYPE_BF16) return 0x1.fep127;
  return (double)FLT_MAX;
}

int nabla_codes_stay_within(const nabla_format *format, const uint8_t *codes,
                            size_t size, float most, nabla_dtype dtype) {
  const nabla_recipe *recipe = nabla_recipe_find(format->encoding);
  if (dtype != NABLA_DTYPE_F32 && dtype != NABLA_DTYPE_F16 &&
      dtype != NABLA_DTYPE_BF16)
    return 0;
  const double bound = (double)nabla_format_largest(format) * (double)most;
  /* LLM.int8 multiplies by 127 before it divides: that must be finite. F16 is
   * rounded from a value below its largest, or that itself. */
  return bound <= (double)FLT_MAX &&
         bound / (nabla_format_is_llm_int8(format) ? 127 : 1) <
             largest_of(dtype) * (1 - 0x1p-12) &&
         !(format->encoding->bits == 8 &&
           !nabla_encoding_is_int8(format->encoding) &&
           has_not_finite(recipe, codes, size));
}
