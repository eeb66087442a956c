/* Packing of weight panels to bytes for AMX, and prepacking; see
 * gemm_int8_amx.h. */
#include <stdio.h>

#include "lib/kernels/builder/k.h"
#include "lib/kernels/dequant/dequantize.h"
#include "lib/kernels/int8/gemm_int8_amx.h"
#include "lib/kernels/tile_util.h"

#define ROWS       NABLA_TILE_ROWS
#define CACHE_LINE 64u

nabla_int8_areas nabla_int8_areas_of(const nabla_int8 *self) {
  nabla_int8_areas out = {
      .half = NABLA_INT8_DEPTH / self->block * NABLA_TILE_BYTES,
      .spans =
          self->span < NABLA_INT8_DEPTH ? NABLA_INT8_DEPTH / self->span : 1};
  uint64_t each = out.spans * NABLA_MACRO_ROWS * 4;
  out.scales = NABLA_MACRO_HALVES * out.half;
  out.zeros = out.scales + each;
  out.sums = out.zeros + (self->has_zero ? each : 0);
  out.size = out.sums + NABLA_MACRO_HALVES * out.half;
  return out;
}

/* Dwords of codes in a piece, which is decoded at once: a cache line, or a
 * block. */
static unsigned piece_of(const nabla_fused_spec *spec, const nabla_int8 *self) {
  int lines =
      self->block == NABLA_BYTES && spec->k % nabla_int8_line(self) == 0;
  return lines ? NABLA_LANES : (unsigned)self->block / 4 / self->parts;
}

/* Elements of k in a piece. */
static uint64_t piece_elements(const nabla_fused_spec *spec,
                               const nabla_int8 *self) {
  return (uint64_t)piece_of(spec, self) * 4 * self->parts;
}

/* Interleaved dwords of a and b, from dword `context` of each on. */
static unsigned pick_interleaved_from(unsigned lane, unsigned context) {
  return lane / 2 + context + (lane % 2 ? NABLA_LANES : 0);
}

/* Decodes the piece of codes at address `from` to rows of tiles at `to`. */
static void decode_piece(nabla_emitter *e, const nabla_int8 *self,
                         nabla_ssa from, nabla_ssa to) {
  unsigned dwords = piece_of(e->spec, self);
  unsigned steps = dwords * 4 * self->parts / (unsigned)self->block;
  nabla_ssa part[NABLA_INT8_PARTS] = {0};
  nabla_ssa codes = nabla_emit_int8_dwords(e, from, k_i64(e, 0), dwords);
  nabla_emit_int8_split(e, self, codes, part);
  for (unsigned s = 0; s < steps; s++) {
    nabla_ssa bytes = part[0];
    if (self->parts == 2) {
      nabla_ssa both[2];
      for (unsigned i = 0; i < 2; i++)
        both[i] = k_bitcast(e, "vector<64xi8>", "vector<16xi32>", part[i]);
      bytes = k_shuffle(e, "i32", NABLA_LANES, both[0], both[1], NABLA_LANES,
                        pick_interleaved_from, s * NABLA_LANES / 2);
      bytes = k_bitcast(e, "vector<16xi32>", "vector<64xi8>", bytes);
    }
    k_store(e, "vector<64xi8>", bytes, to,
            k_i64(e, (uint64_t)s * NABLA_TILE_BYTES), 64);
  }
}

/* The codes of a row from element `k` on, and the place of their scales. */
typedef struct source {
  nabla_ssa codes;       /* address                       */
  uint64_t apart;        /* bytes from a piece to the next */
  nabla_ssa flat;        /* in place: index of the element */
  nabla_ssa group, lane; /* prepacked: address of the group; row in it */
  nabla_int8_packed layout;
} source;

static source in_place(nabla_emitter *e, const nabla_int8 *self, nabla_ssa row,
                       nabla_ssa k) {
  source out = {.apart = (uint64_t)piece_of(e->spec, self) * 4};
  nabla_ssa one = k_i64(e, 1);
  nabla_ssa last = k_op(e, "arith.subi %%v%u, %%v%u : i64", e->n, one);
  row = k_minimum(e, row, last);
  out.flat = k_add(e, nabla_emit_row_start(e, row), k);
  out.codes = k_address(e, e->codes, nabla_emit_code_byte(e, out.flat));
  return out;
}

static source packed(nabla_emitter *e, const nabla_int8 *self, nabla_ssa row,
                     nabla_ssa k) {
  uint64_t piece = (uint64_t)piece_of(e->spec, self) * 4;
  source out = {.apart = piece * ROWS,
                .layout = nabla_int8_packed_of(e->spec, self)};
  nabla_ssa number = k_divide(e, row, ROWS);
  nabla_ssa first = k_multiply(e, number, ROWS);
  out.lane = k_op(e, "arith.subi %%v%u, %%v%u : i64", row, first);
  out.group = k_address(e, e->packed, k_multiply(e, number, out.layout.size));
  nabla_ssa at =
      k_multiply(e, k_divide(e, k, piece_elements(e->spec, self)), out.apart);
  at = k_add(e, at, k_multiply(e, out.lane, piece));
  out.codes = k_address(e, out.group, at);
  return out;
}

static source source_of(nabla_emitter *e, const nabla_int8 *self, nabla_ssa row,
                        nabla_ssa k) {
  return e->spec->layout == NABLA_WEIGHT_LAYOUT_PREPACKED
             ? packed(e, self, row, k)
             : in_place(e, self, row, k);
}

/* Loads the scale, or the negative zero point, of span `span` of the row. The
 * span contains the element `at` after the first of `s`. */
static nabla_ssa factor_of(nabla_emitter *e, const nabla_int8 *self,
                           const source *s, nabla_ssa at, nabla_ssa span,
                           int is_zero) {
  if (s->group) {
    nabla_ssa byte =
        k_add(e, k_multiply(e, span, NABLA_BYTES), k_multiply(e, s->lane, 4));
    byte =
        k_add_constant(e, byte, is_zero ? s->layout.zeros : s->layout.scales);
    return k_load(e, "f32", s->group, byte, 4);
  }
  nabla_ssa flat = k_add(e, s->flat, at);
  return is_zero ? nabla_emit_int8_negative(e, self, flat)
                 : nabla_emit_scale(e, flat);
}

/* Writes the scales of `count` spans of a row to to[0] and the negative zero
 * points to to[1], `apart` bytes from span to span. `first` is the number of
 * the first span. */
static void write_factors(nabla_emitter *e, const nabla_int8 *self,
                          const source *s, nabla_ssa first, nabla_ssa count,
                          const nabla_ssa to[2], uint64_t apart) {
  nabla_loop spans;
  k_loop_begin(e, &spans, k_i64(e, 0), count, 1, 0, NULL);
  nabla_ssa at = k_multiply(e, spans.induction, self->span);
  nabla_ssa span = k_add(e, first, spans.induction);
  for (int is_zero = 0; is_zero <= self->has_zero; is_zero++)
    k_store(e, "f32", factor_of(e, self, s, at, span, is_zero), to[is_zero],
            k_multiply(e, spans.induction, apart), 4);
  k_loop_end(e, &spans, NULL);
}

/* Decodes row `row` of the panel. */
static void decode_row(nabla_emitter *e, const nabla_int8 *self,
                       const nabla_macro_block *b, nabla_ssa row) {
  nabla_int8_areas areas = nabla_int8_areas_of(self);
  source s = source_of(e, self, k_add(e, b->column, row), b->k);
  nabla_ssa half = k_divide(e, row, ROWS), to[2];
  nabla_ssa at = k_add(e, k_multiply(e, row, NABLA_TILE_ROW_BYTES),
                       k_multiply(e, half, areas.half - NABLA_TILE_BYTES));
  nabla_ssa out = k_address(e, b->panel, at);
  nabla_loop pieces;
  nabla_ssa count = k_divide(e, b->count, piece_elements(e->spec, self));
  k_loop_begin(e, &pieces, k_i64(e, 0), count, 1, 0, NULL);
  decode_piece(e, self,
               k_address(e, s.codes, k_multiply(e, pieces.induction, s.apart)),
               k_address(e, out,
                         k_multiply(e, pieces.induction,
                                    piece_elements(e->spec, self) /
                                        self->block * NABLA_TILE_BYTES)));
  k_loop_end(e, &pieces, NULL);
  for (int i = 0; i <= self->has_zero; i++)
    to[i] = k_address(e, b->panel,
                      k_add_constant(e, k_multiply(e, row, 4),
                                     i ? areas.zeros : areas.scales));
  write_factors(
      e, self, &s, k_divide(e, b->k, self->span),
      areas.spans == 1 ? k_i64(e, 1) : k_divide(e, b->count, self->span), to,
      (uint64_t)NABLA_MACRO_ROWS * 4);
}

void nabla_emit_int8_amx_pack_b(nabla_emitter *e, const nabla_macro_block *b) {
  nabla_int8 self;
  nabla_loop rows;
  if (!nabla_int8_of_amx(e->spec, &self)) return;
  k_loop_begin(e, &rows, k_i64(e, 0), k_i64(e, NABLA_MACRO_ROWS), 1, 0, NULL);
  decode_row(e, &self, b, rows.induction);
  k_loop_end(e, &rows, NULL);
}

void nabla_emit_int8_amx_prefetch(nabla_emitter *e, const nabla_int8 *self,
                                  nabla_ssa row, nabla_ssa k) {
  source s = source_of(e, self, row, k);
  uint64_t bytes = (uint64_t)NABLA_INT8_DEPTH / self->parts;
  uint64_t piece = (uint64_t)piece_of(e->spec, self) * 4;
  for (uint64_t i = 0; i < bytes; i += CACHE_LINE)
    k_prefetch(e, s.codes, k_i64(e, i / piece * s.apart));
  if (!s.group && e->spec->w.format.granularity == NABLA_PER_BLOCK)
    nabla_emit_prefetch_scale(e, s.flat);
  if (!s.group) return;
  /* 16 rows share a line for each span */
  nabla_ssa span =
      k_divide(e, k_multiply(e, s.lane, nabla_int8_areas_of(self).spans), ROWS);
  span = k_add(e, span, k_divide(e, k, self->span));
  k_prefetch(
      e, s.group,
      k_add_constant(e, k_multiply(e, span, NABLA_BYTES), s.layout.scales));
}

/* ---- prepacking -----------------------------------------------------------
 */

/* Copies the codes of 16 rows from `first` on, piece by piece, so that the
 * writes are consecutive. */
static void pack_codes(nabla_emitter *e, const nabla_int8 *self,
                       nabla_ssa first) {
  char type[32];
  const nabla_fused_spec *spec = e->spec;
  uint64_t bytes = (uint64_t)piece_of(spec, self) * 4;
  nabla_ssa zero = k_i64(e, 0), from[ROWS];
  source to = packed(e, self, first, zero);
  nabla_loop pieces;
  (void)snprintf(type, sizeof type, "vector<%uxi32>", piece_of(spec, self));
  for (unsigned i = 0; i < ROWS; i++)
    from[i] = in_place(e, self, k_add_constant(e, first, i), zero).codes;
  k_loop_begin(e, &pieces, zero, k_i64(e, spec->k / piece_elements(spec, self)),
               1, 0, NULL);
  nabla_ssa at = k_multiply(e, pieces.induction, bytes);
  nabla_ssa out = k_multiply(e, pieces.induction, to.apart);
  for (unsigned i = 0; i < ROWS; i++)
    k_store(e, type, k_load(e, type, from[i], at, 1), to.codes,
            k_add_constant(e, out, i * bytes), 4);
  k_loop_end(e, &pieces, NULL);
}

static void pack_factors(nabla_emitter *e, const nabla_int8 *self,
                         nabla_ssa row) {
  nabla_ssa zero = k_i64(e, 0), factors[2];
  source from = in_place(e, self, row, zero);
  source to = packed(e, self, row, zero);
  for (int i = 0; i <= self->has_zero; i++)
    factors[i] =
        k_address(e, to.group,
                  k_add_constant(e, k_multiply(e, to.lane, 4),
                                 i ? to.layout.zeros : to.layout.scales));
  write_factors(e, self, &from, zero, k_i64(e, e->spec->k / self->span),
                factors, NABLA_BYTES);
}

/* Packs all rows of the groups; the last row is repeated to fill a group. */
void nabla_emit_int8_amx_prepack(nabla_emitter *e) {
  nabla_int8 self;
  nabla_loop groups, rows;
  if (!nabla_int8_of_amx(e->spec, &self)) return;
  nabla_ssa end = nabla_emit_round_up(e, e->end, NABLA_MACRO_ROWS);
  k_loop_begin(e, &groups, e->begin, end, ROWS, 0, NULL);
  pack_codes(e, &self, groups.induction);
  k_loop_begin(e, &rows, groups.induction,
               k_add_constant(e, groups.induction, ROWS), 1, 0, NULL);
  pack_factors(e, &self, rows.induction);
  k_loop_end(e, &rows, NULL);
  k_loop_end(e, &groups, NULL);
}
