/* The importance of columns, as one weight for each value of a tile. */
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "lib/base/bytes.h"
#include "quant/formats/checkpoint_internal.h"
#include "quant/plan/plan.h"

static nabla_status check(const nabla_plan *plan, const nabla_tensor *tensor,
                          uint64_t column, float *values, uint64_t count,
                          nabla_diag *diag) {
  for (uint64_t i = 0; i < count; i++) {
    values[i] = nabla_f32_of_bits(nabla_load_le32(&values[i]));
    if (values[i] >= 0 && values[i] <= FLT_MAX) continue;
    nabla_status status =
        nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                   "the importance at index %" PRIu64 " is %g", column + i,
                   (double)values[i]);
    nabla_diag_set_next(diag, "importances are finite and not negative");
    return nabla_checkpoint_blame(plan->importance, tensor, status, diag);
  }
  return NABLA_OK;
}

nabla_status nabla_importance_read(const nabla_plan *plan, uint64_t tensor,
                                   uint64_t first, uint64_t count,
                                   nabla_scratch *scratch, const float **out,
                                   nabla_diag *diag) {
  const nabla_decision *decision = &plan->decisions[tensor];
  *out = NULL;
  if (!plan->importance || !decision->search ||
      decision->importance == SIZE_MAX)
    return NABLA_OK;
  const nabla_tensor source =
      nabla_checkpoint_tensor(plan->importance, decision->importance);
  /* codes take an eighth of raw, at most */
  float *weights = (float *)(void *)(scratch->raw + scratch->tile * 4);
  uint64_t done = 0;
  const uint64_t columns = source.elements;
  /* to the end of the row, then one whole row; the rest repeats it */
  for (int i = 0; i < 2 && done < count; i++) {
    const uint64_t column = (first + done) % columns;
    uint64_t piece = columns - column;
    if (piece > count - done) piece = count - done;
    NABLA_TRY(nabla_tensor_file_read(
        nabla_checkpoint_borrow_shard(plan->importance, source.data.shard),
        source.data.entry, column * sizeof(float), weights + done,
        (size_t)piece * sizeof(float), diag));
    NABLA_TRY(check(plan, &source, column, weights + done, piece, diag));
    done += piece;
  }
  while (done < count) { /* done is a row at least */
    const uint64_t piece = count - done < columns ? count - done : columns;
    memcpy(weights + done, weights + done - columns,
           (size_t)piece * sizeof(float));
    done += piece;
  }
  *out = weights;
  return NABLA_OK;
}
