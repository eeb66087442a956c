/* Rules of derivatives: for each operation of dialect/ops.def what its column
 * DIFF says. Functions nabla_vjp_<name> and nabla_jvp_<name> are in the files
 * rules_*.c; they make operations of the dialect, so that what they make can be
 * differentiated again.
 *
 * A cotangent, or tangent, of a value is a tensor of its logical shape and
 * element type, also if the value is packed. Absent ones are null: they are 0
 * everywhere, and nothing is computed of them. Rules compute those of f16 and
 * bf16 in f32, with one conversion in and one out. Rules return false after an
 * error was reported. */
#ifndef NABLA_TRANSFORMS_AUTODIFF_RULES_H
#define NABLA_TRANSFORMS_AUTODIFF_RULES_H

#include "transforms/ir/build_moves.h"

typedef struct nabla_pullback {
  nabla_builder b;
  MlirOperation op;
  const bool *wanted;          /* for each operand */
  const MlirValue *cotangents; /* of each result; one at least is there */
  MlirValue *out;              /* for each operand that is wanted */
  bool is_varying; /* of a collective in a shard_map: operand 0 varies along its
                    * axes */
} nabla_pullback;

typedef struct nabla_pushforward {
  nabla_builder b;
  MlirOperation op;
  const MlirValue *tangents; /* of each operand; one at least is there */
  MlirValue *out;            /* for each result */
} nabla_pushforward;

typedef bool nabla_vjp_rule(const nabla_pullback *p);
typedef bool nabla_jvp_rule(const nabla_pushforward *p);

#define OP(id, columns) columns
#define LINEAR_BY(name) nabla_vjp_rule nabla_vjp_##name;
#define DIFF_BY(name)              \
  nabla_vjp_rule nabla_vjp_##name; \
  nabla_jvp_rule nabla_jvp_##name;
#include "dialect/ops.def"

/* What a rule can do for an operation: both NULL of one whose derivative is 0,
 * of control flow, of decompositions, and of one that has none. */
typedef struct nabla_diff_row {
  nabla_vjp_rule *vjp;
  nabla_jvp_rule *jvp;
} nabla_diff_row;
nabla_diff_row nabla_diff_find(MlirOperation op);

/* Whether results of an operation never depend on its operands to first order:
 * its row is `zero`, or it is of another dialect and has no arrays of floats
 * among its results. */
bool nabla_diff_is_zero(MlirOperation op);

/* Reports that an operation has no derivative, and what to do; false. */
bool nabla_diff_refuse(MlirOperation op);

/* Whether a value of this type can have a derivative: arrays of floats. */
bool nabla_diff_has(MlirType type);

/* What rules share (rules.c): a value in the type that f16 and bf16 are
 * computed in, dense; and an array of the shape and element type of `like`
 * from one that has this shape. */
MlirValue nabla_diff_widen(const nabla_builder *b, MlirValue x);
MlirValue nabla_diff_narrow(const nabla_builder *b, MlirValue x,
                            MlirValue like);

/* The operand of a rule's operation. */
MlirValue nabla_diff_operand(MlirOperation op, intptr_t index);

/* Repeats an array that lacks the dimensions `dims` in the shape of `like`;
 * `kept`: it has them with size 1. */
MlirValue nabla_diff_repeat(const nabla_builder *b, MlirValue x, intptr_t count,
                            const int64_t *dims, bool kept, MlirValue like);

#endif
