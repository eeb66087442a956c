/* Finishing a cluster: costs, rows and columns, passes; see cluster.h. */
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>

#include "transforms/cluster/cluster.h"

static bool integer_dtype(MlirType element, nabla_dtype *out) {
  static const struct {
    unsigned width;
    bool is_unsigned;
    nabla_dtype dtype;
  } rows[] = {{1, false, NABLA_DTYPE_BOOL},
              {8, false, NABLA_DTYPE_I8},
              {8, true, NABLA_DTYPE_U8},
              {32, false, NABLA_DTYPE_I32},
              {64, false, NABLA_DTYPE_I64}};
  if (mlirIntegerTypeIsSigned(element)) return false;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    if (rows[i].width != mlirIntegerTypeGetWidth(element) ||
        rows[i].is_unsigned != mlirIntegerTypeIsUnsigned(element))
      continue;
    *out = rows[i].dtype;
    return true;
  }
  return false;
}

bool nabla_cluster_dtype(MlirType tensor, nabla_dtype *out) {
  if (!mlirTypeIsARankedTensor(tensor) ||
      !mlirAttributeIsNull(mlirRankedTensorTypeGetEncoding(tensor)))
    return false;
  const MlirType element = mlirShapedTypeGetElementType(tensor);
  if (mlirTypeIsAF32(element))
    *out = NABLA_DTYPE_F32;
  else if (mlirTypeIsAF16(element))
    *out = NABLA_DTYPE_F16;
  else if (mlirTypeIsABF16(element))
    *out = NABLA_DTYPE_BF16;
  else if (mlirTypeIsAF64(element))
    *out = NABLA_DTYPE_F64;
  else
    return mlirTypeIsAInteger(element) && integer_dtype(element, out);
  return true;
}

nabla_cluster_types nabla_cluster_types_of(nabla_dtype dtype) {
  if (dtype == NABLA_DTYPE_BOOL) return NABLA_CLUSTER_TRUTHS;
  if (dtype == NABLA_DTYPE_F64) return NABLA_CLUSTER_F64;
  return nabla_cluster_is_f32(dtype) ? NABLA_CLUSTER_F32
                                     : NABLA_CLUSTER_INTEGERS;
}

bool nabla_cluster_is_f32(nabla_dtype dtype) {
  return dtype == NABLA_DTYPE_F32 || dtype == NABLA_DTYPE_F16 ||
         dtype == NABLA_DTYPE_BF16;
}

int nabla_cluster_cost(const nabla_cluster_node *node) {
  if (node->kind == NABLA_CLUSTER_REDUCE)
    return nabla_cluster_reduction_cost(node->reduction);
  return node->kind == NABLA_CLUSTER_ELEMENT ? node->element->cost : 0;
}

bool nabla_cluster_reduces(const nabla_cluster *c) {
  for (int i = 0; i < c->node_count; i++)
    if (c->nodes[i].kind == NABLA_CLUSTER_REDUCE) return true;
  return false;
}

static bool is_repeated(const nabla_cluster *c, const nabla_cluster_input *in,
                        int split) {
  for (int d = split; d < c->rank; d++)
    if (in->map[d] >= 0 && c->dims[d] != 1) return false;
  return true;
}

/* From the last dimension on, that of the tensor and of the space alike. */
static bool is_consecutive(const nabla_cluster *c,
                           const nabla_cluster_input *in, int split) {
  const MlirType type = mlirValueGetType(in->value);
  int at = (int)mlirShapedTypeGetRank(type) - 1;
  for (int d = c->rank - 1; d >= split; d--) {
    if (c->dims[d] == 1) continue;
    while (at >= 0 && mlirShapedTypeGetDimSize(type, at) == 1) at--;
    if (in->map[d] < 0 || in->map[d] != at) return false;
    at--;
  }
  return true;
}

bool nabla_cluster_splits(const nabla_cluster *c, int split) {
  for (int i = 0; i < c->node_count; i++)
    if (c->nodes[i].kind == NABLA_CLUSTER_PLACE &&
        c->nodes[i].attribute >= split && split != c->rank - 1)
      return false;
  for (int i = 0; i < c->input_count; i++)
    if (!is_repeated(c, &c->inputs[i], split) &&
        !is_consecutive(c, &c->inputs[i], split))
      return false;
  return true;
}

static bool is_uniform(const nabla_cluster *c, const nabla_cluster_node *n) {
  if (n->kind == NABLA_CLUSTER_PLACE) return n->attribute < c->split;
  if (n->kind == NABLA_CLUSTER_INPUT)
    return is_repeated(c, &c->inputs[n->input], c->split);
  if (n->kind != NABLA_CLUSTER_ELEMENT) return true;
  for (int i = 0; i < n->operand_count; i++)
    if (!c->nodes[n->operands[i]].is_uniform) return false;
  return true;
}

bool nabla_cluster_finish(nabla_cluster *c) {
  for (int s = 0; c->split < 0 && s < c->rank; s++)
    if (nabla_cluster_splits(c, s)) c->split = s;
  if (c->split < 0 || c->split >= c->rank) return false;
  c->passes = 0;
  for (int i = 0; i < c->node_count; i++) {
    nabla_cluster_node *n = &c->nodes[i];
    n->is_uniform = is_uniform(c, n);
    n->level = 0;
    for (int j = 0; j < n->operand_count; j++)
      if (c->nodes[n->operands[j]].level > n->level)
        n->level = c->nodes[n->operands[j]].level;
    if (n->kind != NABLA_CLUSTER_REDUCE) continue;
    n->level++;
    if (n->level > c->passes) c->passes = n->level;
  }
  for (int i = 0; i < c->output_count; i++) {
    const nabla_cluster_node *n = &c->nodes[c->outputs[i].node];
    if (n->shape == NABLA_CLUSTER_FULL && n->level >= c->passes)
      c->passes = n->level + 1;
  }
  return true;
}
