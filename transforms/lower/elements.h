/* Lowering of ops that compute each element of the result from the elements at
 * the same index of the operands. Functions are defined in convert.c too. */
#ifndef NABLA_TRANSFORMS_LOWER_ELEMENTS_H
#define NABLA_TRANSFORMS_LOWER_ELEMENTS_H

#include "transforms/lower/lowering.h"

/* Computes the result's element from the operands' elements x, all of work
 * types. `in` is the element type of the last operand. */
typedef nabla_ssa nabla_element_function(nabla_template *t,
                                         const nabla_element *in,
                                         const nabla_ssa *x);

/* Lowers an op whose operands are all arrays of one shape. */
bool nabla_lower_elements(nabla_template *t, nabla_element_function *compute);
/* The part of nabla_lower_elements between opening and closing the template. */
nabla_ssa_tensor nabla_elements_emit(nabla_template *t,
                                     nabla_element_function *compute);

/* Emits arith.OPERATION for two values of the type. */
nabla_ssa nabla_emit_two(nabla_template *t, const char *operation, nabla_ssa a,
                         nabla_ssa b, const char *type);
nabla_ssa nabla_emit_select(nabla_template *t, nabla_ssa condition,
                            nabla_ssa yes, nabla_ssa no, const char *type);
/* Orders zeros in `y`, the result of arith.maximumf (minimumf) for a and b,
 * which may be either of 0 and -0: here 0 is the larger one. */
nabla_ssa nabla_emit_order_zeros(nabla_template *t,
                                 const nabla_element *element,
                                 const nabla_ssa ab[2], bool is_max,
                                 nabla_ssa y);
/* Converts an integer's work value to a float's, rounded once to the float. */
nabla_ssa nabla_emit_integer_to_float(nabla_template *t,
                                      const nabla_element *from,
                                      const nabla_element *to, nabla_ssa x);
/* An op's name without the dialect's, NUL-terminated. */
typedef struct nabla_short_name {
  char data[32];
} nabla_short_name;
nabla_short_name nabla_template_name(const nabla_template *t);

/* Converts a value of a float's work type to f64, and back. */
nabla_ssa nabla_emit_to_f64(nabla_template *t, const nabla_element *element,
                            nabla_ssa x);
nabla_ssa nabla_emit_from_f64(nabla_template *t, const nabla_element *element,
                              nabla_ssa x);

#endif
