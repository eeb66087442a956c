/* See transform.h. */
#include "lib/array/derivative/transform.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "lib/array/packed.h"
#include "lib/base/require.h"

/* ---- life ---- */

void nabla_transform_free(void *self) {
  nabla_transform *t = self;
  for (size_t i = 0; i < nabla_arrays_count(&t->captured); i++)
    nabla_array_drop(nabla_arrays(&t->captured)[i]);
  nabla_buffer_deinit(&t->captured);
  nabla_leaf_names_deinit(&t->wrt);
  nabla_buffer_deinit(&t->axes);
  nabla_tree_copy_deinit(&t->results);
  nabla_function_destroy(t->owned);
  while (t->made) {
    nabla_made_tree *made = t->made;
    t->made = made->next;
    nabla_tree_copy_deinit(&made->copy);
    nabla_free(t->allocator, made, 1, sizeof *made);
  }
  pthread_mutex_destroy(&t->lock);
  nabla_free(t->allocator, t, 1, sizeof *t);
}

nabla_status nabla_transform_begin(const nabla_transform_row *row,
                                   nabla_function *function,
                                   nabla_transform **out, nabla_diag *diag) {
  void *memory;
  NABLA_TRY(nabla_alloc(function->allocator, 1, sizeof(nabla_transform),
                        &memory, diag));
  nabla_transform *t = memory;
  pthread_mutex_init(&t->lock, NULL);
  t->allocator = function->allocator;
  t->function = function;
  t->public_name = row->public_name;
  t->has_value = row->has_value;
  (void)snprintf(t->title, sizeof t->title, "%s of %.60s", row->public_name,
                 function->options.name);
  nabla_leaf_names_init(&t->wrt, t->allocator);
  nabla_buffer_init(&t->captured, t->allocator, "captured arrays",
                    SIZE_MAX / 2);
  nabla_buffer_init(&t->axes, t->allocator, "axes", SIZE_MAX / 2);
  *out = t;
  return NABLA_OK;
}

/* Options of the new function: the user's, or those of `function`. */
static nabla_function_options options_of(
    const nabla_transform_row *row, const nabla_function *function,
    const nabla_function_options *options) {
  nabla_function_options out = {.struct_size = sizeof out};
  if (options) return *options;
  out.max_signatures = function->options.max_signatures;
  out.max_traces = function->options.max_traces;
  if (row->keeps_arguments) {
    out.dims = function->dims;
    out.dim_count = function->options.dim_count;
  }
  return out;
}

nabla_status nabla_transform_end(const nabla_transform_row *row,
                                 nabla_transform *t,
                                 const nabla_function_options *options,
                                 nabla_function **out, nabla_diag *diag) {
  char name[96];
  nabla_function *made;
  nabla_function_options of = options_of(row, t->function, options);
  (void)snprintf(name, sizeof name, "%.60s.%s", t->function->options.name,
                 row->suffix);
  if (!of.name) of.name = name;
  of.self = t;
  NABLA_TRY(nabla_function_create(t->function->engine, row->callback, &of,
                                  &made, diag));
  made->release = nabla_transform_free;
  *out = made;
  return NABLA_OK;
}

static nabla_status copy_options(nabla_transform *t,
                                 const nabla_derivative_options *options,
                                 nabla_diag *diag) {
  if (options->wrt_count) NABLA_REQUIRE(options->wrt, diag);
  if (options->captured_count) NABLA_REQUIRE(options->captured, diag);
  for (size_t i = 0; i < options->wrt_count; i++) {
    NABLA_REQUIRE(options->wrt[i], diag);
    NABLA_TRY(nabla_leaf_names_add(&t->wrt, options->wrt[i], "", "", diag));
  }
  for (size_t i = 0; i < options->captured_count; i++) {
    nabla_array *array = options->captured[i];
    NABLA_REQUIRE(options->captured[i], diag);
    NABLA_TRY(
        nabla_buffer_append(&t->captured, &array, sizeof(nabla_array *), diag));
    nabla_array_hold(array);
  }
  const nabla_tree one = nabla_tree_of_array(NULL);
  t->has_aux = options->has_aux != 0;
  t->is_finite = options->check_finite != 0;
  t->mode = options->mode;
  return nabla_tree_copy_init(&t->results, t->allocator,
                              options->results ? options->results : &one, diag);
}

static nabla_status check_options(const nabla_transform_row *row,
                                  const nabla_derivative_options *options,
                                  nabla_diag *diag) {
  if (options->has_aux && !row->takes_aux)
    return nabla_fail(diag, NABLA_UNSUPPORTED,
                      "%s has no has_aux: it is of nabla_grad and "
                      "nabla_value_and_grad",
                      row->public_name);
  if (options->check_finite && !row->takes_finite)
    return nabla_fail(diag, NABLA_UNSUPPORTED,
                      "%s has no check_finite: it is of nabla_grad, "
                      "nabla_value_and_grad and nabla_vjp",
                      row->public_name);
  if ((options->mode || options->results) && !row->takes_mode)
    return nabla_fail(diag, NABLA_UNSUPPORTED,
                      "%s has no mode and results: they are of nabla_jacobian",
                      row->public_name);
  if ((unsigned)options->mode > NABLA_JACOBIAN_REVERSE)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT, "%s: %d is no mode",
                      row->public_name, (int)options->mode);
  return NABLA_OK;
}

nabla_status nabla_transform_create(const nabla_transform_row *row,
                                    nabla_function *function,
                                    const nabla_derivative_options *options,
                                    nabla_function **out, nabla_diag *diag) {
  static const nabla_derivative_options defaults = {.struct_size =
                                                        sizeof defaults};
  nabla_transform *t;
  NABLA_REQUIRE(function, diag);
  NABLA_REQUIRE(out, diag);
  if (!options) options = &defaults;
  NABLA_REQUIRE_SIZE(options, "derivative options", diag);
  NABLA_TRY(check_options(row, options, diag));
  NABLA_TRY(nabla_transform_begin(row, function, &t, diag));
  nabla_status status = copy_options(t, options, diag);
  if (!status)
    status = nabla_transform_end(row, t, options->function, out, diag);
  if (status) nabla_transform_free(t);
  return status;
}

/* ---- the function within a trace ---- */

void nabla_inner_init(nabla_inner *inner, const nabla_transform *transform,
                      nabla_scope *scope) {
  const nabla_allocator *allocator = transform->allocator;
  *inner = (nabla_inner){.transform = transform,
                         .scope = scope,
                         .site = {transform->title, NULL, 0, NULL},
                         .diag = NABLA_DIAG_INIT};
  nabla_buffer_init(&inner->leaves, allocator, "arguments", SIZE_MAX / 2);
  nabla_buffer_init(&inner->operands, allocator, "arguments", SIZE_MAX / 2);
  nabla_buffer_init(&inner->wrt, allocator, "arguments", SIZE_MAX / 2);
  nabla_buffer_init(&inner->results, allocator, "results", SIZE_MAX / 2);
  nabla_selection_init(&inner->chosen, allocator, 0);
}

void nabla_inner_deinit(nabla_inner *inner) {
  if (inner->body.site) nabla_body_deinit(&inner->body);
  nabla_buffer_deinit(&inner->leaves);
  nabla_buffer_deinit(&inner->operands);
  nabla_buffer_deinit(&inner->wrt);
  nabla_buffer_deinit(&inner->results);
  nabla_selection_deinit(&inner->chosen);
  if (!inner->diag.code) return;
  const bool is_first = !inner->scope->failure.code;
  nabla_call_fail(&inner->site, inner->scope, inner->diag.code, "%s",
                  inner->diag.what);
  if (is_first && *inner->diag.next)
    nabla_diag_set_next(&inner->scope->failure, "%s", inner->diag.next);
}

static nabla_status add_array(void *self, const char *name, nabla_array **place,
                              nabla_diag *diag) {
  if (!*place)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT, "the array '%.80s' is NULL",
                      name);
  return nabla_buffer_append(self, place, sizeof(nabla_array *), diag);
}

nabla_status nabla_arrays_add(nabla_buffer *buffer, const nabla_tree *tree,
                              nabla_diag *diag) {
  return nabla_tree_visit(tree, add_array, buffer, diag);
}

nabla_status nabla_inner_trace(nabla_inner *inner, const nabla_tree *arguments,
                               const nabla_tree *results, nabla_diag *diag) {
  const nabla_function *function = inner->transform->function;
  const nabla_body_source source = {function->callback, function->options.self,
                                    NULL, arguments, results};
  nabla_buffer *operands = &inner->operands;
  if (inner->scope->engine != function->engine)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "the function is of another engine");
  NABLA_TRY(nabla_arrays_add(&inner->leaves, arguments, diag));
  const size_t count = nabla_arrays_count(&inner->leaves);
  nabla_array **leaves = nabla_arrays(&inner->leaves);
  const nabla_array_call checked = {inner->site.function, NULL, (uint32_t)count,
                                    leaves};
  if (!nabla_call_begin(&checked))
    return nabla_scope_status(inner->scope, diag);
  nabla_body_init(&inner->body, &inner->site, inner->scope, count, leaves);
  inner->body.types = inner->types;
  if (!nabla_body_trace(&inner->body, &source))
    return nabla_scope_status(inner->scope, diag);
  NABLA_TRY(nabla_arrays_add(operands, arguments, diag));
  for (size_t i = 0; i < nabla_body_capture_count(&inner->body); i++) {
    nabla_array *capture = nabla_body_capture(&inner->body, i);
    NABLA_TRY(
        nabla_buffer_append(operands, &capture, sizeof(nabla_array *), diag));
  }
  return NABLA_OK;
}

/* ---- what the derivative is taken of ---- */

bool nabla_array_has_floats(const nabla_array *array) {
  return nabla_dtype_is_float(nabla_dtype_element(array->dense.dtype));
}

#define PACKED                                                               \
  "it is packed, and packed values have no gradient: keep a dense master "   \
  "and pass it through nabla_quantize, train nabla_lora_init beside it, or " \
  "pass a copy by nabla_materialize"

static nabla_status check(const char *noun, const char *name,
                          const nabla_array *array, nabla_diag *diag) {
  const nabla_dtype dtype = array->dense.dtype;
  if (nabla_dtype_is_packed(dtype))
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT, "%s '%.40s': " PACKED, noun,
                      name);
  if (nabla_array_has_floats(array)) return NABLA_OK;
  return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                    "%s '%.80s' is %s: derivatives are of floats", noun, name,
                    nabla_dtype_name(dtype));
}

static nabla_status add_wrt(nabla_inner *inner, size_t argument,
                            nabla_diag *diag) {
  const nabla_wrt wrt = {(intptr_t)argument, 0};
  return nabla_buffer_append(&inner->wrt, &wrt, sizeof wrt, diag);
}

/* The name of what is meant without names. */
static const char *default_name(const nabla_tree *arguments) {
  if (arguments->kind == NABLA_TREE_LIST && arguments->count) return "0";
  if (arguments->kind == NABLA_TREE_FIELDS && arguments->count)
    return arguments->names[0];
  return "";
}

static nabla_status choose_captured(nabla_inner *inner, size_t entry,
                                    nabla_diag *diag) {
  const nabla_buffer *captured = &inner->transform->captured;
  const nabla_body *body = &inner->body;
  for (size_t i = 0; i < nabla_arrays_count(captured); i++) {
    const nabla_array *array = nabla_arrays(captured)[i];
    char number[24];
    size_t at = 0;
    (void)snprintf(number, sizeof number, "%zu", i);
    while (at < nabla_body_capture_count(body) &&
           nabla_body_capture(body, at) != array)
      at++;
    if (at == nabla_body_capture_count(body))
      return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                        "captured array %zu is not used by the callback", i);
    NABLA_TRY(check("captured array", number, array, diag));
    NABLA_TRY(add_wrt(inner, body->argument_count + at, diag));
    (void)snprintf(number, sizeof number, "%zu", entry + i);
    NABLA_TRY(nabla_leaf_names_add(&inner->chosen.names,
                                   inner->chosen.entries > 1 ? number : "", "",
                                   "", diag));
  }
  return NABLA_OK;
}

nabla_status nabla_inner_choose(nabla_inner *inner, const nabla_tree *arguments,
                                nabla_diag *diag) {
  const nabla_transform *t = inner->transform;
  const size_t captured = nabla_arrays_count(&t->captured);
  const size_t named = nabla_leaf_names_count(&t->wrt);
  const size_t entries = !named && !captured ? 1 : named;
  nabla_leaf_names names;
  inner->chosen.entries = entries + captured;
  for (size_t i = 0; i < entries; i++)
    NABLA_TRY(nabla_selection_add(
        &inner->chosen, i,
        named ? nabla_leaf_names_at(&t->wrt, i) : default_name(arguments),
        arguments, diag));
  nabla_leaf_names_init(&names, t->allocator);
  nabla_status status = nabla_leaf_names_of_tree(&names, arguments, diag);
  for (size_t i = 0; i < nabla_selection_count(&inner->chosen) && !status;
       i++) {
    const size_t leaf = nabla_selection_at(&inner->chosen, i);
    status = check("the argument", nabla_leaf_names_at(&names, leaf),
                   nabla_arrays(&inner->leaves)[leaf], diag);
    if (!status) status = add_wrt(inner, leaf, diag);
  }
  nabla_leaf_names_deinit(&names);
  return status ? status : choose_captured(inner, entries, diag);
}

size_t nabla_inner_wrt_count(const nabla_inner *inner) {
  return inner->wrt.size / sizeof(nabla_wrt);
}

nabla_array *nabla_inner_wrt(const nabla_inner *inner, size_t index) {
  const nabla_wrt *wrt = (const void *)inner->wrt.data;
  return nabla_arrays(&inner->operands)[wrt[index].argument];
}

/* ---- recording ---- */

nabla_status nabla_inner_record(nabla_inner *inner, size_t step_count,
                                const nabla_step *steps, size_t result_count,
                                nabla_diag *diag) {
  const nabla_body *body = &inner->body;
  if (result_count)
    NABLA_TRY(nabla_buffer_append(&inner->results, NULL,
                                  result_count * sizeof(nabla_array *), diag));
  const nabla_stepped stepped = {
      .site = &inner->site,
      .scope = inner->scope,
      .body = body,
      .name = inner->transform->function->options.name,
      .step_count = step_count,
      .steps = steps,
      .operand_count = nabla_arrays_count(&inner->operands),
      .operands = nabla_arrays(&inner->operands),
      .result_count = result_count};
  if (!nabla_stepped_record(&stepped, nabla_arrays(&inner->results)))
    return nabla_scope_status(inner->scope, diag);
  return NABLA_OK;
}

/* The dtype of the values, and the shape, of an array. */
static void copy_shape(nabla_array *to, const nabla_array *from) {
  memcpy(to->dense.shape, from->dense.shape, sizeof to->dense.shape);
}

void nabla_inner_size(nabla_inner *inner, size_t gradients) {
  nabla_array **results = nabla_arrays(&inner->results);
  nabla_body_lift_results(&inner->body, 0, inner->body.result_count, results);
  for (size_t i = 0; i < nabla_inner_wrt_count(inner) && gradients; i++)
    copy_shape(results[gradients + i], nabla_inner_wrt(inner, i));
}

/* ---- results that are floats ---- */

/* Names of results that are collected. */
typedef struct collecting {
  const nabla_inner *inner;
  nabla_leaf_names *names;
  size_t count;
} collecting;

static nabla_status collect(void *self, const char *name, nabla_array **place,
                            nabla_diag *diag) {
  (void)place;
  collecting *c = self;
  if (!nabla_array_has_floats(c->inner->body.results[c->count++]))
    return NABLA_OK;
  return nabla_leaf_names_add(c->names, name, "", "", diag);
}

nabla_status nabla_inner_check_results(const nabla_inner *inner,
                                       const nabla_tree *results,
                                       const char *what, const nabla_tree *tree,
                                       nabla_diag *diag) {
  nabla_leaf_names names;
  nabla_leaf_names_init(&names, inner->transform->allocator);
  collecting c = {inner, &names, 0};
  nabla_status status = nabla_tree_visit(results, collect, &c, diag);
  if (!status) status = nabla_leaf_names_check(&names, what, tree, diag);
  nabla_leaf_names_deinit(&names);
  return status;
}

/* ---- tangents and cotangents ---- */

static bool same_shape(const nabla_scope *scope, const nabla_dense *a,
                       const nabla_dense *b) {
  int64_t size;
  bool same = a->rank == b->rank;
  for (uint32_t d = 0; same && d < a->rank; d++)
    same = nabla_size_join(scope, a->shape[d], b->shape[d], &size) &&
           (a->shape[d] < 0) == (b->shape[d] < 0);
  return same;
}

/* "the cotangent of 'y' is F32[2, 32], the result is F32[4, 32]" */
static nabla_status fail_types(const nabla_inner *inner,
                               const nabla_direction *direction,
                               const char *name, const nabla_array *given,
                               const nabla_array *of, nabla_diag *diag) {
  char is[80] = "", wanted[80] = "";
  nabla_array_describe(is, sizeof is, given, inner->scope->trace);
  nabla_array_describe(wanted, sizeof wanted, of, inner->scope->trace);
  return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                    "the %s%s%.60s%s is %s, the %s is %s", direction->given,
                    *name ? " of '" : "", name, *name ? "'" : "", is,
                    direction->of, wanted);
}

nabla_status nabla_inner_give(nabla_inner *inner,
                              const nabla_direction *direction,
                              const char *name, nabla_array *given,
                              const nabla_array *of, nabla_diag *diag) {
  nabla_array_call site = {inner->site.function, NULL, 1, &given};
  const nabla_dtype dtype = nabla_dtype_element(of->dense.dtype);
  if (!nabla_call_begin(&site)) return nabla_scope_status(inner->scope, diag);
  if (given->is_weak && !of->is_weak)
    given = nabla_record_convert(&site, inner->scope, given, dtype);
  if (!given) return nabla_scope_status(inner->scope, diag);
  if (given->dense.dtype != dtype ||
      !same_shape(inner->scope, &given->dense, &of->dense))
    return fail_types(inner, direction, name, given, of, diag);
  return nabla_buffer_append(&inner->operands, &given, sizeof(nabla_array *),
                             diag);
}

const nabla_tree *nabla_inner_item(const nabla_tree *tree, size_t count,
                                   size_t index, const char *what,
                                   nabla_diag *diag) {
  const bool is_list =
      tree->kind == NABLA_TREE_LIST || tree->kind == NABLA_TREE_FIELDS;
  if (is_list && tree->count == count && tree->items)
    return &tree->items[index];
  (void)!nabla_fail(diag, NABLA_INVALID_ARGUMENT, "%s are a list of %zu trees",
                    what, count);
  return NULL;
}
