/* Reads model.safetensors.index.json in two streamed passes: the first learns
 * the shards' names, the second checks every pair against the open shards, so
 * that memory is one bit per tensor. */
#include <inttypes.h>
#include <string.h>

#include "lib/base/checked.h"
#include "lib/base/file/file.h"
#include "lib/base/json/json.h"
#include "quant/formats/checkpoint_internal.h"
#include "quant/formats/name_index.h"

/* A shard's name is a plain file name of this many bytes at most. */
enum { MAX_SHARD_NAME = 255 };

typedef struct reader {
  nabla_checkpoint *checkpoint;
  const char *folder;
  nabla_file *file;
  uint64_t at; /* bytes read so far */
  nabla_json *json;
  int checking;       /* second pass */
  nabla_buffer names; /* first pass: NUL-terminated shard names, sorted */
  nabla_buffer order; /* first pass: uint32_t offsets in `names`       */
  uint8_t **seen;     /* second pass: one bit per entry of each shard  */
  int left_out;       /* a shard could not be opened, which was noted   */
  nabla_diag *diag;
} reader;

static nabla_status read_some(void *self, void *out, size_t size,
                              size_t *out_got, nabla_diag *diag) {
  reader *r = self;
  const uint64_t left = nabla_file_size(r->file) - r->at;
  const size_t got = left < size ? (size_t)left : size;
  if (got) NABLA_TRY(nabla_file_read(r->file, r->at, out, got, diag));
  r->at += got;
  *out_got = got;
  return NABLA_OK;
}

static nabla_status corrupt(reader *r, const nabla_json_event *event,
                            const char *tensor, const char *what) {
  nabla_status status = nabla_fail(r->diag, NABLA_CORRUPT, "%s", what);
  nabla_diag_set_offset(r->diag, event->offset);
  if (tensor) nabla_diag_set_tensor(r->diag, tensor, strlen(tensor));
  return status;
}

/* A name that could leave the folder, or hide, is refused: the index is as
 * hostile as the shards. */
static int is_plain_name(const nabla_json_event *event) {
  return event->length > 0 && event->length <= MAX_SHARD_NAME &&
         event->text[0] != '.' && !memchr(event->text, '/', event->length);
}

static const char *name_at(const reader *r, size_t index) {
  const uint32_t *order = (const uint32_t *)(const void *)r->order.data;
  return (const char *)r->names.data + order[index];
}

/* Inserts a shard name into the sorted list, once. */
static nabla_status learn(reader *r, const nabla_json_event *event) {
  size_t low = 0, high = r->order.size / sizeof(uint32_t);
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    const int compared = strcmp(name_at(r, middle), event->text);
    if (!compared) return NABLA_OK;
    if (compared < 0)
      low = middle + 1;
    else
      high = middle;
  }
  if (r->order.size / sizeof(uint32_t) == NABLA_CHECKPOINT_MAX_SHARDS)
    return nabla_fail(r->diag, NABLA_TOO_LARGE,
                      "the index names more than %u shards",
                      NABLA_CHECKPOINT_MAX_SHARDS);
  const uint32_t at = (uint32_t)r->names.size;
  NABLA_TRY(
      nabla_buffer_append(&r->names, event->text, event->length + 1, r->diag));
  NABLA_TRY(nabla_buffer_append(&r->order, NULL, sizeof at, r->diag));
  uint32_t *order = (uint32_t *)(void *)r->order.data;
  const size_t count = r->order.size / sizeof(uint32_t);
  memmove(order + low + 1, order + low, (count - 1 - low) * sizeof at);
  order[low] = at;
  return NABLA_OK;
}

static uint32_t shard_named(const nabla_checkpoint *checkpoint,
                            const char *name) {
  uint32_t low = 0, high = checkpoint->shard_count;
  while (low < high) {
    const uint32_t middle = low + (high - low) / 2;
    const int compared = strcmp(checkpoint->shards[middle].name, name);
    if (!compared) return middle;
    if (compared < 0)
      low = middle + 1;
    else
      high = middle;
  }
  return UINT32_MAX;
}

static nabla_status confirm(reader *r, const char *tensor,
                            const nabla_json_event *file) {
  const nabla_checkpoint *checkpoint = r->checkpoint;
  const uint32_t shard = shard_named(checkpoint, file->text);
  if (shard == UINT32_MAX && r->left_out) return NABLA_OK;
  if (shard == UINT32_MAX)
    return corrupt(r, file, tensor, "the index changed while it was read");
  const size_t entry = nabla_tensor_file_find(checkpoint->shards[shard].file,
                                              tensor, strlen(tensor));
  if (entry == SIZE_MAX) {
    nabla_status status = nabla_fail(
        r->diag, NABLA_CORRUPT,
        "the index says it is in '%.100s', which lacks it", file->text);
    nabla_diag_set_offset(r->diag, file->offset);
    nabla_diag_set_tensor(r->diag, tensor, strlen(tensor));
    return status;
  }
  uint8_t *byte = &r->seen[shard][entry / 8];
  const uint8_t bit = (uint8_t)(1u << entry % 8);
  if (*byte & bit) return corrupt(r, file, tensor, "the index names it twice");
  *byte |= bit;
  return NABLA_OK;
}

/* Checks one pair; what is wrong with it may be noted. */
static nabla_status confirm_or_note(reader *r, const char *tensor,
                                    const nabla_json_event *file) {
  nabla_status status = confirm(r, tensor, file);
  if (status) nabla_diag_set_file(r->diag, nabla_file_borrow_path(r->file));
  return nabla_checkpoint_note(r->checkpoint, status, r->diag);
}

static nabla_status take_map(reader *r) {
  nabla_json_event event;
  char tensor[NABLA_TENSOR_FILE_MAX_NAME + 1];
  NABLA_TRY(nabla_json_expect(r->json, NABLA_JSON_OBJECT_BEGIN,
                              "the weight_map object", &event, r->diag));
  for (;;) {
    NABLA_TRY(nabla_json_next(r->json, &event, r->diag));
    if (event.kind == NABLA_JSON_OBJECT_END) return NABLA_OK;
    if (event.length > NABLA_TENSOR_FILE_MAX_NAME)
      return corrupt(r, &event, NULL, "a tensor name is too long");
    memcpy(tensor, event.text, event.length + 1);
    NABLA_TRY(nabla_json_expect(r->json, NABLA_JSON_STRING, "a file name",
                                &event, r->diag));
    if (!is_plain_name(&event))
      return corrupt(r, &event, tensor,
                     "its file is not a plain name in the same folder");
    NABLA_TRY(r->checking ? confirm_or_note(r, tensor, &event)
                          : learn(r, &event));
  }
}

/* total_size: an integer; some writers store it as a float ("1.5e9"), which
 * says nothing exact and is passed over. */
static nabla_status take_metadata(reader *r) {
  nabla_json_event event;
  NABLA_TRY(nabla_json_next(r->json, &event, r->diag));
  if (event.kind != NABLA_JSON_OBJECT_BEGIN)
    return nabla_json_skip(r->json, &event, r->diag);
  for (;;) {
    NABLA_TRY(nabla_json_next(r->json, &event, r->diag));
    if (event.kind == NABLA_JSON_OBJECT_END) return NABLA_OK;
    const int is_total = !strcmp(event.text, "total_size");
    NABLA_TRY(nabla_json_next(r->json, &event, r->diag));
    if (is_total && event.kind == NABLA_JSON_NUMBER &&
        !nabla_json_u64(&event, "total_size", &r->checkpoint->total, NULL))
      r->checkpoint->has_total = 1;
    NABLA_TRY(nabla_json_skip(r->json, &event, r->diag));
  }
}

static nabla_status take_index(reader *r) {
  nabla_json_event event;
  int maps = 0;
  NABLA_TRY(nabla_json_expect(r->json, NABLA_JSON_OBJECT_BEGIN,
                              "an index object", &event, r->diag));
  for (;;) {
    NABLA_TRY(nabla_json_next(r->json, &event, r->diag));
    if (event.kind == NABLA_JSON_OBJECT_END) break;
    if (!strcmp(event.text, "weight_map")) {
      if (maps++) return corrupt(r, &event, NULL, "two weight_map objects");
      NABLA_TRY(take_map(r));
    } else if (!strcmp(event.text, "metadata")) {
      NABLA_TRY(take_metadata(r));
    } else {
      NABLA_TRY(nabla_json_next(r->json, &event, r->diag));
      NABLA_TRY(nabla_json_skip(r->json, &event, r->diag));
    }
  }
  NABLA_TRY(nabla_json_expect(r->json, NABLA_JSON_END, "the end of the index",
                              &event, r->diag));
  if (!maps) return corrupt(r, &event, NULL, "the index has no weight_map");
  if (!r->checking && !r->order.size)
    return corrupt(r, &event, NULL, "the weight_map is empty");
  return NABLA_OK;
}

static nabla_status pass(reader *r) {
  const nabla_json_source source = {r, read_some};
  r->at = 0;
  NABLA_TRY(nabla_json_create(r->checkpoint->allocator, source, 0, &r->json,
                              r->diag));
  nabla_status status = take_index(r);
  nabla_json_destroy(r->json);
  if (status) nabla_diag_set_file(r->diag, nabla_file_borrow_path(r->file));
  return status;
}

static nabla_status open_shards(reader *r) {
  nabla_checkpoint *checkpoint = r->checkpoint;
  void *shards;
  NABLA_TRY(nabla_alloc(checkpoint->allocator, NABLA_CHECKPOINT_MAX_SHARDS,
                        sizeof(nabla_checkpoint_part), &shards, r->diag));
  checkpoint->shards = shards;
  const size_t count = r->order.size / sizeof(uint32_t);
  for (size_t i = 0; i < count; i++) {
    nabla_status status = nabla_checkpoint_add_shard(checkpoint, r->folder,
                                                     name_at(r, i), r->diag);
    if (status) r->left_out = 1;
    NABLA_TRY(nabla_checkpoint_note(checkpoint, status, r->diag));
  }
  return NABLA_OK;
}

static size_t bitmap_bytes(const nabla_checkpoint *checkpoint, uint32_t shard) {
  return nabla_tensor_file_count(checkpoint->shards[shard].file) / 8 + 1;
}

/* The names of all shards as one list. */
typedef struct all_names {
  const nabla_checkpoint *checkpoint;
  size_t *first; /* per shard: the number of its first tensor; and the end */
} all_names;

static nabla_part part_at(const all_names *names, size_t index) {
  uint32_t low = 0, high = names->checkpoint->shard_count;
  while (high - low > 1) {
    const uint32_t middle = low + (high - low) / 2;
    if (names->first[middle] <= index)
      low = middle;
    else
      high = middle;
  }
  return (nabla_part){low, index - names->first[low]};
}

static const char *name_of(const void *self, size_t index, size_t *out_length) {
  const all_names *names = self;
  const nabla_part part = part_at(names, index);
  const nabla_entry entry = nabla_tensor_file_entry(
      names->checkpoint->shards[part.shard].file, part.entry);
  *out_length = entry.name_length;
  return entry.name;
}

static nabla_status find_repeats(const reader *r, const all_names *names) {
  const nabla_checkpoint *checkpoint = r->checkpoint;
  nabla_name_index index;
  size_t first, second;
  NABLA_TRY(nabla_name_index_build(
      &index, checkpoint->allocator, (nabla_names){names, name_of},
      names->first[checkpoint->shard_count], &first, &second, r->diag));
  nabla_name_index_deinit(&index);
  if (second == SIZE_MAX) return NABLA_OK;
  const nabla_part part = part_at(names, second);
  const nabla_tensor_file *file = checkpoint->shards[part.shard].file;
  const nabla_entry entry = nabla_tensor_file_entry(file, part.entry);
  nabla_status status =
      nabla_fail(r->diag, NABLA_CORRUPT, "the shard '%.100s' has it as well",
                 checkpoint->shards[part_at(names, first).shard].name);
  nabla_diag_set_file(r->diag, nabla_tensor_file_borrow_path(file));
  nabla_diag_set_tensor(r->diag, entry.name, entry.name_length);
  return status;
}

/* One name in two shards would be one tensor with two values. */
static nabla_status check_names(const reader *r) {
  const nabla_checkpoint *checkpoint = r->checkpoint;
  const uint32_t count = checkpoint->shard_count;
  all_names names = {.checkpoint = checkpoint};
  void *block;
  NABLA_TRY(nabla_alloc(checkpoint->allocator, (size_t)count + 1,
                        sizeof *names.first, &block, r->diag));
  names.first = block;
  for (uint32_t i = 0; i < count; i++)
    names.first[i + 1] =
        names.first[i] + nabla_tensor_file_count(checkpoint->shards[i].file);
  nabla_status status = find_repeats(r, &names);
  nabla_free(checkpoint->allocator, block, (size_t)count + 1,
             sizeof *names.first);
  return status;
}

/* Every tensor of every shard must have been named. */
static nabla_status check_all_seen(reader *r) {
  const nabla_checkpoint *checkpoint = r->checkpoint;
  for (uint32_t s = 0; s < checkpoint->shard_count; s++) {
    const nabla_tensor_file *file = checkpoint->shards[s].file;
    for (size_t i = 0; i < nabla_tensor_file_count(file); i++) {
      if (r->seen[s][i / 8] & 1u << i % 8) continue;
      const nabla_entry entry = nabla_tensor_file_entry(file, i);
      nabla_status status = nabla_fail(r->diag, NABLA_CORRUPT,
                                       "the index does not name this tensor");
      nabla_diag_set_file(r->diag, nabla_tensor_file_borrow_path(file));
      nabla_diag_set_tensor(r->diag, entry.name, entry.name_length);
      NABLA_TRY(nabla_checkpoint_note(checkpoint, status, r->diag));
    }
  }
  return NABLA_OK;
}

static nabla_status second_pass(reader *r) {
  const nabla_checkpoint *checkpoint = r->checkpoint;
  const nabla_allocator *allocator = checkpoint->allocator;
  const uint32_t count = checkpoint->shard_count;
  void *block;
  NABLA_TRY(nabla_alloc(allocator, count, sizeof(uint8_t *), &block, r->diag));
  r->seen = block;
  nabla_status status = NABLA_OK;
  for (uint32_t i = 0; i < count && !status; i++) {
    status =
        nabla_alloc(allocator, bitmap_bytes(checkpoint, i), 1, &block, r->diag);
    if (!status) r->seen[i] = block;
  }
  r->checking = 1;
  if (!status) status = pass(r);
  if (!status) status = check_all_seen(r);
  for (uint32_t i = 0; i < count; i++)
    nabla_free(allocator, r->seen[i], bitmap_bytes(checkpoint, i), 1);
  nabla_free(allocator, r->seen, count, sizeof(uint8_t *));
  return status;
}

nabla_status nabla_checkpoint_read_index(nabla_checkpoint *checkpoint,
                                         const char *path, const char *folder,
                                         nabla_diag *diag) {
  reader r = {.checkpoint = checkpoint, .folder = folder, .diag = diag};
  NABLA_TRY(nabla_file_open(checkpoint->os, checkpoint->allocator, path,
                            &r.file, diag));
  nabla_buffer_init(&r.names, checkpoint->allocator, "shard names",
                    (MAX_SHARD_NAME + 1) * (NABLA_CHECKPOINT_MAX_SHARDS + 1));
  nabla_buffer_init(&r.order, checkpoint->allocator, "shard names",
                    sizeof(uint32_t) * (NABLA_CHECKPOINT_MAX_SHARDS + 1));
  nabla_status status = NABLA_OK;
  if (nabla_file_size(r.file) > NABLA_CHECKPOINT_MAX_INDEX) {
    status = nabla_fail(diag, NABLA_TOO_LARGE,
                        "the index has %" PRIu64 " bytes, the limit is %u",
                        nabla_file_size(r.file), NABLA_CHECKPOINT_MAX_INDEX);
    nabla_diag_set_file(diag, path);
  }
  if (!status) status = pass(&r);
  if (!status) status = open_shards(&r);
  if (!status)
    status = nabla_checkpoint_note(checkpoint, check_names(&r), diag);
  if (!status) status = second_pass(&r);
  nabla_buffer_deinit(&r.names);
  nabla_buffer_deinit(&r.order);
  nabla_file_close(r.file);
  return status;
}
