/* A handler that fails on one device of a mesh of threads: the run has its
 * status, no device waits for it, and the engine, the function and its arrays
 * are used again. */
#include <criterion/criterion.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "nabla/custom_call.h"
#include "nabla/function.h"
#include "nabla/operation.h"
#include "nabla/shard.h"
#include "tests/support/array_scope.h"

enum { DEVICES = 4, COLUMNS = 3 };

static nabla_mesh *mesh;
static nabla_function *function;
static atomic_int calls;

/* ---- a handler that refuses numbers below 0 ---- */

static nabla_call_code take_root(const nabla_call_frame *frame) {
  const nabla_call_buffer *x = &frame->arguments[0];
  int64_t count = 1;
  for (uint32_t d = 0; d < x->rank; d++) count *= x->dims[d];
  atomic_fetch_add(&calls, 1);
  for (int64_t i = 0; i < count; i++) {
    const float value = ((const float *)x->data)[i];
    if (value < 0) {
      (void)snprintf(frame->message, frame->message_size,
                     "no root of a number below 0");
      return NABLA_CALL_OUT_OF_RANGE;
    }
    ((float *)frame->results[0].data)[i] = value * value;
  }
  return NABLA_CALL_OK;
}

static const nabla_operation root = {.struct_size = sizeof root,
                                     .name = "failing.root",
                                     .kind = NABLA_OPERATION_UNARY,
                                     .handler = "failing.root"};

static void start(void) {
  static const nabla_call_parameter one[1] = {
      {"x", NABLA_CALL_DTYPE(F32), -1, NULL}};
  const nabla_call_handler handler = {.struct_size = sizeof handler,
                                      .target = "failing.root",
                                      .platform = "cpu",
                                      .traits = NABLA_CALL_PURE,
                                      .arguments = one,
                                      .results = one,
                                      .argument_count = 1,
                                      .result_count = 1,
                                      .execute = take_root};
  set_up();
  cr_assert_eq(nabla_add_call_handler(&handler, &diag), NABLA_OK);
  cr_assert_eq(nabla_add_operation(&root, &diag), NABLA_OK, "%s", diag.what);
  cr_assert_eq(nabla_mesh_create("x=4", NULL, &mesh, &diag), NABLA_OK);
}

static void end(void) {
  nabla_function_destroy(function);
  nabla_mesh_destroy(mesh);
  tear_down();
}

TestSuite(mesh_failure, .init = start, .fini = end, .timeout = 120);

/* ---- programs: a call on each device, then an exchange ---- */

static void on_device(nabla_scope *s, const nabla_tree *in, nabla_tree *out,
                      void *self) {
  nabla_array *piece = in->items[0].array;
  (void)s, (void)self;
  out->array = nabla_all_reduce(nabla_apply(&root, 1, &piece, NULL),
                                NABLA_SHARD_SUM, "x");
}

static nabla_array *sum_of_roots(nabla_array *x) {
  const nabla_partition rows = nabla_partition_spec(mesh, "x", NULL),
                        whole = nabla_partition_spec(mesh, NULL, NULL);
  nabla_tree item = nabla_tree_of_array(x), out = nabla_tree_of_array(NULL);
  const nabla_tree in = nabla_tree_of_list(1, &item);
  nabla_shard_map(on_device, NULL, &in, 1, &rows, &out, 1, &whole);
  return out.array;
}

static void body(nabla_scope *s, const nabla_tree *in, nabla_tree *out,
                 void *self) {
  (void)s, (void)self;
  out->array = sum_of_roots(in->items[0].array);
}

/* Row r has the value r + 1; of `bad`, unless it is -1, below 0. */
static nabla_array *rows_with(int bad) {
  static float values[DEVICES * COLUMNS];
  const nabla_dense dense = {values, NABLA_DTYPE_F32, 2, {DEVICES, COLUMNS}};
  for (int i = 0; i < DEVICES * COLUMNS; i++)
    values[i] = (float)(i / COLUMNS + 1) * (i / COLUMNS == bad ? -1 : 1);
  return nabla_array_of(scope, &dense);
}

static void expect_sum(nabla_array *y) {
  nabla_dense out;
  cr_assert_eq(nabla_array_read(y, &out, &diag), NABLA_OK, "%s", diag.what);
  for (int i = 0; i < COLUMNS; i++)
    cr_expect_eq(((const float *)out.data)[i], 1 + 4 + 9 + 16);
}

/* Other devices wait in the exchange when it fails. */
Test(mesh_failure, arrays) {
  nabla_dense out;
  for (int bad = 0; bad < DEVICES; bad++) {
    nabla_array *y = sum_of_roots(rows_with(bad));
    cr_assert(y);
    const nabla_status status = nabla_array_read(y, &out, &diag);
    cr_expect(status && status != NABLA_CANCELLED, "device %d: %d", bad,
              (int)status);
    cr_expect(strstr(diag.what, "no root of a number below 0"), "device %d: %s",
              bad, diag.what);
    nabla_scope_clear(scope);
    expect_sum(sum_of_roots(rows_with(-1)));
  }
  cr_expect_geq(atomic_load(&calls), DEVICES * DEVICES);
}

Test(mesh_failure, functions) {
  const nabla_function_options options = {.struct_size = sizeof options,
                                          .name = "f"};
  nabla_function_statistics counts = {.struct_size = sizeof counts};
  cr_assert_eq(nabla_function_create(engine, body, &options, &function, &diag),
               NABLA_OK);
  for (int i = 0; i < 2 * DEVICES; i++) {
    const int bad = i % 2 ? -1 : i / 2;
    nabla_array *x = rows_with(bad);
    nabla_tree item = nabla_tree_of_array(x), out = nabla_tree_of_array(NULL);
    const nabla_tree in = nabla_tree_of_list(1, &item);
    const nabla_status status = nabla_function_call(function, &in, &out, &diag);
    cr_assert_eq(status == NABLA_OK, bad < 0, "%d: %s", i, diag.what);
    if (!status) expect_sum(out.array);
    if (status) cr_expect(strstr(diag.what, "no root"), "%d: %s", i, diag.what);
    expect_sum(sum_of_roots(rows_with(-1))); /* the argument was not harmed */
  }
  cr_assert_eq(nabla_function_count(function, &counts, &diag), NABLA_OK);
  cr_expect_eq(counts.misses, 1);
}

/* All devices fail: the first reason is told. */
Test(mesh_failure, everywhere) {
  nabla_dense out;
  nabla_array *y = sum_of_roots(nabla_neg(rows_with(-1)));
  cr_expect_neq(nabla_array_read(y, &out, &diag), NABLA_OK);
  cr_expect(strstr(diag.what, "no root"), "%s", diag.what);
  nabla_scope_clear(scope);
  expect_sum(sum_of_roots(rows_with(-1)));
}
