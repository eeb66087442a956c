/* A product with a weight of a model, as an engine does it: open the model,
 * make a plan once, run it often.
 *
 *   matmul MODEL TENSOR [ROWS]   prints the first numbers of y = x . w^T
 *
 *   cc matmul.c $(pkg-config --cflags --libs nabla-runtime) */
#include "nabla/matmul.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void describe(const nabla_matmul_plan *plan) {
  nabla_matmul_info info;
  nabla_matmul_plan_describe(plan, &info);
  printf("%" PRIu64 " x %" PRIu64 ", code: %s, numerics: %s, layout: %s\n",
         info.n, info.k, nabla_matmul_provider_name(info.provider),
         nabla_numerics_name(info.numerics),
         nabla_weight_layout_name(info.layout));
  for (uint32_t i = 0; i < info.kernel_count; i++)
    printf("  kernel '%s'\n", info.kernels[i].name);
}

/* x, y and the workspace are the engine's: an arena that it makes once. */
static nabla_status run(const nabla_matmul_plan *plan, uint64_t m,
                        nabla_diag *diag) {
  nabla_matmul_info info;
  nabla_matmul_plan_describe(plan, &info);
  const uint64_t bytes = nabla_matmul_plan_workspace_size(plan, m);
  float *x = calloc(m * info.k + 1, sizeof *x);
  float *y = calloc(m * info.n + 1, sizeof *y);
  void *workspace =
      aligned_alloc(NABLA_MATMUL_WORKSPACE_ALIGNMENT, bytes / 64 * 64 + 64);
  nabla_status status = NABLA_NO_MEMORY;
  if (x && y && workspace) {
    for (uint64_t i = 0; i < m * info.k; i++) x[i] = (float)(i % 7) - 3;
    status = nabla_matmul_plan_run(plan, x, m, y, workspace, diag);
    for (uint64_t i = 0; !status && i < info.n && i < 4; i++)
      printf("y[0][%" PRIu64 "] = %g\n", i, (double)y[i]);
  }
  free(workspace);
  free(y);
  free(x);
  return status;
}

int main(int argc, char **argv) {
  if (argc < 3) {
    (void)fprintf(stderr, "usage: matmul MODEL TENSOR [ROWS]\n");
    return 2;
  }
  nabla_diag diag = NABLA_DIAG_INIT;
  nabla_model *model = NULL;
  nabla_weight weight;
  nabla_matmul_plan *plan = NULL;
  nabla_matmul_options options = {.struct_size = sizeof options};
  nabla_status status =
      nabla_pool_create(0, NULL, &options.environment.pool, &diag);
  if (!status) status = nabla_model_open(argv[1], NULL, &model, &diag);
  if (!status) status = nabla_model_find(model, argv[2], &weight, &diag);
  if (!status)
    status = nabla_matmul_plan_create(&weight.desc, &options, &plan, &diag);
  if (!status) {
    describe(plan);
    status = run(plan, argc > 3 ? strtoull(argv[3], NULL, 10) : 1, &diag);
  }
  if (status) {
    char text[512];
    (void)nabla_diag_format(&diag, text, sizeof text);
    (void)fprintf(stderr, "matmul: %s\n", text);
  }
  nabla_matmul_plan_destroy(plan);
  nabla_model_close(model);
  nabla_pool_destroy(options.environment.pool);
  return status != NABLA_OK;
}
