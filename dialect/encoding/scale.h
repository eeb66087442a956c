/* What acts on the scales of a packed array, which stays packed by it. */
#ifndef NABLA_DIALECT_ENCODING_SCALE_H
#define NABLA_DIALECT_ENCODING_SCALE_H

#include "dialect/encoding/encoding.h"

/* The component that holds the scales, as floats; -1 where there is none that
 * has a sign. */
int nabla_scales_find(MlirType type);

/* Whether negated scales are the scales of the negated array, bit for bit. */
bool nabla_scales_negate(MlirType type);

/* Whether scales times `factor` are the scales of the array times `factor`:
 * powers of two where scales and elements have the range of f32 (not f16), and
 * any finite factor where both are f32. There an element is value * (scale *
 * factor) and not (value * scale) * factor. */
bool nabla_scales_multiply(MlirType type, double factor);

/* The number that all elements of a #nabla.splat are: its value, rounded to the
 * element type. */
double nabla_splat_number(MlirType type);

#endif
