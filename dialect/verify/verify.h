/* Verifiers that are not in verify.c: one function for each name in the column
 * VERIFY of ops.def. */
#ifndef NABLA_DIALECT_VERIFY_VERIFY_H
#define NABLA_DIALECT_VERIFY_VERIFY_H

#include "dialect/verify/checks.h"

/* Failure after an error was reported, which says what would be legal. */
typedef MlirLogicalResult nabla_verifier(MlirOperation op);

/* verify_control.c */
nabla_verifier verify_cond, verify_while, verify_scan, verify_remat;
/* verify_call.c */
nabla_verifier verify_custom_call;
/* verify_shard.c */
nabla_verifier verify_mesh, verify_sharding_constraint, verify_collective,
    verify_whole_values, verify_sharding_group;
/* verify_shard_map.c */
nabla_verifier verify_shard_map;
/* verify_shape.c */
nabla_verifier verify_dynamic_slice, verify_conv_general;

/* What verifiers share: "'OP' op TEXT". */
#define NABLA_VERIFY_ERROR(op, ...)            \
  nabla_op_error(mlirOperationGetLocation(op), \
                 mlirIdentifierStr(mlirOperationGetName(op)), __VA_ARGS__)

/* The attribute `nabla.shardings` of an operation of any dialect: one sharding
 * for each result, or in scans also one for each input: its slices. */
MlirLogicalResult nabla_verify_shardings(MlirOperation op);

/* Operands from `first` on give each `?` of the result; where `may_infer` none
 * is needed for one. */
MlirLogicalResult nabla_verify_sizes(MlirOperation op, intptr_t first,
                                     bool may_infer);

#endif
