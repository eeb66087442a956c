/* Watching for uses of arrays after their release: debug engines keep the
 * arrays that were freed last, without what they owned, so that a call can tell
 * them. */
#ifndef NABLA_ARRAY_WATCH_H
#define NABLA_ARRAY_WATCH_H

#include "lib/array/graph.h"

/* Arrays that were freed. It lives as long as its engine or an array of it. */
typedef struct nabla_watch nabla_watch;

NABLA_MUST_USE nabla_status nabla_watch_create(const nabla_allocator *allocator,
                                               nabla_watch **out,
                                               nabla_diag *diag);
/* Frees the arrays, as the engine ends: later ones are freed at once. NULL is
 * allowed. */
void nabla_watch_close(nabla_watch *watch);
/* The watch of a new array; NULL gives NULL. */
nabla_watch *nabla_watch_hold(nabla_watch *watch);
/* Takes the memory of an array that has no reference, or frees it. */
void nabla_watch_free(nabla_array *array);

/* Whether an array of a debug engine was released by the user, or freed. */
bool nabla_array_is_released(const nabla_array *array);

#define NABLA_USE_AFTER_RELEASE \
  "use after release: the array was released, or its scope has ended"

#endif
