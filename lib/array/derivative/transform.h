/* Functions that are made from functions: their options, and the part that all
 * of them have, which is tracing the function that they are made from. */
#ifndef NABLA_ARRAY_DERIVATIVE_TRANSFORM_H
#define NABLA_ARRAY_DERIVATIVE_TRANSFORM_H

#include <pthread.h>

#include "lib/array/derivative/names.h"
#include "lib/array/derivative/steps.h"
#include "lib/array/function/function.h"
#include "nabla/derivative.h"

/* `self` of a function that is made from another. */
typedef struct nabla_transform {
  const nabla_allocator *allocator;
  nabla_function *function; /* that it is made from: borrowed */
  const char *public_name;  /* "nabla_grad" */
  char title[96];           /* "nabla_grad of f": for messages */
  nabla_leaf_names wrt;
  nabla_buffer captured;   /* nabla_array *, held */
  bool has_value;          /* gives the results too */
  bool has_aux, is_finite; /* is_finite: gradients are checked */
  /* nabla_jacobian */
  nabla_jacobian_mode mode;
  nabla_tree_copy results; /* of the structure of the results */
  nabla_function *owned;   /* NULL, or `function`, destroyed with this */
  pthread_mutex_t lock; /* nabla_jvp: of the trees of tangents that it made */
  struct nabla_made_tree *made;
  /* nabla_vmap: an axis for each name in `wrt`, the first `in_count` those of
   * arguments */
  nabla_buffer axes; /* int64_t */
  size_t in_count;
  int64_t size;
} nabla_transform;

/* A tree that was put at an open place: callers have it. */
typedef struct nabla_made_tree {
  struct nabla_made_tree *next;
  nabla_tree_copy copy;
} nabla_made_tree;

/* How a public function makes one. */
typedef struct nabla_transform_row {
  const char *public_name, *suffix; /* "nabla_grad", "grad" */
  nabla_function_callback callback;
  bool has_value, takes_aux;
  bool takes_finite;    /* check_finite */
  bool takes_mode;      /* and results */
  bool keeps_arguments; /* has the arguments, and so the dims, of `function` */
} nabla_transform_row;

/* Makes `self` of a function, and the function of it, which then owns it. Freed
 * by nabla_transform_free if that fails. */
NABLA_MUST_USE nabla_status
nabla_transform_begin(const nabla_transform_row *row, nabla_function *function,
                      nabla_transform **out, nabla_diag *diag);
NABLA_MUST_USE nabla_status
nabla_transform_end(const nabla_transform_row *row, nabla_transform *transform,
                    const nabla_function_options *options, nabla_function **out,
                    nabla_diag *diag);
void nabla_transform_free(void *transform);

/* Makes the function. */
NABLA_MUST_USE nabla_status
nabla_transform_create(const nabla_transform_row *row, nabla_function *function,
                       const nabla_derivative_options *options,
                       nabla_function **out, nabla_diag *diag);

/* The function within the trace of what is made from it. */
typedef struct nabla_inner {
  const nabla_transform *transform;
  nabla_scope *scope;
  nabla_array_call site;
  nabla_body body;
  nabla_diag diag;     /* of a failure that the scope does not have yet */
  nabla_buffer leaves; /* nabla_array *: of the arguments */
  const nabla_array_type *types; /* of the arguments within; NULL: the same */
  nabla_buffer operands;  /* nabla_array *: of the call that is recorded */
  nabla_selection chosen; /* what the derivative is taken of */
  nabla_buffer wrt;       /* nabla_wrt: of these, then of `captured` */
  nabla_buffer results;   /* nabla_array *: of the call */
} nabla_inner;

void nabla_inner_init(nabla_inner *inner, const nabla_transform *transform,
                      nabla_scope *scope);
/* Enters the failure, if there is one, in the scope. */
void nabla_inner_deinit(nabla_inner *inner);

/* A list of arrays in a buffer. */
static inline nabla_array **nabla_arrays(const nabla_buffer *buffer) {
  return (nabla_array **)(void *)buffer->data;
}
static inline size_t nabla_arrays_count(const nabla_buffer *buffer) {
  return buffer->size / sizeof(nabla_array *);
}
/* Appends the leaves of a tree. */
NABLA_MUST_USE nabla_status nabla_arrays_add(nabla_buffer *buffer,
                                             const nabla_tree *tree,
                                             nabla_diag *diag);

/* Traces the function; operands begin with its arguments and captures.
 * @param arguments  its arguments
 * @param results    a tree of the structure that it gives */
NABLA_MUST_USE nabla_status nabla_inner_trace(nabla_inner *inner,
                                              const nabla_tree *arguments,
                                              const nabla_tree *results,
                                              nabla_diag *diag);
/* Chooses what the derivative is taken of, and checks that it has one. */
NABLA_MUST_USE nabla_status nabla_inner_choose(nabla_inner *inner,
                                               const nabla_tree *arguments,
                                               nabla_diag *diag);
/* The array that entry `index` of `wrt` stands for. */
nabla_array *nabla_inner_wrt(const nabla_inner *inner, size_t index);
size_t nabla_inner_wrt_count(const nabla_inner *inner);

/* Records a call of what steps make from the function, of the operands. The
 * first results of the call may be those of the function: these get their
 * sizes. */
NABLA_MUST_USE nabla_status nabla_inner_record(nabla_inner *inner,
                                               size_t step_count,
                                               const nabla_step *steps,
                                               size_t result_count,
                                               nabla_diag *diag);

/* Gives the results of a call sizes: the first those of the function, and those
 * from `gradients` on, if that is not 0, those of what they are gradients of.
 */
void nabla_inner_size(nabla_inner *inner, size_t gradients);

/* Compares the leaves of `tree`, called `what`, with those results of the
 * function, a tree of the structure `results`, that are of floats. */
NABLA_MUST_USE nabla_status nabla_inner_check_results(const nabla_inner *inner,
                                                      const nabla_tree *results,
                                                      const char *what,
                                                      const nabla_tree *tree,
                                                      nabla_diag *diag);
/* What a call gives besides the arguments: a cotangent of a result, or a
 * tangent of an argument. */
typedef struct nabla_direction {
  const char *given, *of; /* for messages */
} nabla_direction;

/* Appends to the operands what is given for `of`; `name` is that of the leaf.
 */
NABLA_MUST_USE nabla_status nabla_inner_give(
    nabla_inner *inner, const nabla_direction *direction, const char *name,
    nabla_array *given, const nabla_array *of, nabla_diag *diag);

/* Item `index` of a tree that has to be a list of `count`, of `what`; NULL with
 * a message. */
const nabla_tree *nabla_inner_item(const nabla_tree *tree, size_t count,
                                   size_t index, const char *what,
                                   nabla_diag *diag);

/* Whether an array is of floats, its values if it is packed. */
bool nabla_array_has_floats(const nabla_array *array);

#endif
