/* See scale.h; and inference of neg and mul, which stay packed by it. */
#include "dialect/encoding/scale.h"

#include <math.h>
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <string.h>

#include "dialect/infer/infer.h"

int nabla_scales_find(MlirType type) {
  nabla_implicit_component parts[NABLA_MAX_PARTS];
  if (!nablaTypeIsAImplicit(type) ||
      nabla_implicit_encoding(type).kind != NABLA_KIND_PACKED)
    return -1;
  uint32_t count = nabla_implicit_components(type, parts);
  for (uint32_t i = 0; i < count; i++)
    if (!strcmp(parts[i].name, "scales") &&
        !nablaTypeIsAImplicit(parts[i].type) &&
        mlirTypeIsAFloat(parts[i].element))
      return (int)i;
  return -1;
}

bool nabla_scales_negate(MlirType type) { return nabla_scales_find(type) >= 0; }

static bool is_power_of_two(double factor) {
  int exponent;
  return fabs(frexp(factor, &exponent)) == 0.5;
}

bool nabla_scales_multiply(MlirType type, double factor) {
  nabla_implicit_component parts[NABLA_MAX_PARTS];
  int at = nabla_scales_find(type);
  if (at < 0 || !isfinite(factor)) return false;
  nabla_implicit_components(type, parts);
  if (mlirTypeIsAF16(parts[at].element) ||
      mlirTypeIsAF16(nabla_array_element(type)))
    return false; /* little range: subnormals would be rounded elsewhere */
  return is_power_of_two(factor) || (mlirTypeIsAF32(parts[at].element) &&
                                     mlirTypeIsAF32(nabla_array_element(type)));
}

double nabla_splat_number(MlirType type) {
  double value = nabla_implicit_encoding(type).value;
  return mlirFloatAttrGetValueDouble(mlirFloatAttrDoubleGet(
      mlirTypeGetContext(type), nabla_array_element(type), value));
}

MlirLogicalResult infer_neg(const nablaInference *in, MlirType types[],
                            intptr_t *count) {
  MlirType type = nabla_infer_operand(in, 0);
  return nabla_infer_give(
      nabla_scales_negate(type) ? type : nabla_dense_type(type), types, count);
}

/* Is `other` a splat that the scales of `type` take? */
static bool scales(MlirType type, MlirType other) {
  return nablaTypeIsAImplicit(other) &&
         nabla_implicit_encoding(other).kind == NABLA_KIND_SPLAT &&
         nabla_scales_multiply(type, nabla_splat_number(other));
}

MlirLogicalResult infer_mul(const nablaInference *in, MlirType types[],
                            intptr_t *count) {
  if (mlirLogicalResultIsFailure(infer_binary(in, types, count)))
    return mlirLogicalResultFailure();
  for (intptr_t i = 0; i < 2; i++) {
    MlirType type = nabla_infer_operand(in, i);
    if (scales(type, nabla_infer_operand(in, 1 - i))) types[0] = type;
  }
  return mlirLogicalResultSuccess();
}
