/* Decoding panels of w to bytes for AMX, and prepacking it; see
 * gemm_int8_amx.h. */
#include <stdio.h>

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
  uint64_t each = out.spans * NABLA_TILED_ROWS * 4;
  out.scales = NABLA_TILED_HALVES * out.half;
  out.zeros = out.scales + each;
  out.sums = out.zeros + (self->has_zero ? each : 0);
  out.size = out.sums + NABLA_TILED_HALVES * out.half;
  return out;
}

/* Dwords of codes that are decoded at once: a cache line, or those of a block.
 */
static unsigned piece_of(const nabla_fused_spec *spec, const nabla_int8 *self) {
  int lines =
      self->block == NABLA_BYTES && spec->k % nabla_int8_line(self) == 0;
  return lines ? NABLA_LANES : (unsigned)self->block / 4 / self->parts;
}

/* Elements of k in it. */
static uint64_t piece_elements(const nabla_fused_spec *spec,
                               const nabla_int8 *self) {
  return (uint64_t)piece_of(spec, self) * 4 * self->parts;
}

/* Dwords of a and b in turns, from dword `context` of each on. */
static unsigned pick_turns_from(unsigned lane, unsigned context) {
  return lane / 2 + context + (lane % 2 ? NABLA_LANES : 0);
}

/* The piece of codes at address `from` to rows of tiles, from `to` on. */
static void decode_piece(nabla_emitter *emitter, const nabla_int8 *self,
                         nabla_ssa from, nabla_ssa to) {
  unsigned dwords = piece_of(emitter->spec, self);
  unsigned steps = dwords * 4 * self->parts / (unsigned)self->block;
  nabla_ssa part[NABLA_INT8_PARTS] = {0};
  nabla_ssa codes =
      nabla_emit_int8_dwords(emitter, from, nabla_emit_i64(emitter, 0), dwords);
  nabla_emit_int8_split(emitter, self, codes, part);
  for (unsigned s = 0; s < steps; s++) {
    nabla_ssa bytes = part[0];
    if (self->parts == 2) {
      nabla_ssa both[2];
      for (unsigned i = 0; i < 2; i++)
        both[i] = nabla_emit_bitcast(emitter, "vector<64xi8>", "vector<16xi32>",
                                     part[i]);
      bytes =
          nabla_emit_shuffle(emitter, "i32", NABLA_LANES, both[0], both[1],
                             NABLA_LANES, pick_turns_from, s * NABLA_LANES / 2);
      bytes =
          nabla_emit_bitcast(emitter, "vector<16xi32>", "vector<64xi8>", bytes);
    }
    nabla_emit_store(emitter, "vector<64xi8>", bytes, to,
                     nabla_emit_i64(emitter, (uint64_t)s * NABLA_TILE_BYTES),
                     64);
  }
}

/* Where the codes of a row are, from element `k` on, and the scale of its
 * span. */
typedef struct source {
  nabla_ssa codes;       /* address                       */
  uint64_t apart;        /* bytes from a piece to another */
  nabla_ssa flat;        /* in place: of the element      */
  nabla_ssa group, lane; /* prepacked: address; row in it */
  nabla_int8_packed layout;
} source;

static source in_place(nabla_emitter *emitter, const nabla_int8 *self,
                       nabla_ssa row, nabla_ssa k) {
  source out = {.apart = (uint64_t)piece_of(emitter->spec, self) * 4};
  nabla_ssa one = nabla_emit_i64(emitter, 1);
  nabla_ssa last =
      nabla_emit(emitter, "arith.subi %%v%u, %%v%u : i64", emitter->n, one);
  row = nabla_emit_minimum(emitter, row, last);
  out.flat = nabla_emit_add(emitter, nabla_emit_row_start(emitter, row), k);
  out.codes = nabla_emit_address(emitter, emitter->codes,
                                 nabla_emit_code_byte(emitter, out.flat));
  return out;
}

static source packed(nabla_emitter *emitter, const nabla_int8 *self,
                     nabla_ssa row, nabla_ssa k) {
  uint64_t piece = (uint64_t)piece_of(emitter->spec, self) * 4;
  source out = {.apart = piece * ROWS,
                .layout = nabla_int8_packed_of(emitter->spec, self)};
  nabla_ssa number = nabla_emit_divide(emitter, row, ROWS);
  nabla_ssa first = nabla_emit_multiply(emitter, number, ROWS);
  out.lane = nabla_emit(emitter, "arith.subi %%v%u, %%v%u : i64", row, first);
  out.group =
      nabla_emit_address(emitter, emitter->packed,
                         nabla_emit_multiply(emitter, number, out.layout.size));
  nabla_ssa at = nabla_emit_multiply(
      emitter,
      nabla_emit_divide(emitter, k, piece_elements(emitter->spec, self)),
      out.apart);
  at = nabla_emit_add(emitter, at,
                      nabla_emit_multiply(emitter, out.lane, piece));
  out.codes = nabla_emit_address(emitter, out.group, at);
  return out;
}

static source source_of(nabla_emitter *emitter, const nabla_int8 *self,
                        nabla_ssa row, nabla_ssa k) {
  return emitter->spec->layout == NABLA_WEIGHT_LAYOUT_PREPACKED
             ? packed(emitter, self, row, k)
             : in_place(emitter, self, row, k);
}

/* The scale, or negative zero point, of span `span` of the row, which is the
 * one that element `k` + `at` is in. */
static nabla_ssa factor_of(nabla_emitter *emitter, const nabla_int8 *self,
                           const source *s, nabla_ssa at, nabla_ssa span,
                           int is_zero) {
  if (s->group) {
    nabla_ssa byte =
        nabla_emit_add(emitter, nabla_emit_multiply(emitter, span, NABLA_BYTES),
                       nabla_emit_multiply(emitter, s->lane, 4));
    byte = nabla_emit_add_constant(
        emitter, byte, is_zero ? s->layout.zeros : s->layout.scales);
    return nabla_emit_load(emitter, "f32", s->group, byte, 4);
  }
  nabla_ssa flat = nabla_emit_add(emitter, s->flat, at);
  return is_zero ? nabla_emit_int8_negative(emitter, self, flat)
                 : nabla_emit_scale(emitter, flat);
}

/* Factors of `count` spans of a row to addresses `scales` and `zeros`, `apart`
 * bytes from span to span; `first` is the number of the first. */
static void write_factors(nabla_emitter *emitter, const nabla_int8 *self,
                          const source *s, nabla_ssa first, nabla_ssa count,
                          const nabla_ssa to[2], uint64_t apart) {
  nabla_loop spans;
  nabla_loop_begin(emitter, &spans, nabla_emit_i64(emitter, 0), count, 1, 0,
                   NULL);
  nabla_ssa at = nabla_emit_multiply(emitter, spans.induction, self->span);
  nabla_ssa span = nabla_emit_add(emitter, first, spans.induction);
  for (int is_zero = 0; is_zero <= self->has_zero; is_zero++)
    nabla_emit_store(
        emitter, "f32", factor_of(emitter, self, s, at, span, is_zero),
        to[is_zero], nabla_emit_multiply(emitter, spans.induction, apart), 4);
  nabla_loop_end(emitter, &spans, NULL);
}

/* Row `row` of the panel. */
static void decode_row(nabla_emitter *emitter, const nabla_int8 *self,
                       const nabla_tiled_block *b, nabla_ssa row) {
  nabla_int8_areas areas = nabla_int8_areas_of(self);
  source s =
      source_of(emitter, self, nabla_emit_add(emitter, b->column, row), b->k);
  nabla_ssa half = nabla_emit_divide(emitter, row, ROWS), to[2];
  nabla_ssa at = nabla_emit_add(
      emitter, nabla_emit_multiply(emitter, row, NABLA_TILE_ROW_BYTES),
      nabla_emit_multiply(emitter, half, areas.half - NABLA_TILE_BYTES));
  nabla_ssa out = nabla_emit_address(emitter, b->panel, at);
  nabla_loop pieces;
  nabla_ssa count =
      nabla_emit_divide(emitter, b->count, piece_elements(emitter->spec, self));
  nabla_loop_begin(emitter, &pieces, nabla_emit_i64(emitter, 0), count, 1, 0,
                   NULL);
  decode_piece(emitter, self,
               nabla_emit_address(
                   emitter, s.codes,
                   nabla_emit_multiply(emitter, pieces.induction, s.apart)),
               nabla_emit_address(
                   emitter, out,
                   nabla_emit_multiply(emitter, pieces.induction,
                                       piece_elements(emitter->spec, self) /
                                           self->block * NABLA_TILE_BYTES)));
  nabla_loop_end(emitter, &pieces, NULL);
  for (int i = 0; i <= self->has_zero; i++)
    to[i] = nabla_emit_address(
        emitter, b->panel,
        nabla_emit_add_constant(emitter, nabla_emit_multiply(emitter, row, 4),
                                i ? areas.zeros : areas.scales));
  write_factors(emitter, self, &s, nabla_emit_divide(emitter, b->k, self->span),
                areas.spans == 1
                    ? nabla_emit_i64(emitter, 1)
                    : nabla_emit_divide(emitter, b->count, self->span),
                to, (uint64_t)NABLA_TILED_ROWS * 4);
}

void nabla_emit_int8_amx_decode(nabla_emitter *emitter,
                                const nabla_tiled_block *b) {
  nabla_int8 self;
  nabla_loop rows;
  if (!nabla_int8_of_amx(emitter->spec, &self)) return;
  nabla_loop_begin(emitter, &rows, nabla_emit_i64(emitter, 0),
                   nabla_emit_i64(emitter, NABLA_TILED_ROWS), 1, 0, NULL);
  decode_row(emitter, &self, b, rows.induction);
  nabla_loop_end(emitter, &rows, NULL);
}

void nabla_emit_int8_amx_prefetch(nabla_emitter *emitter,
                                  const nabla_int8 *self, nabla_ssa row,
                                  nabla_ssa k) {
  source s = source_of(emitter, self, row, k);
  uint64_t bytes = (uint64_t)NABLA_INT8_DEPTH / self->parts;
  uint64_t piece = (uint64_t)piece_of(emitter->spec, self) * 4;
  for (uint64_t i = 0; i < bytes; i += CACHE_LINE)
    nabla_emit_prefetch(emitter, s.codes,
                        nabla_emit_i64(emitter, i / piece * s.apart));
  if (!s.group && emitter->spec->format.granularity == NABLA_PER_BLOCK)
    nabla_emit_prefetch_scale(emitter, s.flat);
  if (!s.group) return;
  /* 16 rows share a line for each span */
  nabla_ssa span = nabla_emit_divide(
      emitter,
      nabla_emit_multiply(emitter, s.lane, nabla_int8_areas_of(self).spans),
      ROWS);
  span =
      nabla_emit_add(emitter, span, nabla_emit_divide(emitter, k, self->span));
  nabla_emit_prefetch(
      emitter, s.group,
      nabla_emit_add_constant(emitter,
                              nabla_emit_multiply(emitter, span, NABLA_BYTES),
                              s.layout.scales));
}

/* ---- prepacking -----------------------------------------------------------
 */

/* Copies the codes of 16 rows from `first` on, piece by piece, so that what is
 * written is consecutive. */
static void pack_codes(nabla_emitter *emitter, const nabla_int8 *self,
                       nabla_ssa first) {
  char type[32];
  const nabla_fused_spec *spec = emitter->spec;
  uint64_t bytes = (uint64_t)piece_of(spec, self) * 4;
  nabla_ssa zero = nabla_emit_i64(emitter, 0), from[ROWS];
  source to = packed(emitter, self, first, zero);
  nabla_loop pieces;
  (void)snprintf(type, sizeof type, "vector<%uxi32>", piece_of(spec, self));
  for (unsigned i = 0; i < ROWS; i++)
    from[i] = in_place(emitter, self,
                       nabla_emit_add_constant(emitter, first, i), zero)
                  .codes;
  nabla_loop_begin(
      emitter, &pieces, zero,
      nabla_emit_i64(emitter, spec->k / piece_elements(spec, self)), 1, 0,
      NULL);
  nabla_ssa at = nabla_emit_multiply(emitter, pieces.induction, bytes);
  nabla_ssa out = nabla_emit_multiply(emitter, pieces.induction, to.apart);
  for (unsigned i = 0; i < ROWS; i++)
    nabla_emit_store(emitter, type,
                     nabla_emit_load(emitter, type, from[i], at, 1), to.codes,
                     nabla_emit_add_constant(emitter, out, i * bytes), 4);
  nabla_loop_end(emitter, &pieces, NULL);
}

static void pack_factors(nabla_emitter *emitter, const nabla_int8 *self,
                         nabla_ssa row) {
  nabla_ssa zero = nabla_emit_i64(emitter, 0), factors[2];
  source from = in_place(emitter, self, row, zero);
  source to = packed(emitter, self, row, zero);
  for (int i = 0; i <= self->has_zero; i++)
    factors[i] = nabla_emit_address(
        emitter, to.group,
        nabla_emit_add_constant(emitter,
                                nabla_emit_multiply(emitter, to.lane, 4),
                                i ? to.layout.zeros : to.layout.scales));
  write_factors(emitter, self, &from, zero,
                nabla_emit_i64(emitter, emitter->spec->k / self->span), factors,
                NABLA_BYTES);
}

/* All rows of the groups, beyond the last one it again. */
void nabla_emit_int8_amx_prepack(nabla_emitter *emitter) {
  nabla_int8 self;
  nabla_loop groups, rows;
  if (!nabla_int8_of_amx(emitter->spec, &self)) return;
  nabla_ssa end = nabla_emit_round_up(emitter, emitter->end, NABLA_TILED_ROWS);
  nabla_loop_begin(emitter, &groups, emitter->begin, end, ROWS, 0, NULL);
  pack_codes(emitter, &self, groups.induction);
  nabla_loop_begin(emitter, &rows, groups.induction,
                   nabla_emit_add_constant(emitter, groups.induction, ROWS), 1,
                   0, NULL);
  pack_factors(emitter, &self, rows.induction);
  nabla_loop_end(emitter, &rows, NULL);
  nabla_loop_end(emitter, &groups, NULL);
}
