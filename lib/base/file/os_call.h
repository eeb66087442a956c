/* How lib/base calls a nabla_os: interrupted calls are made again, and errors
 * become a diag that says what was tried, why it failed and what to do now. */
#ifndef NABLA_BASE_FILE_OS_CALL_H
#define NABLA_BASE_FILE_OS_CALL_H

#include <errno.h>

#include "nabla/os.h"
#include "nabla/status.h"

/* Makes `call` until it is not interrupted. Never for close, which releases
 * the descriptor even when it reports EINTR. */
#define NABLA_OS_RETRY(result, call) \
  do {                               \
    (result) = (call);               \
  } while ((result) == -EINTR)

/* Reports NABLA_IO for `error` (-errno): "cannot WHAT: REASON", with the free
 * bytes of `folder` when space, quota or a size limit ran out (`folder` NULL:
 * never), and the next step. `path` becomes the diag's file. */
NABLA_MUST_USE nabla_status nabla_os_fail(const nabla_os *os,
                                          const char *folder, const char *path,
                                          const char *what, int error,
                                          nabla_diag *diag);

/* 1 when both describe the same file or folder. */
static inline int nabla_os_same(const nabla_os_info *a,
                                const nabla_os_info *b) {
  return a->device == b->device && a->inode == b->inode;
}

#endif
