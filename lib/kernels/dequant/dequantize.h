/* Dequantization of up to NABLA_LANES consecutive elements of packed storage.
 * All about the encoding comes from its row (bits, granularity) and its
 * definition (quant/codec/kernel.h). Functions are defined in table_lookup.c
 * too. */
#ifndef NABLA_KERNELS_DEQUANT_DEQUANTIZE_H
#define NABLA_KERNELS_DEQUANT_DEQUANTIZE_H

#include "lib/kernels/builder/emit.h"

/* Elements flat .. flat + width - 1, all inside the storage. */
typedef struct nabla_window {
  nabla_ssa flat;   /* i64 */
  unsigned width;   /* 1 .. NABLA_LANES */
  uint64_t aligned; /* flat is a multiple of it; 0 when flat is always 0 */
  nabla_ssa scale;  /* f32 that all elements share, or 0: look it up */
  int is_unscaled;  /* 1: values before they are multiplied (but for factors of
                       16 elements, in blocks that have such) and rounded,
                       finite beyond the width */
} nabla_window;

/* F32, F16 or BF16. */
nabla_dtype nabla_spec_scale_dtype(const nabla_fused_spec *spec);

/* Whether the codes are integers, int8 or int4, which may have zero points;
 * false for a dense weight (NULL). */
int nabla_spec_is_integer(const nabla_encoding *encoding);

/* Whether the codes are 8-bit floats. */
int nabla_spec_is_float8(const nabla_encoding *encoding);

/* The greatest common divisor; 0 is a multiple of everything. */
uint64_t nabla_common_divisor(uint64_t a, uint64_t b);

/* vector<16xf32> for 16 groups of consecutive elements that follow each other:
 * `at` of the block of each. `first` is the block of the first, and `count`, a
 * power of two up to 16, how many blocks all lie in. */
nabla_ssa nabla_emit_block_lanes(nabla_emitter *e, nabla_ssa first,
                                 unsigned count,
                                 nabla_ssa (*at)(nabla_emitter *, nabla_ssa));

/* Whether `count` elements from `offset` + i * `stride`, for every i below
 * `lines`, lie under one scale. */
int nabla_lines_share_scales(const nabla_fused_spec *spec, uint64_t lines,
                             uint64_t stride, uint64_t count);

/* The byte of the codes, or of a dense weight, in which element `flat` is; of
 * blocks the first of its block. */
nabla_ssa nabla_emit_code_byte(nabla_emitter *e, nabla_ssa flat);

/* The block (scale group) of the element at `flat`. */
nabla_ssa nabla_emit_block(nabla_emitter *e, nabla_ssa flat);

/* f32 of bytes that are powers of two (E5): 0 is subnormal, 255 NaN. */
nabla_ssa nabla_emit_e8m0(nabla_emitter *e, nabla_shape shape, nabla_ssa bytes);

/* The scale (f32) at `index` of the scales. */
nabla_ssa nabla_emit_scale_at(nabla_emitter *e, nabla_ssa index);

/* Prefetches the scale of element `flat`, which may lie beyond the storage. */
void nabla_emit_prefetch_scale(nabla_emitter *e, nabla_ssa flat);

/* The scale (f32) of the element at `flat`. */
nabla_ssa nabla_emit_scale(nabla_emitter *e, nabla_ssa flat);

/* A lookup in the table of an encoding of at most 4 bits by the low bits of
 * each i32; higher bits are ignored. */
nabla_ssa nabla_emit_table_lookup(nabla_emitter *e, nabla_ssa indices);

/* The same in another table of 16 numbers, for any target. */
nabla_ssa nabla_emit_table_lookup_of(nabla_emitter *e, const float *table,
                                     nabla_ssa indices);

/* The same in a table that is in a register, a vector<16xf32>; for AVX2 and
 * AVX-512. */
nabla_ssa nabla_emit_table_lookup_in(nabla_emitter *e, nabla_ssa table,
                                     nabla_ssa indices);

/* vector<16xf32> of the values as nabla_decode gives them, rounded to the
 * spec's w_type; lanes beyond the width are 0 or -0. */
nabla_ssa nabla_emit_dequantize(nabla_emitter *e, const nabla_window *window);

/* `value` with +0 in the lanes [0, `first`). */
nabla_ssa nabla_emit_drop_lanes(nabla_emitter *e, nabla_ssa value,
                                unsigned first);

#endif
