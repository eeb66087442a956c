/* nabla/dlpack.h, and the eager mode of nabla/array.h. */
#include "nabla/dlpack.h"

#include <criterion/criterion.h>
#include <string.h>

#include "nabla/function.h"
#include "tests/support/array_scope.h"

static int deleted;

TestSuite(dlpack, .init = set_up, .fini = tear_down, .timeout = 300);

static void count_deletion(nabla_dlpack_managed *self) {
  deleted++;
  self->deleter = NULL;
}

static float data[7] = {0, 1, 2, 3, 4, 5, 6};
static int64_t shape[2] = {2, 3}, strides[2] = {3, 1};

/* A 2 x 3 matrix of `data` from its second element on. */
static nabla_dlpack_managed matrix(void) {
  return (nabla_dlpack_managed){
      .version = {1, 0},
      .deleter = count_deletion,
      .dl_tensor = {.data = data,
                    .device = {NABLA_DLPACK_CPU, 0},
                    .ndim = 2,
                    .dtype = {NABLA_DLPACK_FLOAT, 32, 1},
                    .shape = shape,
                    .strides = strides,
                    .byte_offset = sizeof(float)}};
}

static nabla_engine_statistics count(void) {
  nabla_engine_statistics out = {.struct_size = sizeof out};
  cr_assert_eq(nabla_engine_count(engine, &out, &diag), NABLA_OK);
  return out;
}

Test(dlpack, in_without_a_copy) {
  static nabla_dlpack_managed tensor;
  tensor = matrix();
  nabla_dense out;
  nabla_array *x = nabla_array_from_dlpack(scope, &tensor);
  cr_assert_not_null(x);
  cr_expect_eq(nabla_array_dense(x)->data, &data[1]);
  cr_expect_eq(nabla_array_dense(x)->shape[1], 3);
  nabla_array *y = nabla_add(x, x);
  nabla_release(x); /* the pending array needs it */
  cr_expect_eq(deleted, 0);
  cr_assert_eq(nabla_array_read(y, &out, &diag), NABLA_OK, "%s", diag.what);
  cr_expect_eq(((const float *)out.data)[5], 12);
  cr_expect_eq(deleted, 1);
}

Test(dlpack, out_without_a_copy) {
  static nabla_dlpack_managed tensor;
  nabla_dlpack_managed *out;
  tensor = matrix();
  nabla_array *x = nabla_array_from_dlpack(scope, &tensor);
  nabla_array *y = nabla_neg(x); /* pending */
  cr_assert_eq(nabla_array_to_dlpack(y, &out, &diag), NABLA_OK, "%s",
               diag.what);
  cr_expect_eq(out->dl_tensor.data, nabla_array_dense(y)->data);
  cr_expect_eq(out->version.major, 1);
  cr_expect_eq(out->flags, NABLA_DLPACK_READ_ONLY);
  cr_expect_eq(out->dl_tensor.ndim, 2);
  cr_expect_eq(out->dl_tensor.dtype.code, NABLA_DLPACK_FLOAT);
  nabla_scope_end(scope); /* the tensor holds the array */
  scope = NULL;
  cr_expect_eq(((const float *)out->dl_tensor.data)[5], -6);
  out->deleter(out);
}

static void count_unversioned(nabla_dlpack_unversioned *self) {
  deleted++;
  self->deleter = NULL;
}

Test(dlpack, of_versions_before) {
  const nabla_dlpack_managed whole = matrix();
  static nabla_dlpack_unversioned tensor;
  nabla_dlpack_managed *managed;
  nabla_dlpack_unversioned *out;
  tensor = (nabla_dlpack_unversioned){.dl_tensor = whole.dl_tensor,
                                      .deleter = count_unversioned};
  cr_assert_eq(nabla_dlpack_add_version(&tensor, &managed, &diag), NABLA_OK);
  nabla_array *x = nabla_array_from_dlpack(scope, managed);
  cr_assert_not_null(x);
  cr_expect_eq(nabla_array_dense(x)->data, &data[1]);
  cr_assert_eq(nabla_array_to_dlpack(x, &managed, &diag), NABLA_OK);
  cr_assert_eq(nabla_dlpack_drop_version(managed, &out, &diag), NABLA_OK);
  cr_expect_eq(out->dl_tensor.data, &data[1]);
  cr_expect_eq(out->dl_tensor.shape[1], 3);
  nabla_scope_end(scope);
  scope = NULL;
  cr_expect_eq(deleted, 0);
  out->deleter(out);
  cr_expect_eq(deleted, 1);
}

Test(dlpack, what_cannot_come_in) {
  static const char *const says[] = {
      "DLPack 2.0", "device of type 2", "3 lanes", "4 bits",
      "stride 2",   "not aligned",      "rank -1", "dimension 0 is -2"};
  static int64_t columns[2] = {1, 2}, negative[2] = {-2, 3};
  nabla_dlpack_managed bad[8];
  for (int i = 0; i < 8; i++) bad[i] = matrix();
  bad[0].version.major = 2, bad[0].version.minor = 0;
  bad[1].dl_tensor.device.device_type = 2;
  bad[2].dl_tensor.dtype.lanes = 3;
  bad[3].dl_tensor.dtype.bits = 4;
  bad[4].dl_tensor.strides = columns;
  bad[5].dl_tensor.byte_offset = 2;
  bad[6].dl_tensor.ndim = -1;
  bad[7].dl_tensor.shape = negative;
  for (int i = 0; i < 8; i++) {
    cr_expect_null(nabla_array_from_dlpack(scope, &bad[i]), "%d", i);
    (void)nabla_scope_status(scope, &diag);
    cr_expect(strstr(diag.what, says[i]), "%d: %s", i, diag.what);
    nabla_scope_clear(scope);
  }
  cr_expect_eq(deleted, 0); /* they stay the caller's */
  cr_expect_null(nabla_array_from_dlpack(scope, NULL));
}

/* ---- eager mode ---- */

static nabla_array *formula(nabla_array *x) {
  return nabla_tanh(nabla_add(nabla_mul(x, x), nabla_scalar(scope, 0.5)));
}

Test(dlpack, eager_mode_gives_the_same_results) {
  static nabla_dlpack_managed tensor;
  tensor = matrix();
  nabla_array *x = nabla_array_from_dlpack(scope, &tensor);
  nabla_dense lazy, eager;
  cr_assert_eq(nabla_array_read(formula(x), &lazy, &diag), NABLA_OK);
  cr_expect_eq(count().misses, 1);
  nabla_scope_set_eager(scope, 1);
  nabla_array *y = formula(x);
  cr_assert_not_null(nabla_array_dense(y)->data); /* already */
  cr_assert_eq(nabla_array_read(y, &eager, &diag), NABLA_OK);
  cr_expect_arr_eq(lazy.data, eager.data, 6 * sizeof(float));
  cr_expect_geq(count().misses, 4);
  const uint64_t misses = count().misses;
  for (int i = 0; i < 10; i++) (void)formula(x); /* once for each graph */
  cr_expect_eq(count().misses, misses);
  nabla_scope_set_eager(scope, 0);
  cr_expect_null(nabla_array_dense(formula(x))->data);
}
