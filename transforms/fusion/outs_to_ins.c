/* nabla-outs-to-ins: an all-parallel linalg.generic that reads its `outs` reads
 * an input instead, and writes an empty tensor. Upstream's elementwise fusion
 * gives the loops of a consumer to such an operation, so that each read of a
 * result would accumulate once more. */
#include <mlir-c/AffineExpr.h>
#include <mlir-c/AffineMap.h>
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <stdlib.h>
#include <string.h>

#include "dialect/verify/checks.h"
#include "transforms/ir/ir.h"
#include "transforms/passes.h"

/* A linalg.generic, taken apart. */
typedef struct generic {
  MlirOperation op;
  MlirBlock body;
  intptr_t inputs, outputs;
  MlirAttribute maps;
} generic;

static MlirAttribute attribute_of(MlirOperation op, const char *name) {
  return mlirOperationGetAttributeByName(op, nabla_ref(name));
}

static generic open_generic(MlirOperation op) {
  MlirAttribute sizes = attribute_of(op, "operandSegmentSizes");
  generic g = {op, mlirRegionGetFirstBlock(mlirOperationGetRegion(op, 0)),
               mlirDenseI32ArrayGetElement(sizes, 0),
               mlirDenseI32ArrayGetElement(sizes, 1),
               attribute_of(op, "indexing_maps")};
  return g;
}

static MlirValue output_element(const generic *g, intptr_t output) {
  return mlirBlockGetArgument(g->body, g->inputs + output);
}

static MlirAffineMap output_map(const generic *g, intptr_t output) {
  return mlirAffineMapAttrGetValue(
      mlirArrayAttrGetElement(g->maps, g->inputs + output));
}

/* The body reads the element of `outs` that it writes. */
static bool reads_output(const generic *g, intptr_t output) {
  return nabla_use_count(output_element(g, output)) > 0;
}

static bool is_all_parallel(MlirOperation op) {
  MlirAttribute types = attribute_of(op, "iterator_types");
  nabla_text text = {0};
  nabla_text_add_attribute(&text, types);
  bool parallel = text.data && !strstr(text.data, "reduction") &&
                  !strstr(text.data, "window");
  nabla_text_deinit(&text);
  return parallel;
}

/* Whether each step of the loops has an element of its own: every loop is an
 * index of the map. */
static bool is_injective(MlirAffineMap map) {
  intptr_t loops = mlirAffineMapGetNumDims(map);
  intptr_t rank = mlirAffineMapGetNumResults(map);
  for (intptr_t loop = 0; loop < loops; loop++) {
    bool found = false;
    for (intptr_t i = 0; i < rank; i++) {
      MlirAffineExpr index = mlirAffineMapGetResult(map, i);
      found = found || (mlirAffineExprIsADim(index) &&
                        mlirAffineDimExprGetPosition(index) == loop);
    }
    if (!found) return false;
  }
  return true;
}

/* Whether the loops write every element: indices are distinct loops, or 0 where
 * there is no other. */
static bool is_onto(MlirAffineMap map, MlirType type) {
  for (intptr_t i = 0; i < mlirAffineMapGetNumResults(map); i++) {
    MlirAffineExpr index = mlirAffineMapGetResult(map, i);
    if (mlirAffineExprIsAConstant(index) &&
        mlirShapedTypeGetDimSize(type, i) == 1)
      continue;
    if (!mlirAffineExprIsADim(index)) return false;
    for (intptr_t j = 0; j < i; j++)
      if (mlirAffineExprEqual(index, mlirAffineMapGetResult(map, j)))
        return false;
  }
  return true;
}

static bool writes_all(const generic *g, intptr_t output) {
  return is_onto(output_map(g, output), nabla_result_type(g->op, output));
}

static bool is_generic_on_tensors(MlirOperation op) {
  if (!nabla_is(op, "linalg.generic")) return false;
  generic g = open_generic(op);
  return mlirOperationGetNumResults(op) == g.outputs;
}

/* An output that is not read counts as written as a whole upstream, and what is
 * read is not accumulated twice only where nothing else is written. */
static bool check(MlirOperation op, void *unused) {
  (void)unused;
  generic g = open_generic(op);
  bool parallel = is_all_parallel(op);
  for (intptr_t i = 0; i < g.outputs; i++) {
    bool reads = reads_output(&g, i);
    if (reads && parallel && !is_injective(output_map(&g, i))) {
      nabla_error_at(op,
                     "reads and writes one element of outs in several steps of "
                     "parallel loops: an iterator that its map does not have "
                     "as an index must be a \"reduction\"");
      return false;
    }
    if (writes_all(&g, i) || (reads && (g.outputs == 1 || !parallel))) continue;
    nabla_error_at(op,
                   "writes a part of outs: make a slice of it "
                   "(tensor.extract_slice) outs, and put the result in its "
                   "place (tensor.insert_slice)");
    return false;
  }
  return true;
}

/* A part that is read alone is left: upstream fuses no such producer. */
static bool is_accumulating(MlirOperation op) {
  if (!is_generic_on_tensors(op)) return false;
  generic g = open_generic(op);
  bool reads = false;
  for (intptr_t i = 0; i < g.outputs; i++)
    reads = reads || (reads_output(&g, i) && writes_all(&g, i));
  return reads && is_all_parallel(op);
}

/* An empty tensor of the shape of `value`, before `op`. */
static MlirValue empty_like(MlirOperation op, MlirValue value) {
  MlirContext context = nabla_op_context(op);
  MlirType type = mlirValueGetType(value), index = mlirIndexTypeGet(context);
  intptr_t rank = mlirShapedTypeGetRank(type), count = 0;
  MlirValue *sizes = calloc((size_t)rank + 1, sizeof *sizes);
  if (!sizes) return value; /* right as well, but copied */
  for (intptr_t i = 0; i < rank; i++) {
    if (!mlirShapedTypeIsDynamicDim(type, i)) continue;
    MlirNamedAttribute number =
        nabla_named(context, "value", mlirIntegerAttrGet(index, i));
    nabla_op_spec at = {"arith.constant", 0, NULL, 1, &index, 1, &number};
    MlirValue of[] = {value,
                      mlirOperationGetResult(nabla_op_create(op, &at), 0)};
    nabla_op_spec dim = {"tensor.dim", 2, of, 1, &index, 0, NULL};
    sizes[count++] = mlirOperationGetResult(nabla_op_create(op, &dim), 0);
  }
  nabla_op_spec empty = {"tensor.empty", count, sizes, 1, &type, 0, NULL};
  MlirValue out = mlirOperationGetResult(nabla_op_create(op, &empty), 0);
  free(sizes);
  return out;
}

/* Operands and maps of the new operation: inputs, the outputs that are read,
 * outputs. */
typedef struct remade {
  intptr_t inputs, count; /* of operands, of which so many are inputs */
  MlirValue *operands;
  MlirAttribute *maps;
} remade;

static void add_operand(remade *r, MlirValue value, MlirAttribute map) {
  r->operands[r->count] = value;
  r->maps[r->count++] = map;
}

static void add_operands(remade *r, const generic *g) {
  for (intptr_t i = 0; i < g->inputs; i++)
    add_operand(r, mlirOperationGetOperand(g->op, i),
                mlirArrayAttrGetElement(g->maps, i));
  for (intptr_t i = 0; i < g->outputs; i++)
    if (reads_output(g, i))
      add_operand(r, mlirOperationGetOperand(g->op, g->inputs + i),
                  mlirArrayAttrGetElement(g->maps, g->inputs + i));
  r->inputs = r->count;
  for (intptr_t i = 0; i < g->outputs; i++) {
    MlirValue value = mlirOperationGetOperand(g->op, g->inputs + i);
    if (reads_output(g, i)) value = empty_like(g->op, value);
    add_operand(r, value, mlirArrayAttrGetElement(g->maps, g->inputs + i));
  }
}

/* In the body: what read an output reads the input that holds its value. */
static void move_reads(generic *g) {
  MlirLocation location = mlirOperationGetLocation(g->op);
  for (intptr_t i = 0; i < g->outputs; i++) {
    MlirValue old = output_element(g, i);
    if (!reads_output(g, i)) continue;
    MlirValue fresh = mlirBlockInsertArgument(g->body, g->inputs++,
                                              mlirValueGetType(old), location);
    mlirValueReplaceAllUsesOfWith(old, fresh);
  }
}

static MlirOperation create(const generic *g, const remade *r) {
  MlirContext context = nabla_op_context(g->op);
  MlirOperationState state =
      mlirOperationStateGet(nabla_name(g->op), mlirOperationGetLocation(g->op));
  mlirOperationStateAddOperands(&state, r->count, r->operands);
  for (intptr_t i = 0; i < g->outputs; i++) {
    MlirType type = nabla_result_type(g->op, i);
    mlirOperationStateAddResults(&state, 1, &type);
  }
  int32_t sizes[] = {(int32_t)r->inputs, (int32_t)g->outputs};
  for (intptr_t i = 0; i < mlirOperationGetNumAttributes(g->op); i++) {
    MlirNamedAttribute named = mlirOperationGetAttribute(g->op, i);
    MlirStringRef name = mlirIdentifierStr(named.name);
    if (mlirStringRefEqual(name, nabla_ref("indexing_maps")))
      named.attribute = mlirArrayAttrGet(context, r->count, r->maps);
    if (mlirStringRefEqual(name, nabla_ref("operandSegmentSizes")))
      named.attribute = mlirDenseI32ArrayGet(context, 2, sizes);
    mlirOperationStateAddAttributes(&state, 1, &named);
  }
  MlirRegion region = mlirRegionCreate();
  mlirRegionTakeBody(region, mlirOperationGetRegion(g->op, 0));
  mlirOperationStateAddOwnedRegions(&state, 1, &region);
  return mlirOperationCreate(&state);
}

static bool replace(generic *g) {
  size_t most = (size_t)(g->inputs + 2 * g->outputs);
  remade r = {0, 0, calloc(most, sizeof *r.operands),
              calloc(most, sizeof *r.maps)};
  MlirValue *results = calloc((size_t)g->outputs, sizeof *results);
  bool good = r.operands && r.maps && results;
  if (good) {
    add_operands(&r, g);
    move_reads(g);
    MlirOperation made = create(g, &r);
    mlirBlockInsertOwnedOperationBefore(mlirOperationGetBlock(g->op), g->op,
                                        made);
    for (intptr_t i = 0; i < g->outputs; i++)
      results[i] = mlirOperationGetResult(made, i);
    nabla_op_replace(g->op, results);
  } else {
    nabla_error_at(g->op, "needs more memory than there is");
  }
  free(r.operands);
  free(r.maps);
  free(results);
  return good;
}

static bool change(MlirOperation op, void *unused) {
  (void)unused;
  generic g = open_generic(op);
  return replace(&g);
}

MlirLogicalResult nabla_run_outs_to_ins(MlirOperation op,
                                        const nablaPassValue *values,
                                        void *prepared) {
  (void)values, (void)prepared;
  bool good = mlirLogicalResultIsSuccess(
      nabla_ops_each(op, is_generic_on_tensors, check, NULL));
  return good ? nabla_ops_each(op, is_accumulating, change, NULL)
              : mlirLogicalResultFailure();
}
