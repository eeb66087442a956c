/* What an engine does: write a model, map it, look at a weight in place, and
 * multiply with it, without a compiler in the process. */
#include <stdio.h>
#include <string.h>

#include "nabla/executable.h"
#include "nabla/matmul.h"
#include "nabla/model.h"
#include "nabla/safetensors.h"

static nabla_status write_model(const char *path, nabla_diag *diag) {
  const float values[4] = {1, 2, 3, 4};
  const uint64_t shape[2] = {2, 2};
  nabla_safetensors_writer *writer = NULL;
  size_t id;
  nabla_status status =
      nabla_safetensors_writer_create(NULL, NULL, &writer, diag);
  if (status) return status;
  status = nabla_safetensors_writer_add(writer, "w", 1, NABLA_DTYPE_F32, shape,
                                        2, &id, diag);
  if (!status) status = nabla_safetensors_writer_begin(writer, path, 1, diag);
  if (!status)
    status = nabla_safetensors_writer_write(writer, id, 0, values,
                                            sizeof values, diag);
  if (!status) status = nabla_safetensors_writer_commit(writer, diag);
  nabla_safetensors_writer_destroy(writer);
  return status;
}

/* (1 10) . w^T, w = (1 2; 3 4) */
static int multiplies(const nabla_weight *weight, nabla_diag *diag) {
  const float x[2] = {1, 10};
  float y[2] = {0, 0};
  nabla_matmul_plan *plan = NULL;
  nabla_status status =
      nabla_matmul_plan_create(&weight->desc, NULL, &plan, diag);
  if (!status && nabla_matmul_plan_workspace_size(plan, 1)) return 0;
  if (!status) status = nabla_matmul_plan_run(plan, x, 1, y, NULL, diag);
  nabla_matmul_plan_destroy(plan);
  return !status && y[0] == 21 && y[1] == 43;
}

static int maps_llvm(void) {
  char line[512];
  int found = 0;
  FILE *file = fopen("/proc/self/maps", "r");
  while (file && fgets(line, sizeof line, file))
    found |= strstr(line, "LLVM") || strstr(line, "MLIR");
  if (file) fclose(file);
  return found;
}

int main(int argc, char **argv) {
  nabla_diag diag = NABLA_DIAG_INIT;
  nabla_model *model = NULL;
  nabla_weight weight;
  if (argc != 2) return 2;
  nabla_status status = write_model(argv[1], &diag);
  if (!status) status = nabla_model_open(argv[1], NULL, &model, &diag);
  if (!status) status = nabla_model_find(model, "w", &weight, &diag);
  if (status) {
    fprintf(stderr, "%s\n", diag.what);
    return 1;
  }
  const float *values = weight.desc.components[0].data;
  const int good = weight.copied_bytes == 0 && values[3] == 4 &&
                   multiplies(&weight, &diag) && !maps_llvm();
  nabla_model_close(model);
  nabla_executable *executable = NULL;
  const nabla_status opened =
      nabla_executable_open(argv[1], NULL, &executable, &diag);
  nabla_executable_close(executable);
  return !(good && opened == NABLA_CORRUPT); /* weights are no program */
}
