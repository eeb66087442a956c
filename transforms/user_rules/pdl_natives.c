/* The native functions that rules of files may call (pdl_natives.def), and the
 * check that they call no others: MLIR would bind an unknown name to any
 * function. */
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <mlir-c/Dialect/PDL.h>
#include <stdio.h>
#include <string.h>

#include "dialect/encoding/encoding.h"
#include "dialect/infer/infer.h"
#include "transforms/ir/ir.h"
#include "transforms/user_rules/user_rules.h"

typedef MlirLogicalResult native(MlirPatternRewriter rewriter,
                                 MlirPDLResultList results, size_t count,
                                 MlirPDLValue *values, void *self);

static MlirLogicalResult holds(bool it) {
  return it ? mlirLogicalResultSuccess() : mlirLogicalResultFailure();
}

/* Reads argument 0 if it is an implicit type. */
static bool implicit_of(size_t count, MlirPDLValue *values, MlirType *out) {
  if (count < 1) return false;
  *out = mlirPDLValueAsType(values[0]);
  return !mlirTypeIsNull(*out) && nablaTypeIsAImplicit(*out);
}

/* Returns a dummy result from a rewrite that cannot be done, because MLIR ends
 * the process if one fails. The result is never used: nabla_infer_unguard
 * reports the failure. */
static MlirLogicalResult give_nothing(MlirPatternRewriter rewriter, bool type,
                                      MlirPDLResultList results) {
  MlirContext context =
      mlirRewriterBaseGetContext(mlirPatternRewriterAsBase(rewriter));
  nabla_infer_fail();
  if (type)
    mlirPDLResultListPushBackType(results, mlirNoneTypeGet(context));
  else
    mlirPDLResultListPushBackAttribute(results, mlirUnitAttrGet(context));
  return mlirLogicalResultSuccess();
}

#define NATIVE(id)                                                           \
  static MlirLogicalResult native_##id(                                      \
      MlirPatternRewriter rewriter, MlirPDLResultList results, size_t count, \
      MlirPDLValue *values, void *self)
#define UNUSED (void)rewriter, (void)results, (void)self

NATIVE(is_implicit) {
  MlirType type;
  UNUSED;
  return holds(implicit_of(count, values, &type));
}

NATIVE(is_dense) {
  UNUSED;
  MlirType type = count ? mlirPDLValueAsType(values[0]) : (MlirType){NULL};
  return holds(!mlirTypeIsNull(type) && mlirTypeIsARankedTensor(type));
}

NATIVE(has_encoding) {
  MlirType type;
  UNUSED;
  if (count < 2 || !implicit_of(count, values, &type)) return holds(false);
  MlirAttribute name = mlirPDLValueAsAttribute(values[1]);
  if (mlirAttributeIsNull(name) || !mlirAttributeIsAString(name))
    return holds(false);
  MlirStringRef text = mlirStringAttrGetValue(name);
  char wanted[128];
  snprintf(wanted, sizeof wanted, "%.*s",
           (int)(text.length < 100 ? text.length : 100), text.data);
  return holds(nabla_type_has_encoding(type, wanted));
}

NATIVE(is_whole) {
  MlirType type;
  UNUSED;
  return holds(implicit_of(count, values, &type) &&
               nablaImplicitTypeParts(type).storageRank < 0);
}

NATIVE(dense_type) {
  UNUSED;
  MlirType type = count ? mlirPDLValueAsType(values[0]) : (MlirType){NULL};
  if (mlirTypeIsNull(type)) return give_nothing(rewriter, true, results);
  mlirPDLResultListPushBackType(results, nabla_dense_type(type));
  return holds(true);
}

NATIVE(encoding) {
  MlirType type;
  UNUSED;
  if (!implicit_of(count, values, &type))
    return give_nothing(rewriter, false, results);
  mlirPDLResultListPushBackAttribute(results, nabla_type_encoding(type));
  return holds(true);
}

NATIVE(component_type) {
  MlirType type;
  nabla_implicit_component parts[NABLA_MAX_PARTS];
  UNUSED;
  if (count < 2 || !implicit_of(count, values, &type))
    return give_nothing(rewriter, true, results);
  MlirAttribute number = mlirPDLValueAsAttribute(values[1]);
  if (mlirAttributeIsNull(number) || !mlirAttributeIsAInteger(number) ||
      !mlirTypeIsAInteger(mlirAttributeGetType(number)) ||
      !mlirIntegerTypeIsSignless(mlirAttributeGetType(number)) ||
      mlirIntegerTypeGetWidth(mlirAttributeGetType(number)) > 64)
    return give_nothing(rewriter, true, results);
  int64_t at = mlirIntegerAttrGetValueInt(number);
  uint32_t had = nabla_implicit_components(type, parts);
  if (at < 0 || at >= (int64_t)had)
    return give_nothing(rewriter, true, results);
  mlirPDLResultListPushBackType(results, nabla_component_type(&parts[at]));
  return holds(true);
}

static const struct {
  bool rewrites;
  const char *name, *operands, *result, *what;
  native *function;
} natives[] = {
#define CONSTRAINT(id, operands, what) \
  {false, "nabla." #id, operands, "", what, native_##id},
#define REWRITE(id, operands, result, what) \
  {true, "nabla." #id, operands, result, what, native_##id},
#include "transforms/user_rules/pdl_natives.def"
#undef CONSTRAINT
#undef REWRITE
};

#define COUNT (sizeof natives / sizeof *natives)

void nabla_rule_natives_register(MlirPDLPatternModule module) {
  for (size_t i = 0; i < COUNT; i++)
    if (natives[i].rewrites)
      mlirPDLPatternModuleRegisterRewriteFunction(
          module, nabla_ref(natives[i].name), natives[i].function, NULL);
    else
      mlirPDLPatternModuleRegisterConstraintFunction(
          module, nabla_ref(natives[i].name), natives[i].function, NULL);
}

static char letter_of(MlirType type) {
  return mlirTypeIsAPDLTypeType(type)        ? 't'
         : mlirTypeIsAPDLValueType(type)     ? 'v'
         : mlirTypeIsAPDLAttributeType(type) ? 'a'
         : mlirTypeIsAPDLOperationType(type) ? 'o'
                                             : '?';
}

/* Writes the letters of the operand types of `op`, or of its result types. */
static void letters_of(MlirOperation op, bool results, char out[64]) {
  intptr_t count = results ? mlirOperationGetNumResults(op)
                           : mlirOperationGetNumOperands(op);
  intptr_t at = 0;
  for (; at < count && at < 63; at++)
    out[at] = letter_of(results ? nabla_result_type(op, at)
                                : nabla_operand_type(op, at));
  out[at] = '\0';
}

static void list_names(bool rewrites, char *out, size_t size) {
  size_t used = 0;
  *out = '\0';
  for (size_t i = 0; i < COUNT && used < size; i++)
    if (natives[i].rewrites == rewrites)
      used += (size_t)snprintf(out + used, size - used, "%s%s",
                               used ? ", " : "", natives[i].name);
}

bool nabla_rule_natives_check(MlirOperation op) {
  bool rewrites = nabla_is(op, "pdl.apply_native_rewrite");
  if (!rewrites && !nabla_is(op, "pdl.apply_native_constraint")) return true;
  MlirAttribute attribute =
      mlirOperationGetAttributeByName(op, nabla_ref("name"));
  MlirStringRef name = {"", 0};
  char operands[64], results[64], names[512];
  if (!mlirAttributeIsNull(attribute) && mlirAttributeIsAString(attribute))
    name = mlirStringAttrGetValue(attribute);
  letters_of(op, false, operands);
  letters_of(op, true, results);
  for (size_t i = 0; i < COUNT; i++) {
    if (natives[i].rewrites != rewrites ||
        !mlirStringRefEqual(name, nabla_ref(natives[i].name)))
      continue;
    if (!strcmp(operands, natives[i].operands) &&
        !strcmp(results, natives[i].result))
      return true;
    nabla_error_at(op,
                   "'%s' is applied to (%s) and gives (%s); it takes (%s) and "
                   "gives (%s): t is a type, v a value, a an attribute",
                   natives[i].name, operands, results, natives[i].operands,
                   natives[i].result);
    return false;
  }
  list_names(rewrites, names, sizeof names);
  nabla_error_at(op, "there is no native %s '%.*s'; there are %s",
                 rewrites ? "rewrite" : "constraint",
                 (int)(name.length < 60 ? name.length : 60), name.data, names);
  return false;
}
