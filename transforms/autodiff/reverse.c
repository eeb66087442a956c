/* See reverse.h. */
#include "transforms/autodiff/reverse.h"

#include <mlir-c/BuiltinTypes.h>
#include <stdlib.h>

#include "dialect/ops.h"
#include "dialect/verify/checks.h"
#include "transforms/autodiff/shard_map.h"
#include "transforms/composite/decompositions.h"
#include "transforms/ir/block_index.h"
#include "transforms/shard/reshard.h"

void nabla_reverse_deinit(nabla_reverse *r) {
  nabla_value_map_deinit(&r->sums);
  nabla_value_map_deinit(&r->pending);
  nabla_varying_deinit(&r->pending_atoms);
}

nabla_reverse nabla_reverse_inner(const nabla_reverse *r,
                                  const nabla_builder *b) {
  return (nabla_reverse){.b = *b,
                         .varied = r->varied,
                         .derived = r->derived,
                         .grid = r->grid,
                         .varying = r->varying,
                         .always = r->always};
}

bool nabla_reverse_visit(nabla_reverse *r, MlirBlock block) {
  return !r->varying || nabla_varying_visit(r->grid, block, r->varying);
}

uint64_t nabla_reverse_atoms(const nabla_reverse *r, MlirValue value) {
  return r->varying ? nabla_varying_at(r->varying, value) | r->always : 0;
}

void nabla_reverse_add_along(nabla_reverse *r, uint64_t atoms, MlirValue value,
                             MlirValue cotangent) {
  r->atoms = atoms;
  nabla_reverse_add(r, value, cotangent);
}

static void add_to(nabla_reverse *r, nabla_value_map *sums, MlirValue value,
                   MlirValue cotangent) {
  MlirValue sum = nabla_value_map_get(sums, value);
  if (!mlirValueIsNull(sum))
    cotangent = nabla_build_two(&r->b, "add", nabla_diff_widen(&r->b, sum),
                                nabla_diff_widen(&r->b, cotangent));
  nabla_value_map_set(sums, value, cotangent);
}

/* The sum of a cotangent of `value` over devices. */
static MlirValue join(nabla_reverse *r, MlirValue value, MlirValue cotangent,
                      uint64_t atoms) {
  nabla_atom_list list = {0};
  for (uint32_t i = 0; i < r->grid->atoms.count; i++)
    if (atoms >> i & 1) list.at[list.count++] = (uint8_t)i;
  cotangent = nabla_diff_narrow(&r->b, cotangent, value);
  if (mlirValueIsNull(cotangent) || !list.count) return cotangent;
  return nabla_reshard_join(r->grid, r->b.before, cotangent, NABLA_BUILD_SUM,
                            &list);
}

void nabla_reverse_add(nabla_reverse *r, MlirValue value, MlirValue cotangent) {
  if (mlirValueIsNull(cotangent) || !nabla_value_map_has(r->varied, value))
    return;
  const uint64_t more =
      r->varying ? r->atoms & ~nabla_reverse_atoms(r, value) : 0;
  const uint64_t have = nabla_varying_at(&r->pending_atoms, value);
  if (!more) {
    add_to(r, &r->sums, value, cotangent);
  } else if (have && have != more) {
    add_to(r, &r->sums, value, join(r, value, cotangent, more));
  } else {
    add_to(r, &r->pending, value, cotangent);
    nabla_varying_set(&r->pending_atoms, value, more);
  }
}

/* Takes what is pending of a value; null where nothing is. */
static MlirValue take_pending(nabla_reverse *r, MlirValue value,
                              uint64_t *out_atoms) {
  MlirValue pending = nabla_value_map_get(&r->pending, value);
  *out_atoms = nabla_varying_at(&r->pending_atoms, value);
  if (mlirValueIsNull(pending)) return pending;
  nabla_value_map_set(&r->pending, value, (MlirValue){NULL});
  nabla_varying_set(&r->pending_atoms, value, 0);
  return pending;
}

MlirValue nabla_reverse_sum(nabla_reverse *r, MlirValue value) {
  uint64_t atoms;
  MlirValue pending = take_pending(r, value, &atoms);
  if (!mlirValueIsNull(pending))
    add_to(r, &r->sums, value, join(r, value, pending, atoms));
  return nabla_diff_narrow(&r->b, nabla_value_map_get(&r->sums, value), value);
}

MlirValue nabla_reverse_sum_or_zeros(nabla_reverse *r, MlirValue value) {
  MlirValue sum = nabla_reverse_sum(r, value);
  if (!mlirValueIsNull(sum)) return sum;
  return nabla_build_zeros(&r->b, value,
                           nabla_array_element(mlirValueGetType(value)));
}

/* ---- collectives ---- */

/* The atoms that a collective exchanges over; none of other operations. */
static uint64_t axes_of(const nabla_reverse *r, MlirOperation op,
                        nabla_atom_list *out) {
  uint64_t atoms = 0;
  *out = (nabla_atom_list){0};
  if (!nabla_is_collective(op) || !nabla_collective_atoms(r->grid, op, out))
    return 0;
  for (uint32_t i = 0; i < out->count; i++) atoms |= (uint64_t)1 << out->at[i];
  return atoms;
}

static uint64_t operands_vary(const nabla_reverse *r, MlirOperation op) {
  uint64_t atoms = 0;
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++)
    atoms |= nabla_reverse_atoms(r, mlirOperationGetOperand(op, i));
  return atoms;
}

static bool is_varying(const nabla_reverse *r, MlirOperation op) {
  nabla_atom_list list;
  return r->varying && operands_vary(r, op) & axes_of(r, op, &list);
}

/* Along what an operation takes its operands: where one of them is equal along
 * an axis, its cotangent is the sum of those of devices. A slice of an equal
 * value is an exception: the pieces are gathered. */
static uint64_t takes(const nabla_reverse *r, MlirOperation op) {
  nabla_atom_list list;
  if (!r->varying) return 0;
  if (nabla_is(op, "nabla.all_slice") && !is_varying(r, op))
    return operands_vary(r, op);
  return operands_vary(r, op) | axes_of(r, op, &list);
}

/* An all_gather whose result met what varies along its axes: the sum over
 * devices, of which each needs its piece, is one reduce_scatter. */
static bool scatter(nabla_reverse *r, MlirOperation op) {
  nabla_atom_list list;
  uint64_t atoms;
  MlirValue x = mlirOperationGetOperand(op, 0);
  MlirValue y = mlirOperationGetResult(op, 0);
  const uint64_t own = axes_of(r, op, &list);
  if ((nabla_varying_at(&r->pending_atoms, y) & own) != own) return true;
  MlirValue sum = take_pending(r, y, &atoms);
  if (mlirValueIsNull(sum)) return true;
  sum = join(r, y, sum, atoms & ~own);
  if (mlirValueIsNull(sum)) return false;
  MlirType type = nabla_dense_type(mlirValueGetType(x));
  sum = nabla_reshard_scatter(r->grid, r->b.before, sum, NABLA_BUILD_SUM,
                              nabla_op_integer(op, "dim", 0), &list, type);
  if (mlirValueIsNull(sum)) return false;
  nabla_reverse_add(r, x, sum);
  return true;
}

static bool check_place(const nabla_reverse *r, MlirOperation op) {
  if (!r->varying && nabla_is_collective(op)) {
    nabla_error_at(op,
                   "has no derivative in a partitioned function: differentiate "
                   "before nabla-partition");
    return false;
  }
  return true;
}

/* ---- one operation ---- */

static bool run_rule(nabla_reverse *r, MlirOperation op,
                     const MlirValue *cotangents) {
  const intptr_t count = mlirOperationGetNumOperands(op);
  const nabla_diff_row row = nabla_diff_find(op);
  if (!row.vjp) return nabla_diff_refuse(op);
  bool *wanted = calloc((size_t)count + 1, sizeof *wanted);
  MlirValue *out = calloc((size_t)count + 1, sizeof *out);
  bool good = wanted && out;
  for (intptr_t i = 0; good && i < count; i++)
    wanted[i] = nabla_value_map_has(r->varied, mlirOperationGetOperand(op, i));
  const nabla_pullback p = {.b = r->b,
                            .op = op,
                            .wanted = wanted,
                            .cotangents = cotangents,
                            .out = out,
                            .is_varying = is_varying(r, op)};
  good = good && row.vjp(&p);
  for (intptr_t i = 0; good && i < count; i++)
    if (wanted[i]) nabla_reverse_add(r, mlirOperationGetOperand(op, i), out[i]);
  free(wanted);
  free(out);
  return good;
}

/* Each operand of a barrier varies along what its result does. */
static bool run_barrier(nabla_reverse *r, MlirOperation op,
                        const MlirValue *cotangents) {
  for (intptr_t i = 0; i < mlirOperationGetNumResults(op); i++)
    nabla_reverse_add_along(
        r, nabla_reverse_atoms(r, mlirOperationGetResult(op, i)),
        mlirOperationGetOperand(op, i), cotangents[i]);
  return true;
}

static bool run(nabla_reverse *r, MlirOperation op,
                const MlirValue *cotangents) {
  if (r->varying && nabla_is(op, "nabla.barrier"))
    return run_barrier(r, op, cotangents);
  if (nabla_is(op, "nabla.cond")) return nabla_reverse_cond(r, op, cotangents);
  if (nabla_is(op, "nabla.scan")) return nabla_reverse_scan(r, op, cotangents);
  if (nabla_is(op, "nabla.remat"))
    return nabla_reverse_remat(r, op, cotangents);
  if (nabla_is(op, "nabla.shard_map"))
    return nabla_reverse_shard_map(r, op, cotangents);
  if (nabla_is(op, "nabla.while"))
    return nabla_reverse_while(r, op, cotangents);
  if (nabla_is(op, "func.call")) return nabla_reverse_call(r, op, cotangents);
  if (nabla_is(op, "nabla.custom_call"))
    return nabla_reverse_custom_call(r, op, cotangents);
  return run_rule(r, op, cotangents);
}

static bool reverse_op(nabla_reverse *r, MlirOperation op) {
  const intptr_t count = mlirOperationGetNumResults(op);
  bool any = false;
  if (nabla_diff_is_zero(op) || !nabla_varied_uses(r->varied, op)) return true;
  if (!check_place(r, op)) return false;
  r->atoms = takes(r, op);
  if (r->varying && nabla_is(op, "nabla.all_gather") && !scatter(r, op))
    return false;
  MlirValue *cotangents = calloc((size_t)count + 1, sizeof *cotangents);
  if (!cotangents) return false;
  for (intptr_t i = 0; i < count; i++) {
    cotangents[i] = nabla_reverse_sum(r, mlirOperationGetResult(op, i));
    any = any || !mlirValueIsNull(cotangents[i]);
  }
  const bool good = !any || run(r, op, cotangents);
  free(cotangents);
  return good;
}

bool nabla_reverse_block(nabla_reverse *r, MlirBlock block) {
  nabla_block_index index;
  bool good = nabla_block_index_init(&index, block);
  for (size_t i = index.count; good && i-- > 0;)
    good = reverse_op(r, index.ops[i]);
  nabla_block_index_deinit(&index);
  return good && !r->sums.failed && !r->varied->failed;
}
