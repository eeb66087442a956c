/* Values of codes: the part of dequantization that depends on the encoding, but
 * not on the storage of codes. */
#ifndef NABLA_KERNELS_DEQUANT_CODE_VALUES_H
#define NABLA_KERNELS_DEQUANT_CODE_VALUES_H

#include "lib/kernels/builder/emit.h"

/* vector<16xf32> of the values of the codes in the low bits of each i32, before
 * zero point and scale; the bits above a code are ignored. */
nabla_ssa nabla_emit_code_value(nabla_emitter *e, nabla_ssa codes);

/* A zero point (i8, as stored) as f32 to subtract from such a value; 0 where
 * the format has none. Scalar. */
nabla_ssa nabla_emit_zero_value(nabla_emitter *e, nabla_ssa index);

/* Value, zero point (or 0) and scale of 16 elements, all vector<16xf32>, put
 * together and rounded to the spec's w_type: FORMAT.md (E2), (I4). */
nabla_ssa nabla_emit_scaled(nabla_emitter *e, nabla_ssa value, nabla_ssa zero,
                            nabla_ssa scale);

#endif
