/* Donated arguments of compiled programs: results are in the caller's memory,
 * with the bytes of the program that donates nothing, and what does not fit is
 * refused. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nabla/compiler.h"
#include "nabla/session.h"

enum { ROWS = 64, COLUMNS = 32, ELEMENTS = ROWS * COLUMNS, BATCH = 8 };

static nabla_diag diag;
static nabla_compiler *compiler;
static nabla_executable *donates, *lends;

/* The functions of tests/filecheck/donated.mlir; donations are left out for the
 * program to compare with. */
static const char source[] =
    "!w = tensor<64x32xf32>\n"
    "func.func @put(%k: tensor<?x32xf32> {nabla.donated},"
    " %x: tensor<1x32xf32>, %p: tensor<i64>) -> tensor<?x32xf32> {\n"
    "  %c0 = arith.constant 0 : index\n"
    "  %i = tensor.extract %p[] : tensor<i64>\n"
    "  %at = arith.index_cast %i : i64 to index\n"
    "  %n = nabla.dynamic_update_slice %k, %x at (%at, %c0 : index, index)"
    " : tensor<?x32xf32>, tensor<1x32xf32>\n"
    "  return %n : tensor<?x32xf32>\n}\n"
    "func.func @train(%w: !w {nabla.donated}, %x: tensor<8x32xf32>)"
    " -> (!w, tensor<8x64xf32>) {\n"
    "  %y = nabla.dot_general %x, %w contracting = [1] x [1]"
    " : tensor<8x32xf32>, !w\n"
    "  %g = nabla.dot_general %y, %x contracting = [0] x [0]"
    " : tensor<8x64xf32>, tensor<8x32xf32>\n"
    "  %n = nabla.sub %w, %g : !w, !w\n"
    "  return %n, %y : !w, tensor<8x64xf32>\n}\n"
    "func.func @moments(%w: !w {nabla.donated}, %m: !w {nabla.donated},"
    " %g: !w) -> (!w, !w) {\n"
    "  %a = nabla.add %m, %g : !w, !w\n"
    "  %b = nabla.sub %w, %a : !w, !w\n"
    "  return %b, %a : !w, !w\n}\n"
    "func.func @sum(%w: !w {nabla.name = \"w\", nabla.donated})"
    " -> tensor<64xf32> {\n"
    "  %s = nabla.reduce sum %w dims = [1] : !w\n"
    "  return %s : tensor<64xf32>\n}\n"
    "func.func @fill(%xs: tensor<5x1x32xf32>, %k: !w {nabla.donated}) -> !w {\n"
    "  %zero = nabla.constant dense<0> : tensor<i64>\n"
    "  %one = nabla.constant dense<1> : tensor<i64>\n"
    "  %r:2 = nabla.scan init(%zero, %k : tensor<i64>, !w)"
    " over(%xs : tensor<5x1x32xf32>) -> tensor<i64>, !w {\n"
    "  ^bb0(%i: tensor<i64>, %c: !w, %x: tensor<1x32xf32>):\n"
    "    %c0 = arith.constant 0 : index\n"
    "    %v = tensor.extract %i[] : tensor<i64>\n"
    "    %at = arith.index_cast %v : i64 to index\n"
    "    %n = nabla.dynamic_update_slice %c, %x at (%at, %c0 : index, index)"
    " : !w, tensor<1x32xf32>\n"
    "    %j = nabla.add %i, %one : tensor<i64>, tensor<i64>\n"
    "    nabla.yield %j, %n : tensor<i64>, !w\n  }\n"
    "  return %r#1 : !w\n}\n";

/* Compiles `text`, or `text` without its donations. */
static nabla_executable *compile(const char *text, int keeps) {
  static const char *const marks[] = {"{nabla.donated}", ", nabla.donated"};
  nabla_executable *out = NULL;
  char *all = strdup(text);
  for (int i = 0; i < 2; i++)
    for (char *at = all; !keeps && (at = strstr(at, marks[i]));)
      memset(at, ' ', strlen(marks[i]));
  diag = (nabla_diag)NABLA_DIAG_INIT;
  cr_assert_eq(nabla_compile_text(compiler, all, strlen(all), "d.mlir", NULL,
                                  &out, &diag),
               NABLA_OK, "%s", diag.what);
  free(all);
  return out;
}

static void set_up(void) {
  const nabla_compiler_options options = {.struct_size = sizeof options,
                                          .cache = ""};
  diag = (nabla_diag)NABLA_DIAG_INIT;
  cr_assert_eq(nabla_compiler_create(&options, NULL, &compiler, &diag),
               NABLA_OK);
  donates = compile(source, 1);
  lends = compile(source, 0);
}

static void tear_down(void) {
  nabla_executable_close(donates);
  nabla_executable_close(lends);
  nabla_compiler_destroy(compiler);
}

TestSuite(donated, .init = set_up, .fini = tear_down, .timeout = 300);

/* An array of its own, of the same numbers for one seed. */
static nabla_dense make(uint32_t seed, uint32_t rank, int64_t rows,
                        int64_t columns, int64_t last) {
  nabla_dense out = {
      .dtype = NABLA_DTYPE_F32, .rank = rank, .shape = {rows, columns, last}};
  const size_t count = (size_t)rows * (rank > 1 ? (size_t)columns : 1) *
                       (rank > 2 ? (size_t)last : 1);
  float *data = aligned_alloc(64, (count * sizeof *data + 63) / 64 * 64);
  for (size_t i = 0; i < count; i++) {
    seed = seed * 1664525 + 1013904223;
    data[i] = (float)(seed >> 8) / (float)(1 << 23) - 1;
  }
  out.data = data;
  return out;
}

static size_t bytes_of(const nabla_dense *array) {
  size_t bytes = sizeof(float);
  for (uint32_t i = 0; i < array->rank; i++) bytes *= (size_t)array->shape[i];
  return bytes;
}

/* Runs `function` of both programs on the same inputs; result i is given the
 * memory of input into[i], or none of it where that is -1. Expects the same
 * bytes, and that donated memory is where the result is computed. */
static void expect_same(const char *function, nabla_dense (*input)(int),
                        int inputs, const int *into, size_t results) {
  nabla_dense given[4], plain[4], outputs[2] = {{0}}, wanted[2] = {{0}};
  for (int i = 0; i < inputs; i++) given[i] = input(i), plain[i] = input(i);
  for (size_t i = 0; i < results; i++)
    if (into[i] >= 0) outputs[i] = given[into[i]];
  diag = (nabla_diag)NABLA_DIAG_INIT;
  cr_assert_eq(nabla_executable_run(donates, function, given, (size_t)inputs,
                                    outputs, results, &diag),
               NABLA_OK, "%s: %s", function, diag.what);
  cr_assert_eq(nabla_executable_run(lends, function, plain, (size_t)inputs,
                                    wanted, results, &diag),
               NABLA_OK);
  for (size_t i = 0; i < results; i++) {
    cr_expect(!memcmp(outputs[i].data, wanted[i].data, bytes_of(&wanted[i])),
              "%s, result %zu", function, i);
    if (into[i] < 0)
      nabla_dense_release(donates, &outputs[i]);
    else
      cr_expect_eq(outputs[i].data, given[into[i]].data);
    nabla_dense_release(lends, &wanted[i]);
  }
  for (int i = 0; i < inputs; i++) {
    const nabla_dense fresh = input(i);
    cr_expect(!memcmp(plain[i].data, fresh.data,
                      fresh.dtype == NABLA_DTYPE_F32 ? bytes_of(&fresh) : 8),
              "%s overwrote input %d, which was lent", function, i);
    free(fresh.data), free(given[i].data), free(plain[i].data);
  }
}

static nabla_dense position(int64_t at) {
  int64_t *data = malloc(sizeof *data);
  *data = at;
  return (nabla_dense){.data = data, .dtype = NABLA_DTYPE_I64};
}

static nabla_dense put_input(int i) {
  return i == 0   ? make(1, 2, 7, COLUMNS, 0)
         : i == 1 ? make(2, 2, 1, COLUMNS, 0)
                  : position(3);
}
static nabla_dense train_input(int i) {
  return i == 0 ? make(1, 2, ROWS, COLUMNS, 0) : make(2, 2, BATCH, COLUMNS, 0);
}
static nabla_dense moments_input(int i) {
  return make((uint32_t)i + 1, 2, ROWS, COLUMNS, 0);
}
static nabla_dense fill_input(int i) {
  return i == 0 ? make(1, 3, 5, 1, COLUMNS) : make(2, 2, ROWS, COLUMNS, 0);
}

Test(donated, results_have_the_bytes_of_the_program_that_donates_nothing) {
  const int none[] = {-1, -1}, first[] = {0, -1}, both[] = {0, 1},
            crossed[] = {1, 0}, second[] = {1};
  expect_same("put", put_input, 3, none, 1);
  expect_same("put", put_input, 3, first, 1);
  expect_same("train", train_input, 2, none, 2);
  expect_same("train", train_input, 2, first, 2);
  expect_same("moments", moments_input, 3, none, 2);
  expect_same("moments", moments_input, 3, both, 2);
  expect_same("moments", moments_input, 3, crossed, 2);
  expect_same("fill", fill_input, 2, none, 1);
  expect_same("fill", fill_input, 2, second, 1);
}

/* A page that is not the result's tells where the code has written. */
Test(donated, the_memory_of_the_argument_is_written) {
  nabla_dense in[3], out[2] = {{0}};
  for (int i = 0; i < 3; i++) in[i] = put_input(i);
  cr_assert_eq(nabla_executable_run(donates, "put", in, 3, out, 1, &diag),
               NABLA_OK);
  cr_expect(!memcmp((float *)in[0].data + 3 * (size_t)COLUMNS, in[1].data,
                    COLUMNS * sizeof(float)));
  cr_expect_neq(out[0].data, in[0].data); /* the caller's to release */
  nabla_dense_release(donates, &out[0]);
  for (int i = 0; i < 3; i++) free(in[i].data);
  for (int i = 0; i < 2; i++) in[i] = train_input(i);
  cr_assert_eq(nabla_executable_run(donates, "train", in, 2, out, 2, &diag),
               NABLA_OK);
  cr_expect(!memcmp(in[0].data, out[0].data, bytes_of(&out[0])));
  for (int i = 0; i < 2; i++) {
    nabla_dense_release(donates, &out[i]);
    free(in[i].data);
  }
}

/* ---- what is refused ---- */

Test(donated, an_input_that_overlaps_a_donated_one_is_refused) {
  nabla_dense w = make(1, 2, ROWS, COLUMNS, 0);
  const nabla_dense in[] = {w, w, make(3, 2, ROWS, COLUMNS, 0)};
  const nabla_dense apart[] = {w, in[2], in[2]};
  nabla_dense out[2] = {{0}};
  diag = (nabla_diag)NABLA_DIAG_INIT;
  cr_expect_eq(nabla_executable_run(donates, "moments", in, 3, out, 2, &diag),
               NABLA_INVALID_ARGUMENT);
  cr_expect_str_eq(diag.what,
                   "input 0 ('arg0') is donated and overlaps another input, "
                   "which the run may overwrite");
  cr_expect_eq(
      nabla_executable_run(donates, "moments", apart, 3, out, 2, &diag),
      NABLA_INVALID_ARGUMENT);
  cr_expect_eq(nabla_executable_run(lends, "moments", in, 3, out, 2, &diag),
               NABLA_OK);
  for (int i = 0; i < 2; i++) nabla_dense_release(lends, &out[i]);
  free(w.data), free(in[2].data);
}

Test(donated, weights_are_no_donations) {
  nabla_dense w = make(1, 2, ROWS, COLUMNS, 0);
  const nabla_weight_desc weight = {
      .name = "w",
      .rank = 2,
      .shape = {ROWS, COLUMNS},
      .dtype = NABLA_DTYPE_F32,
      .component_count = 1,
      .components = {
          {NULL, NABLA_DTYPE_F32, w.data, ELEMENTS * sizeof(float)}}};
  diag = (nabla_diag)NABLA_DIAG_INIT;
  cr_expect_eq(nabla_executable_bind(donates, "w", &weight, &diag),
               NABLA_INVALID_ARGUMENT);
  cr_expect_str_eq(
      diag.what,
      "argument 'w' is donated: runs write to it, and it takes no weight");
  cr_expect_eq(nabla_executable_bind(lends, "w", &weight, &diag), NABLA_OK,
               "%s", diag.what);
  nabla_session *session = NULL;
  cr_assert_eq(nabla_session_create(donates, NULL, &session, &diag), NABLA_OK);
  const nabla_session_input input = {.weight = &weight};
  nabla_session_output output = {.weight = NULL};
  const nabla_session_arrays arrays = {.struct_size = sizeof arrays,
                                       .inputs = &input,
                                       .input_count = 1,
                                       .outputs = &output,
                                       .output_count = 1};
  cr_expect_eq(nabla_session_call(session, "sum", &arrays, &diag),
               NABLA_INVALID_ARGUMENT);
  nabla_session_close(session);
  free(w.data);
}

/* ---- many arguments ---- */

/* A function that takes its arguments in a table: 80 tensors. */
Test(donated, arguments_in_a_table) {
  enum { MANY = 80 };
  char text[16384];
  size_t used = 0;
  used += (size_t)snprintf(text + used, sizeof text - used, "func.func @f(");
  for (int i = 0; i < MANY; i++)
    used += (size_t)snprintf(text + used, sizeof text - used,
                             "%s%%a%d: tensor<64x32xf32>%s", i ? ", " : "", i,
                             i == 3 || i == 70 ? " {nabla.donated}" : "");
  (void)snprintf(
      text + used, sizeof text - used,
      ") -> (tensor<64x32xf32>, tensor<64x32xf32>) {\n"
      "  %%r = nabla.add %%a3, %%a0 : tensor<64x32xf32>, tensor<64x32xf32>\n"
      "  %%x = nabla.slice %%a0 starts = [0, 0] limits = [1, 32]"
      " : tensor<64x32xf32> -> tensor<1x32xf32>\n"
      "  %%c = arith.constant 5 : index\n  %%z = arith.constant 0 : index\n"
      "  %%s = nabla.dynamic_update_slice %%a70, %%x at (%%c, %%z : index,"
      " index) : tensor<64x32xf32>, tensor<1x32xf32>\n"
      "  return %%r, %%s : tensor<64x32xf32>, tensor<64x32xf32>\n}\n");
  nabla_executable *wide = compile(text, 1), *plain = compile(text, 0);
  nabla_dense in[MANY], out[2], wanted[2] = {{0}};
  for (int i = 0; i < MANY; i++) in[i] = make((uint32_t)i, 2, ROWS, COLUMNS, 0);
  cr_assert_eq(nabla_executable_run(plain, "f", in, MANY, wanted, 2, &diag),
               NABLA_OK, "%s", diag.what);
  out[0] = in[3], out[1] = in[70];
  cr_assert_eq(nabla_executable_run(wide, "f", in, MANY, out, 2, &diag),
               NABLA_OK, "%s", diag.what);
  for (int i = 0; i < 2; i++) {
    cr_expect(!memcmp(out[i].data, wanted[i].data, bytes_of(&out[i])), "%d", i);
    nabla_dense_release(plain, &wanted[i]);
  }
  for (int i = 0; i < MANY; i++) free(in[i].data);
  nabla_executable_close(wide);
  nabla_executable_close(plain);
}
