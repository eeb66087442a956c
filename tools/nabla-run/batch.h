/* nabla-run --batch: many command lines, one after the other. */
#ifndef NABLA_TOOLS_RUN_BATCH_H
#define NABLA_TOOLS_RUN_BATCH_H

#include "tools/common/tool.h"

/* Reads command lines from standard input, words between tabs, and calls
 * `command` for each in a process of its own; `name` is its argv[0]. Prints for
 * each a line "EXIT BYTES BYTES", then its standard output and its standard
 * error, so many bytes; EXIT is below zero when a signal ended it.
 * The last line needs no end.
 * @return NABLA_IO, NABLA_NO_MEMORY; NABLA_TOO_LARGE: a line of above 1 MiB;
 *         NABLA_INVALID_ARGUMENT: a line with a byte 0. Both end the batch. */
NABLA_MUST_USE nabla_status run_batch(char *name,
                                      int (*command)(int argc, char **argv),
                                      nabla_diag *diag);

#endif
