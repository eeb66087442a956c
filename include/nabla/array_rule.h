/* Dispatch rules that are recorded with arrays (nabla/array.h): a rule says how
 * an operation that has an implicit operand is computed, by recording another
 * computation of its operands. Part of libnabla; no header of MLIR is needed.
 *
 *   static nabla_array_rule_outcome product(nabla_scope *scope,
 *                                           nabla_array_rule_call *call,
 *                                           nabla_array **results) {
 *     if (nabla_array_dense(call->operands[1])->shape[0] < 64)
 *       return NABLA_ARRAY_RULE_DECLINES;
 *     nabla_array *w = nabla_materialize(call->operands[1]);
 *     nabla_array *const operands[2] = {call->operands[0], w};
 *     nabla_default(call, operands, results);
 *     return NABLA_ARRAY_RULE_TAKES;
 *   }
 *
 * Rules are tried as nabla/mlir.h says of nabla_add_rule, which also has
 * rules that change the program by MLIR's own functions. */
#ifndef NABLA_ARRAY_RULE_H
#define NABLA_ARRAY_RULE_H

#include "nabla/array.h"
#include "nabla/attribute_tree.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum nabla_array_rule_outcome {
  NABLA_ARRAY_RULE_TAKES,    /* all results were recorded       */
  NABLA_ARRAY_RULE_DECLINES, /* other rules may take it instead */
} nabla_array_rule_outcome;

/* What a rule is asked about: one operation of a program. */
typedef struct nabla_array_rule_call {
  size_t struct_size; /* sizeof(nabla_array_rule_call), set by the library */
  void *self;         /* of the rule                                       */
  const char *op;     /* "nabla.dot_general"                               */
  size_t operand_count, result_count;
  /* The operands, dense or packed (nabla_array_is_packed), in the order of the
   * kinds of the rule. Sizes that are not known are numbers below
   * NABLA_DYNAMIC, as in traced functions (nabla/function.h). */
  nabla_array *const *operands;
  const nabla_dense *results; /* dtype and shape of each result; no data     */
  /* A dictionary. An attribute that is no bool, number, text, array or
   * dictionary is its text in MLIR. */
  const nabla_attribute_tree *attributes;
  int is_swapped; /* the operation has the two operands in the other order */
  /* To be set before it declines, for the report of what is materialized: text
   * that lives as long as the process. */
  const char *why;
} nabla_array_rule_call;

/* A rule for operations. */
typedef struct nabla_array_rule {
  size_t struct_size; /* sizeof(nabla_array_rule)                            */
  const char *id;     /* unique among all rules; in remarks and errors       */
  /* Names such as "nabla.dot_general" (docs/OPS.md), without regions. None:
   * whatever no other rule takes, before its operands are materialized; then
   * `encoding` is set, and the kinds are NULL. */
  const char *const *operations;
  size_t operation_count;
  /* The kinds of the first operand and of the second, "" or NULL where there is
   * none: "any", "dense", "implicit", "packed", "splat", "identity", "lora",
   * "custom". */
  const char *lhs, *rhs;
  /* One of the operands has an encoding of this name: "nf4", that of a custom
   * encoding. NULL: any. */
  const char *encoding;
  int precedence; /* among rules that say equally much of the operands */
  /* Whether the rule also takes the operands in the other order: of add, mul,
   * maximum, minimum, and of compare for equal and unequal. */
  int commutes;
  const char *summary; /* for people; NULL: the id                        */
  /* A text that changes whenever `record` does something else: with the members
   * above a part of the keys of the object cache, which does not see code. At
   * most 200 bytes. NULL: what is compiled from then on is not cached. */
  const char *version;
  /* Records the results in `scope`, or declines. `results` has NULL before; a
   * result may be packed where that of the operation is dense: then operations
   * that use it are dispatched in turn, and all other uses get it decoded.
   * Failures are those of the scope, and fail the compilation. Nothing can be
   * realized or read. It is called while a program is compiled, on the thread
   * that compiles, possibly on several at once; the same question has the same
   * answer. Arrays from outside that it uses become constants of the program,
   * at most 64 KiB each. */
  nabla_array_rule_outcome (*record)(nabla_scope *scope,
                                     nabla_array_rule_call *call,
                                     nabla_array **results);
  void *self;
} nabla_array_rule;

/* Adds a rule for all compilations of this process that begin afterwards. It
 * stays until the process ends, and so must what `self` points to; the rest is
 * copied. Programs that an engine keeps stay as they are.
 * @return NABLA_OK
 *         NABLA_INVALID_ARGUMENT  no id or callback; a name or kind that is
 *                                 none; an id that is taken; `commutes` of an
 *                                 operation that does not; no operations, and
 *                                 no encoding or a kind
 *         NABLA_TOO_LARGE         more than 64 operations, or texts of more
 *                                 than 200 bytes
 *         NABLA_NO_MEMORY
 * After a failure nothing was added. Thread-safe. */
NABLA_API NABLA_MUST_USE nabla_status
nabla_add_array_rule(const nabla_array_rule *rule, nabla_diag *diag);

/* Records the operation itself, of other operands or its own: other rules may
 * take it, but not the one that is called. Where it has no packed operand it is
 * the dense operation.
 * @param call      that of the rule which is called
 * @param operands  in the order of call->operands; NULL: these
 * @param results   gets call->result_count arrays; NULL each after a failure
 */
NABLA_API void nabla_default(const nabla_array_rule_call *call,
                             nabla_array *const *operands,
                             nabla_array **results);

#ifdef __cplusplus
}
#endif

/* nabla/here.h */
#ifdef NABLA_HAS_HERE
#define nabla_default(...) NABLA_HERE_VOID(nabla_default(__VA_ARGS__))
#endif

#endif
