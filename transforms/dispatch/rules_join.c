/* Rules for concatenate and stack: where inference says that the result is
 * implicit, its components are those of the operands, joined. */
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>

#include "dialect/encoding/slice_blocks.h"
#include "transforms/dispatch/rules.h"
#include "transforms/ir/components.h"
#include "transforms/ir/ir.h"

static MlirNamedAttribute integer_list(MlirContext context, const char *key,
                                       int64_t value) {
  return nabla_named(context, key, mlirDenseI64ArrayGet(context, 1, &value));
}

/* Part [first, first + size) of a component: a slice, which of an implicit one
 * is a view. */
static MlirValue piece(MlirOperation op, MlirValue component, int64_t first,
                       int64_t size) {
  MlirContext context = nabla_op_context(op);
  MlirType type = mlirValueGetType(component);
  MlirNamedAttribute attributes[] = {
      integer_list(context, "starts", first),
      integer_list(context, "limits", first + size)};
  nabla_op_spec spec = {"nabla.slice", 1, &component, -1, NULL, 2, attributes};
  if (nabla_array_rank(type) != 1 || nabla_array_dim(type, 0) == size)
    return component;
  return mlirOperationGetResult(nabla_op_create(op, &spec), 0);
}

static MlirValue concatenate(MlirOperation op, intptr_t count,
                             const MlirValue *pieces) {
  if (count == 1) return pieces[0];
  MlirContext context = nabla_op_context(op);
  MlirType i64 = mlirIntegerTypeGet(context, 64);
  MlirNamedAttribute dim =
      nabla_named(context, "dim", mlirIntegerAttrGet(i64, 0));
  nabla_op_spec spec = {"nabla.concatenate", count, pieces, -1, NULL, 1, &dim};
  return mlirOperationGetResult(nabla_op_create(op, &spec), 0);
}

/* Arrays that are cuts, as inference has seen, in one of `type`. */
static MlirValue join(MlirOperation op, intptr_t count, const MlirValue *arrays,
                      MlirType type) {
  nabla_implicit_component parts[NABLA_MAX_PARTS];
  MlirValue joined[NABLA_MAX_PARTS], pieces[NABLA_MAX_OPERANDS];
  MlirValue given[NABLA_MAX_PARTS];
  nabla_cut cut;
  uint32_t components = nabla_implicit_components(type, parts);
  for (uint32_t i = 0; i < components; i++) {
    for (intptr_t n = 0; n < count; n++) {
      (void)nabla_cut_read(mlirValueGetType(arrays[n]), &cut);
      nabla_components_split(arrays[n], op, given);
      pieces[n] = piece(op, given[i], cut.first[i], cut.size[i]);
    }
    joined[i] = nablaTypeIsAImplicit(parts[i].type)
                    ? join(op, count, pieces, parts[i].type)
                    : concatenate(op, count, pieces);
  }
  return nabla_components_pack(op, type, joined);
}

static nabla_rule_outcome apply(MlirOperation op, const char **why) {
  MlirType type = nabla_result_type(op, 0);
  MlirValue arrays[NABLA_MAX_OPERANDS];
  intptr_t count = mlirOperationGetNumOperands(op);
  *why = "its components, joined, are not those of the result";
  if (!nablaTypeIsAImplicit(type)) return NABLA_RULE_DECLINED;
  for (intptr_t n = 0; n < count; n++)
    arrays[n] = mlirOperationGetOperand(op, n);
  MlirValue result = join(op, count, arrays, type);
  nabla_op_replace(op, &result);
  return NABLA_RULE_APPLIED;
}

#define JOIN(id)                                                            \
  nabla_rule_outcome nabla_apply_##id(MlirOperation op, const char **why);  \
  nabla_rule_outcome nabla_apply_##id(MlirOperation op, const char **why) { \
    return apply(op, why);                                                  \
  }
JOIN(concatenate_join)
JOIN(concatenate_one)
JOIN(stack_join)
JOIN(stack_one)
