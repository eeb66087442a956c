/* Rows of w in lanes, for int8 products: transposing codes, and the prepacked
 * weight; see int8.h. */
#include <stdio.h>

#include "lib/kernels/builder/k.h"
#include "lib/kernels/dequant/dequantize.h"
#include "lib/kernels/int8/int8.h"
#include "lib/kernels/tile_util.h"
#include "quant/codec/codec.h"
#include "quant/codec/int8.h"

void nabla_emit_int8_rows(nabla_emitter *e, const nabla_int8 *self, nabla_ssa n,
                          nabla_ssa addresses[NABLA_LANES],
                          nabla_ssa flats[NABLA_LANES]) {
  nabla_ssa one = k_i64(e, 1);
  nabla_ssa last = k_op(e, "arith.subi %%v%u, %%v%u : i64", e->n, one);
  for (unsigned i = 0; i < NABLA_LANES; i++) {
    nabla_ssa row = k_add_constant(e, n, i);
    row = k_minimum(e, row, last);
    flats[i] = nabla_emit_row_start(e, row);
    addresses[i] = k_address(e, e->codes, k_divide(e, flats[i], self->parts));
  }
}

/* Interleaved dwords of a and b: low or high ones of each quarter. */
static unsigned pick_dwords(unsigned lane, unsigned high) {
  return lane / 4 * 4 + 2 * high + lane % 4 / 2 + (lane % 2 ? NABLA_LANES : 0);
}

/* The same with pairs as units. */
static unsigned pick_pairs(unsigned lane, unsigned high) {
  return lane / 4 * 4 + 2 * high + lane % 2 + (lane % 4 / 2 ? NABLA_LANES : 0);
}

/* Quarters 0 and 2, or 1 and 3, of a and then of b. */
static unsigned pick_quarters(unsigned lane, unsigned odd) {
  return lane / 4 % 2 * 8 + odd * 4 + lane % 4 + (lane / 8 ? NABLA_LANES : 0);
}

static nabla_ssa shuffle(nabla_emitter *e, nabla_ssa a, nabla_ssa b,
                         nabla_pick *pick, unsigned context) {
  return k_shuffle(e, "i32", NABLA_LANES, a, b, NABLA_LANES, pick, context);
}

/* Dwords of 4 rows come together, in quarters by their number, then the
 * quarters of all rows. */
void nabla_emit_int8_transpose(nabla_emitter *e, nabla_ssa v[NABLA_LANES]) {
  nabla_ssa t[4][4], out[NABLA_LANES];
  for (unsigned q = 0; q < 4; q++) {
    nabla_ssa *r = &v[4 * q], pair[2][2];
    for (unsigned i = 0; i < 2; i++)
      for (unsigned high = 0; high < 2; high++)
        pair[i][high] = shuffle(e, r[2 * i], r[2 * i + 1], pick_dwords, high);
    for (unsigned i = 0; i < 4; i++)
      t[q][i] = shuffle(e, pair[0][i / 2], pair[1][i / 2], pick_pairs, i % 2);
  }
  for (unsigned i = 0; i < 4; i++)
    for (unsigned odd = 0; odd < 2; odd++) {
      nabla_ssa a = shuffle(e, t[0][i], t[1][i], pick_quarters, odd);
      nabla_ssa b = shuffle(e, t[2][i], t[3][i], pick_quarters, odd);
      for (unsigned high = 0; high < 2; high++)
        out[4 * (2 * high + odd) + i] = shuffle(e, a, b, pick_quarters, high);
    }
  for (unsigned i = 0; i < NABLA_LANES; i++) v[i] = out[i];
}

/* A pick of the first `context` lanes, repeated. */
static unsigned pick_again(unsigned lane, unsigned context) {
  return lane % context;
}

nabla_ssa nabla_emit_int8_dwords(nabla_emitter *e, nabla_ssa base,
                                 nabla_ssa byte, unsigned count) {
  char type[32];
  (void)snprintf(type, sizeof type, "vector<%uxi32>", count);
  nabla_ssa dwords = k_load(e, type, base, byte, 1);
  return count == NABLA_LANES ? dwords
                              : k_shuffle(e, "i32", count, dwords, dwords,
                                          NABLA_LANES, pick_again, count);
}

void nabla_emit_int8_interleave(nabla_emitter *e,
                                const nabla_ssa rows[NABLA_LANES],
                                nabla_ssa dword, unsigned count,
                                nabla_ssa out[NABLA_LANES]) {
  nabla_ssa byte = k_multiply(e, dword, 4);
  for (unsigned i = 0; i < NABLA_LANES; i++)
    out[i] = nabla_emit_int8_dwords(e, rows[i], byte, count);
  nabla_emit_int8_transpose(e, out);
}

nabla_int8_packed nabla_int8_packed_of(const nabla_fused_spec *spec,
                                       const nabla_int8 *self) {
  nabla_int8_packed out = {.codes = 0};
  out.scales = spec->k * NABLA_LANES / self->parts;
  out.zeros = out.scales + spec->k / self->span * NABLA_BYTES;
  out.size =
      out.zeros + (self->has_zero ? spec->k / self->span * NABLA_BYTES : 0);
  return out;
}

void nabla_int8_describe_packed(const nabla_fused_spec *spec,
                                const nabla_int8 *self, nabla_kernel *out) {
  out->packed =
      (nabla_kernel_tiles){NABLA_LANES, (uint32_t)spec->k,
                           (uint32_t)nabla_int8_packed_of(spec, self).size};
  out->form = NABLA_PACKED_BYTES;
}

uint64_t nabla_int8_accumulation_depth(const nabla_fused_spec *spec) {
  nabla_int8 self;
  return nabla_int8_of(spec, &self) ? spec->k / self.block + 4 : 0;
}

/* Copies the codes of 16 rows, transposed, to address `to`. */
static void pack_codes(nabla_emitter *e, const nabla_int8 *self,
                       const nabla_ssa *rows, nabla_ssa to) {
  uint64_t dwords = e->spec->k / self->parts / 4;
  uint64_t whole = dwords / NABLA_LANES * NABLA_LANES;
  nabla_ssa zero = k_i64(e, 0), v[NABLA_LANES];
  nabla_ssa end = k_i64(e, whole);
  nabla_loop steps;
  for (int rest = 0; rest < 2; rest++) {
    unsigned count = rest ? (unsigned)(dwords - whole) : NABLA_LANES;
    if (rest ? !count : !whole) continue;
    nabla_ssa at = end;
    if (!rest) {
      k_loop_begin(e, &steps, zero, end, NABLA_LANES, 0, NULL);
      at = steps.induction;
    }
    nabla_emit_int8_interleave(e, rows, at, count, v);
    for (unsigned i = 0; i < count; i++)
      k_store(e, "vector<16xi32>", v[i], to,
              k_multiply(e, k_add_constant(e, at, i), NABLA_BYTES), 64);
    if (!rest) k_loop_end(e, &steps, NULL);
  }
}

void nabla_emit_int8_spans(nabla_emitter *e, const nabla_int8 *self,
                           const nabla_ssa flats[NABLA_LANES], nabla_ssa k,
                           nabla_ssa count, nabla_ssa scales, nabla_ssa zeros) {
  nabla_loop spans;
  nabla_ssa zero = k_i64(e, 0);
  k_loop_begin(e, &spans, zero, count, 1, 0, NULL);
  nabla_ssa at = k_multiply(e, spans.induction, self->span);
  nabla_ssa to = k_multiply(e, spans.induction, NABLA_BYTES);
  at = k_add(e, at, k);
  for (unsigned i = 0; i < NABLA_LANES; i++) {
    nabla_ssa flat = k_add(e, flats[i], at);
    nabla_ssa lane = k_add_constant(e, to, (uint64_t)4 * i);
    k_store(e, "f32", nabla_emit_scale(e, flat), scales, lane, 4);
    if (self->has_zero)
      k_store(e, "f32", nabla_emit_int8_negative(e, self, flat), zeros, lane,
              4);
  }
  k_loop_end(e, &spans, NULL);
}

void nabla_emit_int8_prepack(nabla_emitter *e) {
  nabla_int8 self;
  const nabla_fused_spec *spec = e->spec;
  if (!nabla_int8_of(spec, &self)) return;
  nabla_int8_packed layout = nabla_int8_packed_of(spec, &self);
  nabla_ssa rows[NABLA_LANES], flats[NABLA_LANES];
  nabla_ssa begin = e->begin, end = e->end;
  nabla_loop groups;
  k_loop_begin(e, &groups, begin, end, NABLA_LANES, 0, NULL);
  nabla_ssa group = k_divide(e, groups.induction, NABLA_LANES);
  nabla_ssa to = k_address(e, e->packed, k_multiply(e, group, layout.size));
  nabla_emit_int8_rows(e, &self, groups.induction, rows, flats);
  pack_codes(e, &self, rows, to);
  nabla_emit_int8_spans(e, &self, flats, k_i64(e, 0),
                        k_i64(e, spec->k / self.span),
                        k_address(e, to, k_i64(e, layout.scales)),
                        k_address(e, to, k_i64(e, layout.zeros)));
  k_loop_end(e, &groups, NULL);
}

nabla_ssa nabla_emit_int8_spread(nabla_emitter *e, const char *type,
                                 nabla_ssa base, nabla_ssa byte) {
  return k_broadcast(e, type, k_load(e, type, base, byte, 4));
}
