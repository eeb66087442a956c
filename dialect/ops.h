/* ops.def as a table. */
#ifndef NABLA_DIALECT_OPS_H
#define NABLA_DIALECT_OPS_H

#include <mlir-c/IR.h>
#include <stddef.h>

/* What becomes of an implicit operand; see ops.def. */
typedef enum nabla_implicit_use {
  NABLA_IMPLICIT_none,
  NABLA_IMPLICIT_takes,
  NABLA_IMPLICIT_flows,
  NABLA_IMPLICIT_views,
  NABLA_IMPLICIT_rules,
} nabla_implicit_use;

/* A row of ops.def. Texts are the columns' spelling, "_" where empty. */
typedef struct nabla_op_row {
  const char *name; /* "nabla.add" */
  nabla_implicit_use implicit;
  const char *lowering, *vjp, *jvp, *batch, *factor, *cost;
} nabla_op_row;

const nabla_op_row *nabla_op_rows(size_t *out_count);

/* NULL when `op` is not of this dialect. */
const nabla_op_row *nabla_op_find(MlirOperation op);

#endif
