/* See elements.h; and the ops that are one operation of arith, or a
 * formula. */
#include "transforms/lower/elements.h"

#include <mlir-c/BuiltinAttributes.h>
#include <stdio.h>
#include <string.h>

#include "dialect/verify/checks.h"
#include "lib/kernels/builder/k.h"
#include "transforms/lower/formula.h"
#include "transforms/lower/list.h"

nabla_ssa nabla_emit_two(nabla_template *t, const char *operation, nabla_ssa a,
                         nabla_ssa b, const char *type) {
  return k_op(&t->emit, "arith.%s %%v%u, %%v%u : %s", operation, a, b, type);
}

nabla_ssa nabla_emit_select(nabla_template *t, nabla_ssa condition,
                            nabla_ssa yes, nabla_ssa no, const char *type) {
  return k_op(&t->emit, "arith.select %%v%u, %%v%u, %%v%u : %s", condition, yes,
              no, type);
}

nabla_short_name nabla_template_name(const nabla_template *t) {
  nabla_short_name name = {{0}};
  MlirStringRef full = nabla_name(t->op);
  (void)snprintf(name.data, sizeof name.data, "%.*s", (int)full.length - 6,
                 full.data + 6);
  return name;
}

nabla_ssa nabla_emit_to_f64(nabla_template *t, const nabla_element *element,
                            nabla_ssa x) {
  if (!strcmp(element->work, "f64")) return x;
  return k_op(&t->emit, "arith.extf %%v%u : f32 to f64", x);
}

nabla_ssa nabla_emit_from_f64(nabla_template *t, const nabla_element *element,
                              nabla_ssa x) {
  if (!strcmp(element->work, "f64")) return x;
  return k_op(&t->emit, "arith.truncf %%v%u : f64 to f32", x);
}

/* Sizes that the first operand with a known one gives, the rest must agree. */
static nabla_ssa_tensor result_of(nabla_template *t,
                                  nabla_ssa_tensor *operands) {
  nabla_ssa_tensor shape = nabla_template_result(t);
  for (intptr_t i = 1; i < t->operand_count; i++)
    for (intptr_t d = 0; d < shape.rank; d++)
      nabla_operands_agree(t, &operands[0], d, &operands[i], d);
  for (intptr_t d = 0; d < shape.rank; d++)
    if (nabla_is_dynamic(shape.dims[d]))
      shape.sizes[d] = nabla_ssa_tensor_size(t, &operands[0], d);
  return nabla_ssa_tensor_empty(t, &shape, shape.element->name);
}

nabla_ssa_tensor nabla_elements_emit(nabla_template *t,
                                     nabla_element_function *compute) {
  nabla_ssa_tensor operands[NABLA_GENERIC_MAX];
  nabla_ssa x[NABLA_GENERIC_MAX];
  for (intptr_t i = 0; i < t->operand_count; i++)
    operands[i] = nabla_template_operand(t, i);
  nabla_ssa_tensor out = result_of(t, operands);
  nabla_generic g = {.loops = out.rank};
  const nabla_element *element = out.element;
  for (intptr_t i = 0; i < t->operand_count; i++) {
    nabla_generic_add(&g, &operands[i], NULL);
    element =
        operands[i].element; /* the last's: that of select's first is i1 */
  }
  nabla_generic_add(&g, &out, NULL);
  nabla_generic_begin(t, &g);
  for (intptr_t i = 0; i < t->operand_count; i++)
    x[i] = nabla_generic_load(t, &g, i);
  nabla_ssa y = compute(t, element, x);
  return nabla_generic_end(t, &g, nabla_element_store(t, out.element, y));
}

bool nabla_lower_elements(nabla_template *t, nabla_element_function *compute) {
  nabla_template_open(t);
  nabla_ssa_tensor out = nabla_elements_emit(t, compute);
  return nabla_template_close(t, out.value);
}

/* Ops of two operands that are one of arith. */
static const struct {
  const char *name, *of_floats, *of_signed, *of_unsigned;
} pairs[] = {
    {"sub", "subf", "subi", "subi"},
    {"maximum", "maximumf", "maxsi", "maxui"},
    {"minimum", "minimumf", "minsi", "minui"},
    {"and", NULL, "andi", "andi"},
    {"or", NULL, "ori", "ori"},
    {"xor", NULL, "xori", "xori"},
};

/* arith-expand leaves it open which of 0 and -0 is the larger one. Of equal
 * floats the bits differ in the sign of zeros alone: both must have it for the
 * maximum, one for the minimum. */
nabla_ssa nabla_emit_order_zeros(nabla_template *t, const nabla_element *in,
                                 const nabla_ssa x[2], bool is_max,
                                 nabla_ssa y) {
  const char *bits = strcmp(in->work, "f64") != 0 ? "i32" : "i64";
  nabla_ssa both[2];
  for (int i = 0; i < 2; i++)
    both[i] =
        k_op(&t->emit, "arith.bitcast %%v%u : %s to %s", x[i], in->work, bits);
  nabla_ssa joined =
      nabla_emit_two(t, is_max ? "andi" : "ori", both[0], both[1], bits);
  joined =
      k_op(&t->emit, "arith.bitcast %%v%u : %s to %s", joined, bits, in->work);
  nabla_ssa equal = nabla_emit_two(t, "cmpf oeq,", x[0], x[1], in->work);
  return nabla_emit_select(t, equal, joined, y, in->work);
}

static nabla_ssa pair(nabla_template *t, const nabla_element *in,
                      const nabla_ssa *x) {
  nabla_short_name name = nabla_template_name(t);
  size_t i = 0;
  while (strcmp(pairs[i].name, name.data) != 0) i++;
  const char *operation = in->is_float      ? pairs[i].of_floats
                          : in->is_unsigned ? pairs[i].of_unsigned
                                            : pairs[i].of_signed;
  nabla_ssa y = nabla_emit_two(t, operation, x[0], x[1], in->work);
  bool is_max = !strcmp(name.data, "maximum");
  if (in->is_float && (is_max || !strcmp(name.data, "minimum")))
    y = nabla_emit_order_zeros(t, in, x, is_max, y);
  return y;
}
bool nabla_lower_pair(nabla_template *t) {
  return nabla_lower_elements(t, pair);
}

static nabla_ssa by_formula(nabla_template *t, const nabla_element *in,
                            const nabla_ssa *x, const char *name) {
  nabla_ssa wide[2];
  for (intptr_t i = 0; i < t->operand_count; i++)
    wide[i] = nabla_emit_to_f64(t, in, x[i]);
  nabla_ssa y = nabla_formula_emit(t, nabla_formula_find(name), wide);
  return nabla_emit_from_f64(t, in, y);
}

static nabla_ssa formula(nabla_template *t, const nabla_element *in,
                         const nabla_ssa *x) {
  return by_formula(t, in, x, nabla_template_name(t).data);
}
bool nabla_lower_formula(nabla_template *t) {
  return nabla_lower_elements(t, formula);
}
bool nabla_lower_pow(nabla_template *t) {
  return nabla_lower_elements(t, formula);
}

static nabla_ssa gelu(nabla_template *t, const nabla_element *in,
                      const nabla_ssa *x) {
  enum { TANH = 1 }; /* of Nabla_GeluKind */
  int64_t kind = nabla_op_integer(t->op, "approximate", 0);
  return by_formula(t, in, x, kind == TANH ? "gelu_tanh" : "gelu");
}
bool nabla_lower_gelu(nabla_template *t) {
  return nabla_lower_elements(t, gelu);
}

static nabla_ssa square_root(nabla_template *t, const nabla_element *in,
                             const nabla_ssa *x) {
  return k_op(&t->emit, "math.sqrt %%v%u : %s", x[0], in->work);
}
bool nabla_lower_sqrt(nabla_template *t) {
  return nabla_lower_elements(t, square_root);
}

static nabla_ssa zero_of(nabla_template *t, const nabla_element *in) {
  return k_op(&t->emit, "arith.constant %s : %s", in->is_float ? "0.0" : "0",
              in->work);
}

static nabla_ssa negate(nabla_template *t, const nabla_element *in,
                        const nabla_ssa *x) {
  if (in->is_float)
    return k_op(&t->emit, "arith.negf %%v%u : %s", x[0], in->work);
  return nabla_emit_two(t, "subi", zero_of(t, in), x[0], in->work);
}
bool nabla_lower_neg(nabla_template *t) {
  return nabla_lower_elements(t, negate);
}

static nabla_ssa absolute(nabla_template *t, const nabla_element *in,
                          const nabla_ssa *x) {
  if (in->is_float)
    return k_op(&t->emit, "math.absf %%v%u : %s", x[0], in->work);
  return nabla_emit_two(t, "maxsi", x[0], negate(t, in, x), in->work);
}
bool nabla_lower_abs(nabla_template *t) {
  return nabla_lower_elements(t, absolute);
}

static nabla_ssa sign(nabla_template *t, const nabla_element *in,
                      const nabla_ssa *x) {
  bool is_float = in->is_float;
  nabla_ssa zero = zero_of(t, in);
  nabla_ssa one = k_op(&t->emit, "arith.constant %s : %s",
                       is_float ? "1.0" : "1", in->work);
  nabla_ssa less = k_op(&t->emit, "arith.constant %s : %s",
                        is_float ? "-1.0" : "-1", in->work);
  nabla_ssa above = nabla_emit_two(t, is_float ? "cmpf ogt," : "cmpi sgt,",
                                   x[0], zero, in->work);
  nabla_ssa below = nabla_emit_two(t, is_float ? "cmpf olt," : "cmpi slt,",
                                   x[0], zero, in->work);
  nabla_ssa rest = nabla_emit_select(t, below, less, x[0], in->work);
  return nabla_emit_select(t, above, one, rest, in->work);
}
bool nabla_lower_sign(nabla_template *t) {
  return nabla_lower_elements(t, sign);
}

static nabla_ssa invert(nabla_template *t, const nabla_element *in,
                        const nabla_ssa *x) {
  nabla_ssa ones = k_op(&t->emit, "arith.constant -1 : %s", in->work);
  return nabla_emit_two(t, "xori", x[0], ones, in->work);
}
bool nabla_lower_not(nabla_template *t) {
  return nabla_lower_elements(t, invert);
}

static nabla_ssa is_nan(nabla_template *t, const nabla_element *in,
                        const nabla_ssa *x) {
  return nabla_emit_two(t, "cmpf uno,", x[0], x[0], in->work);
}
bool nabla_lower_is_nan(nabla_template *t) {
  return nabla_lower_elements(t, is_nan);
}

/* x - x is NaN where x is not finite. */
static nabla_ssa is_inf(nabla_template *t, const nabla_element *in,
                        const nabla_ssa *x) {
  nabla_ssa rest = nabla_emit_two(t, "subf", x[0], x[0], in->work);
  nabla_ssa ends = nabla_emit_two(t, "cmpf uno,", rest, rest, in->work);
  nabla_ssa real = nabla_emit_two(t, "cmpf ord,", x[0], x[0], in->work);
  return nabla_emit_two(t, "andi", ends, real, "i1");
}
bool nabla_lower_is_inf(nabla_template *t) {
  return nabla_lower_elements(t, is_inf);
}

static nabla_ssa compare(nabla_template *t, const nabla_element *in,
                         const nabla_ssa *x) {
  static const struct {
    const char *of_floats, *of_signed, *of_unsigned;
  } kinds[] = {/* in the order of Nabla_CompareKind */
               {"cmpf oeq,", "cmpi eq,", "cmpi eq,"},
               {"cmpf une,", "cmpi ne,", "cmpi ne,"},
               {"cmpf olt,", "cmpi slt,", "cmpi ult,"},
               {"cmpf ole,", "cmpi sle,", "cmpi ule,"},
               {"cmpf ogt,", "cmpi sgt,", "cmpi ugt,"},
               {"cmpf oge,", "cmpi sge,", "cmpi uge,"}};
  int64_t kind = nabla_op_integer(t->op, "kind", 0);
  const char *operation = in->is_float      ? kinds[kind].of_floats
                          : in->is_unsigned ? kinds[kind].of_unsigned
                                            : kinds[kind].of_signed;
  return nabla_emit_two(t, operation, x[0], x[1], in->work);
}
bool nabla_lower_compare(nabla_template *t) {
  return nabla_lower_elements(t, compare);
}

static nabla_ssa select_one(nabla_template *t, const nabla_element *in,
                            const nabla_ssa *x) {
  return nabla_emit_select(t, x[0], x[1], x[2], in->work);
}
bool nabla_lower_select(nabla_template *t) {
  return nabla_lower_elements(t, select_one);
}
