/* Composites and what they are made of: decompositions.def. */
#ifndef NABLA_TRANSFORMS_COMPOSITE_DECOMPOSITIONS_H
#define NABLA_TRANSFORMS_COMPOSITE_DECOMPOSITIONS_H

#include "transforms/ir/build.h"

bool nabla_is_composite(MlirOperation op);

/* Puts what a composite is made of in its place. False after an error was
 * reported. */
bool nabla_decompose(MlirOperation op);

/* The type in which a composite of this element type is computed: f32 for f16
 * and bf16, else the same. */
MlirType nabla_parts_work(MlirType element);

/* What decompositions share: attributes of the op. */
double nabla_parts_float(MlirOperation op, const char *key, double missing);
int64_t nabla_parts_integer(MlirOperation op, const char *key, int64_t missing);

#define PARTS(id, what) \
  MlirValue nabla_parts_##id(const nabla_builder *b, MlirOperation op);
#include "transforms/composite/decompositions.def"
#undef PARTS

#endif
