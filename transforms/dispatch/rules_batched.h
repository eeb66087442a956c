/* Contractions with batches, for rules_dot.c. */
#ifndef NABLA_TRANSFORMS_DISPATCH_RULES_BATCHED_H
#define NABLA_TRANSFORMS_DISPATCH_RULES_BATCHED_H

#include "transforms/dispatch/rules.h"

/* Makes a scan of a dot_general with batches, whose operand `weight` is packed;
 * DECLINED, with a reason, where slices of it are not packed. */
nabla_rule_outcome nabla_dot_by_batch(MlirOperation op, intptr_t weight,
                                      const char **why);

#endif
