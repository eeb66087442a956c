/* The components of a packed argument, in the order in which code takes them:
 * those of a weight that is bound to it (lib/runtime/weight/components.h). */
#ifndef NABLA_RUNTIME_PROGRAM_COMPONENTS_H
#define NABLA_RUNTIME_PROGRAM_COMPONENTS_H

#include "lib/runtime/weight/components.h"
#include "nabla/executable.h"

/* Lists them by layout and shape, which is static.
 * @return NABLA_OK, or the reason in `diag` */
NABLA_MUST_USE nabla_status nabla_port_components(const nabla_port *port,
                                                  nabla_component_slots *out,
                                                  nabla_diag *diag);

#endif
