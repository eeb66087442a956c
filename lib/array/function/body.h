/* Bodies: callbacks that are traced into a region of an operation, or into a
 * private function that is called. */
#ifndef NABLA_ARRAY_BODY_H
#define NABLA_ARRAY_BODY_H

#include "lib/array/emit.h"
#include "lib/array/function/tree_walk.h"
#include "lib/array/trace.h"
#include "nabla/function.h"
#include "transforms/ir/build_control.h"

/* A body. Its arguments have the types of arrays outside; its leaves after them
 * are the arrays that it captures. */
typedef struct nabla_body {
  const nabla_array_call *site;
  nabla_scope *outer;
  nabla_trace trace;
  nabla_walk walk;
  size_t argument_count, result_count;
  nabla_array *const *outside;   /* arrays that arguments stand for, borrowed */
  const nabla_array_type *types; /* of arguments; NULL: those of `outside` */
  size_t whole_count;            /* later arguments have no first dimension */
  nabla_buffer arguments_memory, results_memory;
  nabla_array **arguments, **results; /* held if `is_traced` */
  bool is_traced;
  /* for nabla_body_region */
  uint32_t first_capture; /* the number of its first capture as an operand */
  bool passes_arguments;  /* gives its arguments too, after the results */
  bool failed;            /* no memory while it was written */
} nabla_body;

/* What a body is made from. */
typedef struct nabla_body_source {
  nabla_function_callback callback;
  void *self;
  const nabla_tree *values; /* given to the callback; NULL: `shape`, with the
                               arguments of the body in its places */
  const nabla_tree *shape;
  const nabla_tree *results; /* the structure that the callback gives */
} nabla_body_source;

/* Prepares a body of `count` arguments, of the types of `outside`. */
void nabla_body_init(nabla_body *body, const nabla_array_call *site,
                     nabla_scope *outer, size_t count,
                     nabla_array *const *outside);
/* Traces it. False after a failure of the outer scope. What was recorded stays
 * until nabla_body_deinit. */
bool nabla_body_trace(nabla_body *body, const nabla_body_source *source);
void nabla_body_deinit(nabla_body *body);

/* Arrays that the body captures. */
size_t nabla_body_capture_count(const nabla_body *body);
nabla_array *nabla_body_capture(const nabla_body *body, size_t index);
/* Appends what tells it apart from other bodies. */
NABLA_MUST_USE nabla_status nabla_body_add_key(const nabla_body *body,
                                               nabla_buffer *key,
                                               nabla_diag *diag);
/* A region that consists of the body. */
nabla_built_region nabla_body_region(nabla_body *body);
/* Replaces sizes of a result by the numbers that they have outside;
 * NABLA_DYNAMIC where they have none. */
void nabla_body_lift_sizes(const nabla_body *body, nabla_array_type *type);

/* Gives arrays that `count` results from `first` on were recorded as the sizes
 * that those have outside. */
void nabla_body_lift_results(const nabla_body *body, size_t first, size_t count,
                             nabla_array *const *out);

/* Records a call of a private function NAME.HASH that consists of the body. */
bool nabla_body_call(nabla_body *body, const char *name, nabla_array **out);

#endif
