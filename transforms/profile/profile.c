/* nabla-profile: calls of the service `profile` (nabla/services.h) before and
 * after everything that takes time in a function of buffers: calls of kernels,
 * loops, copies. What stands inside of a function around a kernel belongs to
 * its call; all else has no name of its own. */
#include <mlir-c/BuiltinTypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dialect/encoding/encoding.h"
#include "transforms/ir/llvm_ops.h"
#include "transforms/passes.h"
#include "transforms/profile/profile_texts.h"

typedef struct profiling {
  MlirOperation module;
  MlirSymbolTable symbols;
  nabla_profile_texts texts;
} profiling;

/* ---- what is measured ---- */

static MlirWalkResult find_service(MlirOperation op, void *found) {
  if (!nabla_is(op, "func.call")) return MlirWalkResultAdvance;
  const MlirAttribute callee =
      mlirOperationGetAttributeByName(op, nabla_ref("callee"));
  const MlirStringRef name = mlirFlatSymbolRefAttrGetValue(callee);
  if (!nabla_text_is(name, "nabla_parallel") &&
      !nabla_text_is(name, "nabla_custom_call"))
    return MlirWalkResultAdvance;
  *(bool *)found = true;
  return MlirWalkResultInterrupt;
}

/* Whether a function is one around a kernel or a custom call. */
static bool wraps_kernel(MlirOperation function) {
  bool found = false;
  mlirOperationWalk(function, find_service, &found, MlirWalkPreOrder);
  return found;
}

static MlirOperation callee_of(const profiling *p, MlirOperation call) {
  const MlirAttribute callee =
      mlirOperationGetAttributeByName(call, nabla_ref("callee"));
  return mlirSymbolTableLookup(p->symbols,
                               mlirFlatSymbolRefAttrGetValue(callee));
}

static bool is_leaf(const profiling *p, MlirOperation op) {
  if (nabla_text_starts(nabla_name(op), "linalg."))
    return !nabla_is(op, "linalg.yield") && !nabla_is(op, "linalg.index");
  if (nabla_is(op, "memref.copy")) return true;
  if (!nabla_is(op, "func.call")) return false;
  const MlirOperation function = callee_of(p, op);
  return !mlirOperationIsNull(function) && wraps_kernel(function);
}

typedef struct search {
  const profiling *p;
  bool found;
} search;

static MlirWalkResult find_inside(MlirOperation op, void *self) {
  search *s = self;
  s->found |= nabla_is(op, "func.call") || is_leaf(s->p, op);
  return s->found ? MlirWalkResultInterrupt : MlirWalkResultAdvance;
}

/* A loop that calls nothing and has no leaf in it is measured as one. */
static bool is_loop(const profiling *p, MlirOperation op) {
  if (!nabla_is(op, "scf.for") && !nabla_is(op, "scf.while") &&
      !nabla_is(op, "scf.parallel"))
    return false;
  search s = {p, false};
  mlirOperationWalk(op, find_inside, &s, MlirWalkPreOrder);
  return !s.found;
}

/* ---- names ---- */

static bool is_buffer(MlirValue value) {
  return mlirTypeIsAMemRef(mlirValueGetType(value));
}

/* "8x?xf32": the shape of the last buffer, which is the result. */
static void add_shape(nabla_text *text, MlirOperation op) {
  MlirType type = {NULL};
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++)
    if (is_buffer(mlirOperationGetOperand(op, i)))
      type = nabla_operand_type(op, i);
  for (intptr_t i = 0; i < mlirOperationGetNumResults(op); i++)
    if (is_buffer(mlirOperationGetResult(op, i)))
      type = nabla_result_type(op, i);
  if (mlirTypeIsNull(type)) return;
  nabla_text_add(text, " ");
  for (intptr_t i = 0; i < mlirShapedTypeGetRank(type); i++) {
    const int64_t dim = mlirShapedTypeGetDimSize(type, i);
    if (nabla_is_dynamic(dim))
      nabla_text_add(text, "?x");
    else
      nabla_text_add(text, "%lldx", (long long)dim);
  }
  nabla_text_add_type(text, mlirShapedTypeGetElementType(type));
}

/* "kernel NAMES (@FUNCTION) SHAPE" or "loops of NAMES SHAPE". */
static void describe(MlirOperation op, char out[NABLA_PROFILE_TEXT]) {
  char names[NABLA_PROFILE_NAMES] = "";
  nabla_text text = {0};
  nabla_profile_add_names(names, mlirOperationGetLocation(op));
  if (nabla_is(op, "func.call")) {
    const MlirStringRef callee = mlirFlatSymbolRefAttrGetValue(
        mlirOperationGetAttributeByName(op, nabla_ref("callee")));
    nabla_text_add(&text, "kernel %s%s@%.*s", names, *names ? " " : "",
                   (int)callee.length, callee.data);
  } else if (*names) {
    nabla_text_add(&text, "loops of %s", names);
  } else {
    const MlirStringRef name = nabla_name(op);
    nabla_text_add(&text, "loops of %.*s", (int)name.length, name.data);
  }
  add_shape(&text, op);
  snprintf(out, NABLA_PROFILE_TEXT, "%s", text.data ? text.data : "");
  nabla_text_deinit(&text);
}

/* ---- numbers ---- */

static MlirValue constant(MlirOperation before, MlirType type, int64_t value) {
  const MlirContext context = nabla_op_context(before);
  const MlirNamedAttribute named =
      nabla_named(context, "value", mlirIntegerAttrGet(type, value));
  return mlirOperationGetResult(
      nabla_op_create(before, &(nabla_op_spec){.name = "arith.constant",
                                               .result_count = 1,
                                               .results = &type,
                                               .attribute_count = 1,
                                               .attributes = &named}),
      0);
}

static MlirValue binary(MlirOperation before, const char *name, MlirValue a,
                        MlirValue b) {
  const MlirValue operands[] = {a, b};
  const MlirType type = mlirValueGetType(a);
  return mlirOperationGetResult(
      nabla_op_create(before, &(nabla_op_spec){.name = name,
                                               .operand_count = 2,
                                               .operands = operands,
                                               .result_count = 1,
                                               .results = &type}),
      0);
}

static MlirValue dim(MlirOperation before, MlirValue buffer, intptr_t index) {
  const MlirType type = mlirIndexTypeGet(nabla_op_context(before));
  const MlirValue operands[] = {buffer, constant(before, type, index)};
  return mlirOperationGetResult(
      nabla_op_create(before, &(nabla_op_spec){.name = "memref.dim",
                                               .operand_count = 2,
                                               .operands = operands,
                                               .result_count = 1,
                                               .results = &type}),
      0);
}

/* `factor` times the elements of `buffer`, of type index. */
static MlirValue count(MlirOperation before, MlirValue buffer, int64_t factor) {
  const MlirType type = mlirValueGetType(buffer);
  const intptr_t rank = mlirShapedTypeGetRank(type);
  for (intptr_t i = 0; i < rank; i++) {
    const int64_t size = mlirShapedTypeGetDimSize(type, i);
    if (!nabla_is_dynamic(size) &&
        __builtin_mul_overflow(factor, size, &factor))
      factor = INT64_MAX;
  }
  MlirValue result =
      constant(before, mlirIndexTypeGet(nabla_op_context(before)), factor);
  for (intptr_t i = 0; i < rank; i++)
    if (nabla_is_dynamic(mlirShapedTypeGetDimSize(type, i)))
      result = binary(before, "arith.muli", result, dim(before, buffer, i));
  return result;
}

static int64_t bytes_of_element(MlirValue buffer) {
  const MlirType type = mlirShapedTypeGetElementType(mlirValueGetType(buffer));
  if (mlirTypeIsAInteger(type))
    return ((int64_t)mlirIntegerTypeGetWidth(type) + 7) / 8;
  return mlirTypeIsAFloat(type) ? (int64_t)(mlirFloatTypeGetWidth(type) + 7) / 8
                                : 8;
}

/* Bytes of all buffers that `op` reads or writes; results of calls are behind
 * it, so that sums come after it. */
static MlirValue bytes_of(MlirOperation op, MlirOperation before) {
  MlirValue sum = constant(before, mlirIndexTypeGet(nabla_op_context(op)), 0);
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++) {
    const MlirValue value = mlirOperationGetOperand(op, i);
    if (is_buffer(value))
      sum = binary(before, "arith.addi", sum,
                   count(before, value, bytes_of_element(value)));
  }
  for (intptr_t i = 0; i < mlirOperationGetNumResults(op); i++) {
    const MlirValue value = mlirOperationGetResult(op, i);
    if (is_buffer(value))
      sum = binary(before, "arith.addi", sum,
                   count(before, value, bytes_of_element(value)));
  }
  return sum;
}

/* Multiplications and additions of a kernel of a product: its result, each
 * element a contraction over the last dimension of its first operand. */
static MlirValue flops_of(MlirOperation op, MlirOperation before,
                          const char *what) {
  const MlirType index = mlirIndexTypeGet(nabla_op_context(op));
  if (!strstr(what, " @nabla_fused_") || strstr(what, "gather") ||
      mlirOperationGetNumResults(op) != 1 ||
      mlirOperationGetNumOperands(op) < 2 ||
      !is_buffer(mlirOperationGetOperand(op, 0)) ||
      !is_buffer(mlirOperationGetResult(op, 0)))
    return constant(before, index, 0);
  const MlirValue x = mlirOperationGetOperand(op, 0);
  const intptr_t last = mlirShapedTypeGetRank(mlirValueGetType(x)) - 1;
  if (last < 0) return constant(before, index, 0);
  return binary(before, "arith.muli",
                count(before, mlirOperationGetResult(op, 0), 2),
                dim(before, x, last));
}

/* ---- calls ---- */

static MlirValue to_i64(MlirOperation before, MlirValue value) {
  const MlirType type = mlirIntegerTypeGet(nabla_op_context(before), 64);
  return mlirOperationGetResult(
      nabla_op_create(before, &(nabla_op_spec){.name = "arith.index_cast",
                                               .operand_count = 1,
                                               .operands = &value,
                                               .result_count = 1,
                                               .results = &type}),
      0);
}

static void call(MlirOperation before, MlirValue what, MlirValue bytes,
                 MlirValue flops) {
  const MlirContext context = nabla_op_context(before);
  const MlirValue operands[] = {what, to_i64(before, bytes),
                                to_i64(before, flops)};
  const MlirNamedAttribute callee = nabla_named(
      context, "callee",
      mlirFlatSymbolRefAttrGet(context, nabla_ref("nabla_profile")));
  (void)nabla_op_create(before, &(nabla_op_spec){.name = "func.call",
                                                 .operand_count = 3,
                                                 .operands = operands,
                                                 .attribute_count = 1,
                                                 .attributes = &callee});
}

static MlirValue null_address(MlirOperation before) {
  const MlirType type = mlirLLVMPointerTypeGet(nabla_op_context(before), 0);
  return mlirOperationGetResult(
      nabla_op_create(before, &(nabla_op_spec){.name = "llvm.mlir.zero",
                                               .result_count = 1,
                                               .results = &type}),
      0);
}

/* Time begins at a call with a name, and what was done is told at its end. */
static void measure(profiling *p, MlirOperation op) {
  char what[NABLA_PROFILE_TEXT];
  const MlirOperation next = mlirOperationGetNextInBlock(op);
  const MlirType index = mlirIndexTypeGet(nabla_op_context(op));
  describe(op, what);
  const size_t number = nabla_profile_text(&p->texts, what);
  if (p->texts.failed) return;
  const MlirValue zero = constant(op, index, 0);
  call(op, nabla_profile_address(op, number), zero, zero);
  const MlirValue bytes = bytes_of(op, next);
  call(next, null_address(next), bytes, flops_of(op, next, what));
}

static void measure_block(profiling *p, MlirBlock block);

static void measure_inside(profiling *p, MlirOperation op) {
  for (intptr_t i = 0; i < mlirOperationGetNumRegions(op); i++) {
    MlirBlock block = mlirRegionGetFirstBlock(mlirOperationGetRegion(op, i));
    for (; !mlirBlockIsNull(block); block = mlirBlockGetNextInRegion(block))
      measure_block(p, block);
  }
}

static void measure_block(profiling *p, MlirBlock block) {
  MlirOperation op = mlirBlockGetFirstOperation(block), next;
  for (; !mlirOperationIsNull(op) && !p->texts.failed; op = next) {
    next = mlirOperationGetNextInBlock(op);
    if (is_leaf(p, op) || is_loop(p, op))
      measure(p, op);
    else
      measure_inside(p, op);
  }
}

/* ---- the pass ---- */

MlirLogicalResult nabla_run_profile(MlirOperation module,
                                    const nablaPassValue *values,
                                    void *prepared) {
  (void)prepared;
  if (strcmp(values[0].string, "on") != 0) return mlirLogicalResultSuccess();
  profiling p = {.module = module, .symbols = mlirSymbolTableCreate(module)};
  MlirOperation op = mlirBlockGetFirstOperation(
      mlirRegionGetFirstBlock(mlirOperationGetRegion(module, 0)));
  for (; !mlirOperationIsNull(op) && !p.texts.failed;
       op = mlirOperationGetNextInBlock(op))
    if (nabla_is(op, "func.func") && !wraps_kernel(op)) measure_inside(&p, op);
  if (!p.texts.failed) nabla_profile_memory(module, &p.texts);
  const bool good = nabla_profile_add_globals(module, &p.texts);
  if (!good) nabla_error_at(module, "needs more memory than there is");
  mlirSymbolTableDestroy(p.symbols);
  nabla_profile_texts_deinit(&p.texts);
  return good ? mlirLogicalResultSuccess() : mlirLogicalResultFailure();
}
