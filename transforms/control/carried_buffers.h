/* Components that a loop carries, as buffers. Bufferization takes whatever a
 * loop carries as a tensor for something that the loop writes, and copies it in
 * each step where places change; a buffer is handed on as it is. */
#ifndef NABLA_TRANSFORMS_CONTROL_CARRIED_BUFFERS_H
#define NABLA_TRANSFORMS_CONTROL_CARRIED_BUFFERS_H

#include "transforms/ir/ir.h"

/* Does `op` hand values on to a step of a loop? */
bool nabla_carries_buffers(MlirOperation op);

/* The layout and the type of the buffer of a component, which may begin within
 * another. */
MlirAttribute nabla_carried_layout(MlirType component);
MlirType nabla_carried_type(MlirType component);

/* The buffer of a component; a copy, if something may write what it is made
 * of. */
MlirValue nabla_carried_buffer(MlirValue component, MlirOperation before);

/* A component again. */
MlirValue nabla_carried_component(MlirValue buffer, MlirType component,
                                  MlirOperation before);

#endif
