/* ops.def as a table. */
#ifndef NABLA_DIALECT_OPS_H
#define NABLA_DIALECT_OPS_H

#include <mlir-c/IR.h>
#include <stdbool.h>
#include <stddef.h>

/* What becomes of an implicit operand; see ops.def. */
typedef enum nabla_implicit_use {
  NABLA_IMPLICIT_none,
  NABLA_IMPLICIT_takes,
  NABLA_IMPLICIT_flows,
  NABLA_IMPLICIT_views,
  NABLA_IMPLICIT_rules,
  NABLA_IMPLICIT_parts,
} nabla_implicit_use;

/* Element types that an op takes; see type_classes.def. */
typedef enum nabla_type_class {
#define TYPES(id, types, what) NABLA_TYPES_##id,
#include "dialect/encoding/type_classes.def"
#undef TYPES
} nabla_type_class;

/* What an op costs; see costs.def. */
typedef enum nabla_cost_class {
#define COST(id, operations, bytes) NABLA_COST_##id,
#include "dialect/costs.def"
#undef COST
} nabla_cost_class;

/* A row of type_classes.def, and of costs.def. */
const char *nabla_type_class_types(nabla_type_class types);
const char *nabla_cost_operations(nabla_cost_class cost);
const char *nabla_cost_bytes(nabla_cost_class cost);

/* Whether a class has an element type. */
bool nabla_type_class_has(nabla_type_class types, MlirType element);

/* Derivative, batching and sharding of an op; see ops.def. `empty`: not decided
 * yet. */
typedef enum nabla_diff_rule {
  NABLA_DIFF_empty,
  NABLA_DIFF_zero,
  NABLA_DIFF_formula,
  NABLA_DIFF_linear,
  NABLA_DIFF_product,
  NABLA_DIFF_parts,
  NABLA_DIFF_control,
  NABLA_DIFF_refused,
  NABLA_DIFF_own, /* DIFF_BY: functions of its own */
} nabla_diff_rule;
typedef enum nabla_batch_rule {
  NABLA_BATCH_empty,
  NABLA_BATCH_elementwise,
  NABLA_BATCH_dims,
  NABLA_BATCH_parts,
  NABLA_BATCH_control,
  NABLA_BATCH_scan,
  NABLA_BATCH_none,
} nabla_batch_rule;
typedef enum nabla_shard_rule {
  NABLA_SHARD_empty,
  NABLA_SHARD_elementwise,
  NABLA_SHARD_dims,
  NABLA_SHARD_control,
  NABLA_SHARD_none,
  NABLA_SHARD_late,
  NABLA_SHARD_own, /* SHARD_BY: a function of its own */
} nabla_shard_rule;

/* A row of ops.def. */
typedef struct nabla_op_row {
  const char *name; /* "nabla.add" */
  nabla_implicit_use implicit;
  nabla_cost_class cost;
  nabla_type_class types;
  nabla_diff_rule diff;
  nabla_batch_rule batch;
  nabla_shard_rule shard;
} nabla_op_row;

const nabla_op_row *nabla_op_rows(size_t *out_count);

const nabla_op_row *nabla_op_named(MlirStringRef name);
/* NULL when `op` is not of this dialect. */
const nabla_op_row *nabla_op_find(MlirOperation op);

#endif
