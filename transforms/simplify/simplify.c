/* The pass nabla-simplify: folds identities, without arithmetic. Every fold
 * keeps all bits of the result, so materialize(quantize(x)), which is not x, is
 * not folded. */
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>

#include "dialect/verify/checks.h"
#include "transforms/ir/build_control.h"
#include "transforms/ir/components.h"
#include "transforms/ir/ir.h"
#include "transforms/passes.h"
#include "transforms/simplify/identities.h"
#include "transforms/simplify/simplify_math.h"
#include "transforms/simplify/simplify_views.h"
#include "transforms/simplify/splats.h"

/* Folds `op` if it can; returns whether it replaced it. */
typedef bool fold(MlirOperation op);

/* A view with the type of its operand is its operand. */
static bool fold_identity(MlirOperation op) {
  if (!mlirTypeEqual(nabla_operand_type(op, 0), nabla_result_type(op, 0)))
    return false;
  if (mlirOperationGetNumOperands(op) > 1) return false; /* it checks sizes */
  MlirValue value = mlirOperationGetOperand(op, 0);
  nabla_op_replace(op, &value);
  return true;
}

static bool fold_broadcast(MlirOperation op) {
  int64_t dims[NABLA_MAX_RANK];
  intptr_t rank = nabla_op_integers(op, "dims", dims);
  for (intptr_t i = 0; i < rank; i++)
    if (dims[i] != i) return nabla_fold_broadcasts(op);
  return fold_identity(op) || nabla_fold_broadcasts(op);
}

/* transpose(transpose(x, p), q) = transpose(x, p[q]), or x when p[q] is the
 * identity. */
static bool fold_transpose(MlirOperation op) {
  int64_t order[NABLA_MAX_RANK], inner_order[NABLA_MAX_RANK];
  intptr_t rank = nabla_op_integers(op, "permutation", order);
  MlirValue value = mlirOperationGetOperand(op, 0);
  MlirOperation inner = nabla_defining_op(value);
  bool composed = nabla_is(inner, "nabla.transpose"), same = true;
  if (composed) {
    nabla_op_integers(inner, "permutation", inner_order);
    for (intptr_t i = 0; i < rank; i++) order[i] = inner_order[order[i]];
    value = mlirOperationGetOperand(inner, 0);
  }
  for (intptr_t i = 0; i < rank; i++) same &= order[i] == i;
  if (!same && !composed) return false;
  if (!same) {
    MlirContext context = nabla_op_context(op);
    MlirNamedAttribute permutation = nabla_named(
        context, "permutation", mlirDenseI64ArrayGet(context, rank, order));
    nabla_op_spec spec = {"nabla.transpose", 1, &value, -1, NULL, 1,
                          &permutation};
    value = mlirOperationGetResult(nabla_op_create(op, &spec), 0);
  }
  nabla_op_replace(op, &value);
  return true;
}

/* reshape(reshape(x)) = reshape(x), for static shapes only: with dynamic ones
 * the inner reshape checks sizes at run time and has to stay. */
static bool fold_reshape(MlirOperation op) {
  if (fold_identity(op)) return true;
  MlirOperation inner = nabla_defining_op(mlirOperationGetOperand(op, 0));
  if (!nabla_is(inner, "nabla.reshape")) return false;
  MlirType from = nabla_operand_type(inner, 0), to = nabla_result_type(op, 0);
  if (!nabla_array_is_static(from) ||
      !nabla_array_is_static(nabla_result_type(inner, 0)) ||
      !nabla_array_is_static(to) ||
      nablaTypeIsAImplicit(from) != nablaTypeIsAImplicit(to))
    return false;
  MlirValue value = mlirOperationGetOperand(inner, 0);
  nabla_op_spec spec = {"nabla.reshape", 1, &value, 1, &to, 0, NULL};
  MlirValue result = mlirOperationGetResult(nabla_op_create(op, &spec), 0);
  nabla_op_replace(op, &result);
  fold_identity(nabla_defining_op(result));
  return true;
}

static bool fold_unpack(MlirOperation op) {
  MlirValue components[NABLA_MAX_PARTS];
  if (nabla_components_find(mlirOperationGetOperand(op, 0), components) < 0)
    return false;
  nabla_op_replace(op, components);
  return true;
}

static const struct {
  const char *op;
  fold *fold;
} folds[] = {
    {"nabla.transpose", fold_transpose},
    {"nabla.reshape", fold_reshape},
    {"nabla.broadcast_in_dim", fold_broadcast},
    {"nabla.slice", nabla_fold_slice},
    {"nabla.split", nabla_fold_split},
    {"nabla.concatenate", nabla_fold_concatenate},
    {"nabla.flip", nabla_fold_flip},
    {"nabla.pad", nabla_fold_pad},
    {"nabla.unpack", fold_unpack},
    {"nabla.neg", nabla_fold_inverse},
    {"nabla.not", nabla_fold_inverse},
    {"nabla.abs", nabla_fold_idempotent},
    {"nabla.floor", nabla_fold_idempotent},
    {"nabla.ceil", nabla_fold_idempotent},
    {"nabla.round", nabla_fold_idempotent},
    {"nabla.trunc", nabla_fold_idempotent},
    {"nabla.convert", nabla_fold_convert},
    {"nabla.select", nabla_fold_select},
    {"nabla.maximum", nabla_fold_same},
    {"nabla.minimum", nabla_fold_same},
    {"nabla.and", nabla_fold_same},
    {"nabla.or", nabla_fold_same},
};
#define FOLDS (sizeof folds / sizeof *folds)

static bool can_fold(MlirOperation op) {
  for (size_t i = 0; i < FOLDS; i++)
    if (nabla_is(op, folds[i].op)) return true;
  return nabla_folds_splats(op) || nabla_has_identities(op);
}

static void fold_op(MlirOperation op) {
  if (nabla_fold_splats(op) || nabla_fold_identities(op)) return;
  for (size_t i = 0; i < FOLDS; i++) {
    if (!nabla_is(op, folds[i].op)) continue;
    if (!nabla_fold_view_chain(op)) folds[i].fold(op);
    return;
  }
}

static bool is_control(MlirOperation op) {
  return nabla_is(op, "nabla.cond") || nabla_is(op, "nabla.while") ||
         nabla_is(op, "nabla.scan");
}

/* Folds control operations until nothing changes: a fold creates a new op,
 * which may fold again. */
static bool fold_control(MlirOperation op) {
  MlirRewriterBase rewriter = mlirIRRewriterCreate(nabla_op_context(op));
  bool failed = false;
  for (bool changed = true; changed && !failed;) {
    nabla_op_list all = nabla_ops_collect(op, is_control);
    failed = all.failed;
    changed = false;
    /* post-order: ops in a region come first, since an op may erase them */
    for (size_t i = 0; i < all.count; i++)
      changed |= nablaFoldControl(all.ops[i], rewriter);
    nabla_op_list_deinit(&all);
  }
  mlirIRRewriterDestroy(rewriter);
  return !failed;
}

static bool is_remat(MlirOperation op) { return nabla_is(op, "nabla.remat"); }

static bool open_remat(MlirOperation op, void *unused) {
  (void)unused;
  return nabla_remat_open(op);
}

MlirLogicalResult nabla_run_simplify(MlirOperation op,
                                     const nablaPassValue *values,
                                     void *prepared) {
  (void)values, (void)prepared;
  /* their operations are optimized with those around them */
  if (mlirLogicalResultIsFailure(
          nabla_ops_each(op, is_remat, open_remat, NULL)) ||
      !fold_control(op))
    return mlirLogicalResultFailure();
  /* an op comes before its users, so that one round folds new ops too */
  nabla_op_list all = nabla_ops_collect(op, can_fold);
  for (size_t i = 0; i < all.count; i++) fold_op(all.ops[i]);
  bool failed = all.failed;
  nabla_op_list_deinit(&all);
  nabla_components_clean(op);
  return failed ? mlirLogicalResultFailure() : mlirLogicalResultSuccess();
}
