/* See block_index.h. */
#include "transforms/ir/block_index.h"

#include <stdint.h>
#include <stdlib.h>

/* Hashes the middle bits of an address, in which addresses differ. */
static size_t hash(MlirOperation op) {
  const uint64_t mixed = (uint64_t)(uintptr_t)op.ptr * 0x9e3779b97f4a7c15u;
  return (size_t)(mixed >> 20);
}

static void insert(nabla_block_index *index, size_t number) {
  size_t slot = hash(index->ops[number]) & index->mask;
  while (index->slots[slot]) slot = (slot + 1) & index->mask;
  index->slots[slot] = number + 1;
}

/* Returns the number of an operation of the block itself, or SIZE_MAX. */
static size_t find(const nabla_block_index *index, MlirOperation op) {
  size_t slot = hash(op) & index->mask;
  for (; index->slots[slot]; slot = (slot + 1) & index->mask)
    if (mlirOperationEqual(index->ops[index->slots[slot] - 1], op))
      return index->slots[slot] - 1;
  return SIZE_MAX;
}

bool nabla_block_index_init(nabla_block_index *index, MlirBlock block) {
  *index = (nabla_block_index){0};
  const MlirOperation end = mlirBlockGetTerminator(block);
  size_t count = 0, slots = 16;
  for (MlirOperation op = mlirBlockGetFirstOperation(block);
       !mlirOperationIsNull(op) && !mlirOperationEqual(op, end);
       op = mlirOperationGetNextInBlock(op))
    count++;
  while (slots < 2 * count) slots *= 2;
  index->ops = calloc(count + 1, sizeof *index->ops);
  index->slots = calloc(slots, sizeof *index->slots);
  if (!index->ops || !index->slots) return false;
  index->mask = slots - 1;
  MlirOperation op = mlirBlockGetFirstOperation(block);
  for (; index->count < count; op = mlirOperationGetNextInBlock(op)) {
    index->ops[index->count] = op;
    insert(index, index->count++);
  }
  return true;
}

static bool is_any(MlirOperation op) { return !mlirOperationIsNull(op); }

bool nabla_block_index_init_inside(nabla_block_index *index,
                                   MlirOperation root) {
  *index = (nabla_block_index){0};
  nabla_op_list list = nabla_ops_collect(root, is_any);
  size_t slots = 16;
  while (slots < 2 * list.count) slots *= 2;
  index->ops = list.ops;
  index->slots = list.failed ? NULL : calloc(slots, sizeof *index->slots);
  if (!index->slots) return false;
  index->mask = slots - 1;
  while (index->count < list.count) insert(index, index->count++);
  return true;
}

void nabla_block_index_deinit(nabla_block_index *index) {
  free(index->ops);
  free(index->slots);
  *index = (nabla_block_index){0};
}

size_t nabla_block_index_find(const nabla_block_index *index,
                              MlirOperation op) {
  for (; !mlirOperationIsNull(op) && index->count;
       op = mlirOperationGetParentOperation(op)) {
    const size_t number = find(index, op);
    if (number != SIZE_MAX) return number;
  }
  return SIZE_MAX;
}

size_t nabla_block_index_definition(const nabla_block_index *index,
                                    MlirValue value) {
  const MlirOperation op = nabla_defining_op(value);
  if (mlirOperationIsNull(op)) return SIZE_MAX;
  return nabla_block_index_find(index, op);
}
