/* The components of a packed argument, in the order in which code takes them:
 * those that nabla_model_find gives for a weight. */
#ifndef NABLA_RUNTIME_PROGRAM_COMPONENTS_H
#define NABLA_RUNTIME_PROGRAM_COMPONENTS_H

#include "nabla/executable.h"

typedef struct nabla_port_component {
  const char *name; /* "codes", "scales.map"; static text */
  nabla_dtype dtype;
  uint32_t rank; /* 1, or 0 of a single number */
  uint64_t count, bytes;
} nabla_port_component;

/* Lists them by format, nested_block and shape; the port's encoding is known
 * and its shape static.
 * @return how many, or 0 with the reason in `diag` */
uint32_t nabla_port_components(
    const nabla_port *port,
    nabla_port_component out[NABLA_WEIGHT_MAX_COMPONENTS], nabla_diag *diag);

#endif
