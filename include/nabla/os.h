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
} nabla_os_info;

typedef enum nabla_os_rename_mode {
  NABLA_OS_REPLACE,    /* over whatever is there                         */
  NABLA_OS_NO_REPLACE, /* fails with -EEXIST                            */
  NABLA_OS_EXCHANGE,   /* swaps the two; both must exist                 */
} nabla_os_rename_mode;

typedef enum nabla_os_open_mode {
  NABLA_OS_READ,       /* an existing file, for reading                 */
  NABLA_OS_CREATE_NEW, /* a new file, mode 0666 less umask, read-write  */
  NABLA_OS_FOLDER,     /* a folder, to sync or lock it                  */
} nabla_os_open_mode;

/* Every function returns a value >= 0, or -errno. `pread` and `pwrite` may
 * transfer less than asked, or return -EINTR: lib/base/file.h retries. All may
 * be called from several threads at once. */
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
  int (*make_folder)(void *self, const char *path);
  int (*remove_folder)(void *self, const char *path);
  /* calls `each` for every name but "." and ".."; stops when it returns
   * non-zero and returns that */
  int (*list)(void *self, const char *path,
              int (*each)(void *context, const char *name), void *context);
  int (*free_bytes)(void *self, const char *path, uint64_t *out);
  /* begins to bring to the disk what was written, without waiting for it: a
   * hint, whose result nobody looks at; may be NULL */
  int (*start_sync)(void *self, int fd);
} nabla_os;

/* Returns the table that stands behind NULL: the real system calls. */
NABLA_API const nabla_os *nabla_os_default(void);

#ifdef __cplusplus
}
#endif

#endif
