/* nabla_session_memory of compiled programs: the operations that hold memory at
 * the peak, in planned blocks, in the arena and as results. */
#include <criterion/criterion.h>
#include <string.h>

#include "nabla/compiler.h"
#include "nabla/profile.h"
#include "nabla/session.h"

enum { ROWS = 40, INNER = 256, OUTER = 192 };

/* While softmax runs, its input and its result are held, of as many rows as x
 * has; the second product holds two arrays, and work space. */
static const char source[] =
    "func.func @f(%x: tensor<?x192xf32>, %w: tensor<256x192xf32>,\n"
    "    %s: tensor<64xf32> {nabla.state = \"s\"})\n"
    "    -> (tensor<?x192xf32>, tensor<64xf32> {nabla.state = \"s\"}) {\n"
    "  %h = nabla.dot_general %x, %w contracting = [1] x [1]"
    " : tensor<?x192xf32>, tensor<256x192xf32>\n"
    "  %a = nabla.softmax %h dim = 1 : tensor<?x256xf32>\n"
    "  %y = nabla.dot_general %a, %w contracting = [1] x [0]"
    " : tensor<?x256xf32>, tensor<256x192xf32>\n"
    "  return %y, %s : tensor<?x192xf32>, tensor<64xf32>\n}\n";

static nabla_diag diag;
static float x[ROWS * OUTER], w[INNER * OUTER];

static nabla_executable *compile(nabla_compiler *compiler,
                                 const char *profile) {
  nabla_executable *out = NULL;
  const nabla_compile_options options = {.struct_size = sizeof options,
                                         .profile = profile};
  cr_assert_eq(nabla_compile_text(compiler, source, strlen(source), "m.mlir",
                                  &options, &out, &diag),
               NABLA_OK, "%s", diag.what);
  return out;
}

static void run(nabla_session *session, int64_t rows) {
  static float y[ROWS * OUTER];
  const nabla_dense in[] = {{x, NABLA_DTYPE_F32, 2, {rows, OUTER}},
                            {w, NABLA_DTYPE_F32, 2, {INNER, OUTER}}};
  nabla_dense out = {y, NABLA_DTYPE_F32, 2, {rows, OUTER}};
  cr_assert_eq(nabla_session_run(session, "f", in, 2, &out, 1, &diag), NABLA_OK,
               "%s", diag.what);
}

static nabla_session_usage usage_of(nabla_session *session) {
  nabla_session_usage usage = {.struct_size = sizeof usage};
  cr_assert_eq(nabla_session_memory(session, &usage, &diag), NABLA_OK);
  return usage;
}

/* The bytes of the operation `name`, or 0. */
static uint64_t bytes_of(const nabla_session_usage *usage, const char *name) {
  for (size_t i = 0; i < usage->holder_count; i++)
    if (!strcmp(usage->holders[i].what, name)) return usage->holders[i].bytes;
  return 0;
}

/* The peak of a run of `rows`: softmax has its result, the product before at
 * least its own; all is in the memory of the session or the caller's result. */
static void expect_peak(nabla_session *session, uint64_t rows) {
  const nabla_session_usage usage = usage_of(session);
  const uint64_t bytes = rows * INNER * sizeof(float);
  uint64_t sum = 0;
  cr_expect_eq(bytes_of(&usage, "nabla.softmax at line 5"), bytes);
  cr_expect(bytes_of(&usage, "nabla.fused_dot at line 4") >= bytes);
  for (size_t i = 0; i < usage.holder_count; i++) {
    sum += usage.holders[i].bytes;
    cr_expect(usage.holders[i].arrays > 0);
    if (i) cr_expect(usage.holders[i].bytes <= usage.holders[i - 1].bytes);
  }
  cr_expect_eq(usage.peak_bytes, sum);
  cr_expect(usage.peak_bytes >= 2 * bytes);
  cr_expect(usage.peak_bytes <= usage.run_bytes + rows * OUTER * sizeof(float));
}

Test(session_memory, holders_at_the_peak, .timeout = 300) {
  const nabla_compiler_options options = {.struct_size = sizeof options,
                                          .cache = ""};
  nabla_compiler *compiler = NULL;
  nabla_session *session = NULL;
  diag = (nabla_diag)NABLA_DIAG_INIT;
  cr_assert_eq(nabla_compiler_create(&options, NULL, &compiler, &diag),
               NABLA_OK);
  nabla_executable *executable = compile(compiler, "on");
  cr_assert_eq(nabla_session_create(executable, NULL, &session, &diag),
               NABLA_OK);
  run(session, 8);
  cr_expect_eq(usage_of(session).holder_count, 0); /* no profile is taken */
  cr_assert_eq(nabla_executable_profile_begin(executable, &diag), NABLA_OK);
  run(session, 8);
  expect_peak(session, 8);
  run(session, 4); /* is no peak */
  expect_peak(session, 8);
  run(session, ROWS);
  expect_peak(session, ROWS);
  cr_expect(usage_of(session).state_bytes >= 64 * sizeof(float));
  nabla_session_close(session);
  nabla_executable_close(executable);
  nabla_compiler_destroy(compiler);
}

Test(session_memory, code_without_a_profile_names_nothing, .timeout = 300) {
  const nabla_compiler_options options = {.struct_size = sizeof options,
                                          .cache = ""};
  nabla_compiler *compiler = NULL;
  nabla_session *session = NULL;
  diag = (nabla_diag)NABLA_DIAG_INIT;
  cr_assert_eq(nabla_compiler_create(&options, NULL, &compiler, &diag),
               NABLA_OK);
  nabla_executable *executable = compile(compiler, NULL);
  cr_assert_eq(nabla_session_create(executable, NULL, &session, &diag),
               NABLA_OK);
  cr_assert_eq(nabla_executable_profile_begin(executable, &diag), NABLA_OK);
  run(session, ROWS);
  const nabla_session_usage usage = usage_of(session);
  cr_expect_eq(usage.holder_count, 0);
  cr_expect_eq(usage.peak_bytes, 0);
  nabla_session_close(session);
  nabla_executable_close(executable);
  nabla_compiler_destroy(compiler);
}
