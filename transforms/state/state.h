/* States: arrays that live in a session and are written in place. An argument
 * and the result that replaces it have the attribute `nabla.state`, whose text
 * is the state's name. nabla-manifest checks them, nabla-states makes their
 * arguments writable before bufferization, and nabla-state-results removes
 * their results after it. Donated arguments, which have `nabla.donated`, are
 * arrays of the caller that a call may overwrite: they are checked and made
 * writable in the same places, and nabla-place-results gives their memory to
 * results. Functions are defined in state.c, donated.c and state_order.c. */
#ifndef NABLA_TRANSFORMS_STATE_STATE_H
#define NABLA_TRANSFORMS_STATE_STATE_H

#include "transforms/ir/ir.h"

#define NABLA_STATE   "nabla.state"
#define NABLA_DONATED "nabla.donated"

/* Lists of attributes of a func.func. */
#define NABLA_ARGUMENTS "arg_attrs"
#define NABLA_RESULTS   "res_attrs"

/* The attribute `key` of an argument or result; null where there is none. */
MlirAttribute nabla_state_attribute(MlirOperation function, const char *list,
                                    intptr_t index, const char *key);

/* The name of the state that an argument or result is; data is NULL where it is
 * none. The attribute is a string: nabla-manifest has checked it. */
MlirStringRef nabla_state_name(MlirOperation function, const char *list,
                               intptr_t index);

/* `nabla.name` of an argument of a func.func, or "arg3". */
MlirStringRef nabla_argument_name(MlirOperation function, intptr_t index,
                                  char fallback[32]);

/* Whether an argument is a state. */
bool nabla_state_has(MlirOperation function);

/* The argument that is the state `name`, or -1. */
intptr_t nabla_state_argument(MlirOperation function, MlirStringRef name);

/* Whether two texts are equal. */
bool nabla_state_same(MlirStringRef a, MlirStringRef b);

/* Removes the entry `key` from the attributes of all arguments or results. */
void nabla_state_strip(MlirOperation function, const char *list,
                       const char *key);

/* Checks the states of a function of `module`: names, types, results, calls of
 * the function, and that nothing reads a state after it was written. Reports
 * what is wrong. */
bool nabla_state_check(MlirOperation module, MlirOperation function);

/* Checks that the functions of `module` agree on the type of each state. */
bool nabla_state_check_shared(const nabla_op_list *functions);

/* Whether an argument is donated. The attribute is a unit: nabla-manifest has
 * checked it. */
bool nabla_donated_is(MlirOperation function, intptr_t index);
bool nabla_donated_has(MlirOperation function);

/* Checks the donated arguments of a function of `module`: attributes, types,
 * that nothing reads one after it was written, and that it is returned once.
 * Reports errors. */
bool nabla_donated_check(MlirOperation module, MlirOperation function);

/* state_order.c: whether nothing reads the state of result `index` after it was
 * written; the same of a donated argument. */
bool nabla_state_check_order(MlirOperation module, MlirOperation function,
                             intptr_t index);
bool nabla_donated_check_order(MlirOperation module, MlirOperation function,
                               intptr_t index);

#endif
