/* The round stage for AVX-512: quant/codec/round.h, compiled for it. */
#include "quant/codec/round.h"

int nabla_any_round_avx512(const nabla_rounding *r) {
  return nabla_rounding_apply(r);
}
