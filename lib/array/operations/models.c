/* Operations of models: norms, position embedding, attention, losses. */
#include <inttypes.h>

#include "lib/array/make.h"

/* Records an operation with `eps`; the arrays of the call are converted to one
 * dtype. */
static nabla_array *norm(const nabla_making *m, const char *op, double eps) {
  nabla_array *list[3];
  if (!m->scope) return NULL;
  const uint32_t count = m->site->count;
  const nabla_dtype dtype =
      nabla_make_promote(count, m->site->arrays, NABLA_DTYPES_floats);
  for (uint32_t i = 0; i < count; i++)
    list[i] = nabla_make_convert(m, m->site->arrays[i], dtype);
  const nabla_recorded_attribute attribute = nabla_make_f64("eps", eps);
  return nabla_make_op(m, op, count, list, 1, &attribute, NULL);
}

nabla_array *nabla_rms_norm(nabla_array *x, nabla_array *weight, double eps) {
  nabla_array *const list[2] = {x, weight};
  NABLA_MAKE_LIST(m, rms_norm, nabla_is_none(weight) ? 1 : 2, list);
  return norm(m, "nabla.rms_norm", eps);
}

nabla_array *nabla_layer_norm(nabla_array *x, nabla_array *weight,
                              nabla_array *bias, double eps) {
  nabla_array *const list[3] = {x, weight, bias};
  NABLA_MAKE_LIST(m, layer_norm,
                  nabla_is_none(bias) ? (nabla_is_none(weight) ? 1 : 2) : 3,
                  list);
  return norm(m, "nabla.layer_norm", eps);
}

nabla_array *nabla_rope(nabla_array *x, nabla_array *positions, int64_t dim,
                        const nabla_rope_options *options) {
  static const nabla_rope_options defaults = {.struct_size = sizeof defaults};
  nabla_array *list[2] = {x, positions};
  const bool is_counted = nabla_is_none(positions);
  NABLA_MAKE_LIST(m, rope, is_counted ? 1 : 2, list);
  int64_t at;
  if (!m->scope || !nabla_make_dim(m, dim, x->dense.rank, &at)) return NULL;
  if (!options) options = &defaults;
  if (options->struct_size != sizeof *options)
    return NABLA_MAKE_FAIL(m, "the options are of another version");
  if (!is_counted && nabla_dtype_is_float(nabla_make_dtype(positions)))
    return NABLA_MAKE_FAIL(m, "positions are integers");
  list[0] = nabla_make_settle(m, x, NABLA_DTYPES_floats);
  if (!is_counted && nabla_make_dtype(positions) != NABLA_DTYPE_I32)
    list[1] = nabla_make_convert(m, positions, NABLA_DTYPE_I64);
  const int64_t pairs = options->halves ? 1 : 0;
  const nabla_recorded_attribute attributes[4] = {
      nabla_make_i64("dim", &at), nabla_make_i32("pairs", &pairs),
      nabla_make_f64("theta", options->theta == 0 ? 10000 : options->theta),
      nabla_make_i64("offset", &options->offset)};
  return nabla_make_op(m, "nabla.rope", is_counted ? 1 : 2, list, 4, attributes,
                       NULL);
}

/* Converts queries, keys and values to dtypes that attention takes: keys and
 * values have one, that of the queries or a narrower one. */
static void convert_heads(const nabla_making *m, nabla_array **list) {
  const nabla_dtype all = nabla_make_promote(3, list, NABLA_DTYPES_floats);
  const nabla_dtype cache =
      nabla_make_promote(2, list + 1, NABLA_DTYPES_floats);
  const bool is_narrow = nabla_make_dtype(list[0]) == all;
  list[0] = nabla_make_convert(m, list[0], all);
  for (uint32_t i = 1; i < 3; i++)
    list[i] = nabla_make_convert(m, list[i], is_narrow ? cache : all);
}

nabla_array *nabla_attention(nabla_array *q, nabla_array *k, nabla_array *v,
                             nabla_array *mask, nabla_array *keys, double scale,
                             int causal) {
  nabla_array *list[5] = {q, k, v};
  const bool has_mask = !nabla_is_none(mask), has_keys = !nabla_is_none(keys);
  uint32_t count = 3;
  if (has_mask) list[count++] = mask;
  if (has_keys) list[count++] = keys;
  NABLA_MAKE_LIST(m, attention, count, list);
  if (!m->scope) return NULL;
  if (has_keys && nabla_dtype_is_float(nabla_make_dtype(keys)))
    return NABLA_MAKE_FAIL(m, "the number of keys is an integer");
  nabla_array *operands[5] = {q, k, v, list[3], list[4]};
  convert_heads(m, operands);
  if (has_mask && nabla_make_dtype(mask) != NABLA_DTYPE_BOOL && operands[0])
    operands[3] = nabla_make_convert(m, mask, nabla_make_dtype(operands[0]));
  if (has_keys && nabla_make_dtype(keys) != NABLA_DTYPE_I32)
    operands[count - 1] = nabla_make_convert(m, keys, NABLA_DTYPE_I64);
  const int64_t segments[5] = {1, 1, 1, has_mask, has_keys};
  nabla_recorded_attribute attributes[3] = {{.key = "operandSegmentSizes",
                                             .kind = NABLA_ATTRIBUTE_SIZES,
                                             .count = 5,
                                             .values = segments}};
  uint32_t listed = 1;
  if (scale != 0) attributes[listed++] = nabla_make_f64("scale", scale);
  if (causal) attributes[listed++] = nabla_make_unit("causal");
  return nabla_make_op(m, "nabla.attention", count, operands, listed,
                       attributes, NULL);
}

/* ---- losses ---- */

nabla_array *nabla_mse(nabla_array *x, nabla_array *y) {
  NABLA_MAKE(m, mse, x, y);
  nabla_array *error = nabla_make_elements(m, NABLA_DTYPES_floats, "nabla.sub",
                                           2, m_arrays, NULL);
  return nabla_make_reduce(m, NABLA_REDUCE_MEAN,
                           nabla_make_binary(m, "nabla.mul", error, error), 0,
                           NULL, 0);
}

/* Whether labels have the shape of the logits without their last dimension, or
 * with it. */
static bool fits(const nabla_dense *logits, const nabla_dense *labels,
                 bool is_class) {
  if (!logits->rank || labels->dtype == NABLA_DTYPE_BOOL ||
      labels->rank != logits->rank - (is_class ? 1 : 0))
    return false;
  for (uint32_t i = 0; i < labels->rank; i++)
    if (labels->shape[i] != logits->shape[i]) return false;
  return true;
}

/* The logarithms that count: of the class that `labels` has, and 0 elsewhere.
 */
static nabla_array *pick(const nabla_making *m, nabla_array *log,
                         nabla_array *labels) {
  nabla_array_type type = {.dtype = nabla_make_dtype(labels), .rank = 1};
  type.shape[0] = log->dense.shape[log->dense.rank - 1];
  nabla_array *column = nabla_make_unsqueeze(m, labels, labels->dense.rank);
  nabla_array *is_class =
      nabla_make_compare(m, 0, column, nabla_make_iota(m, 0, &type));
  return nabla_make_select(m, is_class, log,
                           nabla_make_full(m, 0, &log->dense));
}

nabla_array *nabla_cross_entropy(nabla_array *logits, nabla_array *labels) {
  NABLA_MAKE(m, cross_entropy, logits, labels);
  const int64_t last = -1;
  if (!m->scope) return NULL;
  const bool is_class = !nabla_dtype_is_float(nabla_make_dtype(labels));
  if (!fits(&logits->dense, &labels->dense, is_class))
    return NABLA_MAKE_FAIL(
        m, "labels are numbers of classes, or probabilities of all");
  nabla_array *log = nabla_make_along(m, "nabla.log_softmax",
                                      NABLA_DTYPES_floats, logits, last, 0);
  if (!log) return NULL;
  nabla_array *counted = is_class
                             ? pick(m, log, labels)
                             : nabla_make_binary(m, "nabla.mul", log, labels);
  nabla_array *each = nabla_make_unary(
      m, "nabla.neg",
      nabla_make_reduce(m, NABLA_REDUCE_SUM, counted, 1, &last, 0));
  return nabla_make_reduce(m, NABLA_REDUCE_MEAN, each, 0, NULL, 0);
}
