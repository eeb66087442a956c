/* Plans: made, asked, destroyed. Runs are in matmul_run.c. */
#include "nabla/matmul.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "lib/base/memory.h"
#include "lib/base/require.h"
#include "lib/runtime/matmul/matmul_internal.h"
#include "lib/runtime/program/guarded.h"
#include "quant/ahead/ahead_formats.h"

static const char *const names[] = {
#define ROW(id, name, summary) name,
    NABLA_MATMUL_PROVIDER_LIST(ROW)
#undef ROW
};

static nabla_provide_function *const providers[] = {
    [NABLA_MATMUL_COMPILED] = nabla_provide_compiled,
    [NABLA_MATMUL_AHEAD] = nabla_provide_ahead,
    [NABLA_MATMUL_C] = nabla_provide_c};

const char *nabla_matmul_provider_name(nabla_matmul_provider provider) {
  return (uint32_t)provider < NABLA_MATMUL_PROVIDER_COUNT ? names[provider]
                                                          : NULL;
}

/* ---- choosing ---------------------------------------------------------------
 */

/* Asks for what is wanted, with scales as they are or converted. */
static nabla_status ask_once(nabla_matmul_plan *plan,
                             nabla_matmul_provider from, nabla_diag *diag) {
  nabla_provide_function *const provide = providers[from];
  nabla_matmul_request other = plan->request;
  nabla_diag last = NABLA_DIAG_INIT;
  NABLA_TRY(provide(NULL, &other, &plan->provided, diag));
  if (plan->provided.count || other.weight.layout.kind != NABLA_STORAGE_PLANES)
    return NABLA_OK;
  for (uint32_t i = 1; i < NABLA_AHEAD_CONVERSIONS; i++) {
    if (!nabla_ahead_convert(&plan->request.weight.layout.format,
                             other.weight.k, i, &other.weight.layout.format))
      continue;
    const nabla_status status = provide(NULL, &other, &plan->provided, &last);
    if (status) {
      if (diag) *diag = last;
      return status;
    }
    if (!plan->provided.count) continue;
    plan->conversion = i;
    plan->read = other.weight.layout.format;
    return NABLA_OK;
  }
  return NABLA_OK;
}

/* Asks for what is wanted, then for less: in place, then f32. */
static nabla_status ask(nabla_matmul_plan *plan, nabla_matmul_provider from,
                        nabla_diag *diag) {
  nabla_matmul_request *request = &plan->request;
  const nabla_numerics numerics = request->numerics;
  const nabla_weight_layout layout = request->layout;
  for (int i = 0; i < 4; i++) {
    const int exact = i & 2, in_place = i & 1;
    if ((exact && numerics == NABLA_NUMERICS_F32) ||
        (in_place && layout == NABLA_WEIGHT_LAYOUT_IN_PLACE))
      continue;
    request->numerics = exact ? NABLA_NUMERICS_F32 : numerics;
    request->layout = in_place ? NABLA_WEIGHT_LAYOUT_IN_PLACE : layout;
    NABLA_TRY(ask_once(plan, from, diag));
    if (!plan->provided.count) continue;
    plan->provider = from;
    return NABLA_OK;
  }
  request->numerics = numerics;
  request->layout = layout;
  return NABLA_OK;
}

/* Products in C are a choice of the caller, or worth a note: `why` has what
 * the providers before said. */
static void note_c(nabla_matmul_plan *plan, nabla_matmul_provider wanted,
                   const nabla_diag *why) {
  if (plan->provider != NABLA_MATMUL_C || wanted != NABLA_MATMUL_BEST) return;
  memcpy(plan->note, why->what, sizeof plan->note);
}

static nabla_status choose(nabla_matmul_plan *plan,
                           nabla_matmul_provider wanted, nabla_diag *diag) {
  nabla_diag why = NABLA_DIAG_INIT;
  for (int i = NABLA_MATMUL_COMPILED;
       i < NABLA_MATMUL_PROVIDER_COUNT && !plan->provided.count; i++) {
    if (wanted != NABLA_MATMUL_BEST && (int)wanted != i) continue;
    const nabla_status status = ask(plan, (nabla_matmul_provider)i, &why);
    if (!status) continue;
    if (diag) *diag = why;
    return status;
  }
  if (plan->provided.count) {
    note_c(plan, wanted, &why);
    return NABLA_OK;
  }
  nabla_status status = nabla_fail(diag, NABLA_UNSUPPORTED, "%s", why.what);
  nabla_diag_set_next(diag, "leave the provider out: C has every encoding");
  return status;
}

/* The diag of a plan that was made: nothing, or the note. */
static void tell(const nabla_matmul_plan *plan, nabla_diag *diag) {
  if (!diag) return;
  *diag = (nabla_diag)NABLA_DIAG_INIT;
  if (!plan->note[0]) return;
  (void)!nabla_fail(diag, NABLA_OK, "computed in C, several times slower: %s",
                    plan->note);
  nabla_diag_set_next(diag,
                      "nabla-quant plan names encodings that have kernels; "
                      "nabla_compiler_provide_plans generates them");
}

/* ---- rearranging
 * ------------------------------------------------------------- */

static double milliseconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

typedef struct packing {
  const nabla_kernel *kernel;
  const uint64_t *args;
  uint64_t n;
} packing;

static void pack_share(void *context, uint32_t worker, uint32_t workers) {
  const packing *p = context;
  uint64_t begin, end;
  const uint64_t grain = p->kernel->grain;
  nabla_pool_split(p->n / grain + (p->n % grain != 0), workers, worker, &begin,
                   &end);
  begin *= grain;
  end = end * grain < p->n ? end * grain : p->n;
  if (begin < end) p->kernel->prepack(p->args, begin, end);
}

/* What a kernel before number `i` reads that has the same form; NULL if none.
 */
static void *packed_before(const nabla_matmul_plan *plan, uint32_t i) {
  const uint32_t form = plan->provided.kernels[i].code.form;
  for (uint32_t j = 0; form && j < i; j++)
    if (plan->packed[j] && plan->provided.kernels[j].code.form == form)
      return plan->packed[j];
  return NULL;
}

static nabla_status rearrange(nabla_matmul_plan *plan, nabla_diag *diag) {
  const nabla_weight_view *weight = &plan->request.weight;
  const double start = milliseconds();
  for (uint32_t i = 0; i < plan->provided.count; i++) {
    const nabla_kernel *kernel = &plan->provided.kernels[i].code;
    uint64_t bytes;
    if (!kernel->prepack) continue;
    if (!nabla_kernel_tiles_size(&kernel->packed, weight->n, weight->k, &bytes))
      return nabla_fail(diag, NABLA_TOO_LARGE,
                        "the rearranged weight is larger than any memory");
    plan->packed[i] = packed_before(plan, i);
    if (plan->packed[i]) continue;
    plan->packed[i] = nabla_allocations_allocate(
        &plan->blocks, plan->environment.allocator, bytes);
    if (!plan->packed[i])
      return nabla_fail(
          diag, NABLA_NO_MEMORY,
          "cannot allocate %" PRIu64 " bytes for a rearranged weight", bytes);
    plan->packed_bytes += bytes;
    uint64_t args[NABLA_KERNEL_ARGS];
    memcpy(args, plan->args, sizeof args);
    args[NABLA_ARG_PACKED] = (uintptr_t)plan->packed[i];
    packing share = {kernel, args, weight->n};
    nabla_pool_run(plan->environment.pool, pack_share, &share);
  }
  plan->packed_ms = milliseconds() - start;
  return NABLA_OK;
}

/* ---- making
 * ------------------------------------------------------------------- */

static void set_args(nabla_matmul_plan *plan) {
  const nabla_weight_view *weight = &plan->request.weight;
  uint64_t *args = plan->args;
  args[NABLA_ARG_CODES] = (uintptr_t)weight->codes;
  args[NABLA_ARG_SCALES] = (uintptr_t)weight->scales;
  args[NABLA_ARG_ZERO_POINTS] = (uintptr_t)weight->zero_points;
  args[NABLA_ARG_N] = weight->n;
  args[NABLA_ARG_K] = weight->k;
  args[NABLA_ARG_NESTED_SCALES] = (uintptr_t)weight->nested_scales;
  args[NABLA_ARG_NESTED_OFFSET] = (uintptr_t)weight->nested_offset;
  args[NABLA_ARG_NESTED_MAP] = (uintptr_t)weight->nested_map;
  args[NABLA_ARG_CONTEXT] = (uintptr_t)&plan->request;
  if (plan->request.bias && !plan->provided.bias_is_left)
    args[NABLA_ARG_EPILOGUE] = (uintptr_t)plan->request.bias;
}

/* Rows beyond which sizes of x, y or the workspace pass 63 bits. */
static uint64_t limit_of(const nabla_matmul_plan *plan) {
  const nabla_weight_view *weight = &plan->request.weight;
  const uint64_t longer = weight->n > weight->k ? weight->n : weight->k;
  const uint64_t most = (uint64_t)1 << 40;
  uint64_t limit = INT64_MAX / 64 / (longer ? longer : 1);
  if (limit > most) limit = most;
  const uint64_t asked = plan->request.m_max;
  return asked && asked < limit ? asked : limit;
}

static nabla_status fill(nabla_matmul_plan *plan,
                         const nabla_weight_desc *weight,
                         const nabla_matmul_options *options,
                         nabla_diag *diag) {
  plan->environment = options->environment;
  NABLA_TRY(nabla_matmul_check(weight, options, &plan->request, diag));
  NABLA_TRY(choose(plan, options->provider, diag));
  plan->m_limit = limit_of(plan);
  set_args(plan);
  NABLA_TRY(nabla_matmul_convert_scales(plan, diag));
  NABLA_TRY(rearrange(plan, diag));
  return nabla_guarded_check_weight(weight, diag);
}

nabla_status nabla_matmul_plan_create(const nabla_weight_desc *weight,
                                      const nabla_matmul_options *options,
                                      nabla_matmul_plan **out,
                                      nabla_diag *diag) {
  NABLA_REQUIRE(weight, diag);
  NABLA_REQUIRE(out, diag);
  static const nabla_matmul_options defaults = {.struct_size = sizeof defaults};
  if (!options) options = &defaults;
  NABLA_REQUIRE_SIZE(options, "options of a plan for products", diag);
  void *block = NULL;
  NABLA_TRY(nabla_alloc(options->environment.allocator, 1,
                        sizeof(nabla_matmul_plan), &block, diag));
  nabla_matmul_plan *plan = block;
  const nabla_status status = fill(plan, weight, options, diag);
  if (status) {
    plan->environment.allocator = options->environment.allocator;
    nabla_matmul_plan_destroy(plan);
    if (weight->name)
      nabla_diag_set_tensor(diag, weight->name, strlen(weight->name));
    return status;
  }
  tell(plan, diag);
  *out = plan;
  return NABLA_OK;
}

void nabla_matmul_plan_destroy(nabla_matmul_plan *plan) {
  if (!plan) return;
  const nabla_allocator *allocator = plan->environment.allocator;
  nabla_allocations_clear(&plan->blocks, allocator);
  if (plan->provided.release) plan->provided.release(plan->provided.owner);
  nabla_free(allocator, plan, 1, sizeof *plan);
}

void nabla_matmul_plan_describe(const nabla_matmul_plan *plan,
                                nabla_matmul_info *out) {
  const nabla_matmul_request *request = &plan->request;
  *out = (nabla_matmul_info){.provider = plan->provider,
                             .numerics = plan->provided.numerics,
                             .layout = NABLA_WEIGHT_LAYOUT_IN_PLACE,
                             .n = request->weight.n,
                             .k = request->weight.k,
                             .m_max = request->m_max,
                             .packed_bytes = plan->packed_bytes,
                             .packed_ms = plan->packed_ms,
                             .note = plan->note[0] ? plan->note : NULL,
                             .kernel_count = plan->provided.count};
  for (uint32_t i = 0; i < plan->provided.count; i++) {
    out->kernels[i].name = plan->provided.kernels[i].name;
    out->kernels[i].m_last = plan->provided.kernels[i].m_last;
    if (plan->packed[i]) out->layout = NABLA_WEIGHT_LAYOUT_PREPACKED;
  }
}
