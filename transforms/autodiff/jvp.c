/* nabla-jvp: makes the function of tangents of a function, in forward mode. */
#include <stdlib.h>

#include "transforms/autodiff/calls.h"
#include "transforms/passes.h"

MlirLogicalResult nabla_run_jvp(MlirOperation module,
                                const nablaPassValue *values, void *prepared) {
  (void)prepared;
  nabla_derived d = {.module = module};
  MlirOperation function = nabla_derive_find(module, values[0].string);
  if (mlirOperationIsNull(function)) return mlirLogicalResultFailure();
  nabla_derive how = {.function = function, .suffix = "jvp", .exact = true};
  nabla_wrt *wrt = nabla_wrt_read(function, values[1].string, &how.count);
  how.wrt = wrt;
  const bool good = wrt && nabla_rules_check(&d) &&
                    !mlirOperationIsNull(nabla_derive_jvp(&d, &how));
  free(wrt);
  nabla_derived_deinit(&d);
  return good ? mlirLogicalResultSuccess() : mlirLogicalResultFailure();
}
