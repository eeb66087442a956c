/* Scales that sums are multiplied with; see bf16.h. */
#include "quant/ggml.h"
#include "transforms/kernels/bf16_ahead.h"
#include "transforms/kernels/bf16_parts.h"
#include "transforms/kernels/decode_ggml.h"
#include "transforms/kernels/int8.h"
#include "transforms/kernels/shapes.h"

#define NAN_BITS         0x7fc00000u
#define POWER_BITS(e)    ((uint32_t)(127 + (e)) << 23)
#define SMALL_SUM        (-100)
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

/* Numbers one of which scales are made of. */
typedef struct numbers {
  nabla_array_ref array;
  int is_e8m0; /* bytes */
  nabla_ssa first, end;
  int least, most; /* powers of two that can be split, but for 0 */
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

static void gather(nabla_emitter *emitter, const numbers *n, nabla_ssa first,
                   nabla_ssa end, unsigned width, nabla_bf16_extremes *all) {
  nabla_loop loop;
  nabla_loop_begin(emitter, &loop, first, end, width, NABLA_BF16_EXTREMES,
                   all->values);
  nabla_bf16_extremes next;
  for (unsigned i = 0; i < NABLA_BF16_EXTREMES; i++)
    next.values[i] = loop.carried[i];
  nabla_emit_bf16_add_extremes(emitter, &next,
                               read_numbers(emitter, n, loop.induction, width));
  nabla_loop_end(emitter, &loop, next.values);
  for (unsigned i = 0; i < NABLA_BF16_EXTREMES; i++)
    all->values[i] = loop.results[i];
}

static beyond beyond_of(nabla_emitter *emitter, const numbers *n) {
  nabla_bf16_extremes all = nabla_emit_bf16_no_extremes(emitter);
  nabla_ssa whole = nabla_emit_divide(
      emitter,
      nabla_emit(emitter, "arith.subi %%v%u, %%v%u : i64", n->end, n->first),
      NABLA_LANES);
  whole = nabla_emit_add(emitter, n->first,
                         nabla_emit_multiply(emitter, whole, NABLA_LANES));
  gather(emitter, n, n->first, whole, NABLA_LANES, &all);
  gather(emitter, n, whole, n->end, 1, &all);
  return (beyond){nabla_emit_bf16_is_beyond(emitter, &all, NABLA_BF16_LEAST,
                                            POWER_BITS(n->least)),
                  nabla_emit_bf16_is_beyond(emitter, &all, NABLA_BF16_MOST,
                                            POWER_BITS(n->most))};
}

static beyond either(nabla_emitter *emitter, beyond a, beyond b) {
  return (beyond){
      nabla_emit(emitter, "arith.ori %%v%u, %%v%u : i1", a.small, b.small),
      nabla_emit(emitter, "arith.ori %%v%u, %%v%u : i1", a.large, b.large)};
}

/* Those of scales [first, end). Nested ones are a * b + c: at least 2^-52 where
 * a and b are 2^-24 and 2^-28 or more, and c is 0 or 2^-26 or more, since a sum
 * that is less than half of c has at least the last bit that half of c has. */
static beyond scales_beyond(nabla_emitter *emitter, nabla_ssa first,
                            nabla_ssa end) {
  const nabla_fused_spec *spec = emitter->spec;
  const nabla_scale_type scale = spec->format.scale;
  if (scale != NABLA_SCALE_DYNAMIC8)
    return beyond_of(emitter,
                     &(numbers){{emitter->scales, nabla_spec_scale_dtype(spec)},
                                scale == NABLA_SCALE_E8M0,
                                first,
                                end,
                                NABLA_BF16_SCALE_LEAST,
                                NABLA_BF16_SCALE_MOST});
  nabla_ssa zero = nabla_emit_i64(emitter, 0);
  nabla_ssa last = nabla_emit_divide(
      emitter, nabla_emit_add_constant(emitter, end, spec->nested_block - 1),
      spec->nested_block);
  beyond is = beyond_of(
      emitter, &(numbers){nabla_floats_at(emitter->nested_scales), 0,
                          nabla_emit_divide(emitter, first, spec->nested_block),
                          last, -28, 20});
  is =
      either(emitter, is,
             beyond_of(emitter,
                       &(numbers){nabla_floats_at(emitter->nested_map), 0, zero,
                                  nabla_emit_i64(emitter, 256), -24, 4}));
  return either(
      emitter, is,
      beyond_of(emitter,
                &(numbers){nabla_floats_at(emitter->nested_offset), 0, zero,
                           nabla_emit_i64(emitter, 1), -26, 20}));
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

void nabla_emit_bf16_mark_scales(nabla_emitter *emitter,
                                 const nabla_tiled_block *p,
                                 const nabla_tiled_square *square) {
  nabla_ssa one = nabla_emit_i64(emitter, 1);
  nabla_ssa last = nabla_emit(
      emitter, "arith.subi %%v%u, %%v%u : i64",
      nabla_emit_minimum(
          emitter,
          nabla_emit_add_constant(emitter, p->column, NABLA_TILED_ROWS),
          emitter->n),
      one);
  nabla_ssa first =
      nabla_emit_block(emitter, nabla_emit_row_start(emitter, p->column));
  nabla_ssa end = nabla_emit_block(
      emitter,
      nabla_emit_add_constant(emitter, nabla_emit_row_start(emitter, last),
                              emitter->spec->k - 1));
  const beyond is =
      scales_beyond(emitter, first, nabla_emit_add_constant(emitter, end, 1));
  nabla_emit_line(emitter, "scf.if %%v%u {", is.small);
  fill(emitter, square, POWER_BITS(SMALL_SUM), 1);
  nabla_emit_line(emitter, "}");
  nabla_emit_line(emitter, "scf.if %%v%u {", is.large);
  fill(emitter, square, NAN_BITS, NABLA_TILE_ROWS);
  nabla_emit_line(emitter, "}");
}
