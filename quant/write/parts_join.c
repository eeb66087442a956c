/* Copies the tensors of parts into the output, and compares them with it. */
#include <inttypes.h>
#include <string.h>

#include "lib/base/memory.h"
#include "quant/formats/safetensors_internal.h"
#include "quant/write/parts.h"
#include "quant/write/write_internal.h"

enum { ROOM = 1 << 20 };

typedef struct joining {
  const nabla_file_job *job;
  uint8_t *room;
  uint8_t *seen; /* of each tensor of the output: 1 when a part had it */
  size_t count, left;
} joining;

static const nabla_allocator *allocator_of(const nabla_write_task *task) {
  return task->environment ? task->environment->allocator : NULL;
}

nabla_status nabla_part_fail(const char *path, nabla_status code,
                             const char *what, nabla_diag *diag) {
  const nabla_status status = nabla_fail(diag, code, "%s", what);
  nabla_diag_set_file(diag, path);
  nabla_diag_set_next(diag, NABLA_PART_AGAIN);
  return status;
}

static nabla_status report(const nabla_write_task *task, const char *tensor,
                           uint64_t at, nabla_diag *diag) {
  const nabla_progress progress = {
      .phase = "join", .tensor = tensor, .bytes_done = at};
  return nabla_run_report(task->environment, &progress, diag);
}

static nabla_status copy_entry(joining *j, const nabla_tensor_file *from,
                               size_t index, nabla_diag *diag) {
  const nabla_file_job *job = j->job;
  const nabla_entry entry = nabla_tensor_file_entry(from, index);
  uint64_t bytes;
  const size_t id = nabla_safetensors_writer_find(job->writer, entry.dtype,
                                                  entry.name, &bytes);
  if (id == SIZE_MAX || bytes != entry.bytes || j->seen[id]) {
    const nabla_status status = nabla_part_fail(
        nabla_tensor_file_borrow_path(from), NABLA_CORRUPT,
        id == SIZE_MAX || bytes != entry.bytes
            ? "the part has a tensor that the output does not have so"
            : "the part has a tensor that another part has",
        diag);
    nabla_diag_set_tensor(diag, entry.name, entry.name_length);
    return status;
  }
  j->seen[id] = 1;
  j->left--;
  for (uint64_t at = 0; at < bytes; at += ROOM) {
    const size_t piece = bytes - at < ROOM ? (size_t)(bytes - at) : ROOM;
    NABLA_TRY(report(job->task, entry.name, at, diag));
    NABLA_TRY(nabla_tensor_file_read(from, index, at, j->room, piece, diag));
    NABLA_TRY(nabla_safetensors_writer_write(job->writer, id, at, j->room,
                                             piece, diag));
  }
  return NABLA_OK;
}

static nabla_status copy_all(joining *j, nabla_diag *diag) {
  const nabla_write_task *task = j->job->task;
  for (uint32_t i = 0; i < task->joined_count; i++) {
    const nabla_tensor_file *from = task->joined[i];
    for (size_t k = 0; k < nabla_tensor_file_count(from); k++)
      NABLA_TRY(copy_entry(j, from, k, diag));
  }
  if (!j->left) return NABLA_OK;
  const nabla_status status = nabla_fail(
      diag, NABLA_CORRUPT, "no part has %zu of the %zu tensors of the output",
      j->left, j->count);
  nabla_diag_set_next(diag, "remove the parts and make all again");
  return status;
}

nabla_status nabla_part_copy(const nabla_file_job *job, nabla_diag *diag) {
  const nabla_allocator *allocator = allocator_of(job->task);
  const size_t count = nabla_safetensors_writer_count(job->writer);
  joining j = {.job = job, .count = count, .left = count};
  void *block;
  NABLA_TRY(nabla_alloc(allocator, ROOM + count, 1, &block, diag));
  j.room = block;
  j.seen = j.room + ROOM;
  memset(j.seen, 0, count);
  const nabla_status status = copy_all(&j, diag);
  nabla_free(allocator, block, ROOM + count, 1);
  return status;
}

/* ---- comparing ------------------------------------------------------------
 */

static nabla_status compare(const nabla_write_task *task,
                            const nabla_tensor_file *const file[2],
                            const size_t index[2], uint8_t *room, int *out,
                            nabla_diag *diag) {
  enum { HALF = ROOM / 2 };
  const nabla_entry entry = nabla_tensor_file_entry(file[0], index[0]);
  const nabla_entry other = nabla_tensor_file_entry(file[1], index[1]);
  *out = entry.dtype == other.dtype && entry.rank == other.rank &&
         entry.bytes == other.bytes;
  for (uint32_t d = 0; d < entry.rank && *out; d++)
    *out = entry.shape[d] == other.shape[d];
  for (uint64_t at = 0; at < entry.bytes && *out; at += HALF) {
    const uint64_t rest = entry.bytes - at;
    const size_t piece = rest < HALF ? (size_t)rest : HALF;
    NABLA_TRY(report(task, entry.name, at, diag));
    for (int i = 0; i < 2; i++)
      NABLA_TRY(nabla_tensor_file_read(file[i], index[i], at,
                                       room + (size_t)i * HALF, piece, diag));
    *out = !memcmp(room, room + HALF, piece);
  }
  return NABLA_OK;
}

nabla_status nabla_part_is_in(const nabla_write_task *task,
                              const nabla_tensor_file *part,
                              const nabla_tensor_file *output, int *out,
                              nabla_diag *diag) {
  const nabla_tensor_file *const files[] = {part, output};
  void *room;
  NABLA_TRY(nabla_alloc(allocator_of(task), ROOM, 1, &room, diag));
  nabla_status status = NABLA_OK;
  *out = 1;
  for (size_t i = 0; i < nabla_tensor_file_count(part) && *out && !status;
       i++) {
    const nabla_entry entry = nabla_tensor_file_entry(part, i);
    const size_t index[] = {
        i, nabla_tensor_file_find(output, entry.name, entry.name_length)};
    *out = index[1] != SIZE_MAX;
    if (*out) status = compare(task, files, index, room, out, diag);
  }
  nabla_free(allocator_of(task), room, ROOM, 1);
  return status;
}
