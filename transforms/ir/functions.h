/* Functions of a module: who calls them, and who sees them. */
#ifndef NABLA_TRANSFORMS_IR_FUNCTIONS_H
#define NABLA_TRANSFORMS_IR_FUNCTIONS_H

#include <mlir-c/IR.h>
#include <stdbool.h>

/* The function that a func.call calls, by a table of the module's symbols; null
 * if there is none. */
MlirOperation nabla_call_callee(MlirSymbolTable symbols, MlirOperation call);

/* Whether nothing but calls sees a function. */
bool nabla_is_private(MlirOperation function);

/* Sets the type of a function of one block from its arguments and its return.
 * Returns false if out of memory. */
bool nabla_function_update_type(MlirOperation function);

#endif
