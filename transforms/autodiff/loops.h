/* Loops that are replaced before reverse mode goes back through them. */
#ifndef NABLA_TRANSFORMS_AUTODIFF_LOOPS_H
#define NABLA_TRANSFORMS_AUTODIFF_LOOPS_H

#include "transforms/autodiff/varied.h"

/* Whether an operation is such a loop: a while with max_steps, a scan with
 * remat. */
bool nabla_loop_wants(MlirOperation op);

/* Replaces one; false after an error. */
bool nabla_loop_prepare(MlirOperation op);

/* Sets remat and max_steps of a loop on another that does the same. */
void nabla_loop_attributes_keep(MlirOperation from, MlirOperation to);

#endif
