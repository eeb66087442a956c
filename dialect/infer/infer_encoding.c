/* Result types of the ops on encodings: materialize, unpack, implicit_depth.
 * See infer.h. */
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>

#include "dialect/encoding/encoding_nested.h"
#include "dialect/infer/infer.h"

/* `levels` of the innermost levels are decoded, all without it: what is left is
 * implicit, or, at the last, a tensor. */
MlirLogicalResult infer_materialize(const nablaInference *in, MlirType types[],
                                    intptr_t *count) {
  if (!nablaTypeIsAImplicit(nabla_infer_operand(in, 0)))
    return NABLA_INFER_ERROR(in, "operand must be an implicit array");
  nablaImplicit parts = nablaImplicitTypeParts(nabla_infer_operand(in, 0));
  MlirAttribute levels = nabla_attribute(in->attributes, "levels");
  if (mlirAttributeIsNull(levels))
    return nabla_infer_give(nabla_dense_type(nabla_infer_operand(in, 0)), types,
                            count);
  int depth = nabla_encoding_depth(parts.encoding);
  int64_t wanted = mlirIntegerAttrGetValueInt(levels);
  if (wanted < 1 || wanted > depth)
    return NABLA_INFER_ERROR(
        in,
        "levels = %lld is not legal: the array has %d, leave "
        "levels out to decode all",
        (long long)wanted, depth);
  if (wanted == depth)
    return nabla_infer_give(nabla_dense_type(nabla_infer_operand(in, 0)), types,
                            count);
  for (int64_t i = 0; i < wanted; i++)
    parts.encoding = nabla_encoding_peel(parts.encoding);
  return nabla_infer_give(
      nabla_implicit_with_encoding(nabla_infer_operand(in, 0), parts.encoding),
      types, count);
}

/* Levels are of the type: no element is looked at. */
MlirLogicalResult infer_implicit_depth(const nablaInference *in,
                                       MlirType types[], intptr_t *count) {
  return nabla_infer_give(
      nabla_infer_tensor(0, NULL, mlirIntegerTypeGet(in->context, 64)), types,
      count);
}

MlirLogicalResult infer_unpack(const nablaInference *in, MlirType types[],
                               intptr_t *count) {
  nabla_implicit_component parts[NABLA_MAX_PARTS];
  if (!nablaTypeIsAImplicit(nabla_infer_operand(in, 0)))
    return NABLA_INFER_ERROR(in, "operand must be an implicit array");
  *count = nabla_implicit_components(nabla_infer_operand(in, 0), parts);
  for (intptr_t i = 0; i < *count; i++)
    types[i] = nabla_component_type(&parts[i]);
  return mlirLogicalResultSuccess();
}
