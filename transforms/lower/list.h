/* Every lowering of ops.def. */
#ifndef NABLA_TRANSFORMS_LOWER_LIST_H
#define NABLA_TRANSFORMS_LOWER_LIST_H

#include "transforms/lower/lowering.h"

/* Two rows that share a lowering declare it twice, which C allows. */
#define OP(id, verify, infer, lowering, implicit, vjp, jvp, batch, factor, \
           cost, types)                                                    \
  bool nabla_lower_##lowering(nabla_template *t);
#include "dialect/ops.def"
#undef OP

#endif
