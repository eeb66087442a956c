/* Recording; see record.h. */
#include "lib/array/record.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "lib/array/dtypes.h"
#include "lib/array/engine.h"
#include "lib/array/packed.h"
#include "lib/array/trace.h"
#include "lib/array/watch.h"

/* ---- failures ---- */

/* Appends to a text of fixed size; what does not fit is left out. */
NABLA_PRINTF(3, 4)
static void append(char *text, size_t size, const char *format, ...) {
  const size_t used = strlen(text);
  va_list list;
  va_start(list, format);
  (void)vsnprintf(text + used, size - used, format, list);
  va_end(list);
}

void nabla_array_describe(char *text, size_t size, const nabla_array *array,
                          const nabla_trace *trace) {
  if (!array || nabla_is_none(array)) {
    append(text, size, array ? "none" : "NULL");
    return;
  }
  const nabla_dense *dense = &array->dense;
  append(text, size, "%s[",
         nabla_dtype_name(nabla_dtype_element(dense->dtype)));
  for (uint32_t i = 0; i < dense->rank; i++) {
    if (i) append(text, size, ", ");
    if (dense->shape[i] < 0)
      append(text, size, "%s", nabla_trace_size_name(trace, dense->shape[i]));
    else
      append(text, size, "%" PRId64, dense->shape[i]);
  }
  append(text, size, "]");
}

void nabla_call_fail(const nabla_array_call *site, nabla_scope *scope,
                     nabla_status status, const char *format, ...) {
  nabla_diag diag = NABLA_DIAG_INIT;
  char call[128] = "", why[200];
  if (!scope) return;
  append(call, sizeof call, "%s(", site->function);
  for (uint32_t i = 0; i < site->count; i++) {
    if (i) append(call, sizeof call, ", ");
    nabla_array_describe(call, sizeof call, site->arrays[i], scope->trace);
  }
  va_list list;
  va_start(list, format);
  (void)vsnprintf(why, sizeof why, format, list);
  va_end(list);
  (void)!nabla_fail(&diag, status, "%s): %s", call, why);
  nabla_scope_fail(scope, &diag, site->place);
}

const char *nabla_array_objection(const nabla_array *array) {
  if (nabla_is_none(array)) return "an operand is nabla_none()";
  if (nabla_array_is_released(array)) return NABLA_USE_AFTER_RELEASE;
  if (array->is_donated) return "an array that was donated to a function";
  if (array->trace)
    return nabla_trace_is_open(array->trace)
               ? NULL
               : "an argument of a trace that has ended";
  if (array->dense.data || (!array->node && !nabla_dtype_count(&array->dense)))
    return NULL;
  if (array->node && array->node->trace &&
      !nabla_trace_is_open(array->node->trace))
    return "an array of a trace, or of a part that has ended";
  nabla_scope *owner = array->scope;
  if (!owner) return "an array whose scope ended before it was realized";
  return array->node && nabla_scope_is_open(owner)
             ? NULL
             : "a pending array of another thread's scope: realize it first";
}

nabla_scope *nabla_call_begin(const nabla_array_call *site) {
  nabla_scope *scope = nabla_scope_innermost();
  for (uint32_t i = 0; i < site->count; i++) {
    const nabla_array *array = site->arrays[i];
    if (!array) { /* an earlier call has failed, which says why */
      nabla_call_fail(site, scope, NABLA_INVALID_ARGUMENT,
                      "an operand is NULL");
      return NULL;
    }
    const char *why = nabla_array_objection(array);
    if (!why) continue;
    nabla_call_fail(site, scope, NABLA_INVALID_ARGUMENT, "%s", why);
    return NULL;
  }
  return scope;
}

nabla_scope *nabla_call_in(const nabla_array_call *site, nabla_scope *scope) {
  if (!scope || nabla_scope_is_open(scope)) return scope;
  nabla_call_fail(site, scope, NABLA_INVALID_ARGUMENT,
                  "the scope is not of this thread");
  return NULL;
}

/* ---- nodes ---- */

size_t nabla_node_bytes(const nabla_recorded *recorded) {
  return sizeof(nabla_node) +
         ((size_t)recorded->operand_count + recorded->result_count) *
             sizeof(nabla_array *);
}

static nabla_status prepare(nabla_scope *scope, nabla_array *array) {
  nabla_diag diag = NABLA_DIAG_INIT;
  const nabla_status status = nabla_packed_prepare(array, &diag);
  if (status) nabla_scope_fail(scope, &diag, NULL);
  return status;
}

/* Makes the arrays of the results; none after a failure. */
static bool add_results(nabla_scope *scope, const nabla_recorded *recorded,
                        uint32_t count, nabla_array **out) {
  for (uint32_t i = 0; i < count; i++) {
    out[i] = nabla_array_new(scope);
    if (!out[i]) {
      while (i) nabla_array_leave(out[--i]);
      return false;
    }
    out[i]->dense = recorded->results[i];
    if (prepare(scope, out[i]) || !nabla_trace_number_sizes(scope, out[i])) {
      do nabla_array_leave(out[i]);
      while (i--);
      return false;
    }
  }
  return true;
}

static bool add_node(const nabla_array_call *site, nabla_scope *scope,
                     const nabla_recorded *recorded,
                     nabla_array *const *operands, nabla_array *const *out) {
  void *memory;
  const size_t bytes = nabla_node_bytes(recorded);
  if (nabla_alloc(nabla_engine_allocator(scope->engine), 1, bytes, &memory,
                  NULL)) {
    nabla_call_fail(site, scope, NABLA_NO_MEMORY, "no memory");
    return false;
  }
  nabla_node *node = memory;
  node->recorded = recorded;
  node->recorder = scope->recorder;
  node->trace = scope->trace ? scope->trace->number : 0;
  node->operand_count = recorded->operand_count;
  node->results = node->operands + recorded->operand_count;
  for (uint32_t i = 0; i < node->operand_count; i++) {
    node->operands[i] = operands[i];
    nabla_array_hold(operands[i]);
  }
  memcpy(node->results, out, recorded->result_count * sizeof(void *));
  for (uint32_t i = 0; i < recorded->result_count; i++) {
    node->results[i]->node = node;
    node->results[i]->index = i;
  }
  node->live = recorded->result_count;
  nabla_recorder_count(scope->recorder, 1);
  return true;
}

static bool record(const nabla_array_call *site, nabla_scope *scope,
                   const nabla_recorded *recorded, nabla_array *const *operands,
                   uint32_t count, nabla_array **out) {
  nabla_diag diag = NABLA_DIAG_INIT;
  if (recorded->result_count != count) {
    nabla_call_fail(site, scope, NABLA_INVALID_ARGUMENT, "%u results, not %u",
                    recorded->result_count, count);
    return false;
  }
  if (!add_results(scope, recorded, count, out)) return false;
  if (!add_node(site, scope, recorded, operands, out)) {
    for (uint32_t i = count; i; i--) nabla_array_leave(out[i - 1]);
    return false;
  }
  if (!scope->is_eager) return true;
  const nabla_status status = nabla_realize(scope, count, out, &diag);
  if (status) nabla_scope_fail(scope, &diag, site->place);
  return !status;
}

bool nabla_record_recorded(const nabla_array_call *site, nabla_scope *scope,
                           const nabla_recorded *recorded,
                           nabla_array *const *operands, uint32_t count,
                           nabla_array **out) {
  const bool is_recorded = record(site, scope, recorded, operands, count, out);
  for (uint32_t i = 0; !is_recorded && i < count; i++) out[i] = NULL;
  return is_recorded;
}

/* Whether an operation with a written result type takes its unknown sizes. */
static bool takes_sizes(const nabla_recording *recording) {
  static const char *const names[] = {"nabla.broadcast_in_dim",
                                      "nabla.full",
                                      "nabla.iota",
                                      "nabla.tri",
                                      "nabla.uniform",
                                      "nabla.normal",
                                      "nabla.dynamic_slice"};
  uint32_t count = 0;
  if (!recording->result) return false;
  for (uint32_t d = 0; d < recording->result->rank; d++)
    count += recording->result->shape[d] < 0;
  if (!count) return false;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (!strcmp(recording->op, names[i])) return true;
  return count > 1 && !strcmp(recording->op, "nabla.reshape");
}

bool nabla_record_all(const nabla_array_call *site, nabla_scope *scope,
                      const nabla_recording *recording,
                      nabla_array *const *operands, uint32_t count,
                      nabla_array **out) {
  const nabla_array_type *types[NABLA_MAX_RECORDED];
  nabla_array *sized[NABLA_MAX_RECORDED];
  const nabla_recorded *recorded;
  nabla_diag diag = NABLA_DIAG_INIT;
  nabla_recording typed = *recording;
  if (typed.operand_count > NABLA_MAX_RECORDED) {
    nabla_call_fail(site, scope, NABLA_TOO_LARGE, "%u operands; at most %d",
                    typed.operand_count, NABLA_MAX_RECORDED);
    return false;
  }
  if (takes_sizes(recording)) {
    for (uint32_t i = 0; i < typed.operand_count; i++) sized[i] = operands[i];
    if (!nabla_trace_add_sizes(site, scope, recording->result,
                               &typed.operand_count, sized, NABLA_MAX_RECORDED))
      return false;
    operands = sized;
  }
  for (uint32_t i = 0; i < typed.operand_count; i++)
    types[i] = &operands[i]->dense;
  typed.operands = types;
  const nabla_status status =
      nabla_recorder_find(scope->recorder, &typed, &recorded, &diag);
  if (status) {
    nabla_call_fail(site, scope, status, "%s", diag.what);
    return false;
  }
  return nabla_record_recorded(site, scope, recorded, operands, count, out);
}

nabla_array *nabla_record(const nabla_array_call *site, nabla_scope *scope,
                          const nabla_recording *recording,
                          nabla_array *const *operands) {
  nabla_array *out;
  return nabla_record_all(site, scope, recording, operands, 1, &out) ? out
                                                                     : NULL;
}

/* ---- dtypes and shapes ---- */

nabla_dtype nabla_dtype_by(nabla_dtype_rule rule, nabla_dtype dtype) {
  const bool is_narrow = dtype == NABLA_DTYPE_BOOL || dtype == NABLA_DTYPE_I8 ||
                         dtype == NABLA_DTYPE_U8;
  switch (rule) {
    case NABLA_DTYPES_own:
      break;
    case NABLA_DTYPES_floats:
      return nabla_dtype_is_float(dtype) ? dtype : NABLA_DTYPE_F32;
    case NABLA_DTYPES_numbers:
      return dtype == NABLA_DTYPE_BOOL ? NABLA_DTYPE_I32 : dtype;
    case NABLA_DTYPES_sums:
      return is_narrow ? NABLA_DTYPE_I32 : dtype;
    case NABLA_DTYPES_bools:
      return NABLA_DTYPE_BOOL;
  }
  return dtype;
}

nabla_dtype nabla_call_promote(const nabla_array_call *site,
                               nabla_dtype_rule rule) {
  nabla_operand_dtype all = {nabla_dtype_element(site->arrays[0]->dense.dtype),
                             site->arrays[0]->is_weak};
  for (uint32_t i = 1; i < site->count; i++)
    all = nabla_dtype_promote(
        all,
        (nabla_operand_dtype){nabla_dtype_element(site->arrays[i]->dense.dtype),
                              site->arrays[i]->is_weak});
  return nabla_dtype_by(rule, nabla_dtype_settle(all));
}

/* The dense array of a packed one. */
static nabla_array *materialize(const nabla_array_call *site,
                                nabla_scope *scope, nabla_array *x) {
  const nabla_recording recording = {.op = "nabla.materialize",
                                     .operand_count = 1};
  return nabla_record(site, scope, &recording, &x);
}

nabla_array *nabla_record_convert(const nabla_array_call *site,
                                  nabla_scope *scope, nabla_array *x,
                                  nabla_dtype dtype) {
  if (!x || nabla_dtype_element(x->dense.dtype) == dtype) return x;
  if (nabla_dtype_is_packed(x->dense.dtype))
    return nabla_record_convert(site, scope, materialize(site, scope, x),
                                dtype);
  nabla_array_type type = x->dense;
  type.dtype = dtype;
  const nabla_recording recording = {
      .op = "nabla.convert", .operand_count = 1, .result = &type};
  return nabla_record(site, scope, &recording, &x);
}

static void refuse_sizes(const nabla_array_call *site, nabla_scope *scope,
                         int64_t a, int64_t b) {
  char text[2][40];
  const int64_t sizes[2] = {a, b};
  for (int i = 0; i < 2; i++)
    if (sizes[i] < 0)
      (void)snprintf(text[i], sizeof text[i], "%s",
                     nabla_trace_size_name(scope->trace, sizes[i]));
    else
      (void)snprintf(text[i], sizeof text[i], "%" PRId64, sizes[i]);
  nabla_call_fail(site, scope, NABLA_INVALID_ARGUMENT,
                  "shapes that do not broadcast: sizes %s and %s", text[0],
                  text[1]);
}

bool nabla_call_broadcast(const nabla_array_call *site, nabla_scope *scope,
                          nabla_array_type *out) {
  out->rank = 0;
  for (uint32_t i = 0; i < site->count; i++)
    if (site->arrays[i]->dense.rank > out->rank)
      out->rank = site->arrays[i]->dense.rank;
  for (uint32_t d = 0; d < out->rank; d++) out->shape[d] = 1;
  for (uint32_t i = 0; i < site->count; i++) {
    const nabla_dense *x = &site->arrays[i]->dense;
    int64_t *shape = out->shape + (out->rank - x->rank);
    for (uint32_t d = 0; d < x->rank; d++) {
      if (x->shape[d] == 1 || x->shape[d] == shape[d]) continue;
      if (shape[d] == 1)
        shape[d] = x->shape[d];
      else if (!nabla_size_join(scope, shape[d], x->shape[d], &shape[d])) {
        refuse_sizes(site, scope, shape[d], x->shape[d]);
        return false;
      }
    }
  }
  return true;
}

nabla_array *nabla_record_broadcast(const nabla_array_call *site,
                                    nabla_scope *scope, nabla_array *x,
                                    const nabla_array_type *shape) {
  if (!x) return NULL;
  const nabla_dense *dense = &x->dense;
  if (dense->rank == shape->rank &&
      !memcmp(dense->shape, shape->shape, shape->rank * sizeof shape->shape[0]))
    return x;
  if (nabla_dtype_is_packed(x->dense.dtype))
    return nabla_record_broadcast(site, scope, materialize(site, scope, x),
                                  shape);
  nabla_array_type type = *shape;
  int64_t dims[NABLA_ARRAY_MAX_RANK];
  type.dtype = dense->dtype;
  for (uint32_t i = 0; i < dense->rank; i++)
    dims[i] = (int64_t)(shape->rank - dense->rank + i);
  const nabla_recorded_attribute attribute = {.key = "dims",
                                              .kind = NABLA_ATTRIBUTE_LIST,
                                              .count = dense->rank,
                                              .values = dims};
  const nabla_recording recording = {.op = "nabla.broadcast_in_dim",
                                     .operand_count = 1,
                                     .attribute_count = 1,
                                     .attributes = &attribute,
                                     .result = &type};
  return nabla_record(site, scope, &recording, &x);
}
