/* nabla_grad and nabla_value_and_grad: gradients of a number. */
#include "lib/array/derivative/transform.h"
#include "lib/array/packed.h"

/* Where the results of a call go. */
typedef struct places {
  const nabla_tree *whole; /* the results of the function */
  nabla_tree list, items[2];
  const nabla_tree *value, *aux, *gradients; /* aux, value: NULL if left out */
} places;

/* Reads the tree that the caller gave. */
static nabla_status find_places(const nabla_transform *t, const nabla_tree *out,
                                places *p, nabla_diag *diag) {
  static const char what[] = "the results";
  if (t->has_value) {
    const nabla_tree *results = nabla_inner_item(out, 2, 0, what, diag);
    if (!results) return NABLA_INVALID_ARGUMENT;
    p->whole = results;
    p->gradients = &out->items[1];
    p->value = results;
    if (!t->has_aux) return NABLA_OK;
    p->value = nabla_inner_item(results, 2, 0, "value and other results", diag);
    if (!p->value) return NABLA_INVALID_ARGUMENT;
    p->aux = &results->items[1];
    return NABLA_OK;
  }
  p->gradients = out;
  p->list = nabla_tree_of_array(NULL);
  p->whole = &p->list;
  if (!t->has_aux) return NABLA_OK;
  p->gradients = nabla_inner_item(out, 2, 0, what, diag);
  if (!p->gradients) return NABLA_INVALID_ARGUMENT;
  p->aux = &out->items[1];
  p->items[0] = p->list;
  p->items[1] = *p->aux;
  p->list = nabla_tree_of_list(2, p->items);
  return NABLA_OK;
}

/* The value is the first result, one float. */
static nabla_status check_value(const nabla_inner *inner, const places *p,
                                nabla_diag *diag) {
  const nabla_body *body = &inner->body;
  size_t count = 1;
  if (p->value) NABLA_TRY(nabla_tree_flatten(p->value, 0, NULL, &count, diag));
  const nabla_array *value = body->result_count ? body->results[0] : NULL;
  if (count == 1 && value && !value->dense.rank &&
      !nabla_dtype_is_packed(value->dense.dtype) &&
      nabla_array_has_floats(value))
    return NABLA_OK;
  if (count != 1 || !value)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "the value is one array, not %zu; other results need "
                      "has_aux",
                      count);
  return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                    "the value is %s of rank %u: a gradient is that of one "
                    "float of rank 0; nabla_jacobian has no such limit",
                    nabla_dtype_name(nabla_dtype_element(value->dense.dtype)),
                    value->dense.rank);
}

/* Records the call: the results of the function, then the gradients. */
static nabla_status record_call(nabla_inner *inner, nabla_diag *diag) {
  void *memory;
  const size_t count = inner->body.result_count;
  const size_t wrt = nabla_inner_wrt_count(inner);
  const nabla_allocator *allocator = inner->transform->allocator;
  nabla_array *one =
      nabla_ones(inner->scope, inner->body.results[0]->dense.dtype, 0, NULL);
  if (!one) return nabla_scope_status(inner->scope, diag);
  NABLA_TRY(
      nabla_buffer_append(&inner->operands, &one, sizeof(nabla_array *), diag));
  NABLA_TRY(nabla_alloc(allocator, count, sizeof(bool), &memory, diag));
  bool *differentiated = memory;
  differentiated[0] = true;
  const nabla_step step = {.kind = NABLA_STEP_VJP,
                           .wrt_count = wrt,
                           .wrt = (const void *)inner->wrt.data,
                           .result_count = count,
                           .results = differentiated,
                           .is_finite = inner->transform->is_finite};
  const nabla_status status =
      nabla_inner_record(inner, 1, &step, count + wrt, diag);
  nabla_free(allocator, memory, count, sizeof(bool));
  if (status) return status;
  nabla_inner_size(inner, count);
  return NABLA_OK;
}

static nabla_status record(nabla_inner *inner, const nabla_tree *in,
                           const nabla_tree *out, nabla_diag *diag) {
  places p = {.value = NULL};
  NABLA_TRY(find_places(inner->transform, out, &p, diag));
  NABLA_TRY(nabla_inner_trace(inner, in, p.whole, diag));
  if (p.aux && !p.value) NABLA_TRY(nabla_tree_settle(p.aux, &p.items[1], diag));
  NABLA_TRY(check_value(inner, &p, diag));
  NABLA_TRY(nabla_inner_choose(inner, in, diag));
  NABLA_TRY(nabla_leaf_names_check(&inner->chosen.names, "gradients",
                                   p.gradients, diag));
  NABLA_TRY(record_call(inner, diag));
  const size_t count = inner->body.result_count;
  nabla_array **results = nabla_arrays(&inner->results);
  if (p.value) NABLA_TRY(nabla_tree_unflatten(p.value, 1, results, diag));
  if (p.aux)
    NABLA_TRY(nabla_tree_unflatten(p.aux, count - 1, results + 1, diag));
  return nabla_tree_unflatten(p.gradients, nabla_inner_wrt_count(inner),
                              results + count, diag);
}

static void callback(nabla_scope *scope, const nabla_tree *in, nabla_tree *out,
                     void *self) {
  nabla_inner inner;
  nabla_inner_init(&inner, self, scope);
  (void)!record(&inner, in, out, &inner.diag);
  nabla_inner_deinit(&inner);
}

nabla_status nabla_grad(nabla_function *function,
                        const nabla_derivative_options *options,
                        nabla_function **out, nabla_diag *diag) {
  static const nabla_transform_row row = {.public_name = "nabla_grad",
                                          .suffix = "grad",
                                          .callback = callback,
                                          .takes_aux = true,
                                          .takes_finite = true,
                                          .keeps_arguments = true};
  return nabla_transform_create(&row, function, options, out, diag);
}

nabla_status nabla_value_and_grad(nabla_function *function,
                                  const nabla_derivative_options *options,
                                  nabla_function **out, nabla_diag *diag) {
  static const nabla_transform_row row = {.public_name = "nabla_value_and_grad",
                                          .suffix = "value_and_grad",
                                          .callback = callback,
                                          .has_value = true,
                                          .takes_aux = true,
                                          .takes_finite = true,
                                          .keeps_arguments = true};
  return nabla_transform_create(&row, function, options, out, diag);
}
