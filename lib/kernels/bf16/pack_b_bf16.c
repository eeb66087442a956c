/* Packing of weight panels to bf16; see bf16.h. */
#include "lib/kernels/bf16/pack_b_bf16_ahead.h"
#include "lib/kernels/bf16/split_bf16.h"
#include "lib/kernels/builder/k.h"
#include "lib/kernels/dequant/dequantize.h"
#include "lib/kernels/dequant/dequantize_ggml.h"
#include "lib/kernels/dequant/ggml_vectors.h"
#include "lib/kernels/int8/int8.h"
#include "lib/kernels/tile_util.h"
#include "quant/codec/ggml.h"

#define CACHE_LINE 64u

int nabla_bf16_is_apart(const nabla_fused_spec *spec) {
  return spec->numerics == NABLA_NUMERICS_F32 && !nabla_bf16_by_lines(spec);
}

int nabla_bf16_by_units(const nabla_fused_spec *spec) {
  const nabla_bf16 self = nabla_bf16_of(spec);
  if (!spec->w.ggml || !self.run) return 0;
  const uint32_t unit = nabla_block_codes_unit(spec);
  return unit && self.depth % unit == 0;
}

int nabla_bf16_applies(const nabla_fused_spec *spec, nabla_numerics numerics) {
  return spec->numerics == numerics && nabla_spec_is_row(spec) &&
         (spec->m_min > 1 || spec->any_size) && spec->k &&
         spec->any_size % NABLA_BF16_STEP == 0 &&
         NABLA_HAS(spec->features, AVX512BF16) &&
         NABLA_HAS(spec->features, AVX512BW);
}

/* ---- any encoding: 16 elements at a time ----------------------------------
 */

/* A row of a panel: its first element, and the address that this goes to. */
typedef struct piece {
  nabla_ssa flat, out;
} piece;

/* Elements [flat, flat + width) of a row, to the address `out`, and to `all` if
 * there is one. */
static void decode_step(nabla_emitter *e, nabla_ssa flat, unsigned width,
                        nabla_ssa out, nabla_bf16_extremes *all) {
  const nabla_fused_spec *spec = e->spec;
  nabla_ssa half[2];
  for (unsigned i = 0; i < 2; i++) {
    unsigned first = i * NABLA_LANES;
    unsigned left = width > first ? width - first : 0;
    nabla_window window = {.flat = k_add_constant(e, flat, first),
                           .width = left < NABLA_LANES ? left : NABLA_LANES,
                           .aligned = nabla_row_alignment(spec, NABLA_LANES),
                           .is_unscaled = nabla_bf16_of(spec).run != 0};
    half[i] =
        left ? nabla_emit_dequantize(e, &window) : k_f32(e, NABLA_VECTOR, 0);
    if (all && left) nabla_emit_bf16_add_extremes(e, all, half[i]);
  }
  nabla_emit_bf16_parts(e, half[0], half[1], out);
}

/* Steps of `width` elements in [from, to) of the row from `flat` on. */
static void decode_steps(nabla_emitter *e, const piece *row, nabla_ssa from,
                         nabla_ssa to, unsigned width,
                         nabla_bf16_extremes *all) {
  nabla_bf16_extremes next;
  nabla_loop loop;
  k_loop_begin(e, &loop, from, to, NABLA_BF16_STEP,
               all ? NABLA_BF16_EXTREMES : 0, all ? all->values : NULL);
  if (all) next = nabla_bf16_extremes_of(loop.carried);
  nabla_ssa at =
      k_multiply(e, loop.induction, NABLA_TILE_BYTES / NABLA_BF16_STEP);
  decode_step(e, k_add(e, row->flat, loop.induction), width,
              k_address(e, row->out, at), all ? &next : NULL);
  k_loop_end(e, &loop, next.values);
  if (all) *all = nabla_bf16_extremes_of(loop.results);
}

/* ---- blocks of GGUF, whose scales are left to sums -------------------------
 */

/* Keeps the first 16 elements of a tile's row until the others are there. */
typedef struct unit_place {
  nabla_ssa out, low;
} unit_place;

static void store_codes(nabla_emitter *e, uint32_t element, nabla_ssa codes,
                        void *context) {
  unit_place *to = context;
  if (element % NABLA_BF16_STEP == 0)
    to->low = codes;
  else
    nabla_emit_bf16_parts(
        e, to->low, codes,
        k_address(e, to->out,
                  k_i64(e, (uint64_t)(element / NABLA_BF16_STEP) *
                               NABLA_TILE_BYTES)));
}

/* Rows begin with a block, so that the position in a block follows from `k`. */
static void decode_units(nabla_emitter *e, const nabla_macro_block *p,
                         const piece *row) {
  const uint32_t unit = nabla_block_codes_unit(e->spec);
  nabla_loop units;
  k_loop_begin(e, &units, k_i64(e, 0), p->count, unit, 0, NULL);
  nabla_ssa at =
      k_multiply(e, units.induction, NABLA_TILE_BYTES / NABLA_BF16_STEP);
  unit_place to = {.out = k_address(e, row->out, at)};
  nabla_ssa flat = k_add(e, row->flat, units.induction);
  nabla_ssa k = k_add(e, p->k, units.induction);
  nabla_ssa half = k_op(e, "arith.andi %%v%u, %%v%u : i64",
                        k_divide(e, k, NABLA_BLOCK_HALF), k_i64(e, 1));
  nabla_emit_block_codes(e, nabla_emit_code_byte(e, flat), half, store_codes,
                         &to);
  k_loop_end(e, &units, NULL);
}

/* ---- a row of a panel -----------------------------------------------------
 */

static void decode_row(nabla_emitter *e, const nabla_macro_block *p,
                       const piece *row, nabla_bf16_extremes *all) {
  const nabla_fused_spec *spec = e->spec;
  unsigned rest = spec->any_size ? 0 : (unsigned)(spec->k % NABLA_BF16_STEP);
  nabla_ssa whole = k_divide(e, p->count, NABLA_BF16_STEP);
  whole = k_multiply(e, whole, NABLA_BF16_STEP);
  decode_steps(e, row, k_i64(e, 0), whole, NABLA_BF16_STEP, all);
  if (rest) decode_steps(e, row, whole, p->count, rest, all);
}

void nabla_emit_bf16_row(nabla_emitter *e, const nabla_macro_block *p,
                         nabla_ssa row, nabla_ssa out,
                         nabla_bf16_extremes *all) {
  const nabla_fused_spec *spec = e->spec;
  nabla_ssa of_w = k_add(e, p->column, row);
  if (!p->is_whole)
    of_w = k_minimum(
        e, of_w, k_op(e, "arith.subi %%v%u, %%v%u : i64", e->n, k_i64(e, 1)));
  const piece here = {k_add(e, nabla_emit_row_start(e, of_w), p->k), out};
  if (nabla_bf16_by_lines(spec))
    nabla_emit_bf16_lines(e, here.flat, p->count, here.out);
  else if (nabla_bf16_by_units(spec))
    decode_units(e, p, &here);
  else
    decode_row(e, p, &here, all);
  if (nabla_bf16_of(spec).run)
    nabla_emit_bf16_write_scales(e, p, row, here.flat);
}

/* The 16 rows of a panel from row `first` on, to the address `out`. */
static void decode_half(nabla_emitter *e, const nabla_macro_block *p,
                        nabla_ssa first, nabla_ssa out) {
  const nabla_fused_spec *spec = e->spec;
  const int looks = !nabla_bf16_by_lines(spec) && nabla_bf16_has_extremes(spec);
  nabla_bf16_extremes all = {{0, 0}};
  if (looks) all = nabla_emit_bf16_no_extremes(e);
  nabla_loop rows;
  k_loop_begin(e, &rows, k_i64(e, 0), k_i64(e, NABLA_TILE_ROWS), 1,
               looks ? NABLA_BF16_EXTREMES : 0, all.values);
  if (looks) all = nabla_bf16_extremes_of(rows.carried);
  nabla_ssa to = k_multiply(e, rows.induction, NABLA_TILE_ROW_BYTES);
  nabla_emit_bf16_row(e, p, k_add(e, first, rows.induction),
                      k_address(e, out, to), looks ? &all : NULL);
  k_loop_end(e, &rows, all.values);
  if (looks) all = nabla_bf16_extremes_of(rows.results);
  if (looks) nabla_emit_bf16_mark_extremes(e, out, &all);
}

void nabla_emit_bf16_pack_b(nabla_emitter *e, const nabla_macro_block *p) {
  const nabla_bf16 self = nabla_bf16_of(e->spec);
  nabla_loop halves;
  k_loop_begin(e, &halves, k_i64(e, 0), k_i64(e, NABLA_MACRO_HALVES), 1, 0,
               NULL);
  decode_half(
      e, p, k_multiply(e, halves.induction, NABLA_TILE_ROWS),
      k_address(e, p->panel, k_multiply(e, halves.induction, self.half)));
  k_loop_end(e, &halves, NULL);
  if (self.run) nabla_emit_bf16_limit_scales(e, p);
}

/* Bytes of codes that a row of a panel has. */
static uint64_t bytes_of_row(const nabla_fused_spec *spec) {
  uint64_t depth = nabla_bf16_of(spec).depth;
  if (spec->w.ggml) return depth * spec->w.ggml->bytes / spec->w.ggml->elements;
  unsigned bits = spec->w.format.encoding ? spec->w.format.encoding->bits
                                          : nabla_dtype_bits(spec->w_stored);
  return depth * bits / 8;
}

/* Each half of a block has codes in all of its cache lines: the panel with one
 * half prefetches half of the next block, and its end. */
static void prefetch_half(nabla_emitter *e, nabla_ssa flat) {
  const nabla_ggml *format = e->spec->w.ggml;
  nabla_ssa half = k_op(e, "arith.andi %%v%u, %%v%u : i64",
                        k_divide(e, flat, NABLA_BLOCK_HALF), k_i64(e, 1));
  flat = k_add_constant(e, flat, NABLA_BLOCK_HALF);
  nabla_ssa base = nabla_emit_code_byte(e, flat);
  nabla_ssa first = k_add(e, base, k_multiply(e, half, 2 * CACHE_LINE));
  for (unsigned i = 0; i < 2; i++)
    k_prefetch(e, e->codes, k_add_constant(e, first, i * (uint64_t)CACHE_LINE));
  k_prefetch(e, e->codes, k_add_constant(e, base, format->bytes - 1));
}

void nabla_emit_bf16_prefetch(nabla_emitter *e, nabla_ssa row, nabla_ssa k) {
  const nabla_fused_spec *spec = e->spec;
  nabla_ssa flat = k_add(e, nabla_emit_row_start(e, row), k);
  if (spec->w.ggml && nabla_bf16_of(spec).depth < spec->w.ggml->elements &&
      nabla_bf16_by_units(spec)) {
    prefetch_half(e, flat);
    return;
  }
  nabla_ssa byte = nabla_emit_code_byte(e, flat);
  for (uint64_t i = 0; i < bytes_of_row(spec); i += CACHE_LINE)
    k_prefetch(e, e->codes, k_add_constant(e, byte, i));
  if (spec->w.format.encoding && spec->w.format.granularity == NABLA_PER_BLOCK)
    nabla_emit_prefetch_scale(e, flat);
}
