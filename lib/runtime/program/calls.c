/* The custom calls of one executable; see calls.h. */
#include "lib/runtime/program/calls.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MESSAGE_SIZE 192

typedef struct site {
  const nabla_call_handler *handler;
  nabla_attribute_tree attributes;
  void *state;
  int is_made; /* `state` is to be destroyed */
  pthread_mutex_t lock;
} site;

struct nabla_calls {
  nabla_arena arena;
  size_t count;
  site sites[];
};

/* ---- checking ---- */

static void list_dtypes(uint32_t dtypes, char *out, size_t size) {
  size_t used = 0;
  *out = '\0';
  for (int i = 0; i < NABLA_DTYPE_COUNT && used < size; i++)
    if (dtypes >> i & 1)
      used +=
          (size_t)snprintf(out + used, size - used, "%s%s", used ? " or " : "",
                           nabla_dtype_name((nabla_dtype)i));
}

static nabla_status check_one(const nabla_call_handler *h, const char *what,
                              size_t number, const nabla_call_parameter *p,
                              const nabla_call_type_of *given,
                              nabla_diag *diag) {
  char legal[160];
  if (p->encoding && (!given->encoding || strcmp(p->encoding, given->encoding)))
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "custom call '%.60s': %s %zu ('%.40s') takes an implicit "
                      "array of %.40s that is no view; it is %s%.40s",
                      h->target, what, number, p->name, p->encoding,
                      given->encoding ? "of " : "a tensor",
                      given->encoding ? given->encoding : "");
  if (p->encoding) return NABLA_OK;
  if (p->dtypes && !(p->dtypes >> given->dtype & 1)) {
    list_dtypes(p->dtypes, legal, sizeof legal);
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "custom call '%.60s': %s %zu ('%.40s') is %s, not %s",
                      h->target, what, number, p->name, legal,
                      nabla_dtype_name(given->dtype));
  }
  if (p->rank >= 0 && (uint32_t)p->rank != given->rank)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "custom call '%.60s': %s %zu ('%.40s') has rank %d, not "
                      "%u",
                      h->target, what, number, p->name, p->rank, given->rank);
  return NABLA_OK;
}

static nabla_status check_attributes(const nabla_call_handler *h,
                                     const nabla_attribute_tree *given,
                                     nabla_diag *diag) {
  for (size_t i = 0; i < h->attribute_count; i++) {
    const nabla_call_attribute *wanted = &h->attributes[i];
    const nabla_attribute_tree *at =
        nabla_attribute_tree_find(given, wanted->name);
    if (!at && wanted->is_optional) continue;
    if (!at)
      return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                        "custom call '%.60s' needs the attribute '%.60s', %s",
                        h->target, wanted->name,
                        nabla_attribute_tree_kind_name(wanted->kind));
    if (at->kind != wanted->kind)
      return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                        "custom call '%.60s': attribute '%.60s' is %s, not %s",
                        h->target, wanted->name,
                        nabla_attribute_tree_kind_name(wanted->kind),
                        nabla_attribute_tree_kind_name(at->kind));
  }
  for (size_t i = 0; i < given->count && !h->takes_any_attributes; i++) {
    size_t k = 0;
    while (k < h->attribute_count &&
           strcmp(h->attributes[k].name, given->elements[i].name))
      k++;
    if (k == h->attribute_count)
      return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                        "custom call '%.60s' has no attribute '%.60s'",
                        h->target, given->elements[i].name);
  }
  return NABLA_OK;
}

/* Arguments, then results. */
static nabla_status check_types(const nabla_call_handler *h,
                                const nabla_call_type_of *arguments,
                                size_t argument_count,
                                const nabla_call_type_of *results,
                                size_t result_count, nabla_diag *diag) {
  size_t least = h->argument_count - (h->is_variadic ? 1 : 0);
  if (h->is_variadic ? argument_count < least : argument_count != least)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "custom call '%.60s' takes %s%zu arguments, not %zu",
                      h->target, h->is_variadic ? "at least " : "", least,
                      argument_count);
  if (result_count != h->result_count)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "custom call '%.60s' gives %zu results, not %zu",
                      h->target, h->result_count, result_count);
  for (size_t i = 0; i < argument_count; i++)
    NABLA_TRY(check_one(
        h, "argument", i,
        &h->arguments[i < h->argument_count ? i : h->argument_count - 1],
        &arguments[i], diag));
  for (size_t i = 0; i < result_count; i++)
    NABLA_TRY(check_one(h, "result", i, &h->results[i], &results[i], diag));
  return NABLA_OK;
}

nabla_status nabla_call_check(const nabla_call_handler *h,
                              const nabla_call_type_of *arguments,
                              size_t argument_count,
                              const nabla_call_type_of *results,
                              size_t result_count,
                              const nabla_attribute_tree *attributes,
                              nabla_diag *diag) {
  NABLA_TRY(
      check_types(h, arguments, argument_count, results, result_count, diag));
  return check_attributes(h, attributes, diag);
}

/* ---- failing ---- */

static nabla_status status_of(nabla_call_code code) {
  switch (code) {
    case NABLA_CALL_CANCELLED:
    case NABLA_CALL_ABORTED:
      return NABLA_CANCELLED;
    case NABLA_CALL_RESOURCE_EXHAUSTED:
      return NABLA_NO_MEMORY;
    case NABLA_CALL_UNIMPLEMENTED:
    case NABLA_CALL_UNAVAILABLE:
      return NABLA_UNSUPPORTED;
    case NABLA_CALL_DATA_LOSS:
      return NABLA_CORRUPT;
    default:
      return NABLA_INVALID_ARGUMENT;
  }
}

static const char *code_name(nabla_call_code code) {
  static const char *const names[] = {"ok",
                                      "cancelled",
                                      "unknown",
                                      "invalid argument",
                                      "deadline exceeded",
                                      "not found",
                                      "already exists",
                                      "permission denied",
                                      "resource exhausted",
                                      "failed precondition",
                                      "aborted",
                                      "out of range",
                                      "unimplemented",
                                      "internal",
                                      "unavailable",
                                      "data loss",
                                      "unauthenticated"};
  return (unsigned)code < sizeof names / sizeof *names ? names[code]
                                                       : "no known code";
}

static nabla_status fail(const site *s, nabla_call_code code,
                         const char *message, nabla_diag *diag) {
  return nabla_fail(diag, status_of(code), "custom call '%.60s': %s (%s)",
                    s->handler->target, *message ? message : "failed",
                    code_name(code));
}

/* ---- opening ---- */

static nabla_call_frame frame_of(const site *s, char message[MESSAGE_SIZE]) {
  *message = '\0';
  return (nabla_call_frame){.struct_size = sizeof(nabla_call_frame),
                            .api = NABLA_CALL_API,
                            .attributes = &s->attributes,
                            .self = s->handler->self,
                            .state = s->state,
                            .state_type = s->handler->state_type,
                            .message = message,
                            .message_size = MESSAGE_SIZE};
}

static nabla_status open_site(nabla_calls *calls, const nabla_call_site *from,
                              nabla_diag *diag) {
  site *s = &calls->sites[calls->count];
  char message[MESSAGE_SIZE];
  s->handler = nabla_call_find(from->target, "cpu");
  if (!s->handler) return nabla_call_fail_unknown(from->target, "cpu", diag);
  NABLA_TRY(nabla_attribute_tree_read(from->attributes, &calls->arena,
                                      &s->attributes, diag));
  if (s->attributes.kind != NABLA_ATTRIBUTE_DICTIONARY)
    return nabla_fail(diag, NABLA_CORRUPT,
                      "the attributes of a custom call are no dictionary");
  NABLA_TRY(check_attributes(s->handler, &s->attributes, diag));
  pthread_mutex_init(&s->lock, NULL);
  calls->count++;
  if (!s->handler->create) return NABLA_OK;
  const nabla_call_frame frame = frame_of(s, message);
  nabla_call_code code = s->handler->create(&frame, &s->state);
  message[MESSAGE_SIZE - 1] = '\0';
  if (code) return fail(s, code, message, diag);
  s->is_made = 1;
  return NABLA_OK;
}

nabla_status nabla_calls_open(const nabla_call_site *sites, size_t count,
                              nabla_calls **out, nabla_diag *diag) {
  nabla_calls *calls = calloc(1, sizeof *calls + count * sizeof(site));
  if (!calls)
    return nabla_fail(diag, NABLA_NO_MEMORY, "no memory for custom calls");
  nabla_status status = NABLA_OK;
  for (size_t i = 0; i < count && !status; i++)
    status = open_site(calls, &sites[i], diag);
  if (status)
    nabla_calls_close(calls);
  else
    *out = calls;
  return status;
}

void nabla_calls_close(nabla_calls *calls) {
  if (!calls) return;
  for (size_t i = calls->count; i-- > 0;) {
    site *s = &calls->sites[i];
    if (s->is_made && s->handler->destroy)
      s->handler->destroy(s->handler->self, s->state);
    pthread_mutex_destroy(&s->lock);
  }
  nabla_arena_clear(&calls->arena);
  free(calls);
}

/* ---- calling ---- */

/* Reads `count` buffers; where the words behind them are. */
static const uint64_t *read_buffers(const uint64_t *words, uint64_t count,
                                    nabla_call_buffer *out) {
  for (uint64_t i = 0; i < count; i++) {
    out[i] =
        (nabla_call_buffer){.struct_size = sizeof *out,
                            .dtype = (nabla_dtype)words[0],
                            .rank = (uint32_t)words[1],
                            .data = (void *)(uintptr_t)words[2],
                            .dims = (const int64_t *)(const void *)(words + 3)};
    words += 3 + out[i].rank;
  }
  return words;
}

/* Whether the buffers are what the handler says now: it may be another one than
 * when the program was compiled. Attributes were checked when it was opened. */
static nabla_status check_frame(const site *s, const nabla_call_frame *frame,
                                nabla_diag *diag) {
  nabla_call_type_of types[2 * NABLA_CALL_MAX_BUFFERS];
  uint32_t count = frame->argument_count, at = 0;
  for (size_t i = 0; i < s->handler->argument_count; i++)
    if (s->handler->arguments[i].encoding) return NABLA_OK; /* by components */
  for (; at < count; at++)
    types[at] = (nabla_call_type_of){NULL, frame->arguments[at].dtype,
                                     frame->arguments[at].rank};
  for (uint32_t i = 0; i < frame->result_count; i++)
    types[at + i] = (nabla_call_type_of){NULL, frame->results[i].dtype,
                                         frame->results[i].rank};
  return check_types(s->handler, types, count, types + count,
                     frame->result_count, diag);
}

nabla_status nabla_calls_run(nabla_calls *calls, uint64_t number,
                             const uint64_t *words, nabla_call_rank rank,
                             nabla_diag *diag) {
  nabla_call_buffer buffers[2 * NABLA_CALL_MAX_BUFFERS];
  char message[MESSAGE_SIZE];
  if (!calls || number >= calls->count || words[0] > NABLA_CALL_MAX_BUFFERS ||
      words[1] > NABLA_CALL_MAX_BUFFERS)
    return nabla_fail(diag, NABLA_CORRUPT,
                      "the code makes a custom call that it has not");
  site *s = &calls->sites[number];
  nabla_call_frame frame = frame_of(s, message);
  frame.argument_count = (uint32_t)words[0];
  frame.result_count = (uint32_t)words[1];
  frame.arguments = buffers;
  frame.results = buffers + frame.argument_count;
  frame.comm = rank.comm;
  frame.rank = rank.rank;
  frame.place = rank.place;
  frame.ranks = rank.ranks;
  const uint64_t *rest = read_buffers(words + 2, frame.argument_count, buffers);
  (void)read_buffers(rest, frame.result_count, buffers + frame.argument_count);
  NABLA_TRY(check_frame(s, &frame, diag));
  int serial = (s->handler->traits & NABLA_CALL_SERIAL) != 0;
  if (serial) pthread_mutex_lock(&s->lock);
  nabla_call_code code = s->handler->execute(&frame);
  if (serial) pthread_mutex_unlock(&s->lock);
  message[MESSAGE_SIZE - 1] = '\0';
  return code ? fail(s, code, message, diag) : NABLA_OK;
}
