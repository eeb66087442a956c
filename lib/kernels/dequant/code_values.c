/* Values of codes; see code_values.h. */
#include "lib/kernels/dequant/code_values.h"

#include "lib/kernels/dequant/dequantize.h"
#include "quant/codec/codec.h"
#include "quant/codec/int8.h"
#include "quant/codec/kernel.h"

static nabla_ssa bits_op(nabla_emitter *emitter, const char *operation,
                         nabla_ssa a, uint32_t b) {
  nabla_ssa constant = nabla_emit_i32(emitter, NABLA_VECTOR, b);
  return nabla_emit(emitter, "arith.%s %%v%u, %%v%u : vector<16xi32>",
                    operation, a, constant);
}

static nabla_ssa to_float(nabla_emitter *emitter, nabla_ssa integers) {
  return nabla_emit(emitter,
                    "arith.sitofp %%v%u : vector<16xi32> to vector<16xf32>",
                    integers);
}

static nabla_ssa bits_of(nabla_emitter *emitter, nabla_ssa value) {
  return nabla_emit(
      emitter, "arith.bitcast %%v%u : vector<16xf32> to vector<16xi32>", value);
}

static nabla_ssa float_of(nabla_emitter *emitter, nabla_ssa bits) {
  return nabla_emit(
      emitter, "arith.bitcast %%v%u : vector<16xi32> to vector<16xf32>", bits);
}

/* `yes` where a < bound (all i32, unsigned), else `no`. */
static nabla_ssa where_below(nabla_emitter *emitter, nabla_ssa a,
                             uint32_t bound, nabla_ssa yes, nabla_ssa no) {
  nabla_ssa limit = nabla_emit_i32(emitter, NABLA_VECTOR, bound);
  nabla_ssa below = nabla_emit(
      emitter, "arith.cmpi ult, %%v%u, %%v%u : vector<16xi32>", a, limit);
  return nabla_emit(emitter,
                    "arith.select %%v%u, %%v%u, %%v%u : vector<16xi1>, "
                    "vector<16xi32>",
                    below, yes, no);
}

/* OCP FP8: exponent and mantissa moved to where f32 has them, the bias
 * corrected. Of subnormal codes the same with the least exponent of normal
 * ones, whose leading one is taken away again: no f32 is subnormal on the way,
 * which takes CPUs hundreds of cycles. E4M3 has one NaN of each sign and no
 * infinity, E5M2 both. */
static nabla_ssa fp8_value(nabla_emitter *emitter, nabla_ssa codes) {
  const nabla_encoding *encoding = emitter->spec->format.encoding;
  int e5m2 = nabla_recipe_find(encoding)->emax != 8;
  uint32_t shift = e5m2 ? 21 : 20, bias = (e5m2 ? 112u : 120u) << 23;
  nabla_ssa sign = bits_op(emitter, "andi", codes, 0x80);
  sign = bits_op(emitter, "shli", sign, 24);
  nabla_ssa magnitude = bits_op(emitter, "andi", codes, 0x7f);
  nabla_ssa moved = bits_op(emitter, "shli", magnitude, shift);
  nabla_ssa normal = bits_op(emitter, "addi", moved, bias);
  nabla_ssa small =
      float_of(emitter, bits_op(emitter, "addi", moved, bias + (1u << 23)));
  nabla_ssa one =
      nabla_emit_f32(emitter, NABLA_VECTOR, e5m2 ? 0x1p-14 : 0x1p-6);
  small = bits_of(emitter,
                  nabla_emit_binary(emitter, NABLA_VECTOR, "subf", small, one));
  nabla_ssa result =
      where_below(emitter, magnitude, e5m2 ? 4 : 8, small, normal);
  /* E5M2: the moved bits with the largest exponent; E4M3: a NaN. */
  nabla_ssa other = e5m2 ? bits_op(emitter, "ori", moved, 0x7f800000)
                         : nabla_emit_i32(emitter, NABLA_VECTOR, 0x7fc00000);
  result = where_below(emitter, magnitude, e5m2 ? 0x7c : 0x7f, result, other);
  result = nabla_emit(emitter, "arith.ori %%v%u, %%v%u : vector<16xi32>",
                      result, sign);
  return float_of(emitter, result);
}

nabla_ssa nabla_emit_code_value(nabla_emitter *emitter, nabla_ssa codes) {
  const nabla_format *format = &emitter->spec->format;
  const nabla_encoding *encoding = format->encoding;
  if (encoding->bits == 8 && nabla_spec_is_integer(encoding)) {
    /* nothing where the codes come sign-extended: LLVM sees it */
    codes = bits_op(emitter, "shli", codes, 24);
    return to_float(emitter, bits_op(emitter, "shrsi", codes, 24));
  }
  if (encoding->bits == 8) return fp8_value(emitter, codes);
  if (nabla_spec_is_integer(encoding) && format->zero_point)
    return to_float(emitter, bits_op(emitter, "andi", codes, 15));
  return nabla_emit_lookup(emitter, codes);
}

nabla_ssa nabla_emit_zero_value(nabla_emitter *emitter, nabla_ssa index) {
  if (!emitter->spec->format.zero_point) return 0;
  nabla_ssa raw = nabla_emit_load(emitter, "i8", emitter->zeros, index, 1);
  int wide = emitter->spec->format.encoding->bits == 8;
  return nabla_emit(emitter, "arith.%s %%v%u : i8 to f32",
                    wide ? "sitofp" : "uitofp", raw);
}

nabla_ssa nabla_emit_scaled(nabla_emitter *emitter, nabla_ssa value,
                            nabla_ssa zero, nabla_ssa scale) {
  if (zero)
    value = nabla_emit_binary(emitter, NABLA_VECTOR, "subf", value, zero);
  value = nabla_emit_binary(emitter, NABLA_VECTOR, "mulf", value, scale);
  if (nabla_format_is_llm_int8(&emitter->spec->format)) /* in this order: I4 */
    value = nabla_emit_binary(
        emitter, NABLA_VECTOR, "mulf", value,
        nabla_emit_f32(emitter, NABLA_VECTOR, (double)NABLA_INT8_STEP));
  return nabla_emit_round(emitter, NABLA_VECTOR, emitter->spec->w_type, value);
}
