/* nabla_executable_open: a saved program is checked on an open descriptor, and
 * that same descriptor is loaded. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/file/file.h"
#include "lib/base/require.h"
#include "lib/runtime/program/code.h"
#include "lib/runtime/program/saved_program.h"

static void unload(void *self) { (void)dlclose(self); }

static nabla_entry_function look_up(void *self, const char *symbol) {
  return (nabla_entry_function)(uintptr_t)dlsym(self, symbol);
}

/* The path of a descriptor. The loader takes a library that it has for the one
 * that is asked for when it came by the same path, and descriptors are used
 * again: each path is another way to write it. */
#define BITS      64
#define PATH_ROOM (sizeof "/proc/self/fd" + 2 * BITS + sizeof "/2147483647")
static void name_descriptor(int descriptor, char out[PATH_ROOM]) {
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  static uint64_t last;
  char detour[2 * BITS + 1];
  pthread_mutex_lock(&lock);
  const uint64_t number = last++;
  pthread_mutex_unlock(&lock);
  for (int i = 0; i < BITS; i++) {
    detour[2 * i] = '/';
    detour[2 * i + 1] = number >> i & 1u ? '.' : '/';
  }
  detour[sizeof detour - 1] = 0;
  (void)snprintf(out, PATH_ROOM, "/proc/self/fd%s/%d", detour, descriptor);
}

static nabla_status load(const nabla_file *file, void **out, nabla_diag *diag) {
  char path[PATH_ROOM];
  name_descriptor(nabla_file_borrow_descriptor(file), path);
  *out = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (*out) return NABLA_OK;
  const char *why = dlerror();
  const char *after = why ? strstr(why, path) : NULL; /* our path says little */
  if (after) why = after + strlen(path) + strspn(after + strlen(path), ": ");
  const nabla_status status =
      nabla_fail(diag, NABLA_IO, "the system does not load it: %s",
                 why ? why : "no reason given");
  nabla_diag_set_next(
      diag, "see that its folder allows programs and that /proc is mounted");
  return status;
}

static nabla_status open_file(const nabla_file *file,
                              const nabla_environment *environment,
                              nabla_executable **out, nabla_diag *diag) {
  void *library = NULL;
  uint64_t key = 0; /* of the file's hash, at its end */
  NABLA_TRY(nabla_saved_verify(file, nabla_x86_features_here(), diag));
  NABLA_TRY(nabla_file_read(file, nabla_file_size(file) - sizeof key, &key,
                            sizeof key, diag));
  NABLA_TRY(load(file, &library, diag));
  const nabla_code code = {.self = library,
                           .manifest = dlsym(library, NABLA_MANIFEST_SYMBOL),
                           .lookup = look_up,
                           .destroy = unload,
                           .key = key};
  return nabla_executable_create(&code, environment, out, diag);
}

nabla_status nabla_executable_open(const char *path,
                                   const nabla_environment *environment,
                                   nabla_executable **out, nabla_diag *diag) {
  NABLA_REQUIRE(path, diag);
  NABLA_REQUIRE(out, diag);
  nabla_file *file = NULL;
  NABLA_TRY(nabla_file_open(NULL, environment ? environment->allocator : NULL,
                            path, &file, diag));
  const nabla_status status = open_file(file, environment, out, diag);
  if (status) nabla_diag_set_file(diag, path);
  nabla_file_close(file);
  return status;
}
