/* Result types of gather and scatter; see infer.h. */
#include <mlir-c/BuiltinTypes.h>

#include "dialect/gather.h"
#include "dialect/infer/infer.h"

#define ERROR(in, ...) NABLA_INFER_ERROR(in, __VA_ARGS__)

/* Reads the dimension numbers; array is operand 0, indices are operand 1. */
static bool read_dims(const nablaInference *in, nabla_gather_numbers *g) {
  MlirType array = nabla_infer_operand(in, 0);
  MlirType indices = nabla_infer_operand(in, 1);
  MlirOperation none = {NULL};
  const char *wrong =
      nabla_gather_read(none, in->attributes, nabla_array_rank(array),
                        nabla_array_rank(indices), g);
  if (wrong) {
    ERROR(in, "%s", wrong);
    return false;
  }
  int64_t components = g->vector_dim < g->index_rank
                           ? nabla_array_dim(indices, g->vector_dim)
                           : 1;
  if (!nabla_dims_compatible(components, g->components)) {
    ERROR(in, "places have %lld components, index_map has %d",
          (long long)components, (int)g->components);
    return false;
  }
  for (intptr_t d = 0; d < g->rank; d++) {
    if (g->batch_of[d] < 0) continue;
    int64_t a = nabla_array_dim(array, d);
    int64_t b = nabla_array_dim(indices, g->batch_of[d]);
    if (nabla_dims_compatible(a, b)) continue;
    ERROR(in, "batching dimensions disagree: %lld and %lld", (long long)a,
          (long long)b);
    return false;
  }
  return true;
}

/* Those dimensions of result or updates that the indices give. */
static void batch_shape(const nablaInference *in, const nabla_gather_numbers *g,
                        int64_t *shape) {
  for (intptr_t i = 0; i < g->index_rank; i++)
    if (g->result_of[i] >= 0)
      shape[g->result_of[i]] = nabla_array_dim(nabla_infer_operand(in, 1), i);
}

MlirLogicalResult infer_gather(const nablaInference *in, MlirType types[],
                               intptr_t *count) {
  MlirType array = nabla_infer_operand(in, 0);
  nabla_gather_numbers g;
  int64_t sizes[NABLA_MAX_RANK], shape[NABLA_MAX_RANK];
  if (nablaTypeIsAImplicit(array) &&
      !nabla_encoding_is_stored(nabla_implicit_encoding(array).kind) &&
      nabla_text_equals(in->op, "nabla.fused_gather"))
    return ERROR(in, "the array is packed");
  if (!read_dims(in, &g) ||
      !nabla_infer_list(in, "sizes", g.rank, false, 0, sizes))
    return mlirLogicalResultFailure();
  batch_shape(in, &g, shape);
  for (intptr_t d = 0; d < g.rank; d++) {
    int64_t whole = nabla_array_dim(array, d);
    if (g.offset_of[d] < 0 && sizes[d] != 1)
      return ERROR(in,
                   "sizes of collapsed and batching dimensions are 1, not %lld",
                   (long long)sizes[d]);
    /* without batches there is no box: none is taken of a dimension of 0 */
    bool is_batch = g.batch_of[d] >= 0;
    if (sizes[d] < -1 ||
        (!is_batch && !nabla_is_dynamic(whole) && sizes[d] > whole))
      return ERROR(in, "takes %lld of dimension %d, which has %s",
                   (long long)sizes[d], (int)d,
                   nabla_shape_format(1, &whole).data);
    if (g.offset_of[d] >= 0)
      shape[g.offset_of[d]] = sizes[d] == -1 ? whole : sizes[d];
  }
  return nabla_infer_give(
      nabla_infer_tensor(g.result_rank, shape, nabla_array_element(array)),
      types, count);
}

MlirLogicalResult infer_scatter(const nablaInference *in, MlirType types[],
                                intptr_t *count) {
  MlirType array = nabla_infer_operand(in, 0);
  MlirType updates = nabla_infer_operand(in, 2);
  nabla_gather_numbers g;
  int64_t shape[NABLA_MAX_RANK];
  if (!read_dims(in, &g)) return mlirLogicalResultFailure();
  if (!mlirTypeEqual(nabla_array_element(array), nabla_array_element(updates)))
    return ERROR(in, "array and updates have the same element type");
  if (nabla_array_rank(updates) != g.result_rank)
    return ERROR(in, "updates have %d dimensions, not %d", (int)g.result_rank,
                 (int)nabla_array_rank(updates));
  batch_shape(in, &g, shape);
  for (intptr_t d = 0; d < g.rank; d++) {
    intptr_t to = g.offset_of[d];
    if (to < 0) continue;
    int64_t whole = nabla_array_dim(array, d);
    shape[to] = nabla_array_dim(updates, to);
    if (nabla_is_dynamic(whole) || nabla_is_dynamic(shape[to]) ||
        shape[to] <= whole)
      continue;
    return ERROR(in, "updates %lld of dimension %d, which has %lld",
                 (long long)shape[to], (int)d, (long long)whole);
  }
  for (intptr_t i = 0; i < g.result_rank; i++)
    if (!nabla_dims_compatible(shape[i], nabla_array_dim(updates, i)))
      return ERROR(in, "updates are %s, indices ask for %s",
                   nabla_infer_text(updates).data,
                   nabla_shape_format(g.result_rank, shape).data);
  return nabla_infer_give(nabla_dense_type(array), types, count);
}
