/* Custom calls: C functions that programs call by name,
 *   %y = nabla.custom_call @scale(%x) {by = 2.0} : (tensor<4xf32>) ->
 *        tensor<4xf32>
 * Part of libnabla-runtime: what was compiled needs its handlers when it is
 * opened, in whatever process; no address of theirs is kept in code. */
#ifndef NABLA_CUSTOM_CALL_H
#define NABLA_CUSTOM_CALL_H

#include <stddef.h>
#include <stdint.h>

#include "nabla/attribute_tree.h"
#include "nabla/comm.h"
#include "nabla/dtype.h"
#include "nabla/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Structures of this header, custom_encoding.h and mlir.h grow at their end,
 * and begin with `struct_size`. In what a program gives it is the sizeof of the
 * structure that the program was compiled with; any other size than this
 * library's, larger or smaller, is refused with NABLA_INVALID_ARGUMENT. In what
 * a program is given it says which members there are. */
#define NABLA_CALL_API 1u

/* An array that a handler is given: row-major, without gaps. */
typedef struct nabla_call_buffer {
  size_t struct_size;
  nabla_dtype dtype; /* I1 values are BOOL: a byte each */
  uint32_t rank;
  const int64_t *dims;
  void *data; /* of an argument: not to be written */
} nabla_call_buffer;

/* How a call ended; numbers and meaning are those of absl's status codes. */
typedef enum nabla_call_code {
  NABLA_CALL_OK = 0,
  NABLA_CALL_CANCELLED = 1,
  NABLA_CALL_UNKNOWN = 2,
  NABLA_CALL_INVALID_ARGUMENT = 3,
  NABLA_CALL_DEADLINE_EXCEEDED = 4,
  NABLA_CALL_NOT_FOUND = 5,
  NABLA_CALL_ALREADY_EXISTS = 6,
  NABLA_CALL_PERMISSION_DENIED = 7,
  NABLA_CALL_RESOURCE_EXHAUSTED = 8,
  NABLA_CALL_FAILED_PRECONDITION = 9,
  NABLA_CALL_ABORTED = 10,
  NABLA_CALL_OUT_OF_RANGE = 11,
  NABLA_CALL_UNIMPLEMENTED = 12,
  NABLA_CALL_INTERNAL = 13,
  NABLA_CALL_UNAVAILABLE = 14,
  NABLA_CALL_DATA_LOSS = 15,
  NABLA_CALL_UNAUTHENTICATED = 16,
} nabla_call_code;

/* What a handler is called with; valid during the call. */
typedef struct nabla_call_frame {
  size_t struct_size;
  uint32_t api; /* NABLA_CALL_API of the caller */
  uint32_t argument_count, result_count;
  const nabla_call_buffer *arguments;
  const nabla_call_buffer *results;       /* to be filled, all of them */
  const nabla_attribute_tree *attributes; /* a dictionary, sorted by name */
  void *self;                             /* of the handler */
  void *state;                            /* what `create` made */
  uint64_t state_type;                    /* of the handler */
  /* Where the text of a failure goes, NUL-terminated; shown to whoever runs
   * the program. */
  char *message;
  size_t message_size;
  /* Of a program for several ranks: nabla/comm.h. NULL and 0 of others. */
  nabla_comm *comm;
  uint32_t rank;
  /* The rank's number in row-major order of the mesh, and the ranks by these
   * numbers; NULL: both are the same, as of a mesh without `devices`. */
  uint32_t place;
  const uint32_t *ranks;
} nabla_call_frame;

/* What is known of an argument or result. */
typedef struct nabla_call_parameter {
  const char *name;
  uint32_t dtypes; /* NABLA_CALL_DTYPE(F32) | ...; 0: any */
  int rank;        /* -1: any */
  /* Of an argument: NULL, or the name of an encoding ("nf4", a custom one's):
   * then an implicit array of it that is no view comes as its components, a
   * buffer each, and nothing else is taken. */
  const char *encoding;
} nabla_call_parameter;
#define NABLA_CALL_DTYPE(name) (UINT32_C(1) << NABLA_DTYPE_##name)

typedef struct nabla_call_attribute {
  const char *name;
  nabla_attribute_tree_kind kind;
  int is_optional;
} nabla_call_attribute;

/* Traits. */
#define NABLA_CALL_PURE   1u /* the results follow from the arguments alone */
#define NABLA_CALL_SERIAL 2u /* one call at a time for each state */

typedef struct nabla_call_handler {
  size_t struct_size;   /* sizeof(nabla_call_handler) */
  const char *target;   /* letters, digits, '_', '.' and '-' */
  const char *platform; /* "cpu" */
  uint32_t traits;
  const nabla_call_parameter *arguments, *results;
  size_t argument_count, result_count;
  int is_variadic; /* any number of arguments like the last one */
  const nabla_call_attribute *attributes;
  size_t attribute_count;
  int takes_any_attributes; /* also such as are not listed */
  /* Does the work. May be called on several threads at once (unless SERIAL). */
  nabla_call_code (*execute)(const nabla_call_frame *frame);
  /* NULL, or: makes what a call of the program keeps, when the compiled program
   * is opened, with attributes and without buffers; and frees it, when it is
   * closed. */
  nabla_call_code (*create)(const nabla_call_frame *frame, void **out_state);
  void (*destroy)(void *self, void *state);
  uint64_t state_type; /* of nabla_call_type; 0: none */
  void *self;
} nabla_call_handler;

/* Adds a handler for the rest of the process. What it points to is copied but
 * for `self`. @return NABLA_OK, NABLA_INVALID_ARGUMENT (what is not legal, or
 * the target has a handler for the platform), NABLA_NO_MEMORY. Thread-safe. */
NABLA_API NABLA_MUST_USE nabla_status
nabla_add_call_handler(const nabla_call_handler *handler, nabla_diag *diag);

/* Calls `visit` for every handler, in the order of their targets, until it
 * returns 0. `platform` NULL: of all platforms. */
NABLA_API void nabla_call_handlers(const char *platform,
                                   int (*visit)(void *self,
                                                const nabla_call_handler *),
                                   void *self);

/* The number of a type of states: the same for the same name, another for
 * another one, in this process; never 0 but without memory. Thread-safe. */
NABLA_API uint64_t nabla_call_type(const char *name);
/* The state of a frame, when it has that type; else NULL. */
NABLA_API void *nabla_call_state(const nabla_call_frame *frame, uint64_t type);

/* ---- handlers that exchange values ---- */

/* The ranks that a call exchanges values with: those that differ from its own
 * in the axes that its attribute `axes` names ("axes = [\"model\"]" in a
 * program of one device), in the order of the axes. Its own alone where it has
 * no `axes`, or the program is for one device. */
typedef struct nabla_call_group {
  size_t struct_size; /* sizeof(nabla_call_group) */
  uint32_t index, count;
} nabla_call_group;
NABLA_API nabla_call_code nabla_call_group_of(const nabla_call_frame *frame,
                                              nabla_call_group *out);

/* An exchange of a handler with its group. Members that the collective does not
 * read are ignored. */
typedef struct nabla_call_exchange {
  size_t struct_size;     /* sizeof(nabla_call_exchange) */
  const char *collective; /* "all_reduce", "reduce_scatter", "all_gather",
                             "all_slice", "all_to_all", "permute" or
                             "broadcast", with the arrays of nabla.all_reduce
                             etc., docs/OPS.md */
  const char *join;       /* of the first two: "sum", "max", "prod" or "min" */
  uint32_t dim;           /* along which pieces lie                          */
  uint32_t split, concat; /* of all_to_all                                   */
  uint32_t from;          /* of broadcast: a place of the group              */
  const int64_t *pairs;   /* of permute: from, to, from, to, ...             */
  size_t pair_count;      /* numbers in it: twice as many as pairs           */
  const nabla_call_buffer *x, *y; /* what the rank gives, and where its result
                                     is written; other memory                */
} nabla_call_exchange;

/* Carries it out, by the thread that runs the handler: every rank of the group
 * calls it for the same exchanges in the same order. What it returns other than
 * NABLA_CALL_OK, with a message in the frame, is to be returned by the handler.
 */
NABLA_API nabla_call_code nabla_call_run_exchange(
    const nabla_call_frame *frame, const nabla_call_exchange *exchange);

#ifdef __cplusplus
}
#endif

#endif
