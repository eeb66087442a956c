/* Watching for uses after release; see watch.h. */
#include "lib/array/watch.h"

#include <pthread.h>

#define WATCHED ((size_t)10000)

struct nabla_watch {
  const nabla_allocator *allocator;
  atomic_size_t references; /* the engine, and arrays that are not freed */
  pthread_mutex_t lock;     /* of all below */
  bool is_closed;
  size_t next; /* the oldest of `arrays` */
  nabla_array *arrays[WATCHED];
};

nabla_status nabla_watch_create(const nabla_allocator *allocator,
                                nabla_watch **out, nabla_diag *diag) {
  void *memory;
  NABLA_TRY(nabla_alloc(allocator, 1, sizeof(nabla_watch), &memory, diag));
  nabla_watch *watch = memory;
  watch->allocator = allocator;
  atomic_init(&watch->references, 1);
  pthread_mutex_init(&watch->lock, NULL);
  *out = watch;
  return NABLA_OK;
}

nabla_watch *nabla_watch_hold(nabla_watch *watch) {
  if (watch) atomic_fetch_add(&watch->references, 1);
  return watch;
}

static void drop(nabla_watch *watch) {
  if (atomic_fetch_sub(&watch->references, 1) != 1) return;
  pthread_mutex_destroy(&watch->lock);
  nabla_free(watch->allocator, watch, 1, sizeof *watch);
}

static void free_array(const nabla_watch *watch, nabla_array *array) {
  nabla_free(watch->allocator, array, 1, array ? sizeof *array : 0);
}

void nabla_watch_close(nabla_watch *watch) {
  if (!watch) return;
  pthread_mutex_lock(&watch->lock);
  watch->is_closed = true;
  for (size_t i = 0; i < WATCHED; i++) free_array(watch, watch->arrays[i]);
  pthread_mutex_unlock(&watch->lock);
  drop(watch);
}

void nabla_watch_free(nabla_array *array) {
  nabla_watch *watch = array->watch;
  if (!watch) {
    nabla_free(array->allocator, array, 1, sizeof *array);
    return;
  }
  array->dense.data = NULL;
  array->owned = NULL;
  pthread_mutex_lock(&watch->lock);
  nabla_array *freed = array;
  if (!watch->is_closed) {
    freed = watch->arrays[watch->next];
    watch->arrays[watch->next] = array;
    watch->next = (watch->next + 1) % WATCHED;
  }
  pthread_mutex_unlock(&watch->lock);
  free_array(watch, freed);
  drop(watch);
}

bool nabla_array_is_released(const nabla_array *array) {
  return array->watch &&
         (!array->references || (array->abandoned && !array->users));
}
