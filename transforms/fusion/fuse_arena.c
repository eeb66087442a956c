/* See fuse_arena.h. */
#include "transforms/fusion/fuse_arena.h"

#include <mlir-c/AffineMap.h>
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "dialect/verify/checks.h"
#include "transforms/fusion/fuse_window.h"

#define ALIGNMENT   64u  /* bytes; of each part */
#define LARGE_BLOCK 1024 /* members of windows, from which on it pays */
#define SIZES_MAX   64   /* distinct sizes whose parts are used again */

/* A result of a member. */
typedef struct part {
  size_t last; /* the last window that uses it; 0: none does      */
  size_t next; /* of those with this last window: number + 1      */
  uint64_t offset, bytes;
  bool placed;
} part;

typedef struct arena {
  nabla_fuse_plan *plan;
  MlirContext context;
  size_t *bases; /* by number: its first result in `parts` */
  part *parts;
  size_t part_count;
  size_t *endings; /* by window: the first part that ends there, + 1 */
  struct {
    uint64_t bytes;
    uint64_t *offsets;
    size_t count, capacity;
  } free[SIZES_MAX];
  size_t free_count;
  uint64_t bytes;          /* of all */
  MlirOperation function;  /* around the block */
  MlirOperation allocated; /* the buffer; its size is set at the end */
  MlirType type;           /* memref<?xi8> */
  unsigned number;         /* of the next function */
  bool failed;
} arena;

static bool is_number(MlirType type) {
  return mlirTypeIsAInteger(type) || mlirTypeIsAFloat(type) ||
         mlirTypeIsAIndex(type);
}

/* The function around `op`; null where there is none. */
static MlirOperation function_around(MlirOperation op) {
  while (!mlirOperationIsNull(op) && !nabla_is(op, "func.func"))
    op = mlirOperationGetParentOperation(op);
  return op;
}

/* Operands and results can be buffers of a function. */
static bool can_be_called(const nabla_elementwise *e) {
  if (!e->is_closed) return false;
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(e->op); i++) {
    const MlirType type = nabla_operand_type(e->op, i);
    if (mlirTypeIsARankedTensor(type) &&
        mlirShapedTypeGetRank(type) > NABLA_MAX_RANK)
      return false;
  }
  for (intptr_t r = 0; r < e->outputs; r++) {
    const MlirType type = nabla_result_type(e->op, r);
    if (!mlirShapedTypeHasStaticShape(type) ||
        !is_number(mlirShapedTypeGetElementType(type)))
      return false;
  }
  return true;
}

bool nabla_fuse_arena_fits(const nabla_fuse_plan *plan) {
  size_t members = 0;
  for (size_t i = 0; i < plan->index.count; i++) {
    if (!plan->windows[i]) continue;
    const nabla_elementwise *e = &plan->elementwise[i];
    if (!can_be_called(e)) return false;
    if (!members++ && mlirOperationIsNull(function_around(e->op))) return false;
  }
  return members > LARGE_BLOCK;
}

/* ---- the places of parts ---- */

static unsigned element_bits(MlirType type) {
  const MlirType element = mlirShapedTypeGetElementType(type);
  if (mlirTypeIsAInteger(element)) return mlirIntegerTypeGetWidth(element);
  return mlirTypeIsAFloat(element) ? mlirFloatTypeGetWidth(element) : 64;
}

/* Bytes of a part, a multiple of the alignment; 0 where it does not fit. */
static uint64_t bytes_of(MlirType type) {
  uint64_t bytes = 1;
  const unsigned bits = element_bits(type);
  while (bytes * 8 < bits) bytes *= 2;
  for (intptr_t i = 0; i < mlirShapedTypeGetRank(type); i++)
    if (__builtin_mul_overflow(
            bytes, (uint64_t)mlirShapedTypeGetDimSize(type, i), &bytes))
      return 0;
  if (bytes > (UINT64_MAX >> 2)) return 0;
  bytes += bytes ? 0 : 1;
  return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static size_t window_at(const arena *a, size_t number) {
  return number == SIZE_MAX ? 0 : a->plan->windows[number];
}

static size_t user_window(const arena *a, MlirOpOperand use) {
  return window_at(
      a, nabla_block_index_find(&a->plan->index, mlirOpOperandGetOwner(use)));
}

/* Until when a part is needed. */
static void find_last(arena *a, size_t number, MlirValue value, part *out) {
  const size_t own = a->plan->windows[number];
  for (MlirOpOperand use = mlirValueGetFirstUse(value);
       !mlirOpOperandIsNull(use); use = mlirOpOperandGetNextUse(use)) {
    size_t window = user_window(a, use);
    if (window == own) continue;
    if (window == 0) window = own;
    if (window > out->last) out->last = window;
  }
  if (!out->last) return;
  out->next = a->endings[out->last];
  a->endings[out->last] = (size_t)(out - a->parts) + 1;
}

/* Takes a part that is free again, or new bytes. */
static void place(arena *a, part *p) {
  p->placed = true;
  for (size_t i = 0; i < a->free_count; i++)
    if (a->free[i].bytes == p->bytes && a->free[i].count > 0) {
      p->offset = a->free[i].offsets[--a->free[i].count];
      return;
    }
  p->offset = a->bytes;
  if (__builtin_add_overflow(a->bytes, p->bytes, &a->bytes) ||
      a->bytes > INT64_MAX)
    a->failed = true;
}

/* A part of a size that is not among the first ones is not used again. */
static void release(arena *a, const part *p) {
  size_t i = 0;
  while (i < a->free_count && a->free[i].bytes != p->bytes) i++;
  if (i == SIZES_MAX) return;
  if (i == a->free_count) a->free[a->free_count++].bytes = p->bytes;
  if (a->free[i].count == a->free[i].capacity) {
    const size_t capacity = a->free[i].capacity ? 2 * a->free[i].capacity : 64;
    uint64_t *offsets = realloc(a->free[i].offsets, capacity * sizeof *offsets);
    if (!offsets) {
      a->failed = true;
      return;
    }
    a->free[i].offsets = offsets;
    a->free[i].capacity = capacity;
  }
  a->free[i].offsets[a->free[i].count++] = p->offset;
}

/* Parts in the order of windows: what ends in one is free for the next. */
static void place_all(arena *a) {
  size_t window = 0;
  for (size_t i = 0; i < a->plan->index.count; i++) {
    if (!a->plan->windows[i]) continue;
    if (a->plan->windows[i] != window && window)
      for (size_t p = a->endings[window]; p; p = a->parts[p - 1].next)
        release(a, &a->parts[p - 1]);
    window = a->plan->windows[i];
    for (intptr_t r = 0; r < a->plan->elementwise[i].outputs; r++) {
      part *p = &a->parts[a->bases[i] + (size_t)r];
      p->bytes = bytes_of(nabla_result_type(a->plan->index.ops[i], r));
      a->failed = a->failed || p->bytes == 0;
      if (p->last) place(a, p);
    }
  }
}

static bool find_parts(arena *a) {
  const nabla_fuse_plan *plan = a->plan;
  a->bases = calloc(plan->index.count + 1, sizeof *a->bases);
  a->endings = calloc(plan->count + 1, sizeof *a->endings);
  for (size_t i = 0; a->bases && i < plan->index.count; i++) {
    a->bases[i] = a->part_count;
    if (plan->windows[i]) a->part_count += (size_t)plan->elementwise[i].outputs;
  }
  a->parts = calloc(a->part_count + 1, sizeof *a->parts);
  if (!a->bases || !a->endings || !a->parts) return false;
  for (size_t i = 0; i < plan->index.count; i++)
    for (intptr_t r = 0; plan->windows[i] && r < plan->elementwise[i].outputs;
         r++)
      find_last(a, i, mlirOperationGetResult(plan->index.ops[i], r),
                &a->parts[a->bases[i] + (size_t)r]);
  place_all(a);
  return !a->failed;
}

/* ---- operations ---- */

static MlirType buffer_type(MlirType tensor) {
  int64_t shape[NABLA_MAX_RANK];
  const intptr_t rank = mlirShapedTypeGetRank(tensor);
  for (intptr_t i = 0; i < rank; i++)
    shape[i] = mlirShapedTypeGetDimSize(tensor, i);
  return mlirMemRefTypeContiguousGet(mlirShapedTypeGetElementType(tensor), rank,
                                     shape, mlirAttributeGetNull());
}

/* An operation before `before`, or at the end of `block` where that is null. */
static MlirOperation make(const arena *a, MlirBlock block, MlirOperation before,
                          const nabla_op_spec *spec) {
  MlirOperationState state = mlirOperationStateGet(
      nabla_ref(spec->name), mlirOperationGetLocation(a->function));
  mlirOperationStateAddOperands(&state, spec->operand_count, spec->operands);
  mlirOperationStateAddResults(&state, spec->result_count, spec->results);
  mlirOperationStateAddAttributes(&state, spec->attribute_count,
                                  spec->attributes);
  const MlirOperation op = mlirOperationCreate(&state);
  if (mlirOperationIsNull(before))
    mlirBlockAppendOwnedOperation(block, op);
  else
    mlirBlockInsertOwnedOperationBefore(block, before, op);
  return op;
}

/* A part of the buffer `whole`, before `before` or at the end. */
static MlirValue view(const arena *a, MlirBlock block, MlirOperation before,
                      MlirValue whole, const part *p, MlirType tensor) {
  MlirType index = mlirIndexTypeGet(a->context);
  MlirNamedAttribute value = nabla_named(
      a->context, "value", mlirIntegerAttrGet(index, (int64_t)p->offset));
  nabla_op_spec constant = {"arith.constant", 0, NULL, 1, &index, 1, &value};
  MlirValue operands[2] = {
      whole, mlirOperationGetResult(make(a, block, before, &constant), 0)};
  MlirType type = buffer_type(tensor);
  nabla_op_spec spec = {"memref.view", 2, operands, 1, &type, 0, NULL};
  return mlirOperationGetResult(make(a, block, before, &spec), 0);
}

/* The part that a value is in, or NULL. */
static const part *part_of(const arena *a, MlirValue value) {
  const size_t number = nabla_block_index_definition(&a->plan->index, value);
  if (!window_at(a, number)) return NULL;
  return &a->parts[a->bases[number] +
                   (size_t)mlirOpResultGetResultNumber(value)];
}

/* What a function is given: the buffer, and what comes from elsewhere. */
typedef struct arguments {
  MlirValue *values;
  MlirType *types;
  intptr_t count;
} arguments;

/* Buffers of tensors, read just before the call. */
static void find_arguments(const arena *a, const nabla_fuse_window *w,
                           MlirOperation before, arguments *out) {
  const MlirBlock block = mlirOperationGetBlock(before);
  MlirNamedAttribute read_only =
      nabla_named(a->context, "read_only", mlirUnitAttrGet(a->context));
  out->values[0] = mlirOperationGetResult(a->allocated, 0);
  out->types[0] = a->type;
  out->count = 1;
  for (size_t i = 0; i < w->input_count; i++) {
    if (part_of(a, w->inputs[i])) continue;
    MlirValue value = w->inputs[i];
    MlirType type = mlirValueGetType(value);
    if (mlirTypeIsARankedTensor(type)) {
      type = buffer_type(type);
      nabla_op_spec spec = {
          "bufferization.to_buffer", 1, &value, 1, &type, 1, &read_only};
      value = mlirOperationGetResult(make(a, block, before, &spec), 0);
    }
    out->types[out->count] = type;
    out->values[out->count++] = value;
  }
}

/* The body of a function: views, and the generic of the window. */
static bool fill(const arena *a, nabla_fuse_window *w, MlirBlock entry) {
  MlirValue *operands =
      calloc(w->input_count + w->output_count + 1, sizeof *operands);
  if (!operands) return false;
  const MlirValue whole = mlirBlockGetArgument(entry, 0);
  const MlirOperation end = {NULL};
  intptr_t argument = 1;
  for (size_t i = 0; i < w->input_count; i++) {
    const part *p = part_of(a, w->inputs[i]);
    operands[i] =
        p ? view(a, entry, end, whole, p, mlirValueGetType(w->inputs[i]))
          : mlirBlockGetArgument(entry, argument++);
  }
  for (size_t i = 0; i < w->output_count; i++)
    operands[w->input_count + i] =
        view(a, entry, end, whole, part_of(a, w->old[i]), w->types[i]);
  mlirBlockAppendOwnedOperation(entry,
                                nabla_fuse_window_create(w, operands, false));
  nabla_op_spec done = {"func.return", 0, NULL, 0, NULL, 0, NULL};
  make(a, entry, end, &done);
  free(operands);
  return true;
}

/* A private function, which LLVM does not inline: it would be one again. */
static MlirBlock declare(arena *a, const arguments *given, char *name,
                         size_t size) {
  do (void)snprintf(name, size, "fused_%u", a->number++);
  while (nabla_module_has(a->function, name));
  const MlirLocation location = mlirOperationGetLocation(a->function);
  MlirBlock entry = mlirBlockCreate(0, NULL, NULL);
  for (intptr_t i = 0; i < given->count; i++)
    mlirBlockAddArgument(entry, given->types[i], location);
  MlirRegion region = mlirRegionCreate();
  mlirRegionAppendOwnedBlock(region, entry);
  MlirAttribute inlining = mlirStringAttrGet(a->context, nabla_ref("noinline"));
  MlirNamedAttribute attributes[4] = {
      nabla_named(a->context, "sym_name",
                  mlirStringAttrGet(a->context, nabla_ref(name))),
      nabla_named(a->context, "function_type",
                  mlirTypeAttrGet(mlirFunctionTypeGet(a->context, given->count,
                                                      given->types, 0, NULL))),
      nabla_named(a->context, "sym_visibility",
                  mlirStringAttrGet(a->context, nabla_ref("private"))),
      nabla_named(a->context, "passthrough",
                  mlirArrayAttrGet(a->context, 1, &inlining))};
  MlirOperationState state =
      mlirOperationStateGet(nabla_ref("func.func"), location);
  mlirOperationStateAddAttributes(&state, 4, attributes);
  mlirOperationStateAddOwnedRegions(&state, 1, &region);
  mlirBlockInsertOwnedOperationBefore(mlirOperationGetBlock(a->function),
                                      a->function, mlirOperationCreate(&state));
  return entry;
}

/* What others than windows use becomes a tensor of its own. */
static void give_out(const arena *a, const nabla_fuse_window *w,
                     MlirOperation before) {
  const MlirBlock block = mlirOperationGetBlock(before);
  const int32_t sizes[3] = {0, 1, 0};
  MlirNamedAttribute restricted =
      nabla_named(a->context, "restrict", mlirUnitAttrGet(a->context));
  MlirNamedAttribute segments =
      nabla_named(a->context, "operandSegmentSizes",
                  mlirDenseI32ArrayGet(a->context, 3, sizes));
  for (size_t i = 0; i < w->output_count; i++) {
    MlirValue copy = {NULL};
    MlirOpOperand next;
    for (MlirOpOperand use = mlirValueGetFirstUse(w->old[i]);
         !mlirOpOperandIsNull(use); use = next) {
      next = mlirOpOperandGetNextUse(use);
      if (user_window(a, use)) continue;
      if (mlirValueIsNull(copy)) {
        MlirValue buffer =
            view(a, block, before, mlirOperationGetResult(a->allocated, 0),
                 part_of(a, w->old[i]), w->types[i]);
        nabla_op_spec read = {"bufferization.to_tensor",
                              1,
                              &buffer,
                              1,
                              &w->types[i],
                              1,
                              &restricted};
        MlirValue tensor =
            mlirOperationGetResult(make(a, block, before, &read), 0);
        nabla_op_spec own = {"bufferization.alloc_tensor",
                             1,
                             &tensor,
                             1,
                             &w->types[i],
                             1,
                             &segments};
        copy = mlirOperationGetResult(make(a, block, before, &own), 0);
      }
      mlirOperationSetOperand(mlirOpOperandGetOwner(use),
                              mlirOpOperandGetOperandNumber(use), copy);
    }
  }
}

static bool call_window(arena *a, nabla_fuse_window *w, MlirOperation last) {
  char name[32];
  arguments given = {calloc(w->input_count + 1, sizeof *given.values),
                     calloc(w->input_count + 1, sizeof *given.types), 0};
  bool good = given.values && given.types;
  if (good) {
    find_arguments(a, w, last, &given);
    good = fill(a, w, declare(a, &given, name, sizeof name));
  }
  if (good) {
    MlirNamedAttribute callee =
        nabla_named(a->context, "callee",
                    mlirFlatSymbolRefAttrGet(a->context, nabla_ref(name)));
    nabla_op_spec spec = {"func.call", given.count, given.values, 0,
                          NULL,        1,           &callee};
    make(a, mlirOperationGetBlock(last), last, &spec);
    give_out(a, w, last);
  }
  free(given.values);
  free(given.types);
  return good;
}

/* The buffer, before all else of the block. */
static void allocate(arena *a, MlirBlock block) {
  int64_t bytes = (int64_t)(a->bytes ? a->bytes : 1);
  const int32_t sizes[2] = {0, 0};
  a->type = mlirMemRefTypeContiguousGet(mlirIntegerTypeGet(a->context, 8), 1,
                                        &bytes, mlirAttributeGetNull());
  MlirNamedAttribute attributes[2] = {
      nabla_named(
          a->context, "alignment",
          mlirIntegerAttrGet(mlirIntegerTypeGet(a->context, 64), ALIGNMENT)),
      nabla_named(a->context, "operandSegmentSizes",
                  mlirDenseI32ArrayGet(a->context, 2, sizes))};
  nabla_op_spec spec = {"memref.alloc", 0, NULL, 1, &a->type, 2, attributes};
  a->allocated = make(a, block, mlirBlockGetFirstOperation(block), &spec);
}

static bool call_windows(arena *a) {
  size_t members[NABLA_FUSED_OPS_MAX], count = 0, window = 0;
  const nabla_fuse_plan *plan = a->plan;
  bool good = true;
  for (size_t i = 0; good && i <= plan->index.count; i++) {
    const size_t now = i < plan->index.count ? plan->windows[i] : SIZE_MAX;
    if (now == 0) continue;
    if (now != window && count > 0) {
      nabla_fuse_window w;
      good = nabla_fuse_window_init(&w, plan, members, count) &&
             call_window(a, &w, plan->index.ops[members[count - 1]]);
      nabla_fuse_window_deinit(&w);
      count = 0;
    }
    window = now;
    if (now != SIZE_MAX) members[count++] = i;
  }
  return good;
}

bool nabla_fuse_arena(nabla_fuse_plan *plan) {
  size_t first = 0;
  while (!plan->windows[first]) first++;
  const MlirOperation op = plan->index.ops[first];
  arena a = {.plan = plan,
             .context = nabla_op_context(op),
             .function = function_around(op)};
  bool good = find_parts(&a);
  if (good) {
    allocate(&a, mlirOperationGetBlock(op));
    good = call_windows(&a);
  }
  for (size_t i = plan->index.count; good && i-- > 0;)
    if (plan->windows[i]) nabla_op_erase(plan->index.ops[i]);
  for (size_t i = 0; i < a.free_count; i++) free(a.free[i].offsets);
  free(a.bases);
  free(a.parts);
  free(a.endings);
  return good;
}
