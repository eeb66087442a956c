/* What a long-running call needs from its caller: memory, files, threads,
 * progress. */
#ifndef NABLA_ENVIRONMENT_H
#define NABLA_ENVIRONMENT_H

#include <stdint.h>

#include "nabla/allocator.h"
#include "nabla/os.h"
#include "nabla/pool.h"
#include "nabla/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A moment of a long-running call. */
typedef struct nabla_progress {
  const char *phase;    /* "quantize", "sync", ...; static text         */
  uint64_t bytes_done;  /* of input                                     */
  uint64_t bytes_total; /* of input; 0 when unknown                     */
  uint64_t tensors_done;
  uint64_t tensors_total;
  const char *tensor; /* name of the tensor in work, NUL-terminated, or
                         NULL; valid during the callback              */
} nabla_progress;

/* Zero-initialised is valid: malloc, the real system, the calling thread
 * alone, silence. Everything is borrowed for the length of a call. */
typedef struct nabla_environment {
  const nabla_allocator *allocator;
  const nabla_os *os;
  nabla_pool *pool;
  /* Called on the calling thread, often; the callee limits its own rate.
   * Returning non-zero stops the call with NABLA_CANCELLED. May be NULL. */
  int (*progress)(void *self, const nabla_progress *progress);
  void *progress_self;
} nabla_environment;

#ifdef __cplusplus
}
#endif

#endif
