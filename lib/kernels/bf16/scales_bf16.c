/* Scales that sums are multiplied with (bf16.h), and range checks of scales
 * that are in the weights (pack_b_bf16_ahead.h). */
#include "lib/kernels/bf16/pack_b_bf16_ahead.h"
#include "lib/kernels/bf16/split_bf16.h"
#include "lib/kernels/builder/k.h"
#include "lib/kernels/dequant/dequantize_ggml.h"
#include "lib/kernels/int8/int8.h"
#include "lib/kernels/tile_util.h"
#include "quant/codec/ggml.h"

#define NAN_BITS      0x7fc00000u
#define POWER_BITS(e) ((uint32_t)(127 + (e)) << 23)
/* Stays in sums below 2^-62, and is nothing beside those of 2^-60. */
#define SMALL_SUM        (-86)
#define BLOCK_BYTES      16u         /* of 32 codes of 4 bits */
#define SCALE_LIMIT_BITS 0x47800000u /* 2^16, as some codes are as much */

nabla_ssa nabla_emit_bf16_scales(nabla_emitter *e, const nabla_macro_block *p) {
  return k_address(e, e->scratch,
                   k_i64(e, nabla_macro_kernel_scratch(p->self) +
                                2 * NABLA_BF16_FRESH_BYTES));
}

/* All of a block of GGUF at once, where the panel is one. */
void nabla_emit_bf16_write_scales(nabla_emitter *e, const nabla_macro_block *p,
                                  nabla_ssa row, nabla_ssa flat) {
  const nabla_fused_spec *spec = e->spec;
  const nabla_bf16 self = nabla_bf16_of(spec);
  nabla_array_ref scales = nabla_floats_at(nabla_emit_bf16_scales(e, p));
  nabla_ssa to = k_multiply(e, row, self.scales);
  if (spec->w.ggml && spec->w.ggml->layout->sub == NABLA_GGML_SUB_PACKED6 &&
      nabla_row_alignment(spec, spec->w.ggml->elements) == self.depth) {
    k_write_lanes(e, scales, to,
                  nabla_emit_ggml_sub_lanes(e, nabla_emit_code_byte(e, flat)));
    return;
  }
  nabla_ssa values[2] = {0, 0};
  nabla_loop runs;
  k_loop_begin(e, &runs, k_i64(e, 0), p->count, self.run, 0, NULL);
  nabla_ssa at = k_add(e, flat, runs.induction);
  to = k_add(e, to,
             k_multiply(e, k_divide(e, runs.induction, self.run),
                        self.has_minima ? 2 : 1));
  if (spec->w.ggml && spec->w.ggml->layout->sub == NABLA_GGML_SUB_BYTES)
    values[0] = nabla_emit_ggml_block_factor(e, at);
  else if (spec->w.ggml)
    nabla_emit_ggml_factors(e, at, values);
  else
    values[0] = nabla_emit_scale(e, at);
  k_write(e, scales, to, values[0]);
  if (self.has_minima) k_write(e, scales, k_add_constant(e, to, 1), values[1]);
  k_loop_end(e, &runs, NULL);
}

void nabla_emit_bf16_limit_scales(nabla_emitter *e,
                                  const nabla_macro_block *p) {
  nabla_array_ref scales = nabla_floats_at(nabla_emit_bf16_scales(e, p));
  nabla_loop loop;
  k_loop_begin(e, &loop, k_i64(e, 0),
               k_i64(e, NABLA_MACRO_ROWS * nabla_bf16_of(e->spec).scales),
               NABLA_LANES, 0, NULL);
  nabla_ssa value = k_read_lanes(e, scales, loop.induction, NABLA_LANES);
  k_write_lanes(
      e, scales, loop.induction,
      nabla_emit_bf16_limit(e, value, NABLA_BF16_TINY_BITS, SCALE_LIMIT_BITS));
  k_loop_end(e, &loop, NULL);
}

/* ---- scales that are in the weights ---------------------------------------
 */

/* Numbers that scales are made of, and powers of two: what they may be, but for
 * zeros. */
typedef struct numbers {
  nabla_array_ref array;
  int is_e8m0; /* bytes */
  int least, most;
} numbers;

/* i1: are there such as are less, or more? */
typedef struct beyond {
  nabla_ssa small, large;
} beyond;

static nabla_ssa read_numbers(nabla_emitter *e, const numbers *n,
                              nabla_ssa index, unsigned width) {
  const nabla_shape shape = width == 1 ? NABLA_SCALAR : NABLA_VECTOR;
  nabla_ssa values;
  if (n->is_e8m0)
    values = nabla_emit_e8m0(
        e, shape,
        k_load(e, shape ? "vector<16xi8>" : "i8", n->array.base, index, 1));
  else if (width == 1)
    values = k_read(e, n->array, index);
  else
    return k_read_lanes(e, n->array, index, width);
  return width == 1 ? k_broadcast(e, "f32", values) : values;
}

static void gather_by(nabla_emitter *e, const numbers *n, nabla_ssa first,
                      nabla_ssa end, unsigned width, nabla_bf16_extremes *all) {
  nabla_loop loop;
  k_loop_begin(e, &loop, first, end, width, NABLA_BF16_EXTREMES, all->values);
  nabla_bf16_extremes next = nabla_bf16_extremes_of(loop.carried);
  nabla_emit_bf16_add_extremes(e, &next,
                               read_numbers(e, n, loop.induction, width));
  k_loop_end(e, &loop, next.values);
  *all = nabla_bf16_extremes_of(loop.results);
}

/* Numbers [first, end). */
static void gather(nabla_emitter *e, const numbers *n, nabla_ssa first,
                   nabla_ssa end, nabla_bf16_extremes *all) {
  nabla_ssa whole = k_divide(
      e, k_op(e, "arith.subi %%v%u, %%v%u : i64", end, first), NABLA_LANES);
  whole = k_add(e, first, k_multiply(e, whole, NABLA_LANES));
  gather_by(e, n, first, whole, NABLA_LANES, all);
  gather_by(e, n, whole, end, 1, all);
}

static beyond beyond_of(nabla_emitter *e, const numbers *n,
                        const nabla_bf16_extremes *all) {
  return (beyond){
      nabla_emit_bf16_is_beyond(e, all, NABLA_BF16_LEAST, POWER_BITS(n->least)),
      nabla_emit_bf16_is_beyond(e, all, NABLA_BF16_MOST, POWER_BITS(n->most))};
}

static nabla_ssa either(nabla_emitter *e, nabla_ssa a, nabla_ssa b) {
  return k_op(e, "arith.ori %%v%u, %%v%u : i1", a, b);
}

static void add_beyond(nabla_emitter *e, beyond *is, const numbers *n,
                       uint64_t count) {
  nabla_bf16_extremes all = nabla_emit_bf16_no_extremes(e);
  gather(e, n, k_i64(e, 0), k_i64(e, count), &all);
  const beyond more = beyond_of(e, n, &all);
  *is = (beyond){either(e, is->small, more.small),
                 either(e, is->large, more.large)};
}

/* The rows of w of a panel, [first, end). */
typedef struct rows_of_w {
  nabla_ssa first, end;
} rows_of_w;

/* A loop over those rows, or all at once where they follow each other: of their
 * scales [*first, *end). */
static void scales_begin(nabla_emitter *e, nabla_loop *loop,
                         const rows_of_w *rows, nabla_bf16_extremes *all,
                         nabla_ssa *first, nabla_ssa *end) {
  const nabla_fused_spec *spec = e->spec;
  const int are_adjacent =
      spec->any_size || nabla_spec_row_stride(spec) == spec->k;
  const uint64_t step = are_adjacent ? NABLA_MACRO_ROWS : 1;
  k_loop_begin(e, loop, rows->first, rows->end, step,
               all ? NABLA_BF16_EXTREMES : 0, all ? all->values : NULL);
  nabla_ssa last =
      k_minimum(e, k_add_constant(e, loop->induction, step), rows->end);
  last = k_op(e, "arith.subi %%v%u, %%v%u : i64", last, k_i64(e, 1));
  *first = nabla_emit_block(e, nabla_emit_row_start(e, loop->induction));
  *end = nabla_emit_block(
      e, k_op(e, "arith.subi %%v%u, %%v%u : i64",
              k_add(e, nabla_emit_row_start(e, last), e->k), k_i64(e, 1)));
  *end = k_add_constant(e, *end, 1);
}

/* Those of the scales of rows. Nested ones are a * b + c: at least 2^-52 where
 * a and b are 2^-24 and 2^-28 or more, and c is 0 or 2^-26 or more, since a sum
 * that is less than half of c has at least the last bit that half of c has. */
static beyond scales_beyond(nabla_emitter *e, const rows_of_w *rows) {
  const nabla_fused_spec *spec = e->spec;
  const nabla_scale_type scale = spec->w.format.scale;
  const int is_nested = scale == NABLA_SCALE_DYNAMIC8;
  const numbers own = {
      .array = is_nested
                   ? nabla_floats_at(e->nested_scales)
                   : (nabla_array_ref){e->scales, nabla_spec_scale_dtype(spec)},
      .is_e8m0 = scale == NABLA_SCALE_E8M0,
      .least = is_nested ? -28 : NABLA_BF16_SCALE_LEAST,
      .most = is_nested ? 20 : NABLA_BF16_SCALE_MOST};
  nabla_bf16_extremes all = nabla_emit_bf16_no_extremes(e), next;
  nabla_ssa first, end;
  nabla_loop loop;
  scales_begin(e, &loop, rows, &all, &first, &end);
  next = nabla_bf16_extremes_of(loop.carried);
  if (is_nested) {
    first = k_divide(e, first, spec->w.nested_block);
    end = k_divide(e, k_add_constant(e, end, spec->w.nested_block - 1),
                   spec->w.nested_block);
  }
  gather(e, &own, first, end, &next);
  k_loop_end(e, &loop, next.values);
  all = nabla_bf16_extremes_of(loop.results);
  beyond is = beyond_of(e, &own, &all);
  if (!is_nested) return is;
  add_beyond(e, &is, &(numbers){nabla_floats_at(e->nested_map), 0, -24, 4},
             256);
  add_beyond(e, &is, &(numbers){nabla_floats_at(e->nested_offset), 0, -26, 20},
             1);
  return is;
}

/* `value` (its bits) to every `step`th vector of all sums of `square`. */
static void fill(nabla_emitter *e, const nabla_macro_tile *square,
                 uint32_t value, uint64_t step) {
  nabla_loop loop;
  k_loop_begin(
      e, &loop, k_i64(e, 0),
      k_i64(e, (uint64_t)square->count * NABLA_MACRO_ROWS * NABLA_LANES),
      step * NABLA_LANES, 0, NULL);
  k_write_lanes(
      e, nabla_floats_at(square->sums), loop.induction,
      k_bitcast(e, nabla_type_i32[NABLA_VECTOR], nabla_type_f32[NABLA_VECTOR],
                k_i32(e, NABLA_VECTOR, value)));
  k_loop_end(e, &loop, NULL);
}

/* Marks sums if a block with a small power of two as its scale has codes that
 * are not zero: one of zeros has the least power there is. */
static void mark_small_blocks(nabla_emitter *e, const rows_of_w *rows,
                              const nabla_macro_tile *square) {
  nabla_ssa first, end;
  nabla_loop loop, blocks;
  scales_begin(e, &loop, rows, NULL, &first, &end);
  k_loop_begin(e, &blocks, first, end, 1, 0, NULL);
  nabla_ssa codes = k_load(e, "i128", e->codes,
                           k_multiply(e, blocks.induction, BLOCK_BYTES), 1);
  codes =
      k_op(e, "arith.andi %%v%u, %%v%u : i128", codes,
           k_op(e, "arith.constant 0x77777777777777777777777777777777 : i128"));
  nabla_ssa has_codes = k_op(e, "arith.cmpi ne, %%v%u, %%v%u : i128", codes,
                             k_op(e, "arith.constant 0 : i128"));
  nabla_ssa scale = k_load(e, "i8", e->scales, blocks.induction, 1);
  nabla_ssa is_small =
      k_op(e, "arith.cmpi ult, %%v%u, %%v%u : i8", scale,
           k_op(e, "arith.constant %d : i8", 127 + NABLA_BF16_SCALE_LEAST));
  k_line(e, "scf.if %%v%u {",
         k_op(e, "arith.andi %%v%u, %%v%u : i1", has_codes, is_small));
  fill(e, square, POWER_BITS(SMALL_SUM), 1);
  k_line(e, "}");
  k_loop_end(e, &blocks, NULL);
  k_loop_end(e, &loop, NULL);
}

void nabla_emit_bf16_mark_scales(nabla_emitter *e, const nabla_macro_block *p,
                                 const nabla_macro_tile *square) {
  const rows_of_w rows = {
      p->column,
      k_minimum(e, k_add_constant(e, p->column, NABLA_MACRO_ROWS), e->n)};
  const beyond is = scales_beyond(e, &rows);
  k_line(e, "scf.if %%v%u {", is.small);
  if (e->spec->w.format.scale == NABLA_SCALE_E8M0)
    mark_small_blocks(e, &rows, square);
  else
    fill(e, square, POWER_BITS(SMALL_SUM), 1);
  k_line(e, "}");
  k_line(e, "scf.if %%v%u {", is.large);
  fill(e, square, NAN_BITS, NABLA_TILE_ROWS);
  k_line(e, "}");
}
