/* A described weight (nabla/weight.h) whose description has been checked:
 * pointers by their part, sizes as numbers, the codec chosen. Functions are
 * defined in weight_view.c, and in weight_read.c those that decode. */
#ifndef NABLA_RUNTIME_WEIGHT_WEIGHT_VIEW_H
#define NABLA_RUNTIME_WEIGHT_WEIGHT_VIEW_H

#include "nabla/dynamic8.h"
#include "nabla/weight.h"

typedef struct nabla_weight_view {
  /* Segment 0 where blocks end with rows anyway; of BLOCKS format.block is the
   * elements of one, and all else of the format is zero. */
  nabla_storage layout;
  nabla_dtype dtype;
  uint64_t n, k;      /* rows (the first dimension), elements of a row       */
  const void *codes;  /* or values, or blocks                                */
  const void *scales; /* of the format's type; DYNAMIC8: their codes         */
  uint64_t scale_bytes;
  const uint8_t *zero_points; /* with format.zero_point                       */
  const float *nested_scales, *nested_offset, *nested_map; /* of DYNAMIC8     */
  nabla_codec codec;     /* of PLANES, to f32; without segment                */
  nabla_dynamic8 nested; /* of DYNAMIC8 scales                                */
} nabla_weight_view;

/* Checks a description and fills `out`.
 * @param isa  what decoding may use; available on this CPU
 * @return as nabla_weight_check */
NABLA_MUST_USE nabla_status
nabla_weight_view_of(const nabla_weight_desc *weight, nabla_isa isa,
                     nabla_weight_view *out, nabla_diag *diag);

/* Decodes `count` elements to f32 from the flat element `first` on; a dense
 * weight is of floats. Reads no byte beyond the weight. Allocates nothing. */
void nabla_weight_decode(const nabla_weight_view *weight, uint64_t first,
                         uint64_t count, float *out);

#endif
