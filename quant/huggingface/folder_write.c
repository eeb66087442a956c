/* Copies the files of a model's folder into an output folder, through one
 * buffer whatever their size. */
#include <string.h>

#include "lib/base/file/os_call.h"
#include "lib/base/file/output_temporary.h"
#include "quant/huggingface/folder.h"
#include "quant/tiles/parallel_tiles.h"

enum { PIECE = 1 << 20 }; /* bytes copied at a time */

typedef struct copy {
  const nabla_folder *folder;
  const nabla_output_folder *output;
  const nabla_environment *environment;
  const nabla_progress *progress;
  nabla_write_summary *summary;
  uint8_t *buffer;
  char made[NABLA_FOLDER_MAX_PATH + 1]; /* folder of the last file */
  nabla_diag *diag;
} copy;

static nabla_status copy_bytes(const copy *job, const nabla_file *from,
                               nabla_output *to) {
  const uint64_t size = nabla_file_size(from);
  for (uint64_t at = 0; at < size; at += PIECE) {
    const size_t part = size - at < PIECE ? (size_t)(size - at) : PIECE;
    NABLA_TRY(nabla_run_report(job->environment, job->progress, job->diag));
    NABLA_TRY(nabla_file_read(from, at, job->buffer, part, job->diag));
    NABLA_TRY(nabla_output_write(to, at, job->buffer, part, job->diag));
  }
  return nabla_file_check_unchanged(from, job->diag);
}

/* 1 when the file that is open lies where what is copied may, also when the
 * folders above it were links by now; -errno. */
static int is_held(const nabla_folder *folder, const nabla_file *from,
                   const char *name) {
  const nabla_os *os = folder->os;
  char where[NABLA_PATH_SIZE];
  int error;
  if (!folder->root[0] || nabla_folder_parses(name)) return 1;
  NABLA_OS_RETRY(
      error, os->path_of(os->self, nabla_file_borrow_descriptor(from), where,
                         sizeof where));
  if (error < 0) return nabla_folder_is_unknown(error) ? 0 : error;
  return nabla_folder_holds(folder, where);
}

/* The other file that is opened must be the one that was listed: it may have
 * become a link to anywhere since. */
static nabla_status check_same(const nabla_folder *folder,
                               const nabla_file *from, size_t index,
                               nabla_diag *diag) {
  const nabla_folder_row *row = nabla_folder_row_at(folder, index);
  const int held = is_held(folder, from, nabla_folder_path_at(folder, index));
  if (held < 0)
    return nabla_os_fail(folder->os, NULL, nabla_file_borrow_path(from),
                         "find out where it lies", held, diag);
  const nabla_os_info *now = nabla_file_borrow_info(from);
  if (held && now->device == row->info.device &&
      now->inode == row->info.inode && now->size == row->info.size &&
      now->changed_ns == row->info.changed_ns)
    return NABLA_OK;
  nabla_status status = nabla_fail(diag, NABLA_CORRUPT,
                                   "the file was changed since it was listed");
  nabla_diag_set_file(diag, nabla_file_borrow_path(from));
  nabla_diag_set_next(diag, "wait until nothing writes to it, then run again");
  return status;
}

static nabla_status copy_file(const copy *job, size_t index, const char *path,
                              nabla_output *to) {
  const nabla_folder *folder = job->folder;
  const nabla_folder_row *row = nabla_folder_row_at(folder, index);
  nabla_file *from;
  NABLA_TRY(
      nabla_file_open(folder->os, folder->allocator, path, &from, job->diag));
  nabla_status status = check_same(folder, from, index, job->diag);
  if (!status && row->action == NABLA_FOLDER_EDIT)
    status = nabla_output_write(to, 0, folder->new_config.data,
                                folder->new_config.size, job->diag);
  else if (!status)
    status = copy_bytes(job, from, to);
  nabla_file_close(from);
  return status;
}

/* Permissions of a folder of the input; its owner's alone when it is gone. */
static unsigned permissions_of(const nabla_folder *folder, const char *name) {
  char path[NABLA_PATH_SIZE];
  nabla_os_info info;
  int error = -ENAMETOOLONG;
  if (nabla_place_join(path, nabla_checkpoint_borrow_path(folder->checkpoint),
                       name))
    NABLA_OS_RETRY(error,
                   folder->os->path_info(folder->os->self, path, 1, &info));
  return error >= 0 ? info.permissions | 0700 : 0700; /* 0: the default */
}

/* Makes the folders that the file lies in. */
static nabla_status make_folders(copy *job, const char *path) {
  char part[NABLA_FOLDER_MAX_PATH + 1];
  const char *last = strrchr(path, '/');
  const size_t size = last ? (size_t)(last - path) : 0;
  if (!size || (!strncmp(job->made, path, size) && !job->made[size]))
    return NABLA_OK;
  for (size_t end = 1; end <= size; end++) {
    if (path[end] != '/') continue;
    memcpy(part, path, end);
    part[end] = '\0';
    NABLA_TRY(nabla_output_folder_add(
        job->output, part, permissions_of(job->folder, part), job->diag));
  }
  memcpy(job->made, part, size + 1);
  return NABLA_OK;
}

static nabla_status write_row(copy *job, size_t index) {
  const nabla_folder *folder = job->folder;
  const char *name = nabla_folder_path_at(folder, index);
  const nabla_folder_row *row = nabla_folder_row_at(folder, index);
  nabla_os_info old;
  nabla_output_options options = {
      .os = folder->os,
      .allocator = folder->allocator,
      .permissions = row->info.permissions ? row->info.permissions : 0600,
      .is_part = 1};
  char from[NABLA_PATH_SIZE], to[NABLA_PATH_SIZE];
  nabla_output *output = NULL;
  NABLA_TRY(make_folders(job, name));
  if (!nabla_place_join(from, nabla_checkpoint_borrow_path(folder->checkpoint),
                        name) ||
      !nabla_place_join(to, nabla_output_folder_borrow_path(job->output),
                        name)) {
    nabla_status status = nabla_fail(job->diag, NABLA_INVALID_ARGUMENT,
                                     "its path in the output is too long");
    nabla_diag_set_file(job->diag, name);
    return status;
  }
  if (nabla_output_folder_replaces(job->output, name, &old))
    options.like = &old;
  NABLA_TRY(nabla_output_create(to, &options, &output, job->diag));
  nabla_status status = copy_file(job, index, from, output);
  if (!status) status = nabla_output_commit(output, job->diag);
  nabla_output_destroy(output);
  if (status) return status;
  job->summary->copied++;
  job->summary->copied_bytes += row->action == NABLA_FOLDER_EDIT
                                    ? folder->new_config.size
                                    : row->info.size;
  return NABLA_OK;
}

nabla_status nabla_folder_write(const nabla_folder *folder,
                                const nabla_output_folder *output,
                                const nabla_environment *environment,
                                const nabla_progress *progress,
                                nabla_write_summary *summary,
                                nabla_diag *diag) {
  copy job = {.folder = folder,
              .output = output,
              .environment = environment,
              .progress = progress,
              .summary = summary,
              .diag = diag};
  void *block;
  if (!folder->totals.copied) return NABLA_OK;
  NABLA_TRY(nabla_alloc(folder->allocator, PIECE, 1, &block, diag));
  job.buffer = block;
  nabla_status status = NABLA_OK;
  for (size_t i = 0; i < nabla_folder_count(folder) && !status; i++)
    if (nabla_folder_copies(nabla_folder_row_at(folder, i)))
      status = write_row(&job, i);
  nabla_free(folder->allocator, block, PIECE, 1);
  return status;
}
