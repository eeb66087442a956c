/* The provider of kernels made ahead of time. */
#include <string.h>

#include "lib/base/x86_features.h"
#include "lib/runtime/matmul/ahead.h"

#if defined(__x86_64__)
/* Whether kernels may use AMX. This asks the system for it, once; a limit below
 * the best is one without. */
static int has_tiles(nabla_isa limit) {
  return limit == NABLA_ISA_BEST && nabla_x86_has(NABLA_X86_AVX512BF16) &&
         nabla_x86_has(NABLA_X86_AMX_BF16) && nabla_x86_tiles_allowed();
}
#endif

int nabla_level_available(nabla_level level, nabla_isa limit) {
#if defined(__x86_64__)
  const nabla_isa most = nabla_isa_resolve(limit);
  switch (level) {
#define LEVEL(id, isa, also, first, k_most, target)                           \
  case NABLA_LEVEL_##id:                                                      \
    return NABLA_ISA_##isa <= most && nabla_isa_available(NABLA_ISA_##isa) && \
           (also);
#include "lib/runtime/matmul/isa_levels.def"
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
                      const nabla_weight_view *weight) {
  const nabla_storage *layout = &weight->layout;
  const nabla_format *format = &layout->format;
  if (set->kind != layout->kind) return 0;
  if (layout->kind == NABLA_STORAGE_BLOCKS)
    return !strcmp(set->ggml, layout->ggml->name);
  if (layout->kind == NABLA_STORAGE_DENSE) return set->dense == weight->dtype;
  return !strcmp(set->encoding, format->encoding->name) &&
         set->granularity == format->granularity &&
         set->scale == format->scale && set->zero_point == format->zero_point &&
         !format->segment && (!set->block || set->block == format->block) &&
         (set->scale != NABLA_SCALE_DYNAMIC8 ||
          set->nested_block == layout->nested_block);
}

static int has_size(const nabla_ahead_set *set,
                    const nabla_weight_view *weight) {
  if (set->any_size)
    return weight->k && weight->k % set->any_size == 0 &&
           (!set->k || weight->k <= set->k);
  return set->n == weight->n && set->k == weight->k;
}

/* Kernels take f32; steps but the bias they have not. The level comes last:
 * asking for it may ask the system. */
static int fits(const nabla_ahead_set *set,
                const nabla_matmul_request *request) {
  return (!request->m_max || request->m_max >= set->first) &&
         request->x_type == NABLA_DTYPE_F32 &&
         request->y_type == NABLA_DTYPE_F32 &&
         set->numerics == request->numerics && set->layout == request->layout &&
         has_format(set, &request->weight) && has_size(set, &request->weight) &&
         nabla_level_available(set->level, request->isa);
}

/* Those of a set that serve the rows that the plan allows, up to `last`. */
static void take(const nabla_ahead_set *set, uint64_t last,
                 nabla_provided *out) {
  for (uint32_t i = 0; i < set->count; i++) {
    nabla_provided_kernel *kernel = &out->kernels[out->count++];
    *kernel = set->kernels[i];
    if (kernel->m_last < last) continue;
    kernel->m_last = last;
    break;
  }
}

/* The best of the first `count` sets, or NULL. */
static const nabla_ahead_set *find(const nabla_matmul_request *request,
                                   size_t count) {
  while (count-- > 0)
    if (fits(&nabla_ahead.sets[count], request))
      return &nabla_ahead.sets[count];
  return NULL;
}

/* The best of those before `set` that serves all rows, as sets that serve but
 * many come last. */
static const nabla_ahead_set *find_for_few(const nabla_matmul_request *request,
                                           const nabla_ahead_set *set) {
  while (set && set->first > 1)
    set = find(request, (size_t)(set - nabla_ahead.sets));
  return set;
}

/* Whether a set of any shape, or of any format and shape, fits but for the CPU
 * and what else is asked for. */
static int any_fits(const nabla_matmul_request *request, int with_size) {
  for (size_t i = 0; i < nabla_ahead.count; i++)
    if (has_format(&nabla_ahead.sets[i], &request->weight) &&
        (!with_size || has_size(&nabla_ahead.sets[i], &request->weight)))
      return 1;
  return 0;
}

static const char *name_of(const nabla_weight_view *weight) {
  const nabla_storage *layout = &weight->layout;
  return layout->kind == NABLA_STORAGE_BLOCKS ? layout->ggml->name
         : layout->kind == NABLA_STORAGE_PLANES
             ? layout->format.encoding->name
             : nabla_dtype_name(weight->dtype);
}

/* Why none of the sets fits, to `diag`. */
static void explain(const nabla_matmul_request *request, nabla_diag *diag) {
  const nabla_weight_view *weight = &request->weight;
  const char *name = name_of(weight);
  const unsigned long long k = weight->k;
  nabla_status status = NABLA_UNSUPPORTED;
  if (!nabla_ahead.count)
    status = nabla_fail(diag, status,
                        "this library has no kernels made ahead of time: it "
                        "was built without the compiler");
  else if (!any_fits(request, 0))
    status = nabla_fail(diag, status,
                        "no kernel made ahead of time has %s with such blocks "
                        "and scales",
                        name);
  else if (!any_fits(request, 1))
    status = nabla_fail(diag, status,
                        "no kernel made ahead of time has %s with rows of %llu "
                        "elements",
                        name, k);
  else if (request->x_type != NABLA_DTYPE_F32 ||
           request->y_type != NABLA_DTYPE_F32)
    status = nabla_fail(diag, status,
                        "kernels made ahead of time have x and y in F32");
  else
    status = nabla_fail(diag, status,
                        "no kernel made ahead of time has %s in this layout "
                        "and these numerics for this CPU, or for what its "
                        "instruction sets are limited to",
                        name);
  (void)status;
}

nabla_status nabla_provide_ahead(void *self,
                                 const nabla_matmul_request *request,
                                 nabla_provided *out, nabla_diag *diag) {
  (void)self;
  *out = (nabla_provided){0};
  const nabla_ahead_set *many = find(request, nabla_ahead.count);
  const nabla_ahead_set *few = find_for_few(request, many);
  if (few) {
    const uint64_t most = request->m_max ? request->m_max : UINT64_MAX;
    *out = (nabla_provided){.numerics = few->numerics, .bias_is_left = 1};
    take(few, many == few ? most : many->first - 1, out);
    if (many != few) take(many, most, out);
  } else {
    explain(request, diag);
  }
  return NABLA_OK;
}
