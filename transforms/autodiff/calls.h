/* Derivatives of calls: of the function that is called, by the rule that its
 * attributes give, or straight through. */
#ifndef NABLA_TRANSFORMS_AUTODIFF_CALLS_H
#define NABLA_TRANSFORMS_AUTODIFF_CALLS_H

#include "transforms/autodiff/derive.h"

#define NABLA_VJP              "nabla.vjp"
#define NABLA_JVP              "nabla.jvp"
#define NABLA_STRAIGHT_THROUGH "nabla.straight_through"

/* The derivative of `function` of a kind, made at its first use: `arguments`
 * and `results` that take part. Null after an error. */
MlirOperation nabla_derived_find(nabla_derived *d, MlirOperation function,
                                 const char *kind, const bool *arguments,
                                 const bool *results);

/* Makes func.call before `before`. */
MlirOperation nabla_build_call(MlirOperation before, MlirOperation function,
                               intptr_t count, const MlirValue *operands);

/* Types of a func.func. */
MlirType nabla_callee_type(MlirOperation function);

/* The attribute of a function under one of the keys above; null: none. */
MlirAttribute nabla_function_attribute(MlirOperation function, const char *key);

/* The rule functions that attributes name, after their signatures were checked;
 * null after an error. */
MlirOperation nabla_rule_forward(nabla_derived *d, MlirOperation function);
MlirOperation nabla_rule_backward(nabla_derived *d, MlirOperation function);
MlirOperation nabla_rule_jvp(nabla_derived *d, MlirOperation function);

#endif
