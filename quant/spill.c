/* See spill.h. */
#include "quant/spill.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/checked.h"
#include "lib/base/memory.h"

struct nabla_spill {
  const nabla_allocator *allocator;
  const nabla_os *os;
  float *memory; /* NULL: in the file */
  uint64_t count;
  int fd;
};

static nabla_status fail_io(const char *path, const char *what, int error,
                            nabla_diag *diag) {
  nabla_status status =
      nabla_fail(diag, NABLA_IO, "%s a temporary file for scales: %s", what,
                 strerror(-error));
  if (path) nabla_diag_set_file(diag, path);
  nabla_diag_set_next(diag, "make room, or use another type of scales");
  return status;
}

/* Another process may write beside it: the name holds the process, and a
 * number where that is taken. */
static nabla_status open_file(nabla_spill *spill, const char *path,
                              nabla_diag *diag) {
  enum { TRIES = 100, TAIL = 64 };
  const size_t size = strlen(path) + TAIL;
  void *block;
  NABLA_TRY(nabla_alloc(spill->allocator, size, 1, &block, diag));
  char *name = block;
  int fd = -EEXIST;
  for (unsigned i = 0; i < TRIES && fd == -EEXIST; i++) {
    snprintf(name, size, "%s.scales-%ld-%u", path, (long)getpid(), i);
    fd = spill->os->open(spill->os->self, name, NABLA_OS_CREATE_NEW);
  }
  nabla_status status = NABLA_OK;
  if (fd < 0) {
    status = fail_io(name, "making", fd, diag);
  } else {
    spill->fd = fd;
    const int error = spill->os->unlink(spill->os->self, name);
    if (error < 0) status = fail_io(name, "hiding", error, diag);
  }
  nabla_free(spill->allocator, block, size, 1);
  return status;
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
  if (bytes <= NABLA_SPILL_MEMORY) {
    status = nabla_alloc(allocator, (size_t)count, sizeof(float), &block, diag);
    if (!status) spill->memory = block;
  } else {
    status = open_file(spill, path, diag);
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
    const int64_t did =
        spill->os->pwrite(spill->os->self, spill->fd, at, left, place);
    if (did == -EINTR) continue;
    if (did <= 0)
      return fail_io(NULL, "writing", did ? (int)did : -ENOSPC, diag);
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
    const int64_t did =
        spill->os->pread(spill->os->self, spill->fd, at, left, place);
    if (did == -EINTR) continue;
    if (did <= 0) return fail_io(NULL, "reading", did ? (int)did : -EIO, diag);
    at += did;
    place += (uint64_t)did;
    left -= (size_t)did;
  }
  return NABLA_OK;
}
