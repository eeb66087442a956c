/* Parts of operations; see make.h. */
#include "lib/array/make.h"

#include <inttypes.h>
#include <string.h>

#include "lib/base/checked.h"

/* ---- attributes ---- */

nabla_recorded_attribute nabla_make_list(const char *key, uint32_t count,
                                         const int64_t *values) {
  return (nabla_recorded_attribute){.key = key,
                                    .kind = NABLA_ATTRIBUTE_LIST,
                                    .count = count,
                                    .values = values};
}

nabla_recorded_attribute nabla_make_i64(const char *key, const int64_t *value) {
  return (nabla_recorded_attribute){
      .key = key, .kind = NABLA_ATTRIBUTE_I64, .count = 1, .values = value};
}

nabla_recorded_attribute nabla_make_i32(const char *key, const int64_t *value) {
  return (nabla_recorded_attribute){
      .key = key, .kind = NABLA_ATTRIBUTE_I32, .count = 1, .values = value};
}

nabla_recorded_attribute nabla_make_f64(const char *key, double value) {
  return (nabla_recorded_attribute){
      .key = key, .kind = NABLA_ATTRIBUTE_F64, .number = value};
}

nabla_recorded_attribute nabla_make_unit(const char *key) {
  return (nabla_recorded_attribute){.key = key, .kind = NABLA_ATTRIBUTE_UNIT};
}

/* ---- checks ---- */

bool nabla_make_dim(const nabla_making *m, int64_t dim, uint32_t rank,
                    int64_t *out) {
  if (dim < -(int64_t)rank || dim >= (int64_t)rank) {
    (void)NABLA_MAKE_FAIL(m, "dimension %" PRId64 " of rank %" PRIu32, dim,
                          rank);
    return false;
  }
  *out = dim < 0 ? dim + (int64_t)rank : dim;
  return true;
}

bool nabla_make_dims(const nabla_making *m, uint32_t count, const int64_t *dims,
                     uint32_t rank, bool all, int64_t *out,
                     uint32_t *out_count) {
  bool is_used[NABLA_ARRAY_MAX_RANK] = {false};
  const bool is_all = all && !count;
  *out_count = is_all ? rank : count;
  if (*out_count > rank || (count && !dims)) {
    (void)NABLA_MAKE_FAIL(m, "%" PRIu32 " dimensions of rank %" PRIu32, count,
                          rank);
    return false;
  }
  for (uint32_t i = 0; i < *out_count; i++) {
    if (!nabla_make_dim(m, is_all ? (int64_t)i : dims[i], rank, &out[i]))
      return false;
    if (is_used[out[i]]) {
      (void)NABLA_MAKE_FAIL(m, "dimension %" PRId64 " twice", out[i]);
      return false;
    }
    is_used[out[i]] = true;
  }
  return true;
}

bool nabla_make_count(const nabla_making *m, const char *list, uint32_t count,
                      uint32_t rank) {
  if (count == rank) return true;
  (void)NABLA_MAKE_FAIL(m, "%" PRIu32 " %s for rank %" PRIu32, count, list,
                        rank);
  return false;
}

int64_t nabla_make_elements_of(const nabla_array *x) {
  for (uint32_t i = 0; i < x->dense.rank; i++)
    if (x->dense.shape[i] < 0)
      return x->dense.rank == 1 ? x->dense.shape[0] : -1;
  return (int64_t)nabla_dtype_count(&x->dense);
}

bool nabla_make_type(const nabla_making *m, nabla_dtype dtype, uint32_t count,
                     const int64_t *shape, nabla_array_type *out) {
  size_t bytes = 8;
  bool is_empty = false;
  if (!nabla_dtype_is_known(dtype) || count > NABLA_ARRAY_MAX_RANK ||
      (count && !shape)) {
    (void)NABLA_MAKE_FAIL(
        m, "programs have no arrays of dtype %s and rank %" PRIu32,
        nabla_dtype_name(dtype), count);
    return false;
  }
  *out = (nabla_array_type){.dtype = dtype, .rank = count};
  for (uint32_t i = 0; i < count; i++) {
    out->shape[i] = shape[i];
    if (nabla_is_unknown(shape[i]) && m->scope->trace) continue;
    is_empty = is_empty || !shape[i];
    if (shape[i] < 0 ||
        (!is_empty && (!nabla_mul_size(bytes, (size_t)shape[i], &bytes) ||
                       bytes > SIZE_MAX / 4))) {
      (void)NABLA_MAKE_FAIL(m, "dimension %" PRIu32 " is %" PRId64, i,
                            shape[i]);
      return false;
    }
  }
  return true;
}

/* ---- dtypes and shapes ---- */

static nabla_operand_dtype operand_dtype(const nabla_array *x) {
  return (nabla_operand_dtype){nabla_make_dtype(x), x->is_weak};
}

nabla_dtype nabla_make_promote(uint32_t count, nabla_array *const *arrays,
                               nabla_dtype_rule rule) {
  nabla_operand_dtype all = operand_dtype(arrays[0]);
  for (uint32_t i = 1; i < count; i++)
    all = nabla_dtype_promote(all, operand_dtype(arrays[i]));
  return nabla_dtype_by(rule, nabla_dtype_settle(all));
}

nabla_array *nabla_make_convert(const nabla_making *m, nabla_array *x,
                                nabla_dtype dtype) {
  return nabla_record_convert(m->site, m->scope, x, dtype);
}

nabla_array *nabla_make_dense(const nabla_making *m, nabla_array *x) {
  if (!x || !nabla_dtype_is_packed(x->dense.dtype)) return x;
  return nabla_make_op(m, "nabla.materialize", 1, &x, 0, NULL, NULL);
}

nabla_array *nabla_make_settle(const nabla_making *m, nabla_array *x,
                               nabla_dtype_rule rule) {
  return x ? nabla_make_convert(m, x, nabla_make_promote(1, &x, rule)) : NULL;
}

nabla_array *nabla_make_broadcast(const nabla_making *m, nabla_array *x,
                                  const nabla_array_type *shape) {
  return nabla_record_broadcast(m->site, m->scope, x, shape);
}

nabla_array *nabla_make_spread(const nabla_making *m, nabla_array *x,
                               const int64_t *dims,
                               const nabla_array_type *shape) {
  x = nabla_make_dense(m, x);
  if (!x) return NULL;
  nabla_array_type type = *shape;
  type.dtype = x->dense.dtype;
  const nabla_recorded_attribute attribute =
      nabla_make_list("dims", x->dense.rank, dims);
  return nabla_make_op(m, "nabla.broadcast_in_dim", 1, &x, 1, &attribute,
                       &type);
}

nabla_array *nabla_make_reshape(const nabla_making *m, nabla_array *x,
                                const nabla_array_type *shape) {
  if (!x) return NULL;
  nabla_array_type type = *shape;
  type.dtype = nabla_make_dtype(x);
  if (type.rank == x->dense.rank &&
      !memcmp(type.shape, x->dense.shape, type.rank * sizeof type.shape[0]))
    return x;
  return nabla_make_op(m, "nabla.reshape", 1, &x, 0, NULL, &type);
}

nabla_array *nabla_make_transpose(const nabla_making *m, nabla_array *x,
                                  const int64_t *permutation) {
  bool is_identity = true;
  if (!x) return NULL;
  for (uint32_t i = 0; i < x->dense.rank; i++)
    is_identity = is_identity && permutation[i] == (int64_t)i;
  if (is_identity) return x;
  const nabla_recorded_attribute attribute =
      nabla_make_list("permutation", x->dense.rank, permutation);
  return nabla_make_op(m, "nabla.transpose", 1, &x, 1, &attribute, NULL);
}

nabla_array *nabla_make_squeeze(const nabla_making *m, nabla_array *x,
                                uint32_t dim) {
  if (!x) return NULL;
  nabla_array_type type = x->dense;
  type.rank--;
  memmove(type.shape + dim, type.shape + dim + 1,
          (type.rank - dim) * sizeof type.shape[0]);
  return nabla_make_reshape(m, x, &type);
}

nabla_array *nabla_make_unsqueeze(const nabla_making *m, nabla_array *x,
                                  uint32_t dim) {
  if (!x) return NULL;
  nabla_array_type type = x->dense;
  if (type.rank == NABLA_ARRAY_MAX_RANK)
    return NABLA_MAKE_FAIL(m, "a rank above %d", NABLA_ARRAY_MAX_RANK);
  memmove(type.shape + dim + 1, type.shape + dim,
          (type.rank - dim) * sizeof type.shape[0]);
  type.shape[dim] = 1;
  type.rank++;
  return nabla_make_reshape(m, x, &type);
}

/* ---- operations ---- */

nabla_array *nabla_make_op(const nabla_making *m, const char *op,
                           uint32_t count, nabla_array *const *operands,
                           uint32_t attribute_count,
                           const nabla_recorded_attribute *attributes,
                           const nabla_array_type *result) {
  if (!m->scope) return NULL;
  for (uint32_t i = 0; i < count; i++)
    if (!operands[i]) return NULL;
  const nabla_recording recording = {.op = op,
                                     .operand_count = count,
                                     .attribute_count = attribute_count,
                                     .attributes = attributes,
                                     .result = result};
  return nabla_record(m->site, m->scope, &recording, operands);
}

#define MAX_ELEMENTS 3

nabla_array *nabla_make_elements(const nabla_making *m, nabla_dtype_rule rule,
                                 const char *op, uint32_t count,
                                 nabla_array *const *operands,
                                 const nabla_recorded_attribute *attribute) {
  nabla_array *ready[MAX_ELEMENTS];
  nabla_array_type shape;
  bool is_weak = true;
  if (!m->scope) return NULL;
  for (uint32_t i = 0; i < count; i++) {
    if (!operands[i]) return NULL;
    is_weak = is_weak && operands[i]->is_weak;
  }
  const nabla_array_call call = {m->site->function, m->site->place, count,
                                 operands};
  if (!nabla_call_broadcast(&call, m->scope, &shape)) return NULL;
  const nabla_dtype dtype = nabla_make_promote(count, operands, rule);
  for (uint32_t i = 0; i < count; i++) {
    nabla_array *x = nabla_make_convert(m, operands[i], dtype);
    ready[i] = nabla_make_broadcast(m, x, &shape);
    if (!ready[i]) return NULL;
  }
  /* not a sum that wraps: as NumPy and JAX have it */
  if (dtype == NABLA_DTYPE_BOOL && !strcmp(op, "nabla.add")) op = "nabla.or";
  const nabla_recording recording = {.op = op,
                                     .operand_count = count,
                                     .attribute_count = attribute ? 1 : 0,
                                     .attributes = attribute};
  nabla_array *out = nabla_record(m->site, m->scope, &recording, ready);
  if (out && is_weak) out->is_weak = out->dense.dtype != NABLA_DTYPE_BOOL;
  return out;
}

nabla_array *nabla_make_unary(const nabla_making *m, const char *op,
                              nabla_array *x) {
  return nabla_make_elements(m, NABLA_DTYPES_own, op, 1, &x, NULL);
}

nabla_array *nabla_make_binary(const nabla_making *m, const char *op,
                               nabla_array *x, nabla_array *y) {
  nabla_array *const both[2] = {x, y};
  return nabla_make_elements(m, NABLA_DTYPES_own, op, 2, both, NULL);
}

nabla_array *nabla_make_compare(const nabla_making *m, int64_t kind,
                                nabla_array *x, nabla_array *y) {
  nabla_array *const both[2] = {x, y};
  const nabla_recorded_attribute attribute = nabla_make_i32("kind", &kind);
  return nabla_make_elements(m, NABLA_DTYPES_own, "nabla.compare", 2, both,
                             &attribute);
}

nabla_array *nabla_make_select(const nabla_making *m, nabla_array *condition,
                               nabla_array *x, nabla_array *y) {
  nabla_array *list[3] = {condition, x, y};
  nabla_array_type shape;
  if (!m->scope || !condition || !x || !y) return NULL;
  const nabla_array_call call = {m->site->function, m->site->place, 3, list};
  if (!nabla_call_broadcast(&call, m->scope, &shape)) return NULL;
  const nabla_dtype dtype = nabla_make_promote(2, list + 1, NABLA_DTYPES_own);
  const bool is_weak = x->is_weak && y->is_weak;
  for (uint32_t i = 0; i < 3; i++)
    list[i] = nabla_make_broadcast(
        m, nabla_make_convert(m, list[i], i ? dtype : NABLA_DTYPE_BOOL),
        &shape);
  nabla_array *out = nabla_make_op(m, "nabla.select", 3, list, 0, NULL, NULL);
  if (out) out->is_weak = is_weak;
  return out;
}

nabla_array *nabla_make_reduce(const nabla_making *m, int64_t kind,
                               nabla_array *x, uint32_t count,
                               const int64_t *dims, int keep_dims) {
  int64_t list[NABLA_ARRAY_MAX_RANK];
  uint32_t listed;
  if (!m->scope || !x ||
      !nabla_make_dims(m, count, dims, x->dense.rank, true, list, &listed))
    return NULL;
  const nabla_recorded_attribute attributes[3] = {
      nabla_make_i32("kind", &kind), nabla_make_list("dims", listed, list),
      nabla_make_unit("keep_dims")};
  return nabla_make_op(m, "nabla.reduce", 1, &x, keep_dims ? 3 : 2, attributes,
                       NULL);
}

nabla_array *nabla_make_along(const nabla_making *m, const char *op,
                              nabla_dtype_rule rule, nabla_array *x,
                              int64_t dim, int keep_dims) {
  int64_t at;
  if (!m->scope || !x || !nabla_make_dim(m, dim, x->dense.rank, &at))
    return NULL;
  nabla_array *operand = nabla_make_settle(m, x, rule);
  const nabla_recorded_attribute attributes[2] = {nabla_make_i64("dim", &at),
                                                  nabla_make_unit("keep_dims")};
  return nabla_make_op(m, op, 1, &operand, keep_dims ? 2 : 1, attributes, NULL);
}

nabla_array *nabla_make_full(const nabla_making *m, double value,
                             const nabla_array_type *type) {
  const bool is_bool = type->dtype == NABLA_DTYPE_BOOL;
  int64_t whole = 0;
  if (!nabla_dtype_is_float(type->dtype)) {
    if (!(value >= -9223372036854775808.0 && value < 9223372036854775808.0) ||
        (double)(int64_t)value != value)
      return NABLA_MAKE_FAIL(m, "%g as an element of dtype %s", value,
                             nabla_dtype_name(type->dtype));
    whole = is_bool ? value != 0 : (int64_t)value;
    const int64_t limit = type->dtype == NABLA_DTYPE_I8    ? INT8_MAX
                          : type->dtype == NABLA_DTYPE_U8  ? UINT8_MAX
                          : type->dtype == NABLA_DTYPE_I32 ? INT32_MAX
                                                           : INT64_MAX;
    const int64_t least = type->dtype == NABLA_DTYPE_U8 ? 0 : -limit - 1;
    if (whole < least || whole > limit)
      return NABLA_MAKE_FAIL(m, "%g as an element of dtype %s", value,
                             nabla_dtype_name(type->dtype));
  }
  const nabla_recorded_attribute attribute = {.key = "value",
                                              .kind = NABLA_ATTRIBUTE_ELEMENT,
                                              .count = 1,
                                              .values = &whole,
                                              .number = value,
                                              .type = type};
  return nabla_make_op(m, "nabla.full", 0, NULL, 1, &attribute, type);
}

nabla_array *nabla_make_iota(const nabla_making *m, int64_t dim,
                             const nabla_array_type *type) {
  const nabla_recorded_attribute attribute = nabla_make_i64("dim", &dim);
  return nabla_make_op(m, "nabla.iota", 0, NULL, 1, &attribute, type);
}
