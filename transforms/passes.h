/* The passes of passes.def. nablaRegisterEverything registers them.
 * Functions are defined in transforms/dispatch/dispatch.c too. */
#ifndef NABLA_TRANSFORMS_PASSES_H
#define NABLA_TRANSFORMS_PASSES_H

#include "dialect/bridge.h"

#define OPTION(id, name, initial, description)
#define PASS(id, flag, anchor, summary) \
  MlirLogicalResult nabla_run_##id(     \
      MlirOperation op, const nablaPassValue *values, void *prepared);
#include "transforms/passes.def"
#undef PASS
#undef OPTION

/* Rules that dispatch reads before it runs. */
void *nabla_prepare_dispatch(MlirContext context, const nablaPassValue *values);
void nabla_release_dispatch(void *prepared);

#endif
