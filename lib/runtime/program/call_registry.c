/* The handlers of custom calls of this process; see nabla/custom_call.h. */
#include <ctype.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/edit_distance.h"
#include "lib/base/require.h"
#include "lib/runtime/collectives/handlers.h"
#include "lib/runtime/program/call_builtins.h"
#include "lib/runtime/program/calls.h"

#define MAX_HANDLERS 1024
#define MAX_TYPES    1024
#define MAX_LISTED   64 /* attributes of a handler */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
/* Sorted by target, then by platform. The handlers themselves never move. */
static nabla_call_handler *handlers[MAX_HANDLERS]; /* under `lock` */
static size_t handler_count;
static char *types[MAX_TYPES]; /* under `lock` */
static size_t type_count;
static nabla_arena texts; /* under `lock`; never cleared */

/* ---- checking ---- */

static int name_good(const char *name) {
  size_t length = name ? strlen(name) : 0;
  if (length < 1 || length > 127) return 0;
  for (size_t i = 0; i < length; i++)
    if (!isalnum((unsigned char)name[i]) && !strchr("_.-", name[i])) return 0;
  return 1;
}

static nabla_status fail_no_array(const char *target, const char *what,
                                  size_t count, nabla_diag *diag) {
  return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                    "handler '%.60s' has %zu %ss, and the pointer to them is "
                    "NULL",
                    target, count, what);
}

static nabla_status check_attributes(const nabla_call_handler *h,
                                     nabla_diag *diag) {
  if (h->attribute_count && !h->attributes)
    return fail_no_array(h->target, "attribute", h->attribute_count, diag);
  if (h->attribute_count > MAX_LISTED)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "handler '%.60s' has more than %d attributes", h->target,
                      MAX_LISTED);
  for (size_t i = 0; i < h->attribute_count; i++)
    if (!name_good(h->attributes[i].name))
      return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                        "handler '%.60s': attribute %zu has no legal name",
                        h->target, i);
  return NABLA_OK;
}

static nabla_status check_parameters(const char *target, const char *what,
                                     const nabla_call_parameter *all,
                                     size_t count, nabla_diag *diag) {
  if (count && !all) return fail_no_array(target, what, count, diag);
  if (count > NABLA_CALL_MAX_BUFFERS)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "handler '%.60s' has more than %u %ss", target,
                      NABLA_CALL_MAX_BUFFERS, what);
  for (size_t i = 0; i < count; i++)
    if (!name_good(all[i].name) || all[i].rank < -1 ||
        all[i].rank > (int)NABLA_CALL_MAX_RANK)
      return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                        "handler '%.60s': %s %zu needs a name and a rank from "
                        "-1 to %u",
                        target, what, i, NABLA_CALL_MAX_RANK);
  return NABLA_OK;
}

static nabla_status check(const nabla_call_handler *h, nabla_diag *diag) {
  NABLA_REQUIRE_SIZE(h, "a nabla_call_handler", diag);
  if (!name_good(h->target) || !name_good(h->platform) || !h->execute)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "a handler needs a target of letters, digits, '_', '.' "
                      "and '-', a platform (\"cpu\") and a function");
  if (strcmp(h->platform, "cpu"))
    return nabla_fail(diag, NABLA_UNSUPPORTED,
                      "handler '%.60s': there is no platform '%.40s'; legal is "
                      "cpu",
                      h->target, h->platform);
  NABLA_TRY(check_parameters(h->target, "argument", h->arguments,
                             h->argument_count, diag));
  NABLA_TRY(
      check_parameters(h->target, "result", h->results, h->result_count, diag));
  if (h->is_variadic && !h->argument_count)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "handler '%.60s': is_variadic repeats the last argument, "
                      "and there is none",
                      h->target);
  return check_attributes(h, diag);
}

/* ---- adding ---- */

static const char *copy_text(const char *text) {
  return text ? nabla_arena_copy(&texts, text, strlen(text)) : NULL;
}

static const nabla_call_parameter *copy_parameters(
    const nabla_call_parameter *from, size_t count) {
  nabla_call_parameter *all = nabla_arena_take(&texts, count, sizeof *all);
  for (size_t i = 0; all && i < count; i++) {
    all[i] = from[i];
    all[i].name = copy_text(from[i].name);
    all[i].encoding = copy_text(from[i].encoding);
    if (!all[i].name || (from[i].encoding && !all[i].encoding)) return NULL;
  }
  return all;
}

static nabla_call_handler *copy(const nabla_call_handler *from) {
  nabla_call_handler *to = nabla_arena_take(&texts, 1, sizeof *to);
  nabla_call_attribute *attributes =
      nabla_arena_take(&texts, from->attribute_count, sizeof *attributes);
  if (!to || !attributes) return NULL;
  *to = *from;
  to->target = copy_text(from->target);
  to->platform = copy_text(from->platform);
  to->arguments = copy_parameters(from->arguments, from->argument_count);
  to->results = copy_parameters(from->results, from->result_count);
  to->attributes = attributes;
  int good = to->target && to->platform && to->arguments && to->results;
  for (size_t i = 0; i < from->attribute_count; i++) {
    attributes[i] = from->attributes[i];
    attributes[i].name = copy_text(from->attributes[i].name);
    good = good && attributes[i].name;
  }
  return good ? to : NULL;
}

static int order(const nabla_call_handler *a, const char *target,
                 const char *platform) {
  int by = strcmp(a->target, target);
  return by ? by : strcmp(a->platform, platform);
}

/* The index of a handler, or the index at which it would be inserted. */
static size_t place_of(const char *target, const char *platform) {
  size_t at = 0;
  while (at < handler_count && order(handlers[at], target, platform) < 0) at++;
  return at;
}

static int is_at(size_t at, const char *target, const char *platform) {
  return at < handler_count && !order(handlers[at], target, platform);
}

static nabla_status add(const nabla_call_handler *handler, nabla_diag *diag) {
  NABLA_TRY(check(handler, diag));
  nabla_status status = NABLA_OK;
  nabla_call_handler *own = NULL;
  pthread_mutex_lock(&lock);
  size_t at = place_of(handler->target, handler->platform);
  if (is_at(at, handler->target, handler->platform))
    status = nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                        "'%.60s' has a handler for %.40s already",
                        handler->target, handler->platform);
  else if (handler_count == MAX_HANDLERS)
    status = nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                        "there are %d handlers already", MAX_HANDLERS);
  else if (!(own = copy(handler)))
    status = nabla_fail(diag, NABLA_NO_MEMORY, "no memory for a handler");
  if (own) {
    memmove(&handlers[at + 1], &handlers[at],
            (handler_count - at) * sizeof(nabla_call_handler *));
    handlers[at] = own;
    handler_count++;
  }
  pthread_mutex_unlock(&lock);
  return status;
}

static void add_builtins(void) {
  size_t count;
  const nabla_call_handler *all = nabla_call_builtins(&count);
  for (size_t i = 0; i < count; i++) (void)!add(&all[i], NULL);
  all = nabla_collective_handlers(&count);
  for (size_t i = 0; i < count; i++) (void)!add(&all[i], NULL);
}

nabla_status nabla_add_call_handler(const nabla_call_handler *handler,
                                    nabla_diag *diag) {
  NABLA_REQUIRE(handler, diag);
  pthread_once(&once, add_builtins);
  return add(handler, diag);
}

/* ---- finding ---- */

const nabla_call_handler *nabla_call_find(const char *target,
                                          const char *platform) {
  pthread_once(&once, add_builtins);
  pthread_mutex_lock(&lock);
  size_t at = place_of(target, platform);
  const nabla_call_handler *found =
      is_at(at, target, platform) ? handlers[at] : NULL;
  pthread_mutex_unlock(&lock);
  return found;
}

void nabla_call_handlers(const char *platform,
                         int (*visit)(void *self, const nabla_call_handler *),
                         void *self) {
  static const nabla_call_handler *all[MAX_HANDLERS];
  static pthread_mutex_t listing = PTHREAD_MUTEX_INITIALIZER;
  pthread_once(&once, add_builtins);
  pthread_mutex_lock(&listing);
  pthread_mutex_lock(&lock);
  size_t count = handler_count;
  for (size_t i = 0; i < count; i++) all[i] = handlers[i];
  pthread_mutex_unlock(&lock);
  for (size_t i = 0; i < count; i++)
    if ((!platform || !strcmp(platform, all[i]->platform)) &&
        !visit(self, all[i]))
      break;
  pthread_mutex_unlock(&listing);
}

static int offer(void *self, const nabla_call_handler *handler) {
  nabla_nearest_offer(self, handler->target, strlen(handler->target));
  return 1;
}

nabla_status nabla_call_fail_unknown(const char *target, const char *platform,
                                     nabla_diag *diag) {
  nabla_nearest near = nabla_nearest_begin(target, strlen(target));
  nabla_call_handlers(platform, offer, &near);
  nabla_status status = nabla_fail(diag, NABLA_UNSUPPORTED,
                                   "custom call '%.100s' has no handler for "
                                   "%.40s in this process",
                                   target, platform);
  nabla_nearest_say(&near, diag, "add one with nabla_add_call_handler");
  return status;
}

/* ---- types of states ---- */

uint64_t nabla_call_type(const char *name) {
  uint64_t id = 0;
  pthread_mutex_lock(&lock);
  for (size_t i = 0; i < type_count && !id; i++)
    if (!strcmp(types[i], name)) id = i + 1;
  if (!id && type_count < MAX_TYPES &&
      (types[type_count] = nabla_arena_copy(&texts, name, strlen(name))))
    id = ++type_count;
  pthread_mutex_unlock(&lock);
  return id;
}

void *nabla_call_state(const nabla_call_frame *frame, uint64_t type) {
  return type && frame->state_type == type ? frame->state : NULL;
}
