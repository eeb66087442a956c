/* Formulas: functions of floats written as text, parsed into trees, and emitted
 * by a table of functions. formulas.def has those of the dialect's functions,
 * since compiled code calls no libm. Emitters: code on f64 (transforms/lower/
 * formula.h), operations of the dialect (formula_ops.h).
 *
 *   FORMULA   = { NAME "=" CHOICE ";" } CHOICE
 *   CHOICE    = SUM [ COMPARISON SUM "?" CHOICE ":" CHOICE ]
 *   COMPARISON = "<" | "<=" | ">" | ">=" | "==" | "!="
 *   SUM       = PRODUCT { ("+" | "-") PRODUCT }
 *   PRODUCT   = FACTOR { ("*" | "/") FACTOR }
 *   FACTOR    = NUMBER | NAME | NAME "(" CHOICE { "," CHOICE } ")"
 *             | "(" CHOICE ")" | "-" FACTOR
 *
 * Both sides of a choice are computed. Comparisons are false of NaN but for !=.
 * Names are arguments, definitions, inf and nan. Functions are rows of
 * formulas.def and of words.def: abs, sqrt, copysign(x, y), rint (|x| < 2^51;
 * 2^22 of f32), power(n) = 2^n of an integer n for which that is normal,
 * scale(x, n) = x 2^n for an integer n within +-2000, exponent(x) and
 * mantissa(x) in [1, 2) of a normal x > 0, poly(x, c0, c1, ...), head(x): x
 * with its lowest 27 bits 0 (12 of f32), and far_turns, far_rest (transforms/
 * lower/formula_far.h). scale of f32: n within +-250. Rows of math.def also use
 * tables.def by name, and each other, in f32 or f64. */
#ifndef NABLA_TRANSFORMS_FORMULA_FORMULA_TREE_H
#define NABLA_TRANSFORMS_FORMULA_FORMULA_TREE_H

#include <stdbool.h>
#include <stddef.h>

/* A row of formulas.def, or of math.def, whose name then ends in "_f32"; or a
 * formula of another table, with its tree. */
typedef struct nabla_formula {
  const char *name, *arguments, *text;   /* arguments: "x" or "x y" */
  const struct nabla_formula_tree *tree; /* NULL of a row */
} nabla_formula;

const nabla_formula *nabla_formulas(size_t *out_count);
/* The rows of math.def, and the one of a function ("exp"), or NULL. */
const nabla_formula *nabla_formulas_of_f32(size_t *out_count);
const nabla_formula *nabla_formula_of_f32(const char *name);
/* Whether it is computed in f64, else in f32. */
bool nabla_formula_is_wide(const nabla_formula *formula);
/* NULL when there is none of this name. */
const nabla_formula *nabla_formula_find(const char *name);
int nabla_formula_argument_count(const nabla_formula *formula);

/* A row of words.def. */
typedef enum nabla_formula_word {
#define WORD(id, arguments, refusal) NABLA_WORD_##id,
#include "transforms/formula/words.def"
#undef WORD
  NABLA_FORMULA_WORDS
} nabla_formula_word;

/* Its name, and why operations of the dialect cannot say it; "": they can. */
const char *nabla_formula_word_name(nabla_formula_word word);
const char *nabla_formula_word_refusal(nabla_formula_word word);

typedef enum nabla_formula_comparison {
#define ARITHMETIC(name, sign)
#define COMPARISON(id, sign, cmpf, kind) NABLA_FORMULA_##id,
#include "transforms/formula/signs.def"
#undef COMPARISON
#undef ARITHMETIC
} nabla_formula_comparison;

/* Names of signs in IR: "add", of nabla.add; "addf", of arith.addf; "cmpf
 * ole,"; a value of Nabla_CompareKind. `sign` is a row of signs.def. */
const char *nabla_formula_arithmetic_op(char sign);
const char *nabla_formula_arithmetic_f(char sign);
const char *nabla_formula_comparison_f(nabla_formula_comparison how);
int nabla_formula_comparison_kind(nabla_formula_comparison how);

typedef enum nabla_formula_kind {
  NABLA_FORMULA_NUMBER,
  NABLA_FORMULA_NAME,
  NABLA_FORMULA_NEGATE,
  NABLA_FORMULA_ARITHMETIC, /* two operands */
  NABLA_FORMULA_CHOICE,     /* two that are compared, then yes and no */
  NABLA_FORMULA_WORD,
  NABLA_FORMULA_CALL,
  NABLA_FORMULA_TABLE, /* one operand */
} nabla_formula_kind;

/* Operands are chained: `first`, then the `next` of each; -1 ends. */
typedef struct nabla_formula_node {
  nabla_formula_kind kind;
  int first, next;
  union {
    double number;
    int slot;  /* of a name: arguments, then definitions, in their order */
    char sign; /* + - * / */
    nabla_formula_comparison comparison;
    nabla_formula_word word;
    const nabla_formula *callee;
    const float *table;
  };
} nabla_formula_node;

enum {
  NABLA_FORMULA_TABLE_VALUES = 16,
  NABLA_FORMULA_MAX_NODES = 256,
  NABLA_FORMULA_MAX_NAMES = 24,    /* arguments and definitions */
  NABLA_FORMULA_MAX_OPERANDS = 24, /* of a function */
  NABLA_FORMULA_MAX_DEPTH = 64,    /* of brackets, signs and choices */
};

/* Slot `arguments` + i holds roots[i]; the last root is the formula's value. */
typedef struct nabla_formula_tree {
  int arguments, count, root_count;
  int roots[NABLA_FORMULA_MAX_NAMES];
  nabla_formula_node nodes[NABLA_FORMULA_MAX_NODES];
} nabla_formula_tree;

/* NULL, or what is wrong; `at`, which may be NULL: where in the text. */
const char *nabla_formula_parse(const nabla_formula *formula,
                                nabla_formula_tree *out, size_t *at);

/* What an emitter makes: an SSA number of text, or an MlirValue's pointer. */
typedef union nabla_formula_value {
  unsigned ssa;
  const void *pointer;
} nabla_formula_value;

/* How formulas are emitted. Functions get operands in the order of the text and
 * are called in it. */
typedef struct nabla_formula_emitter {
  nabla_formula_value (*number)(void *self, double number);
  nabla_formula_value (*negate)(void *self, nabla_formula_value x);
  nabla_formula_value (*arithmetic)(void *self, char sign,
                                    const nabla_formula_value x[2]);
  nabla_formula_value (*compare)(void *self, nabla_formula_comparison how,
                                 const nabla_formula_value x[2]);
  /* x[0] is of `compare`: x[1] if it holds, else x[2] */
  nabla_formula_value (*select)(void *self, const nabla_formula_value x[3]);
  nabla_formula_value (*word)(void *self, nabla_formula_word word, int count,
                              const nabla_formula_value *x);
  /* false: the callee's formula is emitted in its place; NULL: of all */
  bool (*call)(void *self, const nabla_formula *callee, int count,
               const nabla_formula_value *x, nabla_formula_value *out);
  /* A number of a row of tables.def; NULL where no row of math.def is emitted.
   */
  nabla_formula_value (*table)(void *self, const float *numbers,
                               nabla_formula_value x);
} nabla_formula_emitter;

/* The value of a formula. Rows of formulas.def and math.def are parsed at their
 * first use in the process. Thread-safe. */
nabla_formula_value nabla_formula_evaluate(const nabla_formula *formula,
                                           const nabla_formula_emitter *emitter,
                                           void *self,
                                           const nabla_formula_value *x);

#endif
