/* The graph of a walk as a program; see emit.h. */
#include "lib/array/emit.h"

#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <string.h>

#include "transforms/ir/ir.h"

/* What a program is written from, and to. */
typedef struct emission {
  const nabla_walk *walk;
  MlirContext context;
  MlirBlock block;       /* of @main: its arguments are the leaves */
  MlirOperation *copies; /* of the nodes' operations               */
} emission;

static MlirValue value_of(const emission *e, const nabla_array *array) {
  if (array->node)
    return mlirOperationGetResult(e->copies[array->node->number],
                                  (intptr_t)array->index);
  return mlirBlockGetArgument(e->block,
                              (intptr_t)nabla_walk_leaf(e->walk, array));
}

static void add_nodes(const emission *e) {
  for (size_t i = 0; i < e->walk->node_count; i++) {
    const nabla_node *node = e->walk->nodes[i];
    const MlirOperation copy = mlirOperationClone(node->recorded->op);
    for (uint32_t k = 0; k < node->operand_count; k++)
      mlirOperationSetOperand(copy, (intptr_t)k,
                              value_of(e, node->operands[k]));
    mlirBlockAppendOwnedOperation(e->block, copy);
    e->copies[i] = copy;
  }
}

/* Appends func.return; writes the types of the results. */
static void add_return(const emission *e, MlirType *types) {
  MlirOperationState state = mlirOperationStateGet(
      nabla_ref("func.return"), mlirLocationUnknownGet(e->context));
  for (size_t i = 0; i < e->walk->result_count; i++) {
    const MlirValue value = value_of(e, e->walk->results[i]);
    types[i] = mlirValueGetType(value);
    mlirOperationStateAddOperands(&state, 1, &value);
  }
  mlirBlockAppendOwnedOperation(e->block, mlirOperationCreate(&state));
}

/* Makes @main. `types` has space for leaves, then results. */
static MlirOperation make_main(emission *e, MlirType *types) {
  const nabla_walk *walk = e->walk;
  const MlirLocation location = mlirLocationUnknownGet(e->context);
  MlirRegion region = mlirRegionCreate();
  e->block = mlirBlockCreate(0, NULL, NULL);
  for (size_t i = 0; i < walk->leaf_count; i++) {
    types[i] = nabla_recorder_type(e->context, &walk->leaves[i]->dense);
    mlirBlockAddArgument(e->block, types[i], location);
  }
  add_nodes(e);
  add_return(e, types + walk->leaf_count);
  mlirRegionAppendOwnedBlock(region, e->block);
  const MlirType type = mlirFunctionTypeGet(
      e->context, (intptr_t)walk->leaf_count, types,
      (intptr_t)walk->result_count, types + walk->leaf_count);
  const MlirNamedAttribute attributes[2] = {
      nabla_named(e->context, "sym_name",
                  mlirStringAttrGet(e->context, nabla_ref("main"))),
      nabla_named(e->context, "function_type", mlirTypeAttrGet(type))};
  MlirOperationState state =
      mlirOperationStateGet(nabla_ref("func.func"), location);
  mlirOperationStateAddAttributes(&state, 2, attributes);
  mlirOperationStateAddOwnedRegions(&state, 1, &region);
  return mlirOperationCreate(&state);
}

/* A buffer that is written to, and whether it could be. */
typedef struct output {
  nabla_buffer *bytecode;
  nabla_status status;
  nabla_diag *diag;
} output;

static void write_chunk(MlirStringRef chunk, void *self) {
  output *o = self;
  if (!o->status && chunk.length)
    o->status =
        nabla_buffer_append(o->bytecode, chunk.data, chunk.length, o->diag);
}

nabla_status nabla_walk_emit(void *self, nabla_buffer *bytecode,
                             nabla_diag *diag) {
  const nabla_walk *walk = self;
  emission e = {.walk = walk,
                .context = nabla_recorder_context(walk->scope->recorder)};
  void *copies, *types;
  const size_t type_count = walk->leaf_count + walk->result_count;
  NABLA_TRY(nabla_alloc(walk->allocator, walk->node_count,
                        sizeof(MlirOperation), &copies, diag));
  e.copies = copies;
  nabla_status status =
      nabla_alloc(walk->allocator, type_count, sizeof(MlirType), &types, diag);
  if (!status) {
    const MlirModule module =
        mlirModuleCreateEmpty(mlirLocationUnknownGet(e.context));
    mlirBlockAppendOwnedOperation(mlirModuleGetBody(module),
                                  make_main(&e, types));
    output to = {bytecode, NABLA_OK, diag};
    if (!mlirOperationVerify(mlirModuleGetOperation(module)))
      status = nabla_fail(diag, NABLA_CORRUPT, "the graph does not verify");
    else
      mlirOperationWriteBytecode(mlirModuleGetOperation(module), write_chunk,
                                 &to);
    if (!status) status = to.status;
    mlirModuleDestroy(module);
    nabla_free(walk->allocator, types, type_count, sizeof(MlirType));
  }
  nabla_free(walk->allocator, e.copies, walk->node_count,
             sizeof(MlirOperation));
  return status;
}
