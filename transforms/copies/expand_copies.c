/* nabla-expand-copies: a copy between buffers of which one is strided becomes a
 * call of a kernel, or a loop where it is small. Upstream lowers it to a call
 * of a runtime library that compiled code does not have; contiguous ones become
 * memcpy and stay. */
#include <mlir-c/AffineMap.h>
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>

#include "transforms/copies/box.h"
#include "transforms/ir/ir.h"
#include "transforms/passes.h"

static bool is_contiguous(MlirType type) {
  return mlirTypeIsAMemRef(type) &&
         mlirAffineMapIsIdentity(mlirMemRefTypeGetAffineMap(type));
}

static bool is_strided_copy(MlirOperation op) {
  return nabla_is(op, "memref.copy") &&
         !(is_contiguous(nabla_operand_type(op, 0)) &&
           is_contiguous(nabla_operand_type(op, 1)));
}

static bool expand(MlirOperation op, void *unused) {
  (void)unused;
  nabla_text text = {0};
  MlirType from = nabla_operand_type(op, 0), to = nabla_operand_type(op, 1);
  MlirValue operands[2] = {mlirOperationGetOperand(op, 0),
                           mlirOperationGetOperand(op, 1)};
  if (nabla_box_copies(from, to)) return nabla_box_replace(op);
  nabla_text_add(&text, "func.func @t(%%a: ");
  nabla_text_add_type(&text, from);
  nabla_text_add(&text, ", %%b: ");
  nabla_text_add_type(&text, to);
  nabla_text_add(&text, ") {\n  linalg.copy ins(%%a : ");
  nabla_text_add_type(&text, from);
  nabla_text_add(&text, ") outs(%%b : ");
  nabla_text_add_type(&text, to);
  nabla_text_add(&text, ")\n  return\n}\n");
  bool done = nabla_template_replace(op, 2, operands, &text);
  nabla_text_deinit(&text);
  return done;
}

MlirLogicalResult nabla_run_expand_copies(MlirOperation op,
                                          const nablaPassValue *values,
                                          void *prepared) {
  (void)values, (void)prepared;
  return nabla_ops_each(op, is_strided_copy, expand, NULL);
}
