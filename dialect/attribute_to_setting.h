/* Attributes of MLIR as trees of nabla/setting.h. */
#ifndef NABLA_DIALECT_ATTRIBUTE_TO_SETTING_H
#define NABLA_DIALECT_ATTRIBUTE_TO_SETTING_H

#include <mlir-c/IR.h>

#include "lib/base/settings.h"

/* Makes a tree of bools, integers of at most 64 bits, floats, strings, arrays
 * and dictionaries; also of dense arrays (array<i64: 1, 2>).
 * @return NULL, or what cannot be made one: static text */
const char *nabla_setting_of(MlirAttribute attribute, nabla_arena *arena,
                             nabla_setting *out);

#endif
