/* The real system calls behind nabla_os. Nothing here retries short transfers
 * or keeps state: policy belongs to the callers. */
#include "nabla/os.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "lib/base/checked.h"

static int or_errno(int result) { return result < 0 ? -errno : result; }

/* READ follows links, as every reader does, and does not block on a FIFO that
 * nobody writes to; the caller refuses it once `info` says what it is. */
static int os_open(void *self, const char *path, nabla_os_open_mode mode) {
  (void)self;
  switch (mode) {
    case NABLA_OS_READ:
      return or_errno(open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    case NABLA_OS_CREATE_NEW:
      return or_errno(
          open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666));
    case NABLA_OS_FOLDER:
      return or_errno(open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  }
  return -EINVAL;
}

static int os_close(void *self, int fd) {
  (void)self;
  return or_errno(close(fd));
}

static int64_t os_pread(void *self, int fd, void *out, size_t size,
                        uint64_t at) {
  (void)self;
  if (at > INT64_MAX) return -EINVAL;
  ssize_t got = pread(fd, out, size, (off_t)at);
  return got < 0 ? -errno : got;
}

static int64_t os_pwrite(void *self, int fd, const void *in, size_t size,
                         uint64_t at) {
  (void)self;
  if (at > INT64_MAX) return -EFBIG;
  ssize_t put = pwrite(fd, in, size, (off_t)at);
  return put < 0 ? -errno : put;
}

static int os_sync(void *self, int fd) {
  (void)self;
  return or_errno(fsync(fd));
}

static int os_start_sync(void *self, int fd) {
  (void)self;
  return or_errno(sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE));
}

static int os_lock(void *self, int fd) {
  (void)self;
  return or_errno(flock(fd, LOCK_EX | LOCK_NB));
}

static int64_t nanoseconds(struct timespec time) {
  int64_t whole, sum;
  if (__builtin_mul_overflow((int64_t)time.tv_sec, 1000000000, &whole) ||
      __builtin_add_overflow(whole, (int64_t)time.tv_nsec, &sum))
    return time.tv_sec < 0 ? INT64_MIN : INT64_MAX;
  return sum;
}

static void fill_info(const struct stat *from, nabla_os_info *out) {
  *out = (nabla_os_info){
      .size = from->st_size > 0 ? (uint64_t)from->st_size : 0,
      .device = (uint64_t)from->st_dev,
      .inode = (uint64_t)from->st_ino,
      .changed_ns = nanoseconds(from->st_mtim),
      .is_file = S_ISREG(from->st_mode),
      .is_folder = S_ISDIR(from->st_mode),
      .is_link = S_ISLNK(from->st_mode),
  };
}

static int os_info(void *self, int fd, nabla_os_info *out) {
  (void)self;
  struct stat now;
  if (fstat(fd, &now) < 0) return -errno;
  fill_info(&now, out);
  return 0;
}

static int os_path_info(void *self, const char *path, int follow,
                        nabla_os_info *out) {
  (void)self;
  struct stat now;
  if ((follow ? stat(path, &now) : lstat(path, &now)) < 0) return -errno;
  fill_info(&now, out);
  return 0;
}

static int lacks_mode(int error) {
  return error == -EINVAL || error == -ENOSYS || error == -EOPNOTSUPP;
}

/* For filesystems without RENAME_NOREPLACE. A hard link never replaces; when
 * the old name then cannot be removed, the new one is whole, which counts, and
 * the old one is left to the next clean-up. A folder, or a filesystem without
 * hard links, gets look-then-rename: a plain rename of a folder replaces at
 * most an empty one, so only a file on a filesystem that lacks both ways can
 * lose a race of microseconds. */
static int rename_no_replace(const char *from, const char *to) {
  if (link(from, to) == 0) {
    (void)!unlink(from);
    return 0;
  }
  int error = -errno;
  if (error != -EPERM && error != -EMLINK && !lacks_mode(error)) return error;
  struct stat there;
  if (lstat(to, &there) == 0) return -EEXIST;
  if (errno != ENOENT) return -errno;
  return or_errno(rename(from, to));
}

static int os_rename(void *self, const char *from, const char *to,
                     nabla_os_rename_mode mode) {
  (void)self;
  if (mode == NABLA_OS_REPLACE) return or_errno(rename(from, to));
  unsigned flags =
      mode == NABLA_OS_EXCHANGE ? RENAME_EXCHANGE : RENAME_NOREPLACE;
  int result = or_errno(renameat2(AT_FDCWD, from, AT_FDCWD, to, flags));
  if (mode == NABLA_OS_NO_REPLACE && lacks_mode(result))
    return rename_no_replace(from, to);
  return result;
}

static int os_unlink(void *self, const char *path) {
  (void)self;
  return or_errno(unlink(path));
}

static int os_make_folder(void *self, const char *path) {
  (void)self;
  return or_errno(mkdir(path, 0777));
}

static int os_remove_folder(void *self, const char *path) {
  (void)self;
  return or_errno(rmdir(path));
}

static int os_list(void *self, const char *path,
                   int (*each)(void *context, const char *name),
                   void *context) {
  (void)self;
  DIR *folder = opendir(path);
  if (!folder) return -errno;
  int result = 0;
  while (!result) {
    errno = 0;
    const struct dirent *entry = readdir(folder);
    if (!entry) {
      result = -errno;
      break;
    }
    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
      continue;
    result = each(context, entry->d_name);
  }
  closedir(folder);
  return result;
}

static int os_free_bytes(void *self, const char *path, uint64_t *out) {
  (void)self;
  struct statvfs there;
  if (statvfs(path, &there) < 0) return -errno;
  uint64_t bytes;
  if (!nabla_mul_u64(there.f_bavail, there.f_frsize, &bytes))
    bytes = UINT64_MAX;
  *out = bytes;
  return 0;
}

const nabla_os *nabla_os_default(void) {
  static const nabla_os real = {
      .self = NULL,
      .open = os_open,
      .close = os_close,
      .pread = os_pread,
      .pwrite = os_pwrite,
      .sync = os_sync,
      .lock = os_lock,
      .info = os_info,
      .path_info = os_path_info,
      .rename = os_rename,
      .unlink = os_unlink,
      .make_folder = os_make_folder,
      .remove_folder = os_remove_folder,
      .list = os_list,
      .free_bytes = os_free_bytes,
      .start_sync = os_start_sync,
  };
  return &real;
}
