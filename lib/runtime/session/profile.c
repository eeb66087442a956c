/* Rows of a profile; see profile.h. */
#include "lib/runtime/session/profile.h"

#include <pthread.h>
#include <string.h>
#include <time.h>

#include "lib/base/memory.h"
#include "lib/base/require.h"
#include "lib/runtime/program/executable_internal.h"

#define MOST_ROWS 4096 /* texts of one program; others have no row */

struct nabla_profiler {
  const nabla_allocator *allocator;
  pthread_mutex_t lock;
  uint64_t runs;
  double seconds;
  size_t count;
  nabla_profile_row rows[MOST_ROWS];
};

nabla_profiler *nabla_profiler_create(const nabla_allocator *allocator) {
  void *block = NULL;
  if (nabla_alloc(allocator, 1, sizeof(nabla_profiler), &block, NULL))
    return NULL;
  nabla_profiler *self = block;
  memset(self, 0, sizeof *self);
  self->allocator = allocator;
  pthread_mutex_init(&self->lock, NULL);
  return self;
}

void nabla_profiler_destroy(nabla_profiler *self) {
  if (!self) return;
  pthread_mutex_destroy(&self->lock);
  nabla_free(self->allocator, self, 1, sizeof *self);
}

/* Texts are static: the same address is the same row. */
static nabla_profile_row *row_of(nabla_profiler *self, const char *what) {
  for (size_t i = 0; i < self->count; i++)
    if (self->rows[i].what == what) return &self->rows[i];
  if (self->count == MOST_ROWS) return NULL;
  self->rows[self->count].what = what;
  return &self->rows[self->count++];
}

void nabla_profiler_add(nabla_profiler *self, const char *what, double seconds,
                        uint64_t bytes, uint64_t flops) {
  pthread_mutex_lock(&self->lock);
  nabla_profile_row *row = row_of(self, what);
  if (row) {
    row->calls++;
    row->seconds += seconds;
    row->bytes += bytes;
    row->flops += flops;
  }
  pthread_mutex_unlock(&self->lock);
}

void nabla_profiler_add_run(nabla_profiler *self, double seconds) {
  pthread_mutex_lock(&self->lock);
  self->runs++;
  self->seconds += seconds;
  pthread_mutex_unlock(&self->lock);
}

double nabla_profiler_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

nabla_profile nabla_profiler_get(const nabla_profiler *self) {
  return (nabla_profile){.runs = self->runs,
                         .seconds = self->seconds,
                         .row_count = self->count,
                         .rows = self->rows};
}

nabla_status nabla_executable_profile_begin(nabla_executable *executable,
                                            nabla_diag *diag) {
  NABLA_REQUIRE(executable, diag);
  nabla_profiler *made =
      nabla_profiler_create(executable->environment.allocator);
  if (!made)
    return nabla_fail(diag, NABLA_NO_MEMORY, "no memory for a profile");
  nabla_profiler_destroy(executable->profiler);
  executable->profiler = made;
  return NABLA_OK;
}

nabla_profile nabla_executable_profile(const nabla_executable *executable) {
  if (!executable || !executable->profiler) return (nabla_profile){0};
  return nabla_profiler_get(executable->profiler);
}
