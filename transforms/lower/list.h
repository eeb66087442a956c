/* Every lowering of ops.def. */
#ifndef NABLA_TRANSFORMS_LOWER_LIST_H
#define NABLA_TRANSFORMS_LOWER_LIST_H

#include "transforms/lower/lowering.h"

/* Two rows that share a lowering declare it twice, which C allows. */
#define OP(id, columns) columns
#define LOWER(word)     bool nabla_lower_##word(nabla_template *t);
#include "dialect/ops.def"

#endif
