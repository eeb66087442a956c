/* See spill.h. */
#include "quant/write/spill.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/checked.h"
#include "lib/base/file/os_call.h"
#include "lib/base/memory.h"

struct nabla_spill {
  const nabla_allocator *allocator;
  const nabla_os *os;
  float *memory; /* NULL: the floats are in the file */
  uint64_t count;
  int fd;
  char *path;   /* of the output, for messages: the file has no name */
  char *folder; /* of the output                                     */
  size_t path_size;
};

uint64_t nabla_spill_disk_bytes(uint64_t count) {
  uint64_t bytes;
  if (!nabla_mul_u64(count, sizeof(float), &bytes)) return UINT64_MAX;
  return bytes <= NABLA_SPILL_MEMORY ? 0 : bytes;
}

static nabla_status fail_io(const nabla_spill *spill, const char *what,
                            int error, nabla_diag *diag) {
  return nabla_os_fail(spill->os, spill->folder, spill->path, what, error,
                       diag);
}

/* Stores the path of the output, "DIR/NAME", and its folder, "DIR/" or ".". */
static nabla_status keep_path(nabla_spill *spill, const char *path,
                              nabla_diag *diag) {
  const char *slash = strrchr(path, '/');
  const size_t size = strlen(path) + 1;
  void *block;
  NABLA_TRY(nabla_alloc(spill->allocator, size + 1, 2, &block, diag));
  spill->path = block;
  spill->folder = spill->path + size + 1;
  spill->path_size = size + 1;
  memcpy(spill->path, path, size);
  if (slash)
    memcpy(spill->folder, path, (size_t)(slash - path) + 1);
  else
    spill->folder[0] = '.';
  return NABLA_OK;
}

/* A file that no signal can leave behind; -EOPNOTSUPP where the system, or the
 * caller's nabla_os, has none. */
static int open_unnamed(const nabla_spill *spill) {
  const nabla_os *os = spill->os;
  int fd;
  NABLA_OS_RETRY(fd, os->open(os->self, spill->folder, NABLA_OS_UNNAMED));
  return fd == -EINVAL ? -EOPNOTSUPP : fd;
}

/* Makes a name from the process id, since another process may write beside this
 * one, and a number if that name is taken. */
static nabla_status open_named(nabla_spill *spill, nabla_diag *diag) {
  enum { TRIES = 100, TAIL = 64 };
  const nabla_os *os = spill->os;
  const size_t size = spill->path_size + TAIL;
  void *block;
  NABLA_TRY(nabla_alloc(spill->allocator, size, 1, &block, diag));
  char *name = block;
  int fd = -EEXIST, error = 0;
  for (unsigned i = 0; i < TRIES && fd == -EEXIST; i++) {
    snprintf(name, size, "%s.scales-%ld-%u", spill->path, (long)getpid(), i);
    NABLA_OS_RETRY(fd, os->open(os->self, name, NABLA_OS_CREATE_NEW));
  }
  nabla_status status = NABLA_OK;
  if (fd < 0) {
    status = fail_io(spill, "make a temporary file for scales", fd, diag);
  } else {
    spill->fd = fd;
    /* again, so that no file is left behind */
    for (int i = 0; i < 2 && (i == 0 || error < 0); i++)
      NABLA_OS_RETRY(error, os->unlink(os->self, name));
    if (error < 0)
      status = fail_io(spill, "hide a temporary file for scales", error, diag);
  }
  nabla_free(spill->allocator, block, size, 1);
  return status;
}

static nabla_status open_file(nabla_spill *spill, nabla_diag *diag) {
  const int fd = open_unnamed(spill);
  if (fd == -EOPNOTSUPP) return open_named(spill, diag);
  if (fd < 0)
    return fail_io(spill, "make a temporary file for scales", fd, diag);
  spill->fd = fd;
  return NABLA_OK;
}

nabla_status nabla_spill_create(const nabla_allocator *allocator,
                                const nabla_os *os, const char *path,
                                uint64_t count, nabla_spill **out,
                                nabla_diag *diag) {
  void *block;
  uint64_t bytes;
  if (!nabla_mul_u64(count, sizeof(float), &bytes) || bytes > INT64_MAX)
    return nabla_fail(diag, NABLA_TOO_LARGE, "too many scales");
  NABLA_TRY(nabla_alloc(allocator, 1, sizeof(nabla_spill), &block, diag));
  nabla_spill *spill = block;
  *spill = (nabla_spill){.allocator = allocator,
                         .os = os ? os : nabla_os_default(),
                         .count = count,
                         .fd = -1};
  nabla_status status;
  if (!nabla_spill_disk_bytes(count)) {
    status = nabla_alloc(allocator, (size_t)count, sizeof(float), &block, diag);
    if (!status) spill->memory = block;
  } else {
    status = keep_path(spill, path, diag);
    if (!status) status = open_file(spill, diag);
  }
  if (status)
    nabla_spill_destroy(spill);
  else
    *out = spill;
  return status;
}

void nabla_spill_destroy(nabla_spill *spill) {
  if (!spill) return;
  const nabla_allocator *allocator = spill->allocator;
  if (spill->fd >= 0) spill->os->close(spill->os->self, spill->fd);
  if (spill->memory)
    nabla_free(allocator, spill->memory, (size_t)spill->count, sizeof(float));
  nabla_free(allocator, spill->path, spill->path_size, 2);
  nabla_free(allocator, spill, 1, sizeof *spill);
}

nabla_status nabla_spill_write(nabla_spill *spill, uint64_t first,
                               const float *in, size_t count,
                               nabla_diag *diag) {
  if (spill->memory) {
    memcpy(spill->memory + first, in, count * sizeof *in);
    return NABLA_OK;
  }
  const char *at = (const char *)in;
  size_t left = count * sizeof *in;
  for (uint64_t place = first * sizeof *in; left > 0;) {
    int64_t did;
    NABLA_OS_RETRY(
        did, spill->os->pwrite(spill->os->self, spill->fd, at, left, place));
    if (did <= 0)
      return fail_io(spill, "keep scales in a temporary file",
                     did ? (int)did : -EIO, diag);
    at += did;
    place += (uint64_t)did;
    left -= (size_t)did;
  }
  return NABLA_OK;
}

nabla_status nabla_spill_read(const nabla_spill *spill, uint64_t first,
                              float *out, size_t count, nabla_diag *diag) {
  if (spill->memory) {
    memcpy(out, spill->memory + first, count * sizeof *out);
    return NABLA_OK;
  }
  char *at = (char *)out;
  size_t left = count * sizeof *out;
  for (uint64_t place = first * sizeof *out; left > 0;) {
    int64_t did;
    NABLA_OS_RETRY(
        did, spill->os->pread(spill->os->self, spill->fd, at, left, place));
    if (did <= 0)
      return fail_io(spill, "read scales from a temporary file",
                     did ? (int)did : -EIO, diag);
    at += did;
    place += (uint64_t)did;
    left -= (size_t)did;
  }
  return NABLA_OK;
}
