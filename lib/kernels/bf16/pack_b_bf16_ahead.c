/* Packing ahead; see pack_b_bf16_ahead.h. */
#include "lib/kernels/bf16/pack_b_bf16_ahead.h"

#include <math.h>

#include "lib/kernels/builder/k.h"
#include "lib/kernels/dequant/dequantize.h"
#include "lib/kernels/tile_util.h"
#include "quant/codec/kernel.h"

#define CACHE_LINE 64u
#define FAR_ROWS   2u /* kinds of lines that are prefetched */

/* Are the values of codes, but for zeros, such that weights with scales between
 * NABLA_BF16_SCALE_LEAST and _MOST can be split? */
static int has_usual_values(const nabla_encoding *encoding) {
  const nabla_recipe *recipe = nabla_recipe_find(encoding);
  for (unsigned code = 0; code < 16; code++) {
    const float value = fabsf(recipe->value((uint8_t)code));
    if (value != 0 && !(value >= ldexpf(1, NABLA_BF16_VALUE_LEAST) &&
                        value <= ldexpf(1, NABLA_BF16_VALUE_MOST)))
      return 0;
  }
  return 1;
}

int nabla_bf16_is_ahead(const nabla_fused_spec *spec) {
  const nabla_format *format = &spec->w.format;
  const uint64_t k = spec->any_size ? spec->any_size : spec->k;
  if (spec->numerics != NABLA_NUMERICS_F32 || spec->w.ggml) return 0;
  if (!format->encoding)
    return k % NABLA_BF16_LINE == 0 && k &&
           (spec->w_stored != NABLA_DTYPE_F32 ||
            nabla_spec_last_m(spec) <= NABLA_TILE_ROWS / 2);
  if (spec->w_type != NABLA_DTYPE_F32 || !format->block ||
      nabla_row_alignment(spec, format->block) != format->block)
    return 0;
  if (format->encoding->is_mx && format->encoding->bits == 8)
    return k % NABLA_BF16_LINE == 0;
  return nabla_bf16_by_lines(spec) && format->encoding->bits == 4 &&
         !format->zero_point && !nabla_spec_is_integer(format->encoding) &&
         has_usual_values(format->encoding);
}

/* Lines of the cache of the first of 32 rows, and the bytes from one row to the
 * next. */
typedef struct far_rows {
  nabla_ssa first, stride;
  unsigned lines;
} far_rows;

/* Elements from one row to the next, times `count` / `of`. */
static nabla_ssa row_stride(nabla_emitter *e, uint64_t count, uint64_t of) {
  const nabla_fused_spec *spec = e->spec;
  return spec->any_size ? k_multiply(e, k_divide(e, e->k, of), count)
                        : k_i64(e, nabla_spec_row_stride(spec) / of * count);
}

static far_rows far_codes(nabla_emitter *e, nabla_ssa flat) {
  const nabla_fused_spec *spec = e->spec;
  const unsigned bits = spec->w.format.encoding
                            ? spec->w.format.encoding->bits
                            : nabla_dtype_bits(spec->w_stored);
  const uint64_t bytes = nabla_bf16_of(spec).depth * bits / 8;
  return (far_rows){
      k_address(e, e->codes, nabla_emit_code_byte(e, flat)),
      bits < 8 ? row_stride(e, 1, 8 / bits) : row_stride(e, bits / 8, 1),
      (unsigned)((bytes + CACHE_LINE - 1) / CACHE_LINE)};
}

static far_rows far_scales(nabla_emitter *e, nabla_ssa flat) {
  const nabla_fused_spec *spec = e->spec;
  const uint64_t bytes = nabla_scale_info_of(spec->w.format.scale)->bytes;
  return (far_rows){
      k_address(e, e->scales, k_multiply(e, nabla_emit_block(e, flat), bytes)),
      row_stride(e, bytes, spec->w.format.block), 1};
}

/* Prefetches the next block of columns at the same k. Where a line has codes
 * for two panels, one of these prefetches it, and the other the scales. */
static void rows_ahead(nabla_emitter *e, const nabla_macro_block *b,
                       far_rows out[FAR_ROWS]) {
  const nabla_encoding *encoding = e->spec->w.format.encoding;
  nabla_ssa flat = k_add(
      e,
      nabla_emit_row_start(e, k_add_constant(e, b->column, NABLA_MACRO_ROWS)),
      b->k);
  out[0] = far_codes(e, flat);
  out[1] = (far_rows){0, 0, 0};
  if (!encoding) return;
  const far_rows scales = far_scales(e, flat);
  if (encoding->bits != 4) {
    out[1] = scales;
    return;
  }
  nabla_ssa one = k_i64(e, 1);
  nabla_ssa panel = k_divide(e, b->k, b->self->depth);
  nabla_ssa odd =
      k_op(e, "arith.cmpi eq, %%v%u, %%v%u : i64",
           k_op(e, "arith.andi %%v%u, %%v%u : i64", panel, one), one);
  out[0].first = k_op(e, "arith.select %%v%u, %%v%u, %%v%u : i1, !llvm.ptr",
                      odd, scales.first, out[0].first);
  out[0].stride = k_choice(e, odd, scales.stride, out[0].stride);
}

/* The next panel, and whether all of its rows exist. Behind the last there is
 * none, and the last rows are decoded once more. */
static nabla_macro_block next_panel(nabla_emitter *e,
                                    const nabla_macro_block *b) {
  const uint64_t n = e->spec->any_size ? 0 : e->spec->n;
  nabla_macro_block next = *b;
  next.column = b->next;
  next.k = b->next_k;
  next.is_whole = n && n % NABLA_MACRO_ROWS == 0;
  if (next.is_whole)
    next.column = k_minimum(e, next.column, k_i64(e, n - NABLA_MACRO_ROWS));
  return next;
}

/* Rows of the next panel, half of which a step decodes: to the address `out`.
 */
typedef struct half_panel {
  nabla_macro_block next;
  far_rows ahead[FAR_ROWS];
  nabla_ssa first, out;
} half_panel;

/* Row `i` of the half. */
static void decode_row(nabla_emitter *e, const half_panel *to, nabla_ssa i,
                       nabla_bf16_extremes *all) {
  nabla_ssa row = k_add(e, to->first, i);
  nabla_emit_bf16_row(
      e, &to->next, row,
      k_address(e, to->out, k_multiply(e, i, NABLA_TILE_ROW_BYTES)), all);
  for (unsigned f = 0; f < FAR_ROWS; f++) {
    const far_rows *far = &to->ahead[f];
    for (unsigned line = 0; line < far->lines; line++)
      k_prefetch_far(
          e,
          k_address(e, k_address(e, far->first, k_product(e, row, far->stride)),
                    k_i64(e, (uint64_t)line * CACHE_LINE)));
  }
}

/* Rows [from, to) in a loop, since a row of weights that are decoded and split
 * one by one is many operations. */
static void decode_in_loop(nabla_emitter *e, const half_panel *half,
                           unsigned from, unsigned to,
                           nabla_bf16_extremes *all) {
  nabla_bf16_extremes next;
  nabla_loop rows;
  k_loop_begin(e, &rows, k_i64(e, from), k_i64(e, to), 1,
               all ? NABLA_BF16_EXTREMES : 0, all ? all->values : NULL);
  if (all) next = nabla_bf16_extremes_of(rows.carried);
  decode_row(e, half, rows.induction, all ? &next : NULL);
  k_loop_end(e, &rows, next.values);
  if (all) *all = nabla_bf16_extremes_of(rows.results);
}

/* The rows of the next panel that come after a product: half of them in each of
 * two steps. */
static void decode_rows(nabla_emitter *e, nabla_bf16_step *t) {
  const nabla_fused_spec *spec = e->spec;
  const int by_lines = nabla_bf16_by_lines(spec);
  const int looks = !by_lines && nabla_bf16_has_extremes(spec);
  const unsigned until = nabla_bf16_rows_behind(t, NABLA_TILE_ROWS);
  if (t->rows == until || (!by_lines && t->done % NABLA_MACRO_HALVES)) return;
  half_panel *half = t->context;
  if (!t->rows) {
    half->next = next_panel(e, t->b);
    half->first = k_multiply(e, t->number, NABLA_TILE_ROWS);
    half->out =
        k_address(e, t->b->other, k_multiply(e, t->number, t->self.half));
    rows_ahead(e, t->b, half->ahead);
  }
  if (looks && !t->rows) t->all = nabla_emit_bf16_no_extremes(e);
  for (unsigned i = t->rows; by_lines && i < until; i++)
    decode_row(e, half, k_i64(e, i), NULL);
  if (!by_lines)
    decode_in_loop(e, half, t->rows, until, looks ? &t->all : NULL);
  t->rows = until;
  if (looks && until == NABLA_TILE_ROWS)
    nabla_emit_bf16_mark_extremes(e, half->out, &t->all);
}

static void multiply_panel(nabla_emitter *e, const nabla_macro_block *b,
                           const nabla_macro_tile *s) {
  nabla_loop steps;
  k_loop_begin(e, &steps, k_i64(e, 0), b->steps, 1, 0, NULL);
  half_panel half;
  nabla_emit_bf16_step(e, b, s, steps.induction, decode_rows, &half);
  k_loop_end(e, &steps, NULL);
}

void nabla_emit_bf16_ahead(nabla_emitter *e, nabla_macro_block *b,
                           const nabla_macro_tile *square) {
  nabla_macro_tile s = *square;
  const unsigned sets = nabla_bf16_sets(e, &s);
  nabla_ssa scratch = nabla_emit_bf16_scratch(e, b, 0);
  nabla_loop runs, panels;
  nabla_emit_macro_panel(e, b, &s, k_i64(e, 0));
  if (nabla_bf16_by_lines(e->spec) && nabla_bf16_has_extremes(e->spec))
    nabla_emit_bf16_mark_scales(e, b, &s);
  k_loop_begin(e, &runs, k_i64(e, 0), e->k, NABLA_BF16_SUM_DEPTH, 0, NULL);
  nabla_ssa end = k_minimum(
      e, k_add_constant(e, runs.induction, NABLA_BF16_SUM_DEPTH), e->k);
  nabla_emit_bf16_zero(e, sets);
  k_loop_begin(e, &panels, runs.induction, end, b->self->depth, 0, NULL);
  nabla_macro_tile here = s;
  nabla_emit_macro_panel(e, b, &here, panels.induction);
  multiply_panel(e, b, &here);
  k_loop_end(e, &panels, NULL);
  nabla_emit_bf16_store_sums(e, sets, scratch);
  nabla_emit_bf16_add_sums(e, &s, scratch);
  k_loop_end(e, &runs, NULL);
}
