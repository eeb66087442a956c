/* The functions of operations.def that operate element by element. */
#include "lib/array/record.h"

/* Records `op` of operands that have one dtype and shape. */
static nabla_array *record_elements(const nabla_array_call *site,
                                    nabla_dtype_rule rule,
                                    nabla_recording *recording) {
  nabla_array *operands[3];
  nabla_array_type shape;
  nabla_scope *scope = nabla_call_begin(site);
  if (!scope || !nabla_call_broadcast(site, scope, &shape)) return NULL;
  const nabla_dtype dtype = nabla_call_promote(site, rule);
  for (uint32_t i = 0; i < site->count; i++) {
    nabla_array *x = nabla_record_convert(site, scope, site->arrays[i], dtype);
    operands[i] = nabla_record_broadcast(site, scope, x, &shape);
    if (!operands[i]) return NULL;
  }
  recording->operand_count = site->count;
  return nabla_record(site, scope, recording, operands);
}

static nabla_array *record_kind(const nabla_array_call *site,
                                nabla_dtype_rule rule, const char *op,
                                const char *key, int64_t value) {
  const nabla_recorded_attribute attribute = {
      .key = key, .kind = NABLA_ATTRIBUTE_I32, .count = 1, .values = &value};
  nabla_recording recording = {
      .op = op, .attribute_count = 1, .attributes = &attribute};
  return record_elements(site, rule, &recording);
}

#define UNARY(name, op_name, dtypes)                                  \
  nabla_array *nabla_##name(nabla_array *x) {                         \
    const nabla_array_call site = NABLA_ARRAY_CALL(name, 1, &x);      \
    nabla_recording recording = {.op = "nabla." #op_name};            \
    return record_elements(&site, NABLA_DTYPES_##dtypes, &recording); \
  }
#define UNARY_OF(name, op_name, dtypes, key, value)                          \
  nabla_array *nabla_##name(nabla_array *x) {                                \
    const nabla_array_call site = NABLA_ARRAY_CALL(name, 1, &x);             \
    return record_kind(&site, NABLA_DTYPES_##dtypes, "nabla." #op_name, key, \
                       value);                                               \
  }
#define BINARY(name, op_name, dtypes)                                 \
  nabla_array *nabla_##name(nabla_array *x, nabla_array *y) {         \
    nabla_array *const list[2] = {x, y};                              \
    const nabla_array_call site = NABLA_ARRAY_CALL(name, 2, list);    \
    nabla_recording recording = {.op = "nabla." #op_name};            \
    return record_elements(&site, NABLA_DTYPES_##dtypes, &recording); \
  }
#define COMPARISON(name, number)                                         \
  nabla_array *nabla_##name(nabla_array *x, nabla_array *y) {            \
    nabla_array *const list[2] = {x, y};                                 \
    const nabla_array_call site = NABLA_ARRAY_CALL(name, 2, list);       \
    return record_kind(&site, NABLA_DTYPES_own, "nabla.compare", "kind", \
                       number);                                          \
  }
#include "lib/array/operations.def"

nabla_array *nabla_constant(nabla_scope *scope, const nabla_dense *value) {
  nabla_array *leaf = nabla_array_leaf(scope, value, false, "nabla_constant",
                                       __builtin_return_address(0));
  if (!leaf) return NULL;
  const nabla_array_call site = NABLA_ARRAY_CALL(constant, 1, &leaf);
  const nabla_recorded_attribute attribute = {
      .key = "value", .kind = NABLA_ATTRIBUTE_DENSE, .type = value};
  const nabla_recording recording = {
      .op = "nabla.constant", .attribute_count = 1, .attributes = &attribute};
  nabla_array *out = nabla_record(&site, scope, &recording, NULL);
  nabla_array_leave(leaf);
  return out;
}
