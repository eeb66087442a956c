/* One plan run from several threads at once: whole, in cuts, and by a pool;
 * plans made and destroyed meanwhile. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nabla/matmul.h"

enum { CALLERS = 4, CALLS = 40, N = 137, K = 704, M = 3 };

static float weights[N * K], x[M * K], wanted[M * N];
static uint8_t blocks[N * K / 32 * 18]; /* of q4_0 */

/* NULL where the plan needs none. */
static void *new_workspace(const nabla_matmul_plan *plan) {
  const uint64_t unit = NABLA_MATMUL_WORKSPACE_ALIGNMENT;
  uint64_t size = nabla_matmul_plan_workspace_size(plan, M);
  return size ? aligned_alloc(unit, (size + unit - 1) / unit * unit) : NULL;
}

static int run_cut(const nabla_matmul_plan *plan, void *workspace, float *y,
                   uint64_t cut) {
  int wrong =
      nabla_matmul_plan_prepare(plan, x, M, workspace, NULL) != NABLA_OK;
  wrong += nabla_matmul_plan_run_rows(plan, x, M, y, 0, cut, workspace, NULL) !=
           NABLA_OK;
  wrong += nabla_matmul_plan_run_rows(plan, x, M, y, cut, N, workspace, NULL) !=
           NABLA_OK;
  return wrong;
}

typedef struct caller {
  const nabla_matmul_plan *plan;
  const nabla_weight_desc *weight;
  const nabla_matmul_options *options;
  int wrong;
} caller;

static void *call_often(void *self) {
  caller *c = self;
  float y[M * N];
  void *workspace = new_workspace(c->plan);
  for (int i = 0; i < CALLS; i++) {
    nabla_matmul_plan *own = NULL;
    if (i % 8 == 0)
      c->wrong += nabla_matmul_plan_create(c->weight, c->options, &own, NULL) !=
                  NABLA_OK;
    const nabla_matmul_plan *plan = own ? own : c->plan;
    uint64_t grain = nabla_matmul_plan_grain(plan, M);
    memset(y, 0, sizeof y);
    if (i & 1)
      c->wrong +=
          run_cut(plan, workspace, y, (uint64_t)i % (N / grain) * grain);
    else
      c->wrong +=
          nabla_matmul_plan_run(plan, x, M, y, workspace, NULL) != NABLA_OK;
    c->wrong += memcmp(y, wanted, sizeof y) != 0;
    nabla_matmul_plan_destroy(own);
  }
  free(workspace);
  return NULL;
}

static int stress(const nabla_weight_desc *weight,
                  nabla_matmul_provider provider, uint32_t threads) {
  nabla_matmul_options options = {.struct_size = sizeof options,
                                  .provider = provider};
  nabla_matmul_plan *plan = NULL;
  pthread_t ids[CALLERS];
  caller callers[CALLERS];
  int wrong = 0;
  if (threads &&
      nabla_pool_create(threads, NULL, &options.environment.pool, NULL))
    return 1;
  if (nabla_matmul_plan_create(weight, &options, &plan, NULL)) return 1;
  void *workspace = new_workspace(plan);
  if (nabla_matmul_plan_run(plan, x, M, wanted, workspace, NULL)) return 1;
  free(workspace);
  for (int i = 0; i < CALLERS; i++) {
    callers[i] = (caller){plan, weight, &options, 0};
    if (pthread_create(&ids[i], NULL, call_often, &callers[i])) return 1;
  }
  for (int i = 0; i < CALLERS; i++) {
    pthread_join(ids[i], NULL);
    wrong += callers[i].wrong;
  }
  nabla_matmul_plan_destroy(plan);
  nabla_pool_destroy(options.environment.pool);
  if (wrong)
    printf("%s, %u threads: %d wrong\n", nabla_matmul_provider_name(provider),
           threads, wrong);
  return wrong != 0;
}

/* A library may have no kernels made ahead of time. */
static int has_kernels(const nabla_weight_desc *weight) {
  const nabla_matmul_options options = {.struct_size = sizeof options,
                                        .provider = NABLA_MATMUL_AHEAD};
  nabla_matmul_plan *plan = NULL;
  nabla_status status = nabla_matmul_plan_create(weight, &options, &plan, NULL);
  nabla_matmul_plan_destroy(plan);
  return status == NABLA_OK;
}

static int stress_all(const nabla_weight_desc *weight) {
  int wrong =
      stress(weight, NABLA_MATMUL_C, 0) || stress(weight, NABLA_MATMUL_C, 2);
  if (!has_kernels(weight)) {
    printf("no kernels made ahead of time\n");
    return wrong;
  }
  return wrong || stress(weight, NABLA_MATMUL_AHEAD, 0) ||
         stress(weight, NABLA_MATMUL_AHEAD, 2);
}

int main(void) {
  for (int i = 0; i < N * K; i++) weights[i] = (float)(i % 13) / 8 - 0.7f;
  for (int i = 0; i < M * K; i++) x[i] = (float)(i % 17) / 4 - 2;
  const nabla_ggml *ggml = nabla_ggml_find("q4_0");
  const nabla_weight_desc dense = {
      .rank = 2,
      .shape = {N, K},
      .dtype = NABLA_DTYPE_F32,
      .component_count = 1,
      .components = {{.data = weights, .bytes = sizeof weights}}};
  nabla_weight_desc packed = dense;
  packed.layout = (nabla_storage){.kind = NABLA_STORAGE_BLOCKS, .ggml = ggml};
  packed.components[0] =
      (nabla_weight_component){.data = blocks, .bytes = sizeof blocks};
  if (nabla_ggml_encode(ggml, NABLA_DTYPE_F32, weights, N * K / 32, blocks,
                        NULL, NULL))
    return 1;
  return stress_all(&dense) || stress_all(&packed);
}
