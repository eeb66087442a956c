/* Where text and bytes that are made go. */
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

#ifdef __cplusplus
}
#endif

#endif
