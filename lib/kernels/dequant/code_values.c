/* Values of codes; see code_values.h. */
#include "lib/kernels/dequant/code_values.h"

#include "lib/kernels/builder/k.h"
#include "lib/kernels/dequant/dequantize.h"
#include "quant/codec/codec.h"
#include "quant/codec/int8.h"
#include "quant/codec/kernel.h"

static nabla_ssa bits_op(nabla_emitter *e, const char *operation, nabla_ssa a,
                         uint32_t b) {
  nabla_ssa constant = k_i32(e, NABLA_VECTOR, b);
  return k_op(e, "arith.%s %%v%u, %%v%u : vector<16xi32>", operation, a,
              constant);
}

static nabla_ssa to_float(nabla_emitter *e, nabla_ssa integers) {
  return k_op(e, "arith.sitofp %%v%u : vector<16xi32> to vector<16xf32>",
              integers);
}

static nabla_ssa bits_of(nabla_emitter *e, nabla_ssa value) {
  return k_op(e, "arith.bitcast %%v%u : vector<16xf32> to vector<16xi32>",
              value);
}

static nabla_ssa float_of(nabla_emitter *e, nabla_ssa bits) {
  return k_op(e, "arith.bitcast %%v%u : vector<16xi32> to vector<16xf32>",
              bits);
}

/* `yes` where a < bound (all i32, unsigned), else `no`. */
static nabla_ssa where_below(nabla_emitter *e, nabla_ssa a, uint32_t bound,
                             nabla_ssa yes, nabla_ssa no) {
  nabla_ssa limit = k_i32(e, NABLA_VECTOR, bound);
  nabla_ssa below =
      k_op(e, "arith.cmpi ult, %%v%u, %%v%u : vector<16xi32>", a, limit);
  return k_op(e,
              "arith.select %%v%u, %%v%u, %%v%u : vector<16xi1>, "
              "vector<16xi32>",
              below, yes, no);
}

/* OCP FP8: exponent and mantissa moved to where f32 has them, the bias
 * corrected. Of subnormal codes the same with the least exponent of normal
 * ones, whose leading one is taken away again: no f32 is subnormal on the way,
 * which takes CPUs hundreds of cycles. E4M3 has one NaN of each sign and no
 * infinity, E5M2 both. */
static nabla_ssa fp8_value(nabla_emitter *e, nabla_ssa codes) {
  const nabla_encoding *encoding = e->spec->w.format.encoding;
  int e5m2 = nabla_recipe_find(encoding)->emax != 8;
  uint32_t shift = e5m2 ? 21 : 20, bias = (e5m2 ? 112u : 120u) << 23;
  nabla_ssa sign = bits_op(e, "andi", codes, 0x80);
  sign = bits_op(e, "shli", sign, 24);
  nabla_ssa magnitude = bits_op(e, "andi", codes, 0x7f);
  nabla_ssa moved = bits_op(e, "shli", magnitude, shift);
  nabla_ssa normal = bits_op(e, "addi", moved, bias);
  nabla_ssa small = float_of(e, bits_op(e, "addi", moved, bias + (1u << 23)));
  nabla_ssa one = k_f32(e, NABLA_VECTOR, e5m2 ? 0x1p-14 : 0x1p-6);
  small = bits_of(e, k_binary(e, NABLA_VECTOR, "subf", small, one));
  nabla_ssa result = where_below(e, magnitude, e5m2 ? 4 : 8, small, normal);
  /* E5M2: the moved bits with the largest exponent; E4M3: a NaN. */
  nabla_ssa other = e5m2 ? bits_op(e, "ori", moved, 0x7f800000)
                         : k_i32(e, NABLA_VECTOR, 0x7fc00000);
  result = where_below(e, magnitude, e5m2 ? 0x7c : 0x7f, result, other);
  result = k_op(e, "arith.ori %%v%u, %%v%u : vector<16xi32>", result, sign);
  return float_of(e, result);
}

nabla_ssa nabla_emit_code_value(nabla_emitter *e, nabla_ssa codes) {
  const nabla_format *format = &e->spec->w.format;
  const nabla_encoding *encoding = format->encoding;
  if (encoding->bits == 8 && nabla_spec_is_integer(encoding)) {
    /* nothing where the codes come sign-extended: LLVM sees it */
    codes = bits_op(e, "shli", codes, 24);
    return to_float(e, bits_op(e, "shrsi", codes, 24));
  }
  if (encoding->bits == 8) return fp8_value(e, codes);
  if (nabla_spec_is_integer(encoding) && format->zero_point)
    return to_float(e, bits_op(e, "andi", codes, 15));
  return nabla_emit_table_lookup(e, codes);
}

nabla_ssa nabla_emit_zero_value(nabla_emitter *e, nabla_ssa index) {
  if (!e->spec->w.format.zero_point) return 0;
  nabla_ssa raw = k_load(e, "i8", e->zeros, index, 1);
  int wide = e->spec->w.format.encoding->bits == 8;
  return k_op(e, "arith.%s %%v%u : i8 to f32", wide ? "sitofp" : "uitofp", raw);
}

nabla_ssa nabla_emit_scaled(nabla_emitter *e, nabla_ssa value, nabla_ssa zero,
                            nabla_ssa scale) {
  if (zero) value = k_binary(e, NABLA_VECTOR, "subf", value, zero);
  value = k_binary(e, NABLA_VECTOR, "mulf", value, scale);
  if (nabla_format_is_llm_int8(&e->spec->w.format)) /* in this order: I4 */
    value = k_binary(e, NABLA_VECTOR, "mulf", value,
                     k_f32(e, NABLA_VECTOR, (double)NABLA_INT8_STEP));
  return k_round(e, NABLA_VECTOR, e->spec->w_type, value);
}
