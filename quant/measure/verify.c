/* Verification of a checkpoint: what opening checks, and every scale. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/checked.h"
#include "lib/base/memory.h"
#include "lib/base/require.h"
#include "nabla/measure.h"
#include "quant/formats/checkpoint_internal.h"
#include "quant/measure/verify_config.h"
#include "quant/tiles/parallel_tiles.h"
#include "quant/tiles/tensor_reader.h"
#include "quant/tiles/verify_packed.h"

/* Scales, or bytes of codes, read at once. */
enum { PIECE = 1 << 16 };

/* Dense tensors between two reports of progress. */
enum { REPORT = 256 };

typedef struct verifier {
  const nabla_environment *environment;
  void (*problem)(void *self, const nabla_diag *diag);
  void *self;
  nabla_verify_summary summary;
  nabla_status first;     /* of the first problem */
  nabla_diag *first_diag; /* may be NULL          */
  nabla_scratch scratch;  /* of PIECE             */
} verifier;

/* Records a problem; verification goes on. `status` is the diag's. */
static void note(verifier *v, nabla_status status, const nabla_diag *diag) {
  v->summary.problems++;
  v->summary.unsupported += status == NABLA_UNSUPPORTED;
  if (v->problem && v->summary.problems <= NABLA_VERIFY_MAX_PROBLEMS)
    v->problem(v->self, diag);
  if (v->first) return;
  v->first = status;
  if (v->first_diag) *v->first_diag = *diag;
}

/* Notes a problem that the check of a packed tensor has found, if any. */
static void note_found(verifier *v, nabla_diag *found) {
  if (found->code) note(v, found->code, found);
}

static nabla_status check_tensor(verifier *v,
                                 const nabla_checkpoint *checkpoint,
                                 size_t index, nabla_diag *diag) {
  const nabla_tensor tensor = nabla_checkpoint_tensor(checkpoint, index);
  const nabla_progress progress = {.phase = "verify",
                                   .tensors_done = index,
                                   .tensors_total = v->summary.tensors,
                                   .tensor = tensor.name};
  /* those that are dense take no time */
  if (tensor.layout != NABLA_LAYOUT_DENSE || index % REPORT == 0)
    NABLA_TRY(nabla_run_report(v->environment, &progress, diag));
  if (tensor.layout == NABLA_LAYOUT_DENSE) return NABLA_OK;
  v->summary.packed++;
  if (!tensor.unsupported) {
    nabla_values values;
    NABLA_TRY(
        nabla_values_open(checkpoint, index, NABLA_ISA_BEST, &values, diag));
    nabla_diag scales = NABLA_DIAG_INIT, codes = NABLA_DIAG_INIT;
    NABLA_TRY(nabla_packed_check_scales(&values, &v->scratch, &scales, diag));
    note_found(v, &scales);
    NABLA_TRY(nabla_packed_check_codes(&values, &v->scratch, &codes, diag));
    note_found(v, &codes);
    return NABLA_OK;
  }
  nabla_diag found = NABLA_DIAG_INIT;
  const nabla_status status = nabla_fail(
      &found, NABLA_UNSUPPORTED, "cannot be decoded: %s", tensor.unsupported);
  note(v, nabla_checkpoint_blame(checkpoint, &tensor, status, &found), &found);
  return NABLA_OK;
}

static uint64_t data_bytes(const nabla_checkpoint *checkpoint) {
  uint64_t sum = 0;
  for (uint32_t s = 0; s < nabla_checkpoint_shard_count(checkpoint); s++) {
    const nabla_tensor_file *file =
        nabla_checkpoint_borrow_shard(checkpoint, s);
    for (size_t i = 0; i < nabla_tensor_file_count(file); i++)
      if (!nabla_add_u64(sum, nabla_tensor_file_entry(file, i).bytes, &sum))
        return UINT64_MAX;
  }
  return sum;
}

static void check_total(verifier *v, const nabla_checkpoint *checkpoint) {
  uint64_t declared;
  if (!nabla_checkpoint_index_total(checkpoint, &declared)) return;
  const uint64_t bytes = data_bytes(checkpoint);
  if (declared == bytes) return;
  nabla_diag found = NABLA_DIAG_INIT;
  const nabla_status status = nabla_fail(&found, NABLA_CORRUPT,
                                         "the index's total_size is %" PRIu64
                                         ", its tensors have %" PRIu64 " bytes",
                                         declared, bytes);
  nabla_diag_set_file(&found, nabla_checkpoint_borrow_path(checkpoint));
  note(v, status, &found);
}

/* A config.json that is wrong is a problem; one that cannot be read stops. */
static nabla_status check_config(verifier *v,
                                 const nabla_checkpoint *checkpoint,
                                 nabla_diag *diag) {
  nabla_diag found = NABLA_DIAG_INIT;
  const nabla_status status = nabla_verify_config(checkpoint, v->environment,
                                                  v->summary.reader, &found);
  if (status == NABLA_CORRUPT || status == NABLA_TOO_LARGE) {
    note(v, status, &found);
    return NABLA_OK;
  }
  if (status && diag) *diag = found;
  return status;
}

static nabla_status check_all(verifier *v, const nabla_checkpoint *checkpoint,
                              nabla_diag *diag) {
  const size_t count = nabla_checkpoint_count(checkpoint);
  v->summary.files = nabla_checkpoint_shard_count(checkpoint);
  v->summary.tensors = count;
  for (uint32_t s = 0; s < v->summary.files; s++)
    v->summary.bytes +=
        nabla_tensor_file_size(nabla_checkpoint_borrow_shard(checkpoint, s));
  if (!v->summary.problems) { /* both judge the checkpoint as a whole */
    check_total(v, checkpoint);
    NABLA_TRY(check_config(v, checkpoint, diag));
  }
  for (size_t i = 0; i < count; i++)
    NABLA_TRY(check_tensor(v, checkpoint, i, diag));
  return NABLA_OK;
}

static void note_opening(void *self, nabla_status status,
                         const nabla_diag *diag) {
  note(self, status, diag);
}

static nabla_status verify_open(verifier *v, const char *path,
                                nabla_diag *diag) {
  nabla_checkpoint *checkpoint;
  const nabla_problems problems = {note_opening, v};
  nabla_status status = nabla_checkpoint_open_noting(
      path, v->environment, &problems, &checkpoint, diag);
  if (status) return status;
  status = check_all(v, checkpoint, diag);
  nabla_checkpoint_close(checkpoint);
  return status;
}

nabla_status nabla_verify(const char *path,
                          const nabla_environment *environment,
                          void (*problem)(void *self, const nabla_diag *diag),
                          void *self, nabla_verify_summary *out,
                          nabla_diag *diag) {
  NABLA_REQUIRE(path, diag);
  NABLA_REQUIRE(out, diag);
  verifier v = {.environment = environment,
                .problem = problem,
                .self = self,
                .first_diag = diag};
  const nabla_allocator *allocator =
      environment ? environment->allocator : NULL;
  NABLA_TRY(nabla_scratch_create(allocator, PIECE, &v.scratch, diag));
  nabla_diag stop = NABLA_DIAG_INIT;
  nabla_status status = verify_open(&v, path, &stop);
  nabla_scratch_destroy(allocator, &v.scratch);
  if (status && status != NABLA_CANCELLED) note(&v, status, &stop);
  if (status == NABLA_CANCELLED) {
    if (diag) *diag = stop;
    return status;
  }
  *out = v.summary;
  return v.first;
}
