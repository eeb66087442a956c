/* Exchanges of handlers of custom calls: those of the built-in handlers
 * (handlers.c), over the axes of the call. */
#include <stdio.h>
#include <string.h>

#include "lib/runtime/collectives/collective.h"
#include "lib/runtime/collectives/handlers.h"

#define MOST_PAIRS ((size_t)2 * NABLA_COMM_MAX_RANKS)

static nabla_call_code fail(const nabla_call_frame *frame, nabla_call_code code,
                            const char *format, const char *what) {
  (void)snprintf(frame->message, frame->message_size, format, what);
  return code;
}

static const nabla_call_handler *find(const char *collective) {
  size_t count;
  const nabla_call_handler *all = nabla_collective_handlers(&count);
  const size_t prefix = strlen("nabla.");
  for (size_t i = 0; i < count; i++)
    if (!strcmp(all[i].target + prefix, collective)) return &all[i];
  return NULL;
}

/* A call of a built-in handler with the axes of `frame`. */
static nabla_call_code run(const nabla_call_frame *frame,
                           const nabla_call_handler *handler,
                           nabla_attribute_tree *attributes, size_t count,
                           const nabla_call_buffer *x,
                           const nabla_call_buffer *y) {
  const nabla_attribute_tree dictionary = {.name = "",
                                           .kind = NABLA_ATTRIBUTE_DICTIONARY,
                                           .count = count,
                                           .elements = attributes};
  nabla_call_frame inner = *frame;
  inner.struct_size = sizeof inner;
  inner.argument_count = x ? 1 : 0;
  inner.result_count = 1;
  inner.arguments = x;
  inner.results = y;
  inner.attributes = &dictionary;
  inner.self = handler->self;
  return handler->execute(&inner);
}

static const nabla_attribute_tree *axes_of(const nabla_call_frame *frame) {
  return frame->comm ? nabla_attribute_tree_find(frame->attributes, "axes")
                     : NULL;
}

nabla_call_code nabla_call_group_of(const nabla_call_frame *frame,
                                    nabla_call_group *out) {
  if (!frame || !out || out->struct_size != sizeof *out)
    return NABLA_CALL_INVALID_ARGUMENT;
  out->index = 0;
  out->count = 1;
  const nabla_attribute_tree *axes = axes_of(frame);
  if (!axes) return NABLA_CALL_OK;
  int64_t index = 0;
  const nabla_call_buffer y = {sizeof y, NABLA_DTYPE_I64, 0, NULL, &index};
  nabla_attribute_tree list = *axes;
  const nabla_call_code code =
      run(frame, find("axis_index"), &list, 1, NULL, &y);
  if (code) return code;
  out->index = (uint32_t)index;
  for (size_t i = 1; i < axes->count; i += 2)
    out->count *= (uint32_t)axes->elements[i].integer;
  return NABLA_CALL_OK;
}

/* A number of Nabla_ReduceKind; -1. */
static int64_t join_of(const char *name) {
  static const struct {
    const char *name;
    nabla_join join;
  } joins[] = {{"sum", NABLA_JOIN_SUM},
               {"max", NABLA_JOIN_MAX},
               {"prod", NABLA_JOIN_PROD},
               {"min", NABLA_JOIN_MIN}};
  for (size_t i = 0; name && i < sizeof joins / sizeof *joins; i++)
    if (!strcmp(joins[i].name, name)) return joins[i].join;
  return -1;
}

/* Of one rank nothing is exchanged: every result is the argument. */
static nabla_call_code copy(const nabla_call_frame *frame,
                            const nabla_call_exchange *e) {
  uint64_t bytes = nabla_dtype_bits(e->x->dtype) / 8;
  if (e->x->dtype != e->y->dtype || e->x->rank != e->y->rank ||
      (e->x->rank &&
       memcmp(e->x->dims, e->y->dims, e->x->rank * sizeof *e->x->dims) != 0))
    return fail(frame, NABLA_CALL_INVALID_ARGUMENT,
                "%s: arrays do not have the sizes of the exchange",
                e->collective);
  for (uint32_t i = 0; i < e->x->rank; i++) bytes *= (uint64_t)e->x->dims[i];
  memcpy(e->y->data, e->x->data, (size_t)bytes);
  return NABLA_CALL_OK;
}

nabla_call_code nabla_call_run_exchange(const nabla_call_frame *frame,
                                        const nabla_call_exchange *e) {
  if (!frame || !e || e->struct_size != sizeof *e || !e->collective || !e->x ||
      !e->y || (e->pair_count && !e->pairs))
    return NABLA_CALL_INVALID_ARGUMENT;
  const nabla_call_handler *handler = find(e->collective);
  const int64_t join = join_of(e->join);
  if (!handler || handler->argument_count != 1 || handler->self)
    return fail(frame, NABLA_CALL_INVALID_ARGUMENT, "there is no exchange %s",
                e->collective);
  if (join < 0 && strstr(e->collective, "reduce"))
    return fail(frame, NABLA_CALL_INVALID_ARGUMENT,
                "%s joins by sum, max, prod or min", e->collective);
  if (e->pair_count > MOST_PAIRS)
    return fail(frame, NABLA_CALL_INVALID_ARGUMENT, "%s: too many pairs",
                e->collective);
  const nabla_attribute_tree *axes = axes_of(frame);
  if (!axes) return copy(frame, e);
  nabla_attribute_tree pairs[MOST_PAIRS];
  for (size_t i = 0; i < e->pair_count; i++)
    pairs[i] = (nabla_attribute_tree){
        .name = "", .kind = NABLA_ATTRIBUTE_INTEGER, .integer = e->pairs[i]};
#define NUMBER(key, value) \
  {.name = (key), .kind = NABLA_ATTRIBUTE_INTEGER, .integer = (int64_t)(value)}
  nabla_attribute_tree settings[] = {*axes, /* sorted by name */
                                     NUMBER("concat", e->concat),
                                     NUMBER("dim", e->dim),
                                     NUMBER("from", e->from),
                                     NUMBER("kind", join < 0 ? 0 : join),
                                     {.name = "pairs",
                                      .kind = NABLA_ATTRIBUTE_ARRAY,
                                      .count = e->pair_count,
                                      .elements = pairs},
                                     NUMBER("split", e->split)};
#undef NUMBER
  return run(frame, handler, settings, sizeof settings / sizeof *settings, e->x,
             e->y);
}
