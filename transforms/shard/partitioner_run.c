/* See partitioners.h: partitioners are shown a call as text, and their answer
 * becomes a nabla.shard_map. */
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dialect/bridge.h"
#include "dialect/verify/checks.h"
#include "transforms/shard/partitioners.h"

/* ---- running ---- */

/* Texts of a call that a partitioner sees, and what it said. */
typedef struct answer {
  nabla_text texts[4 * NABLA_FACTOR_ARRAYS]; /* types, then shardings */
  const char *pointers[4 * NABLA_FACTOR_ARRAYS];
  nabla_text mesh, attributes;
  nabla_text said[2 * NABLA_FACTOR_ARRAYS]; /* of operands, of results */
  nabla_text program;
  size_t operand_count, result_count;
} answer;

int nabla_partition_set(const nabla_partition_call *call,
                        nabla_partition_part part, size_t index,
                        const char *text) {
  if (!call || !text) return 0;
  answer *a = call->answer;
  nabla_text *to = &a->program;
  if (part != NABLA_PARTITION_PROGRAM) {
    const bool is_operand = part == NABLA_PARTITION_OPERAND;
    if (!is_operand && part != NABLA_PARTITION_RESULT) return 0;
    if (index >= (is_operand ? a->operand_count : a->result_count)) return 0;
    to = &a->said[is_operand ? index : NABLA_FACTOR_ARRAYS + index];
  }
  nabla_text_deinit(to);
  *to = (nabla_text){0};
  nabla_text_add(to, "%s", text);
  return !to->failed;
}

/* Types of arrays to slot `first`, shardings to the one behind it. */
static void describe(const nabla_divided_call *call, answer *a, size_t count,
                     const nabla_division *layouts, size_t first) {
  MlirContext context = nabla_op_context(call->op);
  for (size_t i = 0; i < count; i++) {
    const size_t type = first * NABLA_FACTOR_ARRAYS + i;
    const size_t sharding = type + NABLA_FACTOR_ARRAYS;
    nabla_text_add_type(&a->texts[type], layouts[i].type);
    nabla_text_add_attribute(
        &a->texts[sharding],
        nabla_layout_attribute(call->grid, context, &layouts[i]));
    a->pointers[type] = a->texts[type].data;
    a->pointers[sharding] = a->texts[sharding].data;
  }
}

static void append(MlirStringRef part, void *text) {
  nabla_text_add(text, "%.*s", (int)part.length, part.data);
}

static void print_mesh(const nabla_divided_call *call, nabla_text *out) {
  MlirOperation module = call->op;
  while (!nabla_is(module, "builtin.module"))
    module = mlirOperationGetParentOperation(module);
  MlirOperation op = mlirBlockGetFirstOperation(
      mlirRegionGetFirstBlock(mlirOperationGetRegion(module, 0)));
  for (; !mlirOperationIsNull(op); op = mlirOperationGetNextInBlock(op))
    if (nabla_is(op, "nabla.mesh")) mlirOperationPrint(op, append, out);
}

static bool is_named(MlirOperation op, const char *name, MlirStringRef key) {
  (void)op;
  return strlen(name) == key.length && !memcmp(name, key.data, key.length);
}

/* The attributes of a call but for those of the operation and of passes. */
static void print_attributes(MlirOperation op, bool all, nabla_text *out) {
  bool any = false;
  nabla_text_add(out, "{");
  for (intptr_t i = 0; i < mlirOperationGetNumAttributes(op); i++) {
    const MlirNamedAttribute one = mlirOperationGetAttribute(op, i);
    MlirStringRef key = mlirIdentifierStr(one.name);
    if (is_named(op, NABLA_SHARDINGS, key) ||
        (!all && (is_named(op, "target", key) || is_named(op, "pure", key))))
      continue;
    nabla_text_add(out, "%s\"%.*s\" = ", any ? ", " : "", (int)key.length,
                   key.data);
    nabla_text_add_attribute(out, one.attribute);
    any = true;
  }
  nabla_text_add(out, "}");
}

/* What was said of one array, as its layout. */
static bool read(const nabla_divided_call *call, const nabla_text *said,
                 nabla_division *layout, char message[NABLA_MESSAGE_SIZE]) {
  MlirType local;
  if (!said->data) return true;
  MlirAttribute attribute =
      mlirAttributeParseGet(nabla_op_context(call->op), nabla_ref(said->data));
  const char *why = NULL;
  nabla_division wanted = nabla_layout_whole(layout->type);
  if (mlirAttributeIsNull(attribute) || !nabla_sharding_is(attribute)) {
    why = "is no sharding";
  } else {
    const nabla_sharding sharding = nabla_sharding_read(attribute);
    if (strcmp(sharding.mesh, call->grid->mesh.name) != 0)
      why = "has another mesh";
    else if (sharding.partial.count)
      why = "has partial axes: the program of a device joins its values";
    else if (!nabla_sharding_check(&call->grid->mesh, &sharding, wanted.rank,
                                   message) ||
             !nabla_layout_read(call->grid, &sharding, &wanted) ||
             !nabla_layout_local(call->grid, &wanted, &local, message))
      why = "does not divide the array";
    else if (!nabla_layout_is_even(call->grid, &wanted))
      why = "does not divide the array evenly";
  }
  if (why) {
    (void)snprintf(message, NABLA_MESSAGE_SIZE, "'%.80s' %s", said->data, why);
    return false;
  }
  memcpy(layout->dims, wanted.dims, sizeof layout->dims);
  return true;
}

static bool take(nabla_divided_call *call, const answer *a, bool is_strict) {
  char message[NABLA_MESSAGE_SIZE] = "";
  bool good = true;
  for (size_t i = 0; good && i < a->operand_count; i++)
    good = read(call, &a->said[i], &call->operands[i], message);
  for (size_t i = 0; good && i < a->result_count; i++)
    good = read(call, &a->said[NABLA_FACTOR_ARRAYS + i], &call->results[i],
                message);
  if (!good && is_strict)
    nabla_error_at(call->op, "the partitioner of '%.60s' says %s",
                   call->partitioner->target, message);
  return good;
}

static void answer_free(answer *a) {
  for (size_t i = 0; i < 4 * NABLA_FACTOR_ARRAYS; i++)
    nabla_text_deinit(&a->texts[i]);
  for (size_t i = 0; i < 2 * NABLA_FACTOR_ARRAYS; i++)
    nabla_text_deinit(&a->said[i]);
  nabla_text_deinit(&a->mesh);
  nabla_text_deinit(&a->attributes);
  nabla_text_deinit(&a->program);
  free(a);
}

bool nabla_partitioner_run(nabla_divided_call *call,
                           int (*function)(const nabla_partition_call *call),
                           bool is_strict) {
  answer *a = calloc(1, sizeof *a);
  if (!a) return false;
  a->operand_count = (size_t)mlirOperationGetNumOperands(call->op);
  a->result_count = (size_t)mlirOperationGetNumResults(call->op);
  describe(call, a, a->operand_count, call->operands, 0);
  describe(call, a, a->result_count, call->results, 2);
  print_mesh(call, &a->mesh);
  print_attributes(call->op, false, &a->attributes);
  const nabla_partition_call seen = {
      .struct_size = sizeof seen,
      .self = call->partitioner->functions.self,
      .target = call->partitioner->target,
      .mesh = a->mesh.data,
      .attributes = a->attributes.data,
      .operand_count = a->operand_count,
      .result_count = a->result_count,
      .operand_types = a->pointers,
      .operands = a->pointers + NABLA_FACTOR_ARRAYS,
      .result_types = a->pointers + (size_t)2 * NABLA_FACTOR_ARRAYS,
      .results = a->pointers + (size_t)3 * NABLA_FACTOR_ARRAYS,
      .answer = a};
  bool good = function(&seen);
  if (!good && is_strict)
    nabla_error_at(call->op, "the partitioner of '%.60s' refused",
                   call->partitioner->target);
  good = good && take(call, a, is_strict);
  if (good) {
    nabla_text_deinit(&call->program);
    call->program = a->program;
    a->program = (nabla_text){0};
  }
  answer_free(a);
  return good;
}

/* ---- the program of one device ---- */

static void add_list(nabla_text *text, const char *format, size_t count) {
  for (size_t i = 0; i < count; i++) {
    nabla_text_add(text, "%s", i ? ", " : "");
    nabla_text_add(text, "%s%zu", format, i);
  }
}

static bool add_pieces(const nabla_divided_call *call, nabla_text *text,
                       char letter, size_t count,
                       const nabla_division *layouts) {
  char message[NABLA_MESSAGE_SIZE];
  for (size_t i = 0; i < count; i++) {
    MlirType local;
    if (!nabla_layout_local(call->grid, &layouts[i], &local, message)) {
      nabla_error_at(call->op, "%s", message);
      return false;
    }
    nabla_text_add(text, "!%c%zu = ", letter, i);
    nabla_text_add_type(text, local);
    nabla_text_add(text, "\n!w%c%zu = ", letter, i);
    nabla_text_add_type(text, layouts[i].type);
    nabla_text_add(text, "\n");
  }
  return true;
}

static void add_shardings(const nabla_divided_call *call, nabla_text *text,
                          size_t count, const nabla_division *layouts) {
  MlirContext context = nabla_op_context(call->op);
  nabla_text_add(text, "[");
  for (size_t i = 0; i < count; i++) {
    nabla_text_add(text, "%s", i ? ", " : "");
    nabla_text_add_attribute(
        text, nabla_layout_attribute(call->grid, context, &layouts[i]));
  }
  nabla_text_add(text, "]");
}

/* The call itself, of pieces. */
static void add_call(const nabla_divided_call *call, nabla_text *text,
                     size_t operands, size_t results) {
  nabla_text_add(text, "%%y:%zu = \"nabla.custom_call\"(", results);
  add_list(text, "%x", operands);
  nabla_text_add(text, ") ");
  print_attributes(call->op, true, text);
  nabla_text_add(text, " : (");
  add_list(text, "!x", operands);
  nabla_text_add(text, ") -> (");
  add_list(text, "!y", results);
  nabla_text_add(text, ")\nnabla.yield ");
  add_list(text, "%y#", results);
  nabla_text_add(text, " : ");
  add_list(text, "!y", results);
}

static void add_shard_map(const nabla_divided_call *call, nabla_text *text,
                          size_t operands, size_t results) {
  MlirAttribute shardings =
      mlirOperationGetAttributeByName(call->op, nabla_ref(NABLA_SHARDINGS));
  nabla_text_add(text, "%%r:%zu = nabla.shard_map(", results);
  add_list(text, "%v", operands);
  nabla_text_add(text, " : ");
  add_list(text, "!wx", operands);
  nabla_text_add(text, ") in = ");
  add_shardings(call, text, operands, call->operands);
  nabla_text_add(text, " out = ");
  add_shardings(call, text, results, call->results);
  if (!mlirAttributeIsNull(shardings)) {
    nabla_text_add(text, " attributes {\"" NABLA_SHARDINGS "\" = ");
    nabla_text_add_attribute(text, shardings);
    nabla_text_add(text, "}");
  }
  nabla_text_add(text, " -> ");
  add_list(text, "!wy", results);
  nabla_text_add(text, " {\n^bb0(");
  for (size_t i = 0; i < operands; i++)
    nabla_text_add(text, "%s%%x%zu: !x%zu", i ? ", " : "", i, i);
  nabla_text_add(text, "):\n");
  if (call->program.data)
    nabla_text_add(text, "%s", call->program.data);
  else
    add_call(call, text, operands, results);
  nabla_text_add(text, "\n}\n");
}

bool nabla_divided_call_replace(nabla_divided_call *call) {
  const size_t operands = (size_t)mlirOperationGetNumOperands(call->op);
  const size_t results = (size_t)mlirOperationGetNumResults(call->op);
  nabla_text text = {0};
  MlirValue values[NABLA_FACTOR_ARRAYS];
  if (!add_pieces(call, &text, 'x', operands, call->operands) ||
      !add_pieces(call, &text, 'y', results, call->results)) {
    nabla_text_deinit(&text);
    return false;
  }
  print_mesh(call, &text);
  nabla_text_add(&text, "\nfunc.func @t(");
  for (size_t i = 0; i < operands; i++) {
    values[i] = mlirOperationGetOperand(call->op, (intptr_t)i);
    nabla_text_add(&text, "%s%%v%zu: !wx%zu", i ? ", " : "", i, i);
  }
  nabla_text_add(&text, ") -> (");
  add_list(&text, "!wy", results);
  nabla_text_add(&text, ") {\n");
  add_shard_map(call, &text, operands, results);
  nabla_text_add(&text, "return ");
  add_list(&text, "%r#", results);
  nabla_text_add(&text, " : ");
  add_list(&text, "!wy", results);
  nabla_text_add(&text, "\n}\n");
  MlirModule parsed = text.failed
                          ? (MlirModule){NULL}
                          : mlirModuleCreateParse(nabla_op_context(call->op),
                                                  nabla_ref(text.data));
  bool good = !mlirModuleIsNull(parsed);
  if (good)
    mlirModuleDestroy(parsed);
  else
    nabla_error_at(call->op,
                   "the partitioner of '%.60s' gave a program that is not one "
                   "of pieces",
                   call->partitioner->target);
  good = good &&
         nabla_template_replace(call->op, (intptr_t)operands, values, &text);
  nabla_text_deinit(&text);
  return good;
}
