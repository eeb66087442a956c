/* Programs that nabla_function_emit writes: a saved program gives the bytes of
 * the function, with what it captured bound from a file. */
#include <criterion/criterion.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "nabla/derivative.h"
#include "nabla/function.h"
#include "nabla/model.h"
#include "nabla/session.h"
#include "tests/support/function_file.h"

enum { COLUMNS = 64, ROWS = 2 };

static nabla_function *function, *other;
static char captured[300]; /* `file` is the program's */

static void start(void) {
  begin();
  temp_folder_path(&folder, "captured.safetensors", captured);
}

static void end(void) {
  nabla_function_destroy(other);
  nabla_function_destroy(function);
  end_file();
}

TestSuite(function_emit, .init = start, .fini = end, .timeout = 300);

/* ---- functions ---- */

typedef struct affine {
  nabla_array *w, *b; /* nf4, dense */
} affine;

/* {"y": sigmoid(x w^T + b) scale}, of arguments {"x", "scale"}. */
static void forward(nabla_scope *s, const nabla_tree *in, nabla_tree *out,
                    void *self) {
  const affine *p = self;
  nabla_array *y = nabla_sigmoid(nabla_linear(in->items[0].array, p->w, p->b));
  nabla_array *two = nabla_scalar(s, 2);
  out->items[0].array = nabla_mul(nabla_mul(y, in->items[1].array), two);
}

static void square(nabla_scope *s, const nabla_tree *in, nabla_tree *out,
                   void *self) {
  (void)s, (void)self;
  out->items[0].array = nabla_mul(in->items[0].array, in->items[1].array);
}

static void sum_of_squares(nabla_scope *s, const nabla_tree *in,
                           nabla_tree *out, void *self) {
  (void)s, (void)self;
  nabla_array *x = in->items[0].array;
  out->array = nabla_sum(nabla_mul(x, x), NABLA_ALL_DIMS, 0);
}

/* The next total, which is a state, and twice that. */
static void add_up(nabla_scope *s, const nabla_tree *in, nabla_tree *out,
                   void *self) {
  (void)s, (void)self;
  out->items[0].array = nabla_add(in->items[0].array, in->items[1].array);
  out->items[1].array = nabla_add(out->items[0].array, out->items[0].array);
}

static nabla_array *draw(int64_t seed, int64_t rows, int64_t columns) {
  const int64_t shape[2] = {rows, columns};
  return nabla_normal(nabla_integer(scope, seed), NABLA_DTYPE_F32, 2, shape);
}

static affine parameters(void) {
  const nabla_storage nf4 = {
      .kind = NABLA_STORAGE_PLANES,
      .format = {.encoding = nabla_encoding_find("nf4"), .block = 64}};
  return (affine){
      nabla_quantize(draw(1, ROWS, COLUMNS), &nf4),
      nabla_arange(scope, NABLA_DTYPE_F32, 0, ROWS, 1),
  };
}

/* The trees of a call: {"x", "scale"}, and a list of at most two. */
static nabla_tree in_items[2], out_items[2], in, out;

static void make_trees(nabla_array *x, nabla_array *scale, size_t results) {
  static const char *const names[2] = {"x", "scale"};
  in_items[0] = nabla_tree_of_array(x);
  in_items[1] = nabla_tree_of_array(scale);
  for (int i = 0; i < 2; i++) out_items[i] = nabla_tree_of_array(NULL);
  in = nabla_tree_of_fields(2, names, in_items);
  out = nabla_tree_of_list(results, out_items);
}

static nabla_dense call(nabla_function *f, nabla_array *x, nabla_array *scale) {
  nabla_dense y;
  make_trees(x, scale, 1);
  cr_assert_eq(nabla_function_call(f, &in, &out, &diag), NABLA_OK, "%s",
               diag.what);
  cr_assert_eq(nabla_array_read(out_items[0].array, &y, &diag), NABLA_OK);
  return y;
}

static nabla_dense dense_of(nabla_array *x) {
  nabla_dense value;
  cr_assert_eq(nabla_array_read(x, &value, &diag), NABLA_OK, "%s", diag.what);
  return value;
}

/* ---- programs ---- */

static nabla_status emit(nabla_function *f, nabla_emission emission,
                         nabla_function_emit_options options,
                         nabla_blob *blob) {
  const nabla_sink sink = nabla_blob_sink(blob);
  options.struct_size = sizeof options;
  return nabla_function_emit(f, emission, &options, &sink, &diag);
}

/* Writes the program to `file`, and opens it. */
static nabla_executable *open_program(nabla_function *f,
                                      nabla_function_emit_options options) {
  nabla_executable *program = NULL;
  nabla_blob blob = {0};
  cr_assert_eq(emit(f, NABLA_EMIT_SO, options, &blob), NABLA_OK, "%s",
               diag.what);
  temp_folder_write(&folder, "f.nabla", blob.bytes, blob.size);
  nabla_blob_release(&blob);
  cr_assert_eq(nabla_executable_open(file, NULL, &program, &diag), NABLA_OK,
               "%s", diag.what);
  return program;
}

static void refuse(nabla_function *f, nabla_function_emit_options options,
                   nabla_status status, const char *why) {
  nabla_blob blob = {0};
  cr_expect_eq(emit(f, NABLA_EMIT_MLIR, options, &blob), status, "%s", why);
  cr_expect(strstr(diag.what, why), "%s: %s", why, diag.what);
  cr_expect(!blob.bytes);
  nabla_blob_release(&blob);
}

static void expect_run(nabla_executable *program, int64_t rows) {
  nabla_array *x = draw(rows, rows, COLUMNS), *scale = nabla_scalar(scope, 3);
  nabla_dense got = {.data = NULL};
  const nabla_dense want = call(function, x, scale);
  const double three = 3; /* numbers are f64 */
  const nabla_dense inputs[2] = {
      dense_of(x), {(void *)(uintptr_t)&three, NABLA_DTYPE_F64, 0, {0}}};
  cr_assert_eq(nabla_executable_run(program, "main", inputs, 2, &got, 1, &diag),
               NABLA_OK, "%s", diag.what);
  cr_assert(got.rank == 2 && got.shape[0] == rows && got.shape[1] == ROWS);
  cr_expect(!memcmp(got.data, want.data, (size_t)rows * ROWS * sizeof(float)));
  nabla_dense_release(program, &got);
}

/* A packed weight, a vector and a number are captured; the batch is named. */
Test(function_emit, a_saved_program_gives_the_same_bytes) {
  static const nabla_function_dim dims[] = {{"x", 0, "batch"}};
  affine p = parameters();
  nabla_model *model = NULL;
  nabla_bind_summary summary;
  function = make_function(
      forward, &p, (nabla_function_options){.dims = dims, .dim_count = 1});
  (void)call(function, draw(7, 3, COLUMNS), nabla_scalar(scope, 3));
  nabla_executable *program = open_program(
      function, (nabla_function_emit_options){.captured = captured});
  cr_assert_eq(nabla_model_open(captured, NULL, &model, &diag), NABLA_OK);
  cr_assert_eq(
      nabla_executable_bind_model(program, model, NULL, &summary, &diag),
      NABLA_OK, "%s", diag.what);
  cr_expect_eq(summary.counts[NABLA_BIND_BOUND], 2); /* not the number */
  cr_expect_eq(summary.counts[NABLA_BIND_INPUT], 2);
  cr_expect_eq(summary.counts[NABLA_BIND_UNUSED], 0);
  expect_run(program, 3);
  expect_run(program, 5);
  nabla_executable_close(program);
  nabla_model_close(model);
}

/* Without their values a run names what is missing. */
Test(function_emit, captured_arrays_are_bound_by_the_caller) {
  affine p = parameters();
  nabla_dense y = {.data = NULL};
  function = make_function(forward, &p, (nabla_function_options){0});
  nabla_array *x = draw(7, 3, COLUMNS);
  (void)call(function, x, nabla_scalar(scope, 3));
  nabla_executable *program =
      open_program(function, (nabla_function_emit_options){0});
  const nabla_signature *signature = nabla_executable_find(program, "main");
  cr_assert(signature);
  const nabla_dense input = dense_of(x);
  cr_expect_eq(nabla_executable_run(program, "main", &input, 1, &y, 1, &diag),
               NABLA_INVALID_ARGUMENT);
  cr_expect(strstr(diag.what, "captured:"), "%s", diag.what);
  nabla_executable_close(program);
}

static float offsets[3] = {1, 2, 4};

/* (0.25 x + offsets) * 3 - 7 / x: numbers before and behind a captured array.
 */
static void with_numbers(nabla_scope *s, const nabla_tree *x_in,
                         nabla_tree *y_out, void *self) {
  const nabla_dense value = {offsets, NABLA_DTYPE_F32, 1, {3}};
  nabla_array *x = x_in->items[0].array;
  nabla_array *y = nabla_mul(nabla_scalar(s, .25), x);
  if (self) y = nabla_add(y, nabla_array_of(s, &value));
  y = nabla_mul(y, nabla_integer(s, 3));
  y_out->items[0].array = nabla_sub(y, nabla_div(nabla_scalar(s, 7), x));
}

/* The values of captured numbers are in the program, those of the other
 * signature in its own. */
Test(function_emit, numbers_are_constants) {
  static const char *const names[1] = {"x"};
  int with_array = 1;
  nabla_array *x = draw(3, 4, 3);
  for (int i = 0; i < 2; i++) {
    nabla_dense got = {.data = NULL};
    function = make_function(with_numbers, i ? &with_array : NULL,
                             (nabla_function_options){0});
    make_trees(x, NULL, 1);
    in = nabla_tree_of_fields(1, names, in_items);
    cr_assert_eq(nabla_function_call(function, &in, &out, &diag), NABLA_OK);
    const nabla_dense want = dense_of(out_items[0].array);
    nabla_executable *program =
        open_program(function, (nabla_function_emit_options){0});
    const nabla_signature *main = nabla_executable_find(program, "main");
    cr_assert_eq(main->argument_count, (size_t)(i ? 2 : 1));
    if (i) cr_expect_str_eq(main->arguments[1].name, "captured:0");
    const nabla_dense inputs[2] = {dense_of(x),
                                   {offsets, NABLA_DTYPE_F32, 1, {3}}};
    cr_assert_eq(nabla_executable_run(program, "main", inputs, i ? 2 : 1, &got,
                                      1, &diag),
                 NABLA_OK, "%s", diag.what);
    cr_expect(!memcmp(got.data, want.data, 12 * sizeof(float)));
    nabla_dense_release(program, &got);
    nabla_executable_close(program);
    if (!i)
      refuse(function, (nabla_function_emit_options){.captured = captured},
             NABLA_INVALID_ARGUMENT, "its numbers are constants");
    nabla_function_destroy(function);
    function = NULL;
  }
}

Test(function_emit, trees_choose_a_signature) {
  nabla_array *x = draw(1, 2, 3), *row = draw(2, 1, 3);
  nabla_dense got = {.data = NULL};
  function = make_function(square, NULL, (nabla_function_options){0});
  refuse(function, (nabla_function_emit_options){0}, NABLA_INVALID_ARGUMENT,
         "has no signature yet");
  const nabla_dense want = call(function, x, row);
  (void)call(function, row, row);
  refuse(function, (nabla_function_emit_options){0}, NABLA_INVALID_ARGUMENT,
         "several signatures");
  make_trees(x, row, 1);
  const nabla_function_emit_options of = {.arguments = &in, .results = &out};
  nabla_executable *program = open_program(function, of);
  const nabla_dense inputs[2] = {dense_of(x), dense_of(row)};
  cr_assert_eq(nabla_executable_run(program, "main", inputs, 2, &got, 1, &diag),
               NABLA_OK, "%s", diag.what);
  cr_expect(!memcmp(got.data, want.data, 6 * sizeof(float)));
  nabla_dense_release(program, &got);
  nabla_executable_close(program);
  /* one that was not called yet */
  nabla_blob blob = {0};
  nabla_function_statistics counts = {.struct_size = sizeof counts};
  make_trees(x, x, 1);
  cr_expect_eq(emit(function, NABLA_EMIT_MLIR, of, &blob), NABLA_OK, "%s",
               diag.what);
  cr_expect(strstr(blob.bytes, "llvm.func"));
  nabla_blob_release(&blob);
  cr_assert_eq(nabla_function_count(function, &counts, &diag), NABLA_OK);
  cr_expect_eq(counts.signatures, 3);
}

Test(function_emit, what_is_refused) {
  affine p = parameters();
  nabla_blob blob = {0};
  const nabla_sink sink = nabla_blob_sink(&blob);
  function = make_function(forward, &p, (nabla_function_options){0});
  other = make_function(square, NULL, (nabla_function_options){0});
  (void)call(function, draw(7, 3, COLUMNS), nabla_scalar(scope, 3));
  (void)call(other, draw(1, 2, 3), draw(2, 2, 3));
  refuse(other, (nabla_function_emit_options){.captured = captured},
         NABLA_INVALID_ARGUMENT, "captures no arrays");
  refuse(function, (nabla_function_emit_options){.arguments = &in},
         NABLA_INVALID_ARGUMENT, "results");
  temp_folder_write(&folder, "captured.safetensors", "x", 1);
  refuse(function, (nabla_function_emit_options){.captured = captured},
         NABLA_EXISTS, "");
  cr_expect_eq(
      emit(function, NABLA_EMIT_ASM,
           (nabla_function_emit_options){.captured = captured, .force = 1},
           &blob),
      NABLA_OK, "%s", diag.what);
  nabla_blob_release(&blob);
  const nabla_compile_options compile = {.struct_size = sizeof compile,
                                         .target = "no-such-cpu"};
  refuse(function, (nabla_function_emit_options){.compile = &compile},
         NABLA_INVALID_ARGUMENT, "no-such-cpu");
  const nabla_function_emit_options wrong = {.struct_size = 8};
  cr_expect_eq(
      nabla_function_emit(function, NABLA_EMIT_SO, &wrong, &sink, &diag),
      NABLA_INVALID_ARGUMENT);
  cr_expect(!blob.bytes);
}

static nabla_status refuse_bytes(void *self, const void *data, size_t size,
                                 nabla_diag *failure) {
  (void)data, (void)size, (void)failure;
  ++*(int *)self;
  return NABLA_IO;
}

/* Neither the sink nor the file of captured arrays gets anything, and the same
 * call with the mistake mended needs no `force`. */
Test(function_emit, failures_leave_nothing) {
  affine p = parameters();
  nabla_blob blob = {0};
  const nabla_compile_options compile = {.struct_size = sizeof compile,
                                         .target = "no-such-cpu"};
  const nabla_function_emit_options values = {.captured = captured};
  function = make_function(forward, &p, (nabla_function_options){0});
  (void)call(function, draw(7, 3, COLUMNS), nabla_scalar(scope, 3));
  refuse(
      function,
      (nabla_function_emit_options){.captured = captured, .compile = &compile},
      NABLA_INVALID_ARGUMENT, "no-such-cpu");
  cr_expect(access(captured, F_OK), "there is a file of captured arrays");
  cr_expect_eq(emit(function, NABLA_EMIT_OBJ, values, &blob), NABLA_OK, "%s",
               diag.what);
  cr_expect(blob.size && !access(captured, F_OK));
  nabla_blob_release(&blob);
  /* and the sink's own failure is the status, with all of the program at once
   */
  int calls = 0;
  const nabla_sink broken = {refuse_bytes, &calls};
  const nabla_function_emit_options again = {
      .struct_size = sizeof again, .captured = captured, .force = 1};
  cr_expect_eq(
      nabla_function_emit(function, NABLA_EMIT_OBJ, &again, &broken, &diag),
      NABLA_IO);
  cr_expect_eq(calls, 1);
}

Test(function_emit, derivatives) {
  const nabla_derivative_options of_x = {
      .struct_size = sizeof of_x, .wrt = (const char *[]){"x"}, .wrt_count = 1};
  static const char *const names[1] = {"x"};
  nabla_dense got = {.data = NULL};
  function = make_function(sum_of_squares, NULL, (nabla_function_options){0});
  cr_assert_eq(nabla_grad(function, &of_x, &other, &diag), NABLA_OK);
  nabla_array *x = vector(3);
  make_trees(x, NULL, 1);
  in = nabla_tree_of_fields(1, names, in_items);
  nabla_executable *program =
      open_program(other, (nabla_function_emit_options){
                              .arguments = &in, .results = &out_items[0]});
  const nabla_dense input = dense_of(x);
  cr_assert_eq(nabla_executable_run(program, "main", &input, 1, &got, 1, &diag),
               NABLA_OK, "%s", diag.what);
  for (int i = 0; i < 3; i++)
    cr_expect_eq(((float *)got.data)[i], 2 * ((float *)input.data)[i]);
  nabla_dense_release(program, &got);
  nabla_executable_close(program);
}

Test(function_emit, loaded_functions) {
  char path[300];
  nabla_array *x = draw(1, 2, 3), *row = draw(2, 1, 3);
  nabla_dense got = {.data = NULL};
  temp_folder_path(&folder, "saved", path);
  function = make_function(square, NULL, (nabla_function_options){0});
  (void)call(function, x, row);
  cr_assert_eq(nabla_function_save(function, path, 0, &diag), NABLA_OK);
  cr_assert_eq(nabla_function_load(engine, path, &other, &diag), NABLA_OK);
  nabla_function_signature known = {.struct_size = sizeof known};
  cr_assert_eq(nabla_function_describe(other, 0, &known, &diag), NABLA_OK);
  cr_expect(known.argument_count == 2 && known.captured_count == 0 &&
            known.result_count == 1);
  cr_expect_eq(nabla_function_describe(other, 1, &known, &diag),
               NABLA_INVALID_ARGUMENT);
  cr_expect(strstr(diag.what, "1 signature"), "%s", diag.what);
  known.struct_size = 8;
  cr_expect_eq(nabla_function_describe(other, 0, &known, &diag),
               NABLA_INVALID_ARGUMENT);
  nabla_executable *program =
      open_program(other, (nabla_function_emit_options){0});
  const nabla_dense inputs[2] = {dense_of(x), dense_of(row)};
  const nabla_dense want = call(function, x, row);
  cr_assert_eq(nabla_executable_run(program, "main", inputs, 2, &got, 1, &diag),
               NABLA_OK, "%s", diag.what);
  cr_expect(!memcmp(got.data, want.data, 6 * sizeof(float)));
  nabla_dense_release(program, &got);
  nabla_executable_close(program);
}

Test(function_emit, states_are_those_of_sessions) {
  static const nabla_function_replacement states[] = {{"x", "0"}};
  static float zero, one = 1, two;
  const nabla_dense none = {&zero, NABLA_DTYPE_F32, 0, {0}},
                    input = {&one, NABLA_DTYPE_F32, 0, {0}};
  nabla_dense output = {&two, NABLA_DTYPE_F32, 0, {0}};
  nabla_session *session = NULL;
  function = make_function(
      add_up, NULL,
      (nabla_function_options){.states = states, .state_count = 1});
  make_trees(nabla_array_of(scope, &none), nabla_array_of(scope, &input), 2);
  nabla_executable *program = open_program(
      function,
      (nabla_function_emit_options){.arguments = &in, .results = &out});
  cr_assert_eq(nabla_session_create(program, NULL, &session, &diag), NABLA_OK,
               "%s", diag.what);
  for (int i = 1; i < 4; i++) {
    cr_assert_eq(
        nabla_session_run(session, "main", &input, 1, &output, 1, &diag),
        NABLA_OK, "%s", diag.what);
    cr_expect_eq(two, 2 * (float)i);
  }
  nabla_session_close(session);
  nabla_executable_close(program);
}
