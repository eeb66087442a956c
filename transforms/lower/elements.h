/* Lowering an op that computes each element of its result from those at the
 * same place of its operands. Functions are defined in convert.c too. */
#ifndef NABLA_TRANSFORMS_LOWER_ELEMENTS_H
#define NABLA_TRANSFORMS_LOWER_ELEMENTS_H

#include "transforms/lower/lowering.h"

/* Gets the operands' elements x and gives the result's, all of work types.
 * `in` is the element type of the last operand. */
typedef nabla_ssa nabla_element_function(nabla_template *t,
                                         const nabla_element *in,
                                         const nabla_ssa *x);

/* The whole lowering of an op all of whose operands are arrays of one shape. */
bool nabla_lower_elements(nabla_template *t, nabla_element_function *compute);
/* The part between opening and closing the template. */
nabla_ssa_tensor nabla_elements_emit(nabla_template *t,
                                     nabla_element_function *compute);

/* arith.OPERATION of two values of the type. */
nabla_ssa nabla_emit_two(nabla_template *t, const char *operation, nabla_ssa a,
                         nabla_ssa b, const char *type);
nabla_ssa nabla_emit_select(nabla_template *t, nabla_ssa condition,
                            nabla_ssa yes, nabla_ssa no, const char *type);
/* Puts the zeros in order in `y`, the larger (smaller) one of a and b by
 * arith.maximumf (minimumf), which leaves it open which of 0 and -0 it gives: 0
 * is the larger one. */
nabla_ssa nabla_emit_order_zeros(nabla_template *t,
                                 const nabla_element *element,
                                 const nabla_ssa ab[2], bool is_max,
                                 nabla_ssa y);
/* A float's work value of an integer's, rounded once to the float. */
nabla_ssa nabla_emit_integer_to_float(nabla_template *t,
                                      const nabla_element *from,
                                      const nabla_element *to, nabla_ssa x);
/* The op's name without its dialect's, NUL-terminated. */
typedef struct nabla_short_name {
  char data[32];
} nabla_short_name;
nabla_short_name nabla_template_name(const nabla_template *t);

/* f64 of a value of a float's work type, and back. */
nabla_ssa nabla_emit_to_f64(nabla_template *t, const nabla_element *element,
                            nabla_ssa x);
nabla_ssa nabla_emit_from_f64(nabla_template *t, const nabla_element *element,
                              nabla_ssa x);

#endif
