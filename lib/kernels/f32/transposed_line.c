/* Lines of transposed weights; see transposed_line.h. */
#include "lib/kernels/f32/transposed_line.h"

#include "lib/kernels/builder/k.h"
#include "lib/kernels/dequant/code_values.h"
#include "lib/kernels/dequant/dequantize.h"
#include "lib/kernels/epilogue.h"
#include "lib/kernels/tile_util.h"
#include "quant/codec/codec.h"

unsigned nabla_transposed_elements(const nabla_fused_spec *spec) {
  return nabla_spec_is_dense(spec) ? NABLA_LANES
                                   : 512 / spec->w.format.encoding->bits;
}

uint64_t nabla_transposed_stride(const nabla_fused_spec *spec) {
  return spec->k > 1 ? spec->stride_k : 0;
}

int nabla_transposed_has_lines(const nabla_fused_spec *spec) {
  uint64_t elements = nabla_transposed_elements(spec);
  uint64_t block = spec->w.format.block;
  if (spec->n % elements || spec->offset % elements ||
      nabla_transposed_stride(spec) % elements)
    return 0;
  if (nabla_spec_is_dense(spec)) return 1;
  if (spec->w.format.granularity != NABLA_PER_BLOCK || block >= elements)
    return block % elements == 0;
  return elements / block <= NABLA_LANES;
}

/* A value for each dword of the line at `flat`. */
static nabla_ssa lanes_of(nabla_emitter *e, nabla_ssa flat,
                          nabla_ssa (*at)(nabla_emitter *, nabla_ssa)) {
  uint64_t block = e->spec->w.format.block;
  uint64_t elements = nabla_transposed_elements(e->spec);
  unsigned count = block >= elements ? 1 : (unsigned)(elements / block);
  return nabla_emit_block_lanes(e, nabla_emit_block(e, flat), count, at);
}

nabla_transposed_line nabla_emit_transposed_line(nabla_emitter *e,
                                                 nabla_ssa flat,
                                                 unsigned ahead) {
  nabla_ssa byte = nabla_emit_code_byte(e, flat);
  nabla_transposed_line line = {
      .dwords = k_load(e, "vector<16xi32>", e->codes, byte, 1),
      .scales = lanes_of(e, flat, nabla_emit_scale_at)};
  if (e->spec->w.format.zero_point)
    line.zeros = lanes_of(e, flat, nabla_emit_zero_value);
  nabla_ssa next =
      k_add_constant(e, flat, ahead * nabla_transposed_stride(e->spec));
  k_prefetch(e, e->codes, nabla_emit_code_byte(e, next));
  nabla_emit_prefetch_scale(e, next);
  return line;
}

/* The sum of column 16 * j + c, in a line whose dwords hold 2^p codes, is at
 * place (c mod 2^p) of dword (16 * j + c) >> p. */
void nabla_emit_transposed_finish(nabla_emitter *e, nabla_ssa sums,
                                  nabla_ssa row, nabla_ssa first,
                                  nabla_ssa count) {
  const nabla_encoding *encoding = e->spec->w.format.encoding;
  unsigned per_dword = 32 / encoding->bits, per_byte = 8 / encoding->bits;
  nabla_array_ref y = {e->y, e->spec->y_type};
  nabla_loop lines, dwords;
  nabla_ssa zero = k_i64(e, 0);
  k_loop_begin(e, &lines, zero, count, nabla_transposed_elements(e->spec), 0,
               NULL);
  k_loop_begin(e, &dwords, zero, k_i64(e, NABLA_LANES), 1, 0, NULL);
  dwords.is_open = 1; /* as many iterations as a vector has lanes */
  nabla_ssa from = k_add(e, lines.induction, dwords.induction);
  nabla_ssa to = k_multiply(e, dwords.induction, per_dword);
  to = k_add(e, k_add(e, first, lines.induction), to);
  for (unsigned i = 0; i < per_dword; i++) {
    unsigned place = encoding->high_first ? i ^ (per_byte - 1) : i;
    nabla_ssa column = k_add_constant(e, to, i);
    nabla_ssa value =
        k_read(e, nabla_floats_at(sums),
               k_add_constant(e, from, (uint64_t)place * NABLA_LANES));
    value = nabla_emit_epilogue(e, NABLA_SCALAR, value, row, column, 1);
    k_write(e, y, nabla_emit_y_index(e, row, column), value);
  }
  k_loop_end(e, &dwords, NULL);
  k_loop_end(e, &lines, NULL);
}
