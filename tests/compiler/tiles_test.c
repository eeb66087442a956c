/* AMX is asked for where code that needs it is made for this process, and
 * nowhere else: the permission is the whole process's, for ever, and changes
 * what its signal stacks must be like. Each test is a process of its own. */
#include "tests/support/tiles.h"

#include <criterion/criterion.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/x86_features.h"
#include "lib/compiler/target.h"
#include "lib/runtime/matmul/ahead.h"
#include "nabla/compiler.h"
#include "nabla/encoding.h"
#include "nabla/matmul.h"

static nabla_compiler *compiler;
static nabla_diag diag;

static void set_up(void) {
  const nabla_compiler_options options = {.struct_size = sizeof options,
                                          .cache = ""};
  cr_assert_eq(nabla_compiler_create(&options, NULL, &compiler, &diag),
               NABLA_OK);
}

static void tear_down(void) { nabla_compiler_destroy(compiler); }

TestSuite(tiles, .init = set_up, .fini = tear_down, .timeout = 300);

/* y = x . w with M rows, or any ("?"). */
static void write_program(char *out, size_t size, const char *m) {
  const int length =
      snprintf(out, size,
               "!w = !nabla.implicit<64x256xf32, #nabla.nf4<block = 64>>\n"
               "func.func @f(%%x: tensor<%sx256xf32>, %%w: !w)"
               " -> tensor<%sx64xf32> {\n"
               "  %%y = nabla.dot_general %%x, %%w contracting = [1] x [1]"
               " : tensor<%sx256xf32>, !w\n"
               "  return %%y : tensor<%sx64xf32>\n}\n",
               m, m, m, m);
  cr_assert(length > 0 && (size_t)length < size);
}

static void compile(const char *m, const char *numerics) {
  const nabla_compile_options options = {.struct_size = sizeof options,
                                         .numerics = numerics};
  nabla_executable *executable = NULL;
  char text[512];
  write_program(text, sizeof text, m);
  cr_assert_eq(nabla_compile_text(compiler, text, strlen(text), "prog.mlir",
                                  &options, &executable, &diag),
               NABLA_OK, "%s", diag.what);
  nabla_executable_close(executable);
}

static nabla_status count(void *self, const void *data, size_t size,
                          nabla_diag *why) {
  (void)data, (void)why;
  *(size_t *)self += size;
  return NABLA_OK;
}

/* An object with a header. */
static void make_static(const char *m, const char *numerics) {
  const nabla_compile_options options = {.struct_size = sizeof options,
                                         .numerics = numerics};
  size_t bytes[2] = {0, 0};
  const nabla_static_sinks sinks = {.struct_size = sizeof sinks,
                                    .object = {count, &bytes[0]},
                                    .header = {count, &bytes[1]},
                                    .prefix = "prog"};
  char text[512];
  write_program(text, sizeof text, m);
  cr_assert_eq(nabla_emit_static(compiler, text, strlen(text), "prog.mlir",
                                 &options, &sinks, &diag),
               NABLA_OK, "%s", diag.what);
  cr_assert(bytes[0] && bytes[1]);
}

Test(tiles, are_not_asked_for_by_static_objects) {
  tiles_needed();
  make_static("?", "bf16");
  make_static("?", "f32");
  cr_expect_not(tiles_permitted());
}

/* Plans that never have more than one row. */
Test(tiles, are_not_asked_for_by_plans_of_one_row) {
  static const uint8_t codes[64 * 32];
  static const float scales[64];
  const nabla_weight_desc weight = {
      .rank = 2,
      .shape = {64, 64},
      .layout = {.kind = NABLA_STORAGE_PLANES,
                 .format = {.encoding = nabla_encoding_find("nf4"),
                            .granularity = NABLA_PER_BLOCK,
                            .block = 64}},
      .component_count = 2,
      .components = {{.data = codes, .bytes = sizeof codes},
                     {.data = scales, .bytes = sizeof scales}}};
  const nabla_matmul_options options = {.struct_size = sizeof options,
                                        .m_max = 1};
  nabla_matmul_plan *plan = NULL;
  nabla_matmul_info info;
  tiles_needed();
  nabla_compiler_provide_plans();
  cr_assert_eq(nabla_matmul_plan_create(&weight, &options, &plan, &diag),
               NABLA_OK, "%s", diag.what);
  nabla_matmul_plan_describe(plan, &info);
  cr_expect_eq(info.provider, NABLA_MATMUL_COMPILED);
  cr_expect_not(tiles_permitted());
  nabla_matmul_plan_destroy(plan);
  nabla_compiler_withhold_plans();
}

/* So that those above look at the right bit. */
Test(tiles, are_asked_for_by_code_that_needs_them) {
  tiles_needed();
  compile("?", "bf16");
  const int asked = tiles_permitted(); /* before the next line asks */
  cr_expect_eq(asked, nabla_x86_tiles_allowed());
}

/* ---- without AMX ---- */

static const nabla_host_cpu rapids = {
    "sapphirerapids",
    "+64bit,+sse2,+avx2,+fma,+f16c,+avx512f,+avx512bw,+avx512dq,+avx512vl,"
    "+avx512vbmi,+avx512vnni,+avx512bf16,+amx-tile,+amx-bf16,+amx-int8"};

static nabla_machine *machine_of(const nabla_host_cpu *here, const char *text) {
  nabla_machine *made = NULL;
  cr_assert_eq(nabla_machine_create_on(here, text, &made, &diag), NABLA_OK,
               "%s", diag.what);
  return made;
}

Test(tiles, no_amx_is_the_machine_without_its_features) {
  nabla_machine *all = machine_of(&rapids, NULL);
  nabla_machine *without = machine_of(&rapids, "no-amx");
  nabla_machine *less = machine_of(&rapids, "no-amx,-avx512f");
  cr_assert_eq(all->kernels & NABLA_FEATURES_OF_TILES, NABLA_FEATURES_OF_TILES);
  cr_expect_eq(without->kernels, all->kernels & ~NABLA_FEATURES_OF_TILES);
  cr_expect_eq(nabla_machine_kernels(without, 1), without->kernels,
               "nothing is asked of the system");
  for (size_t i = 0; i < NABLA_X86_FEATURE_COUNT; i++)
    cr_expect_eq(without->set.has[i],
                 all->set.has[i] && !nabla_x86_feature_uses_tiles(i), "%s",
                 nabla_x86_feature_name(i));
  cr_expect_str_eq(without->text, "no-amx");
  cr_expect_str_eq(without->cpu, "sapphirerapids");
  cr_expect_null(without->missing);
  cr_expect_not(NABLA_HAS(less->kernels, AVX512F));
  cr_expect(NABLA_HAS(less->kernels, AVX2));
  nabla_machine_destroy(all);
  nabla_machine_destroy(without);
  nabla_machine_destroy(less);
}

Test(tiles, the_environment_says_what_is_native) {
  setenv("NABLA_ISA", "no-amx", 1);
  nabla_machine *native = machine_of(&rapids, "native");
  nabla_machine *named = machine_of(&rapids, "sapphirerapids");
  cr_expect_not(native->kernels & NABLA_FEATURES_OF_TILES);
  cr_expect(NABLA_HAS(native->kernels, AVX512VNNI));
  cr_expect(named->kernels & NABLA_FEATURES_OF_TILES, "a CPU that is named");
  nabla_machine_destroy(native);
  nabla_machine_destroy(named);
  cr_expect_not(nabla_level_available(NABLA_LEVEL_amx, NABLA_ISA_NO_AMX));
}

/* A product of 8 rows in the process's environment, and the name of its last
 * kernel. */
static nabla_status product(char kernel[64]) {
  const nabla_matmul_options options = {.struct_size = sizeof options,
                                        .m_max = 8};
  static float w[64 * 64];
  const nabla_weight_desc weight = {
      .rank = 2,
      .shape = {64, 64},
      .dtype = NABLA_DTYPE_F32,
      .component_count = 1,
      .components = {{.data = w, .bytes = sizeof w}}};
  nabla_matmul_plan *plan = NULL;
  const nabla_status status =
      nabla_matmul_plan_create(&weight, &options, &plan, &diag);
  if (status) return status;
  nabla_matmul_info info;
  nabla_matmul_plan_describe(plan, &info);
  snprintf(kernel, 64, "%s", info.kernels[info.kernel_count - 1].name);
  nabla_matmul_plan_destroy(plan);
  return NABLA_OK;
}

Test(tiles, programs_and_plans_refuse_a_wrong_variable) {
  char text[512];
  nabla_executable *executable = NULL;
  setenv("NABLA_ISA", "sse9", 1);
  write_program(text, sizeof text, "4");
  cr_expect_eq(nabla_compile_text(compiler, text, strlen(text), "prog.mlir",
                                  NULL, &executable, &diag),
               NABLA_INVALID_ARGUMENT);
  cr_expect(strstr(diag.what, "NABLA_ISA") && strstr(diag.next, "no-amx"),
            "%s; %s", diag.what, diag.next);
  diag = (nabla_diag)NABLA_DIAG_INIT;
  cr_expect_eq(product(text), NABLA_INVALID_ARGUMENT);
  cr_expect(strstr(diag.what, "'sse9'") && strstr(diag.next, "no-amx"),
            "%s; %s", diag.what, diag.next);
}

Test(tiles, plans_take_what_the_variable_names) {
  char kernel[64];
  setenv("NABLA_ISA", "no-amx", 1);
  cr_expect_eq(product(kernel), NABLA_OK, "%s", diag.what);
  cr_expect_not(tiles_permitted(), "AMX was asked for");
}

/* On a CPU without AMX, too, the variable is seen to be read. */
Test(tiles, plans_take_no_vectors_if_the_variable_says_so) {
  char kernel[64] = "";
  setenv("NABLA_ISA", "scalar", 1);
  cr_expect_eq(product(kernel), NABLA_OK, "%s", diag.what);
  cr_expect_str_eq(kernel, "c, scalar");
}
