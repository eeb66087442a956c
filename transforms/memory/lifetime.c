/* See the header. */
#include "transforms/memory/lifetime.h"

#include <mlir-c/BuiltinTypes.h>
#include <mlir-c/Dialect/LLVM.h>

#define ALIASES_MAX 256

typedef struct search {
  const nabla_block_index *index;
  MlirBlock block;
  MlirOperation end; /* terminator of the block                     */
  size_t before_end; /* number of the last operation before it     */
  MlirValue aliases[ALIASES_MAX];
  size_t count;
  size_t last;
  bool failed;
} search;

/* Whether a value of this type may be an address. */
static bool may_alias(MlirType type) {
  return mlirTypeIsAMemRef(type) || mlirTypeIsAUnrankedMemRef(type) ||
         mlirTypeIsALLVMPointerType(type) || mlirTypeIsALLVMStructType(type);
}

static void add(search *s, MlirValue value) {
  if (!may_alias(mlirValueGetType(value))) return;
  for (size_t i = 0; i < s->count; i++)
    if (mlirValueEqual(s->aliases[i], value)) return;
  if (s->count == ALIASES_MAX)
    s->failed = true;
  else
    s->aliases[s->count++] = value;
}

/* The results of an operation, and the arguments of its regions. */
static void add_all_of(search *s, MlirOperation op) {
  for (intptr_t i = 0; i < mlirOperationGetNumResults(op); i++)
    add(s, mlirOperationGetResult(op, i));
  for (intptr_t r = 0; r < mlirOperationGetNumRegions(op); r++) {
    MlirBlock block = mlirRegionGetFirstBlock(mlirOperationGetRegion(op, r));
    for (; !mlirBlockIsNull(block); block = mlirBlockGetNextInRegion(block))
      for (intptr_t i = 0; i < mlirBlockGetNumArguments(block); i++)
        add(s, mlirBlockGetArgument(block, i));
  }
}

static bool is_terminator(MlirOperation op) {
  return mlirOperationIsNull(mlirOperationGetNextInBlock(op));
}

/* Operations after which the address may be anywhere in memory. */
static bool takes_address(MlirOperation user) {
  return nabla_is(user, "memref.extract_aligned_pointer_as_index") ||
         nabla_is(user, "llvm.ptrtoint") || nabla_is(user, "llvm.store");
}

/* The number of the operation of the block that `op` is, or is inside of;
 * SIZE_MAX where it is outside. */
static size_t number_of(const search *s, MlirOperation op) {
  while (!mlirOperationIsNull(op) &&
         !mlirBlockEqual(mlirOperationGetBlock(op), s->block))
    op = mlirOperationGetParentOperation(op);
  return mlirOperationIsNull(op) ? SIZE_MAX
                                 : nabla_block_index_find(s->index, op);
}

static void visit_use(search *s, MlirOperation user) {
  const size_t number = number_of(s, user);
  if (mlirOperationEqual(user, s->end) || number == SIZE_MAX ||
      nabla_is(user, "memref.dealloc") ||
      nabla_is(user, "bufferization.dealloc") ||
      nabla_is(user, "memref.realloc")) {
    s->failed = true;
    return;
  }
  if (number > s->last) s->last = number;
  if (takes_address(user)) s->last = s->before_end;
  add_all_of(s, user);
  if (is_terminator(user)) add_all_of(s, mlirOperationGetParentOperation(user));
}

/* Follows `buffer`, which is used by the operation `first` or later. */
static bool follow(const nabla_block_index *index, MlirBlock block,
                   MlirValue buffer, size_t first, size_t *out_last) {
  search s = {.index = index,
              .block = block,
              .end = mlirBlockGetTerminator(block),
              .last = first};
  /* a terminator has no regions: what comes before it has the number before */
  s.before_end = nabla_block_index_find(index, s.end) - 1;
  add(&s, buffer);
  for (size_t i = 0; i < s.count && !s.failed; i++)
    for (MlirOpOperand use = mlirValueGetFirstUse(s.aliases[i]);
         !mlirOpOperandIsNull(use) && !s.failed;
         use = mlirOpOperandGetNextUse(use))
      visit_use(&s, mlirOpOperandGetOwner(use));
  *out_last = s.last;
  return !s.failed;
}

bool nabla_lifetime_find(const nabla_block_index *index, MlirOperation op,
                         size_t *out_last) {
  return follow(index, mlirOperationGetBlock(op), mlirOperationGetResult(op, 0),
                nabla_block_index_find(index, op), out_last);
}

bool nabla_lifetime_find_last(const nabla_block_index *index, MlirBlock block,
                              MlirValue buffer, size_t *out_last) {
  return follow(index, block, buffer, 0, out_last);
}
