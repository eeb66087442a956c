/* Who calls whom. */
#ifndef NABLA_TRANSFORMS_IR_CALL_GRAPH_H
#define NABLA_TRANSFORMS_IR_CALL_GRAPH_H

#include "transforms/ir/ir.h"

/* False, reported, when a function of `module` calls itself, at whatever
 * distance: compiled code has no bound on the stack. */
bool nabla_call_graph_check(MlirOperation module);

#endif
