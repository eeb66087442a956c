/* See output_checkpoint.h. */
#include "quant/write/output_checkpoint.h"

#include <inttypes.h>
#include <string.h>
#include <strings.h>

#include "lib/base/bytes.h"
#include "lib/base/checked.h"
#include "lib/base/file/file.h"
#include "lib/base/file/os_call.h"
#include "lib/base/json/json.h"
#include "lib/base/memory.h"
#include "quant/formats/safetensors_internal.h"
#include "quant/formats/tensor_file.h"
#include "quant/write/output_checkpoint_internal.h"

#define LONE_SHARD         "model.safetensors"
#define LONE_INDEXED_SHARD "model-00001-of-00001.safetensors"

static int ends_with(const char *text, const char *tail) {
  const size_t size = strlen(text), tail_size = strlen(tail);
  return size > tail_size && !strcmp(text + size - tail_size, tail);
}

nabla_status nabla_output_checkpoint_refuse_input(const char *path,
                                                  nabla_diag *diag) {
  nabla_status status =
      nabla_fail(diag, NABLA_INVALID_ARGUMENT, "the output is the input");
  nabla_diag_set_file(diag, path);
  nabla_diag_set_next(diag, "name another output");
  return status;
}

/* Returns the folder of `path`: everything before the last slash, or ".". */
static nabla_status folder_of(const nabla_output_checkpoint *target,
                              const char *path, char **out, size_t *out_size,
                              nabla_diag *diag) {
  const char *slash = strrchr(path, '/');
  const size_t size = slash ? (size_t)(slash - path) + 1 : 0;
  void *block;
  NABLA_TRY(nabla_alloc(target->allocator, size + 2, 1, &block, diag));
  memcpy(block, size ? path : ".", size ? size : 1);
  *out = block;
  *out_size = size + 2;
  return NABLA_OK;
}

nabla_status nabla_output_checkpoint_look(const nabla_output_checkpoint *target,
                                          const char *path, nabla_os_info *out,
                                          int *out_exists, nabla_diag *diag) {
  const nabla_os *os = target->os;
  int error;
  NABLA_OS_RETRY(error, os->path_info(os->self, path, 1, out));
  *out_exists = error >= 0;
  if (error >= 0 || error == -ENOENT || error == -ENOTDIR) return NABLA_OK;
  return nabla_os_fail(os, NULL, path, "look at it", error, diag);
}

/* Returns whether the output is the shard itself or contains it. */
static nabla_status is_input(const nabla_output_checkpoint *target,
                             const nabla_os_info *output, uint32_t shard,
                             int *out, nabla_diag *diag) {
  const nabla_tensor_file *file =
      nabla_checkpoint_borrow_shard(target->checkpoint, shard);
  nabla_os_info input = nabla_tensor_file_info(file);
  if (target->is_folder) {
    char *folder = NULL;
    size_t size = 0;
    NABLA_TRY(folder_of(target, nabla_tensor_file_borrow_path(file), &folder,
                        &size, diag));
    int exists;
    nabla_status status =
        nabla_output_checkpoint_look(target, folder, &input, &exists, diag);
    nabla_free(target->allocator, folder, size, 1);
    if (status || !exists) return status; /* no file: nothing to overwrite */
  }
  *out = nabla_os_same(&input, output);
  return NABLA_OK;
}

static nabla_status check_not_input(const nabla_output_checkpoint *target,
                                    nabla_diag *diag) {
  nabla_os_info output;
  int exists;
  NABLA_TRY(nabla_output_checkpoint_look(target, target->path, &output, &exists,
                                         diag));
  if (!exists) return NABLA_OK;
  for (uint32_t i = 0; i < nabla_checkpoint_shard_count(target->checkpoint);
       i++) {
    int found = 0;
    NABLA_TRY(is_input(target, &output, i, &found, diag));
    if (found) return nabla_output_checkpoint_refuse_input(target->path, diag);
  }
  return NABLA_OK;
}

/* Returns whether a path with this ending is almost certainly meant as a file.
 */
static int is_misnamed(const char *path, size_t size) {
  static const char *const suffixes[] = {".safetensors", ".safetensor", ".st",
                                         ".bin",         ".gguf",       ".pt",
                                         ".pth",         ".onnx",       ".npz"};
  for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
    const size_t tail = strlen(suffixes[i]);
    if (size > tail && !strncasecmp(path + size - tail, suffixes[i], tail))
      return 1;
  }
  return 0;
}

int nabla_output_checkpoint_is_file(const char *path) {
  return ends_with(path, ".safetensors");
}

/* Returns the folder of the output: for the path of an index everything before
 * its last slash. */
static nabla_status split(nabla_output_checkpoint *target, const char *path,
                          nabla_diag *diag) {
  size_t size = strlen(path);
  target->is_folder = !nabla_output_checkpoint_is_file(path);
  if (ends_with(path, ".json")) {
    const char *slash = strrchr(path, '/');
    if (!slash || slash == path) {
      nabla_status status = nabla_fail(
          diag, NABLA_INVALID_ARGUMENT,
          "an index is written with its shards, in a new folder of its own");
      nabla_diag_set_file(diag, path);
      nabla_diag_set_next(diag, "name it FOLDER/" NABLA_INDEX_NAME);
      return status;
    }
    target->index_name = slash + 1;
    size = (size_t)(slash - path);
  } else if (target->is_folder &&
             nabla_checkpoint_shard_count(target->checkpoint) > 1) {
    target->index_name = NABLA_INDEX_NAME;
  }
  while (target->is_folder && size > 1 && path[size - 1] == '/') size--;
  if (target->is_folder && is_misnamed(path, size)) {
    nabla_status status =
        nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                   "a folder would be made of what is named like a file");
    nabla_diag_set_file(diag, path);
    nabla_diag_set_next(diag, "end the name in .safetensors, or in no suffix");
    return status;
  }
  if (!size)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT, "the output has no name");
  void *copy;
  NABLA_TRY(nabla_alloc(target->allocator, size + 1, 1, &copy, diag));
  memcpy(copy, path, size);
  target->path = copy;
  target->path_size = size + 1;
  return NABLA_OK;
}

nabla_status nabla_output_checkpoint_rename(nabla_output_checkpoint *target,
                                            const char *path,
                                            nabla_diag *diag) {
  const size_t size = strlen(path) + 1;
  void *copy;
  NABLA_TRY(nabla_alloc(target->allocator, size, 1, &copy, diag));
  memcpy(copy, path, size);
  nabla_free(target->allocator, target->path, target->path_size, 1);
  target->path = copy;
  target->path_size = size;
  return NABLA_OK;
}

const char *nabla_output_checkpoint_file_name(
    const nabla_output_checkpoint *target, uint32_t file) {
  if (target->files > 1)
    return nabla_checkpoint_shard_name(target->checkpoint, file);
  return target->index_name ? LONE_INDEXED_SHARD : LONE_SHARD;
}

nabla_status nabla_output_checkpoint_join(const nabla_output_checkpoint *target,
                                          const char *folder, const char *name,
                                          char **out, size_t *out_size,
                                          nabla_diag *diag) {
  const size_t head = strlen(folder), tail = strlen(name);
  void *block;
  NABLA_TRY(nabla_alloc(target->allocator, head + tail + 2, 1, &block, diag));
  char *path = block;
  memcpy(path, folder, head);
  path[head] = '/';
  memcpy(path + head + 1, name, tail);
  *out = path;
  *out_size = head + tail + 2;
  return NABLA_OK;
}

/* Takes the files beside the weights, if there are any. */
static nabla_status take_folder(nabla_output_checkpoint *target,
                                const nabla_folder *files, nabla_diag *diag) {
  if (!files) return NABLA_OK;
  NABLA_TRY(nabla_folder_check(files, diag));
  target->files_beside = files;
  if (!target->index_name || !nabla_folder_writes(files, target->index_name, 0))
    return NABLA_OK;
  nabla_status status =
      nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                 "the index would have the name of a file that is copied");
  nabla_diag_set_file(diag, target->index_name);
  nabla_diag_set_next(diag, "name it FOLDER/" NABLA_INDEX_NAME);
  return status;
}

unsigned nabla_output_checkpoint_permissions(
    const nabla_output_checkpoint *target, uint32_t first, uint32_t end) {
  unsigned all = 0777;
  for (uint32_t i = first; i < end; i++)
    all &= nabla_tensor_file_info(
               nabla_checkpoint_borrow_shard(target->checkpoint, i))
               .permissions;
  return all ? all : 0600; /* 0 would mean the default */
}

/* Returns the permissions of the input's folder. If the input is a file, those
 * who may read it may also enter the folder. */
static nabla_status folder_permissions(const nabla_output_checkpoint *target,
                                       unsigned *out, nabla_diag *diag) {
  const char *path = nabla_checkpoint_borrow_path(target->checkpoint);
  nabla_os_info input;
  int exists;
  NABLA_TRY(nabla_output_checkpoint_look(target, path, &input, &exists, diag));
  if (exists && input.is_folder) {
    *out = input.permissions | 0700; /* 0 would mean the default */
    return NABLA_OK;
  }
  const uint32_t shards = nabla_checkpoint_shard_count(target->checkpoint);
  *out = nabla_output_checkpoint_permissions(target, 0, shards);
  *out |= (*out & 0444) >> 2;
  return NABLA_OK;
}

/* Refuses shards in other formats: shards of an index keep their names, but the
 * output is safetensors. */
static nabla_status check_formats(const nabla_output_checkpoint *target,
                                  nabla_diag *diag) {
  for (uint32_t i = 0; target->files > 1 && i < target->files; i++) {
    const nabla_tensor_file *file =
        nabla_checkpoint_borrow_shard(target->checkpoint, i);
    if (file->row == nabla_tensor_file_named(LONE_SHARD)) continue;
    nabla_status status =
        nabla_fail(diag, NABLA_UNSUPPORTED,
                   "a %s file cannot be replaced by safetensors of its name",
                   nabla_tensor_file_format(file));
    nabla_diag_set_file(diag, nabla_tensor_file_borrow_path(file));
    nabla_diag_set_next(diag,
                        "name one output file, OUT.safetensors, which shards "
                        "are merged in");
    return status;
  }
  return NABLA_OK;
}

static nabla_status start(nabla_output_checkpoint *target,
                          const nabla_write_options *where,
                          const nabla_environment *environment,
                          nabla_diag *diag) {
  NABLA_TRY(split(target, where->path, diag));
  NABLA_TRY(check_not_input(target, diag));
  target->files =
      target->is_folder ? nabla_checkpoint_shard_count(target->checkpoint) : 1;
  if (!target->is_folder) return NABLA_OK;
  NABLA_TRY(check_formats(target, diag));
  NABLA_TRY(take_folder(target, where->folder, diag));
  NABLA_TRY(
      nabla_output_checkpoint_check_replaceable(target, environment, diag));
  nabla_output_options options = {
      .os = target->os, .allocator = target->allocator, .force = target->force};
  NABLA_TRY(folder_permissions(target, &options.permissions, diag));
  const nabla_output_owner owner = {target, nabla_output_checkpoint_owns};
  return nabla_output_folder_create(target->path, &options, &owner,
                                    &target->folder, diag);
}

nabla_status nabla_output_checkpoint_create(
    const nabla_checkpoint *checkpoint, const nabla_write_options *where,
    const nabla_environment *environment, nabla_output_checkpoint **out,
    nabla_diag *diag) {
  const nabla_allocator *allocator =
      environment ? environment->allocator : NULL;
  void *block;
  NABLA_TRY(
      nabla_alloc(allocator, 1, sizeof(nabla_output_checkpoint), &block, diag));
  nabla_output_checkpoint *target = block;
  target->allocator = allocator;
  target->os =
      environment && environment->os ? environment->os : nabla_os_default();
  target->checkpoint = checkpoint;
  target->force = where->force;
  /* Returns an upper bound on the bytes of the names in the input's headers,
   * with those of companions. */
  nabla_buffer_init(&target->names, allocator, "index", (size_t)1 << 30);
  nabla_buffer_init(&target->accepted, allocator, "names in the old folder",
                    (size_t)1 << 26);
  nabla_status status = start(target, where, environment, diag);
  if (status) {
    nabla_output_checkpoint_destroy(target);
    return status;
  }
  *out = target;
  return NABLA_OK;
}

void nabla_output_checkpoint_destroy(nabla_output_checkpoint *target) {
  if (!target) return;
  nabla_output_folder_destroy(target->folder);
  nabla_buffer_deinit(&target->names);
  nabla_buffer_deinit(&target->accepted);
  nabla_free(target->allocator, target->path, target->path_size, 1);
  nabla_free(target->allocator, target, 1, sizeof *target);
}

uint32_t nabla_output_checkpoint_files(const nabla_output_checkpoint *target) {
  return target->files;
}

void nabla_output_checkpoint_shards(const nabla_output_checkpoint *target,
                                    uint32_t file, uint32_t *first,
                                    uint32_t *end) {
  *first = target->is_folder ? file : 0;
  *end = target->is_folder ? file + 1
                           : nabla_checkpoint_shard_count(target->checkpoint);
}

/* Returns the path at which a file is made. */
static nabla_status path_of(const nabla_output_checkpoint *target,
                            uint32_t file, char **out, size_t *out_size,
                            nabla_diag *diag) {
  if (target->is_folder)
    return nabla_output_checkpoint_join(
        target, nabla_output_folder_borrow_path(target->folder),
        nabla_output_checkpoint_file_name(target, file), out, out_size, diag);
  void *copy;
  NABLA_TRY(nabla_alloc(target->allocator, target->path_size, 1, &copy, diag));
  memcpy(copy, target->path, target->path_size);
  *out = copy;
  *out_size = target->path_size;
  return NABLA_OK;
}

/* Fills the options of an output file. `old` is storage for out->like. */
static void fill_options(const nabla_output_checkpoint *target,
                         const char *name, nabla_os_info *old,
                         nabla_output_options *out) {
  *out = (nabla_output_options){.os = target->os,
                                .allocator = target->allocator,
                                .force = target->force && !target->is_folder,
                                .is_part = target->is_folder};
  if (target->is_folder &&
      nabla_output_folder_replaces(target->folder, name, old))
    out->like = old;
}

nabla_status nabla_output_checkpoint_begin(
    const nabla_output_checkpoint *target, uint32_t file,
    nabla_safetensors_writer *writer, char **out, size_t *out_size,
    nabla_diag *diag) {
  nabla_os_info old;
  nabla_output_options options;
  uint32_t first, end;
  NABLA_TRY(path_of(target, file, out, out_size, diag));
  nabla_output_checkpoint_shards(target, file, &first, &end);
  fill_options(target, nabla_output_checkpoint_file_name(target, file), &old,
               &options);
  options.permissions = nabla_output_checkpoint_permissions(target, first, end);
  nabla_status status =
      nabla_safetensors_writer_begin_as(writer, *out, &options, diag);
  if (status) nabla_free(target->allocator, *out, *out_size, 1);
  return status;
}

nabla_status nabla_output_checkpoint_note(nabla_output_checkpoint *target,
                                          uint32_t file, const char *name,
                                          size_t length, uint64_t bytes,
                                          nabla_diag *diag) {
  if (!nabla_add_u64(target->total, bytes, &target->total))
    return nabla_fail(diag, NABLA_TOO_LARGE, "the output's size overflows");
  if (!target->index_name) return NABLA_OK;
  uint8_t head[4];
  nabla_store_le32(head, file);
  NABLA_TRY(nabla_buffer_append(&target->names, head, sizeof head, diag));
  NABLA_TRY(nabla_buffer_append(&target->names, name, length, diag));
  return nabla_buffer_append(&target->names, "", 1, diag);
}

nabla_status nabla_output_checkpoint_check_space(
    const nabla_output_checkpoint *target, uint64_t needed, nabla_diag *diag) {
  uint64_t available;
  char *folder = NULL;
  if (target->files_beside &&
      !nabla_add_u64(
          needed, nabla_folder_get_totals(target->files_beside).bytes, &needed))
    return nabla_fail(diag, NABLA_TOO_LARGE, "the output's size overflows");
  size_t size;
  NABLA_TRY(folder_of(target, target->path, &folder, &size, diag));
  int error;
  NABLA_OS_RETRY(error,
                 target->os->free_bytes(target->os->self, folder, &available));
  nabla_free(target->allocator, folder, size, 1);
  /* A file system that reports no free space is not refused here. */
  if (error < 0 || available >= needed) return NABLA_OK;
  nabla_status status =
      nabla_fail(diag, NABLA_IO,
                 "the output needs %" PRIu64 " bytes, %" PRIu64 " are free",
                 needed, available);
  nabla_diag_set_file(diag, target->path);
  nabla_diag_set_next(diag, "free space, or write to another disk");
  return status;
}

nabla_status nabla_output_checkpoint_write_files(
    const nabla_output_checkpoint *target, const nabla_environment *environment,
    const nabla_progress *progress, nabla_write_summary *summary,
    nabla_diag *diag) {
  if (!target->files_beside) return NABLA_OK;
  return nabla_folder_write(target->files_beside, target->folder, environment,
                            progress, summary, diag);
}

/* The sink of the index, with a small buffer. */
typedef struct sink {
  nabla_output *output;
  uint64_t at;
  size_t used;
  uint8_t buffer[1 << 14];
} sink;

static nabla_status flush(sink *s, nabla_diag *diag) {
  NABLA_TRY(nabla_output_write(s->output, s->at, s->buffer, s->used, diag));
  s->at += s->used;
  s->used = 0;
  return NABLA_OK;
}

static nabla_status put(void *self, const void *data, size_t size,
                        nabla_diag *diag) {
  sink *s = self;
  const uint8_t *from = data;
  while (size) {
    const size_t room = sizeof s->buffer - s->used;
    const size_t part = size < room ? size : room;
    memcpy(s->buffer + s->used, from, part);
    s->used += part;
    from += part;
    size -= part;
    if (s->used == sizeof s->buffer) NABLA_TRY(flush(s, diag));
  }
  return NABLA_OK;
}

static nabla_status fill_index(const nabla_output_checkpoint *target, sink *s,
                               nabla_diag *diag) {
  nabla_json_out json = {.self = s, .write = put, .diag = diag, .spaced = 1};
  nabla_json_out_object(&json);
  nabla_json_out_key(&json, "metadata");
  nabla_json_out_object(&json);
  nabla_json_out_key(&json, "total_size");
  nabla_json_out_u64(&json, target->total);
  nabla_json_out_object_end(&json);
  nabla_json_out_key(&json, "weight_map");
  nabla_json_out_object(&json);
  for (size_t at = 0; at < target->names.size;) {
    const uint32_t file = nabla_load_le32(target->names.data + at);
    const char *name = (const char *)target->names.data + at + 4;
    nabla_json_out_key(&json, name);
    nabla_json_out_string(&json,
                          nabla_output_checkpoint_file_name(target, file));
    at += 4 + strlen(name) + 1;
  }
  nabla_json_out_object_end(&json);
  nabla_json_out_object_end(&json);
  NABLA_TRY(nabla_json_out_finish(&json));
  NABLA_TRY(put(s, "\n", 1, diag));
  return flush(s, diag);
}

static nabla_status write_index(nabla_output_checkpoint *target,
                                nabla_diag *diag) {
  char *path;
  size_t size;
  sink s = {0};
  NABLA_TRY(nabla_output_checkpoint_join(
      target, nabla_output_folder_borrow_path(target->folder),
      target->index_name, &path, &size, diag));
  nabla_os_info old;
  nabla_output_options options;
  fill_options(target, target->index_name, &old, &options);
  options.permissions = nabla_output_checkpoint_permissions(
      target, 0, nabla_checkpoint_shard_count(target->checkpoint));
  nabla_status status = nabla_output_create(path, &options, &s.output, diag);
  if (!status) status = fill_index(target, &s, diag);
  if (!status) status = nabla_output_commit(s.output, diag);
  nabla_output_destroy(s.output);
  nabla_free(target->allocator, path, size, 1);
  return status;
}

nabla_status nabla_output_checkpoint_commit(nabla_output_checkpoint *target,
                                            nabla_diag *diag) {
  if (!target->is_folder) return NABLA_OK;
  if (target->index_name) NABLA_TRY(write_index(target, diag));
  return nabla_output_folder_commit(target->folder, diag);
}
