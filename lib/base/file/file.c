/* Files open for reading: by position only, so that threads share a handle. */
#include "lib/base/file/file.h"

#include <inttypes.h>
#include <string.h>

#include "lib/base/checked.h"
#include "lib/base/file/os_call.h"
#include "lib/base/memory.h"

/* Linux moves at most 2^31 - 4096 bytes a call; a round cap below that keeps
 * the pieces aligned. */
#define PIECE ((size_t)1 << 30)

struct nabla_file {
  const nabla_os *os;
  const nabla_allocator *allocator;
  nabla_os_info info; /* as it was when opened */
  size_t bytes;       /* of this allocation */
  int fd;
  char path[];
};

static nabla_status make(const nabla_os *os, const nabla_allocator *allocator,
                         const char *path, nabla_file **out, nabla_diag *diag) {
  size_t length = strlen(path), bytes;
  if (!nabla_add_size(length, sizeof(nabla_file) + 1, &bytes))
    return nabla_fail(diag, NABLA_TOO_LARGE, "the path is too long");
  void *block;
  NABLA_TRY(nabla_alloc(allocator, bytes, 1, &block, diag));
  nabla_file *file = block;
  file->os = os;
  file->allocator = allocator;
  file->bytes = bytes;
  file->fd = -1;
  memcpy(file->path, path, length + 1);
  *out = file;
  return NABLA_OK;
}

static nabla_status attach(nabla_file *file, nabla_diag *diag) {
  const nabla_os *os = file->os;
  int result;
  NABLA_OS_RETRY(file->fd, os->open(os->self, file->path, NABLA_OS_READ));
  if (file->fd < 0)
    return nabla_os_fail(os, NULL, file->path, "open", file->fd, diag);
  NABLA_OS_RETRY(result, os->info(os->self, file->fd, &file->info));
  if (result < 0)
    return nabla_os_fail(os, NULL, file->path, "look at it", result, diag);
  if (file->info.is_file) return NABLA_OK;
  nabla_status status = nabla_fail(
      diag, NABLA_INVALID_ARGUMENT, "this is %s, not a regular file",
      file->info.is_folder ? "a folder" : "a pipe, socket or device");
  nabla_diag_set_file(diag, file->path);
  return status;
}

nabla_status nabla_file_open(const nabla_os *os,
                             const nabla_allocator *allocator, const char *path,
                             nabla_file **out, nabla_diag *diag) {
  if (!path || !*path)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT, "the path is empty");
  nabla_file *file;
  NABLA_TRY(make(os ? os : nabla_os_default(), allocator, path, &file, diag));
  nabla_status status = attach(file, diag);
  if (status)
    nabla_file_close(file);
  else
    *out = file;
  return status;
}

void nabla_file_close(nabla_file *file) {
  if (!file) return;
  if (file->fd >= 0) file->os->close(file->os->self, file->fd);
  nabla_free(file->allocator, file, file->bytes, 1);
}

uint64_t nabla_file_size(const nabla_file *file) { return file->info.size; }

const char *nabla_file_borrow_path(const nabla_file *file) {
  return file->path;
}

const nabla_os_info *nabla_file_borrow_info(const nabla_file *file) {
  return &file->info;
}

int nabla_file_borrow_descriptor(const nabla_file *file) { return file->fd; }

static nabla_status fail_at(const nabla_file *file, uint64_t at, int error,
                            nabla_diag *diag) {
  nabla_status status =
      error ? nabla_os_fail(file->os, NULL, file->path, "read", error, diag)
            : nabla_fail(diag, NABLA_CORRUPT,
                         "the file ends early: it had %" PRIu64
                         " bytes when it was opened",
                         file->info.size);
  nabla_diag_set_file(diag, file->path);
  nabla_diag_set_offset(diag, at);
  return status;
}

nabla_status nabla_file_read(const nabla_file *file, uint64_t at, void *out,
                             size_t size, nabla_diag *diag) {
  const nabla_os *os = file->os;
  uint64_t left;
  if (!nabla_sub_u64(file->info.size, at, &left) || size > left)
    return fail_at(file, at > file->info.size ? at : file->info.size, 0, diag);
  uint8_t *to = out;
  while (size > 0) {
    size_t piece = size < PIECE ? size : PIECE;
    int64_t got;
    NABLA_OS_RETRY(got, os->pread(os->self, file->fd, to, piece, at));
    if (got <= 0) return fail_at(file, at, (int)got, diag);
    to += got;
    at += (uint64_t)got; /* stays below info.size */
    size -= (size_t)got;
  }
  return NABLA_OK;
}

nabla_status nabla_file_check_unchanged(const nabla_file *file,
                                        nabla_diag *diag) {
  nabla_os_info now;
  int result;
  NABLA_OS_RETRY(result, file->os->info(file->os->self, file->fd, &now));
  if (result < 0)
    return nabla_os_fail(file->os, NULL, file->path, "look at it", result,
                         diag);
  if (now.size == file->info.size && now.changed_ns == file->info.changed_ns)
    return NABLA_OK;
  nabla_status status = nabla_fail(
      diag, NABLA_CORRUPT, "the file was changed while it was being read");
  nabla_diag_set_file(diag, file->path);
  nabla_diag_set_next(diag, "wait until nothing writes to it, then run again");
  return status;
}

nabla_status nabla_file_read_all(const nabla_file *file, size_t limit,
                                 nabla_buffer *out, nabla_diag *diag) {
  const uint64_t size = nabla_file_size(file);
  const size_t before = out->size;
  if (size > limit)
    return nabla_fail(diag, NABLA_TOO_LARGE,
                      "it has %" PRIu64 " bytes, at most %zu are read", size,
                      limit);
  NABLA_TRY(nabla_buffer_append(out, NULL, (size_t)size, diag));
  if (size)
    NABLA_TRY(nabla_file_read(file, 0, out->data + before, (size_t)size, diag));
  return nabla_file_check_unchanged(file, diag);
}
