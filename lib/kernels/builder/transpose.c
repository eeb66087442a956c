/* Transposing and interleaving vectors; see transpose.h. */
#include "lib/kernels/builder/transpose.h"

#include <string.h>

#include "lib/kernels/builder/k.h"
#include "lib/kernels/int8/int8.h"

/* For half 0 the lanes of `a` and `b` whose bit `apart` is 0, each followed at
 * that distance by its partner; for half 1 those whose bit is 1. */
static nabla_ssa interleave(nabla_emitter *e, const char *element, nabla_ssa a,
                            nabla_ssa b, unsigned apart, unsigned half) {
  nabla_text *text = e->text;
  nabla_ssa result = ++e->last;
  nabla_text_add(text, "  %%v%u = vector.shuffle %%v%u, %%v%u [", result, a, b);
  for (unsigned i = 0; i < NABLA_LANES; i++) {
    unsigned from = (i & ~apart) | (half ? apart : 0);
    nabla_text_add(text, "%s%u", i ? ", " : "",
                   i & apart ? from + NABLA_LANES : from);
  }
  nabla_text_add(text, "] : vector<16x%s>, vector<16x%s>\n", element, element);
  return result;
}

/* A round moves the lowest bit of the lane index to the top of the vector
 * index, and the lowest bit of that to the top of the lane index. */
void nabla_emit_deinterleave(nabla_emitter *e, unsigned count, nabla_ssa *v) {
  nabla_loop rounds;
  nabla_ssa dealt[NABLA_LANES], zero = k_i64(e, 0);
  unsigned bits = 0;
  while (1u << bits < count) bits++;
  if (!bits) return;
  k_loop_begin(e, &rounds, zero, k_i64(e, bits), 1, count, v);
  for (unsigned i = 0; i < count; i += 2)
    for (unsigned odd = 0; odd < 2; odd++)
      dealt[i / 2 + odd * count / 2] =
          k_shuffle(e, "f32", NABLA_LANES, rounds.carried[i],
                    rounds.carried[i + 1], NABLA_LANES, nabla_pick_second, odd);
  k_loop_end(e, &rounds, dealt);
  for (unsigned i = 0; i < count; i++) v[i] = rounds.results[i];
}

static void cast(nabla_emitter *e, const char *from, const char *to,
                 nabla_ssa rows[NABLA_LANES]) {
  for (unsigned i = 0; i < NABLA_LANES && strcmp(from, to) != 0; i++)
    rows[i] = k_op(e,
                   "vector.bitcast %%v%u : vector<16x%s> to "
                   "vector<16x%s>",
                   rows[i], from, to);
}

/* Each step exchanges one bit of the row index with the same bit of the lane
 * index. */
void nabla_emit_transpose(nabla_emitter *e, const char *element,
                          nabla_ssa rows[NABLA_LANES]) {
  if (e->is_once) {
    cast(e, element, "f32", rows);
    k_deinterleave(e, NABLA_LANES, rows);
    cast(e, "f32", element, rows);
    return;
  }
  for (unsigned apart = 1; apart < NABLA_LANES; apart *= 2)
    for (unsigned i = 0; i < NABLA_LANES; i++) {
      if (i & apart) continue;
      nabla_ssa a = rows[i], b = rows[i | apart];
      rows[i] = interleave(e, element, a, b, apart, 0);
      rows[i | apart] = interleave(e, element, a, b, apart, 1);
    }
}

/* Interleaved lanes of `a` and `b`: of their first halves, or of their
 * second. */
static nabla_ssa interleaved(nabla_emitter *e, const char *element, nabla_ssa a,
                             nabla_ssa b, unsigned half) {
  nabla_text *text = e->text;
  nabla_ssa result = ++e->last;
  nabla_text_add(text, "  %%v%u = vector.shuffle %%v%u, %%v%u [", result, a, b);
  for (unsigned i = 0; i < NABLA_LANES; i++)
    nabla_text_add(text, "%s%u", i ? ", " : "",
                   i / 2 + half * NABLA_LANES / 2 + (i % 2 ? NABLA_LANES : 0));
  nabla_text_add(text, "] : vector<16x%s>, vector<16x%s>\n", element, element);
  return result;
}

/* Bit by bit, the row index moves from the vector index to the lane index. */
void nabla_emit_interleave_rows(nabla_emitter *e, const char *element,
                                unsigned rows, nabla_ssa *v) {
  for (unsigned apart = rows / 2; apart; apart /= 2)
    for (unsigned i = 0; i < rows; i++) {
      if (i & apart) continue;
      nabla_ssa a = v[i], b = v[i | apart];
      v[i] = interleaved(e, element, a, b, 0);
      v[i | apart] = interleaved(e, element, a, b, 1);
    }
}

/* Like a transposition, but the two halves are added, each pair as soon as both
 * are loaded, so that few vectors are live. */
static nabla_ssa sums_of(nabla_emitter *e, nabla_array_ref rows, nabla_ssa at,
                         unsigned first, unsigned count) {
  if (count == 1)
    return k_read_lanes(e, rows,
                        k_add_constant(e, at, (uint64_t)first * NABLA_LANES),
                        NABLA_LANES);
  unsigned apart = count / 2;
  nabla_ssa a = sums_of(e, rows, at, first, apart);
  nabla_ssa b = sums_of(e, rows, at, first + apart, apart);
  nabla_ssa low = interleave(e, "f32", a, b, apart, 0);
  nabla_ssa high = interleave(e, "f32", a, b, apart, 1);
  return k_binary(e, NABLA_VECTOR, "addf", low, high);
}

nabla_ssa nabla_emit_lane_sums(nabla_emitter *e, nabla_array_ref rows,
                               nabla_ssa at) {
  return sums_of(e, rows, at, 0, NABLA_LANES);
}
