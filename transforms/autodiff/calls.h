/* Derivatives of calls: of the function that is called, by the rule that its
 * attributes give, or straight through. Functions are in calls.c and absent.c.
 */
#ifndef NABLA_TRANSFORMS_AUTODIFF_CALLS_H
#define NABLA_TRANSFORMS_AUTODIFF_CALLS_H

#include "transforms/autodiff/derive.h"

#define NABLA_VJP              "nabla.vjp"
#define NABLA_JVP              "nabla.jvp"
#define NABLA_STRAIGHT_THROUGH "nabla.straight_through"
/* Of a function or custom call with one of the first two: cotangents, or
 * tangents, that are 0 everywhere are left out when rules are called. */
#define NABLA_SYMBOLIC_ZEROS "nabla.symbolic_zeros"

/* The derivative of `function` of a kind, made at its first use: `arguments`
 * and `results` that take part. Null after an error. */
MlirOperation nabla_derived_find(nabla_derived *d, MlirOperation function,
                                 const char *kind, const bool *arguments,
                                 const bool *results);

/* Records one. False if out of memory. */
bool nabla_derived_add(nabla_derived *d, MlirOperation function,
                       const char *kind, MlirOperation made, size_t in,
                       const bool *arguments, size_t out, const bool *results);

/* Makes func.call before `before`. */
MlirOperation nabla_build_call(MlirOperation before, MlirOperation function,
                               intptr_t count, const MlirValue *operands);

/* Types of a func.func. */
MlirType nabla_callee_type(MlirOperation function);

/* The attribute of a function under one of the keys above; null: none. */
MlirAttribute nabla_function_attribute(MlirOperation function, const char *key);

/* The rule functions that attributes of a function, or of a custom call, name,
 * after their signatures were checked; null after an error. */
MlirOperation nabla_rule_forward(nabla_derived *d, MlirOperation function);
MlirOperation nabla_rule_backward(nabla_derived *d, MlirOperation function);
MlirOperation nabla_rule_jvp(nabla_derived *d, MlirOperation function);

/* A rule function without the arguments for which `given` is false, which are 0
 * everywhere; `gives`: whether it returns each of the rule's results, others
 * are 0. Made at its first use; `rule` itself where all are given. Null after
 * an error. */
MlirOperation nabla_rule_absent(nabla_derived *d, MlirOperation rule,
                                const bool *given, bool *gives);
/* Whether an argument of this type can be left out: its size is known. */
bool nabla_rule_may_lack(MlirType type);

/* Checks the rule functions of all functions and custom calls of the module.
 */
bool nabla_rules_check(nabla_derived *d);

#endif
