/* Rules that are recorded with arrays (nabla/array_rule.h): those that were
 * added (array_rules.c), how one is recorded (array_rule_record.c) and put into
 * the program (array_rule_place.c). */
#ifndef NABLA_ARRAY_ARRAY_RULES_H
#define NABLA_ARRAY_ARRAY_RULES_H

#include <mlir-c/IR.h>

#include "lib/array/trace.h"
#include "lib/array/walk.h"
#include "lib/base/attribute_tree.h"
#include "nabla/array_rule.h"
#include "nabla/mlir.h"

#define NABLA_ARRAY_RULE_RESULTS 16 /* of an operation that rules take */

/* A rule that is recorded for one operation of a program. */
typedef struct nabla_rule_recording {
  nabla_array_rule_call call; /* first: nabla_default gets it alone */
  const nabla_array_rule *rule;
  MlirOperation op; /* of the program that is compiled */
  bool has_sizes;   /* the operands behind its arrays are sizes, and not read */
  nabla_arena arena;
  nabla_attribute_tree attributes;
  nabla_trace trace;
  nabla_walk walk;
  nabla_array *operands[NABLA_MAX_RECORDED]; /* in the order of the rule */
  nabla_array *results[NABLA_ARRAY_RULE_RESULTS];
  nabla_dense types[NABLA_MAX_RECORDED]; /* of the operands */
  nabla_dense result_types[NABLA_ARRAY_RULE_RESULTS];
} nabla_rule_recording;

/* The operand of the operation that is operand `index` of the rule. */
static inline size_t nabla_rule_operand(const nabla_rule_recording *r,
                                        size_t index) {
  return r->call.is_swapped && index < 2 ? 1 - index : index;
}

/* Whether an operation of the dialect infers the types of its results. */
bool nabla_rule_infers(MlirOperation op);

/* Reads types and attributes of `r->op`. Returns NULL, or why no array can be
 * one of its operands or results: static text. */
const char *nabla_rule_read(nabla_rule_recording *r);
/* Records the rule, in a trace of its own, and walks from its results;
 * `outcome` gets what the callback returned. nabla_rule_forget also after a
 * failure. */
NABLA_MUST_USE nabla_status nabla_rule_record(nabla_rule_recording *r,
                                              nabla_engine *engine,
                                              nabla_array_rule_outcome *outcome,
                                              nabla_diag *diag);
void nabla_rule_forget(nabla_rule_recording *r);
/* Replaces the operation by what was recorded. */
NABLA_MUST_USE nabla_status nabla_rule_place(nabla_rule_recording *r,
                                             MlirRewriterBase rewriter,
                                             nabla_diag *diag);

#endif
