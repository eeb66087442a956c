/* nabla.remat in reverse: its operations run again behind a nabla.barrier, in a
 * nabla.remat of the pass back; and the derivative of barriers. */
#include <stdlib.h>

#include "dialect/control.h"
#include "transforms/autodiff/reverse.h"
#include "transforms/autodiff/saved.h"
#include "transforms/ir/build_control.h"

/* ---- barriers ---- */

/* The last operand is waited for, no more. */
bool nabla_vjp_barrier(const nabla_pullback *p) {
  for (intptr_t i = 0; i < mlirOperationGetNumResults(p->op); i++)
    if (p->wanted[i]) p->out[i] = p->cotangents[i];
  return true;
}

bool nabla_jvp_barrier(const nabla_pushforward *p) {
  for (intptr_t i = 0; i < mlirOperationGetNumResults(p->op); i++)
    p->out[i] = p->tangents[i];
  return true;
}

bool nabla_barrier_add(const nabla_builder *b, const nabla_value_list *values,
                       MlirValue after, nabla_value_map *map) {
  enum { GROUP = 32 };
  MlirValue operands[GROUP + 1];
  for (size_t first = 0; first < values->count;) {
    intptr_t count = 0;
    for (; first < values->count && count < GROUP; first++)
      operands[count++] = values->values[first];
    operands[count] = after;
    nabla_op_spec spec = {
        "nabla.barrier", count + 1, operands, -1, NULL, 0, NULL};
    MlirOperation made = nabla_op_create(b->before, &spec);
    if (mlirOperationIsNull(made)) return false;
    for (intptr_t i = 0; i < count; i++)
      nabla_value_map_set(map, operands[i], mlirOperationGetResult(made, i));
  }
  return !map->failed;
}

/* ---- remat ---- */

typedef struct remat {
  nabla_reverse *outer;
  MlirOperation op;
  const MlirValue *cotangents;
  const nabla_value_list *used, *varied; /* from outside: arrays; those that
                                          * have cotangents */
} remat;

static MlirValue first_cotangent(const remat *m) {
  intptr_t i = 0;
  while (mlirValueIsNull(m->cotangents[i])) i++; /* one at least is there */
  return m->cotangents[i];
}

static bool pull(const remat *m, nabla_reverse *r, MlirValue *results) {
  nabla_value_map copies = {0};
  MlirBlock block = nabla_region_block(m->op, 0);
  MlirBlock here = mlirOperationGetBlock(r->b.before);
  MlirOperation end = nabla_block_end(block);
  bool good = nabla_barrier_add(&r->b, m->used, first_cotangent(m), &copies) &&
              nabla_block_copy(block, r->b.before, &copies);
  good = good && nabla_reverse_visit(r, here);
  if (good) nabla_varied_mark(r->varied, here);
  for (intptr_t i = 0; good && i < mlirOperationGetNumResults(m->op); i++)
    nabla_reverse_add(r, nabla_copied(&copies, mlirOperationGetOperand(end, i)),
                      m->cotangents[i]);
  nabla_value_map_deinit(&copies);
  good = good && nabla_reverse_block(r, here);
  for (size_t i = 0; good && i < m->varied->count; i++)
    results[i] = nabla_reverse_sum_or_zeros(r, m->varied->values[i]);
  return good;
}

static void write_body(const nabla_builder *b, const MlirValue *arguments,
                       MlirValue *results, void *data) {
  const remat *m = data;
  (void)arguments;
  nabla_reverse r = nabla_reverse_inner(m->outer, b);
  if (!pull(m, &r, results))
    for (size_t i = 0; i < m->varied->count; i++) results[i].ptr = NULL;
  nabla_reverse_deinit(&r);
}

static bool check(const nabla_reverse *r, MlirOperation op, size_t varied) {
  if (nabla_has_effects(r->derived->module, op)) {
    nabla_error_at(
        op,
        "has effects, which its derivative would have twice: declare "
        "its custom calls pure, or move them outside");
    return false;
  }
  if (varied <= NABLA_BUILD_MAX_CARRIES) return true;
  nabla_error_at(op,
                 "has no derivative: it uses %d values from outside; at most "
                 "%d are supported",
                 (int)varied, NABLA_BUILD_MAX_CARRIES);
  return false;
}

/* Arrays that are worth waiting for. */
static void find_used(MlirOperation op, nabla_value_list *out) {
  nabla_value_list all = {0};
  nabla_varied_captured(NULL, op, &all);
  for (size_t i = 0; i < all.count; i++)
    if (nabla_is_kept(all.values[i])) nabla_value_list_add(out, all.values[i]);
  out->failed = out->failed || all.failed;
  nabla_value_list_deinit(&all);
}

bool nabla_reverse_remat(nabla_reverse *r, MlirOperation op,
                         const MlirValue *cotangents) {
  nabla_value_list varied = {0}, used = {0};
  nabla_varied_captured(r->varied, op, &varied);
  find_used(op, &used);
  bool good = !varied.failed && !used.failed && check(r, op, varied.count);
  if (good && varied.count) {
    remat m = {r, op, cotangents, &used, &varied};
    const nabla_built_region body = {write_body, &m, (intptr_t)varied.count};
    MlirOperation made = nabla_build_remat(&r->b, &body);
    good = !mlirOperationIsNull(made);
    for (size_t i = 0; good && i < varied.count; i++)
      nabla_reverse_add_along(r, 0, varied.values[i],
                              mlirOperationGetResult(made, (intptr_t)i));
  }
  nabla_value_list_deinit(&varied);
  nabla_value_list_deinit(&used);
  return good;
}
