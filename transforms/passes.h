/* The passes of passes.def, and their registration. */
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

/* Registers every pass and pipeline, once per process. */
void nabla_passes_register(void);

#endif
