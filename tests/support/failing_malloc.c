/* A library for LD_PRELOAD: the process runs out of memory at a chosen call.
 *
 *   NABLA_FAIL_AT=N      call N for memory fails, from 1
 *   NABLA_FAIL_COUNT=N   so many calls fail, one after the other; without it
 * all that follow NABLA_FAIL_MARK=F    the file F is made when the first one
 * fails
 *
 * Calls before the dynamic linker is ready are not counted. */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

/* glibc's own, whatever is preloaded */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *block, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

#pragma GCC visibility push(default) /* the build's default is hidden */
void *malloc(size_t size);
void *calloc(size_t count, size_t size);
void *realloc(void *block, size_t size);
void *reallocarray(void *block, size_t count, size_t size);
void *memalign(size_t alignment, size_t size);
void *aligned_alloc(size_t alignment, size_t size);
int posix_memalign(void **out, size_t alignment, size_t size);
#pragma GCC visibility pop

static atomic_ulong calls;
static unsigned long first, last; /* calls that fail; 0: none */

__attribute__((constructor)) static void begin(void) {
  const char *at = getenv("NABLA_FAIL_AT"), *count = getenv("NABLA_FAIL_COUNT");
  const unsigned long from = at ? strtoul(at, NULL, 10) : 0;
  last = count ? from + strtoul(count, NULL, 10) - 1 : (unsigned long)-1;
  atomic_store(&calls, 0);
  first = from;
}

static int fails(void) {
  if (!first) return 0;
  const unsigned long call = atomic_fetch_add(&calls, 1) + 1;
  if (call < first || call > last) return 0;
  const char *mark = call == first ? getenv("NABLA_FAIL_MARK") : NULL;
  if (mark) {
    const int fd = open(mark, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd >= 0) (void)close(fd);
  }
  errno = ENOMEM;
  return 1;
}

void *malloc(size_t size) { return fails() ? NULL : __libc_malloc(size); }

void *calloc(size_t count, size_t size) {
  return fails() ? NULL : __libc_calloc(count, size);
}

void *realloc(void *block, size_t size) {
  return size && fails() ? NULL : __libc_realloc(block, size);
}

void *reallocarray(void *block, size_t count, size_t size) {
  size_t bytes;
  if (__builtin_mul_overflow(count, size, &bytes)) {
    errno = ENOMEM;
    return NULL;
  }
  return realloc(block, bytes);
}

void *memalign(size_t alignment, size_t size) {
  return fails() ? NULL : __libc_memalign(alignment, size);
}

void *aligned_alloc(size_t alignment, size_t size) {
  return memalign(alignment, size);
}

int posix_memalign(void **out, size_t alignment, size_t size) {
  void *block = memalign(alignment, size);
  if (!block) return ENOMEM;
  *out = block;
  return 0;
}
