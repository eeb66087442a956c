/* Splitting f32 weights into bf16 parts, and detection of weights out of the
 * range for that (gemm_f32_bf16x3_amx.c). */
#ifndef NABLA_KERNELS_BF16_SPLIT_BF16_H
#define NABLA_KERNELS_BF16_SPLIT_BF16_H

#include "lib/kernels/bf16/bf16.h"

/* Whether weights without a scale of their own sums may be too large or too
 * small to be split. */
int nabla_bf16_has_extremes(const nabla_fused_spec *spec);

/* Writes the parts of 32 weights: the first to the address `out`, the others as
 * far behind it as the panel has them. */
void nabla_emit_bf16_parts(nabla_emitter *e, nabla_ssa low, nabla_ssa high,
                           nabla_ssa out);

/* 16 f32 less the part that their upper halves are, which is exact. */
nabla_ssa nabla_emit_bf16_less_upper(nabla_emitter *e, nabla_ssa value);

typedef enum nabla_bf16_extreme {
  NABLA_BF16_LEAST,
  NABLA_BF16_MOST,
  NABLA_BF16_EXTREMES
} nabla_bf16_extreme;

/* Of the sizes of weights so far, as bits less 1: the least, so that 0 is the
 * largest, and the most, where 0 is the smallest; as bits that f32 hold, which
 * loops carry. */
typedef struct nabla_bf16_extremes {
  nabla_ssa values[NABLA_BF16_EXTREMES];
} nabla_bf16_extremes;

/* Those that a loop carries, or leaves. */
static inline nabla_bf16_extremes nabla_bf16_extremes_of(
    const nabla_ssa *values) {
  nabla_bf16_extremes all;
  for (unsigned i = 0; i < NABLA_BF16_EXTREMES; i++) all.values[i] = values[i];
  return all;
}

nabla_bf16_extremes nabla_emit_bf16_no_extremes(nabla_emitter *e);
void nabla_emit_bf16_add_extremes(nabla_emitter *e, nabla_bf16_extremes *all,
                                  nabla_ssa value);

/* i1: has the least of those that are not 0 fewer bits than `limit`, or the
 * most more than it, or is NaN? */
nabla_ssa nabla_emit_bf16_is_beyond(nabla_emitter *e,
                                    const nabla_bf16_extremes *all,
                                    nabla_bf16_extreme which, uint32_t limit);

/* If some are beyond what can be split, the pair at the address `first` becomes
 * NaN, which is one of 16 columns that are computed again together. */
void nabla_emit_bf16_mark_extremes(nabla_emitter *e, nabla_ssa first,
                                   const nabla_bf16_extremes *all);

#endif
