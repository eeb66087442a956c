/* Extending the compiler from C: dispatch rules, derivatives and batches of
 * custom calls. The one header of the project that mentions MLIR types;
 * encodings from outside are in nabla/custom_encoding.h, custom calls in
 * nabla/custom_call.h. */
#ifndef NABLA_MLIR_H
#define NABLA_MLIR_H

#include <mlir-c/IR.h>
#include <mlir-c/Rewrite.h>
#include <stdbool.h>
#include <stddef.h>

#include "nabla/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a rule did. */
typedef enum nabla_rule_outcome {
  NABLA_RULE_APPLIED,  /* the op was replaced and is gone         */
  NABLA_RULE_REFINED,  /* an operand was replaced: try again      */
  NABLA_RULE_DECLINED, /* nothing was changed; others may try     */
  NABLA_RULE_FAILED,   /* an error was reported                   */
} nabla_rule_outcome;

/* What a rule is called with. */
typedef struct nabla_dispatch_call {
  size_t struct_size;
  void *self; /* of the description */
  MlirOperation op;
  /* Change the program through this alone: mlirRewriterBaseInsert,
   * mlirRewriterBaseReplaceOpWithValues, and mlirRewriterBaseEraseOp of an op
   * whose results nothing uses. It inserts before `op`. */
  MlirRewriterBase rewriter;
  /* To be set when it declines, for the report of what is materialized: text
   * that lives as long as the process. */
  const char *why;
} nabla_dispatch_call;

/* A dispatch rule, as the rows of dialect/rules.def are. */
typedef struct nabla_rule_description {
  size_t struct_size;  /* sizeof(nabla_rule_description) */
  const char *id;      /* unique among all rules; in remarks and errors */
  const char *op;      /* "nabla.dot_general" */
  const char *lhs;     /* kind of the first operand, a word of docs/RULES.md: */
  const char *rhs;     /* "dense", "packed", ...; of the second, "" for none  */
  int precedence;      /* among rules that say equally much of the operands */
  const char *summary; /* what it says, for people; NULL: the id */
  /* A text that changes whenever `apply` does something else: with the members
   * above a part of the keys of the object cache, which does not see code.
   * NULL: what is compiled from then on is not cached. */
  const char *version;
  nabla_rule_outcome (*apply)(nabla_dispatch_call *call);
  void *self;
} nabla_rule_description;

/* Adds a rule for all compilations of this process that begin afterwards. It
 * stays until the process ends, and so must what `self` points to; texts are
 * copied. `apply` may be called on several threads at once, each with its own
 * part of the program, of which it sees the function that `op` is in.
 *
 * Order: rules of files first (docs/COMPILER.md), then this one and the
 * built-in ones by how much they say of the operands, then by precedence; two
 * that are equal in both are an error of the compilation that names both.
 *
 * What it built is verified, and dispatched in turn. Rules that build
 * operations for each other without end are stopped, and the compilation fails.
 * @return NABLA_OK
 *         NABLA_INVALID_ARGUMENT  a name or kind is none, or the id is taken
 *         NABLA_NO_MEMORY
 * Thread-safe. */
NABLA_API NABLA_MUST_USE nabla_status
nabla_add_rule(const nabla_rule_description *rule, nabla_diag *diag);

/* ---- rules of custom calls ---- */

/* What a rule of custom calls is called with; valid during the call. Values are
 * made by operations that the rule inserts before `before`. A null value is 0
 * everywhere. Cotangents and tangents are tensors, of the logical shape and
 * element type also where the array is packed. */
typedef struct nabla_call_rule_frame {
  size_t struct_size; /* sizeof(nabla_call_rule_frame), set by the library */
  void *self;         /* of the rules */
  MlirOperation op;   /* the nabla.custom_call, for its attributes and types */
  MlirOperation before;
  size_t operand_count, result_count; /* of `op` */
  /* Of `forward`, `jvp` and `batch`: the operands. Of `vjp`: NULL. */
  const MlirValue *operands;
  /* Of `vjp`: a cotangent of each result; of `jvp`: a tangent of each operand.
   * Others: NULL. Null values only where the rules say symbolic_zeros. */
  const MlirValue *given;
  /* Of `batch`: which operands have the batch as their first dimension. */
  const bool *batched;
  /* Of `vjp`: what `forward` saved; without `forward`, the operands, then the
   * results. The rule may use these, `given` and what it builds: another value
   * of the program is an error. */
  size_t saved_count;
  const MlirValue *saved;
  /* To be set by `vjp`: the number of cotangents in `out`, one for each
   * operand; by `forward`: the number of values in `save`, at most `save_most`.
   */
  size_t out_count, save_most;
  MlirValue *save;
  /* To be set. `forward`, `batch`: the results, of `batch` with the batch as
   * the first dimension; `vjp`: a cotangent of each operand; `jvp`: a tangent
   * of each result. */
  MlirValue *out;
} nabla_call_rule_frame;

/* Derivatives and batches of custom calls of a target. A rule returns false
 * after it has reported an error at `op`. */
typedef struct nabla_call_rules {
  size_t struct_size; /* sizeof(nabla_call_rules) */
  const char *target;
  /* The rules take null values; else they are given arrays of zeros. */
  int symbolic_zeros;
  /* NULL, or for reverse mode: computes the results, and says what to save. */
  bool (*forward)(nabla_call_rule_frame *frame);
  bool (*vjp)(nabla_call_rule_frame *frame);   /* NULL: none */
  bool (*jvp)(nabla_call_rule_frame *frame);   /* NULL: none */
  bool (*batch)(nabla_call_rule_frame *frame); /* NULL: as `batch_word` says */
  const char *batch_word; /* NULL, "scan", "expand" or "broadcast" */
  void *self;
} nabla_call_rules;

/* Adds rules for all passes of this process that begin afterwards. Attributes
 * of a call, nabla.vjp, nabla.jvp and nabla.batch, come first. They stay until
 * the process ends, and so must what `self` points to; texts are copied. A rule
 * may be called on several threads at once.
 *
 * What a rule gives is checked: a value of another type, too few cotangents, or
 * the use of a value that was not saved fails the compilation, with the target.
 * @return NABLA_OK
 *         NABLA_INVALID_ARGUMENT  no target, a word that is none, or the target
 *                                 has rules
 *         NABLA_TOO_LARGE         more than 1024 targets
 *         NABLA_NO_MEMORY
 * Thread-safe. */
NABLA_API NABLA_MUST_USE nabla_status
nabla_add_call_rules(const nabla_call_rules *rules, nabla_diag *diag);

/* Helpers for rules. Of a type that is no implicit array: false, a null
 * attribute, the type itself. */
NABLA_API bool nabla_type_is_implicit(MlirType type);
/* The encoding's name: "nf4"; of #nabla.custom<"name", ...> "name". */
NABLA_API bool nabla_type_has_encoding(MlirType type, const char *name);
NABLA_API MlirAttribute nabla_type_encoding(MlirType type);
/* The tensor that nabla.materialize gives. */
NABLA_API MlirType nabla_type_dense(MlirType type);

#ifdef __cplusplus
}
#endif

#endif
