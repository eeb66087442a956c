/* See formula_ops.h. */
#include "transforms/formula/formula_ops.h"

#include <stdio.h>

#include "dialect/ops.h"

typedef struct maker {
  const nabla_builder *builder;
  nabla_built_shape shape; /* of all arguments */
  MlirType element;
} maker;

static MlirValue value_of(nabla_formula_value x) {
  return (MlirValue){x.pointer};
}

static nabla_formula_value of_value(MlirValue value) {
  return (nabla_formula_value){.pointer = value.ptr};
}

static MlirValue constant(const maker *m, double number) {
  return nabla_build_full(m->builder, number, &m->shape, m->element);
}

static nabla_formula_value on_number(void *self, double number) {
  return of_value(constant(self, number));
}

static nabla_formula_value on_negate(void *self, nabla_formula_value x) {
  const maker *m = self;
  return of_value(nabla_build_one(m->builder, "neg", value_of(x)));
}

static nabla_formula_value on_arithmetic(void *self, char sign,
                                         const nabla_formula_value x[2]) {
  const maker *m = self;
  return of_value(nabla_build_two(m->builder, nabla_formula_arithmetic_op(sign),
                                  value_of(x[0]), value_of(x[1])));
}

static MlirValue compare(const maker *m, nabla_formula_comparison how,
                         MlirValue x, MlirValue y) {
  return nabla_build_compare(m->builder, nabla_formula_comparison_kind(how), x,
                             y);
}

static nabla_formula_value on_compare(void *self, nabla_formula_comparison how,
                                      const nabla_formula_value x[2]) {
  return of_value(compare(self, how, value_of(x[0]), value_of(x[1])));
}

static nabla_formula_value on_select(void *self,
                                     const nabla_formula_value x[3]) {
  const maker *m = self;
  return of_value(nabla_build_select(m->builder, value_of(x[0]), value_of(x[1]),
                                     value_of(x[2])));
}

/* Horner's rule. */
static MlirValue polynomial(const maker *m, int count,
                            const nabla_formula_value *x) {
  const nabla_builder *b = m->builder;
  MlirValue sum = value_of(x[count - 1]);
  for (int i = count - 2; i > 0; i--)
    sum = nabla_build_two(b, "add",
                          nabla_build_two(b, "mul", sum, value_of(x[0])),
                          value_of(x[i]));
  return sum;
}

/* -|size| where sign < 0, and where it is -0: 1 / sign < 0. */
static MlirValue copysign_of(const maker *m, MlirValue size, MlirValue sign) {
  const nabla_builder *b = m->builder;
  MlirValue zero = constant(m, 0);
  MlirValue above = nabla_build_one(b, "abs", size);
  MlirValue below = nabla_build_one(b, "neg", above);
  MlirValue inverse = nabla_build_two(b, "div", constant(m, 1), sign);
  MlirValue of_zero = nabla_build_select(
      b, compare(m, NABLA_FORMULA_LT, inverse, zero), below, above);
  return nabla_build_select(b, compare(m, NABLA_FORMULA_LT, sign, zero), below,
                            of_zero);
}

static nabla_formula_value on_word(void *self, nabla_formula_word word,
                                   int count, const nabla_formula_value *x) {
  const maker *m = self;
  switch (word) {
    case NABLA_WORD_poly:
      return of_value(polynomial(m, count, x));
    case NABLA_WORD_copysign:
      return of_value(copysign_of(m, value_of(x[0]), value_of(x[1])));
    case NABLA_WORD_abs:
      return of_value(nabla_build_one(m->builder, "abs", value_of(x[0])));
    case NABLA_WORD_sqrt:
      return of_value(nabla_build_one(m->builder, "sqrt", value_of(x[0])));
    case NABLA_WORD_rint:
      return of_value(nabla_build_one(m->builder, "round", value_of(x[0])));
    default: /* refused before */
      return of_value((MlirValue){NULL});
  }
}

/* Is there an operation of this name that works element by element? */
static bool is_operation(const nabla_formula *callee) {
  char name[48];
  (void)snprintf(name, sizeof name, "nabla.%s", callee->name);
  const nabla_op_row *row = nabla_op_named(nabla_ref(name));
  return row && row->batch == NABLA_BATCH_elementwise;
}

static bool on_call(void *self, const nabla_formula *callee, int count,
                    const nabla_formula_value *x, nabla_formula_value *out) {
  const maker *m = self;
  if (!is_operation(callee)) return false;
  MlirValue first = value_of(x[0]);
  *out = of_value(count == 1 ? nabla_build_one(m->builder, callee->name, first)
                             : nabla_build_two(m->builder, callee->name, first,
                                               value_of(x[1])));
  return true;
}

/* ---- what cannot be said ---- */

typedef struct checker {
  const nabla_formula *formula;
  nabla_formula_refusal *refusal;
} checker;

static const nabla_formula_value nothing;

static nabla_formula_value skip_number(void *self, double number) {
  (void)self, (void)number;
  return nothing;
}
static nabla_formula_value skip_negate(void *self, nabla_formula_value x) {
  (void)self;
  return x;
}
static nabla_formula_value skip_arithmetic(void *self, char sign,
                                           const nabla_formula_value x[2]) {
  (void)self, (void)sign;
  return x[0];
}
static nabla_formula_value skip_compare(void *self,
                                        nabla_formula_comparison how,
                                        const nabla_formula_value x[2]) {
  (void)self, (void)how;
  return x[0];
}
static nabla_formula_value skip_select(void *self,
                                       const nabla_formula_value x[3]) {
  (void)self;
  return x[0];
}

/* The first word that is refused is the one that is reported. */
static nabla_formula_value check_word(void *self, nabla_formula_word word,
                                      int count, const nabla_formula_value *x) {
  const checker *c = self;
  const char *why = nabla_formula_word_refusal(word);
  (void)count, (void)x;
  if (*why && !*c->refusal->text)
    (void)snprintf(c->refusal->text, sizeof c->refusal->text,
                   "the formula of %s uses '%s', which %s: no operation of the "
                   "dialect does",
                   c->formula->name, nabla_formula_word_name(word), why);
  return nothing;
}

static bool check_call(void *self, const nabla_formula *callee, int count,
                       const nabla_formula_value *x, nabla_formula_value *out) {
  (void)self, (void)count, (void)x;
  *out = nothing;
  return is_operation(callee);
}

static bool can_say(const nabla_formula *formula,
                    nabla_formula_refusal *refusal) {
  static const nabla_formula_emitter emitter = {
      .number = skip_number,
      .negate = skip_negate,
      .arithmetic = skip_arithmetic,
      .compare = skip_compare,
      .select = skip_select,
      .word = check_word,
      .call = check_call,
  };
  const nabla_formula_value x[NABLA_FORMULA_MAX_NAMES] = {{0}};
  checker c = {formula, refusal};
  *refusal->text = 0;
  (void)nabla_formula_evaluate(formula, &emitter, &c, x);
  return !*refusal->text;
}

MlirValue nabla_formula_build(const nabla_builder *b,
                              const nabla_formula *formula,
                              const MlirValue *arguments,
                              nabla_formula_refusal *refusal) {
  static const nabla_formula_emitter emitter = {
      .number = on_number,
      .negate = on_negate,
      .arithmetic = on_arithmetic,
      .compare = on_compare,
      .select = on_select,
      .word = on_word,
      .call = on_call,
  };
  nabla_formula_value x[NABLA_FORMULA_MAX_NAMES] = {{0}};
  if (!can_say(formula, refusal)) return (MlirValue){NULL};
  for (int i = 0; i < nabla_formula_argument_count(formula); i++) {
    if (mlirValueIsNull(arguments[i])) return arguments[i];
    x[i] = of_value(arguments[i]);
  }
  maker m = {b, nabla_build_shape_of(b, arguments[0]),
             nabla_array_element(mlirValueGetType(arguments[0]))};
  return value_of(nabla_formula_evaluate(formula, &emitter, &m, x));
}
