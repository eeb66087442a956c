/* Arrays that grow. */
#ifndef NABLA_TRANSFORMS_SHARD_SOLVE_ROOM_H
#define NABLA_TRANSFORMS_SHARD_SOLVE_ROOM_H

#include <stdint.h>
#include <stdlib.h>

/* Room for one more element behind `count` of them, each of `size` bytes:
 * `all`, or where it was moved to. NULL where there is no memory: `all` stays.
 */
static inline void *nabla_room(void *all, size_t count, size_t *capacity,
                               size_t size) {
  if (count < *capacity) return all;
  const size_t larger = *capacity ? 2 * *capacity : 8;
  void *more = larger <= SIZE_MAX / size ? realloc(all, larger * size) : NULL;
  if (more) *capacity = larger;
  return more;
}

#endif
