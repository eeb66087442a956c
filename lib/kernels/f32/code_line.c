/* Cache lines of codes; see code_line.h. */
#include "lib/kernels/f32/code_line.h"

#include <stdio.h>

#include "lib/kernels/builder/k.h"
#include "lib/kernels/dequant/code_values.h"
#include "lib/kernels/dequant/dequantize.h"

unsigned nabla_code_line_elements(const nabla_fused_spec *spec) {
  return 512 / spec->w.format.encoding->bits;
}

unsigned nabla_code_line_vectors(const nabla_fused_spec *spec) {
  return nabla_code_line_elements(spec) / NABLA_LANES;
}

int nabla_code_line_is_wide(const nabla_fused_spec *spec) {
  return spec->w.format.encoding->bits == 8;
}

int nabla_code_line_has_scales(const nabla_fused_spec *spec) {
  uint64_t elements = nabla_code_line_elements(spec),
           block = spec->w.format.block;
  if (spec->w.format.granularity != NABLA_PER_BLOCK)
    return spec->any_size || block % elements == 0;
  if (block >= elements) return block % elements == 0;
  return !nabla_code_line_is_wide(spec) && elements / block <= NABLA_LANES;
}

/* `count` scales from `first` on, of f32, f16 or bf16, at once. */
static nabla_ssa load_scales(nabla_emitter *e, nabla_ssa first,
                             unsigned count) {
  char type[32];
  nabla_text *text = e->text;
  nabla_dtype dtype = nabla_spec_scale_dtype(e->spec);
  unsigned width = nabla_dtype_bits(dtype) / 8;
  (void)snprintf(type, sizeof type, "vector<%ux%s>", count,
                 width == 4 ? "f32" : "i16");
  nabla_ssa scales =
      k_load(e, type, e->scales, k_multiply(e, first, width), width);
  nabla_ssa result = ++e->last;
  nabla_text_add(text, "  %%v%u = vector.shuffle %%v%u, %%v%u [", result,
                 scales, scales);
  for (unsigned i = 0; i < NABLA_LANES; i++)
    nabla_text_add(text, "%s%u", i ? ", " : "", i * count / NABLA_LANES);
  nabla_text_add(text, "] : %s, %s\n", type, type);
  return width == 4 ? result : k_widen(e, NABLA_VECTOR, dtype, result);
}

nabla_code_line nabla_emit_code_line(nabla_emitter *e, nabla_ssa flat) {
  const nabla_format *format = &e->spec->w.format;
  unsigned elements = nabla_code_line_elements(e->spec);
  unsigned count =
      format->granularity != NABLA_PER_BLOCK || format->block >= elements
          ? 1
          : elements / (unsigned)format->block;
  nabla_ssa first = nabla_emit_block(e, flat);
  int packed = format->scale == NABLA_SCALE_E8M0 ||
               format->scale == NABLA_SCALE_DYNAMIC8;
  nabla_code_line result = {.codes =
                                k_divide(e, flat, 8 / format->encoding->bits)};
  result.scales =
      count == 1 || packed
          ? nabla_emit_block_lanes(e, first, count, nabla_emit_scale_at)
          : load_scales(e, first, count);
  if (format->zero_point)
    result.zeros =
        nabla_emit_block_lanes(e, first, count, nabla_emit_zero_value);
  k_prefetch(e, e->codes, k_add_constant(e, result.codes, k_family(e)->line));
  return result;
}

nabla_ssa nabla_emit_code_line_weights(nabla_emitter *e,
                                       const nabla_code_line *at,
                                       nabla_ssa dwords, unsigned i) {
  unsigned bits = e->spec->w.format.encoding->bits;
  nabla_ssa codes;
  if (nabla_code_line_is_wide(e->spec)) {
    nabla_ssa byte = k_add_constant(e, at->codes, (uint64_t)i * NABLA_LANES);
    codes = k_load(e, "vector<16xi8>", e->codes, byte, 1);
    codes =
        k_op(e, "arith.extsi %%v%u : vector<16xi8> to vector<16xi32>", codes);
  } else {
    nabla_ssa by = k_i32(e, NABLA_VECTOR, bits * i);
    codes = k_op(e, "arith.shrui %%v%u, %%v%u : vector<16xi32>", dwords, by);
  }
  nabla_ssa value = nabla_emit_code_value(e, codes);
  return at->zeros ? k_binary(e, NABLA_VECTOR, "subf", value, at->zeros)
                   : value;
}
