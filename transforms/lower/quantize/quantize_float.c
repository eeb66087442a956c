/* Rounding to floats of 8 bits and less, and the lowering of quantize into mx
 * encodings: docs/FORMAT.md (E3, E5), byte for byte. */
#include "lib/kernels/builder/k.h"
#include "quant/codec/kernel.h"
#include "transforms/lower/elements.h"
#include "transforms/lower/quantize/quantize.h"

static nabla_ssa constant_i32(nabla_template *t, uint32_t value) {
  return k_i32(&t->emit, NABLA_SCALAR, value);
}

static nabla_ssa bits_of(nabla_template *t, nabla_ssa x) {
  return k_op(&t->emit, "arith.bitcast %%v%u : f32 to i32", x);
}

static nabla_ssa float_of(nabla_template *t, nabla_ssa bits) {
  return k_op(&t->emit, "arith.bitcast %%v%u : i32 to f32", bits);
}

/* arith.OPERATION of bits and a constant. */
static nabla_ssa with(nabla_template *t, const char *operation, nabla_ssa bits,
                      uint32_t value) {
  return nabla_emit_two(t, operation, bits, constant_i32(t, value), "i32");
}

/* The form follows from the codes of 1 and 2, which the definition in quant/
 * gives: they differ by the number of mantissas. */
nabla_small_float nabla_small_float_find(const nabla_encoding *encoding) {
  const nabla_recipe *recipe = nabla_recipe_find(encoding);
  unsigned one = 0, two = 0, half = 1u << (encoding->bits - 1);
  while (one < half && recipe->value((uint8_t)one) != 1.0f) one++;
  while (two < half && recipe->value((uint8_t)two) != 2.0f) two++;
  nabla_small_float form = {.bits = encoding->bits, .largest = recipe->limit};
  while (one + (1u << form.mantissa) < two) form.mantissa++;
  form.bias = one >> form.mantissa;
  return form;
}

/* Half to even. A normal float is rounded in its bits; one below the least
 * normal of the form by adding a power of two whose last bit is the form's. */
nabla_ssa nabla_small_float_code(nabla_template *t,
                                 const nabla_small_float *form, nabla_ssa x) {
  const unsigned shift = 23 - form->mantissa;
  const uint32_t least = (128 - form->bias) << 23;
  const uint32_t magic = least + (shift << 23);
  nabla_ssa bits = bits_of(t, x);
  nabla_ssa most = k_f32(&t->emit, NABLA_SCALAR, (double)form->largest);
  nabla_ssa size = float_of(t, with(t, "andi", bits, NABLA_F32_MAGNITUDE));
  nabla_ssa fits = nabla_emit_two(t, "cmpf olt,", size, most, "f32");
  size = nabla_emit_select(t, fits, size, most, "f32");
  nabla_ssa magnitude = bits_of(t, size);
  nabla_ssa odd = with(t, "andi", with(t, "shrui", magnitude, shift), 1);
  nabla_ssa normal = with(t, "addi", magnitude, (1u << (shift - 1)) - 1);
  normal = nabla_emit_two(t, "addi", normal, odd, "i32");
  normal = with(t, "subi", with(t, "shrui", normal, shift),
                (127 - form->bias) << form->mantissa);
  nabla_ssa small =
      nabla_emit_two(t, "addf", size, nabla_emit_f32_bits(t, magic), "f32");
  small = with(t, "subi", bits_of(t, small), magic);
  nabla_ssa is_small = with(t, "cmpi ult,", magnitude, least);
  nabla_ssa code = nabla_emit_select(t, is_small, small, normal, "i32");
  nabla_ssa sign = with(t, "andi", with(t, "shrui", bits, 32 - form->bits),
                        1u << (form->bits - 1));
  code = nabla_emit_two(t, "ori", code, sign, "i32");
  return k_op(&t->emit, "arith.trunci %%v%u : i32 to i8", code);
}

typedef struct mx {
  const nabla_encoding *encoding;
  nabla_small_float form;
  uint32_t emax;
  nabla_ssa_tensor values; /* f32, blocks x block */
  nabla_ssa_tensor most;   /* i32, blocks: bits of absmax */
} mx;

/* The exponent e of a block's scale 2^(e - 127), within 0 and 254. */
static nabla_ssa exponent_of(nabla_template *t, const mx *m, nabla_ssa most) {
  nabla_ssa e = with(t, "subi", with(t, "shrui", most, 23), m->emax);
  e = with(t, "maxsi", e, 0);
  return with(t, "minsi", e, 254);
}

/* The scales as bytes: 255, which means NaN, for a block with a value that is
 * not finite. */
static nabla_ssa_tensor mx_scales(nabla_template *t, const mx *m) {
  nabla_ssa_tensor shape = nabla_ssa_tensor_static("i8", 1, m->most.dims);
  nabla_ssa_tensor out = nabla_ssa_tensor_empty(t, &shape, "i8");
  nabla_generic g = {.loops = 1};
  nabla_generic_add(&g, &m->most, NULL);
  nabla_generic_add(&g, &out, NULL);
  nabla_generic_begin(t, &g);
  nabla_ssa most = g.operands[0].element;
  nabla_ssa finite = with(t, "cmpi ult,", most, NABLA_F32_INFINITY);
  nabla_ssa e = nabla_emit_select(t, finite, exponent_of(t, m, most),
                                  constant_i32(t, 255), "i32");
  return nabla_generic_end(t, &g,
                           k_op(&t->emit, "arith.trunci %%v%u : i32 to i8", e));
}

/* 2^(127 - e): for e = 254 a subnormal. */
static nabla_ssa factor_of(nabla_template *t, const mx *m, nabla_ssa most) {
  nabla_ssa down = nabla_emit_two(t, "subi", constant_i32(t, 254),
                                  exponent_of(t, m, most), "i32");
  nabla_ssa bits = with(t, "shli", down, 23);
  nabla_ssa is_last = with(t, "cmpi eq,", down, 0);
  bits = nabla_emit_select(t, is_last, constant_i32(t, NABLA_F32_NORMAL / 2),
                           bits, "i32");
  return float_of(t, bits);
}

static nabla_ssa code_of(nabla_template *t, const mx *m, nabla_ssa factor,
                         nabla_ssa x) {
  return nabla_small_float_code(t, &m->form,
                                nabla_emit_two(t, "mulf", x, factor, "f32"));
}

static nabla_ssa_tensor mx_codes(nabla_template *t, const mx *m) {
  const intptr_t block_of[] = {0};
  const intptr_t first[] = {0, 1, NABLA_AT(0)}, second[] = {0, 1, NABLA_AT(1)};
  bool narrow = m->encoding->bits == 4;
  nabla_ssa_tensor values =
      narrow ? nabla_quantize_pairs(t, &m->values) : m->values;
  nabla_ssa_tensor shape = nabla_ssa_tensor_static("i8", 2, values.dims);
  nabla_ssa_tensor out = nabla_ssa_tensor_empty(t, &shape, "i8");
  nabla_generic g = {.loops = 2};
  nabla_generic_add(&g, &m->most, block_of);
  nabla_generic_add(&g, &values, narrow ? first : NULL);
  if (narrow) nabla_generic_add(&g, &values, second);
  nabla_generic_add(&g, &out, NULL);
  nabla_generic_begin(t, &g);
  nabla_ssa factor = factor_of(t, m, g.operands[0].element);
  nabla_ssa code = code_of(t, m, factor, g.operands[1].element);
  if (narrow)
    code = nabla_quantize_join(t, code,
                               code_of(t, m, factor, g.operands[2].element),
                               m->encoding->high_first);
  return nabla_generic_end(t, &g, code);
}

bool nabla_quantize_mx(nabla_template *t) {
  MlirType type = nabla_result_type(t->op, 0);
  nabla_implicit_component parts[NABLA_MAX_PARTS];
  nabla_implicit_components(type, parts);
  nabla_format format = nabla_implicit_format(type);
  mx m = {.encoding = format.encoding,
          .form = nabla_small_float_find(format.encoding),
          .emax = (uint32_t)nabla_recipe_find(format.encoding)->emax};
  nabla_template_open(t);
  nabla_ssa_tensor in = nabla_template_operand(t, 0);
  in = nabla_ssa_tensor_convert(t, &in, nabla_element_named("f32"));
  m.values =
      nabla_quantize_blocks(t, &in, parts[1].count, (int64_t)format.block);
  m.most = nabla_quantize_most(t, &m.values, false);
  nabla_ssa_tensor codes = mx_codes(t, &m);
  nabla_ssa_tensor out[] = {nabla_quantize_cut(t, &codes, parts[0].count),
                            mx_scales(t, &m)};
  return nabla_quantize_pack(t, 2, out);
}
