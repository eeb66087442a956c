/* What is done to a sum before it is stored, and the functions that it uses:
 * the same ones wherever an op is lowered, so that fused and not fused agree.
 */
#ifndef NABLA_KERNELS_EPILOGUE_H
#define NABLA_KERNELS_EPILOGUE_H

#include "lib/kernels/builder/emit.h"

/* Appends operations that define `out_name` as x / (1 + exp(-x)) of `in`, both
 * SSA names with '%'; `type` is "f32" or a vector of f32, like
 * "vector<16xf32>". Names that begin with `out_name` and '_' are used. arith
 * ops only. At most 1 ulp off; -0 for very negative values and -infinity (the
 * limit), NaN for NaN; the same bits on every target. */
void nabla_emit_silu(nabla_text *text, const char *type, const char *in,
                     const char *out_name);

/* Applies the spec's steps to one sum, or to NABLA_LANES of them: those of row
 * `row` (an i64 that counts rows of y) and columns from `column`, of which
 * `width` are inside. */
nabla_ssa nabla_emit_epilogue(nabla_emitter *e, nabla_shape shape,
                              nabla_ssa value, nabla_ssa row, nabla_ssa column,
                              unsigned width);

#endif
