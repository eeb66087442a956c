/* Makes a shared library of an object, by a linker of the system. */
#ifndef NABLA_COMPILER_LINK_H
#define NABLA_COMPILER_LINK_H

#include "lib/base/memory.h"
#include "nabla/status.h"

/* Runs ld.lld-22, or cc where there is none, on files in memory, which it
 * opens below /proc/self/fd: nothing is left, whatever ends this process. The
 * library is appended to `out`. Signals of the calling thread wait until the
 * linker has ended. Dispositions of signals stay as they are, and no child of
 * this process is visible to others that wait: SIGCHLD may be ignored.
 * @return NABLA_UNSUPPORTED (no linker), NABLA_IO (files, processes; a linker
 *         that fails: `say` gets what it printed), NABLA_NO_MEMORY */
NABLA_MUST_USE nabla_status
nabla_link_library(const void *object, size_t size, nabla_buffer *out,
                   void (*say)(const void *self, const char *text),
                   const void *say_self, nabla_diag *diag);

#endif
