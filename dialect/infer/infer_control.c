/* Result types of operations that order others; see infer.h. */
#include "dialect/infer/infer.h"

/* Those of all operands but the last. */
MlirLogicalResult infer_barrier(const nablaInference *in, MlirType types[],
                                intptr_t *count) {
  if (in->operandCount < 2 || in->operandCount > NABLA_MAX_RESULTS + 1)
    return NABLA_INFER_ERROR(
        in, "has 1 to %d values, and behind them the one that they wait for",
        NABLA_MAX_RESULTS);
  *count = in->operandCount - 1;
  for (intptr_t i = 0; i < *count; i++) types[i] = nabla_infer_operand(in, i);
  return mlirLogicalResultSuccess();
}
