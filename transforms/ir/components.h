/* Finding and packing the components (codes, scales, ...) of implicit values,
 * after nabla-lower-implicit has split them at function, call and region
 * boundaries. */
#ifndef NABLA_TRANSFORMS_IR_COMPONENTS_H
#define NABLA_TRANSFORMS_IR_COMPONENTS_H

#include <mlir-c/IR.h>

#include "dialect/encoding/encoding_nested.h"

/* Finds the components of `value`: the operands of the nabla.pack that made it.
 * A view has the components of its operand. A result of nabla.unpack is traced
 * through the value that was unpacked.
 * @return how many, or -1 if no nabla.pack is found */
intptr_t nabla_components_find(MlirValue value, MlirValue out[NABLA_MAX_PARTS]);

/* The same; if no nabla.pack is found, creates a nabla.unpack before the op
 * `before` and gives its results. */
intptr_t nabla_components_split(MlirValue value, MlirOperation before,
                                MlirValue out[NABLA_MAX_PARTS]);

/* The same for leaves: the dense tensors that remain when components that are
 * themselves implicit are split in turn. */
intptr_t nabla_leaves_find(MlirValue value, MlirValue out[NABLA_MAX_LEAVES]);
intptr_t nabla_leaves_split(MlirValue value, MlirOperation before,
                            MlirValue out[NABLA_MAX_LEAVES]);

/* Create a value of `type` before the op `before`: by one nabla.pack of its
 * components, or by one for each level, of its leaves. */
MlirValue nabla_components_pack(MlirOperation before, MlirType type,
                                const MlirValue *components);
MlirValue nabla_leaves_pack(MlirOperation before, MlirType type,
                            const MlirValue *leaves);

/* Erases packs, unpacks and views of implicit values that nothing uses. */
void nabla_components_clean(MlirOperation root);

#endif
