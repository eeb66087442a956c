/* See formula.h. */
#include "transforms/lower/formula.h"

#include <assert.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/kernels/builder/k.h"
#include "transforms/lower/elements.h"
#include "transforms/lower/formula_far.h"

static const nabla_formula formulas[] = {
#define FORMULA(id, arguments, text) {#id, arguments, text},
#include "transforms/lower/formulas.def"
#undef FORMULA
};

const nabla_formula *nabla_formula_find(const char *name) {
  for (size_t i = 0; i < sizeof formulas / sizeof *formulas; i++)
    if (!strcmp(formulas[i].name, name)) return &formulas[i];
  return NULL;
}

#define MAX_NAMES     24
#define MAX_ARGUMENTS 24
#define MAX_NAME      24

typedef struct parser {
  nabla_template *t;
  const char *at;
  int count;
  struct {
    char name[MAX_NAME];
    nabla_ssa value;
  } names[MAX_NAMES];
} parser;

static nabla_ssa choice(parser *p);

static bool take(parser *p, const char *word) {
  while (*p->at == ' ') p->at++;
  size_t length = strlen(word);
  if (strncmp(p->at, word, length) != 0) return false;
  p->at += length;
  return true;
}

/* The table is ours, and a test compiles each row. */
static void expect(parser *p, const char *word) {
  bool found = take(p, word);
  assert(found);
  (void)found;
}

static bool take_name(parser *p, char out[MAX_NAME]) {
  while (*p->at == ' ') p->at++;
  size_t length = 0;
  while (isalnum((unsigned char)p->at[length]) || p->at[length] == '_')
    length++;
  assert(length < MAX_NAME);
  memcpy(out, p->at, length);
  out[length] = 0;
  p->at += length;
  return length > 0;
}

static nabla_ssa number(nabla_template *t, double value) {
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  return k_op(&t->emit, "arith.constant 0x%016llX : f64",
              (unsigned long long)bits);
}

static nabla_ssa bits_of(nabla_template *t, nabla_ssa x) {
  return k_op(&t->emit, "arith.bitcast %%v%u : f64 to i64", x);
}

static nabla_ssa of_bits(nabla_template *t, nabla_ssa x) {
  return k_op(&t->emit, "arith.bitcast %%v%u : i64 to f64", x);
}

static nabla_ssa with_bits(nabla_template *t, nabla_ssa x, const char *what,
                           uint64_t mask) {
  return nabla_emit_two(t, what, x, k_i64(&t->emit, mask), "i64");
}

static nabla_ssa emit_abs(nabla_template *t, const nabla_ssa *x) {
  return of_bits(t, with_bits(t, bits_of(t, x[0]), "andi", UINT64_MAX >> 1));
}

static nabla_ssa emit_sqrt(nabla_template *t, const nabla_ssa *x) {
  return k_op(&t->emit, "math.sqrt %%v%u : f64", x[0]);
}

/* A choice, not bits put together: LLVM would make them its copysign, whose
 * sign it rounds to f16 where the result is f16, and f64 to f16 is a function
 * of a library that compiled code does not have. */
nabla_ssa nabla_emit_copysign(nabla_template *t, nabla_ssa size,
                              nabla_ssa sign) {
  nabla_ssa zero = k_i64(&t->emit, 0);
  nabla_ssa below =
      nabla_emit_two(t, "cmpi slt,", bits_of(t, sign), zero, "i64");
  nabla_ssa above = emit_abs(t, &size);
  nabla_ssa minus = k_op(&t->emit, "arith.negf %%v%u : f64", above);
  return k_op(&t->emit, "arith.select %%v%u, %%v%u, %%v%u : f64", below, minus,
              above);
}

static nabla_ssa emit_copysign(nabla_template *t, const nabla_ssa *x) {
  return nabla_emit_copysign(t, x[0], x[1]);
}

/* Adding 1.5 2^52 leaves no bits behind the point. */
static nabla_ssa emit_rint(nabla_template *t, const nabla_ssa *x) {
  nabla_ssa magic = number(t, 0x1.8p52);
  return nabla_emit_two(
      t, "subf", nabla_emit_two(t, "addf", x[0], magic, "f64"), magic, "f64");
}

static nabla_ssa power_of_two(nabla_template *t, nabla_ssa exponent) {
  nabla_ssa bits = with_bits(t, exponent, "addi", 1023);
  return of_bits(t, with_bits(t, bits, "shli", 52));
}

/* In two steps, since 2^n may be out of range while the product is not; n of
 * what is not finite is whatever, but in range. */
static nabla_ssa emit_scale(nabla_template *t, const nabla_ssa *x) {
  nabla_ssa n = nabla_emit_two(t, "maxnumf", x[1], number(t, -2000), "f64");
  n = nabla_emit_two(t, "minnumf", n, number(t, 2000), "f64");
  n = k_op(&t->emit, "arith.fptosi %%v%u : f64 to i64", n);
  nabla_ssa half = with_bits(t, n, "shrsi", 1);
  nabla_ssa rest = nabla_emit_two(t, "subi", n, half, "i64");
  nabla_ssa y = nabla_emit_two(t, "mulf", x[0], power_of_two(t, half), "f64");
  return nabla_emit_two(t, "mulf", y, power_of_two(t, rest), "f64");
}

static nabla_ssa emit_exponent(nabla_template *t, const nabla_ssa *x) {
  nabla_ssa bits = with_bits(t, bits_of(t, x[0]), "shrui", 52);
  bits = with_bits(t, bits, "subi", 1023);
  return k_op(&t->emit, "arith.sitofp %%v%u : i64 to f64", bits);
}

static nabla_ssa emit_mantissa(nabla_template *t, const nabla_ssa *x) {
  nabla_ssa bits =
      with_bits(t, bits_of(t, x[0]), "andi", (UINT64_C(1) << 52) - 1);
  return of_bits(t, with_bits(t, bits, "ori", UINT64_C(1023) << 52));
}

static nabla_ssa emit_head(nabla_template *t, const nabla_ssa *x) {
  return of_bits(t, with_bits(t, bits_of(t, x[0]), "andi", UINT64_MAX << 27));
}

static const struct {
  const char *name;
  nabla_ssa (*emit)(nabla_template *t, const nabla_ssa *x);
} builtins[] = {
    {"abs", emit_abs},
    {"sqrt", emit_sqrt},
    {"copysign", emit_copysign},
    {"rint", emit_rint},
    {"scale", emit_scale},
    {"exponent", emit_exponent},
    {"mantissa", emit_mantissa},
    {"head", emit_head},
    {"far_turns", nabla_emit_far_turns},
    {"far_rest", nabla_emit_far_rest},
};

/* Horner's rule. */
static nabla_ssa polynomial(nabla_template *t, const nabla_ssa *x, int count) {
  nabla_ssa sum = x[count - 1];
  for (int i = count - 2; i > 0; i--)
    sum = nabla_emit_two(t, "addf", nabla_emit_two(t, "mulf", sum, x[0], "f64"),
                         x[i], "f64");
  return sum;
}

static nabla_ssa call(parser *p, const char *name) {
  nabla_ssa x[MAX_ARGUMENTS];
  int count = 0;
  do {
    assert(count < MAX_ARGUMENTS);
    x[count++] = choice(p);
  } while (take(p, ","));
  expect(p, ")");
  if (!strcmp(name, "poly")) return polynomial(p->t, x, count);
  for (size_t i = 0; i < sizeof builtins / sizeof *builtins; i++)
    if (!strcmp(name, builtins[i].name)) return builtins[i].emit(p->t, x);
  const nabla_formula *formula = nabla_formula_find(name);
  assert(formula);
  return nabla_formula_emit(p->t, formula, x);
}

static nabla_ssa factor(parser *p) {
  char name[MAX_NAME];
  if (take(p, "(")) {
    nabla_ssa inside = choice(p);
    expect(p, ")");
    return inside;
  }
  if (take(p, "-"))
    return k_op(&p->t->emit, "arith.negf %%v%u : f64", factor(p));
  if (isdigit((unsigned char)*p->at)) {
    char *end;
    double value = strtod(p->at, &end);
    p->at = end;
    return number(p->t, value);
  }
  bool named = take_name(p, name);
  assert(named);
  (void)named;
  if (take(p, "(")) return call(p, name);
  if (!strcmp(name, "inf")) return number(p->t, (double)__builtin_inff());
  if (!strcmp(name, "nan")) return number(p->t, (double)__builtin_nanf(""));
  int i = p->count - 1;
  while (i > 0 && strcmp(p->names[i].name, name) != 0) i--;
  assert(i >= 0 && !strcmp(p->names[i].name, name));
  return p->names[i].value;
}

static nabla_ssa product(parser *p) {
  nabla_ssa left = factor(p);
  for (;;) {
    const char *operation = take(p, "*") ? "mulf" : take(p, "/") ? "divf" : 0;
    if (!operation) return left;
    left = nabla_emit_two(p->t, operation, left, factor(p), "f64");
  }
}

static nabla_ssa sum(parser *p) {
  nabla_ssa left = product(p);
  for (;;) {
    const char *operation = take(p, "+") ? "addf" : take(p, "-") ? "subf" : 0;
    if (!operation) return left;
    left = nabla_emit_two(p->t, operation, left, product(p), "f64");
  }
}

static nabla_ssa choice(parser *p) {
  static const struct {
    const char *sign, *operation;
  } signs[] = {{"<=", "cmpf ole,"}, {">=", "cmpf oge,"}, {"==", "cmpf oeq,"},
               {"!=", "cmpf une,"}, {"<", "cmpf olt,"},  {">", "cmpf ogt,"}};
  nabla_ssa left = sum(p);
  for (size_t i = 0; i < sizeof signs / sizeof *signs; i++) {
    if (!take(p, signs[i].sign)) continue;
    nabla_ssa test =
        nabla_emit_two(p->t, signs[i].operation, left, sum(p), "f64");
    expect(p, "?");
    nabla_ssa yes = choice(p);
    expect(p, ":");
    nabla_ssa no = choice(p);
    return k_op(&p->t->emit, "arith.select %%v%u, %%v%u, %%v%u : f64", test,
                yes, no);
  }
  return left;
}

static void define(parser *p, const char *name, nabla_ssa value) {
  assert(p->count < MAX_NAMES);
  (void)snprintf(p->names[p->count].name, MAX_NAME, "%s", name);
  p->names[p->count++].value = value;
}

nabla_ssa nabla_formula_emit(nabla_template *t, const nabla_formula *formula,
                             const nabla_ssa *arguments) {
  parser p = {.t = t, .at = formula->arguments};
  char name[MAX_NAME];
  while (take_name(&p, name)) define(&p, name, arguments[p.count]);
  p.at = formula->text;
  for (;;) {
    const char *start = p.at;
    if (take_name(&p, name) && take(&p, "=") && *p.at != '=') {
      nabla_ssa value = choice(&p);
      define(&p, name, value);
      expect(&p, ";");
    } else {
      p.at = start;
      return choice(&p);
    }
  }
}
