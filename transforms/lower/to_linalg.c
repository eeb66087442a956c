/* nabla-to-linalg: lowers the remaining operations of the dialect to linalg,
 * tensor and arith. Each operation is lowered by the function in its row of
 * ops.def. Afterwards implicit values are used only by the operations that make
 * them, which are erased. */
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <string.h>

#include "dialect/ops.h"
#include "dialect/verify/checks.h"
#include "transforms/ir/components.h"
#include "transforms/ir/expand_nested.h"
#include "transforms/ir/target.h"
#include "transforms/lower/cast.h"
#include "transforms/lower/list.h"
#include "transforms/passes.h"

bool nabla_lower_kernel(nabla_template *t) {
  nabla_error_at(t->op,
                 "has no lowering to linalg: run --nabla-lower-fused "
                 "first");
  return false;
}

bool nabla_lower_control(nabla_template *t) {
  nabla_error_at(t->op,
                 "has no lowering to linalg: run --nabla-lower-control first");
  return false;
}

bool nabla_lower_collective(nabla_template *t) {
  nabla_error_at(t->op,
                 "has no lowering to linalg: run --nabla-lower-collectives "
                 "first");
  return false;
}

bool nabla_lower_mesh(nabla_template *t) { return nabla_lower_collective(t); }

bool nabla_lower_sharding_constraint(nabla_template *t) {
  nabla_error_at(t->op,
                 "has no lowering to linalg: run --nabla-partition first");
  return false;
}

/* remove_components lowers these */
bool nabla_lower_components(nabla_template *t) {
  (void)t;
  return true;
}

static const struct {
  const char *name;
  bool (*lower)(nabla_template *t);
} lowerings[] = {
#define OP(id, columns) {.name = "nabla." #id, columns},
#define LOWER(word)     .lower = nabla_lower_##word,
#include "dialect/ops.def"
};

static bool is_quantize(MlirOperation op) {
  return nabla_is(op, "nabla.quantize");
}

static bool is_other(MlirOperation op) {
  return !is_quantize(op) && nabla_op_find(op);
}

static bool is_implicit(MlirValue value) {
  return nablaTypeIsAImplicit(mlirValueGetType(value));
}

static bool has_implicit_result(MlirOperation op) {
  return mlirOperationGetNumResults(op) > 0 &&
         is_implicit(mlirOperationGetResult(op, 0));
}

/* Returns whether the number of elements fits in 62 bits. A larger tensor is
 * legal in a program, but later passes compute with the number. */
static bool is_countable(MlirType type) {
  uint64_t all = 1;
  if (!mlirTypeIsARankedTensor(type)) return true;
  for (intptr_t i = 0; i < mlirShapedTypeGetRank(type); i++) {
    int64_t dim = mlirShapedTypeGetDimSize(type, i);
    if (nabla_is_dynamic(dim) || dim == 0) continue;
    if (__builtin_mul_overflow(all, (uint64_t)dim, &all) || all >> 62)
      return false;
  }
  return true;
}

static bool is_too_large(MlirOperation op) {
  bool good = true;
  for (intptr_t i = 0; i < mlirOperationGetNumResults(op); i++)
    good = good && is_countable(nabla_result_type(op, i));
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++)
    good =
        good && (!nabla_op_find(op) || is_countable(nabla_operand_type(op, i)));
  return !good;
}

/* Checked for operations of other dialects too: their results become buffers as
 * well. */
static bool check_sizes(MlirOperation module) {
  nabla_op_list large = nabla_ops_collect(module, is_too_large);
  bool good = !large.failed && large.count == 0;
  for (size_t i = 0; i < large.count; i++)
    nabla_error_at(large.ops[i], "has a tensor of more than 2^62 elements");
  nabla_op_list_deinit(&large);
  return good;
}

/* Checks that lowerings can read all operands: plain tensors, and implicit
 * arrays for the operations that take them. */
static bool check_operands(MlirOperation op) {
  const nabla_op_row *row = nabla_op_find(op);
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++) {
    MlirType type = nabla_operand_type(op, i);
    if (nablaTypeIsAImplicit(type)) {
      if (row->implicit == NABLA_IMPLICIT_takes) continue;
      nabla_error_at(op, "has an implicit operand: run --nabla-dispatch first");
      return false;
    }
    if (mlirTypeIsARankedTensor(type) &&
        !mlirAttributeIsNull(mlirRankedTensorTypeGetEncoding(type))) {
      nabla_error_at(op,
                     "has a tensor with an attribute, which says nothing "
                     "here: write it without");
      return false;
    }
  }
  return true;
}

static bool lower(MlirOperation op, void *features) {
  nabla_template t;
  if (!is_quantize(op) && has_implicit_result(op) &&
      nabla_op_find(op)->implicit == NABLA_IMPLICIT_views)
    return true;
  if (!check_operands(op)) return false;
  for (size_t i = 0; i < sizeof lowerings / sizeof *lowerings; i++) {
    if (!nabla_is(op, lowerings[i].name)) continue;
    bool done =
        nabla_template_init(&t, op, *(const nabla_features *)features) &&
        lowerings[i].lower(&t);
    nabla_template_deinit(&t);
    return done;
  }
  nabla_error_at(op, "has no lowering");
  return false;
}

static bool check_cast(MlirOperation op, void *features) {
  nabla_template t;
  const bool done =
      nabla_template_init(&t, op, *(const nabla_features *)features) &&
      nabla_cast_check(&t);
  nabla_template_deinit(&t);
  return done;
}

static bool refuse_cast(MlirOperation op, void *unused) {
  (void)unused;
  nabla_error_at(op,
                 "has a tensor without a rank, which cannot be compiled: give "
                 "it its dimensions, as in tensor<?x?xf32>");
  return false;
}

/* Checks casts of the program. Must run before the lowerings, which make casts
 * of sizes that they have compared already. */
static bool check_casts(MlirOperation module, nabla_features features) {
  return mlirLogicalResultIsSuccess(nabla_ops_each(
             module, nabla_cast_hides_rank, refuse_cast, NULL)) &&
         mlirLogicalResultIsSuccess(nabla_ops_each(
             module, nabla_cast_states_sizes, check_cast, &features));
}

static bool lower_all(MlirOperation module, bool (*want)(MlirOperation),
                      nabla_features features) {
  return mlirLogicalResultIsSuccess(
      nabla_ops_each(module, want, lower, &features));
}

static bool is_unpack(MlirOperation op) { return nabla_is(op, "nabla.unpack"); }

/* Replaces the results of each unpack by the operands of the pack that made its
 * operand. */
static bool fold_unpacks(MlirOperation module) {
  MlirValue parts[NABLA_MAX_PARTS];
  nabla_op_list all = nabla_ops_collect(module, is_unpack);
  bool good = !all.failed;
  for (size_t i = 0; good && i < all.count; i++) {
    MlirValue packed = mlirOperationGetOperand(all.ops[i], 0);
    if (mlirOperationGetNumResults(all.ops[i]) > 0 &&
        nabla_components_find(packed, parts) < 0) {
      nabla_error_at(all.ops[i],
                     "has an operand whose components are not known here: run "
                     "--nabla-lower-implicit first");
      good = false;
    } else {
      nabla_op_replace(all.ops[i], parts);
    }
  }
  nabla_op_list_deinit(&all);
  return good;
}

/* An operation of the dialect, or another one with implicit operands. */
static bool is_left(MlirOperation op) {
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++)
    if (is_implicit(mlirOperationGetOperand(op, i))) return true;
  return nabla_op_find(op) && !nabla_is(op, "nabla.barrier");
}

/* Erases the operations that make implicit values. If one of them is still
 * used, a function, call or region passes the value across its boundary. */
static bool remove_components(MlirOperation module) {
  if (!fold_unpacks(module)) return false;
  nabla_components_clean(module);
  nabla_op_list left = nabla_ops_collect(module, is_left);
  bool good = !left.failed && left.count == 0;
  for (size_t i = 0; i < left.count; i++)
    nabla_error_at(left.ops[i],
                   "has an implicit value that is still used: run "
                   "--nabla-lower-implicit first");
  nabla_op_list_deinit(&left);
  return good;
}

/* quantize first: it makes the pack that materialize looks for */
MlirLogicalResult nabla_run_to_linalg(MlirOperation module,
                                      const nablaPassValue *values,
                                      void *prepared) {
  (void)prepared;
  const nabla_target *target = nabla_target_read(module, values[1].string);
  if (!target) return mlirLogicalResultFailure();
  nabla_features features = target->features(values[0].string);
  bool good = check_sizes(module) && nabla_nested_expand(module) &&
              check_casts(module, features) &&
              lower_all(module, is_quantize, features) &&
              lower_all(module, is_other, features) &&
              remove_components(module);
  return good ? mlirLogicalResultSuccess() : mlirLogicalResultFailure();
}
