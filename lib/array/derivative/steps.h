/* Functions of a recorder that are made by passes of autodiff and batching from
 * a body that was traced, and calls of them. */
#ifndef NABLA_ARRAY_DERIVATIVE_STEPS_H
#define NABLA_ARRAY_DERIVATIVE_STEPS_H

#include "lib/array/function/body.h"
#include "transforms/autodiff/derive.h"

typedef enum nabla_step_kind {
  NABLA_STEP_VJP,  /* nabla_derive_vjp */
  NABLA_STEP_JVP,  /* nabla_derive_jvp */
  NABLA_STEP_VMAP, /* nabla_batch_make */
} nabla_step_kind;

/* A step from a function to one that is made from it. */
typedef struct nabla_step {
  nabla_step_kind kind;
  /* derivatives: of which arguments, and of which results (NULL: all) */
  size_t wrt_count, result_count;
  const nabla_wrt *wrt;
  const bool *results;
  bool is_finite; /* VJP: a gradient that is not finite fails the run */
  /* batches: an axis for each argument and result, and the size, or
   * NABLA_DYNAMIC */
  size_t in_count, out_count;
  const intptr_t *in_axes, *out_axes;
  int64_t size;
} nabla_step;

/* A call of the function that steps make from a body. */
typedef struct nabla_stepped {
  const nabla_array_call *site;
  nabla_scope *scope;
  const nabla_body *body;
  const char *name; /* of functions, for MLIR */
  size_t step_count;
  const nabla_step *steps;
  size_t operand_count; /* arguments and captures of the body, and more */
  nabla_array *const *operands;
  size_t result_count;
} nabla_stepped;

/* Records the call. `out` gets its results; all NULL after a failure of the
 * scope. */
bool nabla_stepped_record(const nabla_stepped *stepped, nabla_array **out);

#endif
