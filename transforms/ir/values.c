/* See the header. */
#include "transforms/ir/values.h"

#include "transforms/ir/ir.h"

bool nabla_value_is_inside(MlirValue value, MlirOperation op) {
  MlirBlock block = mlirValueIsABlockArgument(value)
                        ? mlirBlockArgumentGetOwner(value)
                        : mlirOperationGetBlock(nabla_defining_op(value));
  MlirOperation at = mlirBlockGetParentOperation(block);
  while (!mlirOperationIsNull(at) && !mlirOperationEqual(at, op))
    at = mlirOperationGetParentOperation(at);
  return !mlirOperationIsNull(at);
}

bool nabla_buffer_root(MlirValue buffer, MlirValue *out) {
  static const char *const views[] = {
      "memref.cast",         "memref.subview",   "memref.collapse_shape",
      "memref.expand_shape", "memref.transpose", "memref.reinterpret_cast"};
  static const char *const roots[] = {"memref.alloc", "memref.alloca",
                                      "memref.get_global", NABLA_CAST};
  for (;;) {
    *out = buffer;
    if (mlirValueIsABlockArgument(buffer)) return true;
    MlirOperation op = nabla_defining_op(buffer);
    bool is_view = false;
    for (size_t i = 0; i < sizeof roots / sizeof *roots; i++)
      if (nabla_is(op, roots[i])) return true;
    for (size_t i = 0; i < sizeof views / sizeof *views; i++)
      is_view = is_view || nabla_is(op, views[i]);
    if (!is_view) return false;
    buffer = mlirOperationGetOperand(op, 0);
  }
}
