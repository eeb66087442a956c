/* Lowering of quantize into ternary and binary codes, whose scale is the mean
 * of magnitudes: docs/FORMAT.md (E1, E3), byte for byte. */
#include "lib/kernels/builder/k.h"
#include "quant/codec/kernel.h"
#include "transforms/lower/elements.h"
#include "transforms/lower/quantize/quantize.h"

#define LANES 16 /* partial sums of a block */

typedef struct by_mean {
  nabla_format format;
  int64_t blocks, block, count; /* count: of values, without padding */
  nabla_ssa_tensor values;      /* f32, blocks x block */
  nabla_ssa_tensor scales;      /* f32, blocks, as stored */
} by_mean;

static nabla_ssa_tensor reshaped(nabla_template *t, const nabla_ssa_tensor *in,
                                 intptr_t rank, const int64_t *dims) {
  nabla_ssa_tensor flat = nabla_ssa_tensor_flatten(t, in);
  nabla_ssa_tensor shape =
      nabla_ssa_tensor_static(in->element->name, rank, dims);
  return nabla_ssa_tensor_unflatten(t, &flat, &shape);
}

/* Sums of |x| (f64) over the values with the same index modulo 16 in a block,
 * as blocks x 16. */
static nabla_ssa_tensor lane_sums(nabla_template *t, const by_mean *m) {
  const int64_t dims[] = {m->blocks, m->block / LANES, LANES};
  const int64_t sums[] = {m->blocks, LANES};
  const intptr_t of_value[] = {0, 1, 2}, of_sum[] = {0, 2};
  nabla_ssa_tensor values = reshaped(t, &m->values, 3, dims);
  nabla_ssa_tensor shape = nabla_ssa_tensor_static("f64", 2, sums);
  nabla_ssa_tensor out = nabla_ssa_tensor_full(t, &shape, "f64", "0.0");
  nabla_generic g = {.loops = 3, .reductions = 1, .inner = 1};
  nabla_generic_add(&g, &values, of_value);
  nabla_generic_add(&g, &out, of_sum);
  nabla_generic_begin(t, &g);
  nabla_ssa x =
      k_op(&t->emit, "arith.extf %%v%u : f32 to f64", g.operands[0].element);
  x = k_op(&t->emit, "math.absf %%v%u : f64", x);
  return nabla_generic_end(
      t, &g, nabla_emit_two(t, "addf", g.operands[1].element, x, "f64"));
}

/* Adds the second half of each row to the first. */
static nabla_ssa_tensor halves_added(nabla_template *t,
                                     const nabla_ssa_tensor *sums) {
  const int64_t dims[] = {sums->dims[0], 2, sums->dims[1] / 2};
  const int64_t half[] = {dims[0], dims[2]};
  const intptr_t first[] = {0, NABLA_AT(0), 1}, second[] = {0, NABLA_AT(1), 1};
  nabla_ssa_tensor pairs = reshaped(t, sums, 3, dims);
  nabla_ssa_tensor shape = nabla_ssa_tensor_static("f64", 2, half);
  nabla_ssa_tensor out = nabla_ssa_tensor_empty(t, &shape, "f64");
  nabla_generic g = {.loops = 2};
  nabla_generic_add(&g, &pairs, first);
  nabla_generic_add(&g, &pairs, second);
  nabla_generic_add(&g, &out, NULL);
  nabla_generic_begin(t, &g);
  return nabla_generic_end(t, &g,
                           nabla_emit_two(t, "addf", g.operands[0].element,
                                          g.operands[1].element, "f64"));
}

static nabla_ssa count_f64(nabla_template *t, int64_t count) {
  return k_op(&t->emit, "arith.constant %lld.0 : f64", (long long)count);
}

/* The number of values of the block at the loop's index: the last one may be
 * short. */
static nabla_ssa values_of_block(nabla_template *t, const by_mean *m) {
  nabla_ssa whole = count_f64(t, m->block);
  int64_t rest = m->count % m->block;
  if (rest == 0) return whole;
  nabla_ssa last = nabla_emit_two(t, "cmpi eq,", nabla_generic_index(t, 0),
                                  nabla_emit_index(t, m->blocks - 1), "index");
  return nabla_emit_select(t, last, count_f64(t, rest), whole, "f64");
}

/* Means, rounded to the type of scales. */
static nabla_ssa_tensor scales_of(nabla_template *t, const by_mean *m) {
  const intptr_t block_of[] = {0, NABLA_AT(0)};
  nabla_ssa_tensor sums = lane_sums(t, m);
  while (sums.dims[1] > 1) sums = halves_added(t, &sums);
  nabla_ssa_tensor shape = nabla_ssa_tensor_static("f32", 1, &m->blocks);
  nabla_ssa_tensor out = nabla_ssa_tensor_empty(t, &shape, "f32");
  nabla_generic g = {.loops = 1};
  nabla_generic_add(&g, &sums, block_of);
  nabla_generic_add(&g, &out, NULL);
  nabla_generic_begin(t, &g);
  nabla_ssa mean = nabla_emit_two(t, "divf", g.operands[0].element,
                                  values_of_block(t, m), "f64");
  mean = k_op(&t->emit, "arith.truncf %%v%u : f64 to f32", mean);
  nabla_dtype dtype = nabla_scale_info_of(m->format.scale)->dtype;
  return nabla_generic_end(t, &g, k_round(&t->emit, NABLA_SCALAR, dtype, mean));
}

static nabla_ssa constant_i8(nabla_template *t, unsigned value) {
  return k_op(&t->emit, "arith.constant %u : i8", value);
}

/* x >= 0, whatever the scale is. */
static nabla_ssa sign_code(nabla_template *t, nabla_ssa x) {
  nabla_ssa zero = k_f32(&t->emit, NABLA_SCALAR, 0);
  nabla_ssa above = nabla_emit_two(t, "cmpf oge,", x, zero, "f32");
  return k_op(&t->emit, "arith.extui %%v%u : i1 to i8", above);
}

/* 1 + round(x/scale) within 0 and 2, which is 1 unless 2|x| > scale; 1 for a
 * scale of 0 and one that is not finite. */
static nabla_ssa ternary_code(nabla_template *t, nabla_ssa x, nabla_ssa scale) {
  nabla_emitter *e = &t->emit;
  nabla_ssa twice = nabla_emit_two(t, "addf", x, x, "f32");
  nabla_ssa below = k_op(e, "arith.negf %%v%u : f32", scale);
  nabla_ssa is_high = nabla_emit_two(t, "cmpf ogt,", twice, scale, "f32");
  nabla_ssa is_low = nabla_emit_two(t, "cmpf olt,", twice, below, "f32");
  nabla_ssa one = constant_i8(t, 1);
  nabla_ssa code = nabla_emit_select(t, is_low, constant_i8(t, 0), one, "i8");
  code = nabla_emit_select(t, is_high, constant_i8(t, 2), code, "i8");
  nabla_ssa bits = k_op(e, "arith.bitcast %%v%u : f32 to i32", scale);
  bits = nabla_emit_two(t, "subi", bits, k_i32(e, NABLA_SCALAR, 1), "i32");
  nabla_ssa limit = k_i32(e, NABLA_SCALAR, NABLA_F32_INFINITY - 1);
  nabla_ssa usable = nabla_emit_two(t, "cmpi ult,", bits, limit, "i32");
  return nabla_emit_select(t, usable, code, one, "i8");
}

/* A code in each byte. */
static nabla_ssa_tensor codes_of(nabla_template *t, const by_mean *m) {
  const intptr_t block_of[] = {0};
  nabla_ssa_tensor shape = m->values;
  nabla_ssa_tensor out = nabla_ssa_tensor_empty(t, &shape, "i8");
  nabla_generic g = {.loops = 2};
  nabla_generic_add(&g, &m->scales, block_of);
  nabla_generic_add(&g, &m->values, NULL);
  nabla_generic_add(&g, &out, NULL);
  nabla_generic_begin(t, &g);
  nabla_ssa scale = g.operands[0].element, x = g.operands[1].element;
  return nabla_generic_end(t, &g,
                           m->format.encoding->bits == 1
                               ? sign_code(t, x)
                               : ternary_code(t, x, scale));
}

/* Joins the codes of each byte, the first in the lowest bits. */
static nabla_ssa_tensor bytes_of(nabla_template *t, const by_mean *m,
                                 const nabla_ssa_tensor *codes) {
  const unsigned bits = m->format.encoding->bits, each = 8 / bits;
  const int64_t dims[] = {m->blocks * (m->block / each), each};
  nabla_ssa_tensor parts = reshaped(t, codes, 2, dims);
  nabla_ssa_tensor shape = nabla_ssa_tensor_static("i8", 1, dims);
  nabla_ssa_tensor out = nabla_ssa_tensor_empty(t, &shape, "i8");
  nabla_generic g = {.loops = 1};
  for (unsigned i = 0; i < each; i++)
    nabla_generic_add(&g, &parts, (const intptr_t[]){0, NABLA_AT(i)});
  nabla_generic_add(&g, &out, NULL);
  nabla_generic_begin(t, &g);
  nabla_ssa byte = g.operands[0].element;
  for (unsigned i = 1; i < each; i++) {
    nabla_ssa by = constant_i8(t, i * bits);
    nabla_ssa code = nabla_emit_two(t, "shli", g.operands[i].element, by, "i8");
    byte = nabla_emit_two(t, "ori", byte, code, "i8");
  }
  return nabla_generic_end(t, &g, byte);
}

bool nabla_quantize_mean(nabla_template *t) {
  MlirType type = nabla_result_type(t->op, 0);
  nabla_implicit_component parts[NABLA_MAX_PARTS];
  nabla_implicit_components(type, parts);
  by_mean m = {.format = nabla_implicit_format(type),
               .blocks = parts[1].count,
               .count = (int64_t)nabla_implicit_storage_elements(type)};
  m.block = (int64_t)m.format.block;
  nabla_template_open(t);
  nabla_ssa_tensor in = nabla_template_operand(t, 0);
  in = nabla_ssa_tensor_convert(t, &in, nabla_element_named("f32"));
  m.values = nabla_quantize_blocks(t, &in, m.blocks, m.block);
  m.scales = scales_of(t, &m);
  nabla_ssa_tensor codes = codes_of(t, &m);
  codes = bytes_of(t, &m, &codes);
  nabla_ssa_tensor out[] = {
      nabla_quantize_cut(t, &codes, parts[0].count),
      nabla_ssa_tensor_convert(t, &m.scales, /* exact */
                               nabla_element_find(parts[1].element))};
  return nabla_quantize_pack(t, 2, out);
}
