/* Loops in the problem: see problem.h. The operations of the body of a
 * nabla.scan are nodes as those around it, which are run in each round. Its
 * carries, the slices of its inputs and its outputs are nodes too, ports: one
 * layout for all rounds. */
#include "dialect/control.h"
#include "transforms/cost/cost_count.h"
#include "transforms/shard/solve/problem.h"

static bool is_static_array(MlirType type) {
  if (!nabla_layout_takes(type) || nablaTypeIsAImplicit(type)) return false;
  for (intptr_t d = 0; d < nabla_array_rank(type); d++)
    if (nabla_is_dynamic(nabla_array_dim(type, d))) return false;
  return true;
}

bool nabla_shard_scan_is_open(MlirOperation op) {
  if (!nabla_is(op, "nabla.scan")) return false;
  const nabla_scan_parts scan = nabla_scan_read(op);
  MlirBlock body = nabla_region_block(op, 0);
  MlirOperation end = nabla_block_end(body);
  for (intptr_t i = 0; i < scan.carries; i++) {
    MlirType type = nabla_result_type(op, i);
    if (!is_static_array(type) ||
        !mlirTypeEqual(type, nabla_operand_type(op, i)) ||
        !mlirTypeEqual(type, nabla_operand_type(end, i)))
      return false;
  }
  for (intptr_t i = scan.carries; i < scan.carries + scan.inputs; i++)
    if (!is_static_array(nabla_operand_type(op, i)) ||
        !is_static_array(mlirValueGetType(mlirBlockGetArgument(body, i))))
      return false;
  for (intptr_t i = scan.carries; i < scan.carries + scan.outputs; i++)
    if (!is_static_array(nabla_result_type(op, i)) ||
        !is_static_array(nabla_operand_type(end, i)))
      return false;
  return scan.carries + scan.inputs + scan.outputs > 0;
}

intptr_t nabla_shard_scan_ports(MlirOperation op) {
  const nabla_scan_parts scan = nabla_scan_read(op);
  return scan.carries + scan.inputs + scan.outputs;
}

nabla_shard_port nabla_shard_port_of(MlirOperation op, intptr_t index) {
  const nabla_scan_parts scan = nabla_scan_read(op);
  MlirBlock body = nabla_region_block(op, 0);
  MlirOperation end = nabla_block_end(body);
  const MlirValue none = {NULL};
  if (index < scan.carries)
    return (nabla_shard_port){.kind = NABLA_PORT_CARRY,
                              .given = mlirOperationGetOperand(op, index),
                              .inside = mlirBlockGetArgument(body, index),
                              .ended = mlirOperationGetOperand(end, index),
                              .result = mlirOperationGetResult(op, index)};
  if (index < scan.carries + scan.inputs)
    return (nabla_shard_port){.kind = NABLA_PORT_SLICE,
                              .given = mlirOperationGetOperand(op, index),
                              .inside = mlirBlockGetArgument(body, index),
                              .ended = none,
                              .result = none};
  const intptr_t at = index - scan.inputs;
  return (nabla_shard_port){.kind = NABLA_PORT_OUTPUT,
                            .given = none,
                            .inside = none,
                            .ended = mlirOperationGetOperand(end, at),
                            .result = mlirOperationGetResult(op, at)};
}

uint64_t nabla_shard_scan_rounds(MlirOperation op) {
  return nabla_cost_rounds(op, 1);
}
