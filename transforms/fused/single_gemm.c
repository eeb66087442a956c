/* See single_gemm.h. */
#include "transforms/fused/single_gemm.h"

#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <string.h>

#include "transforms/ir/ir.h"

#define MARK "nabla.products"

/* The block of a function that has one, or null. */
static MlirBlock only_block(MlirOperation function) {
  MlirRegion region = mlirOperationGetRegion(function, 0);
  MlirBlock block = mlirRegionGetFirstBlock(region);
  if (!mlirBlockIsNull(block) &&
      !mlirBlockIsNull(mlirBlockGetNextInRegion(block)))
    block = (MlirBlock){NULL};
  return block;
}

/* What may stand beside a product: nothing with a body, which could hold
 * another one, and no call. */
static bool is_beside(MlirOperation op) {
  return !mlirOperationGetNumRegions(op) && !nabla_is(op, "func.call") &&
         !nabla_is(op, "nabla.fused_dot");
}

static bool is_product(MlirOperation function) {
  MlirBlock block = only_block(function);
  if (mlirBlockIsNull(block)) return false;
  MlirOperation end = mlirBlockGetTerminator(block);
  if (mlirOperationIsNull(end) || mlirOperationGetNumOperands(end) != 1)
    return false;
  MlirOperation product = nabla_defining_op(mlirOperationGetOperand(end, 0));
  if (mlirOperationIsNull(product) || !nabla_is(product, "nabla.fused_dot") ||
      mlirShapedTypeGetRank(nabla_result_type(product, 0)) != 2)
    return false;
  MlirOperation op = mlirBlockGetFirstOperation(block);
  for (; !mlirOperationIsNull(op); op = mlirOperationGetNextInBlock(op))
    if (!mlirOperationEqual(op, product) && !is_beside(op)) return false;
  return true;
}

static MlirAttribute append(MlirContext context, MlirAttribute list,
                            MlirAttribute name) {
  nabla_text text = {0};
  intptr_t count = mlirArrayAttrGetNumElements(list);
  nabla_text_add(&text, "[");
  for (intptr_t i = 0; i < count; i++) {
    nabla_text_add_attribute(&text, mlirArrayAttrGetElement(list, i));
    nabla_text_add(&text, ", ");
  }
  nabla_text_add_attribute(&text, name);
  nabla_text_add(&text, "]");
  if (!text.failed)
    list = mlirAttributeParseGet(context,
                                 mlirStringRefCreate(text.data, text.size));
  nabla_text_deinit(&text);
  return list;
}

void nabla_single_gemm_mark(MlirOperation module) {
  MlirContext context = nabla_op_context(module);
  MlirAttribute list = mlirArrayAttrGet(context, 0, NULL);
  MlirOperation op = mlirBlockGetFirstOperation(
      mlirRegionGetFirstBlock(mlirOperationGetRegion(module, 0)));
  for (; !mlirOperationIsNull(op); op = mlirOperationGetNextInBlock(op))
    if (nabla_is(op, "func.func") && is_product(op))
      list = append(context, list,
                    mlirOperationGetAttributeByName(op, nabla_ref("sym_name")));
  if (mlirArrayAttrGetNumElements(list))
    mlirOperationSetAttributeByName(module, nabla_ref(MARK), list);
}

bool nabla_single_gemm_has(MlirOperation module, const char *function) {
  MlirAttribute list = mlirOperationGetAttributeByName(module, nabla_ref(MARK));
  if (mlirAttributeIsNull(list) || !mlirAttributeIsAArray(list)) return false;
  for (intptr_t i = 0; i < mlirArrayAttrGetNumElements(list); i++) {
    MlirAttribute name = mlirArrayAttrGetElement(list, i);
    if (mlirAttributeIsAString(name) &&
        mlirStringRefEqual(mlirStringAttrGetValue(name), nabla_ref(function)))
      return true;
  }
  return false;
}
