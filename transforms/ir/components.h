/* The components of implicit values, once nabla-lower-implicit has split them
 * at boundaries. */
#ifndef NABLA_TRANSFORMS_IR_COMPONENTS_H
#define NABLA_TRANSFORMS_IR_COMPONENTS_H

#include <mlir-c/IR.h>

#include "dialect/encoding/encoding_nested.h"

/* Finds the components of `value` through views, which have their operand's,
 * and out of values that it is a component of, back to the nabla.pack that made
 * it.
 * @return how many, or -1 when they are not known here */
intptr_t nabla_components_find(MlirValue value, MlirValue out[NABLA_MAX_PARTS]);

/* The same, with a nabla.unpack before `before` where they are not known. */
intptr_t nabla_components_split(MlirValue value, MlirOperation before,
                                MlirValue out[NABLA_MAX_PARTS]);

/* The same down to the tensors that an implicit array is made of in the end. */
intptr_t nabla_leaves_find(MlirValue value, MlirValue out[NABLA_MAX_LEAVES]);
intptr_t nabla_leaves_split(MlirValue value, MlirOperation before,
                            MlirValue out[NABLA_MAX_LEAVES]);

/* nabla.pack of `type`, before `before`, of its components, of its leaves. */
MlirValue nabla_components_pack(MlirOperation before, MlirType type,
                                const MlirValue *components);
MlirValue nabla_leaves_pack(MlirOperation before, MlirType type,
                            const MlirValue *leaves);

/* Erases packs, unpacks and views of implicit values that nothing uses. */
void nabla_components_clean(MlirOperation root);

#endif
