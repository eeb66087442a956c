/* Rows of q, and the products of weights and v, for both kernels of attention;
 * see attend.h. */
#include "lib/kernels/attention/attend.h"

/* Vectors [first, first + count) of v, of `rows` states. */
typedef struct strip {
  unsigned rows, first, count;
} strip;

static nabla_ssa kept_at(nabla_attend *a, const strip *s, unsigned row,
                         unsigned vector) {
  const uint64_t floats = nabla_attend_state_floats(a->spec);
  return k_i64(a->e, row * floats + NABLA_ATTEND_WEIGHTED +
                         (uint64_t)(s->first + vector) * NABLA_LANES);
}

/* The products of one row of v. */
static void weigh_one(nabla_attend *a, const nabla_attend_values *v,
                      const strip *s, nabla_ssa weights, nabla_ssa key,
                      const nabla_ssa *sums, nabla_ssa *out) {
  nabla_emitter *e = a->e;
  nabla_ssa values[NABLA_LOOP_MAX];
  nabla_ssa at = k_product(e, key, v->stride);
  for (unsigned i = 0; i < s->count; i++) {
    const unsigned chunk = s->first + i;
    values[i] = k_read_lanes(
        e, v->rows, k_add_constant(e, at, (uint64_t)chunk * NABLA_LANES),
        v->padded ? NABLA_LANES
                  : nabla_attend_lanes(a->spec->value_head, chunk));
  }
  for (unsigned r = 0; r < s->rows; r++) {
    nabla_ssa index =
        k_add_constant(e, key, (uint64_t)r * NABLA_ATTENTION_KEYS);
    nabla_ssa one = k_read(e, nabla_floats_at(weights), index);
    one = k_broadcast(e, "f32", one);
    for (unsigned i = 0; i < s->count; i++)
      out[r * s->count + i] =
          k_fma(e, NABLA_VECTOR, one, values[i], sums[r * s->count + i]);
  }
}

void nabla_attend_prefetch(nabla_emitter *e, nabla_attend_ahead ahead,
                           nabla_ssa base, nabla_ssa at) {
  at = k_add_constant(e, at, ahead.bytes);
  if (ahead.is_far)
    k_prefetch_far(e, k_address(e, base, at));
  else
    k_prefetch(e, base, at);
}

/* The lines of a row of v that a strip reads, ahead. */
static void prefetch_strip(nabla_attend *a, const nabla_attend_values *v,
                           const strip *s, nabla_ssa key) {
  nabla_emitter *e = a->e;
  const uint64_t size = v->rows.dtype == NABLA_DTYPE_F32 ? 4 : 2;
  const uint64_t bytes = a->spec->value_head * size;
  uint64_t line = (uint64_t)s->first * NABLA_LANES * size;
  uint64_t end = line + (uint64_t)s->count * NABLA_LANES * size;
  if (end > bytes) end = bytes;
  nabla_ssa at = k_multiply(e, k_product(e, key, v->stride), size);
  for (line = (line + 63) / 64 * 64; line < end; line += 64)
    nabla_attend_prefetch(e, v->ahead, v->rows.base,
                          k_add_constant(e, at, line));
}

static void weigh_strip(nabla_attend *a, const nabla_attend_values *v,
                        const strip *s, nabla_ssa weights, nabla_ssa count,
                        nabla_ssa state) {
  nabla_emitter *e = a->e;
  nabla_ssa sums[NABLA_LOOP_MAX], next[NABLA_LOOP_MAX];
  nabla_loop keys;
  const unsigned all = s->rows * s->count;
  for (unsigned i = 0; i < all; i++)
    sums[i] =
        k_read_lanes(e, nabla_floats_at(state),
                     kept_at(a, s, i / s->count, i % s->count), NABLA_LANES);
  k_loop_begin(e, &keys, k_i64(e, 0), count, 1, all, sums);
  if (v->ahead.bytes) prefetch_strip(a, v, s, keys.induction);
  weigh_one(a, v, s, weights, keys.induction, keys.carried, next);
  k_loop_end(e, &keys, next);
  for (unsigned i = 0; i < all; i++)
    k_write_lanes(e, nabla_floats_at(state),
                  kept_at(a, s, i / s->count, i % s->count), keys.results[i]);
}

void nabla_attend_weigh(nabla_attend *a, const nabla_attend_values *v,
                        unsigned rows, unsigned tile, nabla_ssa weights,
                        nabla_ssa count, nabla_ssa state) {
  const unsigned chunks = nabla_attend_chunks(a->spec);
  const unsigned most = tile / rows ? tile / rows : 1;
  const unsigned strips = (chunks + most - 1) / most;
  strip s = {.rows = rows};
  for (unsigned i = 0; i < strips; i++) {
    s.count = chunks / strips + (i < chunks % strips);
    weigh_strip(a, v, &s, weights, count, state);
    s.first += s.count;
  }
}

void nabla_attend_copy_q(nabla_attend *a, nabla_ssa outer, nabla_ssa row,
                         nabla_ssa count, nabla_ssa to) {
  nabla_emitter *e = a->e;
  const uint64_t head = a->spec->head, padded = nabla_attend_padded(head);
  nabla_array_ref q = {a->q, a->spec->q_type};
  nabla_loop each;
  nabla_ssa last =
      k_op(e, "arith.subi %%v%u, %%v%u : i64", a->rows, k_i64(e, 1));
  k_loop_begin(e, &each, k_i64(e, 0), count, 1, 0, NULL);
  nabla_ssa at = k_minimum(e, k_add(e, row, each.induction), last);
  at = k_multiply(e, k_add(e, k_product(e, outer, a->rows), at), head);
  nabla_ssa into = k_multiply(e, each.induction, padded);
  for (unsigned c = 0; c < padded / NABLA_LANES; c++) {
    const uint64_t first = (uint64_t)c * NABLA_LANES;
    nabla_ssa value = k_read_lanes(e, q, k_add_constant(e, at, first),
                                   nabla_attend_lanes(head, c));
    k_write_lanes(e, nabla_floats_at(to), k_add_constant(e, into, first),
                  value);
  }
  k_loop_end(e, &each, NULL);
}
