/* See the header. */
#include "lib/runtime/program/mapping.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/base/checked.h"
#include "lib/base/file/os_call.h"

/* The mappings of this process. One for which there was no memory is not here,
 * and keeps its pages. */
typedef struct entry {
  struct entry *next;
  nabla_mapping mapping;
} entry;
static entry *entries;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void enter(nabla_mapping mapping) {
  entry *e = malloc(sizeof *e);
  if (!e) return;
  e->mapping = mapping;
  pthread_mutex_lock(&lock);
  e->next = entries;
  entries = e;
  pthread_mutex_unlock(&lock);
}

static void leave(const void *data) {
  pthread_mutex_lock(&lock);
  entry **at = &entries;
  while (*at && (*at)->mapping.data != data) at = &(*at)->next;
  entry *found = *at;
  if (found) *at = found->next;
  pthread_mutex_unlock(&lock);
  free(found);
}

static nabla_status check_same(const nabla_os *os, int fd, const char *path,
                               const nabla_os_info *expected,
                               nabla_diag *diag) {
  nabla_os_info now;
  int result;
  NABLA_OS_RETRY(result, os->info(os->self, fd, &now));
  if (result < 0)
    return nabla_os_fail(os, NULL, path, "look at it", result, diag);
  if (nabla_os_same(&now, expected) && now.size == expected->size &&
      now.changed_ns == expected->changed_ns)
    return NABLA_OK;
  const nabla_status status = nabla_fail(
      diag, NABLA_CORRUPT, "the file was changed while it was being opened");
  nabla_diag_set_file(diag, path);
  nabla_diag_set_next(diag, "wait until nothing writes to it, then run again");
  return status;
}

static nabla_status map(const nabla_os *os, int fd, const char *path,
                        uint64_t bytes, nabla_mapping *out, nabla_diag *diag) {
  size_t size;
  if (!nabla_cast_size(bytes, &size))
    return nabla_fail(diag, NABLA_TOO_LARGE,
                      "the file is larger than the address space");
  if (size == 0) return NABLA_OK;
  void *data = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
  if (data != MAP_FAILED) {
    *out = (nabla_mapping){data, size};
    enter(*out);
    return NABLA_OK;
  }
  const int error = errno;
  if (error == ENODEV || error == ENOSYS) return NABLA_OK;
  if (error != ENOMEM)
    return nabla_os_fail(os, NULL, path, "map it into memory", -error, diag);
  const nabla_status status = nabla_fail(
      diag, NABLA_NO_MEMORY, "cannot map the %zu bytes of the file", size);
  nabla_diag_set_file(diag, path);
  nabla_diag_set_next(diag, "raise the limit of address space (ulimit -v)");
  return status;
}

nabla_status nabla_mapping_open(const char *path, const nabla_os_info *expected,
                                nabla_mapping *out, nabla_diag *diag) {
  const nabla_os *os = nabla_os_default(); /* its descriptors are real ones */
  int fd;
  NABLA_OS_RETRY(fd, os->open(os->self, path, NABLA_OS_READ));
  if (fd < 0) return nabla_os_fail(os, NULL, path, "open", fd, diag);
  nabla_mapping mapping = {0};
  nabla_status status = check_same(os, fd, path, expected, diag);
  if (!status) status = map(os, fd, path, expected->size, &mapping, diag);
  os->close(os->self, fd);
  if (!status) *out = mapping;
  return status;
}

void nabla_mapping_close(nabla_mapping *mapping) {
  if (mapping->data) {
    leave(mapping->data);
    /* The address and size are those of a mapping: this cannot fail. */
    (void)munmap((void *)(uintptr_t)mapping->data, mapping->size);
  }
  *mapping = (nabla_mapping){0};
}

/* Whole pages alone, since those at the ends have bytes of others too. */
static void drop(uintptr_t begin, uintptr_t end) {
  const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
  begin = (begin + page - 1) / page * page;
  end = end / page * page;
  if (begin < end) (void)madvise((void *)begin, end - begin, MADV_DONTNEED);
}

void nabla_mapping_drop(const void *data, uint64_t bytes) {
  const uintptr_t begin = (uintptr_t)data;
  pthread_mutex_lock(&lock);
  for (const entry *e = entries; e; e = e->next) {
    const uintptr_t first = (uintptr_t)e->mapping.data;
    if (begin < first || begin - first >= e->mapping.size ||
        bytes > e->mapping.size - (begin - first))
      continue;
    drop(begin, begin + (uintptr_t)bytes);
    break;
  }
  pthread_mutex_unlock(&lock);
}
