/* Lowering of quantize. It computes codes and scales as the definitions in
 * quant/ do, byte for byte (docs/FORMAT.md). */
#include "transforms/lower/quantize/quantize.h"

#include <mlir-c/BuiltinTypes.h>

#include "lib/kernels/builder/k.h"
#include "quant/codec/codec.h"
#include "quant/codec/int8.h"
#include "quant/codec/kernel.h"
#include "transforms/lower/elements.h"
#include "transforms/lower/list.h"

typedef struct quantizing {
  nabla_format format;
  int64_t blocks, block;
  int64_t code_bytes;
  bool table;    /* codes are indices of a table, else numbers */
  bool is_float; /* codes are floats of 8 bits, else integers */
  nabla_small_float form;
  bool is_signed;          /* scales have the sign of the largest magnitude */
  double limit;            /* the magnitude to which the absmax or peak is
                            * scaled */
  double low, high;        /* the smallest and the largest integer */
  nabla_ssa_tensor values; /* f32, blocks x block, padded with zeros */
  nabla_ssa_tensor most;   /* i32, blocks: as nabla_quantize_most gives them */
  nabla_code_steps steps;
} quantizing;

static nabla_ssa emit_f32(nabla_template *t, double value) {
  return k_f32(&t->emit, NABLA_SCALAR, value);
}

static nabla_ssa emit_i32(nabla_template *t, uint32_t value) {
  return k_i32(&t->emit, NABLA_SCALAR, value);
}

static nabla_ssa bits_to_f32(nabla_template *t, nabla_ssa bits) {
  return k_op(&t->emit, "arith.bitcast %%v%u : i32 to f32", bits);
}

/* Fills the last block up with zeros: they do not raise its absmax, and their
 * code is the one that fills up a last byte. */
static nabla_ssa_tensor pad(nabla_template *t, const nabla_ssa_tensor *flat,
                            int64_t count) {
  nabla_ssa_tensor out = nabla_ssa_tensor_static("f32", 1, &count);
  nabla_ssa zero = emit_f32(t, 0);
  out.value = ++t->emit.last;
  nabla_text_add(&t->text,
                 "  %%v%u = tensor.pad %%v%u low[0] high[%lld] {\n"
                 "  ^bb0(%%at: index):\n  tensor.yield %%v%u : f32\n  } : %s",
                 out.value, flat->value, (long long)(count - flat->dims[0]),
                 zero, nabla_ssa_tensor_type(flat).data);
  nabla_text_add(&t->text, " to %s\n", nabla_ssa_tensor_type(&out).data);
  return out;
}

nabla_ssa_tensor nabla_quantize_blocks(nabla_template *t,
                                       const nabla_ssa_tensor *in,
                                       int64_t blocks, int64_t block) {
  nabla_ssa_tensor flat = nabla_ssa_tensor_flatten(t, in);
  if (flat.dims[0] < blocks * block) flat = pad(t, &flat, blocks * block);
  nabla_ssa_tensor shape =
      nabla_ssa_tensor_static("f32", 2, (const int64_t[]){blocks, block});
  return nabla_ssa_tensor_unflatten(t, &flat, &shape);
}

static void read_values(nabla_template *t, quantizing *q) {
  nabla_ssa_tensor in = nabla_template_operand(t, 0);
  in = nabla_ssa_tensor_convert(t, &in, nabla_element_named("f32"));
  q->values = nabla_quantize_blocks(t, &in, q->blocks, q->block);
}

/* Rotates the bits left or right by one. */
static nabla_ssa rotate(nabla_template *t, nabla_ssa bits, bool left) {
  nabla_ssa one = emit_i32(t, 1), rest = emit_i32(t, 31);
  nabla_ssa high = nabla_emit_two(t, "shli", bits, left ? one : rest, "i32");
  nabla_ssa low = nabla_emit_two(t, "shrui", bits, left ? rest : one, "i32");
  return nabla_emit_two(t, "ori", high, low, "i32");
}

nabla_ssa_tensor nabla_quantize_most(nabla_template *t,
                                     const nabla_ssa_tensor *values,
                                     bool is_signed) {
  nabla_ssa_tensor shape = nabla_ssa_tensor_static("i32", 1, values->dims);
  nabla_ssa_tensor out = nabla_ssa_tensor_full(t, &shape, "i32", "0");
  nabla_generic g = {.loops = 2, .reductions = 1};
  nabla_generic_add(&g, values, NULL);
  nabla_generic_add(&g, &out, NULL);
  nabla_generic_begin(t, &g);
  nabla_ssa bits =
      k_op(&t->emit, "arith.bitcast %%v%u : f32 to i32", g.operands[0].element);
  bits = is_signed ? rotate(t, bits, true)
                   : nabla_emit_two(t, "andi", bits,
                                    emit_i32(t, NABLA_F32_MAGNITUDE), "i32");
  bits = nabla_emit_two(t, "maxui", g.operands[1].element, bits, "i32");
  return nabla_generic_end(t, &g, bits);
}

/* Returns the statistic of a block from which its scale is computed: absmax or
 * peak. */
static nabla_ssa base_of(nabla_template *t, const quantizing *q,
                         nabla_ssa most) {
  return bits_to_f32(t, q->is_signed ? rotate(t, most, false) : most);
}

/* An f32 of each block, computed from its row of `most`. */
static nabla_ssa_tensor per_block(nabla_template *t, const quantizing *q,
                                  nabla_ssa (*compute)(nabla_template *t,
                                                       const quantizing *q,
                                                       nabla_ssa most)) {
  nabla_ssa_tensor shape = nabla_ssa_tensor_static("f32", 1, &q->blocks);
  nabla_ssa_tensor out = nabla_ssa_tensor_empty(t, &shape, "f32");
  nabla_generic g = {.loops = 1};
  nabla_generic_add(&g, &q->most, NULL);
  nabla_generic_add(&g, &out, NULL);
  nabla_generic_begin(t, &g);
  return nabla_generic_end(t, &g, compute(t, q, g.operands[0].element));
}

/* Returns the scale in f32: the absmax for tables and LLM.int8, else the
 * statistic divided by the limit, with the exception of int8 for FLT_MAX
 * (FORMAT.md, E1). A zero that comes from a peak is +0. */
static nabla_ssa wide_scale_of(nabla_template *t, const quantizing *q,
                               nabla_ssa most) {
  nabla_ssa absmax = base_of(t, q, most);
  if (q->table || nabla_format_is_llm_int8(&q->format)) return absmax;
  nabla_ssa scale =
      nabla_emit_two(t, "divf", absmax, emit_f32(t, q->limit), "f32");
  if (q->is_signed)
    return nabla_emit_two(t, "addf", scale, emit_f32(t, 0), "f32");
  if (q->is_float) return scale;
  nabla_ssa largest = emit_i32(t, NABLA_F32_INFINITY - 1);
  nabla_ssa is_largest = nabla_emit_two(t, "cmpi eq,", most, largest, "i32");
  nabla_ssa below = emit_f32(t, (double)NABLA_INT8_SCALE_MAX);
  scale = nabla_emit_select(t, is_largest, below, scale, "f32");
  nabla_ssa is_finite = nabla_emit_two(t, "cmpi ule,", most, largest, "i32");
  return nabla_emit_select(t, is_finite, scale, absmax, "f32");
}

static bool is_narrow(const quantizing *q) {
  return q->format.scale != NABLA_SCALE_F32;
}

/* Returns the scale as it is stored, rounded to its type. */
static nabla_ssa scale_of(nabla_template *t, const quantizing *q,
                          nabla_ssa most) {
  nabla_ssa scale = wide_scale_of(t, q, most);
  nabla_dtype dtype = nabla_scale_info_of(q->format.scale)->dtype;
  return k_round(&t->emit, NABLA_SCALAR, dtype, scale);
}

/* Returns the factor by which elements are multiplied: limit/absmax, or 1/scale
 * for a scale that was rounded (FORMAT.md, E2). */
static nabla_ssa factor_of(nabla_template *t, const quantizing *q,
                           nabla_ssa most) {
  if (is_narrow(q))
    return nabla_emit_two(t, "divf", emit_f32(t, 1), scale_of(t, q, most),
                          "f32");
  nabla_ssa top = emit_f32(t, q->limit);
  return nabla_emit_two(t, "divf", top, base_of(t, q, most), "f32");
}

/* Values of a block for the body that computes codes. */
typedef struct block_facts {
  nabla_ssa divisor, factor; /* divisor: absmax, peak, or the rounded scale */
  nabla_ssa usable;          /* the divisor is neither zero nor infinite nor NaN
                              */
  nabla_ssa easy;            /* the factor is finite: elements are multiplied by
                              * it */
} block_facts;

static block_facts read_block(nabla_template *t, const quantizing *q,
                              nabla_ssa most, nabla_ssa factor) {
  nabla_ssa divisor = is_narrow(q) ? scale_of(t, q, most) : base_of(t, q, most);
  block_facts b = {.divisor = divisor, .factor = factor};
  nabla_ssa one = emit_i32(t, 1);
  nabla_ssa bits = k_op(&t->emit, "arith.bitcast %%v%u : f32 to i32", divisor);
  if (q->is_signed) {
    nabla_ssa mask = emit_i32(t, NABLA_F32_MAGNITUDE);
    bits = nabla_emit_two(t, "andi", bits, mask, "i32");
    factor = k_op(&t->emit, "math.absf %%v%u : f32", factor);
  }
  nabla_ssa below = nabla_emit_two(t, "subi", bits, one, "i32");
  b.usable = nabla_emit_two(t, "cmpi ult,", below,
                            emit_i32(t, NABLA_F32_INFINITY - 1), "i32");
  if (q->table && !is_narrow(q)) {
    b.easy = nabla_emit_two(t, "cmpi uge,", most, emit_i32(t, NABLA_F32_NORMAL),
                            "i32");
  } else {
    nabla_ssa infinity = nabla_emit_f32_bits(t, NABLA_F32_INFINITY);
    b.easy = nabla_emit_two(t, "cmpf olt,", factor, infinity, "f32");
  }
  return b;
}

/* Clamps `x` to the range of the codes. */
static nabla_ssa clamp(nabla_template *t, const quantizing *q, nabla_ssa x) {
  nabla_ssa low = emit_f32(t, q->low), high = emit_f32(t, q->high);
  x = nabla_emit_select(t, nabla_emit_two(t, "cmpf olt,", x, low, "f32"), low,
                        x, "f32");
  return nabla_emit_select(t, nabla_emit_two(t, "cmpf ogt,", x, high, "f32"),
                           high, x, "f32");
}

/* Returns the code of an element, an i8, by the thresholds of a table. */
static nabla_ssa table_code(nabla_template *t, const quantizing *q,
                            const block_facts *b, nabla_ssa x) {
  nabla_ssa scaled = nabla_emit_two(t, "mulf", x, b->factor, "f32");
  nabla_ssa divided = nabla_emit_two(t, "divf", x, b->divisor, "f32");
  scaled = nabla_emit_select(t, b->easy, scaled, divided, "f32");
  /* Returns the code of zero if the block is not usable. */
  scaled = nabla_emit_select(t, b->usable, clamp(t, q, scaled), emit_f32(t, 0),
                             "f32");
  nabla_ssa code = k_op(&t->emit, "arith.constant %u : i8", q->steps.first);
  for (unsigned i = 0; i < q->steps.count; i++) {
    nabla_ssa from = emit_f32(t, (double)q->steps.steps[i].from);
    nabla_ssa reached = nabla_emit_two(t, "cmpf oge,", scaled, from, "f32");
    nabla_ssa next =
        k_op(&t->emit, "arith.constant %u : i8", q->steps.steps[i].code);
    code = nabla_emit_select(t, reached, next, code, "i8");
  }
  return code;
}

/* x by the factor of its block, or divided where that is not finite. */
static nabla_ssa scaled_of(nabla_template *t, const quantizing *q,
                           const block_facts *b, nabla_ssa x) {
  nabla_ssa scaled = nabla_emit_two(t, "mulf", x, b->factor, "f32");
  nabla_ssa divided = nabla_emit_two(t, "divf", x, b->divisor, "f32");
  if (!is_narrow(q))
    divided = nabla_emit_two(t, "mulf", divided, emit_f32(t, q->limit), "f32");
  return nabla_emit_select(t, b->easy, scaled, divided, "f32");
}

/* A zero with the sign of x if the block is not usable. */
static nabla_ssa float_code(nabla_template *t, const quantizing *q,
                            const block_facts *b, nabla_ssa x) {
  nabla_ssa none = nabla_emit_two(t, "mulf", x, emit_f32(t, 0), "f32");
  nabla_ssa scaled =
      nabla_emit_select(t, b->usable, scaled_of(t, q, b, x), none, "f32");
  return nabla_small_float_code(t, &q->form, scaled);
}

/* Rounds half to even by adding 1.5 * 2^23: no library call on any target. */
static nabla_ssa integer_code(nabla_template *t, const quantizing *q,
                              const block_facts *b, nabla_ssa x) {
  nabla_ssa scaled = scaled_of(t, q, b, x);
  scaled = nabla_emit_select(t, b->usable, clamp(t, q, scaled), emit_f32(t, 0),
                             "f32");
  nabla_ssa magic = emit_f32(t, 0x1.8p23);
  scaled = nabla_emit_two(t, "addf", scaled, magic, "f32");
  scaled = nabla_emit_two(t, "subf", scaled, magic, "f32");
  return k_op(&t->emit, "arith.fptosi %%v%u : f32 to i8", scaled);
}

/* Adds the inputs that every block has. */
static void add_block(nabla_generic *g, const quantizing *q,
                      const nabla_ssa_tensor *factors) {
  const intptr_t block_of[] = {0};
  nabla_generic_add(g, &q->most, block_of);
  nabla_generic_add(g, factors, block_of);
}

/* A code in each byte. */
static nabla_ssa_tensor wide_codes(nabla_template *t, const quantizing *q,
                                   const nabla_ssa_tensor *factors) {
  nabla_ssa_tensor shape = q->values;
  nabla_ssa_tensor out = nabla_ssa_tensor_empty(t, &shape, "i8");
  nabla_generic g = {.loops = 2};
  add_block(&g, q, factors);
  nabla_generic_add(&g, &q->values, NULL);
  nabla_generic_add(&g, &out, NULL);
  nabla_generic_begin(t, &g);
  block_facts b =
      read_block(t, q, g.operands[0].element, g.operands[1].element);
  nabla_ssa x = g.operands[2].element;
  return nabla_generic_end(
      t, &g, q->is_float ? float_code(t, q, &b, x) : integer_code(t, q, &b, x));
}

nabla_ssa_tensor nabla_quantize_pairs(nabla_template *t,
                                      const nabla_ssa_tensor *values) {
  const int64_t dims[] = {values->dims[0], values->dims[1] / 2, 2};
  nabla_ssa_tensor flat = nabla_ssa_tensor_flatten(t, values);
  nabla_ssa_tensor pairs = nabla_ssa_tensor_static("f32", 3, dims);
  return nabla_ssa_tensor_unflatten(t, &flat, &pairs);
}

nabla_ssa nabla_quantize_join(nabla_template *t, nabla_ssa first,
                              nabla_ssa second, bool high_first) {
  nabla_ssa four = k_op(&t->emit, "arith.constant 4 : i8");
  nabla_ssa high = high_first ? first : second;
  high = nabla_emit_two(t, "shli", high, four, "i8");
  return nabla_emit_two(t, "ori", high, high_first ? second : first, "i8");
}

static nabla_ssa narrow_code(nabla_template *t, const quantizing *q,
                             const block_facts *b, nabla_ssa x) {
  if (q->table) return table_code(t, q, b, x);
  nabla_ssa eight = k_op(&t->emit, "arith.constant 8 : i8");
  return nabla_emit_two(t, "addi", integer_code(t, q, b, x), eight, "i8");
}

/* Packs two codes per byte. */
static nabla_ssa_tensor narrow_codes(nabla_template *t, const quantizing *q,
                                     const nabla_ssa_tensor *factors) {
  const intptr_t first[] = {0, 1, NABLA_AT(0)}, second[] = {0, 1, NABLA_AT(1)};
  nabla_ssa_tensor pairs = nabla_quantize_pairs(t, &q->values);
  nabla_ssa_tensor shape = nabla_ssa_tensor_static("i8", 2, pairs.dims);
  nabla_ssa_tensor out = nabla_ssa_tensor_empty(t, &shape, "i8");
  nabla_generic g = {.loops = 2};
  add_block(&g, q, factors);
  nabla_generic_add(&g, &pairs, first);
  nabla_generic_add(&g, &pairs, second);
  nabla_generic_add(&g, &out, NULL);
  nabla_generic_begin(t, &g);
  block_facts b =
      read_block(t, q, g.operands[0].element, g.operands[1].element);
  nabla_ssa even = narrow_code(t, q, &b, g.operands[2].element);
  nabla_ssa odd = narrow_code(t, q, &b, g.operands[3].element);
  return nabla_generic_end(
      t, &g, nabla_quantize_join(t, even, odd, q->format.encoding->high_first));
}

nabla_ssa_tensor nabla_quantize_cut(nabla_template *t,
                                    const nabla_ssa_tensor *codes,
                                    int64_t count) {
  nabla_ssa_tensor flat = nabla_ssa_tensor_flatten(t, codes);
  if (flat.dims[0] == count) return flat;
  nabla_ssa_tensor out = nabla_ssa_tensor_static("i8", 1, &count);
  out.value =
      k_op(&t->emit, "tensor.extract_slice %%v%u[0] [%lld] [1] : %s to %s",
           flat.value, (long long)count, nabla_ssa_tensor_type(&flat).data,
           nabla_ssa_tensor_type(&out).data);
  return out;
}

bool nabla_quantize_pack(nabla_template *t, intptr_t count,
                         const nabla_ssa_tensor *parts) {
  nabla_ssa packed = ++t->emit.last;
  nabla_text_add(&t->text, "  %%v%u = nabla.pack ", packed);
  for (intptr_t i = 0; i < count; i++)
    nabla_text_add(&t->text, "%s%%v%u", i ? ", " : "", parts[i].value);
  for (intptr_t i = 0; i < count; i++)
    nabla_text_add(&t->text, "%s%s", i ? ", " : " : ",
                   nabla_ssa_tensor_type(&parts[i]).data);
  nabla_text_add(&t->text, " -> ");
  nabla_text_add_type(&t->text, nabla_result_type(t->op, 0));
  nabla_text_add(&t->text, "\n");
  return nabla_template_close(t, packed);
}

static bool lower_scaled(nabla_template *t, quantizing *q,
                         const nabla_element *scale) {
  nabla_template_open(t);
  read_values(t, q);
  q->most = nabla_quantize_most(t, &q->values, q->is_signed);
  nabla_ssa_tensor scales = per_block(t, q, scale_of);
  nabla_ssa_tensor factors = per_block(t, q, factor_of);
  nabla_ssa_tensor codes = q->format.encoding->bits == 4
                               ? narrow_codes(t, q, &factors)
                               : wide_codes(t, q, &factors);
  nabla_ssa_tensor parts[] = {
      nabla_quantize_cut(t, &codes, q->code_bytes),
      nabla_ssa_tensor_convert(t, &scales, scale)}; /* exact */
  return nabla_quantize_pack(t, 2, parts);
}

bool nabla_lower_quantize(nabla_template *t) {
  MlirType type = nabla_result_type(t->op, 0);
  nabla_implicit_component parts[NABLA_MAX_PARTS];
  nabla_implicit_components(type, parts);
  nabla_format format = nabla_implicit_format(type);
  if (!format.encoding) return nabla_quantize_dynamic8(t);
  if (format.zero_point) return nabla_quantize_zero_points(t);
  const nabla_recipe *recipe = nabla_recipe_find(format.encoding);
  if (recipe->statistic == NABLA_STATISTIC_MEAN) return nabla_quantize_mean(t);
  if (format.scale == NABLA_SCALE_E8M0) return nabla_quantize_mx(t);
  quantizing q = {.format = format,
                  .blocks = parts[1].count,
                  .block = (int64_t)format.block,
                  .code_bytes = parts[0].count};
  q.table = format.encoding->bits == 4 && format.encoding->high_first;
  q.is_float = recipe->emax != 0;
  if (q.is_float) q.form = nabla_small_float_find(format.encoding);
  q.is_signed = recipe->statistic == NABLA_STATISTIC_PEAK;
  q.limit = q.table ? 1 : recipe->limit;
  q.low = q.is_signed ? q.limit : -q.limit;
  q.high = q.is_signed ? -q.limit - 1 : q.limit;
  if (q.table && !nabla_code_steps_find(format.encoding, &q.steps)) {
    nabla_error_at(t->op, "has an encoding with too many steps to lower");
    return false;
  }
  return lower_scaled(t, &q, nabla_element_find(parts[1].element));
}
