/* Compiles a program with the packed weight of pack.c, and runs it:
 *
 *   compile PACKED.safetensors      prints what multiply prints
 *
 *   cc compile.c $(pkg-config --cflags --libs nabla) */
#include <stdio.h>
#include <string.h>

#include "nabla/compiler.h"

static const char program[] =
    "!w = !nabla.implicit<64x64xf32, #nabla.nf4<block = 64>>\n"
    "func.func @layer(%x: tensor<1x64xf32>, %w: !w {nabla.name = \"w\"})\n"
    "    -> tensor<1x64xf32> {\n"
    "  %y = nabla.dot_general %x, %w contracting = [1] x [1]\n"
    "      : tensor<1x64xf32>, !w\n"
    "  return %y : tensor<1x64xf32>\n"
    "}\n";

/* "w" is the argument's nabla.name; without one it would be arg1. */
static nabla_status run(nabla_executable *executable, nabla_model *model,
                        nabla_diag *diag) {
  static float x[64], y[64];
  nabla_weight weight;
  nabla_dense in = {x, NABLA_DTYPE_F32, 2, {1, 64}};
  nabla_dense out = {y, NABLA_DTYPE_F32, 2, {1, 64}};
  for (int k = 0; k < 64; k++) x[k] = (float)k;
  NABLA_TRY(nabla_model_find(model, "layer.weight", &weight, diag));
  NABLA_TRY(nabla_executable_bind(executable, "w", &weight.desc, diag));
  NABLA_TRY(nabla_executable_run(executable, "layer", &in, 1, &out, 1, diag));
  for (int n = 0; n < 4; n++) printf("%g\n", (double)y[n]);
  return NABLA_OK;
}

int main(int argc, char **argv) {
  nabla_diag diag = NABLA_DIAG_INIT;
  nabla_compiler *compiler = NULL;
  nabla_executable *executable = NULL;
  nabla_model *model = NULL;
  if (argc != 2) {
    fprintf(stderr, "usage: compile PACKED.safetensors\n");
    return 2;
  }
  nabla_status status = nabla_compiler_create(NULL, NULL, &compiler, &diag);
  if (!status)
    status = nabla_compile_text(compiler, program, strlen(program), "layer",
                                NULL, &executable, &diag);
  if (!status) status = nabla_model_open(argv[1], NULL, &model, &diag);
  if (!status) status = run(executable, model, &diag);
  if (status) {
    char text[1024];
    nabla_diag_format(&diag, text, sizeof text);
    fprintf(stderr, "compile: %s\n", text);
  }
  nabla_executable_close(executable);
  nabla_model_close(model);
  nabla_compiler_destroy(compiler);
  return status != NABLA_OK;
}
