/* The frame of one run: descriptors of its arrays, and the steps that run.c
 * takes. Inputs are described by run_inputs.c, results by run_results.c. */
#ifndef NABLA_RUNTIME_SESSION_RUN_FRAME_H
#define NABLA_RUNTIME_SESSION_RUN_FRAME_H

#include <string.h>

#include "lib/runtime/program/type_to_text.h"
#include "lib/runtime/session/run.h"
#include "lib/runtime/session/run_spans.h"

/* An array as an argument or result of compiled code (nabla/services.h). */
typedef struct nabla_run_descriptor {
  void *allocated, *aligned;
  int64_t offset;
  int64_t numbers[]; /* `rank` sizes, then `rank` strides */
} nabla_run_descriptor;

_Static_assert(sizeof(void *) == sizeof(int64_t),
               "code is for 64-bit machines");

#define NABLA_RUN_WORD sizeof(int64_t)

/* The state of one run. Its pointers, and then its descriptors, lie in one
 * block of words that the caller of nabla_run_function has allocated. */
typedef struct nabla_run_frame {
  const nabla_signature *function;
  const nabla_run_arrays *arrays;
  nabla_dense *outputs; /* per result: the caller's, or `expanded`        */
  nabla_dense *expanded;
  void **arguments, **results; /* passed to the entry point               */
  void **staged;               /* per result: block to give or copy       */
  nabla_result_block *blocks;  /* per result: where it may be computed    */
  void *const *states;         /* of the session, by port; NULL: none     */
  nabla_binding *pieces;       /* of the session, by port; NULL: none     */
  const nabla_run_room *room;  /* of the session                          */
  uint32_t place;              /* of the session's rank in the mesh       */
  nabla_run_spans read, given; /* the inputs', and the outputs' memory    */
  int has_overlap;             /* an output is in the memory of an input  */
  int64_t *free;               /* room for the next descriptor            */
  nabla_diag *diag;
} nabla_run_frame;

/* Words of a descriptor. */
static inline size_t nabla_run_descriptor_words(uint32_t rank) {
  return sizeof(nabla_run_descriptor) / NABLA_RUN_WORD + 2 * (size_t)rank;
}

static inline nabla_run_descriptor *nabla_run_descriptor_add(nabla_run_frame *f,
                                                             uint32_t rank) {
  nabla_run_descriptor *out = (nabla_run_descriptor *)(void *)f->free;
  f->free += nabla_run_descriptor_words(rank);
  return out;
}

/* Computes the size in bytes of an array. Returns 0 if a size is negative, or
 * if the bytes or a stride overflow. */
int nabla_run_count_bytes(nabla_dtype dtype, uint32_t rank,
                          const int64_t *shape, uint64_t *out);

/* Whether an array has the dtype, rank and static sizes of the port. */
int nabla_run_matches(const nabla_port *port, const nabla_dense *array);

/* The type of an array of the caller's, whose rank may be any. */
nabla_text_80 nabla_run_describe(const nabla_dense *array);

/* run_inputs.c: checks that the number of inputs is the function's, and
 * describes its arguments. */
NABLA_MUST_USE nabla_status nabla_run_check_inputs(
    const nabla_executable *executable, const nabla_run_frame *f);
NABLA_MUST_USE nabla_status
nabla_run_add_arguments(nabla_run_frame *f, const nabla_executable *executable);

/* run_results.c, in the order in which a run takes them. The number of outputs
 * is checked, and those of nabla_session_call become `outputs`. */
NABLA_MUST_USE nabla_status nabla_run_check_outputs(nabla_run_frame *f);
/* Checks the caller's result arrays as far as their types are known before the
 * run, and adds descriptors for the results. */
NABLA_MUST_USE nabla_status nabla_run_add_results(nabla_run_frame *f);
/* Does every step that can fail before outputs are written. */
NABLA_MUST_USE nabla_status nabla_run_stage(nabla_run_frame *f,
                                            nabla_run_context *context);
/* Gives the caller the results. Nothing here can fail. */
void nabla_run_deliver(nabla_run_frame *f, nabla_run_context *context);

#endif
