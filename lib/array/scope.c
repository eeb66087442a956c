/* Scopes: the list of arrays that each holds, the first failure. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "lib/array/engine.h"
#include "lib/array/graph.h"
#include "lib/base/require.h"

static _Thread_local nabla_scope *innermost;
/* The scope of this thread whose failure was the last one, and has no file and
 * line; or NULL. */
static _Thread_local nabla_scope *unplaced;

nabla_scope *nabla_scope_innermost(void) { return innermost; }

nabla_scope *nabla_scope_set_innermost(nabla_scope *scope) {
  nabla_scope *before = innermost;
  innermost = scope;
  return before;
}

bool nabla_scope_is_open(const nabla_scope *scope) {
  const nabla_scope *open = innermost;
  while (open && open != scope) open = open->parent;
  return open != NULL;
}

nabla_status nabla_scope_create(nabla_engine *engine, nabla_scope **out,
                                nabla_diag *diag) {
  NABLA_REQUIRE(engine, diag);
  NABLA_REQUIRE(out, diag);
  void *memory;
  if (innermost && innermost->engine != engine)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "this thread is in a scope of another engine");
  const nabla_allocator *allocator = nabla_engine_allocator(engine);
  NABLA_TRY(nabla_alloc(allocator, 1, sizeof(nabla_scope), &memory, diag));
  nabla_scope *scope = memory;
  scope->engine = engine;
  scope->parent = innermost;
  if (innermost) {
    scope->recorder = innermost->recorder;
    scope->trace = innermost->trace;
    scope->is_eager = innermost->is_eager;
    scope->policy = innermost->policy;
  } else {
    const nabla_status status =
        nabla_engine_take_recorder(engine, &scope->recorder, diag);
    if (status) nabla_free(allocator, scope, 1, sizeof *scope);
    if (status) return status;
  }
  innermost = scope;
  *out = scope;
  return NABLA_OK;
}

/* Lets go of the newest array of `scope`. A pending one that an operation of an
 * outer scope needs, through an array that was kept, becomes the outer scope's,
 * until that needs it no more. */
static void let_go(nabla_scope *scope) {
  nabla_array *array = scope->arrays;
  const unsigned references = array->references;
  if (!array->node || references == 1) {
    nabla_array_leave(array);
  } else if (scope->parent && references > array->users + 1) {
    array->abandoned = true;
    nabla_array_move(array, scope->parent);
  } else {
    nabla_array_detach(array);
    nabla_array_leave(array);
  }
}

/* Newest first: operations that use an array are gone when it is its turn. */
static void end_innermost(void) {
  nabla_scope *scope = innermost;
  nabla_scope *parent = scope->parent;
  while (scope->arrays) let_go(scope);
  const bool is_given = parent && scope->failure.code && !parent->failure.code;
  if (is_given) parent->failure = scope->failure;
  if (unplaced == scope) unplaced = is_given ? parent : NULL;
  if (!parent) nabla_engine_give_recorder(scope->engine, scope->recorder);
  innermost = parent;
  nabla_free(nabla_engine_allocator(scope->engine), scope, 1, sizeof *scope);
}

void nabla_scope_end(nabla_scope *scope) {
  if (!scope || !nabla_scope_is_open(scope)) return;
  while (innermost != scope) end_innermost();
  end_innermost();
}

/* ---- failures ---- */

/* The place of a call: program and offset, which addr2line takes. */
static void write_place(const void *place, char *out, size_t size) {
  Dl_info info;
  if (!place || !dladdr(place, &info) || !info.dli_fname) return;
  const char *slash = strrchr(info.dli_fname, '/');
  (void)snprintf(out, size, "%s+%#zx", slash ? slash + 1 : info.dli_fname,
                 (size_t)((uintptr_t)place - (uintptr_t)info.dli_fbase));
}

void nabla_scope_fail(nabla_scope *scope, const nabla_diag *diag,
                      const void *place) {
  if (!scope) return;
  if (scope->failure.code) { /* of a later call: it is not that one's place */
    if (place && place != scope->place) unplaced = NULL;
    return;
  }
  scope->failure = *diag;
  scope->place = place;
  unplaced = NULL;
  if (*scope->failure.file) return;
  unplaced = scope;
  write_place(place, scope->failure.file, sizeof scope->failure.file);
}

void nabla_here(const char *file, int line) {
  char text[sizeof innermost->failure.file];
  nabla_scope *scope = unplaced;
  if (!file || !scope) return;
  unplaced = NULL;
  /* of a long path the end */
  const size_t length = strlen(file), room = sizeof text - 16;
  const char *shown = length > room ? file + (length - room) : file;
  (void)snprintf(text, sizeof text, "%s:%d", shown, line);
  *scope->failure.file = '\0';
  nabla_diag_set_file(&scope->failure, text);
}

nabla_status nabla_scope_status(const nabla_scope *scope, nabla_diag *diag) {
  if (!scope) return NABLA_OK;
  if (scope->failure.code && diag) *diag = scope->failure;
  return scope->failure.code;
}

void nabla_scope_set_eager(nabla_scope *scope, int is_eager) {
  if (scope) scope->is_eager = is_eager && !scope->trace;
}

nabla_status nabla_scope_set_policy(nabla_scope *scope, const char *policy,
                                    nabla_diag *diag) {
  nabla_array_policy read;
  NABLA_REQUIRE(scope, diag);
  NABLA_TRY(nabla_array_policy_read(policy, &read, diag));
  scope->policy = read;
  return NABLA_OK;
}

void nabla_scope_clear(nabla_scope *scope) {
  if (!scope) return;
  if (unplaced == scope) unplaced = NULL;
  scope->failure = (nabla_diag)NABLA_DIAG_INIT;
}
