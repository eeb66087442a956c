/* Arrays as DLPack tensors, and the other way. */
#include "nabla/dlpack.h"

#include <inttypes.h>
#include <string.h>

#include "lib/array/dtypes.h"
#include "lib/array/graph.h"
#include "lib/array/record.h"
#include "lib/base/memory.h"
#include "lib/base/require.h"

_Static_assert(sizeof(nabla_dlpack_tensor) == 48, "DLTensor");
_Static_assert(sizeof(nabla_dlpack_managed) == 80, "DLManagedTensorVersioned");
_Static_assert(sizeof(nabla_dlpack_unversioned) == 64, "DLManagedTensor");

/* The dtypes of both. */
static const struct {
  nabla_dtype dtype;
  uint8_t code, bits;
} dtypes[] = {
    {NABLA_DTYPE_F64, NABLA_DLPACK_FLOAT, 64},
    {NABLA_DTYPE_F32, NABLA_DLPACK_FLOAT, 32},
    {NABLA_DTYPE_F16, NABLA_DLPACK_FLOAT, 16},
    {NABLA_DTYPE_BF16, NABLA_DLPACK_BFLOAT, 16},
    {NABLA_DTYPE_I64, NABLA_DLPACK_INT, 64},
    {NABLA_DTYPE_I32, NABLA_DLPACK_INT, 32},
    {NABLA_DTYPE_I8, NABLA_DLPACK_INT, 8},
    {NABLA_DTYPE_U8, NABLA_DLPACK_UINT, 8},
    {NABLA_DTYPE_BOOL, NABLA_DLPACK_BOOL, 8},
};
#define DTYPE_COUNT (sizeof dtypes / sizeof *dtypes)

/* ---- in ---- */

static nabla_status check_strides(const nabla_dlpack_tensor *t,
                                  nabla_diag *diag) {
  int64_t step = 1;
  if (!t->strides) return NABLA_OK;
  for (int32_t i = 0; i < t->ndim; i++)
    if (!t->shape[i]) return NABLA_OK; /* no elements */
  for (int32_t i = t->ndim - 1; i >= 0; i--) {
    if (t->shape[i] != 1 && t->strides[i] != step)
      return nabla_fail(diag, NABLA_UNSUPPORTED,
                        "dimension %" PRId32 " has stride %" PRId64
                        ", not %" PRId64 ": arrays are row-major",
                        i, t->strides[i], step);
    if (__builtin_mul_overflow(step, t->shape[i], &step))
      return nabla_fail(diag, NABLA_TOO_LARGE, "the sizes overflow");
  }
  return NABLA_OK;
}

static nabla_status read_tensor(const nabla_dlpack_managed *managed,
                                nabla_dense *out, nabla_diag *diag) {
  const nabla_dlpack_tensor *t = &managed->dl_tensor;
  size_t row = 0;
  if (managed->version.major != NABLA_DLPACK_MAJOR)
    return nabla_fail(diag, NABLA_UNSUPPORTED,
                      "DLPack %" PRIu32 ".%" PRIu32 "; this library has %u.%u",
                      managed->version.major, managed->version.minor,
                      NABLA_DLPACK_MAJOR, NABLA_DLPACK_MINOR);
  if (t->device.device_type != NABLA_DLPACK_CPU)
    return nabla_fail(diag, NABLA_UNSUPPORTED,
                      "a device of type %" PRId32 "; arrays are on the CPU",
                      t->device.device_type);
  while (row < DTYPE_COUNT && !(dtypes[row].code == t->dtype.code &&
                                dtypes[row].bits == t->dtype.bits))
    row++;
  if (row == DTYPE_COUNT || t->dtype.lanes != 1)
    return nabla_fail(diag, NABLA_UNSUPPORTED,
                      "arrays have no dtype of code %u, %u bits, %u lanes",
                      t->dtype.code, t->dtype.bits, t->dtype.lanes);
  if (t->ndim < 0 || t->ndim > NABLA_ARRAY_MAX_RANK || (t->ndim && !t->shape))
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "rank %" PRId32 "; at most %d, with a shape", t->ndim,
                      NABLA_ARRAY_MAX_RANK);
  *out = (nabla_dense){.dtype = dtypes[row].dtype, .rank = (uint32_t)t->ndim};
  for (int32_t i = 0; i < t->ndim; i++) {
    if (t->shape[i] < 0)
      return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                        "dimension %" PRId32 " is %" PRId64, i, t->shape[i]);
    out->shape[i] = t->shape[i];
  }
  NABLA_TRY(check_strides(t, diag));
  if (t->data) out->data = (char *)t->data + t->byte_offset;
  if ((uintptr_t)out->data % (dtypes[row].bits / 8u))
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "data that is not aligned to its dtype");
  return NABLA_OK;
}

static void delete_tensor(void *self) {
  nabla_dlpack_managed *tensor = self;
  if (tensor->deleter) tensor->deleter(tensor);
}

nabla_array *nabla_array_from_dlpack(nabla_scope *scope,
                                     nabla_dlpack_managed *tensor) {
  nabla_dense dense;
  nabla_diag diag = NABLA_DIAG_INIT;
  const nabla_array_call site = NABLA_ARRAY_CALL(array_from_dlpack, 0, NULL);
  if (!scope) return NULL;
  const nabla_status status =
      tensor ? read_tensor(tensor, &dense, &diag)
             : nabla_fail(&diag, NABLA_INVALID_ARGUMENT, "the tensor is NULL");
  if (status) {
    nabla_call_fail(&site, scope, status, "%s", diag.what);
    return NULL;
  }
  nabla_array *array =
      nabla_array_leaf(scope, &dense, false, site.function, site.place);
  if (!array) return NULL;
  array->finish = delete_tensor;
  array->finish_self = tensor;
  return array;
}

/* ---- out ---- */

/* A tensor with its shape, and the array that it holds. */
typedef struct exported {
  nabla_dlpack_managed managed; /* first */
  nabla_array *array;
  int64_t shape[NABLA_ARRAY_MAX_RANK];
} exported;

static void delete_exported(nabla_dlpack_managed *self) {
  exported *e = (exported *)(void *)self;
  nabla_array *array = e->array;
  nabla_free(array->allocator, e, 1, sizeof *e);
  nabla_array_drop(array);
}

nabla_status nabla_array_to_dlpack(nabla_array *array,
                                   nabla_dlpack_managed **out,
                                   nabla_diag *diag) {
  NABLA_REQUIRE(out, diag);
  nabla_dense dense;
  void *memory;
  size_t row = 0;
  NABLA_TRY(nabla_array_read(array, &dense, diag));
  while (row < DTYPE_COUNT && dtypes[row].dtype != dense.dtype) row++;
  if (row == DTYPE_COUNT)
    return nabla_fail(diag, NABLA_UNSUPPORTED, "DLPack has no dtype %s",
                      nabla_dtype_name(dense.dtype));
  NABLA_TRY(nabla_alloc(array->allocator, 1, sizeof(exported), &memory, diag));
  exported *e = memory;
  memcpy(e->shape, dense.shape, dense.rank * sizeof e->shape[0]);
  e->array = array;
  e->managed = (nabla_dlpack_managed){
      .version = {NABLA_DLPACK_MAJOR, NABLA_DLPACK_MINOR},
      .deleter = delete_exported,
      .flags = NABLA_DLPACK_READ_ONLY,
      .dl_tensor = {.data = dense.data,
                    .device = {NABLA_DLPACK_CPU, 0},
                    .ndim = (int32_t)dense.rank,
                    .dtype = {dtypes[row].code, dtypes[row].bits, 1},
                    .shape = e->shape}};
  nabla_array_hold(array);
  *out = &e->managed;
  return NABLA_OK;
}

/* ---- before version 1.0 ---- */

static void delete_versioned(nabla_dlpack_managed *self) {
  nabla_dlpack_unversioned *tensor = self->manager_ctx;
  nabla_free(nabla_allocator_default(), self, 1, sizeof *self);
  if (tensor->deleter) tensor->deleter(tensor);
}

nabla_status nabla_dlpack_add_version(nabla_dlpack_unversioned *tensor,
                                      nabla_dlpack_managed **out,
                                      nabla_diag *diag) {
  void *memory;
  NABLA_REQUIRE(tensor, diag);
  NABLA_REQUIRE(out, diag);
  NABLA_TRY(
      nabla_alloc(nabla_allocator_default(), 1, sizeof **out, &memory, diag));
  *out = memory;
  **out = (nabla_dlpack_managed){.version = {NABLA_DLPACK_MAJOR, 0},
                                 .manager_ctx = tensor,
                                 .deleter = delete_versioned,
                                 .dl_tensor = tensor->dl_tensor};
  return NABLA_OK;
}

static void delete_unversioned(nabla_dlpack_unversioned *self) {
  nabla_dlpack_managed *tensor = self->manager_ctx;
  nabla_free(nabla_allocator_default(), self, 1, sizeof *self);
  if (tensor->deleter) tensor->deleter(tensor);
}

nabla_status nabla_dlpack_drop_version(nabla_dlpack_managed *tensor,
                                       nabla_dlpack_unversioned **out,
                                       nabla_diag *diag) {
  void *memory;
  NABLA_REQUIRE(tensor, diag);
  NABLA_REQUIRE(out, diag);
  NABLA_TRY(
      nabla_alloc(nabla_allocator_default(), 1, sizeof **out, &memory, diag));
  *out = memory;
  **out = (nabla_dlpack_unversioned){.dl_tensor = tensor->dl_tensor,
                                     .manager_ctx = tensor,
                                     .deleter = delete_unversioned};
  return NABLA_OK;
}
