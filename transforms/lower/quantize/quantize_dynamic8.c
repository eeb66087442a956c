/* Lowering of quantize into dynamic8: docs/FORMAT.md (E6), byte for byte. */
#include <inttypes.h>

#include "lib/kernels/builder/k.h"
#include "nabla/dynamic8.h"
#include "quant/codec/codec.h"
#include "quant/codec/kernel.h"
#include "transforms/lower/elements.h"
#include "transforms/lower/quantize/quantize.h"

#define CODES NABLA_DYNAMIC8_CODES

/* "%out = scf.for %i = %from to %to step %step iter_args(%sum = %start)". */
typedef struct loop {
  nabla_ssa out, at, sum;
} loop;
static loop open_loop(nabla_template *t, nabla_ssa from, nabla_ssa to,
                      nabla_ssa step, nabla_ssa start) {
  nabla_emitter *e = &t->emit;
  loop l = {e->last + 1, e->last + 2, e->last + 3};
  e->last += 3;
  k_line(e,
         "%%v%u = scf.for %%v%u = %%v%u to %%v%u step %%v%u "
         "iter_args(%%v%u = %%v%u) -> (f64) {",
         l.out, l.at, from, to, step, l.sum, start);
  return l;
}

static void close_loop(nabla_template *t, nabla_ssa sum) {
  k_line(&t->emit, "scf.yield %%v%u : f64", sum);
  k_line(&t->emit, "}");
}

/* The mean (f32): a sum in f64 of chunks, each from left to right. */
static nabla_ssa mean(nabla_template *t, const nabla_ssa_tensor *values) {
  nabla_emitter *e = &t->emit;
  int64_t count = values->dims[0];
  if (count == 0) return k_f32(e, NABLA_SCALAR, 0);
  nabla_ssa none = k_op(e, "arith.constant 0.0 : f64");
  nabla_ssa end = nabla_emit_index(t, count);
  nabla_ssa size = nabla_emit_index(t, NABLA_DYNAMIC8_CHUNK);
  nabla_ssa zero = nabla_emit_index(t, 0), one = nabla_emit_index(t, 1);
  loop chunks = open_loop(t, zero, end, size, none);
  nabla_ssa last = nabla_emit_two(t, "addi", chunks.at, size, "index");
  last = nabla_emit_two(t, "minsi", last, end, "index");
  loop inner = open_loop(t, chunks.at, last, one, none);
  nabla_ssa value = k_op(e, "tensor.extract %%v%u[%%v%u] : %s", values->value,
                         inner.at, nabla_ssa_tensor_type(values).data);
  value = k_op(e, "arith.extf %%v%u : f32 to f64", value);
  close_loop(t, nabla_emit_two(t, "addf", inner.sum, value, "f64"));
  close_loop(t, nabla_emit_two(t, "addf", chunks.sum, inner.out, "f64"));
  nabla_ssa number = k_op(e, "arith.constant %" PRId64 ".0 : f64", count);
  nabla_ssa offset = nabla_emit_two(t, "divf", chunks.out, number, "f64");
  return k_op(e, "arith.truncf %%v%u : f64 to f32", offset);
}

static nabla_ssa_tensor less(nabla_template *t, const nabla_ssa_tensor *values,
                             nabla_ssa offset) {
  nabla_ssa_tensor shape = *values;
  nabla_ssa_tensor out = nabla_ssa_tensor_empty(t, &shape, "f32");
  nabla_generic g = {.loops = 1};
  nabla_generic_add(&g, values, NULL);
  nabla_generic_add(&g, &out, NULL);
  nabla_generic_begin(t, &g);
  return nabla_generic_end(
      t, &g, nabla_emit_two(t, "subf", g.operands[0].element, offset, "f32"));
}

/* 256 values of f32 as a constant. */
static nabla_ssa_tensor table(nabla_template *t, const float values[CODES]) {
  int64_t count = CODES;
  nabla_ssa_tensor out = nabla_ssa_tensor_static("f32", 1, &count);
  out.value = ++t->emit.last;
  nabla_text_add(&t->text, "  %%v%u = arith.constant dense<[", out.value);
  for (int i = 0; i < CODES; i++)
    nabla_text_add(&t->text, "%s0x%08" PRIX32, i ? ", " : "",
                   nabla_bits_of_f32(values[i]));
  nabla_text_add(&t->text, "]> : %s\n", nabla_ssa_tensor_type(&out).data);
  return out;
}

/* Values between neighbours of the map; the last is above all. */
static nabla_ssa_tensor midpoints(nabla_template *t) {
  const float *map = nabla_dynamic8_map();
  float between[CODES];
  for (int i = 0; i + 1 < CODES; i++) between[i] = (map[i] + map[i + 1]) * 0.5f;
  between[CODES - 1] = nabla_f32_of_bits(NABLA_F32_INFINITY);
  return table(t, between);
}

/* How many midpoints are below a value, found bit by bit, as an i8. */
static nabla_ssa code_of(nabla_template *t, const nabla_ssa_tensor *limits,
                         nabla_ssa x) {
  nabla_ssa code = nabla_emit_index(t, 0);
  for (int64_t step = CODES / 2; step; step /= 2) {
    nabla_ssa next =
        nabla_emit_two(t, "addi", code, nabla_emit_index(t, step), "index");
    nabla_ssa place =
        nabla_emit_two(t, "subi", next, nabla_emit_index(t, 1), "index");
    nabla_ssa limit =
        k_op(&t->emit, "tensor.extract %%v%u[%%v%u] : %s", limits->value, place,
             nabla_ssa_tensor_type(limits).data);
    nabla_ssa above = nabla_emit_two(t, "cmpf ogt,", x, limit, "f32");
    code = nabla_emit_select(t, above, next, code, "index");
  }
  return k_op(&t->emit, "arith.index_cast %%v%u : index to i8", code);
}

/* x over its group's absmax: by a factor where that is normal. */
static nabla_ssa scaled(nabla_template *t, nabla_ssa x, nabla_ssa absmax) {
  nabla_ssa one = k_f32(&t->emit, NABLA_SCALAR, 1);
  nabla_ssa none = k_f32(&t->emit, NABLA_SCALAR, 0);
  nabla_ssa least = k_f32(&t->emit, NABLA_SCALAR, 0x1p-126);
  nabla_ssa factor = nabla_emit_two(t, "divf", one, absmax, "f32");
  nabla_ssa easy = nabla_emit_two(t, "cmpf oge,", absmax, least, "f32");
  nabla_ssa value =
      nabla_emit_select(t, easy, nabla_emit_two(t, "mulf", x, factor, "f32"),
                        nabla_emit_two(t, "divf", x, absmax, "f32"), "f32");
  nabla_ssa any = nabla_emit_two(t, "cmpf ogt,", absmax, none, "f32");
  return nabla_emit_select(t, any, value, none, "f32");
}

static nabla_ssa_tensor codes_of(nabla_template *t,
                                 const nabla_ssa_tensor *groups,
                                 const nabla_ssa_tensor *absmax) {
  const intptr_t group_of[] = {0};
  nabla_ssa_tensor limits = midpoints(t);
  nabla_ssa_tensor shape = *groups;
  nabla_ssa_tensor out = nabla_ssa_tensor_empty(t, &shape, "i8");
  nabla_generic g = {.loops = 2};
  nabla_generic_add(&g, absmax, group_of);
  nabla_generic_add(&g, groups, NULL);
  nabla_generic_add(&g, &out, NULL);
  nabla_generic_begin(t, &g);
  nabla_ssa x = scaled(t, g.operands[1].element, g.operands[0].element);
  return nabla_generic_end(t, &g, code_of(t, &limits, x));
}

static nabla_ssa_tensor as_f32(nabla_template *t,
                               const nabla_ssa_tensor *bits) {
  nabla_ssa_tensor shape = *bits;
  nabla_ssa_tensor out = nabla_ssa_tensor_empty(t, &shape, "f32");
  nabla_generic g = {.loops = 1};
  nabla_generic_add(&g, bits, NULL);
  nabla_generic_add(&g, &out, NULL);
  nabla_generic_begin(t, &g);
  return nabla_generic_end(t, &g,
                           k_op(&t->emit, "arith.bitcast %%v%u : i32 to f32",
                                g.operands[0].element));
}

bool nabla_quantize_dynamic8(nabla_template *t) {
  MlirType type = nabla_result_type(t->op, 0);
  nabla_implicit_component parts[NABLA_MAX_PARTS];
  nabla_implicit_components(type, parts);
  nabla_template_open(t);
  nabla_ssa_tensor in = nabla_template_operand(t, 0);
  in = nabla_ssa_tensor_convert(t, &in, nabla_element_named("f32"));
  nabla_ssa_tensor flat = nabla_ssa_tensor_flatten(t, &in);
  nabla_ssa offset = mean(t, &flat);
  flat = less(t, &flat, offset);
  nabla_ssa_tensor groups = nabla_quantize_blocks(
      t, &flat, parts[1].count, (int64_t)nabla_implicit_format(type).block);
  nabla_ssa_tensor most = nabla_quantize_most(t, &groups, false);
  nabla_ssa_tensor absmax = as_f32(t, &most);
  nabla_ssa_tensor codes = codes_of(t, &groups, &absmax);
  nabla_ssa_tensor whole = nabla_ssa_tensor_static("f32", 0, NULL);
  whole.value =
      k_op(&t->emit, "tensor.from_elements %%v%u : tensor<f32>", offset);
  nabla_ssa_tensor out[] = {nabla_quantize_cut(t, &codes, parts[0].count),
                            absmax, whole, table(t, nabla_dynamic8_map())};
  return nabla_quantize_pack(t, 4, out);
}
