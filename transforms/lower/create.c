/* Creation: full, iota, tri, uniform, normal. */
#include <assert.h>
#include <mlir-c/BuiltinAttributes.h>
#include <stdio.h>
#include <string.h>

#include "dialect/verify/checks.h"
#include "lib/kernels/builder/k.h"
#include "transforms/lower/elements.h"
#include "transforms/lower/formula.h"
#include "transforms/lower/list.h"

/* An empty result whose sizes are operands from `first` on. */
static nabla_ssa_tensor open_result(nabla_template *t, intptr_t first) {
  nabla_template_open(t);
  nabla_ssa_tensor shape = nabla_template_result(t);
  nabla_template_take_sizes(t, first, &shape);
  return nabla_ssa_tensor_empty(t, &shape, shape.element->name);
}

static bool close_result(nabla_template *t, nabla_generic *g,
                         const nabla_ssa_tensor *out, nabla_ssa value) {
  value = nabla_element_store(t, out->element, value);
  return nabla_template_close(t, nabla_generic_end(t, g, value).value);
}

static void begin(nabla_template *t, nabla_generic *g,
                  const nabla_ssa_tensor *out) {
  g->loops = out->rank;
  nabla_generic_add(g, out, NULL);
  nabla_generic_begin(t, g);
}

bool nabla_lower_full(nabla_template *t) {
  nabla_ssa_tensor out = open_result(t, 0);
  nabla_generic g = {0};
  nabla_ssa value = ++t->emit.last;
  nabla_text_add(&t->text, "  %%v%u = arith.constant ", value);
  MlirAttribute attribute =
      mlirOperationGetAttributeByName(t->op, nabla_ref("value"));
  bool is_plain = !out.element->is_unsigned || !strcmp(out.element->name, "i1");
  if (is_plain)
    nabla_text_add_attribute(&t->text, attribute);
  else /* arith knows no ui8 */
    nabla_text_add(&t->text, "%d : i8",
                   (int)(int8_t)mlirIntegerAttrGetValueUInt(attribute));
  nabla_text_add(&t->text, "\n");
  begin(t, &g, &out);
  if (!is_plain) value = nabla_element_store(t, out.element, value);
  return nabla_template_close(t, nabla_generic_end(t, &g, value).value);
}

static nabla_ssa index_as_i64(nabla_template *t, intptr_t loop) {
  nabla_ssa index = nabla_generic_index(t, loop);
  return k_op(&t->emit, "arith.index_cast %%v%u : index to i64", index);
}

bool nabla_lower_iota(nabla_template *t) {
  nabla_ssa_tensor out = open_result(t, 0);
  nabla_generic g = {0};
  begin(t, &g, &out);
  nabla_ssa i = index_as_i64(t, (intptr_t)nabla_op_integer(t->op, "dim", 0));
  const char *work = out.element->work;
  if (out.element->is_float)
    i = nabla_emit_integer_to_float(t, nabla_element_named("i64"), out.element,
                                    i);
  else if (strcmp(work, "i64") != 0)
    i = k_op(&t->emit, "arith.trunci %%v%u : i64 to %s", i, work);
  return close_result(t, &g, &out, i);
}

bool nabla_lower_tri(nabla_template *t) {
  nabla_ssa_tensor out = open_result(t, 0);
  nabla_generic g = {0};
  const char *one = out.element->is_float ? "1.0" : "1";
  const char *none = out.element->is_float ? "0.0" : "0";
  bool is_bool = !strcmp(out.element->name, "i1");
  begin(t, &g, &out);
  nabla_ssa row = index_as_i64(t, out.rank - 2);
  nabla_ssa column = index_as_i64(t, out.rank - 1);
  nabla_ssa behind = nabla_emit_two(t, "subi", column, row, "i64");
  nabla_ssa last =
      k_i64(&t->emit, (uint64_t)nabla_op_integer(t->op, "diagonal", 0));
  nabla_ssa inside = nabla_emit_two(t, "cmpi sle,", behind, last, "i64");
  if (is_bool) return close_result(t, &g, &out, inside);
  nabla_ssa yes =
      k_op(&t->emit, "arith.constant %s : %s", one, out.element->work);
  nabla_ssa no =
      k_op(&t->emit, "arith.constant %s : %s", none, out.element->work);
  nabla_ssa value = nabla_emit_select(t, inside, yes, no, out.element->work);
  return close_result(t, &g, &out, value);
}

/* The index of the element in row-major order, within dimensions from `first`
 * on. */
static nabla_ssa flat_index(nabla_template *t, const nabla_ssa_tensor *out,
                            intptr_t first, const nabla_ssa *sizes) {
  nabla_ssa at = k_i64(&t->emit, 0);
  assert(first >= 0);
  for (intptr_t i = first; i < out->rank; i++) {
    at = nabla_emit_two(t, "muli", at, sizes[i], "i64");
    at = nabla_emit_two(t, "addi", at, index_as_i64(t, i), "i64");
  }
  return at;
}

static void halves(nabla_template *t, nabla_ssa x, nabla_ssa out[2]) {
  nabla_ssa upper = nabla_emit_two(t, "shrui", x, k_i64(&t->emit, 32), "i64");
  out[0] = k_op(&t->emit, "arith.trunci %%v%u : i64 to i32", x);
  out[1] = k_op(&t->emit, "arith.trunci %%v%u : i64 to i32", upper);
}

/* Low and high half of x times a constant. */
static void multiply(nabla_template *t, nabla_ssa x, uint64_t factor,
                     nabla_ssa out[2]) {
  nabla_ssa wide = k_op(&t->emit, "arith.extui %%v%u : i32 to i64", x);
  halves(t, k_multiply(&t->emit, wide, factor), out);
}

/* Philox 4x32-10 (Salmon et al., 2011) of a counter and a key, i64. */
static void philox(nabla_template *t, nabla_ssa counter, nabla_ssa key,
                   nabla_ssa out[4]) {
  nabla_ssa k[2], a[2], b[2];
  halves(t, counter, out);
  halves(t, key, k);
  out[2] = out[3] = k_i32(&t->emit, NABLA_SCALAR, 0);
  for (int round = 0; round < 10; round++) {
    multiply(t, out[0], 0xD2511F53u, a);
    multiply(t, out[2], 0xCD9E8D57u, b);
    nabla_ssa first = nabla_emit_two(t, "xori", b[1], out[1], "i32");
    nabla_ssa third = nabla_emit_two(t, "xori", a[1], out[3], "i32");
    out[0] = nabla_emit_two(t, "xori", first, k[0], "i32");
    out[1] = b[0];
    out[2] = nabla_emit_two(t, "xori", third, k[1], "i32");
    out[3] = a[0];
    nabla_ssa step = k_i32(&t->emit, NABLA_SCALAR, 0x9E3779B9u);
    k[0] = nabla_emit_two(t, "addi", k[0], step, "i32");
    step = k_i32(&t->emit, NABLA_SCALAR, 0xBB67AE85u);
    k[1] = nabla_emit_two(t, "addi", k[1], step, "i32");
  }
}

/* The upper `bits` of 64 as an f64 in [0, 1), plus `add` of their last place.
 */
static nabla_ssa fraction(nabla_template *t, nabla_ssa high, nabla_ssa low,
                          unsigned bits, uint64_t add) {
  nabla_ssa x = k_op(&t->emit, "arith.extui %%v%u : i32 to i64", high);
  nabla_ssa y = k_op(&t->emit, "arith.extui %%v%u : i32 to i64", low);
  x = nabla_emit_two(t, "shli", x, k_i64(&t->emit, 32), "i64");
  x = nabla_emit_two(t, "ori", x, y, "i64");
  x = nabla_emit_two(t, "shrui", x, k_i64(&t->emit, 64 - bits), "i64");
  x = k_add_constant(&t->emit, x, add);
  x = k_op(&t->emit, "arith.sitofp %%v%u : i64 to f64", x);
  nabla_ssa unit =
      k_op(&t->emit, "arith.constant 0x%03X0000000000000 : f64", 1023u - bits);
  return nabla_emit_two(t, "mulf", x, unit, "f64");
}

static unsigned digits_of(const nabla_element *element) {
  if (!strcmp(element->name, "f64")) return 53;
  if (!strcmp(element->name, "f32")) return 24;
  return element->half == NABLA_DTYPE_F16 ? 11 : 8;
}

static bool lower_random(nabla_template *t, bool is_normal) {
  nabla_ssa_tensor out = open_result(t, 1);
  nabla_ssa sizes[NABLA_MAX_RANK], words[4];
  for (intptr_t i = 0; i < out.rank; i++)
    sizes[i] = k_op(&t->emit, "arith.index_cast %%v%u : index to i64",
                    nabla_ssa_tensor_size(t, &out, i));
  nabla_ssa_tensor seeds = nabla_template_operand(t, 0);
  nabla_ssa seed = 0;
  nabla_generic g = {0};
  if (seeds.rank == 0)
    seed = k_op(&t->emit, "tensor.extract %%v1[] : tensor<i64>");
  for (intptr_t i = 0; i < seeds.rank; i++) {
    if (nabla_is_dynamic(out.dims[i])) /* the result stays as it is written */
      nabla_tensors_agree(t, &seeds, i, &out, i);
    else
      nabla_operands_agree(t, &seeds, i, &out, i);
  }
  if (seeds.rank > 0) nabla_generic_add(&g, &seeds, NULL);
  begin(t, &g, &out);
  if (seeds.rank > 0) seed = g.operands[0].element;
  philox(t, flat_index(t, &out, seeds.rank, sizes), seed, words);
  unsigned bits = is_normal ? 53 : digits_of(out.element);
  nabla_ssa x = fraction(t, words[0], words[1], bits, is_normal);
  if (is_normal) {
    nabla_ssa uniform[] = {x, fraction(t, words[2], words[3], bits, 0)};
    x = nabla_formula_emit(t, nabla_formula_find("normal_of"), uniform);
  }
  return close_result(t, &g, &out, nabla_emit_from_f64(t, out.element, x));
}

bool nabla_lower_uniform(nabla_template *t) { return lower_random(t, false); }
bool nabla_lower_normal(nabla_template *t) { return lower_random(t, true); }
