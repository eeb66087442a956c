/* nabla_jacobian and nabla_hessian: all derivatives of all elements, by a batch
 * of tangents or cotangents that are the rows of an identity matrix. */
#include <stdio.h>
#include <string.h>

#include "lib/array/derivative/transform.h"
#include "lib/array/packed.h"
#include "lib/base/require.h"
#include "transforms/batching/batching.h"

/* A jacobian within a trace. */
typedef struct jacobian {
  nabla_inner inner;
  size_t base;                /* operands: arguments and captures */
  size_t results, wrt;        /* how many */
  nabla_buffer in, out, mask; /* intptr_t, intptr_t, bool */
  nabla_buffer made;          /* nabla_array *: by result, then by argument */
} jacobian;

/* Elements of an array; -1 if a size is not known. */
static int64_t elements(const nabla_array *x) {
  int64_t count = 1;
  for (uint32_t d = 0; d < x->dense.rank; d++)
    if (x->dense.shape[d] < 0 ||
        __builtin_mul_overflow(count, x->dense.shape[d], &count))
      return -1;
  return count;
}

static nabla_status check_sizes(const jacobian *j, int64_t *results,
                                int64_t *wrt, nabla_diag *diag) {
  *results = *wrt = 0;
  for (size_t i = 0; i < j->results + j->wrt; i++) {
    const bool is_result = i < j->results;
    const nabla_array *x = is_result
                               ? j->inner.body.results[i]
                               : nabla_inner_wrt(&j->inner, i - j->results);
    int64_t *sum = is_result ? results : wrt;
    const int64_t count = elements(x);
    if (is_result && !nabla_array_has_floats(x))
      return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                        "result %zu is %s: derivatives are of floats", i,
                        nabla_dtype_name(x->dense.dtype));
    if (count < 0 || __builtin_add_overflow(*sum, count, sum))
      return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                        "the sizes of %s %zu are not known: a jacobian has the "
                        "signature of each size",
                        is_result ? "result" : "argument",
                        is_result ? i : i - j->results);
  }
  return NABLA_OK;
}

/* `count` arrays of the shape of `x`, of which each has a 1. */
static nabla_array *basis_of(const jacobian *j, const nabla_array *x) {
  const nabla_dense *dense = &x->dense;
  int64_t shape[NABLA_ARRAY_MAX_RANK + 1];
  shape[0] = elements(x);
  memcpy(shape + 1, dense->shape, dense->rank * sizeof *shape);
  return nabla_reshape(
      nabla_eye(j->inner.scope, nabla_dtype_element(dense->dtype), shape[0]),
      dense->rank + 1, shape);
}

static nabla_status fill(nabla_buffer *axes, size_t count, intptr_t axis,
                         nabla_diag *diag) {
  axes->size = 0;
  for (size_t i = 0; i < count; i++)
    NABLA_TRY(nabla_buffer_append(axes, &axis, sizeof axis, diag));
  return NABLA_OK;
}

/* Records a derivative for each row of the basis of `x`, which is the last
 * operand. Of its results the first are those of the function; the others have
 * the rows as their first dimension. */
static nabla_status record_rows(jacobian *j, const nabla_step *derivative,
                                const nabla_array *x, size_t made,
                                nabla_diag *diag) {
  nabla_inner *inner = &j->inner;
  nabla_array *basis = basis_of(j, x);
  const intptr_t first = 0;
  if (!basis) return nabla_scope_status(inner->scope, diag);
  inner->operands.size = j->base * sizeof(nabla_array *);
  inner->results.size = 0;
  NABLA_TRY(nabla_buffer_append(&inner->operands, &basis, sizeof(nabla_array *),
                                diag));
  NABLA_TRY(fill(&j->in, j->base, NABLA_BATCH_NO_AXIS, diag));
  NABLA_TRY(nabla_buffer_append(&j->in, &first, sizeof first, diag));
  NABLA_TRY(fill(&j->out, j->results, NABLA_BATCH_NO_AXIS, diag));
  for (size_t i = 0; i < made; i++)
    NABLA_TRY(nabla_buffer_append(&j->out, &first, sizeof first, diag));
  const nabla_step steps[2] = {*derivative,
                               {.kind = NABLA_STEP_VMAP,
                                .in_count = j->base + 1,
                                .out_count = j->results + made,
                                .in_axes = (const void *)j->in.data,
                                .out_axes = (const void *)j->out.data,
                                .size = elements(x)}};
  return nabla_inner_record(inner, 2, steps, j->results + made, diag);
}

/* Result `result` of the last call, as the derivative of result `r` with
 * respect to argument `w`. */
static nabla_status give(jacobian *j, size_t result, size_t r, size_t w,
                         nabla_diag *diag) {
  int64_t shape[NABLA_ARRAY_MAX_RANK];
  const nabla_dense *y = &j->inner.body.results[r]->dense;
  const nabla_dense *x = &nabla_inner_wrt(&j->inner, w)->dense;
  if (x->rank + y->rank > NABLA_ARRAY_MAX_RANK)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "the derivative of an array of rank %u with respect to "
                      "one of rank %u has more than %d dimensions",
                      y->rank, x->rank, NABLA_ARRAY_MAX_RANK);
  memcpy(shape, y->shape, y->rank * sizeof *shape);
  memcpy(shape + y->rank, x->shape, x->rank * sizeof *shape);
  nabla_array *made = nabla_reshape(nabla_arrays(&j->inner.results)[result],
                                    x->rank + y->rank, shape);
  if (!made) return nabla_scope_status(j->inner.scope, diag);
  nabla_arrays(&j->made)[r * j->wrt + w] = made;
  return NABLA_OK;
}

static nabla_status forward(jacobian *j, nabla_diag *diag) {
  const nabla_wrt *wrt = (const void *)j->inner.wrt.data;
  for (size_t w = 0; w < j->wrt; w++) {
    const nabla_step step = {
        .kind = NABLA_STEP_JVP, .wrt_count = 1, .wrt = &wrt[w]};
    NABLA_TRY(
        record_rows(j, &step, nabla_inner_wrt(&j->inner, w), j->results, diag));
    for (size_t r = 0; r < j->results; r++) {
      nabla_array **made = &nabla_arrays(&j->inner.results)[j->results + r];
      *made = nabla_moveaxis(*made, 0, -1);
      if (!*made) return nabla_scope_status(j->inner.scope, diag);
      NABLA_TRY(give(j, j->results + r, r, w, diag));
    }
  }
  return NABLA_OK;
}

static nabla_status reverse(jacobian *j, nabla_diag *diag) {
  NABLA_TRY(nabla_buffer_append(&j->mask, NULL, j->results, diag));
  bool *mask = (bool *)(void *)j->mask.data;
  for (size_t r = 0; r < j->results; r++) {
    memset(mask, 0, j->results);
    mask[r] = true;
    const nabla_step step = {.kind = NABLA_STEP_VJP,
                             .wrt_count = j->wrt,
                             .wrt = (const void *)j->inner.wrt.data,
                             .result_count = j->results,
                             .results = mask};
    NABLA_TRY(record_rows(j, &step, j->inner.body.results[r], j->wrt, diag));
    for (size_t w = 0; w < j->wrt; w++)
      NABLA_TRY(give(j, j->results + w, r, w, diag));
  }
  return NABLA_OK;
}

/* ---- trees ---- */

/* Adds a name for each argument, for a result. */
static nabla_status add_names(void *self, const char *name, nabla_array **place,
                              nabla_diag *diag) {
  (void)place;
  void *const *both = self;
  const nabla_inner *inner = both[0];
  for (size_t w = 0; w < nabla_inner_wrt_count(inner); w++)
    NABLA_TRY(nabla_leaf_names_add(
        both[1], name, nabla_leaf_names_at(&inner->chosen.names, w), "", diag));
  return NABLA_OK;
}

static nabla_status check_tree(jacobian *j, const nabla_tree *results,
                               const nabla_tree *out, nabla_diag *diag) {
  nabla_leaf_names names;
  void *both[2] = {&j->inner, &names};
  nabla_leaf_names_init(&names, j->inner.transform->allocator);
  nabla_status status = nabla_tree_visit(results, add_names, both, diag);
  if (!status)
    status = nabla_leaf_names_check(&names, "derivatives", out, diag);
  nabla_leaf_names_deinit(&names);
  return status;
}

static nabla_status record(jacobian *j, const nabla_tree *in,
                           const nabla_tree *results, const nabla_tree *out,
                           nabla_diag *diag) {
  int64_t rows, columns;
  nabla_inner *inner = &j->inner;
  const nabla_jacobian_mode mode = inner->transform->mode;
  NABLA_TRY(nabla_inner_trace(inner, in, results, diag));
  NABLA_TRY(nabla_inner_choose(inner, in, diag));
  NABLA_TRY(check_tree(j, results, out, diag));
  j->base = nabla_arrays_count(&inner->operands);
  j->results = inner->body.result_count;
  j->wrt = nabla_inner_wrt_count(inner);
  NABLA_TRY(check_sizes(j, &rows, &columns, diag));
  const size_t count = j->results * j->wrt;
  NABLA_TRY(
      nabla_buffer_append(&j->made, NULL, count * sizeof(nabla_array *), diag));
  const bool is_forward = mode == NABLA_JACOBIAN_AUTO
                              ? columns < rows
                              : mode == NABLA_JACOBIAN_FORWARD;
  NABLA_TRY(is_forward ? forward(j, diag) : reverse(j, diag));
  return nabla_tree_unflatten(out, count, nabla_arrays(&j->made), diag);
}

/* Runs `tree`, the structure of the results, through a jacobian. */
static void run(nabla_scope *scope, const nabla_tree *in,
                const nabla_tree *results, const nabla_tree *out,
                const nabla_transform *t) {
  jacobian j = {.base = 0};
  nabla_inner_init(&j.inner, t, scope);
  nabla_buffer_init(&j.in, t->allocator, "axes", SIZE_MAX / 2);
  nabla_buffer_init(&j.out, t->allocator, "axes", SIZE_MAX / 2);
  nabla_buffer_init(&j.mask, t->allocator, "results", SIZE_MAX / 2);
  nabla_buffer_init(&j.made, t->allocator, "results", SIZE_MAX / 2);
  (void)!record(&j, in, results, out, &j.inner.diag);
  nabla_inner_deinit(&j.inner);
  nabla_buffer_deinit(&j.in);
  nabla_buffer_deinit(&j.out);
  nabla_buffer_deinit(&j.mask);
  nabla_buffer_deinit(&j.made);
}

static void callback(nabla_scope *scope, const nabla_tree *in, nabla_tree *out,
                     void *self) {
  const nabla_transform *t = self;
  run(scope, in, &t->results.tree, out, t);
}

nabla_status nabla_jacobian(nabla_function *function,
                            const nabla_derivative_options *options,
                            nabla_function **out, nabla_diag *diag) {
  static const nabla_transform_row row = {.public_name = "nabla_jacobian",
                                          .suffix = "jacobian",
                                          .callback = callback,
                                          .takes_mode = true};
  return nabla_transform_create(&row, function, options, out, diag);
}

/* ---- second derivatives ---- */

/* The names of the gradients, which are the results of the function of which a
 * hessian is the jacobian, as fields. */
static nabla_status gradient_tree(nabla_inner *inner, const nabla_tree *in,
                                  nabla_buffer *fields, nabla_buffer *names,
                                  nabla_tree *out, nabla_diag *diag) {
  const nabla_tree one = nabla_tree_of_array(NULL);
  const nabla_leaf_names *chosen = &inner->chosen.names;
  NABLA_TRY(nabla_inner_trace(inner, in, &one, diag));
  NABLA_TRY(nabla_inner_choose(inner, in, diag));
  const size_t count = nabla_leaf_names_count(chosen);
  *out = one;
  if (count == 1 && !*nabla_leaf_names_at(chosen, 0)) return NABLA_OK;
  for (size_t i = 0; i < count; i++) {
    const char *name = nabla_leaf_names_at(chosen, i);
    NABLA_TRY(nabla_buffer_append(fields, &one, sizeof one, diag));
    NABLA_TRY(nabla_buffer_append(names, &name, sizeof(char *), diag));
  }
  *out = nabla_tree_of_fields(count, (const char *const *)(void *)names->data,
                              (nabla_tree *)(void *)fields->data);
  return NABLA_OK;
}

static void second(nabla_scope *scope, const nabla_tree *in, nabla_tree *out,
                   void *self) {
  const nabla_transform *t = self;
  nabla_tree gradients;
  nabla_buffer fields, names;
  nabla_inner inner;
  /* the function itself, for the names of what is chosen */
  nabla_transform of = *t;
  of.function = ((nabla_transform *)t->owned->options.self)->function;
  nabla_inner_init(&inner, &of, scope);
  nabla_buffer_init(&fields, t->allocator, "gradients", SIZE_MAX / 2);
  nabla_buffer_init(&names, t->allocator, "gradients", SIZE_MAX / 2);
  const nabla_status status =
      gradient_tree(&inner, in, &fields, &names, &gradients, &inner.diag);
  if (!status) run(scope, in, &gradients, out, t);
  nabla_inner_deinit(&inner);
  nabla_buffer_deinit(&fields);
  nabla_buffer_deinit(&names);
}

nabla_status nabla_hessian(nabla_function *function,
                           const nabla_derivative_options *options,
                           nabla_function **out, nabla_diag *diag) {
  static const nabla_transform_row row = {
      .public_name = "nabla_hessian", .suffix = "hessian", .callback = second};
  nabla_function *gradient, *made = NULL;
  nabla_derivative_options inner = {.struct_size = sizeof inner};
  NABLA_REQUIRE(function, diag);
  NABLA_REQUIRE(out, diag);
  if (options) {
    NABLA_REQUIRE_SIZE(options, "derivative options", diag);
    inner = *options;
  }
  inner.function = NULL;
  NABLA_TRY(nabla_grad(function, &inner, &gradient, diag));
  const nabla_status status =
      nabla_transform_create(&row, gradient, options, &made, diag);
  if (status || !made) {
    nabla_function_destroy(gradient);
    return status;
  }
  nabla_transform *t = made->options.self;
  t->owned = gradient;
  t->mode = NABLA_JACOBIAN_FORWARD;
  (void)snprintf(t->title, sizeof t->title, "nabla_hessian of %.60s",
                 function->options.name);
  *out = made;
  return NABLA_OK;
}
