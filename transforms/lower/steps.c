/* Which code an encoding with a table gives to which value, as the values where
 * the code changes. They are found by asking the encoding's definition in
 * quant/, so that a new encoding needs nothing here. */
#include <string.h>

#include "quant/codec/kernel.h"
#include "transforms/lower/lowering.h"

#define ONE 0x3f800000

typedef struct search {
  const nabla_recipe *recipe;
  nabla_code_steps *out;
  bool overflows;
} search;

/* Floats in [-1, 1], without -0, in rising order from -ONE to ONE. */
static float float_at(int32_t key) {
  return nabla_f32_of_bits(key < 0 ? 0x80000000u | (uint32_t)-key
                                   : (uint32_t)key);
}

/* The block's absmax is 1: its elements are not scaled. */
static uint8_t code_at(const search *s, int32_t key) {
  const nabla_scaler scaler = {
      .scale = 1, .factor = 1, .divisor = 1, .times = 1};
  return s->recipe->code(float_at(key), &scaler);
}

/* Adds the steps in (low, high], whose codes are known. A code that both ends
 * have is that of all between: each code stands for one range. */
static void find_steps(search *s, int32_t low, uint8_t low_code, int32_t high,
                       uint8_t high_code) {
  if (low_code == high_code) return;
  if (high - low == 1) {
    s->overflows = s->overflows || s->out->count == NABLA_STEPS_MAX;
    if (s->overflows) return;
    s->out->steps[s->out->count].from = float_at(high);
    s->out->steps[s->out->count++].code = high_code;
    return;
  }
  int32_t middle = low + (high - low) / 2;
  uint8_t code = code_at(s, middle);
  find_steps(s, low, low_code, middle, code);
  find_steps(s, middle, code, high, high_code);
}

bool nabla_code_steps_find(const nabla_encoding *encoding,
                           nabla_code_steps *out) {
  search s = {nabla_recipe_find(encoding), out, false};
  memset(out, 0, sizeof *out);
  out->first = code_at(&s, -ONE);
  find_steps(&s, -ONE, out->first, ONE, code_at(&s, ONE));
  return !s.overflows;
}
