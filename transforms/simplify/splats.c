/* See splats.h: reading and making constants of equal elements. */
#include "transforms/simplify/splats.h"

#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <string.h>

#include "dialect/encoding/scale.h"
#include "transforms/ir/ir.h"
#include "transforms/simplify/simplify_views.h"

int nabla_splats_to_constants(MlirOperation op) {
  int count = 0;
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++) {
    MlirType type = nabla_operand_type(op, i);
    if (!nablaTypeIsAImplicit(type) ||
        nabla_implicit_encoding(type).kind != NABLA_KIND_SPLAT)
      continue;
    nabla_splat splat = {.element = nabla_array_element(type),
                         .is_float = true,
                         .number = nabla_splat_number(type)};
    MlirValue value = nabla_splat_write(op, nabla_dense_type(type), &splat);
    if (mlirValueIsNull(value)) return -1;
    mlirOperationSetOperand(op, i, value);
    count++;
  }
  return count;
}

unsigned nabla_splat_width(MlirType element) {
  return mlirIntegerTypeGetWidth(element);
}

static uint64_t keep_bits(MlirType element, uint64_t bits) {
  unsigned width = nabla_splat_width(element);
  return width < 64 ? bits & (((uint64_t)1 << width) - 1) : bits;
}

/* Returns an element as an attribute, of a type of the dialect. */
static bool read_number(MlirAttribute value, MlirType element,
                        nabla_splat *out) {
  *out = (nabla_splat){.element = element};
  if (mlirAttributeIsAFloat(value)) {
    out->is_float = true;
    out->number = mlirFloatAttrGetValueDouble(value);
    return true;
  }
  if (!mlirAttributeIsAInteger(value) || !mlirTypeIsAInteger(element) ||
      mlirIntegerTypeGetWidth(element) > 64)
    return false;
  uint64_t bits = mlirIntegerTypeIsUnsigned(element)
                      ? mlirIntegerAttrGetValueUInt(value)
                      : (uint64_t)mlirIntegerAttrGetValueInt(value);
  out->integer = keep_bits(element, bits);
  return true;
}

static bool has_elements(MlirType type) {
  for (intptr_t i = 0; i < nabla_array_rank(type); i++)
    if (nabla_array_dim(type, i) == 0) return false;
  return true;
}

bool nabla_splat_read(MlirValue value, nabla_splat *out) {
  MlirOperation op = nabla_defining_op(value);
  MlirType type = mlirValueGetType(value);
  bool full = nabla_is(op, "nabla.full");
  if ((!full && !nabla_is(op, "nabla.constant")) ||
      !nabla_array_is_static(type) || !has_elements(type))
    return false;
  MlirAttribute number =
      mlirOperationGetAttributeByName(op, nabla_ref("value"));
  if (!full) {
    if (!mlirAttributeIsADenseElements(number) ||
        !mlirDenseElementsAttrIsSplat(number))
      return false;
    number = mlirDenseElementsAttrGetSplatValue(number);
  }
  return read_number(number, nabla_array_element(type), out);
}

MlirValue nabla_splat_write(MlirOperation before, MlirType type,
                            const nabla_splat *splat) {
  MlirType element = nabla_array_element(type);
  MlirAttribute number =
      splat->is_float ? mlirFloatAttrDoubleGet(nabla_op_context(before),
                                               element, splat->number)
                      : mlirIntegerAttrGet(element, (int64_t)splat->integer);
  MlirNamedAttribute value =
      nabla_named(nabla_op_context(before), "value",
                  mlirDenseElementsAttrSplatGet(type, number));
  nabla_op_spec spec = {"nabla.constant", 0, NULL, -1, NULL, 1, &value};
  MlirOperation op = nabla_op_create(before, &spec);
  return mlirOperationIsNull(op) ? (MlirValue){NULL}
                                 : mlirOperationGetResult(op, 0);
}

bool nabla_splat_equal(const nabla_splat *a, const nabla_splat *b) {
  if (!mlirTypeEqual(a->element, b->element)) return false;
  return a->is_float ? !memcmp(&a->number, &b->number, sizeof a->number)
                     : a->integer == b->integer;
}
