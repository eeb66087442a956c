/* The call graph of a module. */
#ifndef NABLA_TRANSFORMS_IR_CALL_GRAPH_H
#define NABLA_TRANSFORMS_IR_CALL_GRAPH_H

#include "transforms/ir/ir.h"

/* Returns false after an error if a function of `module` calls itself, directly
 * or not: the stack of compiled code would have no bound. */
bool nabla_call_graph_check(MlirOperation module);

#endif
