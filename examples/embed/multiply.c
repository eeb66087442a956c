/* Multiplies by the packed weight of pack.c, without a compiler:
 *
 *   multiply PACKED.safetensors     prints the first numbers of y = x . w^T
 *
 *   cc multiply.c $(pkg-config --cflags --libs nabla-runtime) */
#include <stdio.h>
#include <stdlib.h>

#include "nabla/matmul.h"

static nabla_status multiply(const nabla_weight *weight, nabla_diag *diag) {
  static float x[64], y[64];
  nabla_matmul_plan *plan;
  for (int k = 0; k < 64; k++) x[k] = (float)k;
  NABLA_TRY(nabla_matmul_plan_create(&weight->desc, NULL, &plan, diag));
  void *workspace = aligned_alloc(NABLA_MATMUL_WORKSPACE_ALIGNMENT,
                                  nabla_matmul_plan_workspace_size(plan, 1));
  const nabla_status status =
      nabla_matmul_plan_run(plan, x, 1, y, workspace, diag);
  free(workspace);
  nabla_matmul_plan_destroy(plan);
  for (int n = 0; n < 4 && !status; n++) printf("%g\n", (double)y[n]);
  return status;
}

int main(int argc, char **argv) {
  nabla_diag diag = NABLA_DIAG_INIT;
  nabla_model *model = NULL;
  nabla_weight weight;
  if (argc != 2) {
    fprintf(stderr, "usage: multiply PACKED.safetensors\n");
    return 2;
  }
  nabla_status status = nabla_model_open(argv[1], NULL, &model, &diag);
  if (!status) status = nabla_model_find(model, "layer.weight", &weight, &diag);
  if (!status && (weight.desc.rank != 2 || weight.desc.shape[0] != 64 ||
                  weight.desc.shape[1] != 64))
    status = nabla_fail(&diag, NABLA_UNSUPPORTED,
                        "layer.weight is not 64 x 64, as pack writes it");
  if (!status) status = multiply(&weight, &diag);
  if (status) {
    char text[1024];
    nabla_diag_format(&diag, text, sizeof text);
    fprintf(stderr, "multiply: %s\n", text);
  }
  nabla_model_close(model);
  return status != NABLA_OK;
}
