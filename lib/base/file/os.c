/* The real system calls behind nabla_os. Nothing here retries short transfers
 * or keeps state: policy belongs to the callers. */
#include "nabla/os.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lib/base/checked.h"

static int or_errno(int result) { return result < 0 ? -errno : result; }

/* READ does not block on a FIFO that has no writer; the caller refuses it once
 * `info` says what it is. */
static int flags_of(nabla_os_open_mode mode) {
  switch (mode) {
    case NABLA_OS_READ:
      return O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
    case NABLA_OS_CREATE_NEW:
      return O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    case NABLA_OS_FOLDER:
      return O_RDONLY | O_DIRECTORY | O_CLOEXEC;
    case NABLA_OS_LOCATE:
      return O_PATH | O_CLOEXEC;
    case NABLA_OS_UNNAMED:
      return O_RDWR | O_TMPFILE | O_EXCL | O_CLOEXEC;
  }
  return -EINVAL;
}

/* Follows links, as every reader does. */
static int os_open(void *self, const char *path, nabla_os_open_mode mode) {
  (void)self;
  const int flags = flags_of(mode);
  if (flags < 0) return flags;
  const int fd = or_errno(open(path, flags, 0600));
  /* kernels without O_TMPFILE take it for the folder */
  return fd == -EISDIR && mode == NABLA_OS_UNNAMED ? -EOPNOTSUPP : fd;
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
      .is_own = from->st_uid == geteuid(),
      .permissions = from->st_mode & 0777,
      .group = from->st_gid,
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

/* ---- relative to an open folder ----------------------------------------- */

/* For kernels before 5.6, which have no openat2: a part at a time. */
static int open_parts(int folder, const char *path, int flags, unsigned mode) {
  int at = folder;
  for (;;) {
    char part[256]; /* NAME_MAX and a NUL */
    const size_t length = strcspn(path, "/");
    const int is_last = !path[length];
    if (length >= sizeof part) return -ENAMETOOLONG;
    memcpy(part, path, length);
    part[length] = '\0';
    const int next =
        is_last
            ? openat(at, part, flags | O_NOFOLLOW, mode)
            : openat(at, part, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    const int error = next < 0 ? -errno : 0;
    if (at != folder) close(at);
    if (error) return error;
    if (is_last) return next;
    at = next;
    path += length + 1;
  }
}

static int os_open_at(void *self, int folder, const char *path,
                      nabla_os_open_mode mode, unsigned permissions) {
  (void)self;
  const int flags = flags_of(mode);
  if (flags < 0) return flags;
  /* the kernel refuses a mode where nothing is made */
  const struct open_how how = {
      .flags = (unsigned)flags,
      .mode = flags & O_CREAT ? permissions & 0777 : 0,
      .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};
  const long fd = syscall(SYS_openat2, folder, path, &how, sizeof how);
  if (fd >= 0) return (int)fd;
  if (errno != ENOSYS && errno != EPERM) return -errno;
  return open_parts(folder, path, flags, permissions & 0777);
}

static int os_info_at(void *self, int folder, const char *name,
                      nabla_os_info *out) {
  (void)self;
  struct stat now;
  if (fstatat(folder, name, &now, AT_SYMLINK_NOFOLLOW) < 0) return -errno;
  fill_info(&now, out);
  return 0;
}

static int os_unlink_at(void *self, int folder, const char *name) {
  (void)self;
  return or_errno(unlinkat(folder, name, 0));
}

static int os_make_folder_at(void *self, int folder, const char *path,
                             unsigned permissions) {
  const char *slash = strrchr(path, '/');
  char above[PATH_MAX];
  if (!slash) return or_errno(mkdirat(folder, path, permissions & 0777));
  if ((size_t)(slash - path) >= sizeof above) return -ENAMETOOLONG;
  memcpy(above, path, (size_t)(slash - path));
  above[slash - path] = '\0';
  const int fd = os_open_at(self, folder, above, NABLA_OS_LOCATE, 0);
  if (fd < 0) return fd;
  const int result = or_errno(mkdirat(fd, slash + 1, permissions & 0777));
  close(fd);
  return result;
}

static int os_remove_folder_at(void *self, int folder, const char *name) {
  (void)self;
  return or_errno(unlinkat(folder, name, AT_REMOVEDIR));
}

/* Not readdir, which allocates: what is known is removed when memory and
 * descriptors have come to an end. */
static int os_list_at(void *self, int folder,
                      int (*each)(void *context, const char *name),
                      void *context) {
  _Alignas(struct dirent64) char entries[8192];
  (void)self;
  if (lseek(folder, 0, SEEK_SET) < 0) return -errno;
  for (;;) {
    const ssize_t size = getdents64(folder, entries, sizeof entries);
    if (size <= 0) return size < 0 ? -errno : 0;
    for (ssize_t at = 0; at < size;) {
      const struct dirent64 *entry = (const void *)(entries + at);
      at += entry->d_reclen;
      if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
        continue;
      const int result = each(context, entry->d_name);
      if (result) return result;
    }
  }
}

static int os_list(void *self, const char *path,
                   int (*each)(void *context, const char *name),
                   void *context) {
  const int folder = os_open(self, path, NABLA_OS_FOLDER);
  if (folder < 0) return folder;
  const int result = os_list_at(self, folder, each, context);
  close(folder);
  return result;
}

/* The bits that a folder inherits from its parent (set-group-ID) stay. */
static int os_set_mode(void *self, int fd, const nabla_os_info *like) {
  (void)self;
  struct stat now;
  mode_t wanted = like->permissions & 0777;
  if (fstat(fd, &now) < 0) return -errno;
  if (now.st_gid != like->group && fchown(fd, (uid_t)-1, like->group) < 0)
    wanted &= (mode_t)~070 | (wanted & 07) << 3;
  return or_errno(fchmod(fd, wanted | (now.st_mode & 07000)));
}

static int os_path_of(void *self, int fd, char *out, size_t size) {
  (void)self;
  char link[64];
  struct stat now;
  (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  memset(out, 0, size);
  const ssize_t length = readlink(link, out, size);
  if (length < 0) return -errno;
  if (out[size - 1]) return -ENAMETOOLONG;
  if (fstat(fd, &now) < 0) return -errno;
  return now.st_nlink > 0 && *out == '/' ? 0 : -ENOENT;
}

/* ---- the table ---------------------------------------------------------- */

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
      .list = os_list,
      .free_bytes = os_free_bytes,
      .start_sync = os_start_sync,
      .open_at = os_open_at,
      .make_folder_at = os_make_folder_at,
      .info_at = os_info_at,
      .unlink_at = os_unlink_at,
      .remove_folder_at = os_remove_folder_at,
      .list_at = os_list_at,
      .set_mode = os_set_mode,
      .path_of = os_path_of,
  };
  return &real;
}
