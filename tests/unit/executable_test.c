/* Executables whose compiled code is C: binding, running, results handed over
 * and copied, every failure of the code, of memory and of the caller. */
#include "nabla/executable.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/runtime/program/code.h"
#include "lib/runtime/program/executable_internal.h"
#include "lib/runtime/session/run_arena.h"
#include "tests/support/callback_pool.h"
#include "tests/support/failing_allocator.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* ---- the code ------------------------------------------------------------ */

/* A buffer of rank 2 or less, as in nabla/services.h. */
typedef struct buffer {
  float *allocated, *aligned;
  int64_t offset, numbers[4];
} buffer;

static int is_good(const nabla_services *services) {
  return services->version == 1 && services->size == sizeof(nabla_services);
}

/* Allocates rows x columns; NULL after reporting that there is no memory. */
static float *make(const nabla_services *services, buffer *out, int64_t rows,
                   int64_t columns) {
  float *data = services->allocate(
      services, (uint64_t)rows * (uint64_t)columns * sizeof(float));
  if (!data) services->fail(services, NABLA_FAILURE_NO_MEMORY, NULL, 0, 0);
  *out = (buffer){data, data, 0, {rows, columns, columns, 1}};
  return data;
}

/* y = 2 x, for the elements [begin, end). */
static void double_kernel(const uint64_t *arguments, uint64_t begin,
                          uint64_t end) {
  const float *x = (const float *)(uintptr_t)arguments[0];
  float *y = (float *)(uintptr_t)arguments[1];
  for (uint64_t i = begin; i < end; i++) y[i] = 2 * x[i];
}

static void double_it(const nabla_services *services, void *const *arguments,
                      void *const *results) {
  const buffer *x = arguments[0];
  const int64_t rows = x->numbers[0], columns = x->numbers[1];
  float *y = make(services, results[0], rows, columns);
  if (!y) return;
  const uint64_t words[] = {(uint64_t)(uintptr_t)x->aligned,
                            (uint64_t)(uintptr_t)y};
  cr_assert(is_good(services));
  cr_assert_eq((uintptr_t)y % NABLA_SERVICES_ALIGNMENT, 0);
  services->parallel(services, double_kernel, words,
                     (uint64_t)rows * (uint64_t)columns, 3);
}

/* Three blocks, of which one is released and one left behind; the sum of the
 * bias and of the first row. */
static void add_bias(const nabla_services *services, void *const *arguments,
                     void *const *results) {
  const buffer *x = arguments[0], *bias = arguments[1];
  buffer scratch, left;
  if (x->numbers[1] != bias->numbers[0]) {
    services->fail(services, NABLA_FAILURE_SHAPE, "nabla.add", x->numbers[1],
                   bias->numbers[0]);
    services->fail(services, NABLA_FAILURE_NO_MEMORY, "the second", 0, 0);
    return;
  }
  if (!make(services, &scratch, 1, x->numbers[1])) return;
  if (!make(services, &left, 5, 5)) return;
  for (int64_t i = 0; i < x->numbers[1]; i++)
    scratch.aligned[i] = x->aligned[i] + bias->aligned[i];
  float *y = make(services, results[0], 1, x->numbers[1]);
  if (!y) return;
  memcpy(y, scratch.aligned, (size_t)x->numbers[1] * sizeof *y);
  services->release(services, scratch.allocated);
  services->release(services, NULL);
}

/* The argument itself; its transpose; its rows from the second on; columns in
 * reverse; then one block twice. */
static void views(const nabla_services *services, void *const *arguments,
                  void *const *results) {
  const buffer *x = arguments[0];
  const int64_t rows = x->numbers[0], columns = x->numbers[1];
  *(buffer *)results[0] = *x;
  buffer *transposed = results[1], *tail = results[2], *reverse = results[3];
  float *copy = make(services, transposed, columns, rows);
  if (!copy) return;
  memcpy(copy, x->aligned, (size_t)(rows * columns) * sizeof *copy);
  transposed->numbers[2] = 1, transposed->numbers[3] = columns;
  *tail = (buffer){copy, copy, columns, {rows - 1, columns, columns, 1}};
  *reverse = (buffer){copy, copy, columns - 1, {rows, columns, columns, -1}};
  if (!make(services, results[4], 1, 2)) return;
  memcpy(((buffer *)results[4])->aligned, x->aligned, 2 * sizeof(float));
  *(buffer *)results[5] = *(buffer *)results[4];
}

/* The sum of all bytes of codes, and of all scales, times a scalar. */
static void packed(const nabla_services *services, void *const *arguments,
                   void *const *results) {
  const buffer *codes = arguments[0], *scales = arguments[1],
               *factor = arguments[2];
  const uint8_t *bytes = (const uint8_t *)codes->aligned;
  buffer *out = results[0]; /* of rank 0 */
  float sum = 0;
  for (int64_t i = 0; i < codes->numbers[0]; i++) sum += bytes[i];
  for (int64_t i = 0; i < scales->numbers[0]; i++) sum += scales->aligned[i];
  float *y = services->allocate(services, sizeof *y);
  if (!y) {
    services->fail(services, NABLA_FAILURE_NO_MEMORY, "packed", 0, 0);
    return;
  }
  *y = sum * *factor->aligned;
  out->allocated = out->aligned = y;
  out->offset = 0;
}

static void odd(const nabla_services *services, void *const *arguments,
                void *const *results) {
  (void)arguments, (void)results;
  services->fail(services, 77, NULL, 0, 0);
}

static void huge(const nabla_services *services, void *const *arguments,
                 void *const *results) {
  (void)arguments, (void)results;
  if (services->allocate(services, UINT64_MAX - 70)) return;
  services->fail(services, NABLA_FAILURE_NO_MEMORY, NULL, 0, 0);
}

static void negative(const nabla_services *services, void *const *arguments,
                     void *const *results) {
  (void)arguments;
  (void)make(services, results[0], 1, 1);
  ((buffer *)results[0])->numbers[0] = -1;
}

static void nothing(const nabla_services *services, void *const *arguments,
                    void *const *results) {
  (void)arguments, (void)results;
  cr_assert(is_good(services));
}

#define D(name, dtype, shape) \
  "{\"name\":\"" name "\",\"dtype\":\"" dtype "\",\"shape\":[" shape "]}"
#define XX D("x", "F32", "null,null")
#define YY D("", "F32", "null,null")
#define FUNCTION(name, arguments, results)                                     \
  "{\"name\":\"" name "\",\"arguments\":[" arguments "],\"results\":[" results \
  "]}"
#define NF4                                                                  \
  "{\"name\":\"w\",\"dtype\":\"F32\",\"shape\":[4,32],\"encoding\":\"nf4\"," \
  "\"granularity\":\"block\",\"block\":64,\"components\":[{\"name\":"        \
  "\"codes\","                                                               \
  "\"dtype\":\"U8\",\"bytes\":64},{\"name\":\"scales\",\"dtype\":\"F32\","   \
  "\"bytes\":8}]}"
#define SPLAT                                                               \
  "{\"name\":\"c\",\"dtype\":\"F32\",\"shape\":[4],\"encoding\":\"splat\"," \
  "\"components\":[]}"

static const char manifest[] = "{\"abi\":1,\"functions\":["  //
    FUNCTION("double", XX, YY) ","                           //
    FUNCTION("add", XX "," D("b", "F32", "null"), YY) ","    //
    FUNCTION("views", XX,
             YY "," YY "," YY "," YY "," D("", "F32", "1,2") ","  //
             D("", "F32", "1,2")) ","                             //
    FUNCTION("packed", SPLAT "," NF4 "," D("f", "F32", ""),
             D("", "F32", "")) ","                                    //
    FUNCTION("fixed", D("x", "F32", "2,3"), D("", "F32", "2,3")) ","  //
    FUNCTION("odd", "", "") ","                                       //
    FUNCTION("huge", "", "") ","                                      //
    FUNCTION("negative", "", YY) ","                                  //
    FUNCTION("nothing", "", "")                                       //
    "]}";

static const struct {
  const char *symbol;
  nabla_entry_function function;
} symbols[] = {
    {"nabla_entry_double", double_it}, {"nabla_entry_add", add_bias},
    {"nabla_entry_views", views},      {"nabla_entry_packed", packed},
    {"nabla_entry_fixed", double_it},  {"nabla_entry_odd", odd},
    {"nabla_entry_huge", huge},        {"nabla_entry_negative", negative},
    {"nabla_entry_nothing", nothing},
};

static nabla_entry_function look_up(void *self, const char *symbol) {
  (void)self;
  for (size_t i = 0; i < COUNT(symbols); i++)
    if (!strcmp(symbols[i].symbol, symbol)) return symbols[i].function;
  return NULL;
}

static void destroy(void *self) { ++*(int *)self; }

/* ---- the tests ----------------------------------------------------------- */

static nabla_diag diag;
static failing_allocator memory;
static nabla_environment environment;
static nabla_executable *executable;
static int destroyed;

static nabla_status create(const char *text) {
  const nabla_code code = {&destroyed, text, look_up, destroy, 0};
  diag = (nabla_diag)NABLA_DIAG_INIT;
  return nabla_executable_create(&code, &environment, &executable, &diag);
}

static void set_up(void) {
  failing_allocator_init(&memory, 0);
  environment = (nabla_environment){.allocator = &memory.allocator};
  cr_assert_eq(create(manifest), NABLA_OK, "%s", diag.what);
}

static void tear_down(void) {
  nabla_executable_close(executable);
  cr_expect_eq(destroyed, executable ? 1 : destroyed);
  cr_expect(failing_allocator_is_clean(&memory));
}

TestSuite(executable, .init = set_up, .fini = tear_down);

static float values[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};

static nabla_dense array_of(const void *data, uint32_t rank, int64_t rows,
                            int64_t columns) {
  return (nabla_dense){.data = (void *)(uintptr_t)data,
                       .dtype = NABLA_DTYPE_F32,
                       .rank = rank,
                       .shape = {rows, columns}};
}

static nabla_status run(const char *function, const nabla_dense *inputs,
                        size_t input_count, nabla_dense *outputs,
                        size_t output_count) {
  diag = (nabla_diag)NABLA_DIAG_INIT;
  return nabla_executable_run(executable, function, inputs, input_count,
                              outputs, output_count, &diag);
}

static void expect_array(const nabla_dense *array, uint32_t rank, int64_t rows,
                         int64_t columns, const float *expected) {
  cr_assert_eq(array->rank, rank);
  cr_expect_eq(array->dtype, NABLA_DTYPE_F32);
  if (rank > 0) cr_expect_eq(array->shape[0], rows);
  if (rank > 1) cr_expect_eq(array->shape[1], columns);
  const size_t bytes = (size_t)(rows * columns) * sizeof(float);
  cr_expect(!bytes || !memcmp(array->data, expected, bytes));
}

Test(executable, says_what_it_has) {
  cr_expect_eq(nabla_executable_function_count(executable), 9);
  const nabla_signature *function = nabla_executable_find(executable, "packed");
  cr_assert(function != NULL);
  cr_expect_eq(function, nabla_executable_function(executable, 3));
  cr_expect_null(nabla_executable_function(executable, 9));
  cr_expect_null(nabla_executable_find(executable, "pack"));
  cr_assert_eq(function->argument_count, 3);
  const nabla_port *c = &function->arguments[0], *w = &function->arguments[1],
                   *f = &function->arguments[2];
  cr_expect_str_eq(c->encoding_name, "splat");
  cr_expect_null(c->layout.format.encoding);
  cr_expect_eq(c->component_count, 0);
  cr_expect_str_eq(w->name, "w");
  cr_expect_str_eq(w->encoding_name, "nf4");
  cr_expect_eq(w->layout.format.block, 64);
  cr_expect_eq(w->component_count, 2);
  cr_expect_eq(w->rank, 2);
  cr_expect_str_eq(f->encoding_name, "");
  cr_expect_eq(f->rank, 0);
  cr_expect_eq(function->result_count, 1);
  const nabla_port *x =
      &nabla_executable_find(executable, "double")->arguments[0];
  cr_expect_eq(x->shape[1], NABLA_DYNAMIC);
}

/* ---- results ------------------------------------------------------------- */

Test(executable, results_are_handed_over) {
  const nabla_dense x = array_of(values, 2, 3, 4);
  nabla_dense y = {0};
  float expected[12];
  for (int i = 0; i < 12; i++) expected[i] = 2 * values[i];
  cr_assert_eq(run("double", &x, 1, &y, 1), NABLA_OK, "%s", diag.what);
  expect_array(&y, 2, 3, 4, expected);
  cr_expect_eq((uintptr_t)y.data % NABLA_SERVICES_ALIGNMENT, 0);
  nabla_dense_release(executable, &y);
  cr_expect_null(y.data);
  nabla_dense_release(executable, &y);
}

Test(executable, results_are_copied_into_arrays_of_the_caller) {
  const nabla_dense x = array_of(values, 2, 1, 12);
  float room[12];
  nabla_dense y = array_of(room, 2, 1, 12);
  cr_assert_eq(run("double", &x, 1, &y, 1), NABLA_OK, "%s", diag.what);
  cr_expect_eq(y.data, room);
  for (int i = 0; i < 12; i++) cr_expect_eq(room[i], 2 * values[i]);
}

static const int64_t view_shapes[6][2] = {{3, 2}, {2, 3}, {2, 2},
                                          {3, 2}, {1, 2}, {1, 2}};

/* The results of "views" for the first six values as 3 x 2. */
static void expect_views(const nabla_dense *y) {
  static const float transposed[] = {1, 3, 5, 2, 4, 6};
  static const float reverse[] = {2, 1, 4, 3, 6, 5};
  static const float *const wanted[6] = {values,  transposed, values + 2,
                                         reverse, values,     values};
  for (int i = 0; i < 6; i++)
    expect_array(&y[i], 2, view_shapes[i][0], view_shapes[i][1], wanted[i]);
}

Test(executable, results_may_be_views_or_arguments) {
  const nabla_dense x = array_of(values, 2, 3, 2);
  float room[6];
  /* each allocated, then each into an array of the caller */
  for (int given = -1; given < 6; given++) {
    nabla_dense y[6] = {{0}};
    if (given >= 0)
      y[given] =
          array_of(room, 2, view_shapes[given][0], view_shapes[given][1]);
    cr_assert_eq(run("views", &x, 1, y, 6), NABLA_OK, "%s", diag.what);
    expect_views(y);
    for (int i = 0; i < 6; i++) {
      cr_expect_neq(y[i].data, values);
      for (int j = 0; j < i; j++) cr_expect_neq(y[i].data, y[j].data);
      if (i != given) nabla_dense_release(executable, &y[i]);
    }
  }
}

Test(executable, arrays_without_elements_work) {
  const nabla_dense x = array_of(NULL, 2, 0, 5);
  nabla_dense y = {0};
  cr_assert_eq(run("double", &x, 1, &y, 1), NABLA_OK, "%s", diag.what);
  expect_array(&y, 2, 0, 5, NULL);
  cr_expect_not_null(y.data);
  nabla_dense_release(executable, &y);
  cr_assert_eq(run("nothing", NULL, 0, NULL, 0), NABLA_OK, "%s", diag.what);
}

Test(executable, the_number_of_threads_does_not_matter) {
  enum { ROWS = 37, COLUMNS = 29 };
  static float in[ROWS * COLUMNS], out[ROWS * COLUMNS];
  for (int i = 0; i < ROWS * COLUMNS; i++) in[i] = (float)i;
  nabla_executable_close(executable);
  executable = NULL;
  static const uint32_t threads[] = {1, 2, 7};
  for (size_t t = 0; t < COUNT(threads); t++) {
    cr_assert_eq(nabla_pool_create(threads[t], NULL, &environment.pool, NULL),
                 NABLA_OK);
    cr_assert_eq(create(manifest), NABLA_OK);
    for (int64_t rows = 0; rows <= ROWS; rows++) {
      memset(out, 0, sizeof out);
      const nabla_dense x = array_of(in, 2, rows, COLUMNS);
      nabla_dense y = array_of(out, 2, rows, COLUMNS);
      cr_assert_eq(run("double", &x, 1, &y, 1), NABLA_OK);
      for (int i = 0; i < ROWS * COLUMNS; i++)
        cr_assert_eq(out[i], i < rows * COLUMNS ? 2 * in[i] : 0);
    }
    nabla_executable_close(executable);
    nabla_pool_destroy(environment.pool);
    executable = NULL;
  }
}

static int doubles(void) {
  enum { ROWS = 37, COLUMNS = 29 };
  static float in[ROWS * COLUMNS], out[ROWS * COLUMNS];
  for (int i = 0; i < ROWS * COLUMNS; i++) in[i] = (float)i;
  const nabla_dense x = array_of(in, 2, ROWS, COLUMNS);
  nabla_dense y = array_of(out, 2, ROWS, COLUMNS);
  if (run("double", &x, 1, &y, 1)) return 0;
  for (int i = 0; i < ROWS * COLUMNS; i++)
    if (out[i] != 2 * in[i]) return 0;
  return 1;
}

/* A forked child has no workers: it computes alone, and closes. */
Test(executable, threads_of_the_caller_do_not_matter) {
  nabla_executable_close(executable);
  executable = NULL;
  for (int order = 0; order < CALLBACK_ORDERS; order++) {
    environment.pool = callback_pool_create((callback_order)order, 5);
    cr_assert_eq(create(manifest), NABLA_OK);
    const unsigned before = callback_pool_regions();
    cr_expect(doubles(), "order %d", order);
    cr_expect_gt(callback_pool_regions(), before);
    nabla_executable_close(executable);
    nabla_pool_destroy(environment.pool);
    executable = NULL;
  }
}

/* An input's memory as that of one result, the caller's as that of another:
 * results that are the input, or views of it. */
Test(executable, results_may_replace_inputs) {
  for (int over = 0; over < 6; over++)
    for (int beside = 0; beside < 6; beside++) {
      float room[6], other[6];
      memcpy(room, values, sizeof room);
      const nabla_dense x = array_of(room, 2, 3, 2);
      nabla_dense y[6] = {{0}};
      y[beside] =
          array_of(other, 2, view_shapes[beside][0], view_shapes[beside][1]);
      y[over] = array_of(room, 2, view_shapes[over][0], view_shapes[over][1]);
      cr_assert_eq(run("views", &x, 1, y, 6), NABLA_OK, "%s", diag.what);
      expect_views(y);
      for (int i = 0; i < 6; i++)
        if (i != over && i != beside) nabla_dense_release(executable, &y[i]);
    }
  float both[12];
  memcpy(both, values, sizeof both);
  const nabla_dense x = array_of(both, 2, 1, 12);
  nabla_dense y = array_of(both, 2, 1, 12);
  cr_assert_eq(run("double", &x, 1, &y, 1), NABLA_OK, "%s", diag.what);
  for (int i = 0; i < 12; i++) cr_expect_eq(both[i], 2 * values[i]);
}

Test(executable, runs_in_a_forked_child) {
  nabla_executable_close(executable);
  executable = NULL;
  cr_assert_eq(nabla_pool_create(3, NULL, &environment.pool, NULL), NABLA_OK);
  cr_assert_eq(create(manifest), NABLA_OK);
  cr_assert(doubles());
  const pid_t child = fork();
  if (!child) {
    alarm(30);
    const int good = doubles();
    nabla_executable_close(executable);
    nabla_pool_destroy(environment.pool);
    _exit(!good);
  }
  int status;
  cr_assert_eq(waitpid(child, &status, 0), child);
  cr_expect_eq(status, 0);
  cr_expect(doubles());
  nabla_executable_close(executable);
  nabla_pool_destroy(environment.pool);
  executable = NULL;
}

/* ---- what callers do wrong ----------------------------------------------- */

static void expect_refusal(nabla_status status, const char *what) {
  cr_expect_eq(status, NABLA_INVALID_ARGUMENT);
  cr_expect(strstr(diag.what, what) != NULL, "'%s' lacks '%s'", diag.what,
            what);
}

Test(executable, wrong_calls_are_refused) {
  const nabla_dense x = array_of(values, 2, 3, 4);
  nabla_dense y = {0}, two[2] = {x, x};
  expect_refusal(run("duoble", &x, 1, &y, 1), "no function 'duoble'");
  cr_expect_str_eq(diag.next, "did you mean 'double'?");
  expect_refusal(run("double", NULL, 0, &y, 1), "takes 1 inputs (x)");
  expect_refusal(run("double", two, 2, &y, 1), "2 were given");
  expect_refusal(run("double", &x, 1, two, 2), "gives 1 results");
  expect_refusal(run("double", &x, 1, NULL, 0), "room for 0");
  cr_expect_null(y.data);
  cr_expect_eq(two[0].data, values);
}

Test(executable, wrong_inputs_are_refused) {
  nabla_dense y = {0};
  nabla_dense x = array_of(values, 2, 3, 4);
  x.dtype = NABLA_DTYPE_F16;
  expect_refusal(run("double", &x, 1, &y, 1),
                 "input 0 ('x') takes F32 [?,?]; F16 [3,4] was given");
  x.dtype = (nabla_dtype)9999;
  expect_refusal(run("double", &x, 1, &y, 1), "? [3,4] was given");
  x = array_of(values, 1, 3, 4);
  expect_refusal(run("double", &x, 1, &y, 1), "F32 [3] was given");
  x = array_of(values, 0xffffffff, 3, 4);
  expect_refusal(run("double", &x, 1, &y, 1), "F32 [3,4,0,");
  x = array_of(values, 2, -1, 4);
  expect_refusal(run("double", &x, 1, &y, 1), "[?,4] was given");
  x = array_of(values, 2, -7, 4);
  expect_refusal(run("double", &x, 1, &y, 1), "[-7,4] was given");
  x = array_of(values, 2, INT64_MAX, INT64_MAX);
  expect_refusal(run("double", &x, 1, &y, 1), "too large to exist");
  x = array_of(values, 2, 0, INT64_MAX);
  expect_refusal(run("double", &x, 1, &y, 1), "too large to exist");
  x = array_of(NULL, 2, 1, 1);
  expect_refusal(run("double", &x, 1, &y, 1), "has no data");
  x = array_of((char *)values + 2, 2, 1, 1);
  expect_refusal(run("double", &x, 1, &y, 1), "no multiple of 4");
  x = array_of(values, 2, 3, 2);
  expect_refusal(run("fixed", &x, 1, &y, 1),
                 "takes F32 [2,3]; F32 [3,2] was given");
  cr_expect_null(y.data);
}

Test(executable, wrong_outputs_are_refused_and_untouched) {
  float room[12] = {0};
  const nabla_dense x = array_of(values, 2, 3, 4);
  nabla_dense y = array_of(room, 2, 3, 5);
  expect_refusal(run("double", &x, 1, &y, 1),
                 "result 0 is F32 [3,4]; its array is F32 [3,5]");
  y = array_of(room, 1, 12, 0);
  expect_refusal(run("double", &x, 1, &y, 1), "its array is F32 [12]");
  y = array_of(room, 2, 3, 4);
  y.dtype = NABLA_DTYPE_I32;
  expect_refusal(run("double", &x, 1, &y, 1), "its array is I32 [3,4]");
  y = array_of(room, 77, 3, 4);
  expect_refusal(run("double", &x, 1, &y, 1), "its array is F32");
  for (int i = 0; i < 12; i++) cr_expect_eq(room[i], 0);
}

/* ---- what the code reports ----------------------------------------------- */

Test(executable, failures_of_the_code_are_told) {
  const nabla_dense inputs[] = {array_of(values, 2, 3, 4),
                                array_of(values, 1, 3, 0)};
  nabla_dense y = {0};
  expect_refusal(run("add", inputs, 2, &y, 1),
                 "nabla.add: dimensions 4 and 3 do not agree");
  cr_expect_eq(run("odd", NULL, 0, NULL, 0), NABLA_UNSUPPORTED);
  cr_expect(strstr(diag.what, "77") != NULL, "%s", diag.what);
  cr_expect_eq(run("huge", NULL, 0, NULL, 0), NABLA_NO_MEMORY);
  cr_expect(strstr(diag.what, "18446744073709551545 bytes") != NULL, "%s",
            diag.what);
  cr_expect_eq(run("negative", NULL, 0, &y, 1), NABLA_CORRUPT);
  cr_expect_null(y.data);
}

/* Frees what the executable keeps for its next run. */
static void forget(void) {
  nabla_run_arena_destroy(atomic_exchange(&executable->idle, NULL),
                          &memory.allocator);
}

static void fail_each_allocation(const char *function, const nabla_dense *in,
                                 size_t inputs, size_t outputs) {
  nabla_status status = NABLA_NO_MEMORY;
  for (size_t step = 1; status && step < 100; step++) {
    nabla_dense y[6] = {{0}};
    const size_t live = memory.live_blocks;
    memory.fail_at = memory.requests + step;
    memory.failures = 0;
    status = run(function, in, inputs, y, outputs);
    cr_expect_eq(status, memory.failures ? NABLA_NO_MEMORY : NABLA_OK);
    forget();
    if (status) cr_expect_eq(memory.live_blocks, live, "%s", function);
    for (size_t i = 0; i < outputs; i++) {
      if (status) cr_expect_null(y[i].data);
      nabla_dense_release(executable, &y[i]);
    }
    forget();
    cr_expect_eq(memory.live_blocks, live, "%s", function);
  }
  memory.fail_at = 0;
  cr_expect_eq(status, NABLA_OK);
}

Test(executable, a_second_run_allocates_its_frame_alone) {
  const nabla_dense x = array_of(values, 2, 3, 4);
  float out[12] __attribute__((aligned(64)));
  nabla_dense y = array_of(out, 2, 3, 4);
  for (int i = 0; i < 3; i++) {
    const size_t before = memory.requests;
    cr_assert_eq(run("double", &x, 1, &y, 1), NABLA_OK);
    if (i) cr_expect_eq(memory.requests - before, 1);
  }
}

Test(executable, a_released_result_is_used_again) {
  const nabla_dense x = array_of(values, 2, 3, 4);
  void *first = NULL;
  for (int i = 0; i < 3; i++) {
    nabla_dense y = {0};
    const size_t before = memory.requests;
    cr_assert_eq(run("double", &x, 1, &y, 1), NABLA_OK);
    if (i) cr_expect_eq(memory.requests - before, 1);
    if (i) cr_expect_eq(y.data, first);
    first = y.data;
    nabla_dense_release(executable, &y);
    cr_expect_null(y.data);
  }
}

Test(executable, every_allocation_of_a_run_fails_once) {
  const nabla_dense x = array_of(values, 2, 3, 4);
  const nabla_dense two[] = {x, array_of(values, 1, 4, 0)};
  fail_each_allocation("double", &x, 1, 1);
  fail_each_allocation("add", two, 2, 1);
  fail_each_allocation("views", &x, 1, 6);
}

/* ---- weights ------------------------------------------------------------- */

static uint8_t codes[64];
static float scales[2] = {0.5f, 0.25f};

static nabla_weight_desc nf4_weight(void) {
  for (size_t i = 0; i < sizeof codes; i++) codes[i] = 1;
  return (nabla_weight_desc){
      .name = "model.w",
      .rank = 2,
      .shape = {4, 32},
      .dtype = NABLA_DTYPE_BF16,
      .layout = {.kind = NABLA_STORAGE_PLANES,
                 .format = {.encoding = nabla_encoding_find("nf4"),
                            .granularity = NABLA_PER_BLOCK,
                            .block = 64}},
      .component_count = 2,
      .components = {{"codes", NABLA_DTYPE_U8, codes, 64},
                     {"scales", NABLA_DTYPE_F32, scales, 8}}};
}

static nabla_weight_desc dense_weight(uint32_t rank, uint64_t rows,
                                      uint64_t columns) {
  return (nabla_weight_desc){
      .name = "model.b",
      .rank = rank,
      .shape = {rows, columns},
      .dtype = NABLA_DTYPE_F32,
      .component_count = 1,
      .components = {{"values", NABLA_DTYPE_F32, values, 4 * rows * columns}}};
}

static nabla_status bind(const char *argument,
                         const nabla_weight_desc *weight) {
  diag = (nabla_diag)NABLA_DIAG_INIT;
  return nabla_executable_bind(executable, argument, weight, &diag);
}

Test(executable, packed_weights_are_bound) {
  static const float factor = 2;
  const nabla_dense f = array_of(&factor, 0, 0, 0);
  nabla_dense y = {0};
  nabla_weight_desc weight = nf4_weight();
  expect_refusal(run("packed", &f, 1, &y, 1), "'w' of 'packed' is not bound");
  cr_expect_str_eq(diag.next,
                   "bind a weight that is nf4 in blocks of 64, [4,32]");
  cr_assert_eq(bind("w", &weight), NABLA_OK, "%s", diag.what);
  cr_assert_eq(run("packed", &f, 1, &y, 1), NABLA_OK, "%s", diag.what);
  cr_expect_eq(y.rank, 0);
  cr_expect_eq(*(float *)y.data, 2 * (64 + 0.75f));
  nabla_dense_release(executable, &y);
  static const float other[] = {4, 8};
  weight.components[1].data = other;
  cr_assert_eq(bind("w", &weight), NABLA_OK, "an earlier one is replaced");
  cr_assert_eq(run("packed", &f, 1, &y, 1), NABLA_OK, "%s", diag.what);
  cr_expect_eq(*(float *)y.data, 2 * (64 + 12.0f));
  nabla_dense_release(executable, &y);
}

Test(executable, dense_weights_are_bound_in_every_function) {
  static const float expected[] = {2, 4, 6, 8};
  const nabla_weight_desc bias = dense_weight(1, 4, 1);
  const nabla_dense x = array_of(values, 2, 1, 4);
  nabla_dense y = {0};
  cr_assert_eq(bind("b", &bias), NABLA_OK, "%s", diag.what);
  cr_assert_eq(run("add", &x, 1, &y, 1), NABLA_OK, "%s", diag.what);
  expect_array(&y, 2, 1, 4, expected);
  nabla_dense_release(executable, &y);
  const nabla_dense two[] = {x, x};
  expect_refusal(run("add", two, 2, &y, 1), "takes 1 inputs (x)");
}

Test(executable, weights_that_do_not_fit_are_refused) {
  nabla_weight_desc weight = nf4_weight();
  expect_refusal(bind("ww", &weight), "no function has an argument 'ww'");
  expect_refusal(bind("c", &weight), "is a splat: it takes no weight");
  weight.layout.format.block = 128;
  expect_refusal(bind("w", &weight),
                 "'w' takes nf4 in blocks of 64, [4,32]; the weight is nf4 in "
                 "blocks of 128, [4,32]");
  cr_expect_str_eq(diag.tensor, "model.w");
  weight = nf4_weight();
  weight.layout.format.encoding = nabla_encoding_find("fp4");
  expect_refusal(bind("w", &weight), "the weight is fp4");
  weight = nf4_weight();
  weight.layout.format = (nabla_format){.encoding = nabla_encoding_find("int8"),
                                        .granularity = NABLA_PER_ROW,
                                        .block = 32};
  expect_refusal(bind("w", &weight), "the weight is int8 in rows, [4,32]");
  weight = nf4_weight();
  weight.shape[1] = 33;
  expect_refusal(bind("w", &weight), "[4,33]");
  weight = nf4_weight();
  weight.components[1].bytes = 4;
  expect_refusal(
      bind("w", &weight),
      "argument 'w': the scales have 4 bytes, and the shape needs 8");
  weight = nf4_weight();
  weight.component_count = 1;
  expect_refusal(bind("w", &weight), "1 components; its layout has 2");
  weight = dense_weight(2, 2, 3);
  expect_refusal(bind("w", &weight), "the weight is F32 [2,3]");
  expect_refusal(bind("b", &weight), "takes F32 [?]; the weight is F32 [2,3]");
  weight = dense_weight(1, 4, 1);
  weight.dtype = NABLA_DTYPE_F16;
  expect_refusal(bind("b", &weight), "the weight is F16 [4]");
  weight = dense_weight(2, 2, 3);
  cr_expect_eq(bind("x", &weight), NABLA_OK, "fits every x");
  weight = dense_weight(2, 3, 2);
  expect_refusal(bind("x", &weight), "takes F32 [2,3]");
}

/* Every component of a weight in turn: no data, and data off by each byte. */
static void expect_data_checked(const char *argument, nabla_weight_desc weight,
                                const char *what) {
  static _Alignas(16) uint8_t place[128];
  for (uint32_t i = 0; i < weight.component_count; i++) {
    nabla_weight_desc bad = weight;
    const uint64_t size = nabla_dtype_bits(bad.components[i].dtype) / 8;
    bad.components[i].data = NULL;
    expect_refusal(bind(argument, &bad), "have 0 bytes, and the shape needs");
    cr_expect(strstr(diag.what, bad.components[i].name), "%s", diag.what);
    cr_expect_str_eq(diag.tensor, what);
    for (size_t off = 0; off < 8; off++) {
      bad.components[i].data = place + off;
      if (off % size)
        expect_refusal(bind(argument, &bad), "are not aligned to");
      else
        cr_expect_eq(bind(argument, &bad), NABLA_OK, "%s", diag.what);
    }
  }
}

Test(executable, data_of_weights_are_checked) {
  expect_data_checked("w", nf4_weight(), "model.w");
  expect_data_checked("b", dense_weight(1, 4, 1), "model.b");
  nabla_weight_desc weight = nf4_weight();
  weight.rank = 99;
  expect_refusal(bind("w", &weight), "takes nf4");
  weight = dense_weight(2, 0, 3); /* no elements need no data */
  weight.components[0].data = NULL;
  cr_expect_neq(bind("x", &weight), NABLA_OK, "of another shape");
  cr_expect_not(strstr(diag.what, "NULL"), "%s", diag.what);
}

/* None is bound when one argument of that name does not fit. */
Test(executable, binding_is_all_or_nothing) {
  const nabla_weight_desc weight = dense_weight(2, 3, 2);
  nabla_dense y = {0};
  expect_refusal(bind("x", &weight), "takes F32 [2,3]");
  expect_refusal(run("double", NULL, 0, &y, 1), "takes 1 inputs");
}

/* ---- creation ------------------------------------------------------------ */

Test(executable, creation_takes_the_code) {
  nabla_executable_close(executable);
  executable = NULL;
  destroyed = 0;
  cr_expect_eq(create(NULL), NABLA_CORRUPT);
  cr_expect_eq(destroyed, 1);
  cr_expect_eq(create("{\"abi\":1}"), NABLA_CORRUPT);
  cr_expect_eq(destroyed, 2);
  cr_expect_eq(
      create("{\"abi\":1,\"functions\":[" FUNCTION("gone", "", "") "]}"),
      NABLA_CORRUPT);
  cr_expect(strstr(diag.what, "no function 'gone'") != NULL, "%s", diag.what);
  cr_expect_eq(destroyed, 3);
  nabla_executable_close(NULL);
}

Test(executable, every_allocation_of_creation_fails_once) {
  nabla_executable_close(executable);
  executable = NULL;
  nabla_status status = NABLA_NO_MEMORY;
  for (size_t at = 1; status && at < 1000; at++) {
    memory.fail_at = memory.requests + at;
    memory.failures = 0;
    destroyed = 0;
    status = create(manifest);
    cr_expect_eq(status, memory.failures ? NABLA_NO_MEMORY : NABLA_OK);
    if (status) cr_expect_eq(destroyed, 1);
    if (status) cr_expect_eq(memory.live_blocks, 0);
  }
  memory.fail_at = 0;
  cr_expect_eq(status, NABLA_OK);
}
