/* Which tensors a part has, and the hash that all parts of a run have. */
#define XXH_INLINE_ALL
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#include "nabla/version.h"
#include "quant/write/parts.h"

void nabla_part_choose(nabla_write_task *task, uint32_t part, uint32_t parts) {
  unsigned __int128 total = 0;
  for (uint32_t s = 0; s < nabla_checkpoint_shard_count(task->checkpoint);
       s++) {
    const nabla_tensor_file *file =
        nabla_checkpoint_borrow_shard(task->checkpoint, s);
    for (size_t i = 0; i < nabla_tensor_file_count(file); i++)
      total += nabla_tensor_file_entry(file, i).bytes;
  }
  task->parts = parts;
  task->part_first = (uint64_t)(total * (part - 1) / parts);
  task->part_end =
      part == parts ? UINT64_MAX : (uint64_t)(total * part / parts);
}

int nabla_part_has(const nabla_write_task *task, uint64_t before,
                   uint64_t bytes) {
  const uint64_t middle = before + bytes / 2;
  return !task->parts ||
         (middle >= task->part_first && middle < task->part_end);
}

static void add_number(XXH3_state_t *hash, uint64_t value) {
  uint8_t bytes[8];
  for (int i = 0; i < 8; i++) bytes[i] = (uint8_t)(value >> 8 * i);
  (void)XXH3_128bits_update(hash, bytes, sizeof bytes);
}

static void add_text(XXH3_state_t *hash, const char *text, size_t size) {
  add_number(hash, size);
  (void)XXH3_128bits_update(hash, text, size);
}

static nabla_status add_file(XXH3_state_t *hash, const nabla_tensor_file *file,
                             nabla_diag *diag) {
  enum { ENDS = 32 };
  add_number(hash, nabla_tensor_file_size(file));
  for (size_t i = 0; i < nabla_tensor_file_metadata_count(file); i++) {
    const char *key, *value;
    nabla_tensor_file_metadata(file, i, &key, &value);
    add_text(hash, key, strlen(key));
    add_text(hash, value, strlen(value));
  }
  for (size_t i = 0; i < nabla_tensor_file_count(file); i++) {
    const nabla_entry entry = nabla_tensor_file_entry(file, i);
    const size_t size = entry.bytes < ENDS ? (size_t)entry.bytes : ENDS;
    char ends[2 * ENDS];
    add_text(hash, entry.name, entry.name_length);
    add_number(hash, (uint64_t)entry.dtype);
    add_number(hash, entry.rank);
    for (uint32_t d = 0; d < entry.rank; d++) add_number(hash, entry.shape[d]);
    if (!size) continue;
    NABLA_TRY(nabla_tensor_file_read(file, i, 0, ends, size, diag));
    NABLA_TRY(nabla_tensor_file_read(file, i, entry.bytes - size, ends + size,
                                     size, diag));
    add_text(hash, ends, 2 * size);
  }
  return NABLA_OK;
}

static nabla_status add_files(XXH3_state_t *hash,
                              const nabla_checkpoint *checkpoint,
                              nabla_diag *diag) {
  const uint32_t count =
      checkpoint ? nabla_checkpoint_shard_count(checkpoint) : 0;
  add_number(hash, count);
  for (uint32_t i = 0; i < count; i++)
    NABLA_TRY(
        add_file(hash, nabla_checkpoint_borrow_shard(checkpoint, i), diag));
  return NABLA_OK;
}

static void add_decision(XXH3_state_t *hash, const nabla_plan *plan, size_t i) {
  const nabla_format *format = nabla_plan_format(plan, i);
  const nabla_encoding *encoding = format->encoding;
  const char *name = encoding ? encoding->name : "";
  add_text(hash, name, strlen(name));
  if (!encoding) return;
  add_number(hash, (uint64_t)format->granularity);
  add_number(hash, format->block);
  add_number(hash, (uint64_t)format->scale);
  add_number(hash, (uint64_t)format->zero_point);
  add_number(hash, format->segment);
  add_number(hash, plan->decisions[i].search);
  add_number(hash, plan->decisions[i].search && plan->importance
                       ? plan->decisions[i].importance
                       : UINT64_MAX);
}

nabla_status nabla_part_hash(const nabla_plan *plan, uint32_t parts,
                             char out[NABLA_PART_HASH_TEXT], nabla_diag *diag) {
  XXH3_state_t hash;
  (void)XXH3_128bits_reset(&hash);
  add_text(&hash, NABLA_VERSION, strlen(NABLA_VERSION));
  add_number(&hash, parts);
  add_number(&hash, (uint64_t)plan->totals.layout);
  for (size_t i = 0; i < plan->count; i++) add_decision(&hash, plan, i);
  NABLA_TRY(add_files(&hash, plan->checkpoint, diag));
  NABLA_TRY(add_files(&hash, plan->importance, diag));
  const XXH128_hash_t found = XXH3_128bits_digest(&hash);
  (void)snprintf(out, NABLA_PART_HASH_TEXT, "%016" PRIx64 "%016" PRIx64,
                 (uint64_t)found.high64, (uint64_t)found.low64);
  return NABLA_OK;
}
