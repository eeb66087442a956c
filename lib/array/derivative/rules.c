/* nabla_straight_through, nabla_function_set_vjp and _set_jvp: functions whose
 * derivative is given. */
#include <string.h>

#include "lib/array/derivative/ruled.h"
#include "lib/array/derivative/transform.h"
#include "lib/base/require.h"

/* ---- straight through ---- */

static void straight(nabla_scope *scope, const nabla_tree *in, nabla_tree *out,
                     void *self) {
  const nabla_transform *t = self;
  const nabla_array_call site = {t->title, NULL, 0, NULL};
  const nabla_ruled ruled = {
      .site = &site,
      .scope = scope,
      .name = t->function->options.name,
      .arguments = in,
      .results = out,
      .parts = {{t->function->callback, t->function->options.self}},
      .is_straight = true};
  (void)nabla_ruled_record(&ruled);
}

nabla_status nabla_straight_through(nabla_function *function,
                                    nabla_function **out, nabla_diag *diag) {
  static const nabla_transform_row row = {
      .public_name = "nabla_straight_through",
      .suffix = "straight_through",
      .callback = straight,
      .keeps_arguments = true};
  return nabla_transform_create(&row, function, NULL, out, diag);
}

/* ---- rules ---- */

/* `self` of a function that has a rule. */
typedef struct rule {
  const nabla_allocator *allocator;
  const nabla_function *function;
  nabla_function_callback callback; /* of the function itself */
  void *self;
  void (*release)(void *self);
  nabla_function *forward, *backward, *jvp; /* borrowed */
  size_t saved_count;
} rule;

static nabla_ruled_source source_of(const nabla_function *function) {
  if (!function) return (nabla_ruled_source){NULL, NULL};
  return (nabla_ruled_source){function->callback, function->options.self};
}

static void call_ruled(nabla_scope *scope, const nabla_tree *in,
                       nabla_tree *out, void *self) {
  const rule *r = self;
  const nabla_array_call site = {r->function->options.name, NULL, 0, NULL};
  const nabla_ruled ruled = {.site = &site,
                             .scope = scope,
                             .name = r->function->options.name,
                             .arguments = in,
                             .results = out,
                             .parts = {{r->callback, r->self},
                                       source_of(r->forward),
                                       source_of(r->backward),
                                       source_of(r->jvp)},
                             .saved_count = r->saved_count};
  (void)nabla_ruled_record(&ruled);
}

static void release(void *self) {
  rule *r = self;
  if (r->release) r->release(r->self);
  nabla_free(r->allocator, r, 1, sizeof *r);
}

/* The rule of a function, which is made if it has none. */
static nabla_status rule_of(nabla_function *function, rule **out,
                            nabla_diag *diag) {
  void *memory;
  if (function->callback == call_ruled) {
    *out = function->options.self;
    return NABLA_OK;
  }
  NABLA_TRY(nabla_alloc(function->allocator, 1, sizeof(rule), &memory, diag));
  rule *r = memory;
  r->allocator = function->allocator;
  r->function = function;
  r->callback = function->callback;
  r->self = function->options.self;
  r->release = function->release;
  function->callback = call_ruled;
  function->options.self = r;
  function->release = release;
  *out = r;
  return NABLA_OK;
}

static nabla_status check_engine(const nabla_function *a,
                                 const nabla_function *b, nabla_diag *diag) {
  if (a->engine == b->engine && a != b) return NABLA_OK;
  return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                    a == b ? "%s cannot be a rule of itself"
                           : "the rule of %s is of another engine",
                    a->options.name);
}

nabla_status nabla_function_set_vjp(nabla_function *function,
                                    nabla_function *forward,
                                    nabla_function *backward,
                                    size_t saved_count, nabla_diag *diag) {
  rule *r;
  NABLA_REQUIRE(function, diag);
  NABLA_REQUIRE(forward, diag);
  NABLA_REQUIRE(backward, diag);
  NABLA_TRY(check_engine(function, forward, diag));
  NABLA_TRY(check_engine(function, backward, diag));
  NABLA_TRY(rule_of(function, &r, diag));
  r->forward = forward;
  r->backward = backward;
  r->saved_count = saved_count;
  return NABLA_OK;
}

nabla_status nabla_function_set_jvp(nabla_function *function,
                                    nabla_function *jvp, nabla_diag *diag) {
  rule *r;
  NABLA_REQUIRE(function, diag);
  NABLA_REQUIRE(jvp, diag);
  NABLA_TRY(check_engine(function, jvp, diag));
  NABLA_TRY(rule_of(function, &r, diag));
  r->jvp = jvp;
  return NABLA_OK;
}
