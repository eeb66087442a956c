/* The exponential function of f32, without a call of libm. */
#ifndef NABLA_KERNELS_BUILDER_EXP_H
#define NABLA_KERNELS_BUILDER_EXP_H

#include "lib/kernels/builder/emit.h"

/* e^x of one f32 or of NABLA_LANES, within 2 ulp: 0 and infinity where the
 * exact value rounds to them, NaN of NaN. */
nabla_ssa nabla_emit_exp(nabla_emitter *e, nabla_shape shape, nabla_ssa x);

#endif
