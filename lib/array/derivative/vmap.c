/* nabla_vmap: a function of one example, applied to many. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "dialect/control.h"
#include "lib/array/derivative/transform.h"
#include "lib/array/function/tree_names.h"
#include "lib/array/packed.h"
#include "lib/base/require.h"
#include "transforms/batching/batching.h"

/* A batch within a trace. */
typedef struct batch {
  nabla_inner inner;
  const nabla_transform *transform;
  nabla_buffer types;             /* nabla_array_type: of one example */
  nabla_buffer in_axes, out_axes; /* intptr_t */
  size_t count;                   /* leaves that were visited */
  nabla_array *first;             /* the first argument with a batch ... */
  int64_t size;                   /* and the number of examples */
} batch;

/* ---- axes ---- */

/* The axis that the options give a leaf. */
static int64_t axis_of(const nabla_transform *t, bool is_result,
                       const char *name) {
  int64_t axis = 0;
  const size_t end = is_result ? nabla_leaf_names_count(&t->wrt) : t->in_count;
  for (size_t i = is_result ? t->in_count : 0; i < end; i++)
    if (nabla_name_within(name, nabla_leaf_names_at(&t->wrt, i)))
      memcpy(&axis, t->axes.data + i * sizeof axis, sizeof axis);
  return axis;
}

/* Counts from the end of an array of rank `rank`, with the batch. */
static nabla_status settle(const char *noun, const char *name, uint32_t rank,
                           int64_t *axis, nabla_diag *diag) {
  const int64_t given = *axis;
  if (given < 0) *axis += rank;
  if (*axis >= 0 && *axis < (int64_t)rank) return NABLA_OK;
  return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                    "the %s '%.80s' has no axis %" PRId64
                    ": it has %u dimensions, with the batch",
                    noun, name, given, rank);
}

static nabla_status add_axis(nabla_buffer *axes, int64_t axis,
                             nabla_diag *diag) {
  const intptr_t value =
      axis == NABLA_NO_AXIS ? NABLA_BATCH_NO_AXIS : (intptr_t)axis;
  return nabla_buffer_append(axes, &value, sizeof value, diag);
}

/* ---- arguments ---- */

/* The type of an example of a packed array. */
static nabla_status packed_example(const batch *b, const char *name,
                                   int64_t axis, const nabla_array *array,
                                   nabla_array_type *out, nabla_diag *diag) {
  nabla_slices slices;
  const MlirType whole = nabla_recorder_type(
      nabla_recorder_context(b->inner.scope->recorder), &array->dense);
  const MlirType slice = axis ? (MlirType){NULL} : nabla_slice_type(whole);
  if (mlirTypeIsNull(slice) || !nabla_slices_find(whole, slice, &slices))
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "the packed argument '%.60s' has no batch along axis "
                      "%" PRId64
                      ": examples are whole blocks along axis 0; decode it "
                      "with nabla_materialize",
                      name, axis);
  return nabla_packed_intern(slice, out, diag);
}

static nabla_status check_size(batch *b, const char *name, nabla_array *array,
                               int64_t size, nabla_diag *diag) {
  if (!b->first && !b->size) {
    b->first = array;
    b->size = size;
  }
  if ((size < 0) == (b->size < 0) &&
      nabla_size_join(b->inner.scope, b->size, size, &b->size))
    return NABLA_OK;
  if (size < 0 || b->size < 0)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "the argument '%.80s' has another number of examples "
                      "than one before: a size that is not known goes with its "
                      "own name alone",
                      name);
  return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                    "the argument '%.80s' has %" PRId64 " examples, %" PRId64
                    " before",
                    name, size, b->size);
}

static nabla_status add_argument(void *self, const char *name,
                                 nabla_array **place, nabla_diag *diag) {
  batch *b = self;
  int64_t axis = axis_of(b->transform, false, name);
  if (!*place)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "the argument '%.80s' is NULL", name);
  nabla_array_type type = (*place)->dense;
  if (axis != NABLA_NO_AXIS) {
    NABLA_TRY(settle("argument", name, type.rank, &axis, diag));
    NABLA_TRY(check_size(b, name, *place, type.shape[(uint32_t)axis], diag));
    if (nabla_dtype_is_packed(type.dtype)) {
      NABLA_TRY(packed_example(b, name, axis, *place, &type, diag));
    } else {
      type.rank--;
      for (uint32_t d = (uint32_t)axis; d < type.rank; d++)
        type.shape[d] = type.shape[d + 1];
    }
  }
  NABLA_TRY(add_axis(&b->in_axes, axis, diag));
  return nabla_buffer_append(&b->types, &type, sizeof type, diag);
}

/* ---- results ---- */

static nabla_status add_result(void *self, const char *name,
                               nabla_array **place, nabla_diag *diag) {
  (void)place;
  batch *b = self;
  const nabla_dense *one = &b->inner.body.results[b->count++]->dense;
  int64_t axis = axis_of(b->transform, true, name);
  if (axis != NABLA_NO_AXIS)
    NABLA_TRY(settle("result", name, one->rank + 1, &axis, diag));
  return add_axis(&b->out_axes, axis, diag);
}

/* Gives the results the sizes that those of one example have. */
static void size_results(const batch *b) {
  const intptr_t *axes = (const void *)b->out_axes.data;
  nabla_array **results = nabla_arrays(&b->inner.results);
  for (size_t i = 0; i < b->inner.body.result_count; i++) {
    nabla_array_type one = b->inner.body.results[i]->dense;
    nabla_body_lift_sizes(&b->inner.body, &one);
    for (uint32_t d = 0, at = 0; d < results[i]->dense.rank; d++) {
      const bool is_batch = (intptr_t)d == axes[i];
      const int64_t size = is_batch ? b->size : one.shape[at++];
      if (size != NABLA_DYNAMIC) results[i]->dense.shape[d] = size;
    }
  }
}

/* Refuses axes [begin, end) of names that a tree does not have. */
static nabla_status check_names(const nabla_transform *t, size_t begin,
                                size_t end, const nabla_tree *tree,
                                const char *noun, nabla_diag *diag) {
  char whose[24];
  (void)snprintf(whose, sizeof whose, "the %ss", noun);
  for (size_t i = begin; i < end; i++) {
    const char *name = nabla_leaf_names_at(&t->wrt, i);
    if (nabla_tree_has_name(tree, name)) continue;
    const nabla_status status =
        nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                   "an axis is given for '%.80s', which is no %s", name, noun);
    nabla_tree_say_names(tree, whose, diag);
    return status;
  }
  return NABLA_OK;
}

static nabla_status record(batch *b, const nabla_tree *in,
                           const nabla_tree *out, nabla_diag *diag) {
  nabla_inner *inner = &b->inner;
  const nabla_transform *t = b->transform;
  const size_t in_count = t->in_count;
  NABLA_TRY(check_names(t, 0, in_count, in, "argument", diag));
  NABLA_TRY(nabla_tree_visit(in, add_argument, b, diag));
  if (!b->first && !t->size)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "no argument has a batch: give the size in the options");
  inner->types = (const void *)b->types.data;
  NABLA_TRY(nabla_inner_trace(inner, in, out, diag));
  for (size_t i = 0; i < nabla_body_capture_count(&inner->body); i++)
    NABLA_TRY(add_axis(&b->in_axes, NABLA_NO_AXIS, diag));
  NABLA_TRY(check_names(t, in_count, nabla_leaf_names_count(&t->wrt), out,
                        "result", diag));
  NABLA_TRY(nabla_tree_visit(out, add_result, b, diag));
  const nabla_step step = {.kind = NABLA_STEP_VMAP,
                           .in_count = b->in_axes.size / sizeof(intptr_t),
                           .out_count = b->out_axes.size / sizeof(intptr_t),
                           .in_axes = (const void *)b->in_axes.data,
                           .out_axes = (const void *)b->out_axes.data,
                           .size = b->size < 0 ? NABLA_DYNAMIC : b->size};
  NABLA_TRY(
      nabla_inner_record(inner, 1, &step, inner->body.result_count, diag));
  size_results(b);
  return nabla_tree_unflatten(out, inner->body.result_count,
                              nabla_arrays(&inner->results), diag);
}

static void callback(nabla_scope *scope, const nabla_tree *in, nabla_tree *out,
                     void *self) {
  const nabla_transform *t = self;
  batch b = {.transform = t, .size = t->size};
  nabla_inner_init(&b.inner, t, scope);
  nabla_buffer_init(&b.types, t->allocator, "arguments", SIZE_MAX / 2);
  nabla_buffer_init(&b.in_axes, t->allocator, "axes", SIZE_MAX / 2);
  nabla_buffer_init(&b.out_axes, t->allocator, "axes", SIZE_MAX / 2);
  (void)!record(&b, in, out, &b.inner.diag);
  nabla_inner_deinit(&b.inner);
  nabla_buffer_deinit(&b.types);
  nabla_buffer_deinit(&b.in_axes);
  nabla_buffer_deinit(&b.out_axes);
}

/* ---- options ---- */

static nabla_status copy_axes(nabla_transform *t, const nabla_axis *axes,
                              size_t count, nabla_diag *diag) {
  if (count) NABLA_REQUIRE(axes, diag);
  for (size_t i = 0; i < count; i++) {
    NABLA_REQUIRE(axes[i].name, diag);
    if (axes[i].axis != NABLA_NO_AXIS &&
        (axes[i].axis < -NABLA_ARRAY_MAX_RANK ||
         axes[i].axis > NABLA_ARRAY_MAX_RANK))
      return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                        "nabla_vmap: '%.80s' has the axis %" PRId64
                        "; arrays have at most %d dimensions",
                        axes[i].name, axes[i].axis, NABLA_ARRAY_MAX_RANK);
    NABLA_TRY(nabla_leaf_names_add(&t->wrt, axes[i].name, "", "", diag));
    NABLA_TRY(nabla_buffer_append(&t->axes, &axes[i].axis, sizeof axes[i].axis,
                                  diag));
  }
  return NABLA_OK;
}

nabla_status nabla_vmap(nabla_function *function,
                        const nabla_vmap_options *options, nabla_function **out,
                        nabla_diag *diag) {
  static const nabla_transform_row row = {
      .public_name = "nabla_vmap", .suffix = "vmap", .callback = callback};
  static const nabla_vmap_options defaults = {.struct_size = sizeof defaults};
  nabla_transform *t;
  NABLA_REQUIRE(function, diag);
  NABLA_REQUIRE(out, diag);
  if (!options) options = &defaults;
  NABLA_REQUIRE_SIZE(options, "vmap options", diag);
  if (options->size < 0)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "nabla_vmap: a batch of %" PRId64 " examples",
                      options->size);
  NABLA_TRY(nabla_transform_begin(&row, function, &t, diag));
  nabla_status status = copy_axes(t, options->in, options->in_count, diag);
  t->in_count = options->in_count;
  t->size = options->size;
  if (!status) status = copy_axes(t, options->out, options->out_count, diag);
  if (!status)
    status = nabla_transform_end(&row, t, options->function, out, diag);
  if (status) nabla_transform_free(t);
  return status;
}
