/* Scales that sums are multiplied with; see bf16.h. */
#include "quant/ggml.h"
#include "transforms/kernels/bf16.h"
#include "transforms/kernels/decode_ggml.h"
#include "transforms/kernels/shapes.h"

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
