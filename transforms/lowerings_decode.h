/* Decoding single elements of a packed array in a lowering, bit for bit as
 * nabla_decode. */
#ifndef NABLA_TRANSFORMS_LOWERINGS_DECODE_H
#define NABLA_TRANSFORMS_LOWERINGS_DECODE_H

#include "transforms/lowerings.h"

typedef struct nabla_decoding {
  MlirType type; /* implicit */
  nabla_format format;
  nabla_tensor codes, scales;
  nabla_tensor table; /* of 4-bit codes */
} nabla_decoding;

/* Once, outside of loops. The function's first operands are the components of
 * `type`. */
void nabla_decoding_begin(nabla_template *t, MlirType type,
                          nabla_decoding *out);

/* In a loop: the storage index (i64) of the element that it is at. */
nabla_ssa nabla_flat_index(nabla_template *t, const nabla_strided *view);

/* materialize of an encoding from outside. */
bool nabla_lower_custom(nabla_template *t, MlirType type);

/* The f32 value at a flat storage index (i64). */
nabla_ssa nabla_decoding_value(nabla_template *t, const nabla_decoding *d,
                               nabla_ssa at);

#endif
