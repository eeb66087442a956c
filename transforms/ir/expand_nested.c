/* See expand_nested.h. */
#include "transforms/ir/expand_nested.h"

#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>

#include "transforms/ir/components.h"
#include "transforms/ir/ir.h"

/* Returns whether `op` quantizes to a nested encoding. */
static bool is_nested_quantize(MlirOperation op) {
  if (!nabla_is(op, "nabla.quantize")) return false;
  nabla_encoding_info info = nabla_implicit_encoding(nabla_result_type(op, 0));
  return info.kind == NABLA_KIND_LORA || !mlirAttributeIsNull(info.nested);
}

/* Returns whether `op` decodes only some levels: its result is implicit. */
static bool is_partial(MlirOperation op) {
  return nabla_is(op, "nabla.materialize") &&
         nablaTypeIsAImplicit(nabla_result_type(op, 0));
}

static bool is_nested(MlirOperation op) {
  return is_nested_quantize(op) || is_partial(op);
}

static MlirValue quantize(MlirOperation before, MlirValue value,
                          MlirType type) {
  nabla_op_spec spec = {"nabla.quantize", 1, &value, 1, &type, 0, NULL};
  return mlirOperationGetResult(nabla_op_create(before, &spec), 0);
}

/* Makes a factor of a lora that does not change the weight. */
static MlirValue zeros(MlirOperation before, MlirType type) {
  MlirType element = mlirShapedTypeGetElementType(type);
  MlirAttribute zero =
      mlirFloatAttrDoubleGet(nabla_op_context(before), element, 0.0);
  MlirNamedAttribute value =
      nabla_named(nabla_op_context(before), "value", zero);
  nabla_op_spec spec = {"nabla.full", 0, NULL, 1, &type, 1, &value};
  return mlirOperationGetResult(nabla_op_create(before, &spec), 0);
}

/* Replaces a quantize to a nested encoding. The codes are computed with scales
 * in f32, which are packed afterwards (FORMAT.md, E6). */
static void expand_quantize(MlirOperation op) {
  MlirType type = nabla_result_type(op, 0);
  nablaImplicit whole = nablaImplicitTypeParts(type);
  nabla_implicit_component parts[NABLA_MAX_PARTS];
  MlirValue given = mlirOperationGetOperand(op, 0), values[NABLA_MAX_PARTS];
  uint32_t count = nabla_implicit_components(type, parts);
  if (nabla_encoding_read(whole.encoding).kind == NABLA_KIND_LORA) {
    values[0] = quantize(op, given, parts[0].type);
    values[1] = zeros(op, parts[1].type);
    values[2] = zeros(op, parts[2].type);
  } else {
    MlirAttribute flat = whole.encoding;
    for (int levels = nabla_encoding_depth(flat); levels > 1; levels--)
      flat = nabla_encoding_peel(flat);
    given = quantize(op, given, nabla_implicit_with_encoding(type, flat));
    nabla_op_spec spec = {"nabla.unpack", 1, &given, -1, NULL, 0, NULL};
    MlirOperation unpack = nabla_op_create(op, &spec);
    for (uint32_t i = 0; i < count; i++)
      values[i] = mlirOperationGetResult(unpack, (intptr_t)i);
    values[1] = quantize(op, values[1], parts[1].type);
  }
  MlirValue out = nabla_components_pack(op, type, values);
  nabla_op_replace(op, &out);
}

/* Replaces a materialize of some levels by one of the inner component: the
 * scales, or the base of a lora, which have one level of scales less. */
static void expand_partial(MlirOperation op) {
  MlirType type = nabla_result_type(op, 0);
  MlirValue values[NABLA_MAX_PARTS], given = mlirOperationGetOperand(op, 0);
  bool lora = nabla_implicit_encoding(type).kind == NABLA_KIND_LORA;
  MlirValue *inner = &values[lora ? 0 : 1];
  MlirNamedAttribute levels =
      nabla_named(nabla_op_context(op), "levels",
                  mlirOperationGetAttributeByName(op, nabla_ref("levels")));
  nabla_components_split(given, op, values);
  nabla_op_spec spec = {"nabla.materialize", 1, inner, -1, NULL, 1, &levels};
  *inner = mlirOperationGetResult(nabla_op_create(op, &spec), 0);
  MlirValue out = nabla_components_pack(op, type, values);
  nabla_op_replace(op, &out);
}

/* Each round removes one encoding from the operations that are left. */
bool nabla_nested_expand(MlirOperation root) {
  bool good = true, any = true;
  while (good && any) {
    nabla_op_list all = nabla_ops_collect(root, is_nested);
    good = !all.failed;
    any = all.count > 0;
    for (size_t i = 0; good && i < all.count; i++) {
      if (is_partial(all.ops[i]))
        expand_partial(all.ops[i]);
      else
        expand_quantize(all.ops[i]);
    }
    nabla_op_list_deinit(&all);
  }
  return good;
}
