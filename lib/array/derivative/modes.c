/* nabla_vjp and nabla_jvp: a function with its derivative in one direction. */
#include <string.h>

#include "lib/array/derivative/transform.h"

/* The trees of a call: those of the function, and of the direction. */
typedef struct trees {
  const nabla_tree *arguments, *given; /* given: cotangents or tangents */
  const nabla_tree *results, *made;    /* made: gradients or tangents   */
} trees;

static nabla_status begin(nabla_inner *inner, const nabla_tree *in,
                          const nabla_tree *out, trees *t, nabla_diag *diag) {
  t->arguments = nabla_inner_item(in, 2, 0, "the arguments", diag);
  if (!t->arguments) return NABLA_INVALID_ARGUMENT;
  t->results = nabla_inner_item(out, 2, 0, "the results", diag);
  if (!t->results) return NABLA_INVALID_ARGUMENT;
  t->given = &in->items[1];
  t->made = &out->items[1];
  NABLA_TRY(nabla_inner_trace(inner, t->arguments, t->results, diag));
  return nabla_inner_choose(inner, t->arguments, diag);
}

static size_t count_float_results(const nabla_inner *inner) {
  size_t count = 0;
  for (size_t i = 0; i < inner->body.result_count; i++)
    count += nabla_array_has_floats(inner->body.results[i]);
  return count;
}

static nabla_status finish(nabla_inner *inner, const trees *t, size_t made,
                           nabla_diag *diag) {
  nabla_array **results = nabla_arrays(&inner->results);
  const size_t count = inner->body.result_count;
  if (count) NABLA_TRY(nabla_tree_unflatten(t->results, count, results, diag));
  return nabla_tree_unflatten(t->made, made, results + count, diag);
}

static nabla_step step_of(const nabla_inner *inner, nabla_step_kind kind) {
  return (nabla_step){.kind = kind,
                      .wrt_count = nabla_inner_wrt_count(inner),
                      .wrt = (const void *)inner->wrt.data,
                      .is_finite = inner->transform->is_finite};
}

/* ---- reverse mode ---- */

static const nabla_direction cotangents = {"cotangent", "result"};

static nabla_status pull(nabla_inner *inner, const nabla_tree *in,
                         const nabla_tree *out, nabla_diag *diag) {
  trees t;
  nabla_buffer given;
  size_t at = 0;
  NABLA_TRY(begin(inner, in, out, &t, diag));
  NABLA_TRY(
      nabla_inner_check_results(inner, t.results, "cotangents", t.given, diag));
  NABLA_TRY(
      nabla_leaf_names_check(&inner->chosen.names, "gradients", t.made, diag));
  if (!count_float_results(inner))
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "the function has no results of floats");
  nabla_buffer_init(&given, inner->transform->allocator, "cotangents",
                    SIZE_MAX / 2);
  nabla_leaf_names names;
  nabla_leaf_names_init(&names, inner->transform->allocator);
  nabla_status status = nabla_arrays_add(&given, t.given, diag);
  if (!status) status = nabla_leaf_names_of_tree(&names, t.given, diag);
  for (size_t i = 0; i < inner->body.result_count && !status; i++) {
    if (!nabla_array_has_floats(inner->body.results[i])) continue;
    status = nabla_inner_give(
        inner, &cotangents, nabla_leaf_names_at(&names, at),
        nabla_arrays(&given)[at], inner->body.results[i], diag);
    at++;
  }
  nabla_leaf_names_deinit(&names);
  nabla_buffer_deinit(&given);
  if (status) return status;
  const nabla_step step = step_of(inner, NABLA_STEP_VJP);
  const size_t count = inner->body.result_count;
  NABLA_TRY(nabla_inner_record(inner, 1, &step, count + step.wrt_count, diag));
  nabla_inner_size(inner, count);
  return finish(inner, &t, step.wrt_count, diag);
}

static void vjp(nabla_scope *scope, const nabla_tree *in, nabla_tree *out,
                void *self) {
  nabla_inner inner;
  nabla_inner_init(&inner, self, scope);
  (void)!pull(&inner, in, out, &inner.diag);
  nabla_inner_deinit(&inner);
}

nabla_status nabla_vjp(nabla_function *function,
                       const nabla_derivative_options *options,
                       nabla_function **out, nabla_diag *diag) {
  static const nabla_transform_row row = {.public_name = "nabla_vjp",
                                          .suffix = "vjp",
                                          .callback = vjp,
                                          .takes_finite = true};
  return nabla_transform_create(&row, function, options, out, diag);
}

/* ---- forward mode ---- */

/* Gives tangents the sizes of the results that they belong to. */
static void size_tangents(const nabla_inner *inner) {
  nabla_array **results = nabla_arrays(&inner->results);
  size_t at = inner->body.result_count;
  for (size_t i = 0; i < inner->body.result_count; i++)
    if (nabla_array_has_floats(inner->body.results[i]))
      memcpy(results[at++]->dense.shape, results[i]->dense.shape,
             sizeof results[i]->dense.shape);
}

/* Leaves out the results that are not of floats; `at` is that of the first leaf
 * of the tree. */
static nabla_status drop_others(const nabla_inner *inner, nabla_tree *tree,
                                size_t *at, nabla_diag *diag) {
  size_t count = 0;
  if (tree->kind == NABLA_TREE_LIST || tree->kind == NABLA_TREE_FIELDS) {
    for (size_t i = 0; i < tree->count; i++)
      NABLA_TRY(drop_others(inner, &tree->items[i], at, diag));
    return NABLA_OK;
  }
  NABLA_TRY(nabla_tree_flatten(tree, 0, NULL, &count, diag));
  if (tree->kind == NABLA_TREE_ARRAY &&
      !nabla_array_has_floats(inner->body.results[*at]))
    *tree = (nabla_tree){.kind = NABLA_TREE_NONE};
  *at += count;
  return NABLA_OK;
}

/* Gives an open place of the tangents, which is empty, a tree like that of the
 * results. */
static nabla_status open_tangents(nabla_transform *transform,
                                  const nabla_inner *inner, const trees *t,
                                  nabla_diag *diag) {
  nabla_tree *place = (nabla_tree *)t->made;
  void *memory;
  size_t at = 0;
  if (place->kind != NABLA_TREE_OPEN || place->items) return NABLA_OK;
  NABLA_TRY(nabla_alloc(transform->allocator, 1, sizeof(nabla_made_tree),
                        &memory, diag));
  nabla_made_tree *made = memory;
  nabla_status status = nabla_tree_copy_settled(
      &made->copy, transform->allocator, t->results, diag);
  if (!status) {
    status = drop_others(inner, &made->copy.tree, &at, diag);
    if (status) nabla_tree_copy_deinit(&made->copy);
  }
  if (status) {
    nabla_free(transform->allocator, made, 1, sizeof *made);
    return status;
  }
  pthread_mutex_lock(&transform->lock);
  made->next = transform->made;
  transform->made = made;
  pthread_mutex_unlock(&transform->lock);
  place->items = &made->copy.tree;
  return NABLA_OK;
}

static const nabla_direction tangents = {"tangent", "argument"};

static nabla_status push(nabla_transform *transform, nabla_inner *inner,
                         const nabla_tree *in, const nabla_tree *out,
                         nabla_diag *diag) {
  trees t;
  nabla_buffer given;
  NABLA_TRY(begin(inner, in, out, &t, diag));
  NABLA_TRY(
      nabla_leaf_names_check(&inner->chosen.names, "tangents", t.given, diag));
  NABLA_TRY(open_tangents(transform, inner, &t, diag));
  NABLA_TRY(nabla_inner_check_results(inner, t.results, "tangents of results",
                                      t.made, diag));
  nabla_buffer_init(&given, inner->transform->allocator, "tangents",
                    SIZE_MAX / 2);
  nabla_status status = nabla_arrays_add(&given, t.given, diag);
  for (size_t i = 0; i < nabla_inner_wrt_count(inner) && !status; i++)
    status = nabla_inner_give(
        inner, &tangents, nabla_leaf_names_at(&inner->chosen.names, i),
        nabla_arrays(&given)[i], nabla_inner_wrt(inner, i), diag);
  nabla_buffer_deinit(&given);
  if (status) return status;
  const nabla_step step = step_of(inner, NABLA_STEP_JVP);
  const size_t made = count_float_results(inner);
  NABLA_TRY(nabla_inner_record(inner, 1, &step, inner->body.result_count + made,
                               diag));
  nabla_inner_size(inner, 0);
  size_tangents(inner);
  return finish(inner, &t, made, diag);
}

static void jvp(nabla_scope *scope, const nabla_tree *in, nabla_tree *out,
                void *self) {
  nabla_inner inner;
  nabla_inner_init(&inner, self, scope);
  (void)!push(self, &inner, in, out, &inner.diag);
  nabla_inner_deinit(&inner);
}

nabla_status nabla_jvp(nabla_function *function,
                       const nabla_derivative_options *options,
                       nabla_function **out, nabla_diag *diag) {
  static const nabla_transform_row row = {
      .public_name = "nabla_jvp", .suffix = "jvp", .callback = jvp};
  return nabla_transform_create(&row, function, options, out, diag);
}
