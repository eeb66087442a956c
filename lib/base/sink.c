/* The sink that keeps bytes in memory: nabla/sink.h. */
#include "nabla/sink.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/checked.h"

/* Grows by half, so that n bytes are copied at most three times. */
static nabla_status append(void *self, const void *data, size_t size,
                           nabla_diag *diag) {
  nabla_blob *blob = self;
  size_t wanted;
  if (!nabla_add_size(blob->size, size, &wanted) ||
      !nabla_add_size(wanted, 1, &wanted))
    return nabla_fail(diag, NABLA_TOO_LARGE, "more bytes than memory has");
  if (wanted > blob->capacity) {
    const size_t more = blob->capacity + blob->capacity / 2;
    const size_t capacity = more > wanted ? more : wanted;
    char *bytes = realloc(blob->bytes, capacity);
    if (!bytes)
      return nabla_fail(diag, NABLA_NO_MEMORY, "no memory for %zu bytes",
                        capacity);
    blob->bytes = bytes;
    blob->capacity = capacity;
  }
  if (size) memcpy(blob->bytes + blob->size, data, size);
  blob->size += size;
  blob->bytes[blob->size] = '\0';
  return NABLA_OK;
}

nabla_sink nabla_blob_sink(nabla_blob *blob) {
  return (nabla_sink){append, blob};
}

void nabla_blob_release(nabla_blob *blob) {
  if (!blob) return;
  free(blob->bytes);
  *blob = (nabla_blob){NULL, 0, 0};
}
