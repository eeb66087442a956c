/* See handlers.h. The attribute `axes` has two numbers for each part of the
 * axes of a collective, from the first: the ranks between neighbours, and its
 * size. */
#include "lib/runtime/collectives/handlers.h"

#include <stdio.h>
#include <string.h>

#include "lib/runtime/collectives/collective.h"

#define MAX_PARTS 32

/* A call as it is read. */
typedef struct calling {
  const nabla_call_frame *frame;
  nabla_collective c;
  uint64_t dim; /* along which pieces lie */
} calling;

static nabla_call_code fail(const calling *call, nabla_call_code code,
                            const char *what) {
  snprintf(call->frame->message, call->frame->message_size, "%s", what);
  return code;
}

/* ---- the group of a rank ---- */

typedef struct places {
  size_t count;
  uint32_t stride[MAX_PARTS], size[MAX_PARTS];
} places;

static int read_places(const nabla_call_frame *frame, places *out) {
  const nabla_attribute_tree *axes =
      nabla_attribute_tree_find(frame->attributes, "axes");
  if (!axes || axes->kind != NABLA_ATTRIBUTE_ARRAY || axes->count % 2 ||
      axes->count / 2 > MAX_PARTS)
    return 0;
  out->count = axes->count / 2;
  for (size_t i = 0; i < axes->count; i++) {
    const int64_t number = axes->elements[i].integer;
    if (axes->elements[i].kind != NABLA_ATTRIBUTE_INTEGER || number < 1 ||
        number > NABLA_COMM_MAX_RANKS)
      return 0;
    *(i % 2 ? &out->size[i / 2] : &out->stride[i / 2]) = (uint32_t)number;
  }
  return 1;
}

/* The rank's number among those that differ in the axes, and all of them. */
static int find_members(const nabla_call_frame *frame, const places *p,
                        nabla_collective *c) {
  const uint32_t ranks = nabla_comm_size(frame->comm);
  uint32_t first = frame->place;
  c->count = 1;
  c->index = 0;
  for (size_t i = 0; i < p->count; i++) {
    const uint32_t at = frame->place / p->stride[i] % p->size[i];
    if (c->count > NABLA_COMM_MAX_RANKS / p->size[i]) return 0;
    c->count *= p->size[i];
    c->index = c->index * p->size[i] + at;
    first -= at * p->stride[i];
  }
  for (uint32_t m = 0; m < c->count; m++) {
    uint32_t left = m, place = first;
    for (size_t i = p->count; i-- > 0; left /= p->size[i])
      place += left % p->size[i] * p->stride[i];
    if (place >= ranks) return 0;
    c->members[m] = frame->ranks ? frame->ranks[place] : place;
  }
  return 1;
}

static nabla_call_code begin(const nabla_call_frame *frame, calling *call) {
  places p = {0};
  *call = (calling){.frame = frame, .c.rank = frame->rank};
  if (!frame->comm)
    return fail(call, NABLA_CALL_FAILED_PRECONDITION,
                "the program is for several ranks: give the session a "
                "communicator");
  if (!read_places(frame, &p) || !find_members(frame, &p, &call->c))
    return fail(call, NABLA_CALL_INVALID_ARGUMENT,
                "its mesh has other ranks than the communicator");
  return NABLA_CALL_OK;
}

/* ---- arrays ---- */

/* `self` of handlers that start an exchange. */
static const char starts;

static int64_t setting(const calling *call, const char *name,
                       int64_t otherwise) {
  return nabla_attribute_tree_integer(call->frame->attributes, name, otherwise);
}

/* The arrays as [outer, rows, inner] around a dimension of `of`. */
static int take_arrays(calling *call, const nabla_call_buffer *of,
                       int64_t dim) {
  nabla_collective *c = &call->c;
  const nabla_call_buffer *x = &call->frame->arguments[0];
  if (dim < 0 || dim > of->rank || x->dtype != call->frame->results[0].dtype)
    return 0;
  c->dtype = x->dtype;
  c->in = x->data;
  c->out = call->frame->results[0].data;
  c->outer = c->rows = c->inner = 1;
  for (uint32_t i = 0; i < of->rank; i++)
    *(i < dim    ? &c->outer
      : i == dim ? &c->rows
                 : &c->inner) *= (uint64_t)of->dims[i];
  return 1;
}

static nabla_call_code refuse_arrays(const calling *call) {
  return fail(call, NABLA_CALL_INVALID_ARGUMENT,
              "arrays do not have the sizes of the exchange");
}

static nabla_call_code code_of(const calling *call, nabla_status status,
                               const nabla_diag *diag) {
  if (!status) return NABLA_CALL_OK;
  return fail(call,
              status == NABLA_NO_MEMORY ? NABLA_CALL_RESOURCE_EXHAUSTED
                                        : NABLA_CALL_CANCELLED,
              diag->what);
}

static uint64_t bytes_of(const nabla_call_buffer *x) {
  uint64_t bytes = nabla_dtype_bits(x->dtype) / 8;
  for (uint32_t i = 0; i < x->rank; i++) bytes *= (uint64_t)x->dims[i];
  return bytes;
}

/* Starts an exchange of a copy of the argument: of the result itself where this
 * has its size (all_reduce), else of the second result. */
static nabla_call_code start(calling *call) {
  nabla_diag diag = NABLA_DIAG_INIT;
  const nabla_call_frame *frame = call->frame;
  const nabla_call_buffer *copy = &frame->results[frame->result_count - 1];
  const uint64_t bytes = bytes_of(&frame->arguments[0]);
  if (bytes != bytes_of(copy))
    return fail(call, NABLA_CALL_INVALID_ARGUMENT,
                "arrays do not have the sizes of the exchange");
  memcpy(copy->data, call->c.in, (size_t)bytes);
  call->c.in = copy->data;
  return code_of(call, nabla_comm_start(frame->comm, &call->c, &diag), &diag);
}

static nabla_call_code run(calling *call) {
  nabla_diag diag = NABLA_DIAG_INIT;
  if (!call->c.outer || !call->c.rows || !call->c.inner) return NABLA_CALL_OK;
  if (call->frame->self == &starts) return start(call);
  return code_of(call, nabla_comm_run(call->frame->comm, &call->c, &diag),
                 &diag);
}

/* Whether dimension `dim` of `large` is `times` that of `small`, and all others
 * agree. */
static int fits(const nabla_call_buffer *large, const nabla_call_buffer *small,
                int64_t dim, int64_t times) {
  if (large->rank != small->rank) return 0;
  for (uint32_t i = 0; i < large->rank; i++)
    if (large->dims[i] != small->dims[i] * (i == dim ? times : 1)) return 0;
  return 1;
}

#define BEGIN                                        \
  calling call;                                      \
  const nabla_call_code begun = begin(frame, &call); \
  if (begun) return begun;                           \
  const nabla_call_buffer *x = &frame->arguments[0]; \
  const nabla_call_buffer *y = &frame->results[0];   \
  const int64_t dim = setting(&call, "dim", 0);      \
  const int64_t n = call.c.count;                    \
  (void)x, (void)y, (void)dim, (void)n

static nabla_call_code take_join(calling *call) {
  call->c.join = (nabla_join)setting(call, "kind", 0);
  if (nabla_collective_can_join(call->c.join, call->c.dtype))
    return NABLA_CALL_OK;
  return fail(call, NABLA_CALL_UNIMPLEMENTED,
              "elements of this type cannot be joined so");
}

static nabla_call_code all_reduce(const nabla_call_frame *frame) {
  BEGIN;
  call.c.kind = NABLA_COLLECTIVE_ALL_REDUCE;
  if (!fits(x, y, 0, 1) || !take_arrays(&call, x, 0))
    return refuse_arrays(&call);
  const nabla_call_code code = take_join(&call);
  return code ? code : run(&call);
}

static nabla_call_code reduce_scatter(const nabla_call_frame *frame) {
  BEGIN;
  call.c.kind = NABLA_COLLECTIVE_REDUCE_SCATTER;
  if (!fits(x, y, dim, n) || !take_arrays(&call, y, dim))
    return refuse_arrays(&call);
  const nabla_call_code code = take_join(&call);
  return code ? code : run(&call);
}

static nabla_call_code all_gather(const nabla_call_frame *frame) {
  BEGIN;
  call.c.kind = NABLA_COLLECTIVE_ALL_GATHER;
  if (!fits(y, x, dim, n) || !take_arrays(&call, x, dim))
    return refuse_arrays(&call);
  return run(&call);
}

/* Nothing is exchanged. */
static nabla_call_code all_slice(const nabla_call_frame *frame) {
  BEGIN;
  if (!fits(x, y, dim, n) || !take_arrays(&call, y, dim))
    return refuse_arrays(&call);
  const nabla_collective *c = &call.c;
  const uint64_t piece = c->rows * c->inner * (nabla_dtype_bits(c->dtype) / 8);
  for (uint64_t o = 0; o < c->outer; o++)
    memcpy((uint8_t *)c->out + o * piece,
           (const uint8_t *)c->in + (o * c->count + c->index) * piece,
           (size_t)piece);
  return NABLA_CALL_OK;
}

static nabla_call_code all_to_all(const nabla_call_frame *frame) {
  BEGIN;
  nabla_collective *c = &call.c;
  const int64_t split = setting(&call, "split", 0);
  const int64_t concat = setting(&call, "concat", 0);
  c->kind = NABLA_COLLECTIVE_ALL_TO_ALL;
  if (x->rank != y->rank || !take_arrays(&call, x, 0) || split == concat ||
      split < 0 || concat < 0 || split >= x->rank || concat >= x->rank)
    return refuse_arrays(&call);
  for (uint32_t i = 0; i < x->rank; i++)
    if (i == split    ? x->dims[i] != y->dims[i] * n
        : i == concat ? x->dims[i] * n != y->dims[i]
                      : x->dims[i] != y->dims[i])
      return refuse_arrays(&call);
  c->split = (uint32_t)split;
  c->concat = (uint32_t)concat;
  c->dims = x->dims;
  c->dim_count = x->rank;
  return run(&call);
}

static nabla_call_code permute(const nabla_call_frame *frame) {
  BEGIN;
  const nabla_attribute_tree *pairs =
      nabla_attribute_tree_find(frame->attributes, "pairs");
  call.c.kind = NABLA_COLLECTIVE_PERMUTE;
  call.c.source = UINT32_MAX;
  if (!fits(x, y, 0, 1) || !take_arrays(&call, x, 0))
    return refuse_arrays(&call);
  for (size_t i = 0; pairs && i + 1 < pairs->count; i += 2)
    if (pairs->elements[i + 1].integer == call.c.index)
      call.c.source = (uint32_t)pairs->elements[i].integer;
  return run(&call);
}

static nabla_call_code broadcast(const nabla_call_frame *frame) {
  BEGIN;
  call.c.kind = NABLA_COLLECTIVE_BROADCAST;
  call.c.source = (uint32_t)setting(&call, "from", 0);
  if (!fits(x, y, 0, 1) || !take_arrays(&call, x, 0))
    return refuse_arrays(&call);
  return run(&call);
}

static nabla_call_code axis_index(const nabla_call_frame *frame) {
  calling call;
  const nabla_call_code begun = begin(frame, &call);
  if (begun) return begun;
  *(int64_t *)frame->results[0].data = call.c.index;
  return NABLA_CALL_OK;
}

/* The result is the first argument, whose exchange was started. */
static nabla_call_code wait_for(const nabla_call_frame *frame) {
  nabla_diag diag = NABLA_DIAG_INIT;
  const calling call = {.frame = frame};
  const nabla_call_buffer *y = &frame->results[0];
  if (!frame->comm || y->data != frame->arguments[0].data)
    return fail(&call, NABLA_CALL_FAILED_PRECONDITION,
                "its result lies elsewhere than its argument");
  if (!bytes_of(y)) return NABLA_CALL_OK;
  return code_of(
      &call, nabla_comm_wait(frame->comm, frame->rank, y->data, &diag), &diag);
}

/* ---- the table ---- */

static const nabla_call_parameter x[] = {{"x", 0, -1, NULL},
                                         {"copy", 0, -1, NULL}};
static const nabla_call_parameter y[] = {{"y", 0, -1, NULL},
                                         {"copy", 0, -1, NULL}};
static const nabla_call_parameter rank_index[] = {
    {"index", NABLA_CALL_DTYPE(I64), 0, NULL}};
#define AXES {"axes", NABLA_ATTRIBUTE_ARRAY, 0}
#define KIND {"kind", NABLA_ATTRIBUTE_INTEGER, 0}
#define DIM  {"dim", NABLA_ATTRIBUTE_INTEGER, 0}
static const nabla_call_attribute joins[] = {AXES, KIND};
static const nabla_call_attribute along[] = {AXES, DIM};
static const nabla_call_attribute scatters[] = {AXES, KIND, DIM};
static const nabla_call_attribute moves[] = {
    AXES,
    {"split", NABLA_ATTRIBUTE_INTEGER, 0},
    {"concat", NABLA_ATTRIBUTE_INTEGER, 0}};
static const nabla_call_attribute sends[] = {
    AXES, {"pairs", NABLA_ATTRIBUTE_ARRAY, 0}};
static const nabla_call_attribute gives[] = {
    AXES, {"from", NABLA_ATTRIBUTE_INTEGER, 0}};
static const nabla_call_attribute axes[] = {AXES};
#define HANDLER_OF(name, function, list, inputs, result, outputs, is_start) \
  {.struct_size = sizeof(nabla_call_handler),                               \
   .target = "nabla." name,                                                 \
   .platform = "cpu",                                                       \
   .arguments = x,                                                          \
   .argument_count = inputs,                                                \
   .results = result,                                                       \
   .result_count = outputs,                                                 \
   .attributes = list,                                                      \
   .attribute_count = sizeof list / sizeof *list,                           \
   .execute = function,                                                     \
   .self = is_start ? (void *)&starts : NULL}
#define HANDLER(id, list, inputs, result) \
  HANDLER_OF(#id, id, list, inputs, result, 1, 0)
#define START(id, list, outputs) \
  HANDLER_OF("start_" #id, id, list, 1, y, outputs, 1)
static const nabla_call_handler all[] = {
    HANDLER(all_reduce, joins, 1, y),
    HANDLER(all_gather, along, 1, y),
    HANDLER(all_slice, along, 1, y),
    HANDLER(reduce_scatter, scatters, 1, y),
    HANDLER(all_to_all, moves, 1, y),
    HANDLER(permute, sends, 1, y),
    HANDLER(broadcast, gives, 1, y),
    HANDLER(axis_index, axes, 0, rank_index),
    START(all_reduce, joins, 1),
    START(all_gather, along, 2),
    START(reduce_scatter, scatters, 2),
    {.struct_size = sizeof(nabla_call_handler),
     .target = "nabla.wait",
     .platform = "cpu",
     .arguments = x,
     .argument_count = 2,
     .is_variadic = 1,
     .results = y,
     .result_count = 1,
     .execute = wait_for},
};
#undef START
#undef HANDLER_OF
#undef HANDLER
#undef AXES
#undef KIND
#undef DIM

const nabla_call_handler *nabla_collective_handlers(size_t *out_count) {
  *out_count = sizeof all / sizeof *all;
  return all;
}
