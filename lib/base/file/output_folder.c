/* Output folders that appear whole or not at all. An existing folder is
 * exchanged with the new one in a single step, and removed only after the
 * exchange has reached the disk. */
#include <stdio.h>
#include <string.h>

#include "lib/base/file/file.h"
#include "lib/base/file/os_call.h"
#include "lib/base/file/output_temporary.h"
#include "lib/base/memory.h"

struct nabla_output_folder {
  const nabla_allocator *allocator;
  nabla_output_owner owner;
  int force;
  int has_like; /* permissions of `like` at the end */
  nabla_os_info like;
  int old_fd;                   /* descriptor that locks the old folder; or -1
                                 */
  char old_at[NABLA_PATH_SIZE]; /* path of the old folder after the exchange */
  nabla_place place;
};

/* ---- may the existing folder be replaced? ------------------------------- */

typedef struct search {
  const nabla_output_folder *folder;
  char *foreign;  /* 256 bytes for the first path that `owner` does not accept
                   */
  const char *in; /* the folder that is listed */
  size_t root;    /* bytes of `in` before its relative paths */
  int depth;
} search;

static int look(void *context, const char *name);

/* Lists `in`; recursion is bounded by the depth. */
static int look_in(const search *above, const char *in) {
  search job = *above;
  const nabla_os *os = job.folder->place.os;
  int result;
  job.in = in;
  if (++job.depth > NABLA_OUTPUT_MAX_DEPTH) return 1;
  NABLA_OS_RETRY(result, os->list(os->self, in, look, &job));
  return result;
}

/* Stops (returns 1) at the first name that this library would not have made. */
static int look(void *context, const char *name) {
  const search *job = context;
  const nabla_os *os = job->folder->place.os;
  const nabla_output_owner *owner = &job->folder->owner;
  char path[NABLA_PATH_SIZE];
  nabla_os_info info = {0};
  int result = -ENAMETOOLONG;
  if (nabla_place_join(path, job->in, name))
    NABLA_OS_RETRY(result, os->path_info(os->self, path, 0, &info));
  if (result < 0 && result != -ENOENT) return result;
  (void)snprintf(job->foreign, 256, "%s", path + job->root);
  if (!owner->owns ||
      !owner->owns(owner->self, path + job->root, info.is_folder))
    return 1;
  return info.is_folder ? look_in(job, path) : 0;
}

/* Returns NABLA_EXISTS if the folder at `in` contains a file that `owner` does
 * not accept. */
static nabla_status check_names(const nabla_output_folder *folder,
                                const char *in, nabla_diag *diag) {
  const nabla_place *place = &folder->place;
  char foreign[256] = "";
  const search job = {folder, foreign, NULL, strlen(in) + 1, -1};
  const int result = look_in(&job, in);
  if (result == 0) return NABLA_OK;
  if (result < 0)
    return nabla_place_fail(place, "list the folder to replace", result, diag);
  nabla_status status =
      nabla_fail(diag, NABLA_EXISTS,
                 "the folder holds '%s', which is not ours to remove", foreign);
  nabla_diag_set_file(diag, place->path);
  nabla_diag_set_next(diag, "move it away, or choose another name");
  return status;
}

/* Sets out_exists to 1 if there is a folder that may be replaced, and describes
 * it in *out. */
static nabla_status check_target(const nabla_output_folder *folder,
                                 nabla_os_info *out, int *out_exists,
                                 nabla_diag *diag) {
  const nabla_place *place = &folder->place;
  nabla_os_info info;
  int result;
  *out_exists = 0;
  NABLA_OS_RETRY(result, place->os->info_at(place->os->self, place->folder_fd,
                                            place->name, &info));
  if (result == -ENOENT) return NABLA_OK;
  if (result < 0) return nabla_place_fail(place, "look at it", result, diag);
  if (!info.is_folder)
    return nabla_place_refuse(
        place, NABLA_INVALID_ARGUMENT,
        info.is_link ? "the output folder is a symbolic link"
                     : "the output folder exists and is not a folder",
        "choose another name", diag);
  if (!folder->force)
    return nabla_place_refuse(
        place, NABLA_EXISTS, "the output folder exists",
        "choose another name, or allow replacing it (force)", diag);
  *out = info;
  *out_exists = 1;
  return check_names(folder, place->path, diag);
}

/* ---- making it ---------------------------------------------------------- */

static nabla_status start(nabla_output_folder *folder, unsigned permissions,
                          nabla_diag *diag) {
  nabla_os_info old;
  int exists;
  NABLA_TRY(check_target(folder, &old, &exists, diag));
  folder->has_like = exists;
  if (exists) folder->like = old; /* even if it is gone at the commit */
  nabla_place_remove_stale(&folder->place);
  if (!permissions) permissions = 0777;
  return nabla_place_make_temp(&folder->place, 1, exists ? 0700 : permissions,
                               diag);
}

nabla_status nabla_output_folder_create(const char *path,
                                        const nabla_output_options *options,
                                        const nabla_output_owner *owner,
                                        nabla_output_folder **out,
                                        nabla_diag *diag) {
  static const nabla_output_options defaults = {0};
  if (!options) options = &defaults;
  const nabla_os *os = options->os ? options->os : nabla_os_default();
  void *block;
  NABLA_TRY(nabla_alloc(options->allocator, sizeof(nabla_output_folder), 1,
                        &block, diag));
  nabla_output_folder *folder = block;
  folder->allocator = options->allocator;
  folder->force = options->force;
  if (owner) folder->owner = *owner;
  folder->old_fd = -1;
  nabla_status status = nabla_place_open(&folder->place, os, path, 1, diag);
  if (!status) status = start(folder, options->permissions, diag);
  if (status)
    nabla_output_folder_destroy(folder);
  else
    *out = folder;
  return status;
}

/* Returns 1 if there is a folder to be replaced and it contains `path`. */
static int find_old(const nabla_output_folder *folder, const char *path,
                    nabla_os_info *out) {
  const nabla_os *os = folder->place.os;
  char full[NABLA_PATH_SIZE];
  int result;
  if (!nabla_place_join(full, folder->place.path, path)) return 0;
  NABLA_OS_RETRY(result, os->path_info(os->self, full, 0, out));
  return result >= 0;
}

int nabla_output_folder_replaces(const nabla_output_folder *folder,
                                 const char *path, nabla_os_info *out) {
  return find_old(folder, path, out) && out->is_file;
}

const char *nabla_output_folder_borrow_path(const nabla_output_folder *folder) {
  return folder->place.temp;
}

/* Syncs a folder inside the output, "" for the output itself, so that the names
 * in it are on the disk. */
static int sync_in(const nabla_place *place, const char *path) {
  const nabla_os *os = place->os;
  int fd = place->fd, result;
  if (*path)
    NABLA_OS_RETRY(fd,
                   os->open_at(os->self, place->fd, path, NABLA_OS_FOLDER, 0));
  if (fd < 0) return fd;
  NABLA_OS_RETRY(result, os->sync(os->self, fd));
  if (*path) os->close(os->self, fd);
  return result == -EINVAL ? 0 : result; /* as nabla_place_sync_folder */
}

/* Makes the folder `path`. If it replaces another folder, it gets the
 * permissions of that one; its owner may write to it in any case. Returns 0 or
 * -errno. */
static int make_folder(const nabla_output_folder *folder, const char *path,
                       unsigned permissions) {
  const nabla_place *place = &folder->place;
  const nabla_os *os = place->os;
  nabla_os_info old;
  const int replaces = find_old(folder, path, &old) && old.is_folder;
  if (!permissions) permissions = 0777;
  int fd, error;
  NABLA_OS_RETRY(error,
                 os->make_folder_at(os->self, place->fd, path,
                                    replaces ? 0700 : permissions | 0700));
  if (error < 0 || !replaces) return error;
  NABLA_OS_RETRY(fd,
                 os->open_at(os->self, place->fd, path, NABLA_OS_FOLDER, 0));
  if (fd < 0) return fd;
  old.permissions |= 0700;
  error = nabla_place_copy_mode(os, fd, &old);
  os->close(os->self, fd);
  return error;
}

nabla_status nabla_output_folder_add(const nabla_output_folder *folder,
                                     const char *path, unsigned permissions,
                                     nabla_diag *diag) {
  const nabla_place *place = &folder->place;
  char above[NABLA_PATH_SIZE] = "";
  const char *slash = strrchr(path, '/');
  const size_t size = slash ? (size_t)(slash - path) : 0;
  int error = -ENAMETOOLONG;
  if (size < sizeof above) error = make_folder(folder, path, permissions);
  if (error == -EEXIST) return NABLA_OK;
  if (error >= 0) {
    memcpy(above, path, size);
    error = sync_in(place, above);
  }
  if (error >= 0) return NABLA_OK;
  return nabla_place_fail(place, "make a folder in it", error, diag);
}

/* ---- replacing ---------------------------------------------------------- */

static int rename_path(const nabla_os *os, const char *from, const char *to,
                       nabla_os_rename_mode mode) {
  int result;
  NABLA_OS_RETRY(result, os->rename(os->self, from, to, mode));
  return result;
}

/* Locks the old folder: no other process may clean it up while it has the name
 * of a temporary, nor replace it at the same time. */
static nabla_status lock_old(nabla_output_folder *folder, nabla_diag *diag) {
  const nabla_place *place = &folder->place;
  const nabla_os *os = place->os;
  NABLA_OS_RETRY(folder->old_fd,
                 os->open(os->self, place->path, NABLA_OS_FOLDER));
  if (folder->old_fd < 0)
    return nabla_place_fail(place, "open the folder to replace", folder->old_fd,
                            diag);
  int result = nabla_place_lock(os, folder->old_fd);
  if (result >= 0)
    result = nabla_place_is_at(place, folder->old_fd, place->name);
  if (result == 1) return NABLA_OK;
  if (result < 0 && result != -EWOULDBLOCK)
    return nabla_place_fail(place, "lock the folder to replace", result, diag);
  return nabla_place_refuse(place, NABLA_IO,
                            "another process is replacing the folder",
                            "wait for it to finish, then run again", diag);
}

/* A clean-up does not look for names with ".old": a folder of such a name
 * stays. */
static int name_old(const nabla_place *place, char out[NABLA_PATH_SIZE]) {
  int length = snprintf(out, NABLA_PATH_SIZE, "%s.old", place->temp);
  return length > 0 && length < NABLA_PATH_SIZE;
}

/* Reports where the old folder is after it could not be restored. If it has the
 * name of the temporary, it is renamed, since the next run would remove it. */
static nabla_status fail_stranded(nabla_output_folder *folder, int error,
                                  nabla_diag *diag) {
  nabla_place *place = &folder->place;
  char safe[NABLA_PATH_SIZE];
  place->has_temp = 0; /* it may be the old folder: keep it */
  int exchanged = strcmp(folder->old_at, place->temp) == 0;
  int at_risk = exchanged;
  if (at_risk && name_old(place, safe) &&
      rename_path(place->os, place->temp, safe, NABLA_OS_NO_REPLACE) >= 0) {
    memcpy(folder->old_at, safe, sizeof safe);
    (void)nabla_place_sync_folder(place); /* the first failure is reported
                                           * already */
    at_risk = 0;
  }
  nabla_status status = nabla_place_fail(
      place,
      exchanged ? "put the old folder back after a failure; the new one is in "
                  "place"
                : "put the old folder back after a failure",
      error, diag);
  nabla_diag_set_next(diag, "rename it back%s from %s",
                      at_risk ? ", or the next run will remove it," : "",
                      folder->old_at);
  return status;
}

/* Replaces a folder with two renames, on systems that cannot exchange. If the
 * process is killed in between, the old folder stays under its ".old" name. */
static nabla_status swap_in_two_steps(nabla_output_folder *folder,
                                      nabla_diag *diag) {
  nabla_place *place = &folder->place;
  const nabla_os *os = place->os;
  if (!name_old(place, folder->old_at))
    return nabla_place_fail(place, "move the old folder aside", -ENAMETOOLONG,
                            diag);
  int error = rename_path(os, place->path, folder->old_at, NABLA_OS_NO_REPLACE);
  if (error < 0)
    return nabla_place_fail(place, "move the old folder aside", error, diag);
  error = rename_path(os, place->temp, place->path, NABLA_OS_NO_REPLACE);
  if (error >= 0) return NABLA_OK;
  int back = rename_path(os, folder->old_at, place->path, NABLA_OS_NO_REPLACE);
  if (back < 0) return fail_stranded(folder, back, diag);
  return nabla_place_fail(place, "rename the finished folder to its name",
                          error, diag);
}

static nabla_status swap_in(nabla_output_folder *folder, nabla_diag *diag) {
  nabla_place *place = &folder->place;
  int error =
      rename_path(place->os, place->temp, place->path, NABLA_OS_EXCHANGE);
  if (error == -ENOSYS || error == -EINVAL || error == -EOPNOTSUPP)
    return swap_in_two_steps(folder, diag);
  if (error < 0)
    return nabla_place_fail(place, "exchange the finished folder with the old",
                            error, diag);
  memcpy(folder->old_at, place->temp, NABLA_PATH_SIZE);
  return NABLA_OK;
}

/* Undoes swap_in, whose follow-up failed with `status`. */
static nabla_status swap_back(nabla_output_folder *folder, nabla_status status,
                              nabla_diag *diag) {
  nabla_place *place = &folder->place;
  const nabla_os *os = place->os;
  int exchanged = strcmp(folder->old_at, place->temp) == 0;
  int error = rename_path(os, place->path, place->temp,
                          exchanged ? NABLA_OS_EXCHANGE : NABLA_OS_NO_REPLACE);
  if (error >= 0 && !exchanged)
    error = rename_path(os, folder->old_at, place->path, NABLA_OS_NO_REPLACE);
  return error < 0 ? fail_stranded(folder, error, diag) : status;
}

static nabla_status replace(nabla_output_folder *folder, nabla_diag *diag) {
  nabla_place *place = &folder->place;
  NABLA_TRY(lock_old(folder, diag));
  NABLA_TRY(swap_in(folder, diag));
  /* another process may have added a file since the first check */
  nabla_status status = check_names(folder, folder->old_at, diag);
  int error = status ? 0 : nabla_place_sync_folder(place);
  if (error < 0)
    status =
        nabla_place_fail(place, "bring the exchange to the disk", error, diag);
  if (status) return swap_back(folder, status, diag);
  /* the temporary is now the old folder, which remains to be removed */
  memcpy(place->temp, folder->old_at, NABLA_PATH_SIZE);
  place->os->close(place->os->self, place->fd);
  place->fd = folder->old_fd;
  folder->old_fd = -1;
  place->has_temp = 1;
  error = nabla_place_remove_temp(place);
  if (error < 0) {
    status = nabla_place_fail(
        place, "remove the old folder; the new one is in place", error, diag);
    nabla_diag_set_next(diag, "remove %s", place->temp);
    return status;
  }
  return NABLA_OK;
}

static nabla_status finish(nabla_output_folder *folder, nabla_diag *diag) {
  nabla_place *place = &folder->place;
  nabla_os_info old;
  int exists;
  NABLA_TRY(check_target(folder, &old, &exists, diag));
  if (exists || folder->has_like)
    NABLA_TRY(nabla_place_set_mode(place, exists ? &old : &folder->like, diag));
  const int result = sync_in(place, "");
  if (result < 0)
    return nabla_place_fail(place, "bring it to the disk", result, diag);
  if (exists) return replace(folder, diag);
  return nabla_place_rename(place, NABLA_OS_NO_REPLACE, diag);
}

static void close_all(nabla_output_folder *folder) {
  const nabla_os *os = folder->place.os;
  nabla_place_close(&folder->place);
  if (folder->old_fd >= 0) os->close(os->self, folder->old_fd);
  folder->old_fd = -1;
}

nabla_status nabla_output_folder_commit(nabla_output_folder *folder,
                                        nabla_diag *diag) {
  nabla_status status = finish(folder, diag);
  close_all(folder);
  return status;
}

void nabla_output_folder_destroy(nabla_output_folder *folder) {
  if (!folder) return;
  close_all(folder);
  nabla_free(folder->allocator, folder, sizeof *folder, 1);
}
