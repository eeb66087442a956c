/* The provider of kernels made ahead of time. */
#include <string.h>

#include "lib/runtime/ahead.h"

int nabla_level_available(nabla_level level, nabla_isa limit) {
#if defined(__x86_64__)
  const nabla_isa most = nabla_isa_resolve(limit);
  switch (level) {
#define LEVEL(id, isa, also, target)                                          \
  case NABLA_LEVEL_##id:                                                      \
    return NABLA_ISA_##isa <= most && nabla_isa_available(NABLA_ISA_##isa) && \
           (also);
#include "lib/runtime/levels.def"
#undef LEVEL
    case NABLA_LEVEL_COUNT:
      break;
  }
#endif
  (void)level;
  (void)limit;
  return 0;
}

static int has_format(const nabla_ahead_set *set,
                      const nabla_matmul_weight *weight) {
  const nabla_format *format = &weight->format;
  if (set->ggml || weight->ggml)
    return set->ggml && weight->ggml && !strcmp(set->ggml, weight->ggml->name);
  if (!set->encoding || !format->encoding)
    return !set->encoding && !format->encoding && set->dense == weight->dtype;
  return !strcmp(set->encoding, format->encoding->name) &&
         set->granularity == format->granularity &&
         set->scale == format->scale && !format->zero_point &&
         !format->segment && (!set->block || set->block == format->block) &&
         (set->scale != NABLA_SCALE_DYNAMIC8 ||
          set->nested_block == weight->nested_block);
}

static int has_size(const nabla_ahead_set *set,
                    const nabla_matmul_weight *weight) {
  if (set->any_size) return weight->k && weight->k % set->any_size == 0;
  return set->n == weight->n && set->k == weight->k;
}

/* Kernels take f32; steps but the bias they have not. */
static int fits(const nabla_ahead_set *set,
                const nabla_matmul_request *request) {
  return request->x_type == NABLA_DTYPE_F32 &&
         request->y_type == NABLA_DTYPE_F32 &&
         set->numerics == request->numerics && set->layout == request->layout &&
         has_format(set, &request->weight) && has_size(set, &request->weight) &&
         nabla_level_available(set->level, request->isa);
}

/* Those of a set that serve the rows that the plan allows. */
static void take(const nabla_ahead_set *set,
                 const nabla_matmul_request *request, nabla_provided *out) {
  *out = (nabla_provided){.numerics = set->numerics, .bias_is_left = 1};
  for (uint32_t i = 0; i < set->count; i++) {
    out->kernels[out->count++] = set->kernels[i];
    if (request->m_max && set->kernels[i].m_last >= request->m_max) break;
  }
}

nabla_status nabla_provide_ahead(void *self,
                                 const nabla_matmul_request *request,
                                 nabla_provided *out, nabla_diag *diag) {
  (void)self;
  *out = (nabla_provided){0};
  for (size_t i = nabla_ahead.count; i > 0 && !out->count; i--)
    if (fits(&nabla_ahead.sets[i - 1], request))
      take(&nabla_ahead.sets[i - 1], request, out);
  if (!out->count)
    (void)!nabla_fail(diag, NABLA_UNSUPPORTED,
                      nabla_ahead.count
                          ? "no kernel made ahead of time has this encoding, "
                            "shape, numerics and layout for this CPU"
                          : "this library has no kernels made ahead of time");
  return NABLA_OK;
}
