/* Traces; see trace.h. */
#include "lib/array/trace.h"

#include <stdatomic.h>
#include <string.h>

#include "lib/array/engine.h"
#include "lib/array/packed.h"

static _Atomic uint64_t last_number;

/* An unknown size: that of a dimension of an array. */
typedef struct unknown_size {
  nabla_array *array; /* held */
  uint32_t dim;
  const char *name; /* NULL: none */
} unknown_size;

nabla_status nabla_trace_begin(nabla_trace *trace, nabla_engine *engine,
                               const char *what, nabla_diag *diag) {
  nabla_scope *around = nabla_scope_innermost();
  nabla_trace *outer = around ? around->trace : NULL;
  *trace = (nabla_trace){.what = what, .outer = outer};
  trace->root = outer ? outer->root : trace;
  trace->depth = outer ? outer->depth + 1 : 1;
  if (trace->depth > NABLA_TRACE_MAX_DEPTH)
    return nabla_fail(diag, NABLA_TOO_LARGE,
                      "%s: traces are nested more than %d deep", what,
                      NABLA_TRACE_MAX_DEPTH);
  nabla_buffer_init(&trace->sizes, nabla_engine_allocator(engine),
                    "unknown sizes", SIZE_MAX / 2);
  NABLA_TRY(nabla_scope_create(engine, &trace->scope, diag));
  trace->number = atomic_fetch_add(&last_number, 1) + 1;
  trace->scope->trace = trace;
  trace->scope->is_eager = false;
  return NABLA_OK;
}

static size_t count_sizes(const nabla_trace *root) {
  return root->sizes.size / sizeof(unknown_size);
}

static unknown_size *size_of(const nabla_trace *root, int64_t number) {
  const uint64_t index = (uint64_t)(NABLA_DYNAMIC - 1 - number);
  if (number >= NABLA_DYNAMIC || index >= count_sizes(root)) return NULL;
  return &((unknown_size *)(void *)root->sizes.data)[index];
}

void nabla_trace_end(nabla_trace *trace) {
  if (!trace->scope) return;
  unknown_size *sizes = (void *)trace->sizes.data;
  for (size_t i = 0; i < count_sizes(trace); i++)
    nabla_array_drop(sizes[i].array);
  nabla_buffer_deinit(&trace->sizes);
  nabla_scope_end(trace->scope);
  trace->scope = NULL;
}

bool nabla_trace_is_open(uint64_t number) {
  const nabla_scope *scope = nabla_scope_innermost();
  const nabla_trace *trace = scope ? scope->trace : NULL;
  while (trace && trace->number != number) trace = trace->outer;
  return trace != NULL;
}

nabla_array *nabla_trace_argument(nabla_trace *trace,
                                  const nabla_array_type *type, bool is_weak) {
  nabla_array *array = nabla_array_new(trace->scope);
  if (!array) return NULL;
  array->dense = *type;
  array->dense.data = NULL;
  array->is_weak = is_weak;
  array->trace = trace->number;
  nabla_diag diag = NABLA_DIAG_INIT;
  if (nabla_packed_prepare(array, &diag))
    nabla_scope_fail(trace->scope, &diag, NULL);
  else if (nabla_trace_number_sizes(trace->scope, array))
    return array;
  nabla_array_leave(array);
  return NULL;
}

/* ---- unknown sizes ---- */

static nabla_status add_size(nabla_trace *root, nabla_array *array,
                             uint32_t dim, const char *name, int64_t *out,
                             nabla_diag *diag) {
  const unknown_size size = {array, dim, name};
  NABLA_TRY(nabla_buffer_append(&root->sizes, &size, sizeof size, diag));
  nabla_array_hold(array);
  *out = NABLA_DYNAMIC - (int64_t)count_sizes(root);
  return NABLA_OK;
}

nabla_status nabla_trace_name_size(nabla_trace *trace, const char *name,
                                   nabla_array *array, uint32_t dim,
                                   int64_t *out, nabla_diag *diag) {
  const unknown_size *sizes = (void *)trace->root->sizes.data;
  for (size_t i = 0; i < count_sizes(trace->root); i++)
    if (sizes[i].name && !strcmp(sizes[i].name, name)) {
      *out = NABLA_DYNAMIC - 1 - (int64_t)i;
      return NABLA_OK;
    }
  return add_size(trace->root, array, dim, name, out, diag);
}

bool nabla_trace_number_sizes(nabla_scope *scope, nabla_array *array) {
  nabla_diag diag = NABLA_DIAG_INIT;
  for (uint32_t d = 0; d < array->dense.rank; d++) {
    if (array->dense.shape[d] != NABLA_DYNAMIC) continue;
    if (!scope->trace) {
      (void)!nabla_fail(&diag, NABLA_UNSUPPORTED,
                        "an array of unknown size outside of a trace");
      nabla_scope_fail(scope, &diag, NULL);
      return false;
    }
    if (add_size(scope->trace->root, array, d, NULL, &array->dense.shape[d],
                 &diag)) {
      nabla_scope_fail(scope, &diag, NULL);
      return false;
    }
  }
  return true;
}

const nabla_array *nabla_trace_size_array(const nabla_trace *trace,
                                          int64_t size, uint32_t *out_dim) {
  const unknown_size *found = size_of(trace->root, size);
  if (found) *out_dim = found->dim;
  return found ? found->array : NULL;
}

const char *nabla_trace_size_name(const nabla_trace *trace, int64_t size) {
  const unknown_size *found = trace ? size_of(trace->root, size) : NULL;
  return found && found->name ? found->name : "?";
}

bool nabla_size_join(const nabla_scope *scope, int64_t a, int64_t b,
                     int64_t *out) {
  *out = a;
  if (a == b) return true;
  if (a >= 0 && b >= 0) return false;
  if (a < 0 && b < 0) {
    const nabla_trace *root = scope->trace ? scope->trace->root : NULL;
    const unknown_size *x = root ? size_of(root, a) : NULL;
    const unknown_size *y = root ? size_of(root, b) : NULL;
    if (x && y && x->name && y->name) return false;
    if (y && y->name) *out = b;
    return true;
  }
  if (a < 0) *out = b;
  return true;
}

/* The size of a dimension as a value. */
static nabla_array *record_size(const nabla_array_call *site,
                                nabla_scope *scope, int64_t number) {
  const unknown_size *size =
      scope->trace ? size_of(scope->trace->root, number) : NULL;
  if (!size) {
    nabla_call_fail(site, scope, NABLA_INVALID_ARGUMENT,
                    "a shape has a negative size");
    return NULL;
  }
  const int64_t dim = size->dim;
  const nabla_recorded_attribute attribute = {.key = "value",
                                              .kind = NABLA_ATTRIBUTE_INDEX,
                                              .count = 1,
                                              .values = &dim};
  const nabla_recording constant = {
      .op = "arith.constant", .attribute_count = 1, .attributes = &attribute};
  const nabla_recording size_op = {.op = "tensor.dim", .operand_count = 2};
  nabla_array *operands[2] = {size->array,
                              nabla_record(site, scope, &constant, NULL)};
  if (!operands[1]) return NULL;
  return nabla_record(site, scope, &size_op, operands);
}

bool nabla_trace_add_sizes(const nabla_array_call *site, nabla_scope *scope,
                           const nabla_array_type *type, uint32_t *count,
                           nabla_array **operands, uint32_t capacity) {
  for (uint32_t d = 0; d < type->rank; d++) {
    if (type->shape[d] >= 0) continue;
    nabla_array *size =
        *count < capacity ? record_size(site, scope, type->shape[d]) : NULL;
    if (!size) return false;
    operands[(*count)++] = size;
  }
  return true;
}
