/* Verification of a checkpoint: what opening checks, and every scale. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/checked.h"
#include "lib/base/memory.h"
#include "lib/base/require.h"
#include "nabla/measure.h"
#include "quant/codec.h"
#include "quant/formats/checkpoint_internal.h"
#include "quant/kernel.h"
#include "quant/run.h"
#include "quant/values.h"
#include "quant/verify_config.h"

/* Scales, or bytes of codes, read at once. */
enum { PIECE = 1 << 16 };

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

/* Notes a problem with element `index` of a component of `width` bytes each. */
static void note_at(verifier *v, const nabla_checkpoint *checkpoint,
                    const nabla_tensor *tensor, const nabla_entry *entry,
                    uint64_t offset, nabla_diag *found) {
  const nabla_status status = found->code;
  nabla_diag_set_offset(found, entry->offset + offset);
  nabla_diag_set_next(found, "quantize the model again from its source");
  note(v, nabla_checkpoint_blame(checkpoint, tensor, status, found), found);
}

/* What the largest code that is written multiplies its scale by, before
 * LLM.int8 divides. With zero points that depends on them. */
static float largest_factor(const nabla_format *format) {
  if (format->zero_point) return 1;
  if (nabla_encoding_is_int8(format->encoding)) return 127;
  return nabla_format_largest(format);
}

/* Notes the first scale that does not decode, and how many there are. */
static void note_scales(verifier *v, const nabla_values *values,
                        const nabla_entry *entry, uint64_t first, int finite,
                        uint64_t count) {
  nabla_diag found = NABLA_DIAG_INIT;
  char more[64] = "";
  if (count > 1)
    snprintf(more, sizeof more, ", the first of %" PRIu64 " such scales",
             count);
  (void)!nabla_fail(&found, NABLA_NOT_FINITE,
                    "scale %" PRIu64 " of '%.60s' is %s%s", first, entry->name,
                    finite ? "too large to decode" : "not finite", more);
  const size_t width = nabla_scale_info_of(values->tensor.format.scale)->bytes;
  note_at(v, values->checkpoint, &values->tensor, entry, first * width, &found);
}

/* Reads all scales of a tensor and notes those that do not decode. */
static nabla_status check_scales(verifier *v, const nabla_values *values,
                                 nabla_diag *diag) {
  const nabla_tensor *tensor = &values->tensor;
  const nabla_safetensors *file =
      nabla_checkpoint_borrow_shard(values->checkpoint, tensor->scales.shard);
  const nabla_entry entry = nabla_safetensors_entry(file, tensor->scales.entry);
  const float largest = largest_factor(&tensor->format);
  uint64_t bad = 0, first = 0;
  int finite = 0; /* the first bad one */
  for (uint64_t at = 0; at < entry.elements; at += PIECE) {
    const uint64_t left = entry.elements - at;
    const nabla_range range = {.first_scale = at,
                               .scales = left < PIECE ? left : PIECE};
    NABLA_TRY(nabla_values_fetch(values, &range, &v->scratch, diag));
    for (size_t i = 0; i < range.scales; i++) {
      const float scale = v->scratch.scales[i];
      if (isfinite(scale * largest)) continue;
      if (!bad++) first = at + i, finite = isfinite(scale) != 0;
    }
  }
  if (bad) note_scales(v, values, &entry, first, finite, bad);
  return NABLA_OK;
}

/* Which codes an encoding has not (docs/FORMAT.md, E): those that are no
 * number, and 3 of ternary. */
static void list_bad_codes(const nabla_format *format, uint8_t bad[256]) {
  const nabla_encoding *encoding = format->encoding;
  const nabla_recipe *recipe = nabla_recipe_find(encoding);
  const uint32_t per_byte = 8 / encoding->bits;
  const unsigned mask = (1u << encoding->bits) - 1;
  for (unsigned byte = 0; byte < 256; byte++)
    for (uint32_t i = 0; i < per_byte; i++) {
      const unsigned code = byte >> i * encoding->bits & mask;
      if (!isfinite(recipe->value((uint8_t)code)) ||
          (encoding->bits == 2 && code == 3))
        bad[byte] = 1;
    }
}

/* Notes the first byte with a code that is none, and how many there are. */
static void note_codes(verifier *v, const nabla_values *values,
                       const nabla_entry *entry, uint64_t first, uint8_t byte,
                       uint64_t count) {
  nabla_diag found = NABLA_DIAG_INIT;
  char more[64] = "";
  if (count > 1)
    snprintf(more, sizeof more, ", the first of %" PRIu64 " such bytes", count);
  (void)!nabla_fail(&found, NABLA_CORRUPT,
                    "byte %" PRIu64
                    " of its codes, 0x%02x, holds a code that %s has not%s",
                    first, byte, values->tensor.format.encoding->name, more);
  note_at(v, values->checkpoint, &values->tensor, entry, first, &found);
}

static nabla_status check_codes(verifier *v, const nabla_values *values,
                                nabla_diag *diag) {
  const nabla_tensor *tensor = &values->tensor;
  const nabla_safetensors *file =
      nabla_checkpoint_borrow_shard(values->checkpoint, tensor->data.shard);
  const nabla_entry entry = nabla_safetensors_entry(file, tensor->data.entry);
  uint8_t bad[256] = {0}, byte = 0; /* the first bad one */
  uint64_t found = 0, first = 0;
  list_bad_codes(&tensor->format, bad);
  if (!memchr(bad, 1, sizeof bad)) return NABLA_OK;
  for (uint64_t at = 0; at < entry.bytes; at += PIECE) {
    const uint64_t left = entry.bytes - at;
    const size_t count = left < PIECE ? (size_t)left : PIECE;
    NABLA_TRY(nabla_safetensors_read(file, tensor->data.entry, at,
                                     v->scratch.raw, count, diag));
    for (size_t i = 0; i < count; i++) {
      if (!bad[v->scratch.raw[i]]) continue;
      if (!found++) first = at + i, byte = v->scratch.raw[i];
    }
  }
  if (found) note_codes(v, values, &entry, first, byte, found);
  return NABLA_OK;
}

static nabla_status check_tensor(verifier *v,
                                 const nabla_checkpoint *checkpoint,
                                 size_t index, nabla_diag *diag) {
  const nabla_tensor tensor = nabla_checkpoint_tensor(checkpoint, index);
  if (tensor.layout == NABLA_LAYOUT_DENSE) return NABLA_OK;
  v->summary.packed++;
  if (!tensor.unsupported) {
    nabla_values values;
    NABLA_TRY(
        nabla_values_open(checkpoint, index, NABLA_ISA_BEST, &values, diag));
    NABLA_TRY(check_scales(v, &values, diag));
    return check_codes(v, &values, diag);
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
    v->summary.bytes += nabla_safetensors_file_size(
        nabla_checkpoint_borrow_shard(checkpoint, s));
  if (!v->summary.problems) { /* of what could be opened these know nothing */
    check_total(v, checkpoint);
    NABLA_TRY(check_config(v, checkpoint, diag));
  }
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
