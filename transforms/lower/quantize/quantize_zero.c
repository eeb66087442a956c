/* Lowering of quantize with zero points: docs/FORMAT.md (E4), byte for byte. */
#include "lib/kernels/builder/k.h"
#include "quant/codec/codec.h"
#include "transforms/lower/elements.h"
#include "transforms/lower/quantize/quantize.h"

typedef struct zeroed {
  nabla_format format;
  uint32_t levels;                          /* above code 0: 255 or 15 */
  nabla_ssa_tensor values;                  /* f32, blocks x block */
  nabla_ssa_tensor low, high, scales, zero; /* f32, blocks; scales as stored */
} zeroed;

static nabla_ssa emit_f32(nabla_template *t, double value) {
  return k_f32(&t->emit, NABLA_SCALAR, value);
}

static nabla_ssa choose(nabla_template *t, nabla_ssa condition, nabla_ssa yes,
                        nabla_ssa no) {
  return nabla_emit_select(t, condition, yes, no, "f32");
}

/* Within [low, high]; NaN gives `low`. */
static nabla_ssa clamp(nabla_template *t, nabla_ssa x, double low,
                       double high) {
  nabla_ssa least = emit_f32(t, low), most = emit_f32(t, high);
  x = choose(t, nabla_emit_two(t, "cmpf ogt,", x, least, "f32"), x, least);
  return choose(t, nabla_emit_two(t, "cmpf olt,", x, most, "f32"), x, most);
}

/* Half to even, of a magnitude below 2^22, by adding 1.5 * 2^23. */
static nabla_ssa round_even(nabla_template *t, nabla_ssa x) {
  nabla_ssa magic = emit_f32(t, 0x1.8p23);
  return nabla_emit_two(t, "subf", nabla_emit_two(t, "addf", x, magic, "f32"),
                        magic, "f32");
}

static nabla_ssa_tensor per_block(const zeroed *z) {
  return nabla_ssa_tensor_static("f32", 1, z->values.dims);
}

/* The least (largest) value of each block, and of 0. */
static nabla_ssa_tensor extreme(nabla_template *t, const zeroed *z,
                                const char *compare) {
  nabla_ssa_tensor shape = per_block(z);
  nabla_ssa_tensor out = nabla_ssa_tensor_full(t, &shape, "f32", "0.0");
  nabla_generic g = {.loops = 2, .reductions = 1};
  nabla_generic_add(&g, &z->values, NULL);
  nabla_generic_add(&g, &out, NULL);
  nabla_generic_begin(t, &g);
  nabla_ssa x = g.operands[0].element, so_far = g.operands[1].element;
  nabla_ssa beyond = nabla_emit_two(t, compare, x, so_far, "f32");
  return nabla_generic_end(t, &g, choose(t, beyond, x, so_far));
}

/* (max - min) / levels, rounded to the scale type. */
static nabla_ssa_tensor scales_of(nabla_template *t, const zeroed *z) {
  nabla_ssa_tensor shape = per_block(z);
  nabla_ssa_tensor out = nabla_ssa_tensor_empty(t, &shape, "f32");
  nabla_generic g = {.loops = 1};
  nabla_generic_add(&g, &z->low, NULL);
  nabla_generic_add(&g, &z->high, NULL);
  nabla_generic_add(&g, &out, NULL);
  nabla_generic_begin(t, &g);
  nabla_ssa range = nabla_emit_two(t, "subf", g.operands[1].element,
                                   g.operands[0].element, "f32");
  nabla_ssa scale =
      nabla_emit_two(t, "divf", range, emit_f32(t, z->levels), "f32");
  nabla_dtype dtype = nabla_scale_info_of(z->format.scale)->dtype;
  return nabla_generic_end(t, &g,
                           k_round(&t->emit, NABLA_SCALAR, dtype, scale));
}

/* round(-min / scale) within 0 and levels; 0 where the scale is. */
static nabla_ssa_tensor zeros_of(nabla_template *t, const zeroed *z) {
  nabla_ssa_tensor shape = per_block(z);
  nabla_ssa_tensor out = nabla_ssa_tensor_empty(t, &shape, "f32");
  nabla_generic g = {.loops = 1};
  nabla_generic_add(&g, &z->low, NULL);
  nabla_generic_add(&g, &z->scales, NULL);
  nabla_generic_add(&g, &out, NULL);
  nabla_generic_begin(t, &g);
  nabla_ssa scale = g.operands[1].element, none = emit_f32(t, 0);
  nabla_ssa low =
      k_op(&t->emit, "arith.negf %%v%u : f32", g.operands[0].element);
  nabla_ssa zero = nabla_emit_two(t, "divf", low, scale, "f32");
  zero = round_even(t, clamp(t, zero, 0, z->levels));
  nabla_ssa is_none = nabla_emit_two(t, "cmpf oeq,", scale, none, "f32");
  return nabla_generic_end(t, &g, choose(t, is_none, none, zero));
}

/* `value`, an integer of [0, levels], less `by`, as an i8. */
static nabla_ssa as_code(nabla_template *t, nabla_ssa value, unsigned by) {
  value = k_op(&t->emit, "arith.fptosi %%v%u : f32 to i32", value);
  value = nabla_emit_two(t, "subi", value, k_i32(&t->emit, NABLA_SCALAR, by),
                         "i32");
  return k_op(&t->emit, "arith.trunci %%v%u : i32 to i8", value);
}

/* Codes and zero points of 8 bits are stored less 128. */
static unsigned shift_of(const zeroed *z) {
  return z->format.encoding->bits == 8 ? 128 : 0;
}

static nabla_ssa_tensor stored_zeros(nabla_template *t, const zeroed *z) {
  nabla_ssa_tensor shape = per_block(z);
  nabla_ssa_tensor out = nabla_ssa_tensor_empty(t, &shape, "i8");
  nabla_generic g = {.loops = 1};
  nabla_generic_add(&g, &z->zero, NULL);
  nabla_generic_add(&g, &out, NULL);
  nabla_generic_begin(t, &g);
  return nabla_generic_end(t, &g,
                           as_code(t, g.operands[0].element, shift_of(z)));
}

/* round(x / scale) + z within 0 and levels: by a factor where that is finite
 * (E2). */
static nabla_ssa code_of(nabla_template *t, const zeroed *z, nabla_ssa x,
                         nabla_ssa scale, nabla_ssa zero) {
  nabla_ssa none = emit_f32(t, 0);
  nabla_ssa factor = nabla_emit_two(t, "divf", emit_f32(t, 1), scale, "f32");
  nabla_ssa most = emit_f32(t, 0x1.fffffep+127);
  nabla_ssa size = k_op(&t->emit, "math.absf %%v%u : f32", factor);
  nabla_ssa easy = nabla_emit_two(t, "cmpf ole,", size, most, "f32");
  nabla_ssa q = choose(t, easy, nabla_emit_two(t, "mulf", x, factor, "f32"),
                       nabla_emit_two(t, "divf", x, scale, "f32"));
  nabla_ssa is_none = nabla_emit_two(t, "cmpf oeq,", scale, none, "f32");
  q = choose(t, is_none, none, q);
  q = round_even(t, clamp(t, q, -1024, 1024));
  q = clamp(t, nabla_emit_two(t, "addf", q, zero, "f32"), 0, z->levels);
  return as_code(t, q, shift_of(z));
}

static nabla_ssa_tensor codes_of(nabla_template *t, const zeroed *z) {
  const intptr_t block_of[] = {0};
  const intptr_t first[] = {0, 1, NABLA_AT(0)}, second[] = {0, 1, NABLA_AT(1)};
  bool narrow = z->format.encoding->bits == 4;
  nabla_ssa_tensor values =
      narrow ? nabla_quantize_pairs(t, &z->values) : z->values;
  nabla_ssa_tensor shape = nabla_ssa_tensor_static("i8", 2, values.dims);
  nabla_ssa_tensor out = nabla_ssa_tensor_empty(t, &shape, "i8");
  nabla_generic g = {.loops = 2};
  nabla_generic_add(&g, &z->scales, block_of);
  nabla_generic_add(&g, &z->zero, block_of);
  nabla_generic_add(&g, &values, narrow ? first : NULL);
  if (narrow) nabla_generic_add(&g, &values, second);
  nabla_generic_add(&g, &out, NULL);
  nabla_generic_begin(t, &g);
  nabla_ssa scale = g.operands[0].element, zero = g.operands[1].element;
  nabla_ssa code = code_of(t, z, g.operands[2].element, scale, zero);
  if (narrow)
    code = nabla_quantize_join(
        t, code, code_of(t, z, g.operands[3].element, scale, zero),
        z->format.encoding->high_first);
  return nabla_generic_end(t, &g, code);
}

bool nabla_quantize_zero_points(nabla_template *t) {
  MlirType type = nabla_result_type(t->op, 0);
  nabla_implicit_component parts[NABLA_MAX_PARTS];
  nabla_implicit_components(type, parts);
  zeroed z = {.format = nabla_implicit_format(type)};
  z.levels = (1u << z.format.encoding->bits) - 1;
  nabla_template_open(t);
  nabla_ssa_tensor in = nabla_template_operand(t, 0);
  in = nabla_ssa_tensor_convert(t, &in, nabla_element_named("f32"));
  z.values =
      nabla_quantize_blocks(t, &in, parts[1].count, (int64_t)z.format.block);
  z.low = extreme(t, &z, "cmpf olt,");
  z.high = extreme(t, &z, "cmpf ogt,");
  z.scales = scales_of(t, &z);
  z.zero = zeros_of(t, &z);
  nabla_ssa_tensor codes = codes_of(t, &z);
  nabla_ssa_tensor out[] = {
      nabla_quantize_cut(t, &codes, parts[0].count),
      nabla_ssa_tensor_convert(t, &z.scales, /* exact */
                               nabla_element_find(parts[1].element)),
      stored_zeros(t, &z)};
  return nabla_quantize_pack(t, 3, out);
}
