/* Recording an operation of a user: operands, types of results, the body. */
#include <inttypes.h>
#include <string.h>

#include "lib/array/dtypes.h"
#include "lib/array/function/body.h"
#include "lib/array/function/user_operations.h"

nabla_operation_frame nabla_application_frame(
    const nabla_application *application, nabla_array *const *operands) {
  return (nabla_operation_frame){.struct_size = sizeof(nabla_operation_frame),
                                 .operation = application->operation,
                                 .operand_count = application->operand_count,
                                 .result_count = application->result_count,
                                 .operands = operands,
                                 .types = application->types,
                                 .attributes = application->attributes};
}

/* ---- operands ---- */

/* How many operands and results a kind has; SIZE_MAX: any. */
static bool check_counts(const nabla_application *a) {
  const size_t any = SIZE_MAX;
  const size_t counts[NABLA_OPERATION_KINDS][2] = {
      [NABLA_OPERATION_OTHER] = {any, any},
      [NABLA_OPERATION_UNARY] = {1, 1},
      [NABLA_OPERATION_BINARY] = {2, 1},
      [NABLA_OPERATION_REDUCE] = {1, 1},
      [NABLA_OPERATION_AXIS] = {1, 1},
      [NABLA_OPERATION_SHAPE] = {1, any},
      [NABLA_OPERATION_CREATION] = {0, any},
      [NABLA_OPERATION_COLLECTIVE] = {any, any}};
  const size_t *want = counts[a->operation->kind];
  if ((want[0] == any || want[0] == a->operand_count) &&
      (want[1] == any || want[1] == a->result_count))
    return true;
  nabla_call_fail(a->site, a->scope, NABLA_INVALID_ARGUMENT,
                  "%zu operands and %zu results, which is not its kind",
                  a->operand_count, a->result_count);
  return false;
}

/* Converts operands: to one dtype and shape where the operation is BINARY. */
static bool take_operands(nabla_application *a, nabla_array *const *operands) {
  const bool is_binary = a->operation->kind == NABLA_OPERATION_BINARY;
  nabla_array_type shape;
  nabla_dtype dtype = NABLA_DTYPE_F32;
  if (is_binary) {
    dtype = nabla_call_promote(a->site, NABLA_DTYPES_own);
    if (!nabla_call_broadcast(a->site, a->scope, &shape)) return false;
  }
  for (size_t i = 0; i < a->operand_count; i++) {
    nabla_array *x = operands[i];
    const nabla_operand_dtype own = {x->dense.dtype, x->is_weak};
    x = nabla_record_convert(a->site, a->scope, x,
                             is_binary ? dtype : nabla_dtype_settle(own));
    if (is_binary) x = nabla_record_broadcast(a->site, a->scope, x, &shape);
    if (!x) return false;
    a->operands[i] = x;
    a->types[i] = x->dense;
    a->types[i].data = NULL;
  }
  return true;
}

/* ---- types ---- */

/* The dimension that `axis` names. */
static bool find_axis(const nabla_application *a, uint32_t *out) {
  const int64_t rank = a->types[0].rank;
  const int64_t axis =
      nabla_attribute_tree_integer(a->attributes, "axis", INT64_MAX);
  if (axis < -rank || axis >= rank) {
    nabla_call_fail(a->site, a->scope, NABLA_INVALID_ARGUMENT,
                    axis == INT64_MAX ? "there is no integer attribute axis"
                                      : "the axis is no dimension");
    return false;
  }
  *out = (uint32_t)(axis < 0 ? axis + rank : axis);
  return true;
}

static bool infer_by_kind(nabla_application *a) {
  nabla_dense *out = &a->inferred[0];
  uint32_t axis;
  const nabla_operation_kind kind = a->operation->kind;
  if (kind != NABLA_OPERATION_UNARY && kind != NABLA_OPERATION_BINARY &&
      kind != NABLA_OPERATION_AXIS && kind != NABLA_OPERATION_REDUCE)
    return true;
  *out = a->types[0];
  a->is_inferred = true;
  if (kind == NABLA_OPERATION_UNARY || kind == NABLA_OPERATION_BINARY)
    return true;
  if (!find_axis(a, &axis)) return false;
  if (kind == NABLA_OPERATION_AXIS) return true;
  const nabla_attribute_tree *keep =
      nabla_attribute_tree_find(a->attributes, "keep_dims");
  if (keep && keep->kind == NABLA_ATTRIBUTE_BOOL && keep->integer) {
    out->shape[axis] = 1;
    return true;
  }
  out->rank--;
  memmove(out->shape + axis, out->shape + axis + 1,
          (out->rank - axis) * sizeof out->shape[0]);
  return true;
}

static bool check_inferred(const nabla_application *a, size_t index) {
  const nabla_dense *type = &a->inferred[index];
  bool is_good =
      nabla_dtype_is_known(type->dtype) && type->rank <= NABLA_ARRAY_MAX_RANK;
  for (uint32_t d = 0; d < type->rank && is_good; d++) {
    uint32_t dim;
    const nabla_trace *trace = a->scope->trace;
    is_good = type->shape[d] >= 0 ||
              (trace && nabla_trace_size_array(trace, type->shape[d], &dim));
  }
  if (is_good) return true;
  nabla_call_fail(a->site, a->scope, NABLA_INVALID_ARGUMENT,
                  "infer gave result %zu no dtype, rank or size of an array",
                  index);
  return false;
}

bool nabla_application_infer(nabla_application *a) {
  nabla_diag diag = NABLA_DIAG_INIT;
  if (!a->operation->infer) return infer_by_kind(a);
  const nabla_operation_frame frame = nabla_application_frame(a, NULL);
  const nabla_status status = a->operation->infer(&frame, a->inferred, &diag);
  if (status) {
    nabla_call_fail(a->site, a->scope, status, "%s", diag.what);
    return false;
  }
  for (size_t i = 0; i < a->result_count; i++)
    if (!check_inferred(a, i)) return false;
  a->is_inferred = true;
  return true;
}

/* ---- the body ---- */

static void record_body(nabla_scope *scope, const nabla_tree *values,
                        nabla_tree *results, void *self) {
  nabla_application *a = self;
  nabla_array *operands[NABLA_MAX_RECORDED];
  nabla_array *out[NABLA_MAX_RECORDED] = {NULL};
  for (size_t i = 0; i < a->operand_count; i++)
    operands[i] = values->items[i].array;
  const nabla_operation_frame frame = nabla_application_frame(a, operands);
  a->operation->body(scope, &frame, out);
  for (size_t i = 0; i < a->result_count; i++) results->items[i].array = out[i];
}

/* Compares the results of the body with the inferred ones. */
static bool check_results(const nabla_application *a,
                          nabla_array *const *results) {
  for (size_t i = 0; i < a->result_count && a->is_inferred; i++) {
    const nabla_dense *want = &a->inferred[i], *got = &results[i]->dense;
    bool same = want->dtype == got->dtype && want->rank == got->rank;
    for (uint32_t d = 0; d < want->rank && same; d++) {
      int64_t size;
      same = nabla_size_join(a->scope, want->shape[d], got->shape[d], &size);
    }
    if (same) continue;
    nabla_call_fail(a->site, a->scope, NABLA_INVALID_ARGUMENT,
                    "result %zu of the body, %s of rank %" PRIu32
                    ", is not what its kind or infer says, %s of rank %" PRIu32,
                    i, nabla_dtype_name(got->dtype), got->rank,
                    nabla_dtype_name(want->dtype), want->rank);
    return false;
  }
  return true;
}

static bool call_body(nabla_application *a, nabla_array **out) {
  nabla_tree values[NABLA_MAX_RECORDED], results[NABLA_MAX_RECORDED];
  nabla_body body;
  for (size_t i = 0; i < a->operand_count; i++)
    values[i] = nabla_tree_of_array(a->operands[i]);
  for (size_t i = 0; i < a->result_count; i++)
    results[i] = nabla_tree_of_array(NULL);
  const nabla_tree shape = nabla_tree_of_list(a->operand_count, values);
  const nabla_tree wanted = nabla_tree_of_list(a->result_count, results);
  const nabla_body_source source = {record_body, a, NULL, &shape, &wanted};
  nabla_body_init(&body, a->site, a->scope, a->operand_count, a->operands);
  const bool good = nabla_body_trace(&body, &source) &&
                    check_results(a, body.results) &&
                    nabla_body_call(&body, a->operation->name, out);
  if (good) nabla_body_lift_results(&body, 0, a->result_count, out);
  nabla_body_deinit(&body);
  return good;
}

/* ---- public ---- */

static bool apply(nabla_application *a, nabla_array *const *operands,
                  nabla_array **out) {
  a->scope = nabla_call_begin(a->site);
  if (!a->scope || !check_counts(a) || !take_operands(a, operands) ||
      !nabla_application_infer(a))
    return false;
  if (nabla_application_has_rule(a))
    return nabla_application_ruled(a, out) && check_results(a, out);
  return a->operation->body ? call_body(a, out)
                            : nabla_application_call(a, out);
}

static void apply_all(nabla_application *a, const void *place,
                      nabla_array *const *operands, nabla_array **results) {
  const nabla_operation *o = a->operation;
  const nabla_array_call site = {o ? o->name : "nabla_apply", place,
                                 (uint32_t)a->operand_count, operands};
  const nabla_array_call none = {site.function, place, 0, NULL};
  nabla_scope *scope = nabla_scope_innermost();
  bool good = false;
  if (!o || nabla_operation_find(o->name) != o)
    nabla_call_fail(&none, scope, NABLA_INVALID_ARGUMENT,
                    "an operation that was not added");
  else if (a->operand_count > NABLA_MAX_RECORDED ||
           a->result_count > NABLA_MAX_RECORDED)
    nabla_call_fail(&none, scope, NABLA_TOO_LARGE,
                    "%zu operands and %zu results; at most %d",
                    a->operand_count, a->result_count, NABLA_MAX_RECORDED);
  else if (a->operand_count && !operands)
    nabla_call_fail(&none, scope, NABLA_INVALID_ARGUMENT,
                    "the operands are NULL");
  else {
    a->site = &site;
    good = apply(a, operands, results);
    a->site = NULL;
  }
  for (size_t i = 0; i < a->result_count && !good; i++) results[i] = NULL;
}

nabla_array *nabla_apply(const nabla_operation *operation, size_t operand_count,
                         nabla_array *const *operands,
                         const nabla_attribute_tree *attributes) {
  nabla_array *result = NULL;
  nabla_application a = {.operation = operation,
                         .attributes = attributes,
                         .operand_count = operand_count,
                         .result_count = 1};
  apply_all(&a, __builtin_return_address(0), operands, &result);
  return result;
}

void nabla_apply_all(const nabla_operation *operation, size_t operand_count,
                     nabla_array *const *operands,
                     const nabla_attribute_tree *attributes,
                     size_t result_count, nabla_array **results) {
  nabla_application a = {.operation = operation,
                         .attributes = attributes,
                         .operand_count = operand_count,
                         .result_count = result_count};
  if (result_count && !results) return;
  apply_all(&a, __builtin_return_address(0), operands, results);
}
