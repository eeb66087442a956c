/* A saved program written by hand, but for its record: y = FACTOR x, for arrays
 * of rank 1. */
#include <stdint.h>

#include "nabla/services.h"

#ifndef FACTOR
#define FACTOR 2
#endif
#define SHOWN __attribute__((visibility("default")))

extern SHOWN const char nabla_manifest[];
const char nabla_manifest[] =
    "{\"abi\":1,\"functions\":[{\"name\":\"scale\",\"arguments\":[{\"name\":"
    "\"x\",\"dtype\":\"F32\",\"shape\":[null]}],\"results\":[{\"name\":\"\","
    "\"dtype\":\"F32\",\"shape\":[null]}]}]}";

typedef struct buffer {
  float *allocated, *aligned;
  int64_t offset, size, stride;
} buffer;

SHOWN void nabla_entry_scale(const nabla_services *services,
                             void *const *arguments, void *const *results);
void nabla_entry_scale(const nabla_services *services, void *const *arguments,
                       void *const *results) {
  const buffer *x = arguments[0];
  float *y = services->allocate(services, (uint64_t)x->size * sizeof *y);
  if (!y) {
    services->fail(services, NABLA_FAILURE_NO_MEMORY, "scale", 0, 0);
    return;
  }
  for (int64_t i = 0; i < x->size; i++) y[i] = FACTOR * x->aligned[i];
  *(buffer *)results[0] = (buffer){y, y, 0, x->size, 1};
}
