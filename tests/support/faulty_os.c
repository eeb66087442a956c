/* See the header. Every call first asks `enter` whether it is to fail. */
#include "tests/support/faulty_os.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

/* 0, or what the call must return instead of being made. */
static int enter(faulty_os *faulty, faulty_call kind, const char *path) {
  int result = 0;
  pthread_mutex_lock(&faulty->lock);
  if (faulty->interrupt && kind != FAULTY_CLOSE) {
    faulty->interrupted[kind] = !faulty->interrupted[kind];
    if (faulty->interrupted[kind]) result = -EINTR;
  }
  if (!result) {
    faulty->calls[kind]++;
    faulty->calls[FAULTY_ANY]++;
    uint64_t count = faulty->calls[faulty->fail_kind];
    int counts = faulty->fail_kind == FAULTY_ANY || faulty->fail_kind == kind;
    if (counts && faulty->fail_at && count >= faulty->fail_at &&
        count - faulty->fail_at < faulty->fail_calls) {
      faulty->faults++;
      result = faulty->error;
    }
  }
  pthread_mutex_unlock(&faulty->lock);
  if (!result && faulty->before) faulty->before(faulty->context, kind, path);
  return result;
}

/* How much of `size` one transfer moves: all, or 1 to size / 2 bytes. */
static size_t shorten(faulty_os *faulty, size_t size) {
  if (!faulty->short_transfers || size < 2) return size;
  pthread_mutex_lock(&faulty->lock);
  faulty->random = faulty->random * 6364136223846793005u + 1442695040888963407u;
  size_t piece = 1 + (size_t)(faulty->random >> 33) % (size / 2);
  pthread_mutex_unlock(&faulty->lock);
  return piece;
}

static void count_fd(faulty_os *faulty, int step) {
  pthread_mutex_lock(&faulty->lock);
  faulty->open_fds += step;
  pthread_mutex_unlock(&faulty->lock);
}

static int do_open(void *self, const char *path, nabla_os_open_mode mode) {
  faulty_os *faulty = self;
  if (mode == NABLA_OS_UNNAMED && !faulty->has_unnamed) return -EOPNOTSUPP;
  int error = enter(faulty, FAULTY_OPEN, path);
  if (error) return error;
  int fd = faulty->inner->open(faulty->inner->self, path, mode);
  if (fd >= 0) count_fd(faulty, 1);
  return fd;
}

static int do_close(void *self, int fd) {
  faulty_os *faulty = self;
  int error = enter(faulty, FAULTY_CLOSE, NULL);
  count_fd(faulty, -1);
  int result = faulty->inner->close(faulty->inner->self, fd);
  return error ? error : result;
}

static int64_t do_pread(void *self, int fd, void *out, size_t size,
                        uint64_t at) {
  faulty_os *faulty = self;
  int error = enter(faulty, FAULTY_PREAD, NULL);
  if (error) return error;
  return faulty->inner->pread(faulty->inner->self, fd, out,
                              shorten(faulty, size), at);
}

static int64_t do_pwrite(void *self, int fd, const void *in, size_t size,
                         uint64_t at) {
  faulty_os *faulty = self;
  int error = enter(faulty, FAULTY_PWRITE, NULL);
  if (error) return error;
  pthread_mutex_lock(&faulty->lock);
  const int moves =
      !faulty->zero_from || faulty->calls[FAULTY_PWRITE] < faulty->zero_from;
  pthread_mutex_unlock(&faulty->lock);
  if (!moves) return 0;
  size = shorten(faulty, size);
  if (faulty->space != UINT64_MAX) {
    pthread_mutex_lock(&faulty->lock);
    if (size > faulty->space) size = (size_t)faulty->space;
    faulty->space -= size;
    pthread_mutex_unlock(&faulty->lock);
    if (size == 0) return -ENOSPC;
  }
  return faulty->inner->pwrite(faulty->inner->self, fd, in, size, at);
}

static int do_sync(void *self, int fd) {
  faulty_os *faulty = self;
  int error = enter(faulty, FAULTY_SYNC, NULL);
  return error ? error : faulty->inner->sync(faulty->inner->self, fd);
}

static int do_lock(void *self, int fd) {
  faulty_os *faulty = self;
  int error = enter(faulty, FAULTY_LOCK, NULL);
  return error ? error : faulty->inner->lock(faulty->inner->self, fd);
}

static int do_info(void *self, int fd, nabla_os_info *out) {
  faulty_os *faulty = self;
  int error = enter(faulty, FAULTY_INFO, NULL);
  return error ? error : faulty->inner->info(faulty->inner->self, fd, out);
}

static int do_path_info(void *self, const char *path, int follow,
                        nabla_os_info *out) {
  faulty_os *faulty = self;
  int error = enter(faulty, FAULTY_PATH_INFO, path);
  if (error) return error;
  return faulty->inner->path_info(faulty->inner->self, path, follow, out);
}

static int do_rename(void *self, const char *from, const char *to,
                     nabla_os_rename_mode mode) {
  faulty_os *faulty = self;
  int error = enter(faulty, FAULTY_RENAME, from);
  if (error) return error;
  return faulty->inner->rename(faulty->inner->self, from, to, mode);
}

static int do_unlink(void *self, const char *path) {
  faulty_os *faulty = self;
  int error = enter(faulty, FAULTY_UNLINK, path);
  return error ? error : faulty->inner->unlink(faulty->inner->self, path);
}

static int do_list(void *self, const char *path,
                   int (*each)(void *context, const char *name),
                   void *context) {
  faulty_os *faulty = self;
  int error = enter(faulty, FAULTY_LIST, path);
  if (error) return error;
  return faulty->inner->list(faulty->inner->self, path, each, context);
}

static int do_free_bytes(void *self, const char *path, uint64_t *out) {
  faulty_os *faulty = self;
  int error = enter(faulty, FAULTY_FREE_BYTES, path);
  if (error) return error;
  if (faulty->space == UINT64_MAX)
    return faulty->inner->free_bytes(faulty->inner->self, path, out);
  *out = faulty->space;
  return 0;
}

/* ---- relative to a folder: `before` sees whole paths -------------------- */

static const char *join(faulty_os *faulty, int folder, const char *name,
                        char out[PATH_MAX + 256]) {
  if (!faulty->before) return name;
  if (faulty->inner->path_of(faulty->inner->self, folder, out, PATH_MAX) < 0)
    return name;
  const size_t used = strlen(out);
  (void)snprintf(out + used, 256, "/%s", name);
  return out;
}

static int do_open_at(void *self, int folder, const char *path,
                      nabla_os_open_mode mode, unsigned permissions) {
  faulty_os *faulty = self;
  char full[PATH_MAX + 256];
  int error = enter(faulty, FAULTY_OPEN, join(faulty, folder, path, full));
  if (error) return error;
  int fd = faulty->inner->open_at(faulty->inner->self, folder, path, mode,
                                  permissions);
  if (fd >= 0) count_fd(faulty, 1);
  return fd;
}

static int do_make_folder_at(void *self, int folder, const char *path,
                             unsigned permissions) {
  faulty_os *faulty = self;
  char full[PATH_MAX + 256];
  int error =
      enter(faulty, FAULTY_MAKE_FOLDER, join(faulty, folder, path, full));
  if (error) return error;
  return faulty->inner->make_folder_at(faulty->inner->self, folder, path,
                                       permissions);
}

static int do_info_at(void *self, int folder, const char *name,
                      nabla_os_info *out) {
  faulty_os *faulty = self;
  char full[PATH_MAX + 256];
  int error = enter(faulty, FAULTY_PATH_INFO, join(faulty, folder, name, full));
  if (error) return error;
  return faulty->inner->info_at(faulty->inner->self, folder, name, out);
}

static int do_unlink_at(void *self, int folder, const char *name) {
  faulty_os *faulty = self;
  char full[PATH_MAX + 256];
  int error = enter(faulty, FAULTY_UNLINK, join(faulty, folder, name, full));
  if (error) return error;
  return faulty->inner->unlink_at(faulty->inner->self, folder, name);
}

static int do_remove_folder_at(void *self, int folder, const char *name) {
  faulty_os *faulty = self;
  char full[PATH_MAX + 256];
  int error =
      enter(faulty, FAULTY_REMOVE_FOLDER, join(faulty, folder, name, full));
  if (error) return error;
  return faulty->inner->remove_folder_at(faulty->inner->self, folder, name);
}

static int do_list_at(void *self, int folder,
                      int (*each)(void *context, const char *name),
                      void *context) {
  faulty_os *faulty = self;
  int error = enter(faulty, FAULTY_LIST, NULL);
  if (error) return error;
  return faulty->inner->list_at(faulty->inner->self, folder, each, context);
}

static int do_set_mode(void *self, int fd, const nabla_os_info *like) {
  faulty_os *faulty = self;
  int error = enter(faulty, FAULTY_SET_MODE, NULL);
  return error ? error : faulty->inner->set_mode(faulty->inner->self, fd, like);
}

static int do_path_of(void *self, int fd, char *out, size_t size) {
  faulty_os *faulty = self;
  int error = enter(faulty, FAULTY_PATH_OF, NULL);
  if (error) return error;
  return faulty->inner->path_of(faulty->inner->self, fd, out, size);
}

static int do_start_sync(void *self, int fd) {
  faulty_os *faulty = self;
  int error = enter(faulty, FAULTY_START_SYNC, NULL);
  if (error || !faulty->inner->start_sync) return error;
  return faulty->inner->start_sync(faulty->inner->self, fd);
}

void faulty_os_init(faulty_os *faulty, const nabla_os *inner) {
  *faulty = (faulty_os){
      .os = {.self = faulty,
             .open = do_open,
             .close = do_close,
             .pread = do_pread,
             .pwrite = do_pwrite,
             .sync = do_sync,
             .lock = do_lock,
             .info = do_info,
             .path_info = do_path_info,
             .rename = do_rename,
             .unlink = do_unlink,
             .list = do_list,
             .free_bytes = do_free_bytes,
             .start_sync = do_start_sync,
             .open_at = do_open_at,
             .make_folder_at = do_make_folder_at,
             .info_at = do_info_at,
             .unlink_at = do_unlink_at,
             .remove_folder_at = do_remove_folder_at,
             .list_at = do_list_at,
             .set_mode = do_set_mode,
             .path_of = do_path_of},
      .inner = inner ? inner : nabla_os_default(),
      .fail_calls = 1,
      .fail_kind = FAULTY_ANY,
      .error = -EIO,
      .space = UINT64_MAX,
      .random = 1,
  };
  pthread_mutex_init(&faulty->lock, NULL);
}
