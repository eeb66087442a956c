/* Scales: those that sums are multiplied with (bf16.h), and whether those that
 * are in the weights let these be split (pack_b_bf16_ahead.h). */
#include "lib/kernels/bf16/pack_b_bf16_ahead.h"
#include "lib/kernels/bf16/split_bf16.h"
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

nabla_ssa nabla_emit_bf16_scales(nabla_emitter *emitter,
                                 const nabla_tiled_block *p) {
  return nabla_emit_address(
      emitter, emitter->scratch,
      nabla_emit_i64(
          emitter, nabla_tiled_scratch(p->self) + 2 * NABLA_BF16_FRESH_BYTES));
}

/* All of a block of GGUF at once, where the panel is one. */
void nabla_emit_bf16_write_scales(nabla_emitter *emitter,
                                  const nabla_tiled_block *p, nabla_ssa row,
                                  nabla_ssa flat) {
  const nabla_fused_spec *spec = emitter->spec;
  const nabla_bf16 self = nabla_bf16_of(spec);
  nabla_array_ref scales = nabla_floats_at(nabla_emit_bf16_scales(emitter, p));
  nabla_ssa to = nabla_emit_multiply(emitter, row, self.scales);
  if (spec->ggml && spec->ggml->layout->sub == NABLA_GGML_SUB_PACKED6 &&
      nabla_row_alignment(spec, spec->ggml->elements) == self.depth) {
    nabla_emit_write_lanes(emitter, scales, to,
                           nabla_emit_ggml_sub_lanes(
                               emitter, nabla_emit_code_byte(emitter, flat)));
    return;
  }
  nabla_ssa values[2] = {0, 0};
  nabla_loop runs;
  nabla_loop_begin(emitter, &runs, nabla_emit_i64(emitter, 0), p->count,
                   self.run, 0, NULL);
  nabla_ssa at = nabla_emit_add(emitter, flat, runs.induction);
  to = nabla_emit_add(
      emitter, to,
      nabla_emit_multiply(emitter,
                          nabla_emit_divide(emitter, runs.induction, self.run),
                          self.has_minima ? 2 : 1));
  if (spec->ggml && spec->ggml->layout->sub == NABLA_GGML_SUB_BYTES)
    values[0] = nabla_emit_ggml_block_factor(emitter, at);
  else if (spec->ggml)
    nabla_emit_ggml_factors(emitter, at, values);
  else
    values[0] = nabla_emit_scale(emitter, at);
  nabla_emit_write(emitter, scales, to, values[0]);
  if (self.has_minima)
    nabla_emit_write(emitter, scales, nabla_emit_add_constant(emitter, to, 1),
                     values[1]);
  nabla_loop_end(emitter, &runs, NULL);
}

void nabla_emit_bf16_limit_scales(nabla_emitter *emitter,
                                  const nabla_tiled_block *p) {
  nabla_array_ref scales = nabla_floats_at(nabla_emit_bf16_scales(emitter, p));
  nabla_loop loop;
  nabla_loop_begin(
      emitter, &loop, nabla_emit_i64(emitter, 0),
      nabla_emit_i64(emitter,
                     NABLA_TILED_ROWS * nabla_bf16_of(emitter->spec).scales),
      NABLA_LANES, 0, NULL);
  nabla_ssa value =
      nabla_emit_read_lanes(emitter, scales, loop.induction, NABLA_LANES);
  nabla_emit_write_lanes(
      emitter, scales, loop.induction,
      nabla_emit_bf16_limit(emitter, value, NABLA_BF16_TINY_BITS,
                            SCALE_LIMIT_BITS));
  nabla_loop_end(emitter, &loop, NULL);
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

static nabla_ssa read_numbers(nabla_emitter *emitter, const numbers *n,
                              nabla_ssa index, unsigned width) {
  const nabla_shape shape = width == 1 ? NABLA_SCALAR : NABLA_VECTOR;
  nabla_ssa values;
  if (n->is_e8m0)
    values =
        nabla_emit_e8m0(emitter, shape,
                        nabla_emit_load(emitter, shape ? "vector<16xi8>" : "i8",
                                        n->array.base, index, 1));
  else if (width == 1)
    values = nabla_emit_read(emitter, n->array, index);
  else
    return nabla_emit_read_lanes(emitter, n->array, index, width);
  return width == 1 ? nabla_emit_broadcast(emitter, "f32", values) : values;
}

static void gather_by(nabla_emitter *emitter, const numbers *n, nabla_ssa first,
                      nabla_ssa end, unsigned width, nabla_bf16_extremes *all) {
  nabla_loop loop;
  nabla_loop_begin(emitter, &loop, first, end, width, NABLA_BF16_EXTREMES,
                   all->values);
  nabla_bf16_extremes next = nabla_bf16_extremes_of(loop.carried);
  nabla_emit_bf16_add_extremes(emitter, &next,
                               read_numbers(emitter, n, loop.induction, width));
  nabla_loop_end(emitter, &loop, next.values);
  *all = nabla_bf16_extremes_of(loop.results);
}

/* Numbers [first, end). */
static void gather(nabla_emitter *emitter, const numbers *n, nabla_ssa first,
                   nabla_ssa end, nabla_bf16_extremes *all) {
  nabla_ssa whole = nabla_emit_divide(
      emitter, nabla_emit(emitter, "arith.subi %%v%u, %%v%u : i64", end, first),
      NABLA_LANES);
  whole = nabla_emit_add(emitter, first,
                         nabla_emit_multiply(emitter, whole, NABLA_LANES));
  gather_by(emitter, n, first, whole, NABLA_LANES, all);
  gather_by(emitter, n, whole, end, 1, all);
}

static beyond beyond_of(nabla_emitter *emitter, const numbers *n,
                        const nabla_bf16_extremes *all) {
  return (beyond){nabla_emit_bf16_is_beyond(emitter, all, NABLA_BF16_LEAST,
                                            POWER_BITS(n->least)),
                  nabla_emit_bf16_is_beyond(emitter, all, NABLA_BF16_MOST,
                                            POWER_BITS(n->most))};
}

static nabla_ssa either(nabla_emitter *emitter, nabla_ssa a, nabla_ssa b) {
  return nabla_emit(emitter, "arith.ori %%v%u, %%v%u : i1", a, b);
}

static void add_beyond(nabla_emitter *emitter, beyond *is, const numbers *n,
                       uint64_t count) {
  nabla_bf16_extremes all = nabla_emit_bf16_no_extremes(emitter);
  gather(emitter, n, nabla_emit_i64(emitter, 0), nabla_emit_i64(emitter, count),
         &all);
  const beyond more = beyond_of(emitter, n, &all);
  *is = (beyond){either(emitter, is->small, more.small),
                 either(emitter, is->large, more.large)};
}

/* The rows of w of a panel, [first, end). */
typedef struct rows_of_w {
  nabla_ssa first, end;
} rows_of_w;

/* A loop over those rows, or all at once where they follow each other: of their
 * scales [*first, *end). */
static void scales_begin(nabla_emitter *emitter, nabla_loop *loop,
                         const rows_of_w *rows, nabla_bf16_extremes *all,
                         nabla_ssa *first, nabla_ssa *end) {
  const nabla_fused_spec *spec = emitter->spec;
  const int are_adjacent =
      spec->any_size || nabla_spec_row_stride(spec) == spec->k;
  const uint64_t step = are_adjacent ? NABLA_TILED_ROWS : 1;
  nabla_loop_begin(emitter, loop, rows->first, rows->end, step,
                   all ? NABLA_BF16_EXTREMES : 0, all ? all->values : NULL);
  nabla_ssa last = nabla_emit_minimum(
      emitter, nabla_emit_add_constant(emitter, loop->induction, step),
      rows->end);
  last = nabla_emit(emitter, "arith.subi %%v%u, %%v%u : i64", last,
                    nabla_emit_i64(emitter, 1));
  *first =
      nabla_emit_block(emitter, nabla_emit_row_start(emitter, loop->induction));
  *end = nabla_emit_block(
      emitter,
      nabla_emit(emitter, "arith.subi %%v%u, %%v%u : i64",
                 nabla_emit_add(emitter, nabla_emit_row_start(emitter, last),
                                emitter->k),
                 nabla_emit_i64(emitter, 1)));
  *end = nabla_emit_add_constant(emitter, *end, 1);
}

/* Those of the scales of rows. Nested ones are a * b + c: at least 2^-52 where
 * a and b are 2^-24 and 2^-28 or more, and c is 0 or 2^-26 or more, since a sum
 * that is less than half of c has at least the last bit that half of c has. */
static beyond scales_beyond(nabla_emitter *emitter, const rows_of_w *rows) {
  const nabla_fused_spec *spec = emitter->spec;
  const nabla_scale_type scale = spec->format.scale;
  const int is_nested = scale == NABLA_SCALE_DYNAMIC8;
  const numbers own = {
      .array = is_nested ? nabla_floats_at(emitter->nested_scales)
                         : (nabla_array_ref){emitter->scales,
                                             nabla_spec_scale_dtype(spec)},
      .is_e8m0 = scale == NABLA_SCALE_E8M0,
      .least = is_nested ? -28 : NABLA_BF16_SCALE_LEAST,
      .most = is_nested ? 20 : NABLA_BF16_SCALE_MOST};
  nabla_bf16_extremes all = nabla_emit_bf16_no_extremes(emitter), next;
  nabla_ssa first, end;
  nabla_loop loop;
  scales_begin(emitter, &loop, rows, &all, &first, &end);
  next = nabla_bf16_extremes_of(loop.carried);
  if (is_nested) {
    first = nabla_emit_divide(emitter, first, spec->nested_block);
    end = nabla_emit_divide(
        emitter, nabla_emit_add_constant(emitter, end, spec->nested_block - 1),
        spec->nested_block);
  }
  gather(emitter, &own, first, end, &next);
  nabla_loop_end(emitter, &loop, next.values);
  all = nabla_bf16_extremes_of(loop.results);
  beyond is = beyond_of(emitter, &own, &all);
  if (!is_nested) return is;
  add_beyond(emitter, &is,
             &(numbers){nabla_floats_at(emitter->nested_map), 0, -24, 4}, 256);
  add_beyond(emitter, &is,
             &(numbers){nabla_floats_at(emitter->nested_offset), 0, -26, 20},
             1);
  return is;
}

/* `value` (its bits) to every `step`th vector of all sums of `square`. */
static void fill(nabla_emitter *emitter, const nabla_tiled_square *square,
                 uint32_t value, uint64_t step) {
  nabla_loop loop;
  nabla_loop_begin(emitter, &loop, nabla_emit_i64(emitter, 0),
                   nabla_emit_i64(emitter, (uint64_t)square->count *
                                               NABLA_TILED_ROWS * NABLA_LANES),
                   step * NABLA_LANES, 0, NULL);
  nabla_emit_write_lanes(
      emitter, nabla_floats_at(square->sums), loop.induction,
      nabla_emit_bitcast(emitter, nabla_type_i32[NABLA_VECTOR],
                         nabla_type_f32[NABLA_VECTOR],
                         nabla_emit_i32(emitter, NABLA_VECTOR, value)));
  nabla_loop_end(emitter, &loop, NULL);
}

/* Marks sums if a block with a small power of two as its scale has codes that
 * are not zero: one of zeros has the least power there is. */
static void mark_small_blocks(nabla_emitter *emitter, const rows_of_w *rows,
                              const nabla_tiled_square *square) {
  nabla_ssa first, end;
  nabla_loop loop, blocks;
  scales_begin(emitter, &loop, rows, NULL, &first, &end);
  nabla_loop_begin(emitter, &blocks, first, end, 1, 0, NULL);
  nabla_ssa codes = nabla_emit_load(
      emitter, "i128", emitter->codes,
      nabla_emit_multiply(emitter, blocks.induction, BLOCK_BYTES), 1);
  codes = nabla_emit(
      emitter, "arith.andi %%v%u, %%v%u : i128", codes,
      nabla_emit(emitter,
                 "arith.constant 0x77777777777777777777777777777777 : i128"));
  nabla_ssa has_codes =
      nabla_emit(emitter, "arith.cmpi ne, %%v%u, %%v%u : i128", codes,
                 nabla_emit(emitter, "arith.constant 0 : i128"));
  nabla_ssa scale =
      nabla_emit_load(emitter, "i8", emitter->scales, blocks.induction, 1);
  nabla_ssa is_small =
      nabla_emit(emitter, "arith.cmpi ult, %%v%u, %%v%u : i8", scale,
                 nabla_emit(emitter, "arith.constant %d : i8",
                            127 + NABLA_BF16_SCALE_LEAST));
  nabla_emit_line(
      emitter, "scf.if %%v%u {",
      nabla_emit(emitter, "arith.andi %%v%u, %%v%u : i1", has_codes, is_small));
  fill(emitter, square, POWER_BITS(SMALL_SUM), 1);
  nabla_emit_line(emitter, "}");
  nabla_loop_end(emitter, &blocks, NULL);
  nabla_loop_end(emitter, &loop, NULL);
}

void nabla_emit_bf16_mark_scales(nabla_emitter *emitter,
                                 const nabla_tiled_block *p,
                                 const nabla_tiled_square *square) {
  const rows_of_w rows = {
      p->column, nabla_emit_minimum(emitter,
                                    nabla_emit_add_constant(emitter, p->column,
                                                            NABLA_TILED_ROWS),
                                    emitter->n)};
  const beyond is = scales_beyond(emitter, &rows);
  nabla_emit_line(emitter, "scf.if %%v%u {", is.small);
  if (emitter->spec->format.scale == NABLA_SCALE_E8M0)
    mark_small_blocks(emitter, &rows, square);
  else
    fill(emitter, square, POWER_BITS(SMALL_SUM), 1);
  nabla_emit_line(emitter, "}");
  nabla_emit_line(emitter, "scf.if %%v%u {", is.large);
  fill(emitter, square, NAN_BITS, NABLA_TILE_ROWS);
  nabla_emit_line(emitter, "}");
}
