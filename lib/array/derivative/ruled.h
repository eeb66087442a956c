/* Calls of functions with a derivative of their own: private functions with the
 * attributes nabla.straight_through, nabla.vjp and nabla.jvp, and the functions
 * that are their rules (docs/GRADIENTS.md). */
#ifndef NABLA_ARRAY_DERIVATIVE_RULED_H
#define NABLA_ARRAY_DERIVATIVE_RULED_H

#include "lib/array/function/body.h"

typedef enum nabla_ruled_part {
  NABLA_PART_BODY,     /* arguments -> results                              */
  NABLA_PART_FORWARD,  /* arguments -> results, what is saved               */
  NABLA_PART_BACKWARD, /* saved, cotangents of results of floats ->
                          cotangents of dense arguments of floats           */
  NABLA_PART_JVP,      /* arguments, tangents of dense arguments of floats ->
                          results, tangents of results of floats            */
  NABLA_PARTS
} nabla_ruled_part;

/* A callback; those of parts other than the body get, and give, a list of two
 * trees: what stands first above, and a list of arrays. Of the backward part
 * both are lists of arrays, and what it gives is one. */
typedef struct nabla_ruled_source {
  nabla_function_callback callback; /* NULL: there is no such part */
  void *self;
} nabla_ruled_source;

typedef struct nabla_ruled {
  const nabla_array_call *site;
  nabla_scope *scope;
  const char *name; /* of the function, for MLIR */
  const nabla_tree *arguments, *results;
  nabla_ruled_source parts[NABLA_PARTS];
  size_t saved_count;
  bool is_straight; /* nabla.straight_through */
} nabla_ruled;

/* Whether an array is dense and of floats: it has a cotangent. */
bool nabla_ruled_has_cotangent(const nabla_array_type *type);

/* Traces the parts and records the call, whose results are put into the tree.
 * False after a failure of the scope. */
bool nabla_ruled_record(const nabla_ruled *ruled);

#endif
