/* See the header. */
#include "transforms/memory/donated_results.h"

#include <mlir-c/AffineMap.h>
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <stdlib.h>

#include "transforms/cluster/call.h"
#include "transforms/ir/functions.h"
#include "transforms/ir/llvm_ops.h"
#include "transforms/ir/values.h"
#include "transforms/memory/lifetime.h"
#include "transforms/state/state.h"

/* A function, and its donated arguments: of the block, or out of its table. */
typedef struct place {
  MlirSymbolTable symbols;
  MlirBlock block;
  nabla_block_index index;
  MlirValue *donated;
  size_t count, room;
  bool failed;
} place;

static MlirAttribute attribute(MlirOperation op, const char *name) {
  return mlirOperationGetAttributeByName(op, nabla_ref(name));
}

static void add(place *p, MlirValue value) {
  if (p->count == p->room) {
    const size_t room = p->room ? 2 * p->room : 16;
    MlirValue *grown = realloc(p->donated, room * sizeof *grown);
    p->failed = p->failed || !grown;
    if (!grown) return;
    p->donated = grown;
    p->room = room;
  }
  p->donated[p->count++] = value;
}

static void collect(place *p, MlirOperation function) {
  for (intptr_t i = 0; i < mlirBlockGetNumArguments(p->block); i++)
    if (nabla_donated_is(function, i))
      add(p, mlirBlockGetArgument(p->block, i));
  for (MlirOperation op = mlirBlockGetFirstOperation(p->block);
       !mlirOperationIsNull(op); op = mlirOperationGetNextInBlock(op))
    if (nabla_is(op, NABLA_CAST) && nabla_op_has(op, NABLA_DONATED))
      add(p, mlirOperationGetResult(op, 0));
}

/* Replaces the allocation of a result by a donated argument, which serves no
 * other result. */
static void take(place *p, MlirOperation alloc, size_t number) {
  mlirValueReplaceAllUsesOfWith(mlirOperationGetResult(alloc, 0),
                                p->donated[number]);
  nabla_op_erase(alloc);
  p->donated[number] = p->donated[--p->count];
}

/* ---- copies of a returned argument ---- */

static MlirValue without_casts(MlirValue value) {
  MlirOperation op = nabla_defining_op(value);
  while (!mlirOperationIsNull(op) && nabla_is(op, "memref.cast")) {
    value = mlirOperationGetOperand(op, 0);
    op = nabla_defining_op(value);
  }
  return value;
}

/* The copy that fills `alloc`, which nothing but the return uses otherwise;
 * null if there is none. */
static MlirOperation copy_to(MlirOperation alloc, MlirOperation end) {
  MlirOperation copy = {NULL};
  MlirValue value = mlirOperationGetResult(alloc, 0);
  for (MlirOpOperand use = mlirValueGetFirstUse(value);
       !mlirOpOperandIsNull(use); use = mlirOpOperandGetNextUse(use)) {
    MlirOperation user = mlirOpOperandGetOwner(use);
    if (mlirOperationEqual(user, end)) continue;
    if (!nabla_is(user, "memref.copy") || !mlirOperationIsNull(copy) ||
        mlirOpOperandGetOperandNumber(use) != 1)
      return (MlirOperation){NULL};
    copy = user;
  }
  return copy;
}

/* Returns a donated argument instead of its copy, where this is the last that
 * happens to it. */
static bool take_copied(place *p, MlirOperation alloc, MlirOperation end) {
  MlirOperation copy = copy_to(alloc, end);
  if (mlirOperationIsNull(copy) ||
      !mlirBlockEqual(mlirOperationGetBlock(copy), p->block))
    return false;
  MlirValue from = without_casts(mlirOperationGetOperand(copy, 0));
  for (size_t i = 0; i < p->count; i++) {
    size_t last = 0;
    if (!mlirValueEqual(p->donated[i], from) ||
        !mlirTypeEqual(mlirValueGetType(from), nabla_result_type(alloc, 0)) ||
        !nabla_lifetime_find_last(&p->index, p->block, from, &last) ||
        last != nabla_block_index_find(&p->index, copy))
      continue;
    nabla_op_erase(copy);
    take(p, alloc, i);
    return true;
  }
  return false;
}

/* ---- elementwise operations ---- */

/* Whether all loops are parallel and operand `number` has the element of each
 * iteration at the same place as the result has it. */
static bool is_plain_operand(MlirOperation generic, intptr_t number) {
  MlirAttribute maps = attribute(generic, "indexing_maps");
  return !mlirAttributeIsNull(maps) &&
         number < mlirArrayAttrGetNumElements(maps) &&
         mlirAffineMapIsIdentity(
             mlirAffineMapAttrGetValue(mlirArrayAttrGetElement(maps, number)));
}

static bool is_parallel(MlirOperation generic) {
  MlirAttribute kinds = attribute(generic, "iterator_types");
  MlirAttribute parallel = mlirAttributeParseGet(
      nabla_op_context(generic), nabla_ref("#linalg.iterator_type<parallel>"));
  if (mlirAttributeIsNull(kinds)) return false;
  for (intptr_t i = 0; i < mlirArrayAttrGetNumElements(kinds); i++)
    if (!mlirAttributeEqual(mlirArrayAttrGetElement(kinds, i), parallel))
      return false;
  return true;
}

/* Whether a call is of a cluster that reads operand `number` in place. */
static bool reads_in_place(const place *p, MlirOperation call,
                           intptr_t number) {
  MlirOperation callee = nabla_call_callee(p->symbols, call);
  MlirAttribute list = mlirOperationIsNull(callee)
                           ? mlirAttributeGetNull()
                           : attribute(callee, NABLA_CLUSTER_IN_PLACE);
  if (mlirAttributeIsNull(list)) return false;
  for (intptr_t i = 0; i < mlirDenseArrayGetNumElements(list); i++)
    if (mlirDenseI64ArrayGetElement(list, i) == number) return true;
  return false;
}

/* Whether something in the regions of `op` takes a buffer. */
static bool has_buffers_inside(MlirOperation op) {
  for (intptr_t r = 0; r < mlirOperationGetNumRegions(op); r++)
    for (MlirBlock block =
             mlirRegionGetFirstBlock(mlirOperationGetRegion(op, r));
         !mlirBlockIsNull(block); block = mlirBlockGetNextInRegion(block))
      for (MlirOperation in = mlirBlockGetFirstOperation(block);
           !mlirOperationIsNull(in); in = mlirOperationGetNextInBlock(in)) {
        if (mlirOperationGetNumRegions(in)) return true;
        for (intptr_t i = 0; i < mlirOperationGetNumOperands(in); i++)
          if (mlirTypeIsAMemRef(nabla_operand_type(in, i))) return true;
      }
  return false;
}

/* Whether `op` reads `buffer`, and each element of it only where it writes a
 * result's at the same place. */
static bool is_elementwise_of(const place *p, MlirOperation op,
                              MlirValue buffer) {
  const bool is_generic = nabla_is(op, "linalg.generic");
  bool reads = false;
  if ((!nabla_is(op, "func.call") && !(is_generic && is_parallel(op))) ||
      has_buffers_inside(op))
    return false;
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++) {
    MlirValue operand = mlirOperationGetOperand(op, i), root;
    if (!mlirTypeIsAMemRef(mlirValueGetType(operand))) continue;
    if (!nabla_buffer_root(operand, &root)) return false;
    if (!mlirValueEqual(root, buffer)) continue;
    if (!mlirValueEqual(operand, buffer) ||
        (is_generic ? !is_plain_operand(op, i) : !reads_in_place(p, op, i)))
      return false;
    reads = true;
  }
  return reads;
}

/* The operation of the block that uses `value` first; null if none does. */
static MlirOperation first_user(const place *p, MlirValue value) {
  size_t first = SIZE_MAX;
  MlirOperation found = {NULL};
  for (MlirOpOperand use = mlirValueGetFirstUse(value);
       !mlirOpOperandIsNull(use); use = mlirOpOperandGetNextUse(use)) {
    MlirOperation user = mlirOpOperandGetOwner(use);
    if (!mlirBlockEqual(mlirOperationGetBlock(user), p->block))
      return (MlirOperation){NULL};
    const size_t number = nabla_block_index_find(&p->index, user);
    if (number >= first) continue;
    first = number;
    found = user;
  }
  return found;
}

/* Whether `op` writes all of its result `buffer`, and each element at its
 * place. */
static bool writes_plainly(MlirOperation op, MlirValue buffer) {
  if (nabla_is(op, "func.call")) return true; /* a cluster writes all of it */
  const intptr_t count = mlirOperationGetNumOperands(op);
  for (intptr_t i = 0; i < count; i++)
    if (mlirValueEqual(mlirOperationGetOperand(op, i), buffer) &&
        !is_plain_operand(op, i))
      return false;
  return true;
}

/* Computes a result of known size in a donated argument of its type, which the
 * operation that writes it first reads, and nothing reads later. */
static void take_read(place *p, MlirOperation alloc) {
  MlirValue value = mlirOperationGetResult(alloc, 0);
  MlirOperation writer = first_user(p, value);
  if (mlirOperationIsNull(writer) || mlirOperationGetNumOperands(alloc) != 0)
    return;
  for (size_t i = 0; i < p->count; i++) {
    size_t last = 0;
    if (!mlirTypeEqual(mlirValueGetType(p->donated[i]),
                       mlirValueGetType(value)) ||
        !is_elementwise_of(p, writer, p->donated[i]) ||
        !writes_plainly(writer, value) ||
        !nabla_lifetime_find_last(&p->index, p->block, p->donated[i], &last) ||
        last != nabla_block_index_find(&p->index, writer))
      continue;
    take(p, alloc, i);
    return;
  }
}

/* ---- stores to states ---- */

/* Whether `op` may write its result to `buffer`, which it may read where it
 * writes: it takes no other name of it, and nothing whose memory is unknown. */
static bool can_write_to(const place *p, MlirOperation op, MlirValue buffer) {
  const bool is_generic = nabla_is(op, "linalg.generic");
  if ((!nabla_is(op, "func.call") && !(is_generic && is_parallel(op))) ||
      has_buffers_inside(op))
    return false;
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++) {
    MlirValue operand = mlirOperationGetOperand(op, i), root;
    if (!mlirTypeIsAMemRef(mlirValueGetType(operand))) continue;
    if (!nabla_buffer_root(operand, &root)) return false;
    if (mlirValueEqual(root, buffer) &&
        (!mlirValueEqual(operand, buffer) ||
         (is_generic ? !is_plain_operand(op, i) : !reads_in_place(p, op, i))))
      return false;
  }
  return true;
}

static bool is_returned(MlirValue value, MlirOperation end) {
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(end); i++)
    if (mlirValueEqual(mlirOperationGetOperand(end, i), value)) return true;
  return false;
}

/* Whether nothing but `copy` uses `to` behind `writer`. */
static bool is_free_behind(const place *p, MlirOperation writer,
                           MlirOperation copy, MlirValue to) {
  size_t last = 0;
  mlirOperationSetOperand(copy, 1, mlirOperationGetOperand(copy, 0));
  const bool found = nabla_lifetime_find_last(&p->index, p->block, to, &last);
  mlirOperationSetOperand(copy, 1, to);
  return found && last <= nabla_block_index_find(&p->index, writer);
}

/* Computes an array that is then copied to an argument where it is copied to,
 * if that is free from there on. */
static void store_directly(const place *p, MlirOperation copy) {
  MlirValue from = mlirOperationGetOperand(copy, 0);
  MlirValue to = mlirOperationGetOperand(copy, 1), root;
  MlirOperation alloc = nabla_defining_op(from);
  if (mlirOperationIsNull(alloc) || !nabla_is(alloc, "memref.alloc") ||
      mlirOperationGetNumOperands(alloc) != 0 ||
      !mlirTypeEqual(mlirValueGetType(from), mlirValueGetType(to)) ||
      !nabla_buffer_root(to, &root) || !mlirValueEqual(root, to) ||
      (!mlirValueIsABlockArgument(to) &&
       !nabla_is(nabla_defining_op(to), NABLA_CAST)) ||
      is_returned(from, mlirBlockGetTerminator(p->block)))
    return;
  MlirOperation writer = first_user(p, from);
  if (mlirOperationIsNull(writer) || mlirOperationEqual(writer, copy) ||
      !can_write_to(p, writer, to) || !writes_plainly(writer, from) ||
      !is_free_behind(p, writer, copy, to))
    return;
  nabla_op_erase(copy);
  mlirValueReplaceAllUsesOfWith(from, to);
  nabla_op_erase(alloc);
}

bool nabla_states_store_directly(MlirSymbolTable symbols,
                                 MlirOperation function) {
  place p = {
      .symbols = symbols,
      .block = mlirRegionGetFirstBlock(mlirOperationGetRegion(function, 0))};
  bool good = nabla_block_index_init_inside(&p.index, function);
  MlirOperation op = mlirBlockGetFirstOperation(p.block), next;
  for (; good && !mlirOperationIsNull(op); op = next) {
    next = mlirOperationGetNextInBlock(op);
    if (nabla_is(op, "memref.copy")) store_directly(&p, op);
  }
  nabla_block_index_deinit(&p.index);
  if (!good) nabla_error_at(function, "nabla-plan-memory: out of memory");
  return good;
}

/* ---- a function ---- */

/* The allocation of the block that the return gives as operand `number`, once;
 * null if it is something else. */
static MlirOperation returned_alloc(const place *p, MlirOperation end,
                                    intptr_t number) {
  MlirValue value = mlirOperationGetOperand(end, number);
  MlirOperation op = nabla_defining_op(value);
  const MlirOperation none = {NULL};
  if (mlirOperationIsNull(op) || !nabla_is(op, "memref.alloc") ||
      !mlirBlockEqual(mlirOperationGetBlock(op), p->block))
    return none;
  for (MlirOpOperand use = mlirValueGetFirstUse(value);
       !mlirOpOperandIsNull(use); use = mlirOpOperandGetNextUse(use)) {
    MlirOperation user = mlirOpOperandGetOwner(use);
    if (nabla_is(user, "memref.dealloc") ||
        (mlirOperationEqual(user, end) &&
         mlirOpOperandGetOperandNumber(use) != number))
      return none;
  }
  return op;
}

static void place_all(place *p) {
  MlirOperation end = mlirBlockGetTerminator(p->block);
  for (intptr_t i = 0; p->count && i < mlirOperationGetNumOperands(end); i++) {
    MlirOperation alloc = returned_alloc(p, end, i);
    if (!mlirOperationIsNull(alloc) && !take_copied(p, alloc, end))
      take_read(p, alloc);
  }
}

bool nabla_donated_results_place(MlirSymbolTable symbols,
                                 MlirOperation function) {
  place p = {
      .symbols = symbols,
      .block = mlirRegionGetFirstBlock(mlirOperationGetRegion(function, 0))};
  collect(&p, function);
  if (p.count && !p.failed) {
    p.failed = !nabla_block_index_init_inside(&p.index, function);
    if (!p.failed) place_all(&p);
    nabla_block_index_deinit(&p.index);
  }
  free(p.donated);
  if (p.failed) nabla_error_at(function, "nabla-place-results: out of memory");
  return !p.failed;
}
