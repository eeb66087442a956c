/* Writing a solution into the program: see problem.h. */
#include <mlir-c/BuiltinAttributes.h>
#include <stdlib.h>
#include <string.h>

#include "transforms/shard/solve/problem.h"
#include "transforms/shard/ties.h"
#include "transforms/state/state.h"

static const nabla_shard_option *chosen_of(const nabla_shard_problem *p,
                                           size_t node) {
  return &p->nodes[node].options->all[p->answer.chosen[node]];
}

/* ---- attributes ---- */

/* Annotations that say all of the layout stay as they are. */
static bool write_arguments(const nabla_shard_problem *p) {
  MlirContext context = nabla_op_context(p->function);
  const intptr_t count =
      mlirBlockGetNumArguments(nabla_function_body(p->function));
  MlirAttribute *values = calloc((size_t)count + 1, sizeof *values);
  if (!values) return false;
  for (intptr_t i = 0; i < count; i++) {
    const nabla_division *layout = &chosen_of(p, (size_t)i)->results[0];
    values[i] =
        nabla_state_attribute(p->function, NABLA_ARGUMENTS, i, NABLA_SHARDING);
    if (!nabla_layout_takes(layout->type)) continue;
    if (nabla_option_is_all(values[i]) &&
        nabla_option_keeps(p->grid, values[i], layout))
      continue;
    values[i] = nabla_layout_attribute(p->grid, context, layout);
  }
  nabla_state_strip(p->function, NABLA_ARGUMENTS, NABLA_SHARDING);
  nabla_ports_set(p->function, NABLA_ARGUMENTS, NABLA_SHARDING, values);
  free(values);
  return true;
}

/* Whether a constraint or nabla.reshard says its layout. */
static bool is_said(MlirOperation op) {
  return (nabla_is(op, "nabla.sharding_constraint") ||
          nabla_is(op, "nabla.reshard")) &&
         nabla_option_is_all(
             mlirOperationGetAttributeByName(op, nabla_ref("sharding")));
}

/* A scan, with its first port: results, then slices. */
static void write_scan(nabla_shard_problem *p, size_t node) {
  MlirOperation op = p->nodes[node].op;
  const intptr_t count = nabla_shard_scan_ports(op);
  intptr_t inputs = mlirOperationGetNumResults(op), results = 0;
  MlirAttribute *list = malloc((size_t)(count + 1) * sizeof *list);
  if (!list) {
    p->failed = true;
    return;
  }
  for (intptr_t i = 0; i < count; i++) {
    MlirAttribute layout =
        nabla_layout_attribute(p->grid, nabla_op_context(op),
                               &chosen_of(p, node + (size_t)i)->results[0]);
    if (nabla_shard_port_of(op, i).kind == NABLA_PORT_SLICE)
      list[inputs++] = layout;
    else
      list[results++] = layout;
  }
  mlirOperationSetAttributeByName(
      op, nabla_ref(NABLA_SHARDINGS),
      mlirArrayAttrGet(nabla_op_context(op), count, list));
  free(list);
}

static void write_op(nabla_shard_problem *p, size_t node) {
  MlirAttribute list[NABLA_MAX_RESULTS];
  MlirOperation op = p->nodes[node].op;
  if (nabla_shard_node_is_port(&p->nodes[node])) {
    if (!p->nodes[node].argument) write_scan(p, node);
    return;
  }
  const intptr_t count = mlirOperationGetNumResults(op);
  if (!count || count > NABLA_MAX_RESULTS || is_said(op)) return;
  for (intptr_t r = 0; r < count; r++)
    list[r] = nabla_layout_attribute(p->grid, nabla_op_context(op),
                                     &chosen_of(p, node)->results[r]);
  mlirOperationSetAttributeByName(
      op, nabla_ref(NABLA_SHARDINGS),
      mlirArrayAttrGet(nabla_op_context(op), count, list));
}

/* ---- exchanges that have to be written ---- */

/* Whether nabla-partition divides the operation as the option says, from the
 * layouts of its operands and results alone. */
static bool follows(nabla_shard_problem *p, size_t node,
                    const nabla_division *operands) {
  const nabla_shard_option *o = chosen_of(p, node);
  nabla_shard_plan plan;
  nabla_layout_map *map = &p->lists->map;
  MlirOperation op = p->nodes[node].op;
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++) {
    nabla_division *at = nabla_layout_at(map, mlirOperationGetOperand(op, i));
    if (at) *at = operands[i];
  }
  for (intptr_t r = 0; r < mlirOperationGetNumResults(op); r++) {
    nabla_division *at = nabla_layout_at(map, mlirOperationGetResult(op, r));
    if (at) *at = o->results[r];
  }
  nabla_shard_plan_try(p->grid, map, op, &plan);
  if (map->failed) p->failed = true;
  for (uint32_t i = 0; i < plan.factors.count; i++)
    if (!nabla_atoms_equal(&plan.lists[i], &o->lists[i])) return false;
  return plan.is_divided;
}

static MlirValue reshard(const nabla_shard_problem *p, MlirOperation before,
                         MlirValue value, const nabla_division *to) {
  MlirType type = mlirValueGetType(value);
  const MlirNamedAttribute attributes[] = {nabla_named(
      nabla_op_context(before), "sharding",
      nabla_layout_attribute(p->grid, nabla_op_context(before), to))};
  const nabla_op_spec spec = {"nabla.reshard", 1, &value,    1,
                              &type,           1, attributes};
  MlirOperation made = nabla_op_create(before, &spec);
  return mlirOperationIsNull(made) ? (MlirValue){NULL}
                                   : mlirOperationGetResult(made, 0);
}

/* The layouts in which the operands of a node are found. */
static nabla_division *found_of(const nabla_shard_problem *p, size_t node,
                                size_t first, size_t end) {
  MlirOperation op = p->nodes[node].op;
  const intptr_t count = mlirOperationGetNumOperands(op);
  nabla_division *found = calloc((size_t)count + 1, sizeof *found);
  for (intptr_t i = 0; found && i < count; i++)
    found[i] = nabla_layout_whole(nabla_operand_type(op, i));
  for (size_t u = first; found && u < end; u++)
    if (p->uses[u].operand >= 0)
      found[p->uses[u].operand] =
          *nabla_shard_use_from(p, &p->uses[u], p->answer.chosen[p->uses[u].a]);
  return found;
}

/* Operands that an operation would follow in another way than the solution
 * says, through nabla.reshard. */
static bool bring_operands(nabla_shard_problem *p, size_t node, size_t first,
                           size_t end) {
  MlirOperation op = p->nodes[node].op;
  const nabla_shard_option *o = chosen_of(p, node);
  nabla_division *found = found_of(p, node, first, end);
  if (!found) return false;
  const bool good = nabla_is(op, "nabla.reshard") || follows(p, node, found);
  for (size_t u = first; u < end && !good; u++) {
    const intptr_t i = p->uses[u].operand;
    if (i < 0 || nabla_layout_equal(&found[i], &o->operands[i])) continue;
    MlirValue made =
        reshard(p, op, mlirOperationGetOperand(op, i), &o->operands[i]);
    if (mlirValueIsNull(made)) {
      p->failed = true;
      break;
    }
    mlirOperationSetOperand(op, i, made);
  }
  free(found);
  return !p->failed;
}

/* Loops take operands whole: nabla-partition would gather within the body what
 * the body alone divides, once a step. */
static bool has_regions(MlirOperation op) {
  return !mlirOperationIsNull(op) && mlirOperationGetNumRegions(op) > 0;
}

bool nabla_shard_problem_write(nabla_shard_problem *p) {
  const size_t arguments =
      (size_t)mlirBlockGetNumArguments(nabla_function_body(p->function));
  bool good = write_arguments(p);
  size_t use = 0;
  for (size_t n = arguments; n < p->node_count && good; n++) {
    while (use < p->use_count && p->uses[use].b < n) use++;
    const size_t first = use;
    while (use < p->use_count && p->uses[use].b == n) use++;
    write_op(p, n);
    good = !p->failed;
    if (good && !nabla_shard_node_is_port(&p->nodes[n]) &&
        (p->nodes[n].options->is_divided || has_regions(p->nodes[n].op)))
      good = bring_operands(p, n, first, use);
  }
  return good;
}
