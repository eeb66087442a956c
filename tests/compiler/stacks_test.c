/* nabla/compiler.h and nabla/executable.h on threads with small stacks: what
 * parses and compiles has a stack of its own, what runs needs little. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nabla/compiler.h"
#include "nabla/matmul.h"
#include "nabla/pool.h"

#define DEEP 240 /* levels, near the limit of what is read */

/* What nabla/compiler.h says that a thread must have, and what some engines
 * give theirs. */
static const size_t stacks[] = {NABLA_CALLER_STACK_BYTES, (size_t)512 << 10};
#define STACKS (sizeof stacks / sizeof *stacks)

enum { ROWS = 3, INPUTS = 64, OUTPUTS = 48 };

static const char layer[] =
    "!w = !nabla.implicit<48x64xf32, #nabla.nf4<block = 64>>\n"
    "func.func @layer(%x: tensor<?x64xf32>, %w: tensor<48x64xf32>)\n"
    "    -> tensor<?x48xf32> {\n"
    "  %q = nabla.quantize %w : tensor<48x64xf32> -> !w\n"
    "  %y = nabla.dot_general %x, %q contracting = [1] x [1]\n"
    "      : tensor<?x64xf32>, !w\n"
    "  %s = nabla.softmax %y dim = 1 : tensor<?x48xf32>\n"
    "  %e = nabla.exp %s : tensor<?x48xf32>\n"
    "  return %e : tensor<?x48xf32>\n"
    "}\n";

/* A thread's work, and what went wrong in it: Criterion's own checks would need
 * more stack. */
typedef struct work {
  nabla_status (*run)(nabla_diag *diag);
  nabla_status status;
  nabla_diag diag;
} work;

static void *start(void *self) {
  work *w = self;
  w->status = w->run(&w->diag);
  return NULL;
}

static void expect_on_small_stacks(nabla_status (*run)(nabla_diag *diag)) {
  for (size_t i = 0; i < STACKS; i++) {
    work w = {.run = run, .diag = NABLA_DIAG_INIT};
    pthread_t thread;
    pthread_attr_t attributes;
    cr_assert_eq(pthread_attr_init(&attributes), 0);
    cr_assert_eq(pthread_attr_setstacksize(&attributes, stacks[i]), 0);
    cr_assert_eq(pthread_create(&thread, &attributes, start, &w), 0);
    pthread_attr_destroy(&attributes);
    cr_assert_eq(pthread_join(thread, NULL), 0);
    cr_expect_eq(w.status, NABLA_OK, "%zu KiB: %s", stacks[i] >> 10,
                 w.diag.what);
  }
}

static void ignore(void *self, const char *text) { (void)self, (void)text; }

static nabla_status make(nabla_compiler **out, nabla_diag *diag) {
  const nabla_compiler_options options = {
      .struct_size = sizeof options, .cache = "", .diagnostic = ignore};
  return nabla_compiler_create(&options, NULL, out, diag);
}

static nabla_status run_layer(nabla_executable *executable, nabla_diag *diag) {
  static float x[ROWS * INPUTS], w[OUTPUTS * INPUTS];
  const nabla_dense in[] = {{x, NABLA_DTYPE_F32, 2, {ROWS, INPUTS}},
                            {w, NABLA_DTYPE_F32, 2, {OUTPUTS, INPUTS}}};
  nabla_dense out = {0};
  NABLA_TRY(nabla_executable_run(executable, "layer", in, 2, &out, 1, diag));
  nabla_dense_release(executable, &out);
  return NABLA_OK;
}

/* ---- the cases ---- */

static nabla_status compile_and_run(nabla_diag *diag) {
  nabla_compiler *compiler;
  nabla_executable *executable;
  NABLA_TRY(make(&compiler, diag));
  nabla_status status = nabla_compile_text(compiler, layer, strlen(layer),
                                           "layer", NULL, &executable, diag);
  if (!status) {
    status = run_layer(executable, diag);
    nabla_executable_close(executable);
  }
  nabla_compiler_destroy(compiler);
  return status;
}

Test(stacks, compile_and_run, .timeout = 300) {
  expect_on_small_stacks(compile_and_run);
}

/* Made where there is stack enough, run where there is little, and by workers
 * of a pool that such a thread makes. */
static nabla_executable *made;

static nabla_status run_with_pool(nabla_diag *diag) {
  nabla_environment environment = {0};
  nabla_compiler *compiler;
  nabla_executable *executable;
  NABLA_TRY(run_layer(made, diag));
  NABLA_TRY(nabla_pool_create(2, NULL, &environment.pool, diag));
  const nabla_compiler_options options = {
      .struct_size = sizeof options, .cache = "", .diagnostic = ignore};
  nabla_status status =
      nabla_compiler_create(&options, &environment, &compiler, diag);
  if (!status) {
    status = nabla_compile_text(compiler, layer, strlen(layer), "layer", NULL,
                                &executable, diag);
    if (!status) {
      status = run_layer(executable, diag);
      nabla_executable_close(executable);
    }
    nabla_compiler_destroy(compiler);
  }
  nabla_pool_destroy(environment.pool);
  return status;
}

Test(stacks, run_with_pool, .timeout = 300) {
  nabla_compiler *compiler;
  nabla_diag diag = NABLA_DIAG_INIT;
  cr_assert_eq(make(&compiler, &diag), NABLA_OK);
  cr_assert_eq(nabla_compile_text(compiler, layer, strlen(layer), "layer", NULL,
                                  &made, &diag),
               NABLA_OK, "%s", diag.what);
  nabla_compiler_destroy(compiler);
  expect_on_small_stacks(run_with_pool);
  nabla_executable_close(made);
}

/* As deep as programs may be. */
static nabla_status compile_deep(nabla_diag *diag) {
  static char text[DEEP * 64];
  size_t used = 0;
  used += (size_t)snprintf(text, sizeof text,
                           "func.func @f(%%p: tensor<i1>) -> tensor<i1> {\n"
                           "  %%b = tensor.extract %%p[] : tensor<i1>\n");
  for (int i = 0; i < DEEP; i++)
    used += (size_t)snprintf(text + used, sizeof text - used, "scf.if %%b {\n");
  for (int i = 0; i < DEEP; i++)
    used += (size_t)snprintf(text + used, sizeof text - used, "}\n");
  used += (size_t)snprintf(text + used, sizeof text - used,
                           "  return %%p : tensor<i1>\n}\n");
  nabla_compiler *compiler;
  nabla_executable *executable;
  NABLA_TRY(make(&compiler, diag));
  const nabla_status status =
      nabla_compile_text(compiler, text, used, "f", NULL, &executable, diag);
  if (!status) nabla_executable_close(executable);
  nabla_compiler_destroy(compiler);
  return status;
}

Test(stacks, compile_deep, .timeout = 300) {
  expect_on_small_stacks(compile_deep);
}

static nabla_status count(void *self, const void *data, size_t size,
                          nabla_diag *diag) {
  (void)data, (void)diag;
  *(size_t *)self += size;
  return NABLA_OK;
}

static nabla_status emit(nabla_diag *diag) {
  size_t bytes = 0;
  const nabla_sink sink = {count, &bytes};
  nabla_compiler *compiler;
  NABLA_TRY(make(&compiler, diag));
  const nabla_status status =
      nabla_emit_text(compiler, layer, strlen(layer), "layer", NULL,
                      NABLA_EMIT_OBJ, &sink, diag);
  nabla_compiler_destroy(compiler);
  if (!status && !bytes) return NABLA_CORRUPT;
  return status;
}

Test(stacks, emit, .timeout = 300) { expect_on_small_stacks(emit); }

/* A plan whose kernel is compiled. */
static nabla_status plan(nabla_diag *diag) {
  static uint8_t codes[OUTPUTS * INPUTS];
  static float scales[OUTPUTS];
  static float x[ROWS * INPUTS], y[ROWS * OUTPUTS];
  static _Alignas(64) uint8_t space[1 << 20];
  const nabla_weight_desc weight = {
      .rank = 2,
      .shape = {OUTPUTS, INPUTS},
      .layout = {.kind = NABLA_STORAGE_PLANES,
                 .format = {.encoding = nabla_encoding_find("int8"),
                            .block = INPUTS}},
      .component_count = 2,
      .components = {{.data = codes, .bytes = sizeof codes},
                     {.data = scales, .bytes = sizeof scales}}};
  const nabla_matmul_options options = {.struct_size = sizeof options,
                                        .provider = NABLA_MATMUL_COMPILED};
  nabla_matmul_plan *made_plan;
  nabla_compiler_provide_plans();
  nabla_status status =
      nabla_matmul_plan_create(&weight, &options, &made_plan, diag);
  if (!status) {
    if (nabla_matmul_plan_workspace_size(made_plan, ROWS) <= sizeof space)
      status = nabla_matmul_plan_run(made_plan, x, ROWS, y, space, diag);
    nabla_matmul_plan_destroy(made_plan);
  }
  nabla_compiler_withhold_plans();
  return status;
}

Test(stacks, plan, .timeout = 300) { expect_on_small_stacks(plan); }
