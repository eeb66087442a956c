/* A C header for an object: functions of plain pointers and sizes around its
 * entry points, which need libc only. */
#ifndef NABLA_COMPILER_HEADER_H
#define NABLA_COMPILER_HEADER_H

#include <stdbool.h>

#include "lib/runtime/program/manifest.h"
#include "nabla/sink.h"

#define NABLA_HEADER_MAX_NAME  200u /* bytes of a prefix, or of a name */
#define NABLA_HEADER_MAX_PORTS 256u /* pointers that a function takes  */

/* Writes the header of what `manifest` describes. Functions are called
 * PREFIX_NAME. `is_product` says for which of them rows can be computed alone;
 * their one result has the rows as its last dimension.
 * @return NABLA_INVALID_ARGUMENT  a prefix or the name of a function is no C
 *                                 identifier
 *         NABLA_UNSUPPORTED       custom calls; more pointers than the limit
 *         NABLA_NO_MEMORY, and what `to` returned */
NABLA_MUST_USE nabla_status
nabla_header_write(const nabla_manifest *manifest, const char *prefix,
                   bool (*is_product)(const void *self, const char *function),
                   const void *self, const nabla_sink *to, nabla_diag *diag);

#endif
