/* Decides whether an existing folder may be replaced, and which of its files
 * may be removed. */
#include <string.h>

#include "lib/base/file/os_call.h"
#include "lib/base/file/output_temporary.h"
#include "quant/write/output_checkpoint_internal.h"

/* State of a walk through an existing output folder. */
typedef struct listing {
  nabla_output_checkpoint *target;
  const nabla_checkpoint *old; /* the checkpoint in it, or NULL */
  uint64_t names;              /* in the folder itself          */
  nabla_status status;
  nabla_diag *diag;
} listing;

/* One folder of the walk. */
typedef struct level {
  listing *all;
  const char *at; /* relative path, "" for the output folder */
  int depth;
} level;

/* Returns whether this run writes the path. */
static int is_written(const nabla_output_checkpoint *target, const char *path,
                      int is_folder) {
  if (target->files_beside &&
      nabla_folder_writes(target->files_beside, path, is_folder))
    return 1;
  if (is_folder) return 0;
  if (target->index_name && !strcmp(path, target->index_name)) return 1;
  for (uint32_t i = 0; i < target->files; i++)
    if (!strcmp(path, nabla_output_checkpoint_file_name(target, i))) return 1;
  return 0;
}

/* Returns whether this run writes the path, or the old checkpoint contains it.
 */
static int may_replace(const listing *l, const char *path, int is_folder) {
  if (is_written(l->target, path, is_folder)) return 1;
  if (!l->old || is_folder) return 0;
  if (nabla_checkpoint_has_index(l->old) && !strcmp(path, NABLA_INDEX_NAME))
    return 1;
  for (uint32_t i = 0; i < nabla_checkpoint_shard_count(l->old); i++)
    if (!strcmp(path, nabla_checkpoint_shard_name(l->old, i))) return 1;
  return 0;
}

int nabla_output_checkpoint_owns(void *self, const char *path, int is_folder) {
  const nabla_output_checkpoint *target = self;
  const char *accepted = (const char *)target->accepted.data;
  for (size_t at = 0; at < target->accepted.size;
       at += strlen(accepted + at) + 1)
    if (!strcmp(accepted + at, path)) return 1;
  return is_written(target, path, is_folder);
}

/* Refuses a folder that contains a file of the input, perhaps through a link.
 */
static nabla_status check_no_input(const nabla_output_checkpoint *target,
                                   const char *path, nabla_diag *diag) {
  const nabla_folder *beside = target->files_beside;
  nabla_os_info info;
  int exists;
  NABLA_TRY(nabla_output_checkpoint_look(target, path, &info, &exists, diag));
  const uint32_t shards = nabla_checkpoint_shard_count(target->checkpoint);
  for (uint32_t i = 0; exists && i < shards; i++) {
    const nabla_os_info input = nabla_tensor_file_info(
        nabla_checkpoint_borrow_shard(target->checkpoint, i));
    if (nabla_os_same(&input, &info))
      return nabla_output_checkpoint_refuse_input(path, diag);
  }
  for (size_t i = 0; exists && beside && i < nabla_folder_count(beside); i++) {
    const nabla_folder_row *row = nabla_folder_row_at(beside, i);
    if (nabla_folder_copies(row) && nabla_os_same(&row->info, &info))
      return nabla_output_checkpoint_refuse_input(path, diag);
  }
  return NABLA_OK;
}

static nabla_status list_at(listing *l, const char *at, int depth);

/* Decides on one path. `path` is relative to the folder, `full` is not. */
static nabla_status check_path(const level *in, const char *path,
                               const char *full) {
  listing *l = in->all;
  const nabla_output_checkpoint *target = l->target;
  const nabla_os *os = target->os;
  nabla_os_info info = {0};
  int error;
  NABLA_TRY(check_no_input(target, full, l->diag));
  if (!target->force) return NABLA_OK;
  NABLA_OS_RETRY(error, os->path_info(os->self, full, 0, &info));
  if (error < 0 && error != -ENOENT)
    return nabla_os_fail(os, NULL, full, "look at it", error, l->diag);
  if (may_replace(l, path, info.is_folder)) {
    NABLA_TRY(nabla_buffer_append(&l->target->accepted, path, strlen(path) + 1,
                                  l->diag));
    return info.is_folder ? list_at(l, path, in->depth + 1) : NABLA_OK;
  }
  nabla_status status = nabla_fail(
      l->diag, NABLA_EXISTS,
      "the folder holds '%.80s', which is no part of a checkpoint in it and "
      "would be lost",
      path);
  nabla_diag_set_file(l->diag, target->path);
  nabla_diag_set_next(l->diag, "name another folder, or move that file away");
  return status;
}

static int list_name(void *context, const char *name) {
  const level *in = context;
  listing *l = in->all;
  char path[NABLA_PATH_SIZE], full[NABLA_PATH_SIZE];
  l->names++;
  if (!*in->at)
    memcpy(path, name, strlen(name) + 1);
  else if (!nabla_place_join(path, in->at, name))
    return -ENAMETOOLONG;
  if (!nabla_place_join(full, l->target->path, path)) return -ENAMETOOLONG;
  l->status = check_path(in, path, full);
  return l->status != NABLA_OK;
}

/* Writes the path of the folder to list to `full`; returns -errno if it is too
 * deep or too long to be an output of this program. */
static int name_level(const nabla_output_checkpoint *target, const char *at,
                      int depth, char full[NABLA_PATH_SIZE]) {
  const size_t size = strlen(target->path);
  if (depth > NABLA_OUTPUT_MAX_DEPTH) return -ELOOP;
  if (*at) return nabla_place_join(full, target->path, at) ? 0 : -ENAMETOOLONG;
  if (size >= NABLA_PATH_SIZE) return -ENAMETOOLONG;
  memcpy(full, target->path, size + 1);
  return 0;
}

/* Recursion is bounded by the depth. */
static nabla_status list_at(listing *l, const char *at, int depth) {
  const nabla_output_checkpoint *target = l->target;
  const nabla_os *os = target->os;
  level in = {l, at, depth};
  char full[NABLA_PATH_SIZE];
  int error = name_level(target, at, depth, full);
  while (!error) {
    if (!depth) l->names = 0;
    error = os->list(os->self, full, list_name, &in);
    if (error != -EINTR) break;
    error = 0;
  }
  if (l->status) return l->status;
  if (error < 0)
    return nabla_os_fail(os, NULL, target->path, "list the folder", error,
                         l->diag);
  return NABLA_OK;
}

/* Opens the checkpoint in the existing output folder; *out is NULL if there is
 * none or it is damaged. */
static nabla_status open_old(const nabla_output_checkpoint *target,
                             const nabla_environment *environment,
                             nabla_checkpoint **out, nabla_diag *diag) {
  char *path = NULL;
  size_t size = 0;
  nabla_diag why = NABLA_DIAG_INIT; /* local, because most failures here are no
                                     * errors */
  nabla_status status = NABLA_CORRUPT;
  *out = NULL;
  if (target->index_name) {
    NABLA_TRY(nabla_output_checkpoint_join(
        target, target->path, target->index_name, &path, &size, diag));
    status = nabla_checkpoint_open(path, environment, out, &why);
    nabla_free(target->allocator, path, size, 1);
  }
  if (status && status != NABLA_NO_MEMORY)
    status = nabla_checkpoint_open(target->path, environment, out, &why);
  if (status != NABLA_NO_MEMORY) return NABLA_OK;
  if (diag) *diag = why;
  return status;
}

nabla_status nabla_output_checkpoint_check_replaceable(
    nabla_output_checkpoint *target, const nabla_environment *environment,
    nabla_diag *diag) {
  nabla_os_info info;
  int exists;
  NABLA_TRY(
      nabla_output_checkpoint_look(target, target->path, &info, &exists, diag));
  if (!exists || !info.is_folder) return NABLA_OK;
  nabla_checkpoint *old = NULL;
  if (target->force) NABLA_TRY(open_old(target, environment, &old, diag));
  listing l = {.target = target, .old = old, .diag = diag};
  const nabla_status status = list_at(&l, "", 0);
  nabla_checkpoint_close(old);
  if (!status && !l.names) target->force = 1;
  return status;
}
