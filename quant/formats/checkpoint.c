/* Opening a checkpoint by file, index or folder, and its accessors. */
#include "nabla/checkpoint.h"

#include <stdio.h>
#include <string.h>

#include "lib/base/checked.h"
#include "lib/base/file/os_call.h"
#include "lib/base/require.h"
#include "quant/formats/checkpoint_internal.h"
#include "quant/formats/foreign.h"
#include "quant/formats/tensor_file.h"

#define SINGLE_NAME "model.safetensors"

const char *nabla_layout_name(nabla_layout layout) {
  switch (layout) {
    case NABLA_LAYOUT_DENSE:
      return "dense";
    case NABLA_LAYOUT_BITSANDBYTES:
      return "bitsandbytes";
    case NABLA_LAYOUT_NABLA:
      return "nabla";
  }
  return "?";
}

nabla_status nabla_checkpoint_copy_text(const nabla_checkpoint *checkpoint,
                                        const char *text, size_t size,
                                        char **out, nabla_diag *diag) {
  void *copy;
  size_t total;
  if (!nabla_add_size(size, 1, &total))
    return nabla_fail(diag, NABLA_TOO_LARGE, "a text overflows");
  NABLA_TRY(nabla_alloc(checkpoint->allocator, total, 1, &copy, diag));
  memcpy(copy, text, size); /* nabla_alloc zeroed the NUL */
  *out = copy;
  return NABLA_OK;
}

static void free_text(const nabla_checkpoint *checkpoint, char *text) {
  if (text) nabla_free(checkpoint->allocator, text, strlen(text) + 1, 1);
}

nabla_status nabla_checkpoint_add_shard(nabla_checkpoint *checkpoint,
                                        const char *folder, const char *name,
                                        nabla_diag *diag) {
  nabla_buffer path;
  nabla_buffer_init(&path, checkpoint->allocator, "path", 1 << 16);
  nabla_checkpoint_part *shard = &checkpoint->shards[checkpoint->shard_count];
  nabla_status status =
      nabla_buffer_append(&path, folder, strlen(folder), diag);
  if (!status)
    status = nabla_buffer_append(&path, name, strlen(name) + 1, diag);
  if (!status)
    status =
        nabla_tensor_file_open((const char *)path.data, checkpoint->allocator,
                               checkpoint->os, &shard->file, diag);
  nabla_buffer_deinit(&path);
  if (status) return status;
  status = nabla_checkpoint_copy_text(checkpoint, name, strlen(name),
                                      &shard->name, diag);
  if (status) {
    nabla_tensor_file_close(shard->file);
    *shard = (nabla_checkpoint_part){0};
    return status;
  }
  checkpoint->shard_count++;
  return NABLA_OK;
}

/* Splits at the last slash: *folder is "" or ends in one. */
static nabla_status split_path(const nabla_checkpoint *checkpoint,
                               const char *path, char **out_folder,
                               const char **out_name, nabla_diag *diag) {
  const char *slash = strrchr(path, '/');
  const size_t size = slash ? (size_t)(slash - path) + 1 : 0;
  *out_name = path + size;
  return nabla_checkpoint_copy_text(checkpoint, path, size, out_folder, diag);
}

static int ends_with(const char *text, const char *tail) {
  const size_t size = strlen(text), tail_size = strlen(tail);
  return size > tail_size && !strcmp(text + size - tail_size, tail);
}

static nabla_status open_index(nabla_checkpoint *checkpoint, const char *path,
                               nabla_diag *diag) {
  char *folder = NULL;
  const char *name;
  NABLA_TRY(split_path(checkpoint, path, &folder, &name, diag));
  checkpoint->has_index = 1;
  nabla_status status =
      nabla_checkpoint_read_index(checkpoint, path, folder, diag);
  free_text(checkpoint, folder);
  return status;
}

static nabla_status open_single(nabla_checkpoint *checkpoint, const char *path,
                                nabla_diag *diag) {
  char *folder = NULL;
  const char *name;
  void *shards;
  NABLA_TRY(split_path(checkpoint, path, &folder, &name, diag));
  nabla_status status = nabla_alloc(
      checkpoint->allocator, 1, sizeof(nabla_checkpoint_part), &shards, diag);
  if (!status) {
    checkpoint->shards = shards;
    status = nabla_checkpoint_add_shard(checkpoint, folder, name, diag);
  }
  free_text(checkpoint, folder);
  return status;
}

/* What a folder offers. */
typedef struct listing {
  int has_index, has_single;
  int is_cache;      /* of huggingface_hub: models in it */
  int has_snapshots; /* of huggingface_hub: one model    */
  uint32_t files;
  char only[256];  /* the last file of tensors seen         */
  char other[256]; /* a model file of another kind, or ""   */
} listing;

static int list_name(void *context, const char *name) {
  listing *found = context;
  if (!strcmp(name, NABLA_INDEX_NAME)) found->has_index = 1;
  if (!strcmp(name, "snapshots")) found->has_snapshots = 1;
  if (!strncmp(name, "models--", strlen("models--"))) found->is_cache = 1;
  if (nabla_foreign_named(name) && strlen(name) < sizeof found->other)
    memcpy(found->other, name, strlen(name) + 1);
  if (!nabla_tensor_file_named(name) || name[0] == '.') return 0;
  if (!strcmp(name, SINGLE_NAME)) found->has_single = 1;
  if (strlen(name) < sizeof found->only) {
    memcpy(found->only, name, strlen(name) + 1);
    found->files++;
  }
  return 0;
}

static int list_visible(void *context, const char *name) {
  char *last = context;
  if (name[0] != '.' && strlen(name) < sizeof(((listing *)0)->only))
    memcpy(last, name, strlen(name) + 1);
  return 0;
}

/* The snapshot that a model in huggingface_hub's cache has, "HASH" when there
 * is none to be seen. */
static void find_snapshot(const nabla_os *os, const char *path,
                          char out[sizeof(((listing *)0)->only)]) {
  char folder[1024];
  int error;
  snprintf(out, sizeof(((listing *)0)->only), "HASH");
  if ((size_t)snprintf(folder, sizeof folder, "%s/snapshots", path) >=
      sizeof folder)
    return;
  NABLA_OS_RETRY(error, os->list(os->self, folder, list_visible, out));
}

static void advise(const nabla_os *os, const char *path, const listing *found,
                   nabla_diag *diag) {
  char snapshot[sizeof found->only], folder[256];
  const nabla_foreign *foreign = nabla_foreign_named(found->other);
  if (found->has_snapshots) {
    find_snapshot(os, path, snapshot);
    nabla_diag_set_next(diag,
                        "it is a model in the cache of huggingface_hub; name "
                        "the snapshot in it: %.200s%ssnapshots/%.60s",
                        path, ends_with(path, "/") ? "" : "/", snapshot);
  } else if (found->is_cache) {
    nabla_diag_set_next(diag,
                        "it is the cache of huggingface_hub; name a snapshot "
                        "of a model in it: models--NAME/snapshots/HASH");
  } else if (!foreign) {
    nabla_diag_set_next(diag, "name a folder with a model in it");
  } else if (!foreign->magic) { /* the whole folder is converted */
    nabla_foreign_set_next(foreign, path, "", diag);
  } else {
    snprintf(folder, sizeof folder, "%s%s", path,
             ends_with(path, "/") ? "" : "/");
    nabla_foreign_set_next(foreign, folder, found->other, diag);
  }
}

static nabla_status refuse_folder(const nabla_os *os, const char *path,
                                  const listing *found, nabla_diag *diag) {
  nabla_status status;
  const nabla_foreign *foreign = nabla_foreign_named(found->other);
  char suffixes[NABLA_TENSOR_FILE_SUFFIXES];
  nabla_tensor_file_suffixes(suffixes);
  if (found->files) {
    status = nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                        "the folder holds %u %s files and no index",
                        found->files, suffixes);
    nabla_diag_set_next(diag, "name one of them, or add " NABLA_INDEX_NAME);
  } else {
    status = nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                        foreign ? "the folder holds no %s file, but '%.60s', %s"
                                : "the folder holds no %s file",
                        suffixes, found->other, foreign ? foreign->what : "");
    advise(os, path, found, diag);
  }
  nabla_diag_set_file(diag, path);
  return status;
}

static nabla_status open_folder(nabla_checkpoint *checkpoint, const char *path,
                                nabla_diag *diag) {
  const nabla_os *os = checkpoint->os;
  listing found;
  int error;
  do { /* what an interrupted listing has counted is forgotten */
    found = (listing){0};
    error = os->list(os->self, path, list_name, &found);
  } while (error == -EINTR);
  if (error < 0)
    return nabla_os_fail(os, NULL, path, "list the folder", error, diag);
  const char *name = found.has_index    ? NABLA_INDEX_NAME
                     : found.has_single ? SINGLE_NAME
                                        : found.only;
  if (!found.has_index && !found.has_single && found.files != 1)
    return refuse_folder(os, path, &found, diag);
  nabla_buffer full;
  nabla_buffer_init(&full, checkpoint->allocator, "path", 1 << 16);
  nabla_status status = nabla_buffer_append(&full, path, strlen(path), diag);
  if (!status && !ends_with(path, "/"))
    status = nabla_buffer_append(&full, "/", 1, diag);
  if (!status)
    status = nabla_buffer_append(&full, name, strlen(name) + 1, diag);
  if (!status)
    status = found.has_index
                 ? open_index(checkpoint, (const char *)full.data, diag)
                 : open_single(checkpoint, (const char *)full.data, diag);
  nabla_buffer_deinit(&full);
  return status;
}

static nabla_status open_any(nabla_checkpoint *checkpoint, const char *path,
                             nabla_diag *diag) {
  const size_t size = strlen(path);
  NABLA_TRY(nabla_checkpoint_copy_text(checkpoint, path, size,
                                       &checkpoint->path, diag));
  nabla_os_info info = {0};
  const nabla_os *os = checkpoint->os;
  int error;
  NABLA_OS_RETRY(error, os->path_info(os->self, path, 1, &info));
  if (error < 0) return nabla_os_fail(os, NULL, path, "open", error, diag);
  if (info.is_folder) return open_folder(checkpoint, path, diag);
  if (ends_with(path, ".json")) return open_index(checkpoint, path, diag);
  return open_single(checkpoint, path, diag);
}

nabla_status nabla_checkpoint_note(const nabla_checkpoint *checkpoint,
                                   nabla_status status,
                                   const nabla_diag *diag) {
  const nabla_problems *problems = checkpoint->problems;
  if (!status || !problems || status == NABLA_NO_MEMORY ||
      status == NABLA_CANCELLED)
    return status;
  problems->note(problems->self, status, diag);
  return NABLA_OK;
}

nabla_status nabla_checkpoint_open(const char *path,
                                   const nabla_environment *environment,
                                   nabla_checkpoint **out, nabla_diag *diag) {
  NABLA_REQUIRE(path, diag);
  NABLA_REQUIRE(out, diag);
  return nabla_checkpoint_open_noting(path, environment, NULL, out, diag);
}

nabla_status nabla_checkpoint_open_noting(const char *path,
                                          const nabla_environment *environment,
                                          const nabla_problems *problems,
                                          nabla_checkpoint **out,
                                          nabla_diag *diag) {
  const nabla_allocator *allocator =
      environment ? environment->allocator : NULL;
  const nabla_os *os = environment ? environment->os : NULL;
  void *block;
  NABLA_TRY(nabla_alloc(allocator, 1, sizeof(nabla_checkpoint), &block, diag));
  nabla_checkpoint *checkpoint = block;
  checkpoint->allocator = allocator;
  checkpoint->os = os ? os : nabla_os_default();
  checkpoint->problems = problems;
  nabla_buffer_init(&checkpoint->heads, allocator, "list of tensors",
                    SIZE_MAX / 2);
  nabla_buffer_init(&checkpoint->packed, allocator, "list of packed tensors",
                    SIZE_MAX / 2);
  nabla_buffer_init(&checkpoint->shapes, allocator, "list of shapes",
                    SIZE_MAX / 2);
  nabla_buffer_init(&checkpoint->nested, allocator, "list of nested scales",
                    SIZE_MAX / 2);
  nabla_status status = open_any(checkpoint, path, diag);
  if (!status) status = nabla_checkpoint_group(checkpoint, diag);
  if (status) {
    nabla_checkpoint_close(checkpoint);
    return status;
  }
  *out = checkpoint;
  return NABLA_OK;
}

void nabla_checkpoint_close(nabla_checkpoint *checkpoint) {
  if (!checkpoint) return;
  const nabla_allocator *allocator = checkpoint->allocator;
  for (uint32_t i = 0; i < checkpoint->shard_count; i++) {
    nabla_tensor_file_close(checkpoint->shards[i].file);
    free_text(checkpoint, checkpoint->shards[i].name);
  }
  const size_t room = checkpoint->has_index ? NABLA_CHECKPOINT_MAX_SHARDS : 1;
  nabla_free(allocator, checkpoint->shards, room,
             sizeof(nabla_checkpoint_part));
  free_text(checkpoint, checkpoint->path);
  nabla_buffer_deinit(&checkpoint->heads);
  nabla_buffer_deinit(&checkpoint->packed);
  nabla_buffer_deinit(&checkpoint->shapes);
  nabla_buffer_deinit(&checkpoint->nested);
  nabla_free(allocator, checkpoint, 1, sizeof *checkpoint);
}

const char *nabla_checkpoint_borrow_path(const nabla_checkpoint *checkpoint) {
  return checkpoint->path;
}

int nabla_checkpoint_has_index(const nabla_checkpoint *checkpoint) {
  return checkpoint->has_index;
}

int nabla_checkpoint_index_total(const nabla_checkpoint *checkpoint,
                                 uint64_t *out) {
  if (checkpoint->has_total) *out = checkpoint->total;
  return checkpoint->has_total;
}

uint32_t nabla_checkpoint_shard_count(const nabla_checkpoint *checkpoint) {
  return checkpoint->shard_count;
}

const nabla_tensor_file *nabla_checkpoint_borrow_shard(
    const nabla_checkpoint *checkpoint, uint32_t shard) {
  return checkpoint->shards[shard].file;
}

const char *nabla_checkpoint_shard_name(const nabla_checkpoint *checkpoint,
                                        uint32_t shard) {
  return checkpoint->shards[shard].name;
}

size_t nabla_checkpoint_count(const nabla_checkpoint *checkpoint) {
  return checkpoint->heads.size / sizeof(nabla_head);
}

static const nabla_head *head_at(const nabla_checkpoint *checkpoint,
                                 size_t index) {
  return (const nabla_head *)(const void *)checkpoint->heads.data + index;
}

int nabla_checkpoint_is_packed(const nabla_checkpoint *checkpoint,
                               size_t index) {
  return head_at(checkpoint, index)->packed != NABLA_NOT_PACKED;
}

nabla_tensor nabla_checkpoint_tensor(const nabla_checkpoint *checkpoint,
                                     size_t index) {
  const nabla_head *head = head_at(checkpoint, index);
  const nabla_tensor_file *file = checkpoint->shards[head->shard].file;
  const nabla_entry entry = nabla_tensor_file_entry(file, head->entry);
  nabla_tensor tensor = {
      .name = entry.name,
      .name_length = entry.name_length,
      .dtype = entry.dtype,
      .rank = entry.rank,
      .shape = entry.shape,
      .elements = entry.elements,
      .layout = NABLA_LAYOUT_DENSE,
      .data = {head->shard, head->entry},
      .stored_bytes = entry.bytes,
  };
  if (head->packed == NABLA_NOT_PACKED) return tensor;
  const nabla_packed_entry *packed =
      (const nabla_packed_entry *)(const void *)checkpoint->packed.data +
      head->packed;
  tensor.dtype = packed->dtype;
  tensor.rank = packed->rank;
  tensor.shape =
      (const uint64_t *)(const void *)checkpoint->shapes.data + packed->shape;
  tensor.elements = packed->elements;
  tensor.layout = packed->layout;
  tensor.format = packed->format;
  tensor.scales = packed->scales;
  tensor.zero_points = packed->zero_points;
  tensor.stored_bytes = packed->stored_bytes;
  tensor.unsupported = packed->unsupported[0] ? packed->unsupported : NULL;
  if (packed->format.scale == NABLA_SCALE_DYNAMIC8 && !tensor.unsupported)
    tensor.nested =
        (const nabla_nested *)(const void *)checkpoint->nested.data +
        packed->nested;
  return tensor;
}

nabla_status nabla_checkpoint_blame(const nabla_checkpoint *checkpoint,
                                    const nabla_tensor *tensor,
                                    nabla_status status, nabla_diag *diag) {
  nabla_diag_set_file(diag, nabla_tensor_file_borrow_path(
                                checkpoint->shards[tensor->data.shard].file));
  nabla_diag_set_tensor(diag, tensor->name, tensor->name_length);
  return status;
}

int nabla_checkpoint_find_entry(const nabla_checkpoint *checkpoint,
                                uint32_t first, const char *name, size_t length,
                                nabla_part *out) {
  const uint32_t count = checkpoint->shard_count;
  for (uint32_t i = 0; i < count; i++) {
    const uint32_t shard = (first + i) % count;
    const size_t entry =
        nabla_tensor_file_find(checkpoint->shards[shard].file, name, length);
    if (entry == SIZE_MAX) continue;
    *out = (nabla_part){shard, entry};
    return 1;
  }
  return 0;
}

/* -1, 0 or 1: tensor `i` lies before, at or behind an entry of a file. */
static int compare_to_entry(const nabla_checkpoint *checkpoint, size_t i,
                            uint32_t shard, size_t entry) {
  const nabla_head *head = head_at(checkpoint, i);
  if (head->shard != shard) return head->shard < shard ? -1 : 1;
  return head->entry < entry ? -1 : head->entry > entry;
}

size_t nabla_checkpoint_find_at(const nabla_checkpoint *checkpoint,
                                uint32_t shard, size_t entry) {
  size_t low = 0, high = nabla_checkpoint_count(checkpoint);
  /* In one file without packed tensors numbers are those of entries. */
  if (entry < high && compare_to_entry(checkpoint, entry, shard, entry) == 0)
    return entry;
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    const int order = compare_to_entry(checkpoint, middle, shard, entry);
    if (order == 0) return middle;
    if (order < 0)
      low = middle + 1;
    else
      high = middle;
  }
  return SIZE_MAX;
}

size_t nabla_checkpoint_find(const nabla_checkpoint *checkpoint,
                             const char *name, size_t length) {
  nabla_part part;
  if (!nabla_checkpoint_find_entry(checkpoint, 0, name, length, &part))
    return SIZE_MAX;
  return nabla_checkpoint_find_at(checkpoint, part.shard, part.entry);
}
