/* Operations of users that bring a derivative (nabla/operation.h): calls of
 * functions with rules. */
#include <string.h>

#include "lib/array/derivative/ruled.h"
#include "lib/array/derivative/transform.h"
#include "lib/array/function/user_operations.h"

/* The arrays of a list of leaves. */
static void take(const nabla_tree *list, nabla_array **out) {
  for (size_t i = 0; i < list->count; i++) out[i] = list->items[i].array;
}

static void give(const nabla_tree *list, nabla_array *const *arrays) {
  for (size_t i = 0; i < list->count; i++) list->items[i].array = arrays[i];
}

static bool has_cotangent(const nabla_application *a, size_t operand) {
  return nabla_ruled_has_cotangent(&a->operands[operand]->dense);
}

/* Records the operation itself. */
static void compute(nabla_scope *scope, const nabla_application *a,
                    nabla_array *const *operands, nabla_array **out) {
  if (a->operation->body) {
    const nabla_operation_frame frame = nabla_application_frame(a, operands);
    a->operation->body(scope, &frame, out);
    return;
  }
  nabla_application of = *a;
  of.scope = scope;
  memcpy(of.operands, operands, a->operand_count * sizeof(nabla_array *));
  if (!nabla_application_call(&of, out))
    memset(out, 0, a->result_count * sizeof(nabla_array *));
}

static void body(nabla_scope *scope, const nabla_tree *in, nabla_tree *out,
                 void *self) {
  nabla_array *operands[NABLA_MAX_RECORDED];
  nabla_array *results[NABLA_MAX_RECORDED] = {NULL};
  take(in, operands);
  compute(scope, self, operands, results);
  give(out, results);
}

/* ---- reverse mode ---- */

/* Of an operation without `forward`, operands and results are saved. */
static void forward(nabla_scope *scope, const nabla_tree *in, nabla_tree *out,
                    void *self) {
  const nabla_application *a = self;
  nabla_array *operands[NABLA_MAX_RECORDED];
  nabla_array *results[NABLA_MAX_RECORDED] = {NULL};
  nabla_array *saved[2 * NABLA_MAX_RECORDED] = {NULL};
  take(in, operands);
  if (a->operation->forward) {
    const nabla_operation_frame frame = nabla_application_frame(a, operands);
    a->operation->forward(&frame, results, saved);
  } else {
    compute(scope, a, operands, results);
    memcpy(saved, operands, a->operand_count * sizeof(nabla_array *));
    memcpy(saved + a->operand_count, results,
           a->result_count * sizeof(nabla_array *));
  }
  give(&out->items[0], results);
  give(&out->items[1], saved);
}

/* A cotangent that the user left out. */
static nabla_array *zeros(nabla_scope *scope, const nabla_dense *type) {
  return nabla_zeros(scope, type->dtype, type->rank, type->shape);
}

static void backward(nabla_scope *scope, const nabla_tree *in, nabla_tree *out,
                     void *self) {
  const nabla_application *a = self;
  nabla_array *saved[2 * NABLA_MAX_RECORDED];
  nabla_array *given[NABLA_MAX_RECORDED];
  nabla_array *made[NABLA_MAX_RECORDED] = {NULL};
  take(&in->items[0], saved);
  take(&in->items[1], given);
  if (a->operation->derivative) {
    made[0] = nabla_mul(given[0], a->operation->derivative(saved[0], saved[1]));
    out->items[0].array = made[0];
    return;
  }
  nabla_array *cotangents[NABLA_MAX_RECORDED] = {NULL};
  for (size_t i = 0, at = 0; i < a->result_count; i++)
    if (a->takes_cotangent[i]) cotangents[i] = given[at++];
  const nabla_operation_frame frame = nabla_application_frame(a, NULL);
  a->operation->vjp(&frame, saved, cotangents, made);
  for (size_t i = 0, at = 0; i < a->operand_count; i++)
    if (has_cotangent(a, i))
      out->items[at++].array = made[i] ? made[i] : zeros(scope, &a->types[i]);
}

/* ---- forward mode ---- */

static void jvp(nabla_scope *scope, const nabla_tree *in, nabla_tree *out,
                void *self) {
  const nabla_application *a = self;
  nabla_array *operands[NABLA_MAX_RECORDED], *given[NABLA_MAX_RECORDED];
  nabla_array *results[NABLA_MAX_RECORDED] = {NULL};
  nabla_array *tangents[NABLA_MAX_RECORDED] = {NULL};
  nabla_array *made[NABLA_MAX_RECORDED] = {NULL};
  take(&in->items[0], operands);
  take(&in->items[1], given);
  compute(scope, a, operands, results);
  give(&out->items[0], results);
  if (a->operation->derivative) {
    out->items[1].items[0].array =
        nabla_mul(given[0], a->operation->derivative(operands[0], results[0]));
    return;
  }
  for (size_t i = 0, at = 0; i < a->operand_count; i++)
    if (has_cotangent(a, i)) tangents[i] = given[at++];
  const nabla_operation_frame frame = nabla_application_frame(a, operands);
  a->operation->jvp(&frame, tangents, made);
  for (size_t i = 0, at = 0; i < a->result_count; i++) {
    if (!results[i] || !nabla_array_has_floats(results[i])) continue;
    if (at == out->items[1].count) return;
    out->items[1].items[at++].array =
        made[i] ? made[i] : nabla_zeros_like(results[i]);
  }
}

/* ---- the call ---- */

bool nabla_application_has_rule(const nabla_application *a) {
  const nabla_operation *o = a->operation;
  return o->derivative || o->vjp || o->jvp;
}

/* The body also says which results are of floats. */
static void first(nabla_scope *scope, const nabla_tree *in, nabla_tree *out,
                  void *self) {
  nabla_application *a = self;
  body(scope, in, out, self);
  for (size_t i = 0; i < a->result_count; i++)
    a->takes_cotangent[i] =
        out->items[i].array && nabla_array_has_floats(out->items[i].array);
}

bool nabla_application_ruled(nabla_application *a, nabla_array **out) {
  const nabla_operation *o = a->operation;
  nabla_tree operands[NABLA_MAX_RECORDED], results[NABLA_MAX_RECORDED];
  for (size_t i = 0; i < a->operand_count; i++)
    operands[i] = nabla_tree_of_array(a->operands[i]);
  for (size_t i = 0; i < a->result_count; i++)
    results[i] = nabla_tree_of_array(NULL);
  const nabla_tree in = nabla_tree_of_list(a->operand_count, operands);
  const nabla_tree wanted = nabla_tree_of_list(a->result_count, results);
  nabla_ruled ruled = {.site = a->site,
                       .scope = a->scope,
                       .name = o->name,
                       .arguments = &in,
                       .results = &wanted,
                       .parts = {{first, a}},
                       .saved_count = o->forward
                                          ? o->saved_count
                                          : a->operand_count + a->result_count};
  if (o->derivative || o->vjp) {
    ruled.parts[NABLA_PART_FORWARD] = (nabla_ruled_source){forward, a};
    ruled.parts[NABLA_PART_BACKWARD] = (nabla_ruled_source){backward, a};
  }
  if (o->derivative || o->jvp)
    ruled.parts[NABLA_PART_JVP] = (nabla_ruled_source){jvp, a};
  if (!nabla_ruled_record(&ruled)) return false;
  for (size_t i = 0; i < a->result_count; i++) out[i] = results[i].array;
  return true;
}
