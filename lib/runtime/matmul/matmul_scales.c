/* Scales that a plan converts when it is made, for kernels that read another
 * format than the weight has (quant/ahead/ahead_formats.h). */
#include <inttypes.h>
#include <string.h>

#include "lib/base/checked.h"
#include "lib/runtime/matmul/matmul_internal.h"
#include "quant/codec/codec.h"

/* Scales in f32, as many as the weight has. */
static void widen(const nabla_matmul_request *request, size_t count,
                  float *out) {
  const nabla_weight_view *weight = &request->weight;
  if (weight->layout.format.scale == NABLA_SCALE_DYNAMIC8)
    nabla_dynamic8_decode(&weight->nested, weight->scales,
                          weight->nested_scales, 0, count, out);
  else
    nabla_scales_widen(weight->layout.format.scale, weight->scales, count, out);
}

/* The elements that share a scale of the weight. */
static uint64_t span_of(const nabla_weight_view *weight) {
  switch (weight->layout.format.granularity) {
    case NABLA_PER_ROW:
      return weight->k;
    case NABLA_PER_TENSOR:
      return weight->n * weight->k;
    case NABLA_PER_BLOCK:
      break;
  }
  return weight->layout.format.block;
}

/* Each of `from` for `times` of `to`, of which there are `count`, from the last
 * on: `from` may be the beginning of `to`. */
static void repeat(const uint8_t *from, uint8_t *to, uint64_t count,
                   uint64_t times, size_t width) {
  uint8_t value[sizeof(float)];
  for (uint64_t i = count; i-- > 0;) {
    memcpy(value, from + i / times * width, width);
    memcpy(to + i * width, value, width);
  }
}

static void *allocate(nabla_matmul_plan *plan, uint64_t bytes,
                      nabla_diag *diag) {
  void *made = nabla_allocations_allocate(&plan->blocks,
                                          plan->environment.allocator, bytes);
  if (made)
    plan->packed_bytes += bytes;
  else
    (void)!nabla_fail(diag, NABLA_NO_MEMORY,
                      "cannot allocate %" PRIu64 " bytes of scales", bytes);
  return made;
}

nabla_status nabla_matmul_convert_scales(nabla_matmul_plan *plan,
                                         nabla_diag *diag) {
  const nabla_weight_view *weight = &plan->request.weight;
  if (!plan->conversion) return NABLA_OK;
  const uint64_t elements = weight->n * weight->k;
  const uint64_t span = span_of(weight), block = plan->read.block;
  const int is_cut = plan->conversion > 1;
  const uint64_t before = nabla_ceil_div_u64(elements, span);
  const uint64_t count = is_cut ? nabla_ceil_div_u64(elements, block) : before;
  const uint64_t times = is_cut ? span / block : 1;
  float *scales = allocate(plan, count * sizeof *scales, diag);
  if (!scales) return NABLA_NO_MEMORY;
  widen(&plan->request, (size_t)before, scales);
  if (is_cut)
    repeat((const uint8_t *)scales, (uint8_t *)scales, count, times,
           sizeof *scales);
  plan->args[NABLA_ARG_SCALES] = (uintptr_t)scales;
  if (!is_cut || !weight->layout.format.zero_point) return NABLA_OK;
  uint8_t *zeros = allocate(plan, count, diag);
  if (!zeros) return NABLA_NO_MEMORY;
  repeat(weight->zero_points, zeros, count, times, 1);
  plan->args[NABLA_ARG_ZERO_POINTS] = (uintptr_t)zeros;
  return NABLA_OK;
}
