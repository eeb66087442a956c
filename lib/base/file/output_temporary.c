/* Names, locks and removal of temporaries; see the header for the protocol. */
#include "lib/base/file/output_temporary.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/file/file.h"
#include "lib/base/file/os_call.h"

#define MARK ".nabla-"

/* Bytes of the name that a temporary keeps. A name has at most 255 bytes
 * (NAME_MAX), of which "." + MARK + PID + "-" + N (10 digits each) take 29, and
 * the ".old" of output_folder.c takes 4. */
#define NAME_KEPT 222

/* Names that are tried before the call fails. */
#define TRIES 10000

nabla_status nabla_place_fail(const nabla_place *place, const char *what,
                              int error, nabla_diag *diag) {
  return nabla_os_fail(place->os, place->folder, place->path, what, error,
                       diag);
}

nabla_status nabla_place_refuse(const nabla_place *place, nabla_status code,
                                const char *what, const char *next,
                                nabla_diag *diag) {
  nabla_status status = nabla_fail(diag, code, "%s", what);
  nabla_diag_set_file(diag, place->path);
  if (next) nabla_diag_set_next(diag, "%s", next);
  return status;
}

/* ---- names -------------------------------------------------------------- */

/* Returns 1 if the whole text fits. */
static int fits(int length) { return length >= 0 && length < NABLA_PATH_SIZE; }

/* `folder` is never empty. */
int nabla_place_join(char out[NABLA_PATH_SIZE], const char *folder,
                     const char *name) {
  const char *slash = folder[strlen(folder) - 1] == '/' ? "" : "/";
  return fits(snprintf(out, NABLA_PATH_SIZE, "%s%s%s", folder, slash, name));
}

/* Returns the bytes of `name` that a temporary keeps; never splits a UTF-8
 * sequence, which some file systems would refuse. */
static int kept(const char *name) {
  size_t length = strlen(name);
  if (length <= NAME_KEPT) return (int)length;
  int cut = NAME_KEPT;
  while (cut > 0 && ((unsigned char)name[cut] & 0xc0) == 0x80) cut--;
  return cut;
}

static int name_temp(nabla_place *place, unsigned number) {
  char name[256];
  int length = snprintf(name, sizeof name, ".%.*s" MARK "%ld-%u",
                        kept(place->name), place->name, (long)getpid(), number);
  if (length <= 0 || (size_t)length >= sizeof name ||
      !nabla_place_join(place->temp, place->folder, name))
    return 0;
  place->temp_name = (int)strlen(place->temp) - length;
  return 1;
}

/* Returns the temporary's name without its folder. */
static const char *temp_name(const nabla_place *place) {
  return place->temp + place->temp_name;
}

static const char *skip_digits(const char *text) {
  return text + strspn(text, "0123456789");
}

/* Returns 1 if `name` is exactly ".NAME.nabla-DIGITS-DIGITS". */
static int is_temp_name(const nabla_place *place, const char *name) {
  size_t length = (size_t)kept(place->name);
  if (*name++ != '.' || strncmp(name, place->name, length) != 0) return 0;
  name += length;
  if (strncmp(name, MARK, sizeof MARK - 1) != 0) return 0;
  const char *pid = name + sizeof MARK - 1, *dash = skip_digits(pid);
  if (dash == pid || *dash != '-') return 0;
  const char *number = dash + 1, *end = skip_digits(number);
  return end != number && !*end;
}

static nabla_status split(nabla_place *place, const char *path, int is_folder,
                          nabla_diag *diag) {
  size_t length = path ? strlen(path) : 0;
  if (length == 0)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT, "the path is empty");
  if (length >= NABLA_PATH_SIZE) {
    nabla_status status =
        nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                   "the path is longer than %d bytes", NABLA_PATH_SIZE - 1);
    nabla_diag_set_file(diag, path);
    return status;
  }
  memcpy(place->path, path, length + 1);
  while (is_folder && length > 1 && place->path[length - 1] == '/')
    place->path[--length] = 0;
  const char *slash = strrchr(place->path, '/');
  const char *name = slash ? slash + 1 : place->path;
  if (!*name || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
    return nabla_place_refuse(place, NABLA_INVALID_ARGUMENT,
                              is_folder ? "the path has no name at its end"
                                        : "the path names a folder, not a file",
                              "end the path with the name of the output", diag);
  memcpy(place->name, name, strlen(name) + 1);
  size_t head = slash ? (size_t)(slash - place->path) : 0;
  while (head > 0 && place->path[head - 1] == '/') head--;
  memcpy(place->folder, place->path, head);
  place->folder[head] = 0;
  if (head == 0) memcpy(place->folder, slash ? "/" : ".", 2);
  return NABLA_OK;
}

nabla_status nabla_place_open(nabla_place *place, const nabla_os *os,
                              const char *path, int is_folder,
                              nabla_diag *diag) {
  place->os = os;
  place->fd = place->folder_fd = -1;
  place->has_temp = place->is_part = 0;
  NABLA_TRY(split(place, path, is_folder, diag));
  NABLA_OS_RETRY(place->folder_fd,
                 os->open(os->self, place->folder, NABLA_OS_FOLDER));
  if (place->folder_fd < 0)
    return nabla_place_fail(place, "open its folder", place->folder_fd, diag);
  return NABLA_OK;
}

/* ---- locks -------------------------------------------------------------- */

int nabla_place_lock(const nabla_os *os, int fd) {
  int result;
  NABLA_OS_RETRY(result, os->lock(os->self, fd));
  /* EBADF: NFS locks only what is open for writing, never a folder */
  if (result == -ENOLCK || result == -ENOSYS || result == -EOPNOTSUPP ||
      result == -EBADF)
    return 0;
  return result;
}

int nabla_place_is_at(const nabla_place *place, int fd, const char *name) {
  const nabla_os *os = place->os;
  nabla_os_info open, there;
  int result;
  NABLA_OS_RETRY(result, os->info(os->self, fd, &open));
  if (result < 0) return result;
  NABLA_OS_RETRY(result, os->info_at(os->self, place->folder_fd, name, &there));
  if (result == -ENOENT) return 0;
  return result < 0 ? result : nabla_os_same(&open, &there);
}

/* ---- removal ------------------------------------------------------------ */

/* One folder that is being emptied. Whatever the depth, only one folder below
 * the first is open at a time, since descriptors may be scarce. */
typedef struct emptying {
  const nabla_os *os;
  int fd;                     /* the folder                              */
  uint64_t removed;           /* names                                   */
  char full[NABLA_PATH_SIZE]; /* a folder in it that is not empty, or "" */
} emptying;

/* Stops (returns 1) at a folder that must be emptied first. */
static int remove_one(void *context, const char *name) {
  emptying *job = context;
  const nabla_os *os = job->os;
  int result;
  NABLA_OS_RETRY(result, os->unlink_at(os->self, job->fd, name));
  if (result == -EISDIR)
    NABLA_OS_RETRY(result, os->remove_folder_at(os->self, job->fd, name));
  if (result == -ENOTEMPTY || result == -EEXIST) {
    memcpy(job->full, name, strlen(name) + 1); /* NAME_MAX is smaller */
    return 1;
  }
  job->removed += result >= 0;
  return result;
}

/* Adds the owner's permissions to a folder of this user, so that its entries
 * can be removed. Errors are ignored, since the removal reports them. */
static void unprotect(const nabla_os *os, int fd) {
  nabla_os_info info;
  int result;
  NABLA_OS_RETRY(result, os->info(os->self, fd, &info));
  if (result < 0 || !info.is_own || (info.permissions & 0700) == 0700) return;
  info.permissions |= 0700;
  (void)nabla_place_copy_mode(os, fd, &info);
}

/* Empties the folder `path` in the open folder `root`; "" is `root` itself.
 * Recursion is bounded by the depth. */
static int empty(const nabla_os *os, int root, const char *path, int depth) {
  emptying job = {.os = os, .fd = root};
  char below[NABLA_PATH_SIZE];
  int result;
  if (depth > NABLA_OUTPUT_MAX_DEPTH) return -ELOOP;
  do { /* repeat: a listing may miss names while others are removed */
    job.full[0] = '\0';
    job.removed = 0;
    if (*path)
      NABLA_OS_RETRY(job.fd,
                     os->open_at(os->self, root, path, NABLA_OS_FOLDER, 0));
    if (job.fd < 0) return job.fd;
    unprotect(os, job.fd);
    NABLA_OS_RETRY(result, os->list_at(os->self, job.fd, remove_one, &job));
    if (*path) os->close(os->self, job.fd);
    if (result < 0) return result;
    if (result == 0) continue;
    if (!*path)
      memcpy(below, job.full, sizeof below);
    else if (!nabla_place_join(below, path, job.full))
      return -ENAMETOOLONG;
    result = empty(os, root, below, depth + 1);
    if (result < 0) return result;
  } while (job.removed > 0 || job.full[0]);
  return 0;
}

int nabla_place_empty_folder(const nabla_os *os, int fd) {
  return empty(os, fd, "", 0);
}

/* Removes `name`, which is open at `fd`, after its contents. */
static int remove_name(const nabla_place *place, int fd, const char *name,
                       int is_folder) {
  const nabla_os *os = place->os;
  int result = is_folder ? nabla_place_empty_folder(os, fd) : 0;
  if (result < 0) return result;
  if (is_folder)
    NABLA_OS_RETRY(result,
                   os->remove_folder_at(os->self, place->folder_fd, name));
  else
    NABLA_OS_RETRY(result, os->unlink_at(os->self, place->folder_fd, name));
  return result;
}

/* Removes the temporary `name` if it belongs to this user, its lock is free,
 * and it is still the file that was locked. Unlike nabla_place_lock, this
 * requires a lock that the file system supports. */
static void remove_if_free(const nabla_place *place, const char *name) {
  const nabla_os *os = place->os;
  nabla_os_info info;
  int fd, result;
  NABLA_OS_RETRY(result, os->info_at(os->self, place->folder_fd, name, &info));
  if (result < 0 || !(info.is_file || info.is_folder) || !info.is_own) return;
  nabla_os_open_mode mode = info.is_folder ? NABLA_OS_FOLDER : NABLA_OS_READ;
  NABLA_OS_RETRY(fd, os->open_at(os->self, place->folder_fd, name, mode, 0));
  if (fd < 0) return;
  NABLA_OS_RETRY(result, os->info(os->self, fd, &info));
  if (result >= 0 && info.is_own) {
    NABLA_OS_RETRY(result, os->lock(os->self, fd));
    if (result >= 0 && nabla_place_is_at(place, fd, name) == 1)
      (void)remove_name(place, fd, name, info.is_folder);
  }
  os->close(os->self, fd);
}

static int remove_stale(void *context, const char *name) {
  const nabla_place *place = context;
  if (is_temp_name(place, name)) remove_if_free(place, name);
  return 0;
}

void nabla_place_remove_stale(const nabla_place *place) {
  const nabla_os *os = place->os;
  int result; /* ignored: see the header */
  NABLA_OS_RETRY(result, os->list_at(os->self, place->folder_fd, remove_stale,
                                     (void *)place));
}

int nabla_place_remove_temp(nabla_place *place) {
  if (!place->has_temp) return 0;
  const int result =
      remove_name(place, place->fd, temp_name(place), place->temp_is_folder);
  if (result >= 0) place->has_temp = 0;
  return result;
}

static void close_fd(const nabla_os *os, int *fd) {
  if (*fd >= 0) os->close(os->self, *fd);
  *fd = -1;
}

void nabla_place_close(nabla_place *place) {
  (void)nabla_place_remove_temp(place); /* while its lock is held */
  place->has_temp = 0;
  close_fd(place->os, &place->fd);
  close_fd(place->os, &place->folder_fd);
}

/* ---- the temporary ------------------------------------------------------ */

/* Makes `place->temp` and opens it. -EEXIST: the name was taken, or a clean-up
 * of another process removed the folder between the two steps. */
static int make(nabla_place *place, unsigned permissions) {
  const nabla_os *os = place->os;
  const char *name = temp_name(place);
  int result;
  if (!place->temp_is_folder) {
    NABLA_OS_RETRY(place->fd, os->open_at(os->self, place->folder_fd, name,
                                          NABLA_OS_CREATE_NEW, permissions));
    place->has_temp = place->fd >= 0;
    return place->fd;
  }
  NABLA_OS_RETRY(result, os->make_folder_at(os->self, place->folder_fd, name,
                                            permissions | 0700));
  if (result < 0) return result;
  NABLA_OS_RETRY(place->fd, os->open_at(os->self, place->folder_fd, name,
                                        NABLA_OS_FOLDER, 0));
  place->has_temp = place->fd >= 0;
  if (place->fd >= 0) return place->fd;
  if (place->fd == -ENOENT) return -EEXIST;
  /* empty, and made here: without a descriptor it can only be removed by name
   */
  NABLA_OS_RETRY(result,
                 os->remove_folder_at(os->self, place->folder_fd, name));
  return place->fd;
}

/* Makes and locks one temporary. Returns 1 on success, 0 if the name or the
 * lock was taken (the next name may be free), else -errno. If another process
 * has locked the temporary, it is removed here: that process need not be a
 * clean-up, and the temporary would be published with its folder. */
static int try_temp(nabla_place *place, unsigned permissions) {
  int result = make(place, permissions);
  if (result == -EEXIST) return 0;
  if (result < 0) return result;
  const int locked = nabla_place_lock(place->os, place->fd);
  result = nabla_place_is_at(place, place->fd, temp_name(place));
  if (result == 0) place->has_temp = 0; /* it belongs to another process */
  if (locked >= 0 && result == 1) return 1;
  if (result >= 0) result = locked >= 0 || locked == -EWOULDBLOCK ? 0 : locked;
  (void)nabla_place_remove_temp(place);
  place->has_temp = 0;
  close_fd(place->os, &place->fd);
  return result;
}

nabla_status nabla_place_make_temp(nabla_place *place, int is_folder,
                                   unsigned permissions, nabla_diag *diag) {
  int result = 0;
  place->temp_is_folder = is_folder;
  for (unsigned i = 0; i < TRIES && result == 0; i++) {
    if (!name_temp(place, i)) {
      result = -ENAMETOOLONG;
      break;
    }
    result = try_temp(place, permissions);
  }
  if (result == 1) return NABLA_OK;
  return nabla_place_fail(place, "create a temporary beside it",
                          result ? result : -EEXIST, diag);
}

int nabla_place_copy_mode(const nabla_os *os, int fd,
                          const nabla_os_info *like) {
  int result;
  NABLA_OS_RETRY(result, os->set_mode(os->self, fd, like));
  return result == -EPERM || result == -ENOSYS || result == -EOPNOTSUPP ||
                 result == -EINVAL
             ? 0
             : result;
}

nabla_status nabla_place_set_mode(const nabla_place *place,
                                  const nabla_os_info *like, nabla_diag *diag) {
  const int result = nabla_place_copy_mode(place->os, place->fd, like);
  if (result >= 0) return NABLA_OK;
  return nabla_place_fail(place, "set its permissions", result, diag);
}

/* ---- the final name ----------------------------------------------------- */

int nabla_place_sync_folder(const nabla_place *place) {
  int result;
  NABLA_OS_RETRY(result, place->os->sync(place->os->self, place->folder_fd));
  /* EINVAL: this file system cannot sync folders, and need not */
  return result == -EINVAL ? 0 : result;
}

nabla_status nabla_place_rename(nabla_place *place, nabla_os_rename_mode mode,
                                nabla_diag *diag) {
  const nabla_os *os = place->os;
  int result;
  NABLA_OS_RETRY(result, os->rename(os->self, place->temp, place->path, mode));
  if (result == -EEXIST)
    return nabla_place_refuse(place, NABLA_EXISTS,
                              "it appeared while the output was being written",
                              "choose another name, or allow replacing it "
                              "(force)",
                              diag);
  if (result < 0)
    return nabla_place_fail(place, "rename the finished output to its name",
                            result, diag);
  place->has_temp = 0;
  result = nabla_place_sync_folder(place);
  if (result >= 0) return NABLA_OK;
  if (place->is_part)
    return nabla_place_fail(place, "bring its name to the disk", result, diag);
  nabla_status status = nabla_place_fail(
      place,
      "sync its folder: it is in place, but its name may not survive a power "
      "loss",
      result, diag);
  nabla_diag_set_next(diag, "run `sync`, and check the disk");
  return status;
}
