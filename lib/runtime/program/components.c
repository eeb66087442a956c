/* See components.h. */
#include "lib/runtime/program/components.h"

#include "lib/base/checked.h"

nabla_status nabla_port_components(const nabla_port *port,
                                   nabla_component_slots *out,
                                   nabla_diag *diag) {
  uint64_t elements = 1;
  for (uint32_t i = 0; i < port->rank; i++)
    if (!nabla_mul_u64(elements, (uint64_t)port->shape[i], &elements))
      return nabla_fail(diag, NABLA_TOO_LARGE, "the shape overflows");
  return nabla_storage_components(&port->layout, port->dtype, elements, out,
                                  diag);
}
