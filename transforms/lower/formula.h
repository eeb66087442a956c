/* Formulas: arithmetic on f64 written as text and made IR. formulas.def has
 * those of the dialect's functions, since compiled code calls no libm.
 *
 *   FORMULA   = { NAME "=" CHOICE ";" } CHOICE
 *   CHOICE    = COMPARE [ "?" CHOICE ":" CHOICE ]
 *   COMPARE   = SUM [ ("<" | "<=" | ">" | ">=" | "==" | "!=") SUM ]
 *   SUM       = PRODUCT { ("+" | "-") PRODUCT }
 *   PRODUCT   = FACTOR { ("*" | "/") FACTOR }
 *   FACTOR    = NUMBER | NAME | NAME "(" CHOICE { "," CHOICE } ")"
 *             | "(" CHOICE ")" | "-" FACTOR
 *
 * Both sides of a choice are computed. Comparisons are false of NaN but for !=.
 * Functions: the rows of formulas.def, and abs, sqrt, copysign(x, y), rint (|x|
 * < 2^51), scale(x, n) = x 2^n for an integer n within +-2000, exponent(x) and
 * mantissa(x) in [1, 2) of a normal x > 0, poly(x, c0, c1, ...), and
 * head(x): x with its lowest 27 bits 0; far_turns, far_rest (formula_far.h). */
#ifndef NABLA_TRANSFORMS_LOWER_FORMULA_H
#define NABLA_TRANSFORMS_LOWER_FORMULA_H

#include "transforms/lower/lowering.h"

/* A row of formulas.def. */
typedef struct nabla_formula {
  const char *name, *arguments, *text; /* arguments: "x" or "x y" */
} nabla_formula;

/* NULL when there is none of this name. */
const nabla_formula *nabla_formula_find(const char *name);

/* |size| with the sign of `sign`, both f64; a zero and a NaN have one too. */
nabla_ssa nabla_emit_copysign(nabla_template *t, nabla_ssa size,
                              nabla_ssa sign);

/* Its value of f64 arguments. */
nabla_ssa nabla_formula_emit(nabla_template *t, const nabla_formula *formula,
                             const nabla_ssa *arguments);

#endif
