/* Verification of a checkpoint: what opening checks, and every scale. */
#include <inttypes.h>
#include <math.h>

#include "lib/base/bytes.h"
#include "lib/base/checked.h"
#include "lib/base/memory.h"
#include "nabla/measure.h"
#include "quant/formats/checkpoint_internal.h"
#include "quant/run.h"
#include "quant/verify_config.h"

/* Scales read at once. */
enum { PIECE = 1 << 16 };

typedef struct verifier {
  const nabla_environment *environment;
  void (*problem)(void *self, const nabla_diag *diag);
  void *self;
  nabla_verify_summary summary;
  nabla_status first;     /* of the first problem */
  nabla_diag *first_diag; /* may be NULL          */
  float *scales;          /* PIECE                */
} verifier;

/* Records a problem; verification goes on. `status` is the diag's. */
static void note(verifier *v, nabla_status status, const nabla_diag *diag) {
  v->summary.problems++;
  if (v->problem) v->problem(v->self, diag);
  if (v->first) return;
  v->first = status;
  if (v->first_diag) *v->first_diag = *diag;
}

/* What the largest code multiplies its scale by, before LLM.int8 divides. */
static float largest_factor(const nabla_encoding *encoding) {
  return encoding->bits == 4 ? 1 : 127;
}

/* Reads all scales of a tensor; the first that is not finite is noted. */
static nabla_status check_scales(verifier *v,
                                 const nabla_checkpoint *checkpoint,
                                 const nabla_tensor *tensor, nabla_diag *diag) {
  const nabla_safetensors *file =
      nabla_checkpoint_borrow_shard(checkpoint, tensor->scales.shard);
  const nabla_entry entry = nabla_safetensors_entry(file, tensor->scales.entry);
  const float largest = largest_factor(tensor->format.encoding);
  for (uint64_t at = 0; at < entry.elements; at += PIECE) {
    const uint64_t left = entry.elements - at;
    const size_t count = left < PIECE ? (size_t)left : PIECE;
    NABLA_TRY(nabla_safetensors_read(file, tensor->scales.entry,
                                     at * sizeof(float), v->scales,
                                     count * sizeof(float), diag));
    for (size_t i = 0; i < count; i++) {
      const float scale = nabla_f32_of_bits(nabla_load_le32(&v->scales[i]));
      if (isfinite(scale * largest)) continue;
      nabla_diag found = NABLA_DIAG_INIT;
      nabla_status status =
          nabla_fail(&found, NABLA_NOT_FINITE,
                     "scale %" PRIu64 " of '%.60s' is %s", at + i, entry.name,
                     isfinite(scale) ? "too large to decode" : "not finite");
      nabla_diag_set_offset(&found, entry.offset + (at + i) * sizeof(float));
      nabla_diag_set_next(&found, "quantize the model again from its source");
      note(v, nabla_checkpoint_blame(checkpoint, tensor, status, &found),
           &found);
      return NABLA_OK;
    }
  }
  return NABLA_OK;
}

static nabla_status check_tensor(verifier *v,
                                 const nabla_checkpoint *checkpoint,
                                 size_t index, nabla_diag *diag) {
  const nabla_tensor tensor = nabla_checkpoint_tensor(checkpoint, index);
  if (tensor.layout == NABLA_LAYOUT_DENSE) return NABLA_OK;
  v->summary.packed++;
  if (!tensor.unsupported) return check_scales(v, checkpoint, &tensor, diag);
  nabla_diag found = NABLA_DIAG_INIT;
  const nabla_status status = nabla_fail(
      &found, NABLA_UNSUPPORTED, "cannot be decoded: %s", tensor.unsupported);
  note(v, nabla_checkpoint_blame(checkpoint, &tensor, status, &found), &found);
  return NABLA_OK;
}

static uint64_t data_bytes(const nabla_checkpoint *checkpoint) {
  uint64_t sum = 0;
  for (uint32_t s = 0; s < nabla_checkpoint_shard_count(checkpoint); s++) {
    const nabla_safetensors *file =
        nabla_checkpoint_borrow_shard(checkpoint, s);
    for (size_t i = 0; i < nabla_safetensors_count(file); i++)
      if (!nabla_add_u64(sum, nabla_safetensors_entry(file, i).bytes, &sum))
        return UINT64_MAX;
  }
  return sum;
}

static void check_total(verifier *v, const nabla_checkpoint *checkpoint) {
  uint64_t declared;
  const uint64_t bytes = data_bytes(checkpoint);
  if (!nabla_checkpoint_index_total(checkpoint, &declared) || declared == bytes)
    return;
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
  const nabla_status status =
      nabla_verify_config(checkpoint, v->environment, &found);
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
    v->summary.bytes += nabla_safetensors_file_size(
        nabla_checkpoint_borrow_shard(checkpoint, s));
  check_total(v, checkpoint);
  NABLA_TRY(check_config(v, checkpoint, diag));
  for (size_t i = 0; i < count; i++) {
    const nabla_tensor tensor = nabla_checkpoint_tensor(checkpoint, i);
    const nabla_progress progress = {.phase = "verify",
                                     .tensors_done = i,
                                     .tensors_total = count,
                                     .tensor = tensor.name};
    NABLA_TRY(nabla_run_report(v->environment, &progress, diag));
    NABLA_TRY(check_tensor(v, checkpoint, i, diag));
  }
  return NABLA_OK;
}

static nabla_status verify_open(verifier *v, const char *path,
                                nabla_diag *diag) {
  nabla_checkpoint *checkpoint;
  nabla_status status =
      nabla_checkpoint_open(path, v->environment, &checkpoint, diag);
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
  verifier v = {.environment = environment,
                .problem = problem,
                .self = self,
                .first_diag = diag};
  const nabla_allocator *allocator =
      environment ? environment->allocator : NULL;
  void *block;
  NABLA_TRY(nabla_alloc(allocator, PIECE, sizeof(float), &block, diag));
  v.scales = block;
  nabla_diag stop = NABLA_DIAG_INIT;
  nabla_status status = verify_open(&v, path, &stop);
  nabla_free(allocator, block, PIECE, sizeof(float));
  if (status && status != NABLA_CANCELLED) note(&v, status, &stop);
  if (status == NABLA_CANCELLED) {
    if (diag) *diag = stop;
    return status;
  }
  *out = v.summary;
  return v.first;
}
