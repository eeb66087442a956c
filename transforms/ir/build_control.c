/* See build_control.h. */
#include "transforms/ir/build_control.h"

#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>

#include "dialect/control.h"

static const MlirOperation nothing = {NULL};

MlirValue nabla_build_result(MlirOperation op, intptr_t index) {
  return mlirOperationIsNull(op) ? (MlirValue){NULL}
                                 : mlirOperationGetResult(op, index);
}

/* A region that is not in an op yet. */
typedef struct written {
  MlirRegion region;
  intptr_t count;
  MlirType types[NABLA_BUILD_MAX_CARRIES]; /* types of the values that it yields
                                            */
} written;

static bool any_null(intptr_t count, const MlirValue *values) {
  for (intptr_t i = 0; i < count; i++)
    if (mlirValueIsNull(values[i])) return true;
  return false;
}

/* Makes a region with one block, whose terminator is `end`. Returns false, with
 * nothing left, on failure. A temporary terminator holds the place until the
 * operands of `end` are known. */
static bool write_region(const nabla_builder *b, const nabla_built_region *how,
                         const char *end, intptr_t arguments,
                         const MlirType *types, written *out) {
  MlirLocation location = mlirOperationGetLocation(b->before);
  MlirLocation locations[2 * NABLA_BUILD_MAX_CARRIES];
  MlirValue values[2 * NABLA_BUILD_MAX_CARRIES];
  MlirValue results[NABLA_BUILD_MAX_CARRIES] = {{NULL}};
  for (intptr_t i = 0; i < arguments; i++) locations[i] = location;
  MlirBlock block = mlirBlockCreate(arguments, types, locations);
  out->region = mlirRegionCreate();
  mlirRegionAppendOwnedBlock(out->region, block);
  MlirOperationState state =
      mlirOperationStateGet(nabla_ref("nabla.yield"), location);
  MlirOperation last = mlirOperationCreate(&state);
  mlirBlockAppendOwnedOperation(block, last);
  for (intptr_t i = 0; i < arguments; i++)
    values[i] = mlirBlockGetArgument(block, i);
  nabla_builder inside = {last};
  how->write(&inside, values, results, how->data);
  out->count = how->count;
  bool good = !any_null(how->count, results);
  for (intptr_t i = 0; good && i < how->count; i++)
    out->types[i] = mlirValueGetType(results[i]);
  nabla_op_spec spec = {end, how->count, results, 0, NULL, 0, NULL};
  good = good && !mlirOperationIsNull(nabla_op_create(last, &spec));
  mlirOperationDestroy(last);
  if (!good) mlirRegionDestroy(out->region);
  return good;
}

typedef struct control {
  const char *name;
  intptr_t operands, results, regions, attributes;
  const MlirValue *operand_list;
  const MlirType *result_list;
  const written *region_list;
  const MlirNamedAttribute *attribute_list;
} control;

static MlirOperation make(const nabla_builder *b, const control *c) {
  MlirRegion regions[NABLA_BUILD_MAX_BRANCHES];
  MlirOperationState state = mlirOperationStateGet(
      nabla_ref(c->name), mlirOperationGetLocation(b->before));
  for (intptr_t i = 0; i < c->regions; i++)
    regions[i] = c->region_list[i].region;
  mlirOperationStateAddOperands(&state, c->operands, c->operand_list);
  mlirOperationStateAddResults(&state, c->results, c->result_list);
  mlirOperationStateAddOwnedRegions(&state, c->regions, regions);
  mlirOperationStateAddAttributes(&state, c->attributes, c->attribute_list);
  MlirOperation op = mlirOperationCreate(&state);
  if (!mlirOperationIsNull(op))
    mlirBlockInsertOwnedOperationBefore(mlirOperationGetBlock(b->before),
                                        b->before, op);
  return op;
}

static MlirOperation refuse(const nabla_builder *b, const char *why) {
  nabla_error_at(b->before, "%s", why);
  return nothing;
}

static bool fits(intptr_t count) {
  return count >= 0 && count <= NABLA_BUILD_MAX_CARRIES;
}

MlirOperation nabla_build_cond(const nabla_builder *b, MlirValue selector,
                               intptr_t count,
                               const nabla_built_region *branches) {
  written regions[NABLA_BUILD_MAX_BRANCHES];
  if (mlirValueIsNull(selector)) return nothing;
  if (count < 1 || count > NABLA_BUILD_MAX_BRANCHES || !fits(branches[0].count))
    return refuse(b,
                  "a cond that is built has 1 to 32 regions and at most 64 "
                  "results");
  for (intptr_t i = 1; i < count; i++)
    if (branches[i].count != branches[0].count)
      return refuse(b, "regions of a cond that is built yield as many values");
  for (intptr_t i = 0; i < count; i++) {
    if (write_region(b, &branches[i], "nabla.yield", 0, NULL, &regions[i]))
      continue;
    while (i-- > 0) mlirRegionDestroy(regions[i].region);
    return nothing;
  }
  control c = {.name = "nabla.cond",
               .operands = 1,
               .operand_list = &selector,
               .results = branches[0].count,
               .result_list = regions[0].types,
               .regions = count,
               .region_list = regions};
  return make(b, &c);
}

MlirOperation nabla_build_while(const nabla_builder *b, intptr_t count,
                                const MlirValue *initial,
                                const nabla_built_region *condition,
                                const nabla_built_region *body) {
  MlirType types[NABLA_BUILD_MAX_CARRIES];
  written regions[2];
  if (!fits(count) || !fits(condition->count) ||
      condition->count != count + 1 || body->count != count)
    return refuse(b,
                  "a while that is built has at most 63 carries, which its "
                  "regions hand on");
  if (any_null(count, initial)) return nothing;
  for (intptr_t i = 0; i < count; i++) types[i] = mlirValueGetType(initial[i]);
  if (!write_region(b, condition, "nabla.condition", count, types, &regions[0]))
    return nothing;
  if (!write_region(b, body, "nabla.yield", count, types, &regions[1])) {
    mlirRegionDestroy(regions[0].region);
    return nothing;
  }
  control c = {.name = "nabla.while",
               .operands = count,
               .operand_list = initial,
               .results = count,
               .result_list = types,
               .regions = 2,
               .region_list = regions};
  return make(b, &c);
}

MlirOperation nabla_build_remat(const nabla_builder *b,
                                const nabla_built_region *body) {
  written region;
  if (!fits(body->count))
    return refuse(b, "a remat that is built has at most 64 results");
  if (!write_region(b, body, "nabla.yield", 0, NULL, &region)) return nothing;
  control c = {.name = "nabla.remat",
               .results = body->count,
               .result_list = region.types,
               .regions = 1,
               .region_list = &region};
  return make(b, &c);
}

bool nabla_remat_open(MlirOperation op) {
  MlirBlock block = nabla_region_block(op, 0);
  MlirOperation end = nabla_block_end(block), next;
  for (MlirOperation at = mlirBlockGetFirstOperation(block);
       !mlirOperationEqual(at, end); at = next) {
    next = mlirOperationGetNextInBlock(at);
    mlirOperationMoveBefore(at, op);
  }
  for (intptr_t i = 0; i < mlirOperationGetNumResults(op); i++)
    mlirValueReplaceAllUsesOfWith(mlirOperationGetResult(op, i),
                                  mlirOperationGetOperand(end, i));
  nabla_op_erase(op);
  return true;
}

/* ---- scan ---- */

/* Returns the type of an array without its first dimension; null after an error
 * if it has none. */
static MlirType slice_of(const nabla_builder *b, MlirType whole) {
  int64_t dims[NABLA_MAX_RANK];
  MlirType slice = {NULL};
  intptr_t rank = nabla_array_rank(whole);
  if (rank < 1) {
    nabla_error_at(b->before,
                   "a scan takes slices of arrays, of rank 1 or more");
    return slice;
  }
  nabla_slices found;
  if (nablaTypeIsAImplicit(whole)) slice = nabla_slice_type(whole);
  if (!mlirTypeIsNull(slice) && nabla_slices_find(whole, slice, &found))
    return slice;
  for (intptr_t i = 1; i < rank; i++) dims[i - 1] = nabla_array_dim(whole, i);
  return mlirRankedTensorTypeGet(rank - 1, dims, nabla_array_element(whole),
                                 mlirAttributeGetNull());
}

/* Returns the type of `length` slices, stacked. */
/* The implicit type whose slices have the type `slice`; null where there is
 * none. */
static MlirType stacked_implicit(const nabla_builder *b, MlirType slice,
                                 int64_t length) {
  int64_t dims[NABLA_MAX_RANK] = {length};
  const nablaImplicit part = nablaImplicitTypeParts(slice);
  const MlirType none = {NULL};
  char message[NABLA_MESSAGE_SIZE];
  nabla_slices found;
  if (part.rank >= NABLA_MAX_RANK || nabla_is_dynamic(length)) return none;
  for (intptr_t i = 0; i < part.rank; i++) dims[i + 1] = part.shape[i];
  const nablaImplicitType stored = {
      part.rank + 1, 0, dims, NULL, part.elementType, part.encoding};
  if (!nablaHookImplicitVerify(&stored, message)) return none;
  const MlirType whole =
      nablaHookImplicitCanonical(nabla_op_context(b->before), &stored);
  return nabla_slices_find(whole, slice, &found) && !found.any_shared ? whole
                                                                      : none;
}

static MlirType stacked_of(const nabla_builder *b, MlirType slice,
                           int64_t length) {
  int64_t dims[NABLA_MAX_RANK] = {length};
  if (nablaTypeIsAImplicit(slice)) {
    const MlirType whole = stacked_implicit(b, slice, length);
    if (mlirTypeIsNull(whole))
      nabla_error_at(b->before,
                     "a scan stacks implicit arrays of whole blocks, of a "
                     "known number: materialize the output of the body");
    return whole;
  }
  if (!mlirTypeIsARankedTensor(slice) ||
      mlirShapedTypeGetRank(slice) >= NABLA_MAX_RANK) {
    nabla_error_at(b->before,
                   "a scan that is built stacks tensors of rank %d "
                   "or less",
                   NABLA_MAX_RANK - 1);
    return (MlirType){NULL};
  }
  intptr_t rank = mlirShapedTypeGetRank(slice);
  for (intptr_t i = 0; i < rank; i++)
    dims[i + 1] = mlirShapedTypeGetDimSize(slice, i);
  return mlirRankedTensorTypeGet(rank + 1, dims,
                                 mlirShapedTypeGetElementType(slice),
                                 mlirAttributeGetNull());
}

/* Returns the number of slices, if it is known. */
static int64_t length_of(const nabla_built_scan *scan) {
  for (intptr_t i = 0; i < scan->input_count; i++) {
    int64_t size = nabla_array_dim(mlirValueGetType(scan->inputs[i]), 0);
    if (!nabla_is_dynamic(size)) return size;
  }
  if (!mlirValueIsNull(scan->length)) {
    MlirOperation op = nabla_defining_op(scan->length);
    if (nabla_is(op, "arith.constant"))
      return mlirIntegerAttrGetValueInt(
          mlirOperationGetAttributeByName(op, nabla_ref("value")));
  }
  return mlirShapedTypeGetDynamicSize();
}

static intptr_t append(MlirValue *list, intptr_t at, intptr_t count,
                       const MlirValue *values) {
  for (intptr_t i = 0; i < count; i++) list[at++] = values[i];
  return at;
}

static MlirOperation make_scan(const nabla_builder *b,
                               const nabla_built_scan *scan,
                               const written *body, const MlirType *results) {
  MlirValue operands[4 * NABLA_BUILD_MAX_CARRIES];
  MlirContext context = nabla_op_context(b->before);
  intptr_t lengths = mlirValueIsNull(scan->length) ? 0 : 1;
  int32_t groups[4] = {(int32_t)scan->carry_count, (int32_t)scan->input_count,
                       (int32_t)lengths, (int32_t)scan->size_count};
  MlirNamedAttribute list[2] = {
      nabla_named(context, "operandSegmentSizes",
                  mlirDenseI32ArrayGet(context, 4, groups)),
      nabla_named(context, "reverse", mlirUnitAttrGet(context))};
  intptr_t count = append(operands, 0, scan->carry_count, scan->carries);
  count = append(operands, count, scan->input_count, scan->inputs);
  count = append(operands, count, lengths, &scan->length);
  count = append(operands, count, scan->size_count, scan->sizes);
  control c = {.name = "nabla.scan",
               .operands = count,
               .operand_list = operands,
               .results = body->count,
               .result_list = results,
               .regions = 1,
               .region_list = body,
               .attributes = scan->reverse ? 2 : 1,
               .attribute_list = list};
  return make(b, &c);
}

MlirOperation nabla_build_scan(const nabla_builder *b,
                               const nabla_built_scan *scan,
                               const nabla_built_region *body) {
  MlirType types[2 * NABLA_BUILD_MAX_CARRIES];
  MlirType results[NABLA_BUILD_MAX_CARRIES];
  written region;
  intptr_t carries = scan->carry_count;
  if (!fits(carries) || !fits(scan->input_count) || !fits(scan->size_count) ||
      !fits(body->count) || body->count < carries)
    return refuse(b,
                  "a scan that is built has at most 64 carries, inputs, "
                  "sizes and results, and yields its carries");
  if (any_null(carries, scan->carries) ||
      any_null(scan->input_count, scan->inputs) ||
      any_null(scan->size_count, scan->sizes))
    return nothing;
  for (intptr_t i = 0; i < carries; i++)
    results[i] = types[i] = mlirValueGetType(scan->carries[i]);
  for (intptr_t i = 0; i < scan->input_count; i++) {
    types[carries + i] = slice_of(b, mlirValueGetType(scan->inputs[i]));
    if (mlirTypeIsNull(types[carries + i])) return nothing;
  }
  if (!write_region(b, body, "nabla.yield", carries + scan->input_count, types,
                    &region))
    return nothing;
  for (intptr_t i = carries; i < body->count; i++) {
    results[i] = stacked_of(b, region.types[i], length_of(scan));
    if (!mlirTypeIsNull(results[i])) continue;
    mlirRegionDestroy(region.region);
    return nothing;
  }
  return make_scan(b, scan, &region, results);
}
