/* The operating system behind one table, so that tests can make any call fail
 * and embedders can bring their own storage. */
#ifndef NABLA_OS_H
#define NABLA_OS_H

#include <stddef.h>
#include <stdint.h>

#include "nabla/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct nabla_os_info {
  uint64_t size;   /* bytes                                          */
  uint64_t device; /* with `inode`, says whether two paths are one   */
  uint64_t inode;
  int64_t changed_ns; /* time of last modification, nanoseconds         */
  int is_file, is_folder, is_link;
  int is_own;           /* it belongs to the user that the process runs as */
  unsigned permissions; /* the nine bits of chmod: 0644, ...              */
  uint32_t group;       /* number of its group                            */
} nabla_os_info;

typedef enum nabla_os_rename_mode {
  NABLA_OS_REPLACE,    /* over whatever is there                         */
  NABLA_OS_NO_REPLACE, /* fails with -EEXIST                            */
  NABLA_OS_EXCHANGE,   /* swaps the two; both must exist                 */
} nabla_os_rename_mode;

typedef enum nabla_os_open_mode {
  NABLA_OS_READ,       /* an existing file, for reading                 */
  NABLA_OS_CREATE_NEW, /* a new file, read-write; `open` makes it 0600  */
  NABLA_OS_FOLDER,     /* a folder, to sync, lock or list it            */
  NABLA_OS_LOCATE,     /* anything, for `info` and `path_of` alone: it is
                          not opened, so that a device does nothing     */
  NABLA_OS_UNNAMED,    /* a new file without a name in the folder `path`,
                          read-write: closing it, however the process ends,
                          removes it. -EOPNOTSUPP where there are none  */
} nabla_os_open_mode;

/* Every function returns a value >= 0, or -errno. `pread` and `pwrite` may
 * transfer less than asked, or return -EINTR: lib/base/file/file.h retries. All
 * may be called from several threads at once. */
typedef struct nabla_os {
  void *self;
  int (*open)(void *self, const char *path, nabla_os_open_mode mode);
  int (*close)(void *self, int fd);
  int64_t (*pread)(void *self, int fd, void *out, size_t size, uint64_t at);
  int64_t (*pwrite)(void *self, int fd, const void *in, size_t size,
                    uint64_t at);
  int (*sync)(void *self, int fd);
  /* 0 when this process now holds the advisory lock, -EWOULDBLOCK if another
   * does; released by close */
  int (*lock)(void *self, int fd);
  int (*info)(void *self, int fd, nabla_os_info *out);
  int (*path_info)(void *self, const char *path, int follow,
                   nabla_os_info *out);
  int (*rename)(void *self, const char *from, const char *to,
                nabla_os_rename_mode mode);
  int (*unlink)(void *self, const char *path);
  /* calls `each` for every name but "." and ".."; stops when it returns
   * non-zero and returns that */
  int (*list)(void *self, const char *path,
              int (*each)(void *context, const char *name), void *context);
  int (*free_bytes)(void *self, const char *path, uint64_t *out);
  /* begins to bring to the disk what was written, without waiting for it: a
   * hint, whose result is ignored; may be NULL */
  int (*start_sync)(void *self, int fd);

  /* Relative to the open folder `folder`, whatever its path leads to by now.
   * `path` begins with no slash and has no ".."; -ELOOP when a part of it is a
   * symbolic link. `permissions` are those of what is made, less umask. */
  int (*open_at)(void *self, int folder, const char *path,
                 nabla_os_open_mode mode, unsigned permissions);
  int (*make_folder_at)(void *self, int folder, const char *path,
                        unsigned permissions);
  /* The same with `name`, a single name: a link is itself what is meant. */
  int (*info_at)(void *self, int folder, const char *name, nabla_os_info *out);
  int (*unlink_at)(void *self, int folder, const char *name);
  int (*remove_folder_at)(void *self, int folder, const char *name);
  /* `list` of an open folder; needs neither memory nor a descriptor */
  int (*list_at)(void *self, int folder,
                 int (*each)(void *context, const char *name), void *context);
  /* gives what `fd` has open the permissions of `like`, and its group; where
   * that cannot be, its group may do no more than all others may */
  int (*set_mode)(void *self, int fd, const nabla_os_info *like);
  /* absolute path, free of links, of what `fd` has open; -ENOENT when it has
   * been removed, -ENAMETOOLONG when `size` bytes do not hold it */
  int (*path_of)(void *self, int fd, char *out, size_t size);
} nabla_os;

/* Returns the table that stands behind NULL: the real system calls. */
NABLA_API const nabla_os *nabla_os_default(void);

#ifdef __cplusplus
}
#endif

#endif
