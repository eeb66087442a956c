/* Runs of plans: nothing is allocated, nothing is locked but the pool's turn,
 * and no plan is written. */
#include <inttypes.h>
#include <string.h>

#include "lib/base/require.h"
#include "lib/runtime/matmul/matmul_internal.h"
#include "lib/runtime/program/guarded.h"

/* Products below so many multiplications are done by the caller alone: to ask
 * the workers takes as long. */
#define SHARED_WORK ((uint64_t)1 << 18)

/* ---- kernels ------------------------------------------------------------- */

static uint32_t index_for(const nabla_matmul_plan *plan, uint64_t m) {
  const nabla_provided *provided = &plan->provided;
  uint32_t i = 0;
  while (i + 1 < provided->count && provided->kernels[i].m_last < m) i++;
  return i;
}

static uint64_t size_for(const nabla_matmul_plan *plan, uint32_t kernel,
                         uint64_t m) {
  uint64_t bytes;
  if (!nabla_kernel_tiles_size(&plan->provided.kernels[kernel].code.workspace,
                               m, plan->request.weight.k, &bytes))
    return UINT64_MAX;
  const uint64_t line = NABLA_MATMUL_WORKSPACE_ALIGNMENT;
  if (bytes > UINT64_MAX - line) return UINT64_MAX;
  return (bytes + line - 1) / line * line;
}

uint64_t nabla_matmul_plan_workspace_size(const nabla_matmul_plan *plan,
                                          uint64_t m) {
  if (m > plan->m_limit) return UINT64_MAX;
  return size_for(plan, index_for(plan, m), m);
}

uint64_t nabla_matmul_plan_workspace_max(const nabla_matmul_plan *plan,
                                         uint64_t m) {
  uint64_t most = 0;
  if (m > plan->m_limit) return UINT64_MAX;
  for (uint32_t i = 0; i <= index_for(plan, m); i++) {
    const uint64_t last = plan->provided.kernels[i].m_last;
    const uint64_t bytes = size_for(plan, i, last < m ? last : m);
    if (bytes > most) most = bytes;
  }
  return most;
}

uint64_t nabla_matmul_plan_grain(const nabla_matmul_plan *plan, uint64_t m) {
  const uint32_t i = index_for(plan, m);
  const uint32_t grain = plan->provided.kernels[i].code.grain;
  return grain ? grain : 1;
}

/* ---- checking ------------------------------------------------------------ */

static nabla_status fail_pointer(const char *name, const void *pointer,
                                 uint64_t alignment, nabla_diag *diag) {
  if (!pointer)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT, "%s is NULL", name);
  return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                    "%s is not aligned to %" PRIu64 " bytes", name, alignment);
}

static int is_bad(const void *pointer, uint64_t alignment) {
  return !pointer || (uintptr_t)pointer % alignment != 0;
}

static nabla_status fail_rows(const nabla_matmul_plan *plan, uint64_t m,
                              nabla_diag *diag) {
  nabla_status status =
      nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                 "%" PRIu64 " rows are more than the %" PRIu64 " of the plan",
                 m, plan->m_limit);
  nabla_diag_set_next(diag, "make a plan with a larger m_max, or with 0");
  return status;
}

/* NABLA_IO when the weight is of a model that is spent. */
static nabla_status check_guarded(const nabla_matmul_plan *plan,
                                  nabla_diag *diag) {
  const nabla_weight_view *weight = &plan->request.weight;
  if (!nabla_guarded_is_any_spent()) return NABLA_OK;
  NABLA_TRY(nabla_guarded_check(weight->codes, diag));
  NABLA_TRY(nabla_guarded_check(weight->scales, diag));
  NABLA_TRY(nabla_guarded_check(weight->nested_scales, diag));
  return nabla_guarded_check(weight->zero_points, diag);
}

/* One call: what it is of, and the arguments of the kernel. */
typedef struct call {
  const nabla_matmul_plan *plan;
  const nabla_kernel *kernel;
  uint64_t args[NABLA_KERNEL_ARGS];
} call;

/* Checks what prepare and run take. */
static nabla_status begin(const nabla_matmul_plan *plan, const void *x,
                          uint64_t m, void *workspace, call *out,
                          nabla_diag *diag) {
  const uint64_t element = nabla_dtype_bits(plan->request.x_type) / 8;
  const uint32_t index = index_for(plan, m);
  out->plan = plan;
  out->kernel = &plan->provided.kernels[index].code;
  if (m > plan->m_limit) return fail_rows(plan, m, diag);
  NABLA_TRY(check_guarded(plan, diag));
  if (plan->request.weight.k && is_bad(x, element))
    return fail_pointer("x", x, element, diag);
  if (out->kernel->workspace.bytes && plan->request.weight.k &&
      is_bad(workspace, NABLA_MATMUL_WORKSPACE_ALIGNMENT))
    return fail_pointer("the workspace", workspace,
                        NABLA_MATMUL_WORKSPACE_ALIGNMENT, diag);
  memcpy(out->args, plan->args, sizeof out->args);
  out->args[NABLA_ARG_X] = (uintptr_t)x;
  out->args[NABLA_ARG_M] = m;
  out->args[NABLA_ARG_WORKSPACE] = (uintptr_t)workspace;
  out->args[NABLA_ARG_PACKED] = (uintptr_t)plan->packed[index];
  return NABLA_OK;
}

static nabla_status set_y(call *c, void *y, nabla_diag *diag) {
  const uint64_t element = nabla_dtype_bits(c->plan->request.y_type) / 8;
  if (is_bad(y, element)) return fail_pointer("y", y, element, diag);
  c->args[NABLA_ARG_Y] = (uintptr_t)y;
  return NABLA_OK;
}

/* ---- running ------------------------------------------------------------- */

static void add_bias(const call *c, uint64_t n0, uint64_t n1) {
  const float *bias = c->plan->request.bias;
  float *y = (float *)(uintptr_t)c->args[NABLA_ARG_Y];
  for (uint64_t i = 0; i < c->args[NABLA_ARG_M]; i++) {
    for (uint64_t n = n0; n < n1; n++) y[n] += bias[n];
    y += c->plan->request.weight.n;
  }
}

static void run_columns(const call *c, uint64_t n0, uint64_t n1) {
  c->kernel->run(c->args, n0, n1);
  if (c->plan->request.bias && c->plan->provided.bias_is_left)
    add_bias(c, n0, n1);
}

static void run_share(void *context, uint32_t worker, uint32_t workers) {
  const call *c = context;
  const uint64_t n = c->plan->request.weight.n;
  const uint64_t grain = c->kernel->grain;
  uint64_t begin_at, end_at;
  nabla_pool_split(n / grain + (n % grain != 0), workers, worker, &begin_at,
                   &end_at);
  begin_at *= grain;
  end_at = end_at * grain < n ? end_at * grain : n;
  if (begin_at < end_at) run_columns(c, begin_at, end_at);
}

/* Rows of x are cut between tiles of the workspace. */
static void prepare_share(void *context, uint32_t worker, uint32_t workers) {
  const call *c = context;
  const uint64_t m = c->args[NABLA_ARG_M];
  const uint64_t rows = c->kernel->workspace.rows;
  uint64_t begin_at, end_at;
  nabla_pool_split(m / rows + (m % rows != 0), workers, worker, &begin_at,
                   &end_at);
  begin_at *= rows;
  end_at = end_at * rows < m ? end_at * rows : m;
  if (begin_at < end_at) c->kernel->prepare(c->args, begin_at, end_at);
}

static int is_shared(const call *c, uint64_t work) {
  const nabla_pool *pool = c->plan->environment.pool;
  return pool && work >= SHARED_WORK && nabla_pool_size(pool) > 1;
}

nabla_status nabla_matmul_plan_run(const nabla_matmul_plan *plan, const void *x,
                                   uint64_t m, void *y, void *workspace,
                                   nabla_diag *diag) {
  NABLA_REQUIRE(plan, diag);
  call c;
  const nabla_weight_view *weight = &plan->request.weight;
  nabla_pool *pool = plan->environment.pool;
  if (!m || !weight->n) return NABLA_OK;
  NABLA_TRY(begin(plan, x, m, workspace, &c, diag));
  NABLA_TRY(set_y(&c, y, diag));
  const uint64_t x_elements = m * weight->k; /* below 2^57: limit_of */
  if (c.kernel->prepare) {
    if (m > 1 && is_shared(&c, x_elements))
      nabla_pool_run(pool, prepare_share, &c);
    else
      c.kernel->prepare(c.args, 0, m);
  }
  uint64_t work;
  if (__builtin_mul_overflow(x_elements, weight->n, &work)) work = UINT64_MAX;
  if (is_shared(&c, work))
    nabla_pool_run(pool, run_share, &c);
  else
    run_columns(&c, 0, weight->n);
  return check_guarded(plan, diag);
}

nabla_status nabla_matmul_plan_prepare(const nabla_matmul_plan *plan,
                                       const void *x, uint64_t m,
                                       void *workspace, nabla_diag *diag) {
  NABLA_REQUIRE(plan, diag);
  call c;
  if (!m) return NABLA_OK;
  NABLA_TRY(begin(plan, x, m, workspace, &c, diag));
  if (c.kernel->prepare) c.kernel->prepare(c.args, 0, m);
  return NABLA_OK;
}

nabla_status nabla_matmul_plan_run_rows(const nabla_matmul_plan *plan,
                                        const void *x, uint64_t m, void *y,
                                        uint64_t n0, uint64_t n1,
                                        void *workspace, nabla_diag *diag) {
  NABLA_REQUIRE(plan, diag);
  call c;
  const uint64_t n = plan->request.weight.n;
  if (n0 > n1 || n1 > n)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "columns %" PRIu64 " to %" PRIu64 " of %" PRIu64, n0, n1,
                      n);
  if (!m || n0 == n1) return NABLA_OK;
  NABLA_TRY(begin(plan, x, m, workspace, &c, diag));
  NABLA_TRY(set_y(&c, y, diag));
  const uint64_t grain = c.kernel->grain;
  if (n0 % grain || (n1 % grain && n1 != n))
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "columns are cut at multiples of %" PRIu64
                      ", not at %" PRIu64,
                      grain, n0 % grain ? n0 : n1);
  run_columns(&c, n0, n1);
  return check_guarded(plan, diag);
}
