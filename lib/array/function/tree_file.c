/* Trees in safetensors files. */
#include <inttypes.h>

#include "lib/array/dtypes.h"
#include "lib/array/function/tree_packed.h"
#include "lib/array/function/tree_walk.h"
#include "lib/array/graph.h"
#include "lib/array/packed.h"
#include "lib/array/shards.h"
#include "lib/base/require.h"
#include "nabla/model.h"
#include "nabla/safetensors.h"

/* ---- writing ---- */

/* Leaves and the file that they go to. */
typedef struct output {
  nabla_safetensors_writer *writer;
  size_t count;     /* tensors that were written                  */
  uint32_t version; /* of the layout of packed leaves; 0: no such */
} output;

static nabla_status check_leaf(void *self, const char *name,
                               nabla_array **place, nabla_diag *diag) {
  size_t *count = self;
  ++*count;
  if (*place) return NABLA_OK;
  nabla_scope *scope = nabla_scope_innermost();
  if (nabla_scope_status(scope, diag)) return nabla_scope_status(scope, NULL);
  return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                    "nabla_tree_write: the leaf '%s' is NULL", name);
}

/* Realizes all leaves in one run. */
static nabla_status realize_leaves(const nabla_tree *tree, size_t count,
                                   const nabla_allocator *allocator,
                                   nabla_diag *diag) {
  void *memory;
  nabla_status status = NABLA_OK;
  bool is_pending = false;
  NABLA_TRY(
      nabla_alloc(allocator, count, sizeof(nabla_array *), &memory, diag));
  nabla_array **arrays = memory;
  if (count) status = nabla_tree_flatten(tree, count, arrays, &count, diag);
  for (size_t i = 0; i < count && !status; i++)
    is_pending = is_pending || (!arrays[i]->dense.data &&
                                nabla_dtype_count(&arrays[i]->dense));
  if (is_pending && !status)
    status = nabla_realize(nabla_scope_innermost(), count, arrays, diag);
  nabla_free(allocator, memory, count, sizeof(nabla_array *));
  return status;
}

static nabla_status declare(void *self, const char *name, nabla_array **place,
                            nabla_diag *diag) {
  output *o = self;
  size_t id;
  uint64_t shape[NABLA_ARRAY_MAX_RANK];
  const nabla_dense *dense = &(*place)->dense;
  if ((*place)->packed) {
    nabla_weight_desc weight;
    NABLA_TRY(nabla_packed_describe(*place, &weight, diag));
    return nabla_tree_declare_packed(o->writer, name, &weight, &o->version,
                                     diag);
  }
  for (uint32_t i = 0; i < dense->rank; i++)
    shape[i] = (uint64_t)dense->shape[i];
  return nabla_safetensors_writer_add(o->writer, name, strlen(name),
                                      dense->dtype, shape, dense->rank, &id,
                                      diag);
}

static nabla_status write_leaf(void *self, const char *name,
                               nabla_array **place, nabla_diag *diag) {
  output *o = self;
  if ((*place)->packed) {
    nabla_weight_desc weight;
    NABLA_TRY(nabla_packed_describe(*place, &weight, diag));
    return nabla_tree_write_packed(o->writer, name, &weight, &o->count, diag);
  }
  nabla_dense dense;
  NABLA_TRY(nabla_array_whole(*place, &dense, diag));
  const size_t bytes = nabla_dtype_bytes(&dense), id = o->count++;
  if (!bytes) return NABLA_OK;
  return nabla_safetensors_writer_write(o->writer, id, 0, dense.data, bytes,
                                        diag);
}

nabla_status nabla_tree_write(const nabla_tree *tree, const char *path,
                              int force, const nabla_environment *environment,
                              nabla_diag *diag) {
  NABLA_REQUIRE(tree, diag);
  NABLA_REQUIRE(path, diag);
  const nabla_environment none = {.allocator = NULL};
  if (!environment) environment = &none;
  output o = {.writer = NULL};
  size_t count = 0;
  NABLA_TRY(nabla_tree_visit(tree, check_leaf, &count, diag));
  NABLA_TRY(realize_leaves(tree, count, environment->allocator, diag));
  NABLA_TRY(nabla_safetensors_writer_create(environment->allocator,
                                            environment->os, &o.writer, diag));
  nabla_status status = nabla_tree_visit(tree, declare, &o, diag);
  if (!status && o.version)
    status = nabla_tree_label_packed(o.writer, o.version, diag);
  if (!status)
    status = nabla_safetensors_writer_begin(o.writer, path, force, diag);
  if (!status) status = nabla_tree_visit(tree, write_leaf, &o, diag);
  if (!status) status = nabla_safetensors_writer_commit(o.writer, diag);
  nabla_safetensors_writer_destroy(o.writer);
  return status;
}

/* ---- reading ---- */

/* The arrays that were read, in the order of the leaves. */
typedef struct input {
  nabla_model *model;
  nabla_scope *scope;
  nabla_buffer arrays;
} input;

static nabla_status check_type(const nabla_weight_desc *weight,
                               const nabla_array *present, nabla_diag *diag) {
  if (!nabla_dtype_is_known(weight->dtype))
    return nabla_fail(diag, NABLA_UNSUPPORTED, "arrays have no dtype %s",
                      nabla_dtype_name(weight->dtype));
  if (weight->rank > NABLA_ARRAY_MAX_RANK)
    return nabla_fail(diag, NABLA_UNSUPPORTED, "rank %" PRIu32 "; at most %d",
                      weight->rank, NABLA_ARRAY_MAX_RANK);
  if (!present) return NABLA_OK;
  const nabla_dense *dense = nabla_array_dense(present);
  const bool is_packed = weight->layout.kind != NABLA_STORAGE_DENSE;
  if (is_packed != (nabla_array_is_packed(present) != 0))
    return nabla_fail(
        diag, NABLA_INVALID_ARGUMENT, "%s in the file, %s in the tree",
        is_packed ? "packed" : "dense", is_packed ? "dense" : "packed");
  if (dense->dtype != weight->dtype || dense->rank != weight->rank)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "%s of rank %" PRIu32 " in the file, %s of rank %" PRIu32
                      " in the tree",
                      nabla_dtype_name(weight->dtype), weight->rank,
                      nabla_dtype_name(dense->dtype), dense->rank);
  for (uint32_t i = 0; i < dense->rank; i++)
    if ((uint64_t)dense->shape[i] != weight->shape[i])
      return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                        "dimension %" PRIu32 " is %" PRIu64
                        " in the file, %" PRId64 " in the tree",
                        i, weight->shape[i], dense->shape[i]);
  return NABLA_OK;
}

/* Makes the array of a dense tensor. */
static nabla_status copy_dense(nabla_scope *scope,
                               const nabla_weight_desc *weight,
                               nabla_array **out, nabla_diag *diag) {
  nabla_array *array = nabla_array_new(scope);
  if (!array) return nabla_scope_status(scope, diag);
  array->dense = (nabla_dense){.dtype = weight->dtype, .rank = weight->rank};
  for (uint32_t i = 0; i < weight->rank; i++)
    array->dense.shape[i] = (int64_t)weight->shape[i];
  const nabla_status status = nabla_array_allocate(array, diag);
  if (status) {
    nabla_array_leave(array);
    return status;
  }
  const size_t bytes = nabla_dtype_bytes(&array->dense);
  if (bytes) memcpy(array->dense.data, weight->components[0].data, bytes);
  *out = array;
  return NABLA_OK;
}

static nabla_status read_tensor(input *in, const char *name,
                                const nabla_array *present, nabla_diag *diag) {
  nabla_weight weight;
  nabla_array *array;
  NABLA_TRY(nabla_model_find(in->model, name, &weight, diag));
  NABLA_TRY(check_type(&weight.desc, present, diag));
  if (weight.desc.layout.kind == NABLA_STORAGE_DENSE)
    NABLA_TRY(copy_dense(in->scope, &weight.desc, &array, diag));
  else
    NABLA_TRY(nabla_tree_copy_weight(in->scope, &weight.desc, &array, diag));
  const nabla_status status =
      nabla_buffer_append(&in->arrays, &array, sizeof(nabla_array *), diag);
  if (status) nabla_array_leave(array);
  return status;
}

static nabla_status read_leaf(void *self, const char *name, nabla_array **place,
                              nabla_diag *diag) {
  const nabla_status status = read_tensor(self, name, *place, diag);
  if (status) nabla_diag_set_tensor(diag, name, strlen(name));
  return status;
}

/* Every leaf has a tensor: are there more tensors? */
static nabla_status check_rest(const input *in, nabla_diag *diag) {
  const size_t tensors = nabla_checkpoint_count(
                   nabla_model_borrow_checkpoint(in->model)),
               leaves = in->arrays.size / sizeof(nabla_array *);
  if (tensors == leaves) return NABLA_OK;
  return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                    "%zu tensors in the file, %zu leaves in the tree", tensors,
                    leaves);
}

nabla_status nabla_tree_read(nabla_scope *scope, const char *path,
                             const nabla_environment *environment,
                             const nabla_tree *tree, nabla_diag *diag) {
  NABLA_REQUIRE(scope, diag);
  NABLA_REQUIRE(path, diag);
  NABLA_REQUIRE(tree, diag);
  const nabla_allocator *allocator =
      environment ? environment->allocator : NULL;
  nabla_model *model;
  if (!nabla_scope_is_open(scope))
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "nabla_tree_read: the scope is not of this thread");
  NABLA_TRY(nabla_model_open(path, environment, &model, diag));
  input in = {.model = model, .scope = scope};
  nabla_buffer_init(&in.arrays, allocator, "a tree", SIZE_MAX / 2);
  nabla_status status = nabla_tree_visit(tree, read_leaf, &in, diag);
  if (!status) status = check_rest(&in, diag);
  if (!status) status = nabla_model_check_unchanged(model, diag);
  nabla_array **arrays = (nabla_array **)(void *)in.arrays.data;
  const size_t count = in.arrays.size / sizeof(nabla_array *);
  if (!status) status = nabla_tree_unflatten(tree, count, arrays, diag);
  for (size_t i = 0; i < count && status; i++) nabla_array_leave(arrays[i]);
  if (status) nabla_diag_set_file(diag, path);
  nabla_buffer_deinit(&in.arrays);
  nabla_model_close(model);
  return status;
}
