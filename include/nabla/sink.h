/* Sinks: receivers of text and bytes that a call makes. */
#ifndef NABLA_SINK_H
#define NABLA_SINK_H

#include <stddef.h>

#include "nabla/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Gets them in order, in one or more calls. What it returns other than NABLA_OK
 * ends the work, and is returned. */
typedef struct nabla_sink {
  nabla_status (*write)(void *self, const void *data, size_t size,
                        nabla_diag *diag);
  void *self;
} nabla_sink;

/* Bytes in memory that a sink has received. Zero-initialised is empty. */
typedef struct nabla_blob {
  char *bytes; /* `size` bytes and a NUL, or NULL */
  size_t size;
  size_t capacity; /* of the allocation */
} nabla_blob;

/* Returns a sink that appends to `blob`, with malloc; NABLA_NO_MEMORY from it
 * leaves the bytes as they were. `blob` outlives the sink; the caller frees its
 * bytes by nabla_blob_release. Thread-safe for distinct blobs. */
NABLA_API nabla_sink nabla_blob_sink(nabla_blob *blob);

/* Frees the bytes, and makes the blob empty. NULL is allowed. */
NABLA_API void nabla_blob_release(nabla_blob *blob);

#ifdef __cplusplus
}
#endif

#endif
