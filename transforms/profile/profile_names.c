/* nabla-profile-names: locations that name the operation of the dialect that
 * stands there, which survive decomposition, lowering and bufferization. */
#include <string.h>

#include "transforms/ir/llvm_ops.h"
#include "transforms/passes.h"

static MlirWalkResult name_one(MlirOperation op, void *unused) {
  (void)unused;
  const MlirStringRef name = nabla_name(op);
  if (nabla_text_starts(name, "nabla."))
    mlirOperationSetLocation(op,
                             mlirLocationNameGet(nabla_op_context(op), name,
                                                 mlirOperationGetLocation(op)));
  return MlirWalkResultAdvance;
}

MlirLogicalResult nabla_run_profile_names(MlirOperation module,
                                          const nablaPassValue *values,
                                          void *prepared) {
  (void)prepared;
  if (!strcmp(values[0].string, "on"))
    mlirOperationWalk(module, name_one, NULL, MlirWalkPreOrder);
  return mlirLogicalResultSuccess();
}
