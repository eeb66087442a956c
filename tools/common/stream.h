/* Outputs that are written to directly: devices, pipes, open descriptors. */
#ifndef NABLA_TOOLS_COMMON_STREAM_H
#define NABLA_TOOLS_COMMON_STREAM_H

#include <sys/uio.h>

#include "nabla/status.h"

/* Ignores SIGXFSZ: a file that outgrows `ulimit -f` fails with EFBIG, which is
 * an error of the call and leaves nothing behind. For main(), first. */
void tool_begin(void);

/* Whether an output of this name is no file that appears whole: a character
 * device (/dev/null) or a FIFO, also behind a link, or an open descriptor
 * (/dev/stdout, /dev/stderr, /dev/fd/N, /proc/self/fd/N), whatever it leads to.
 */
int tool_is_stream(const char *path);

/* Writes `count` parts to such an output, one after the other. A descriptor is
 * used as it is: at its offset, or appending.
 * @return NABLA_OK
 *         NABLA_IO                it cannot be opened or written
 *         NABLA_INVALID_ARGUMENT  it is a device or FIFO no more */
NABLA_MUST_USE nabla_status tool_stream_write(const char *path,
                                              const struct iovec *parts,
                                              int count, nabla_diag *diag);

#endif
