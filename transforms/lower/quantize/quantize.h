/* What the lowerings of quantize share. */
#ifndef NABLA_TRANSFORMS_LOWER_QUANTIZE_QUANTIZE_H
#define NABLA_TRANSFORMS_LOWER_QUANTIZE_QUANTIZE_H

#include "transforms/lower/lowering.h"

/* Values (f32) in order as blocks x block, the last block filled with zeros. */
nabla_ssa_tensor nabla_quantize_blocks(nabla_template *t,
                                       const nabla_ssa_tensor *in,
                                       int64_t blocks, int64_t block);

/* The bits (i32) of the largest magnitude of each block; or (is_signed) of the
 * value that has it, rotated by one so that the sign is the lowest bit. */
nabla_ssa_tensor nabla_quantize_most(nabla_template *t,
                                     const nabla_ssa_tensor *values,
                                     bool is_signed);

/* The values of blocks as blocks x pairs x 2. */
nabla_ssa_tensor nabla_quantize_pairs(nabla_template *t,
                                      const nabla_ssa_tensor *values);

/* Two codes (i8) of 4 bits in a byte. */
nabla_ssa nabla_quantize_join(nabla_template *t, nabla_ssa first,
                              nabla_ssa second, bool high_first);

/* The first `count` elements of codes, in rank 1. */
nabla_ssa_tensor nabla_quantize_cut(nabla_template *t,
                                    const nabla_ssa_tensor *codes,
                                    int64_t count);

/* Ends the lowering: the op is the nabla.pack of `parts`. */
bool nabla_quantize_pack(nabla_template *t, intptr_t count,
                         const nabla_ssa_tensor *parts);

/* A float of 8 bits or less: a sign, an exponent, a mantissa. */
typedef struct nabla_small_float {
  unsigned bits, mantissa, bias;
  float largest; /* a larger magnitude becomes this one */
} nabla_small_float;

/* The form of the codes of an encoding whose recipe has `emax`. */
nabla_small_float nabla_small_float_find(const nabla_encoding *encoding);

/* The code (i8) of an f32, rounded half to even; signs of zeros are kept. */
nabla_ssa nabla_small_float_code(nabla_template *t,
                                 const nabla_small_float *form, nabla_ssa x);

/* The lowering of a quantize into codes with zero points (FORMAT.md, E4), into
 * dynamic8 (E6), mx (E5), and codes of scales that are means (E1). */
bool nabla_quantize_zero_points(nabla_template *t);
bool nabla_quantize_dynamic8(nabla_template *t);
bool nabla_quantize_mx(nabla_template *t);
bool nabla_quantize_mean(nabla_template *t);

#endif
