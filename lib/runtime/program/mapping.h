/* A file mapped into memory, read-only. Files are mapped here alone. */
#ifndef NABLA_RUNTIME_PROGRAM_MAPPING_H
#define NABLA_RUNTIME_PROGRAM_MAPPING_H

#include <stddef.h>
#include <stdint.h>

#include "nabla/os.h"
#include "nabla/status.h"

typedef struct nabla_mapping {
  const uint8_t *data; /* NULL: not mapped */
  size_t size;
} nabla_mapping;

/* Maps the file at `path`, which must be the one that `expected` describes and
 * unchanged since. A filesystem that cannot map files gives NABLA_OK with data
 * NULL: such files are read.
 * @return NABLA_CORRUPT  another file, or changed
 *         NABLA_IO, NABLA_NO_MEMORY (of addresses) */
NABLA_MUST_USE nabla_status nabla_mapping_open(const char *path,
                                               const nabla_os_info *expected,
                                               nabla_mapping *out,
                                               nabla_diag *diag);

/* Unmaps. A mapping that is not mapped is allowed. */
void nabla_mapping_close(nabla_mapping *mapping);

/* Gives pages back that lie in [data, data + bytes) if a mapping of the process
 * has all of these; a later read finds the same bytes in the file. Memory that
 * is no mapping stays as it is. For what was copied, and is hardly read again.
 * Any thread, while the mapping is open. */
void nabla_mapping_drop(const void *data, uint64_t bytes);

#endif
