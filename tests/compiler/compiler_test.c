/* nabla/compiler.h: what is compiled runs, what is wrong is told, and the cache
 * changes nothing but the time. */
#include "nabla/compiler.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <ftw.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/compiler/options.h"
#include "nabla/numerics.h"
#include "tests/support/temp_folder.h"

static temp_folder folder;
static char cache[256];
static char said[8192]; /* what diagnostics said, a line each */
static nabla_compiler *compiler;
static nabla_diag diag;

static void listen(void *self, const char *text) {
  size_t used = strlen(said);
  (void)self;
  snprintf(said + used, sizeof said - used, "%s\n", text);
}

static nabla_compiler *make(const char *where, uint64_t limit) {
  nabla_compiler_options options = {.struct_size = sizeof options,
                                    .cache = where,
                                    .cache_limit = limit,
                                    .diagnostic = listen};
  nabla_compiler *made = NULL;
  cr_assert_eq(nabla_compiler_create(&options, NULL, &made, &diag), NABLA_OK);
  return made;
}

static void set_up(void) {
  temp_folder_create(&folder);
  temp_folder_path(&folder, "cache", cache);
  compiler = make("", 0);
}

static int remove_one(const char *name, const struct stat *info, int type,
                      struct FTW *at) {
  (void)info, (void)type, (void)at;
  return remove(name);
}

static void tear_down(void) {
  nabla_compiler_destroy(compiler);
  (void)nftw(cache, remove_one, 8, FTW_DEPTH | FTW_PHYS);
  temp_folder_destroy(&folder);
}

TestSuite(compiler, .init = set_up, .fini = tear_down, .timeout = 300);

static nabla_status compile_for(nabla_compiler *with, const char *text,
                                const nabla_compile_options *options,
                                nabla_executable **out) {
  *said = '\0';
  return nabla_compile_text(with, text, strlen(text), "prog.mlir", options, out,
                            &diag);
}

static nabla_executable *compile(const char *text) {
  nabla_executable *executable = NULL;
  cr_assert_eq(compile_for(compiler, text, NULL, &executable), NABLA_OK,
               "%s: %s\n%s", diag.file, diag.what, said);
  return executable;
}

static const char twice[] =
    "func.func @twice(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {\n"
    "  %y = nabla.add %x, %x : tensor<?x4xf32>, tensor<?x4xf32>\n"
    "  return %y : tensor<?x4xf32>\n"
    "}\n";

/* Runs @twice on 2 x 4 values. */
static void expect_twice(nabla_executable *executable) {
  float values[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  nabla_dense x = {values, NABLA_DTYPE_F32, 2, {2, 4}}, y = {0};
  cr_assert_eq(nabla_executable_run(executable, "twice", &x, 1, &y, 1, &diag),
               NABLA_OK, "%s", diag.what);
  cr_assert_eq(y.rank, 2);
  cr_expect_eq(y.shape[0], 2);
  for (int i = 0; i < 8; i++) cr_expect_eq(((float *)y.data)[i], 2 * values[i]);
  nabla_dense_release(executable, &y);
}

Test(compiler, makes_code_that_runs) {
  nabla_executable *executable = compile(twice);
  cr_expect_str_eq(said, "");
  expect_twice(executable);
  nabla_compile_report report = nabla_compiler_last_report(compiler);
  cr_expect_not(report.from_cache);
  cr_expect_gt(report.codegen_ms, 0);
  nabla_executable_close(executable);
}

Test(compiler, executables_outlive_their_compiler) {
  nabla_compiler *other = make("", 0);
  nabla_executable *first = NULL, *second = NULL;
  cr_assert_eq(compile_for(other, twice, NULL, &first), NABLA_OK);
  cr_assert_eq(compile_for(other, twice, NULL, &second), NABLA_OK);
  nabla_compiler_destroy(other);
  nabla_executable_close(first);
  expect_twice(second);
  nabla_executable_close(second);
}

Test(compiler, reads_files) {
  nabla_executable *executable = NULL;
  char path[256];
  temp_folder_write(&folder, "prog.mlir", twice, strlen(twice));
  temp_folder_path(&folder, "prog.mlir", path);
  cr_assert_eq(nabla_compile_file(compiler, path, NULL, &executable, &diag),
               NABLA_OK);
  expect_twice(executable);
  nabla_executable_close(executable);
  temp_folder_path(&folder, "none.mlir", path);
  cr_expect_eq(nabla_compile_file(compiler, path, NULL, &executable, &diag),
               NABLA_IO);
  cr_expect(strstr(diag.file, "none.mlir"));
}

/* ---- programs that are wrong ---- */

typedef struct wrong {
  const char *text, *says; /* `says`: in the diagnostics, or in the error */
} wrong;

static const wrong wrongs[] = {
    {"func.func @f(", "prog.mlir:1:"},
    {"func.func @f() { return 1 }", "prog.mlir:1:"},
    {"func.func @f() { \"no.op\"() : () -> () return }", "error"},
    {"\xff\xfe", "prog.mlir:1:1: error"},
    {"ML\xefR garbage", "bytecode, which is not read here"},
    /* verifies as MLIR, and asks for more than compiled code may have */
    {"func.func private @system(tensor<4xf32>)\n"
     "func.func @f(%x: tensor<4xf32>) {\n"
     "  call @system(%x) : (tensor<4xf32>) -> ()\n  return\n}",
     "system"},
    {"llvm.func @puts(!llvm.ptr) -> i32\n"
     "llvm.func @g(%p: !llvm.ptr) {\n"
     "  %r = llvm.call @puts(%p) : (!llvm.ptr) -> i32\n  llvm.return\n}\n"
     "func.func @f(%x: tensor<4xf32>) { return }",
     "prog.mlir:3:8: error: 'puts' is not defined in the program"},
    {"llvm.func @g(%p: !llvm.ptr) {\n"
     "  llvm.call %p() : !llvm.ptr, () -> ()\n  llvm.return\n}\n"
     "func.func @f(%x: tensor<4xf32>) { return }",
     "through a pointer"},
    {"llvm.mlir.global external @stdout() : !llvm.ptr\n"
     "llvm.func @g() -> !llvm.ptr {\n"
     "  %p = llvm.mlir.addressof @stdout : !llvm.ptr\n"
     "  llvm.return %p : !llvm.ptr\n}\n"
     "func.func @f(%x: tensor<4xf32>) { return }",
     "is not defined in the program"},
    {"llvm.func @nabla_entry_f() { llvm.return }\n"
     "func.func @f(%x: tensor<4xf32>) { return }",
     "is a name of the runtime"},
    {"llvm.func @g(%x: f32) -> f32 {\n"
     "  %y = llvm.call_intrinsic \"llvm.nvvm.ex2.approx.f\"(%x) : (f32) -> "
     "f32\n"
     "  llvm.return %y : f32\n}\n"
     "func.func @f(%x: tensor<4xf32>) { return }",
     "nvvm"},
};

Test(compiler, tells_what_is_wrong_with_a_program) {
  for (size_t i = 0; i < sizeof wrongs / sizeof *wrongs; i++) {
    nabla_executable *executable = NULL;
    nabla_status status =
        compile_for(compiler, wrongs[i].text, NULL, &executable);
    cr_expect(status == NABLA_CORRUPT || status == NABLA_UNSUPPORTED, "%zu: %s",
              i, nabla_status_name(status));
    cr_expect_null(executable);
    cr_expect(strstr(said, wrongs[i].says) || strstr(diag.what, wrongs[i].says),
              "%zu: %s\n%s", i, said, diag.what);
    cr_expect_null(strstr(said, "see current operation"));
  }
  nabla_executable *executable = compile(twice); /* nothing stuck */
  expect_twice(executable);
  nabla_executable_close(executable);
}

/* ---- options ---- */

/* ---- functions that are made by name ---- */

static nabla_status derive(size_t count, const nabla_derivation *list,
                           nabla_blob *out) {
  static const char square[] =
      "func.func @square(%x: tensor<3xf32> {nabla.name = \"x\"})"
      " -> tensor<f32> {\n"
      "  %y = nabla.mul %x, %x : tensor<3xf32>, tensor<3xf32>\n"
      "  %s = nabla.reduce sum %y dims = [0] : tensor<3xf32>\n"
      "  return %s : tensor<f32>\n}\n";
  const nabla_sink sink = nabla_blob_sink(out);
  *said = '\0';
  return nabla_derive_text(compiler, square, strlen(square), "square.mlir",
                           list, count, &sink, &diag);
}

Test(compiler, makes_derivatives_and_batches_by_name) {
  const nabla_derivation list[2] = {{.struct_size = sizeof *list,
                                     .transform = "vjp",
                                     .function = "square",
                                     .wrt = "x"},
                                    {.struct_size = sizeof *list,
                                     .transform = "vmap",
                                     .function = "square.vjp",
                                     .in_axes = "0,none",
                                     .axis_size = "2"}};
  nabla_blob text = {.bytes = NULL};
  nabla_executable *executable;
  float values[6] = {1, 2, 3, 4, 5, 6}, one = 1;
  const nabla_dense in[2] = {{values, NABLA_DTYPE_F32, 2, {2, 3}},
                             {&one, NABLA_DTYPE_F32, 0, {0}}};
  float sums[2], gradients[6];
  nabla_dense out[2] = {{sums, NABLA_DTYPE_F32, 1, {2}},
                        {gradients, NABLA_DTYPE_F32, 2, {2, 3}}};
  cr_assert_eq(derive(2, list, &text), NABLA_OK, "%s\n%s", diag.what, said);
  cr_assert_eq(nabla_compile_text(compiler, text.bytes, text.size, "derived",
                                  NULL, &executable, &diag),
               NABLA_OK, "%s\n%s", diag.what, said);
  cr_assert_eq(
      nabla_executable_run(executable, "square.vjp.vmap", in, 2, out, 2, &diag),
      NABLA_OK, "%s", diag.what);
  cr_expect_eq(sums[1], 16 + 25 + 36);
  for (int i = 0; i < 6; i++) cr_expect_eq(gradients[i], 2 * values[i]);
  nabla_executable_close(executable);
  nabla_blob_release(&text);
}

Test(compiler, refuses_derivations_that_are_none) {
  const nabla_derivation bad[] = {
      {.struct_size = 1},
      {.struct_size = sizeof *bad, .transform = "grad"},
      {.struct_size = sizeof *bad, .transform = "jvp", .mode = "split"},
      {.struct_size = sizeof *bad, .transform = "vjp", .wrt = "x},cse{"},
      {.struct_size = sizeof *bad, .transform = "vjp", .function = "none"}};
  static const nabla_status want[] = {
      NABLA_INVALID_ARGUMENT, NABLA_INVALID_ARGUMENT, NABLA_INVALID_ARGUMENT,
      NABLA_INVALID_ARGUMENT, NABLA_CORRUPT};
  nabla_blob text = {.bytes = NULL};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    cr_expect_eq(derive(1, &bad[i], &text), want[i], "%zu: %s", i, diag.what);
  cr_expect(strstr(said, "there is no function @none"), "%s", said);
  nabla_blob_release(&text);
}

Test(compiler, refuses_wrong_options) {
  static const struct {
    nabla_compile_options options;
    nabla_status status;
    const char *says;
  } cases[] = {
      {{.target = "pentium9"}, NABLA_INVALID_ARGUMENT, "unknown CPU"},
      {{.target = "skylake_avx512"}, NABLA_INVALID_ARGUMENT, "unknown CPU"},
      {{.target = ",+avx2"}, NABLA_INVALID_ARGUMENT, "unknown CPU"},
      {{.target = "i686"}, NABLA_INVALID_ARGUMENT, "lacks sse2"},
      {{.target = "x86-64,-sse"}, NABLA_INVALID_ARGUMENT, "lacks sse2"},
      {{.target = "native,-64bit"}, NABLA_INVALID_ARGUMENT, "lacks 64bit"},
      {{.target = "x86-64,+avx9"}, NABLA_INVALID_ARGUMENT, "unknown feature"},
      {{.target = "x86-64,"}, NABLA_INVALID_ARGUMENT, "unknown feature"},
      {{.target = "x86-64,+"}, NABLA_INVALID_ARGUMENT, "unknown feature"},
      {{.target = "x86-64,+amx-avx512"}, NABLA_UNSUPPORTED, "lacks"},
      {{.numerics = "int1"}, NABLA_INVALID_ARGUMENT, "numerics"},
      {{.policy = "loud"}, NABLA_INVALID_ARGUMENT, "policy"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    nabla_executable *executable = NULL;
    nabla_compile_options options = cases[i].options;
    options.struct_size = sizeof options;
    cr_expect_eq(compile_for(compiler, twice, &options, &executable),
                 cases[i].status, "%zu: %s", i, diag.what);
    cr_expect(strstr(diag.what, cases[i].says), "%zu: %s", i, diag.what);
    cr_expect_neq(diag.next[0], '\0', "%zu: no next step", i);
  }
}

static nabla_status create_with(const nabla_compiler_options *options) {
  nabla_compiler *made = NULL;
  const nabla_status status =
      nabla_compiler_create(options, NULL, &made, &diag);
  if (status) cr_expect_null(made);
  nabla_compiler_destroy(made);
  return status;
}

static nabla_status compile_by(const nabla_compile_options *options) {
  nabla_executable *executable = NULL;
  const nabla_status status =
      nabla_compile_text(compiler, twice, strlen(twice), "twice.mlir", options,
                         &executable, &diag);
  if (status) cr_expect_null(executable);
  nabla_executable_close(executable);
  return status;
}

static nabla_status drop(void *self, const void *data, size_t size,
                         nabla_diag *d) {
  (void)self, (void)data, (void)size, (void)d;
  return NABLA_OK;
}

static nabla_status emit_to(const nabla_static_sinks *sinks) {
  return nabla_emit_static(compiler, twice, strlen(twice), "twice.mlir", NULL,
                           sinks, &diag);
}

/* Zero is what a program has that never set the member. */
Test(compiler, refuses_structures_of_another_size) {
  nabla_compiler_options how = {.cache = ""};
  nabla_compile_options options = {.policy = "warn"};
  nabla_static_sinks sinks = {
      .object = {drop, NULL}, .header = {drop, NULL}, .prefix = "twice"};
#define EXPECT_SIZE(call, structure, word)                                   \
  do {                                                                       \
    const size_t sizes[] = {0, sizeof structure - 1, sizeof structure + 8,   \
                            SIZE_MAX};                                       \
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {              \
      structure.struct_size = sizes[i];                                      \
      diag = (nabla_diag)NABLA_DIAG_INIT;                                    \
      cr_expect_eq(call(&structure), NABLA_INVALID_ARGUMENT);                \
      cr_expect(strstr(diag.what, "struct_size") && strstr(diag.what, word), \
                "%s", diag.what);                                            \
    }                                                                        \
    structure.struct_size = sizeof structure;                                \
    cr_expect_eq(call(&structure), NABLA_OK, "%s", diag.what);               \
  } while (0)
  EXPECT_SIZE(create_with, how, "compiler options");
  EXPECT_SIZE(compile_by, options, "compile options");
  EXPECT_SIZE(emit_to, sinks, "sinks");
#undef EXPECT_SIZE
}

/* The text that a row of nabla/compile_options.def says. */
Test(compiler, numerics_of_the_option_are_those_of_the_table) {
  char names[120] = "";
  size_t used = 0;
#define NAME(id, name, summary)                                          \
  used += (size_t)snprintf(names + used, sizeof names - used, "%s" name, \
                           used ? "|" : "");
  NABLA_NUMERICS_LIST(NAME)
#undef NAME
  cr_expect_str_eq(nabla_compile_option_find("numerics")->values, names);
}

Test(compiler, refuses_names_of_files_that_no_pipeline_can_say) {
  static const char *const names[] = {"", "a\"b", "a;b", "a}b", "a\\b", NULL};
  const char *many[NABLA_COMPILE_FILES_MAX + 1];
  nabla_executable *executable = NULL;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    const nabla_compile_options options = {
        .struct_size = sizeof options, .rules = &names[i], .rule_count = 1};
    cr_expect_eq(compile_for(compiler, twice, &options, &executable),
                 NABLA_INVALID_ARGUMENT, "%zu", i);
    cr_expect(strstr(diag.what, "rules"), "%zu: %s", i, diag.what);
  }
  for (size_t i = 0; i <= NABLA_COMPILE_FILES_MAX; i++) many[i] = "a";
  const nabla_compile_options options = {
      .struct_size = sizeof options,
      .rules = many,
      .rule_count = NABLA_COMPILE_FILES_MAX + 1};
  cr_expect_eq(compile_for(compiler, twice, &options, &executable),
               NABLA_INVALID_ARGUMENT);
  cr_expect(strstr(diag.what, "at most 16"), "%s", diag.what);
}

Test(compiler, compiles_for_many_targets) {
  static const char *const targets[] = {NULL,
                                        "native",
                                        "x86-64",
                                        "x86-64,+avx2",
                                        "x86-64-v3",
                                        "native,-avx",
                                        "native,-avx512f",
                                        "native,-avx2",
                                        "x86-64-v2",
                                        "x86-64,+avx2,-avx,+fma"};
  for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
    nabla_compile_options options = {.struct_size = sizeof options,
                                     .target = targets[i]};
    nabla_executable *executable = NULL;
    nabla_status status = compile_for(compiler, twice, &options, &executable);
    if (status == NABLA_UNSUPPORTED) continue; /* this machine is older */
    cr_assert_eq(status, NABLA_OK, "%s: %s", targets[i], diag.what);
    expect_twice(executable);
    nabla_executable_close(executable);
  }
}

/* ---- emission ---- */

typedef struct text {
  char *data;
  size_t size;
} text;

static nabla_status keep(void *self, const void *data, size_t size,
                         nabla_diag *why) {
  text *out = self;
  (void)why;
  out->data = realloc(out->data, out->size + size + 1);
  cr_assert(out->data);
  memcpy(out->data + out->size, data, size);
  out->size += size;
  out->data[out->size] = '\0';
  return NABLA_OK;
}

static nabla_status emit(const char *program, const char *target,
                         nabla_emission emission, text *out) {
  nabla_compile_options options = {.struct_size = sizeof options,
                                   .target = target};
  const nabla_sink sink = {keep, out};
  *said = '\0';
  return nabla_emit_text(compiler, program, strlen(program), "prog.mlir",
                         &options, emission, &sink, &diag);
}

Test(compiler, emits_every_form) {
  static const struct {
    nabla_emission emission;
    const char *holds;
  } cases[] = {{NABLA_EMIT_MLIR, "llvm.func @nabla_entry_twice"},
               {NABLA_EMIT_LLVM, "define void @nabla_entry_twice"},
               {NABLA_EMIT_ASM, "nabla_entry_twice:"},
               {NABLA_EMIT_OBJ,
                "\x7f"
                "ELF"}};
  for (size_t i = 0; i < 4; i++) {
    text out = {0};
    cr_assert_eq(emit(twice, "x86-64", cases[i].emission, &out), NABLA_OK);
    cr_expect(strstr(out.data, cases[i].holds), "%zu", i);
    free(out.data);
  }
}

Test(compiler, emits_the_same_bytes_again) {
  text first = {0}, again = {0};
  nabla_compiler *old = compiler;
  cr_assert_eq(emit(twice, NULL, NABLA_EMIT_OBJ, &first), NABLA_OK);
  compiler = make("", 0);
  cr_assert_eq(emit(twice, NULL, NABLA_EMIT_OBJ, &again), NABLA_OK);
  cr_assert_eq(first.size, again.size);
  cr_expect_eq(memcmp(first.data, again.data, first.size), 0);
  free(first.data), free(again.data);
  nabla_compiler_destroy(old);
}

Test(compiler, refuses_intrinsics_that_the_target_lacks) {
  static const char program[] =
      "llvm.func @g(%v: vector<16xf32>, %p: vector<16xi32>) -> vector<16xf32> "
      "{\n  %r = llvm.call_intrinsic \"llvm.x86.avx512.permvar.sf.512\"(%v, "
      "%p) : (vector<16xf32>, vector<16xi32>) -> vector<16xf32>\n"
      "  llvm.return %r : vector<16xf32>\n}\n"
      "func.func @f(%x: tensor<4xf32>) { return }\n";
  static const char *const lacking[] = {
      "x86-64", "x86-64-v3", "skylake-avx512,-avx512f", "x86-64-v4,-avx2"};
  text out = {0};
  for (size_t i = 0; i < 4; i++) {
    cr_expect_eq(emit(program, lacking[i], NABLA_EMIT_OBJ, &out),
                 NABLA_UNSUPPORTED, "%s", lacking[i]);
    cr_expect(strstr(diag.what, "needs avx512f"), "%s", diag.what);
  }
  cr_expect_null(out.data);
  cr_expect_eq(emit(program, "x86-64-v4", NABLA_EMIT_OBJ, &out), NABLA_OK);
  cr_expect_eq(emit(program, "x86-64,+avx512bw", NABLA_EMIT_OBJ, &out),
               NABLA_OK);
  free(out.data);
}

/* Rows of x86_intrinsics.def: the call, of parameters of the function below. */
#define OF_TILES "(%t, %t, %t) : (i8, i8, i8) -> ()"
#define MOVES    "(%t, %p, %n) : (i8, !llvm.ptr, i64) -> ()"
#define BYTES(n) "(%b" n ", %b" n ") : (vector<" n "xi8>, vector<" n "xi8>)"
static const struct {
  const char *name, *call;
} intrinsic_calls[] = {
    {"avx2.permps",
     "(%f8, %i8) : (vector<8xf32>, vector<8xi32>) -> vector<8xf32>"},
    {"avx2.pmadd.ub.sw", BYTES("32") " -> vector<16xi16>"},
    {"avx2.pmadd.wd",
     "(%h16, %h16) : (vector<16xi16>, vector<16xi16>) -> vector<8xi32>"},
    {"avx2.pshuf.b", BYTES("32") " -> vector<32xi8>"},
    {"avx2.psign.b", BYTES("32") " -> vector<32xi8>"},
    {"avx512.permvar.hi.512",
     "(%h32, %h32) : (vector<32xi16>, vector<32xi16>) -> vector<32xi16>"},
    {"avx512.permvar.sf.512",
     "(%f16, %i16) : (vector<16xf32>, vector<16xi32>) -> vector<16xf32>"},
    {"avx512.pshuf.b.512", BYTES("64") " -> vector<64xi8>"},
    {"avx512.vpdpbusd.512",
     "(%i16, %b64, %b64) : (vector<16xi32>, vector<64xi8>, vector<64xi8>) -> "
     "vector<16xi32>"},
    {"avx512bf16.cvtne2ps2bf16.512",
     "(%f16, %f16) : (vector<16xf32>, vector<16xf32>) -> vector<32xbf16>"},
    {"avx512bf16.dpbf16ps.512",
     "(%f16, %bf, %bf) : (vector<16xf32>, vector<32xbf16>, vector<32xbf16>) -> "
     "vector<16xf32>"},
    {"ldtilecfg", "(%p) : (!llvm.ptr) -> ()"},
    {"tdpbf16ps", OF_TILES},
    {"tdpbssd", OF_TILES},
    {"tileloadd64", MOVES},
    {"tilerelease", "() : () -> ()"},
    {"tilestored64", MOVES},
    {"tilezero", "(%t) : (i8) -> ()"},
};

static nabla_status emit_call(const char *name, const char *call,
                              const char *target) {
  char program[1024];
  text out = {0};
  snprintf(
      program, sizeof program,
      "llvm.func @g(%%p: !llvm.ptr, %%n: i64, %%f8: vector<8xf32>, "
      "%%i8: vector<8xi32>, %%b32: vector<32xi8>, %%h16: vector<16xi16>, "
      "%%h32: vector<32xi16>, %%f16: vector<16xf32>, "
      "%%i16: vector<16xi32>, %%b64: vector<64xi8>, "
      "%%bf: vector<32xbf16>) {\n"
      "  %%t = llvm.mlir.constant(1 : i8) : i8\n"
      "  %s llvm.call_intrinsic \"llvm.x86.%s\"%s\n%s"
      "  llvm.return\n}\n"
      "func.func @f(%%x: tensor<4xf32>) { return }\n",
      strstr(call, "-> ()") ? "" : "%r =", name, call,
      strstr(call, "-> ()") ? "" : "  llvm.store %r, %p : RESULT, !llvm.ptr\n");
  char *at = strstr(program, "RESULT");
  if (at) { /* a result that nobody reads would be removed */
    char rest[128];
    snprintf(rest, sizeof rest, "%s", at + strlen("RESULT"));
    snprintf(at, sizeof program - (size_t)(at - program), "%s%s",
             strstr(call, "-> ") + 3, rest);
  }
  const nabla_status status = emit(program, target, NABLA_EMIT_OBJ, &out);
  free(out.data);
  return status;
}

/* Each row is compiled for a target that has its features and no more, and for
 * one that lacks them alone. */
Test(compiler, asks_for_the_feature_of_each_intrinsic) {
  static const struct {
    const char *name, *features;
  } rows[] = {
#define INTRINSIC(name, features) {name, features},
#include "lib/compiler/x86_intrinsics.def"
#undef INTRINSIC
  };
  enum { ROWS = sizeof rows / sizeof *rows };
  cr_assert_eq(sizeof intrinsic_calls / sizeof *intrinsic_calls, ROWS);
  for (size_t i = 0; i < ROWS; i++) {
    char has[64], lacks[64], says[64];
    const char *name = rows[i].name, *call = intrinsic_calls[i].call;
    cr_assert_str_eq(intrinsic_calls[i].name, name);
    snprintf(has, sizeof has, "x86-64,+%s", rows[i].features);
    snprintf(lacks, sizeof lacks, "sapphirerapids,-%s", rows[i].features);
    snprintf(says, sizeof says, "needs %s", rows[i].features);
    cr_expect_eq(emit_call(name, call, has), NABLA_OK, "%s: %s", name,
                 diag.what);
    cr_expect_eq(emit_call(name, call, lacks), NABLA_UNSUPPORTED, "%s", name);
    cr_expect(strstr(diag.what, says), "%s: %s", name, diag.what);
  }
  const char *other = "(%f8) : (vector<8xf32>) -> vector<8xf32>";
  cr_expect_eq(emit_call("avx.rcp.ps.256", other, "sapphirerapids"),
               NABLA_UNSUPPORTED, "what has no row is refused");
  cr_expect(strstr(diag.what, "cannot be compiled"), "%s", diag.what);
}

/* LLVM takes any number for that of a tile, and makes some other register. */
Test(compiler, refuses_tiles_that_are_none) {
  static const struct {
    unsigned tile;
    const char *target;
    nabla_status status;
    const char *says;
  } cases[] = {{7, "sapphirerapids", NABLA_OK, ""},
               {8, "sapphirerapids", NABLA_INVALID_ARGUMENT, "not 0 to 7"},
               {255, "sapphirerapids", NABLA_INVALID_ARGUMENT, "not 0 to 7"},
               {0, "x86-64-v4", NABLA_UNSUPPORTED, "needs amx-tile"},
               {0, "x86-64-v4,+amx-tile", NABLA_UNSUPPORTED, "needs amx-bf16"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char program[512];
    text out = {0};
    snprintf(program, sizeof program,
             "llvm.func @g() {\n"
             "  %%a = llvm.mlir.constant(%u : i8) : i8\n"
             "  %%b = llvm.mlir.constant(1 : i8) : i8\n"
             "  %%c = llvm.mlir.constant(2 : i8) : i8\n"
             "  llvm.call_intrinsic \"llvm.x86.tilezero\"(%%a) : (i8) -> ()\n"
             "  llvm.call_intrinsic \"llvm.x86.tdpbf16ps\"(%%c, %%b, %%a) : "
             "(i8, i8, i8) -> ()\n"
             "  llvm.return\n}\n"
             "func.func @f(%%x: tensor<4xf32>) { return }\n",
             cases[i].tile);
    cr_expect_eq(emit(program, cases[i].target, NABLA_EMIT_OBJ, &out),
                 cases[i].status, "%zu: %s", i, diag.what);
    if (cases[i].status)
      cr_expect(strstr(diag.what, cases[i].says), "%zu: %s", i, diag.what);
    free(out.data);
  }
}

/* A function may ask for features by an attribute; the target alone decides. */
Test(compiler, takes_features_from_the_target_only) {
  static const char program[] =
      "llvm.func @g(%v: vector<16xf32>, %p: vector<16xi32>) -> vector<16xf32> "
      "attributes {target_features = #llvm.target_features<[\"+avx512f\"]>} "
      "{\n  %r = llvm.call_intrinsic \"llvm.x86.avx512.permvar.sf.512\"(%v, "
      "%p) : (vector<16xf32>, vector<16xi32>) -> vector<16xf32>\n"
      "  llvm.return %r : vector<16xf32>\n}\n"
      "func.func @f(%x: tensor<4xf32>) { return }\n";
  text out = {0};
  cr_expect_eq(emit(program, "x86-64", NABLA_EMIT_OBJ, &out),
               NABLA_UNSUPPORTED);
}

/* Names of the C library are names like any others. */
Test(compiler, keeps_names_apart_from_the_c_library) {
  nabla_executable *executable = compile(
      "func.func private @memcpy(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {\n"
      "  %y = nabla.add %x, %x : tensor<?x4xf32>, tensor<?x4xf32>\n"
      "  return %y : tensor<?x4xf32>\n}\n"
      "func.func @twice(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {\n"
      "  %y = call @memcpy(%x) : (tensor<?x4xf32>) -> tensor<?x4xf32>\n"
      "  return %y : tensor<?x4xf32>\n}\n");
  expect_twice(executable);
  nabla_executable_close(executable);
}

/* ---- failures at run time ---- */

static const char sum[] =
    "func.func @sum(%x: tensor<?x4xf32>, %y: tensor<?x4xf32>) -> "
    "tensor<?x4xf32> {\n"
    "  %z = nabla.add %x, %y : tensor<?x4xf32>, tensor<?x4xf32>\n"
    "  return %z : tensor<?x4xf32>\n}\n";

Test(compiler, dimensions_that_do_not_agree_are_an_error_of_the_run) {
  nabla_executable *executable = compile(sum);
  float values[12] = {0};
  nabla_dense inputs[] = {{values, NABLA_DTYPE_F32, 2, {3, 4}},
                          {values, NABLA_DTYPE_F32, 2, {2, 4}}};
  nabla_dense z = {0};
  cr_expect_eq(nabla_executable_run(executable, "sum", inputs, 2, &z, 1, &diag),
               NABLA_INVALID_ARGUMENT);
  cr_expect(strstr(diag.what, "3 and 2"), "%s", diag.what);
  cr_expect_null(z.data);
  nabla_executable_close(executable);
}

/* 2^40 x 2^40 results of arrays that have no element at all. */
Test(compiler, sizes_that_wrap_are_no_memory) {
  nabla_executable *executable = compile(
      "func.func @outer(%x: tensor<?x0xf32>, %y: tensor<?x0xf32>) -> "
      "tensor<?x?xf32> {\n"
      "  %z = nabla.dot_general %x, %y contracting = [1] x [1] : "
      "tensor<?x0xf32>, tensor<?x0xf32>\n"
      "  return %z : tensor<?x?xf32>\n}\n");
  float value = 0;
  static const int64_t sizes[] = {(int64_t)1 << 31, (int64_t)1 << 32,
                                  (int64_t)1 << 40, (int64_t)1 << 62};
  for (size_t i = 0; i < 4; i++) {
    nabla_dense inputs[] = {{&value, NABLA_DTYPE_F32, 2, {sizes[i], 0}},
                            {&value, NABLA_DTYPE_F32, 2, {sizes[i], 0}}};
    nabla_dense z = {0};
    nabla_status status =
        nabla_executable_run(executable, "outer", inputs, 2, &z, 1, &diag);
    cr_expect_neq(status, NABLA_OK, "%zu", i);
    cr_expect_null(z.data);
  }
  nabla_executable_close(executable);
}

/* The same of sizes that the program says: what has to be stored is refused
 * when it is compiled. */
Test(compiler, static_sizes_that_wrap_are_no_memory) {
  static const char *const types[] = {
      "2305843009213693953xf64", /* 8 bytes, modulo 2^64 */
      "4611686018427387903xf32", /* all but 4; more to align in */
      "4611686018427387903xi64"};
  static const nabla_dtype dtypes[] = {NABLA_DTYPE_F64, NABLA_DTYPE_F32,
                                       NABLA_DTYPE_I64};
  for (size_t i = 0; i < 3; i++) {
    char program[1024];
    const char *type = types[i], *one = strrchr(types[i], 'x') + 1;
    snprintf(program, sizeof program,
             "func.func @f(%%a: tensor<%s>) -> tensor<%s> {\n"
             "  %%b = nabla.broadcast_in_dim %%a dims = [] : tensor<%s> -> "
             "tensor<%s>\n"
             "  %%c = nabla.reduce max %%b dims = [0] : tensor<%s>\n"
             "  %%d = nabla.reduce sum %%b dims = [0] : tensor<%s>\n"
             "  %%e = nabla.add %%c, %%d : tensor<%s>, tensor<%s>\n"
             "  return %%e : tensor<%s>\n}\n",
             one, one, one, type, type, type, one, one, one);
    nabla_executable *executable = NULL;
    double value = 1;
    nabla_dense a = {&value, dtypes[i], 0, {0}}, e = {0};
    if (compile_for(compiler, program, NULL, &executable))
      cr_expect(strstr(said, "more than 2^46 bytes"), "%s: %s", type, said);
    else
      cr_expect_eq(nabla_executable_run(executable, "f", &a, 1, &e, 1, &diag),
                   NABLA_NO_MEMORY, "%s", type);
    nabla_executable_close(executable);
  }
}

/* ---- several products ---- */

static const char products[] =
    "!w = !nabla.implicit<2x2xf32, #nabla.nf4<block = 64>>\n"
    "func.func @products(%a: tensor<?x2xf32>, %d: tensor<2x2xf32>) -> "
    "(tensor<?x2xf32>, tensor<?x2xf32>, tensor<?x2xf32>) {\n"
    "  %zero = arith.constant 0 : index\n"
    "  %nine = arith.constant 9.0 : f32\n"
    "  %w = nabla.quantize %d : tensor<2x2xf32> -> !w\n"
    "  %x = nabla.relu %a : tensor<?x2xf32>\n"
    "  %h = nabla.dot_general %x, %w contracting = [1] x [1] : "
    "tensor<?x2xf32>, !w\n"
    "  %x9 = tensor.insert %nine into %x[%zero, %zero] : tensor<?x2xf32>\n"
    "  %again = nabla.dot_general %x, %w contracting = [1] x [1] : "
    "tensor<?x2xf32>, !w\n"
    "  %h9 = tensor.insert %nine into %h[%zero, %zero] : tensor<?x2xf32>\n"
    "  %y = nabla.dot_general %h, %w contracting = [1] x [1] : "
    "tensor<?x2xf32>, !w\n"
    "  %s = nabla.add %x9, %h9 : tensor<?x2xf32>, tensor<?x2xf32>\n"
    "  return %again, %y, %s : tensor<?x2xf32>, tensor<?x2xf32>, "
    "tensor<?x2xf32>\n}\n";

/* A product reads its operand as it is where the product stands, whatever is
 * written before or behind into an array that begins as a copy of it. */
Test(compiler, products_read_what_they_are_given) {
  nabla_executable *executable = compile(products);
  float one[4] = {1, 0, 0, 1}, signs[4] = {1, 1, 1, -1};
  static const float wanted[3][4] = {
      {1, 1, 1, -1}, {2, 0, 0, 2}, {18, 1, 1, 0}};
  nabla_dense inputs[] = {{one, NABLA_DTYPE_F32, 2, {2, 2}},
                          {signs, NABLA_DTYPE_F32, 2, {2, 2}}};
  nabla_dense out[3] = {{0}};
  cr_assert_eq(
      nabla_executable_run(executable, "products", inputs, 2, out, 3, &diag),
      NABLA_OK, "%s", diag.what);
  for (size_t i = 0; i < 3; i++) {
    const float *values = out[i].data;
    for (size_t k = 0; k < 4; k++)
      cr_expect_eq(values[k], wanted[i][k], "%zu, %zu: %g", i, k,
                   (double)values[k]);
    nabla_dense_release(executable, &out[i]);
  }
  nabla_executable_close(executable);
}

/* LLVM's InstCombine has something left to do here after its first round. */
Test(compiler, one_round_of_optimisations_is_enough) {
  nabla_executable_close(compile(
      "!u = !nabla.implicit<8x8xf32, #nabla.int8<block = 64>>\n"
      "!v = !nabla.implicit<16x16xf32, #nabla.int8<block = 64>>\n"
      "func.func @f(%a: tensor<16x?xf32>, %b: tensor<8x8xf32>, %c: "
      "tensor<16x16xf32>) -> tensor<8x16xf32> {\n"
      "  %i0 = arith.constant 0 : index\n"
      "  %i1 = arith.constant 1 : index\n"
      "  %i2 = arith.constant 2 : index\n"
      "  %q = arith.constant 0.25 : f32\n"
      "  %u = nabla.quantize %b : tensor<8x8xf32> -> !u\n"
      "  %v = nabla.quantize %c : tensor<16x16xf32> -> !v\n"
      "  %x = nabla.dot_general %u, %a contracting = [1] x [1] : !u, "
      "tensor<16x?xf32>\n"
      "  %r:2 = scf.for %i = %i0 to %i2 step %i1 iter_args(%d = %x, %e = %x) "
      "-> (tensor<8x16xf32>, tensor<8x16xf32>) {\n"
      "    %f = nabla.dot_general %d, %v contracting = [1] x [1] : "
      "tensor<8x16xf32>, !v\n"
      "    %g = nabla.add %f, %e : tensor<8x16xf32>, tensor<8x16xf32>\n"
      "    %h = tensor.insert %q into %d[%i0, %i0] : tensor<8x16xf32>\n"
      "    %j = nabla.dot_general %d, %v contracting = [1] x [1] : "
      "tensor<8x16xf32>, !v\n"
      "    %k = nabla.add %g, %j : tensor<8x16xf32>, tensor<8x16xf32>\n"
      "    scf.yield %k, %h : tensor<8x16xf32>, tensor<8x16xf32>\n"
      "  }\n"
      "  return %r#1 : tensor<8x16xf32>\n}\n"));
}

/* ---- the cache ---- */

static size_t entries(char out_path[512]) {
  size_t count = 0;
  DIR *list = opendir(cache);
  if (!list) return 0;
  for (struct dirent *item; (item = readdir(list)) != NULL;) {
    if (item->d_name[0] == '.') continue;
    snprintf(out_path, 512, "%s/%s", cache, item->d_name);
    count++;
  }
  closedir(list);
  return count;
}

static void compile_twice_with(nabla_compiler *with, int from_cache) {
  nabla_executable *executable = NULL;
  cr_assert_eq(compile_for(with, twice, NULL, &executable), NABLA_OK);
  cr_expect_eq(nabla_compiler_last_report(with).from_cache, from_cache);
  expect_twice(executable);
  nabla_executable_close(executable);
}

Test(compiler, finds_in_the_cache_what_was_compiled) {
  char path[512];
  nabla_compiler *first = make(cache, 0);
  compile_twice_with(first, 0);
  compile_twice_with(first, 1);
  cr_expect_eq(entries(path), 1);
  nabla_compiler *second = make(cache, 0);
  compile_twice_with(second, 1);
  nabla_compile_options options = {.struct_size = sizeof options,
                                   .target = "native,-avx512f"};
  nabla_executable *executable = NULL;
  cr_assert_eq(compile_for(second, twice, &options, &executable), NABLA_OK);
  cr_expect_not(nabla_compiler_last_report(second).from_cache,
                "another target is other code");
  nabla_executable_close(executable);
  nabla_compiler_destroy(first);
  nabla_compiler_destroy(second);
}

/* Whatever is wrong with the file, the answer is right. */
static void compile_with(nabla_compiler *with,
                         const nabla_compile_options *options, int from_cache) {
  nabla_executable *executable = NULL;
  cr_assert_eq(compile_for(with, twice, options, &executable), NABLA_OK, "%s",
               diag.what);
  cr_expect_eq(nabla_compiler_last_report(with).from_cache, from_cache);
  nabla_executable_close(executable);
}

/* Also one that changes nothing of this program: a choice that is forgotten
 * there would give the code of another. */
Test(compiler, each_value_of_a_choice_has_a_key_of_its_own) {
  nabla_compiler *with = make(cache, 0);
  compile_with(with, NULL, 0);
  for (size_t i = 0; i < NABLA_COMPILE_OPTIONS; i++) {
    const nabla_compile_option *row = &nabla_compile_option_rows[i];
    for (const char *at = row->values; at && *at;) {
      char value[32];
      nabla_compile_options options = {.struct_size = sizeof options};
      const size_t length = strcspn(at, "|");
      snprintf(value, sizeof value, "%.*s", (int)length, at);
      nabla_compile_option_set(row, &options, value);
      compile_with(with, &options, !strcmp(value, row->fallback));
      compile_with(with, &options, 1);
      at += length + (at[length] == '|');
    }
  }
  nabla_compiler_destroy(with);
}

Test(compiler, compiles_anew_what_is_damaged) {
  char path[512];
  struct stat info;
  nabla_compiler *with = make(cache, 0);
  compile_twice_with(with, 0);
  cr_assert_eq(entries(path), 1);
  cr_assert_eq(stat(path, &info), 0);
  for (off_t at = 0; at < info.st_size; at += 97) {
    FILE *file = fopen(path, "r+b");
    cr_assert(file);
    fseek(file, (long)at, SEEK_SET);
    int byte = fgetc(file);
    fseek(file, (long)at, SEEK_SET);
    fputc(byte ^ 0x10, file);
    fclose(file);
    compile_twice_with(with, 0);
    compile_twice_with(with, 1);
  }
  cr_assert_eq(truncate(path, info.st_size / 2), 0);
  compile_twice_with(with, 0);
  nabla_compiler_destroy(with);
}

/* Warnings of a program are shown whether it is compiled or found. */
Test(compiler, repeats_the_warnings_of_what_it_finds) {
  static const char program[] =
      "func.func @f(%w: !nabla.implicit<8x64xf32, #nabla.nf4<block = 64>>) -> "
      "tensor<8xf32> {\n"
      "  %r = nabla.reduce max %w dims = [1] : !nabla.implicit<8x64xf32, "
      "#nabla.nf4<block = 64>>\n"
      "  return %r : tensor<8xf32>\n}\n";
  char first[sizeof said];
  nabla_compiler *with = make(cache, 0);
  for (int i = 0; i < 2; i++) {
    nabla_executable *executable = NULL;
    nabla_status status = compile_for(with, program, NULL, &executable);
    cr_assert_eq(status, NABLA_OK, "%s\n%s", diag.what, said);
    cr_expect_eq(nabla_compiler_last_report(with).from_cache, i);
    nabla_executable_close(executable);
    if (!i) memcpy(first, said, sizeof said);
  }
  cr_expect(strstr(first, "prog.mlir:2:"), "%s", first);
  cr_expect_str_eq(first, said);
  nabla_compiler_destroy(with);
}

Test(compiler, works_without_a_cache_folder) {
  char path[512];
  cr_assert_eq(mkdir(cache, 0755), 0);
  *said = '\0';
  nabla_compiler *with = make(cache, 0);
  cr_expect(strstr(said, "warning: cache"), "%s", said);
  compile_twice_with(with, 0);
  cr_expect_str_eq(said, "", "said once");
  compile_twice_with(with, 0);
  cr_expect_eq(entries(path), 0);
  nabla_compiler_destroy(with);
}

Test(compiler, several_processes_share_a_cache) {
  for (int i = 0; i < 3; i++) {
    pid_t child = fork();
    cr_assert_geq(child, 0);
    if (child) continue;
    nabla_compiler *with = make(cache, 0);
    for (int k = 0; k < 5; k++) {
      nabla_executable *executable = NULL;
      float values[4] = {1, 2, 3, 4}, doubled[4];
      nabla_dense x = {values, NABLA_DTYPE_F32, 2, {1, 4}};
      nabla_dense y = {doubled, NABLA_DTYPE_F32, 2, {1, 4}};
      if (compile_for(with, twice, NULL, &executable) ||
          nabla_executable_run(executable, "twice", &x, 1, &y, 1, NULL) ||
          doubled[3] != 8)
        _exit(1);
      nabla_executable_close(executable);
    }
    _exit(0);
  }
  for (int i = 0; i < 3; i++) {
    int status;
    cr_assert_geq(wait(&status), 0);
    cr_expect(WIFEXITED(status) && !WEXITSTATUS(status), "%d", status);
  }
}
