/* The graph of a walk as operations of MLIR; see emit.h. */
#include "lib/array/emit.h"

#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <string.h>

#include "lib/array/emit_mesh.h"
#include "transforms/autodiff/calls.h"
#include "transforms/ir/ir.h"

/* ---- operations ---- */

nabla_status nabla_graph_emitter_init(nabla_graph_emitter *emitter,
                                      const nabla_walk *walk,
                                      nabla_diag *diag) {
  void *copies, *leaves;
  *emitter = (nabla_graph_emitter){
      .walk = walk, .context = nabla_recorder_context(walk->recorder)};
  NABLA_TRY(nabla_alloc(walk->allocator, walk->node_count,
                        sizeof(MlirOperation), &copies, diag));
  emitter->copies = copies;
  const nabla_status status = nabla_alloc(walk->allocator, walk->leaf_count,
                                          sizeof(MlirValue), &leaves, diag);
  if (status)
    nabla_graph_emitter_deinit(emitter);
  else
    emitter->leaves = leaves;
  return status;
}

void nabla_graph_emitter_deinit(nabla_graph_emitter *emitter) {
  const nabla_walk *walk = emitter->walk;
  nabla_free(walk->allocator, emitter->copies, walk->node_count,
             sizeof(MlirOperation));
  nabla_free(walk->allocator, emitter->leaves, walk->leaf_count,
             sizeof(MlirValue));
}

MlirValue nabla_graph_emitter_value(const nabla_graph_emitter *emitter,
                                    const nabla_array *array) {
  if (nabla_walk_has(emitter->walk, array))
    return mlirOperationGetResult(emitter->copies[array->node->number],
                                  (intptr_t)array->index);
  return emitter->leaves[nabla_walk_leaf(emitter->walk, array)];
}

/* Puts operands in the place of the operations that stand for them at the
 * beginning of the regions of `copy`. */
static void replace_captures(const nabla_graph_emitter *emitter,
                             const nabla_node *node, MlirOperation copy) {
  const intptr_t regions = mlirOperationGetNumRegions(copy);
  for (intptr_t i = 0; i < regions; i++) {
    const MlirBlock block =
        mlirRegionGetFirstBlock(mlirOperationGetRegion(copy, i));
    if (mlirBlockIsNull(block)) continue;
    MlirOperation op = mlirBlockGetFirstOperation(block);
    while (!mlirOperationIsNull(op)) {
      const MlirAttribute number =
          mlirOperationGetAttributeByName(op, nabla_ref(NABLA_CAPTURE));
      if (mlirAttributeIsNull(number)) break;
      const MlirOperation next = mlirOperationGetNextInBlock(op);
      const nabla_array *operand =
          node->operands[mlirIntegerAttrGetValueInt(number)];
      mlirValueReplaceAllUsesOfWith(
          mlirOperationGetResult(op, 0),
          nabla_graph_emitter_value(emitter, operand));
      mlirOperationDestroy(op);
      op = next;
    }
  }
}

void nabla_graph_emitter_add(nabla_graph_emitter *emitter, MlirBlock block,
                             MlirOperation before) {
  for (size_t i = 0; i < emitter->walk->node_count; i++) {
    const nabla_node *node = emitter->walk->nodes[i];
    const nabla_recorded *recorded = node->recorded;
    const MlirOperation copy = mlirOperationClone(recorded->op);
    for (uint32_t k = 0; k < recorded->direct_count; k++)
      mlirOperationSetOperand(
          copy, (intptr_t)k,
          nabla_graph_emitter_value(emitter, node->operands[k]));
    mlirBlockInsertOwnedOperationBefore(block, before, copy);
    if (recorded->direct_count < recorded->operand_count)
      replace_captures(emitter, node, copy);
    emitter->copies[i] = copy;
  }
}

/* ---- functions ---- */

/* Appends func.return; writes the types of the results. */
static void add_return(const nabla_graph_emitter *e, MlirBlock block,
                       MlirType *types) {
  MlirOperationState state = mlirOperationStateGet(
      nabla_ref("func.return"), mlirLocationUnknownGet(e->context));
  for (size_t i = 0; i < e->walk->result_count; i++) {
    const MlirValue value = nabla_graph_emitter_value(e, e->walk->results[i]);
    types[i] = mlirValueGetType(value);
    mlirOperationStateAddOperands(&state, 1, &value);
  }
  mlirBlockAppendOwnedOperation(block, mlirOperationCreate(&state));
}

/* Makes a func.func. `types` has space for leaves, then results. */
static MlirOperation make_function(nabla_graph_emitter *e, const char *name,
                                   bool is_private, MlirType *types) {
  const nabla_walk *walk = e->walk;
  const MlirContext context = e->context;
  const MlirLocation location = mlirLocationUnknownGet(context);
  MlirRegion region = mlirRegionCreate();
  const MlirBlock block = mlirBlockCreate(0, NULL, NULL);
  for (size_t i = 0; i < walk->leaf_count; i++) {
    types[i] = nabla_recorder_type(context, &walk->leaves[i]->dense);
    e->leaves[i] = mlirBlockAddArgument(block, types[i], location);
  }
  nabla_graph_emitter_add(e, block, (MlirOperation){NULL});
  add_return(e, block, types + walk->leaf_count);
  mlirRegionAppendOwnedBlock(region, block);
  const MlirType type = mlirFunctionTypeGet(context, (intptr_t)walk->leaf_count,
                                            types, (intptr_t)walk->result_count,
                                            types + walk->leaf_count);
  const MlirNamedAttribute attributes[3] = {
      nabla_named(context, "sym_name",
                  mlirStringAttrGet(context, nabla_ref(name))),
      nabla_named(context, "function_type", mlirTypeAttrGet(type)),
      nabla_named(context, "sym_visibility",
                  mlirStringAttrGet(context, nabla_ref("private")))};
  MlirOperationState state =
      mlirOperationStateGet(nabla_ref("func.func"), location);
  mlirOperationStateAddAttributes(&state, is_private ? 3 : 2, attributes);
  mlirOperationStateAddOwnedRegions(&state, 1, &region);
  return mlirOperationCreate(&state);
}

MlirOperation nabla_function_in(MlirModule module, MlirStringRef name) {
  MlirOperation op = mlirBlockGetFirstOperation(mlirModuleGetBody(module));
  while (!mlirOperationIsNull(op)) {
    const MlirAttribute attribute =
        mlirOperationGetAttributeByName(op, nabla_ref("sym_name"));
    if (!mlirAttributeIsNull(attribute) &&
        mlirStringRefEqual(mlirStringAttrGetValue(attribute), name))
      return op;
    op = mlirOperationGetNextInBlock(op);
  }
  return op;
}

/* Modules from which, and to which, functions are copied. */
typedef struct transfer {
  MlirModule from, to;
  bool has_rules; /* with the functions that attributes name */
} transfer;

/* Attributes of a function that has a derivative of its own. */
static const char *const rule_keys[] = {NABLA_VJP, NABLA_JVP,
                                        NABLA_STRAIGHT_THROUGH};

bool nabla_module_has_rules(MlirModule module) {
  MlirOperation op = mlirBlockGetFirstOperation(mlirModuleGetBody(module));
  for (; !mlirOperationIsNull(op); op = mlirOperationGetNextInBlock(op))
    for (size_t i = 0; i < sizeof rule_keys / sizeof *rule_keys; i++)
      if (!mlirAttributeIsNull(nabla_function_attribute(op, rule_keys[i])))
        return true;
  return false;
}

static void copy_named(const transfer *t, MlirAttribute value) {
  if (mlirAttributeIsNull(value)) return;
  if (mlirAttributeIsAFlatSymbolRef(value))
    nabla_function_copy(t->from, t->to, mlirFlatSymbolRefAttrGetValue(value),
                        true);
  for (intptr_t i = 0;
       mlirAttributeIsAArray(value) && i < mlirArrayAttrGetNumElements(value);
       i++)
    copy_named(t, mlirArrayAttrGetElement(value, i));
}

/* Copies the rules of a function, or takes the attributes away. */
static void copy_rules(const transfer *t, MlirOperation function) {
  for (size_t i = 0; i < sizeof rule_keys / sizeof *rule_keys; i++)
    if (t->has_rules)
      copy_named(t, mlirOperationGetAttributeByName(function,
                                                    nabla_ref(rule_keys[i])));
    else
      (void)mlirOperationRemoveAttributeByName(function,
                                               nabla_ref(rule_keys[i]));
}

/* Copies the function that `op` calls, and those that this one calls; and
 * meshes. */
static MlirWalkResult copy_callee(MlirOperation op, void *self) {
  const transfer *t = self;
  nabla_mesh_copy(t->from, t->to, op);
  if (nabla_is(op, "func.call"))
    nabla_function_copy(
        t->from, t->to,
        mlirFlatSymbolRefAttrGetValue(
            mlirOperationGetAttributeByName(op, nabla_ref("callee"))),
        t->has_rules);
  return MlirWalkResultAdvance;
}

void nabla_function_copy(MlirModule from, MlirModule to, MlirStringRef name,
                         bool has_rules) {
  const transfer t = {from, to, has_rules};
  if (!mlirOperationIsNull(nabla_function_in(to, name))) return;
  const MlirOperation function = nabla_function_in(from, name);
  if (mlirOperationIsNull(function)) return;
  const MlirOperation copy = mlirOperationClone(function);
  mlirBlockAppendOwnedOperation(mlirModuleGetBody(to), copy);
  copy_rules(&t, copy);
  mlirOperationWalk(copy, copy_callee, (void *)&t, MlirWalkPreOrder);
}

/* Makes a function of a walk at the end of a module. */
static nabla_status add_function(const nabla_walk *walk, const char *name,
                                 bool is_private, MlirModule module,
                                 MlirOperation *out, nabla_diag *diag) {
  void *types;
  nabla_graph_emitter e;
  const size_t count = walk->leaf_count + walk->result_count;
  NABLA_TRY(
      nabla_alloc(walk->allocator, count, sizeof(MlirType), &types, diag));
  const nabla_status status = nabla_graph_emitter_init(&e, walk, diag);
  if (!status) {
    *out = make_function(&e, name, is_private, types);
    mlirBlockAppendOwnedOperation(mlirModuleGetBody(module), *out);
    nabla_graph_emitter_deinit(&e);
  }
  nabla_free(walk->allocator, types, count, sizeof(MlirType));
  return status;
}

nabla_status nabla_walk_emit(const nabla_walk *walk, const char *name,
                             nabla_diag *diag) {
  MlirOperation op;
  const MlirModule module = nabla_recorder_module(walk->recorder);
  if (!mlirOperationIsNull(nabla_function_in(module, nabla_ref(name))))
    return NABLA_OK;
  return add_function(walk, name, true, module, &op, diag);
}

/* ---- programs ---- */

static MlirAttribute port_attributes(MlirContext context,
                                     const nabla_emitted_port *port) {
  MlirNamedAttribute list[5];
  intptr_t count = 0;
  const char *const texts[3][2] = {{"nabla.dims", port->dims},
                                   {"nabla.name", port->name},
                                   {"nabla.state", port->state}};
  for (int i = 0; i < 3; i++)
    if (texts[i][1])
      list[count++] =
          nabla_named(context, texts[i][0],
                      mlirStringAttrGet(context, nabla_ref(texts[i][1])));
  if (port->is_captured)
    list[count++] =
        nabla_named(context, "nabla.captured", mlirUnitAttrGet(context));
  if (port->is_donated)
    list[count++] =
        nabla_named(context, "nabla.donated", mlirUnitAttrGet(context));
  return mlirDictionaryAttrGet(context, count, list);
}

/* Sets the attributes `key` of arguments or results. */
static nabla_status set_ports(const nabla_walk *walk, MlirOperation function,
                              const char *key, size_t count,
                              const nabla_emitted_port *ports,
                              nabla_diag *diag) {
  void *memory;
  const MlirContext context = nabla_op_context(function);
  if (!count) return NABLA_OK;
  NABLA_TRY(nabla_alloc(walk->allocator, count, sizeof(MlirAttribute), &memory,
                        diag));
  MlirAttribute *attributes = memory;
  for (size_t i = 0; i < count; i++)
    attributes[i] = port_attributes(context, &ports[i]);
  mlirOperationSetAttributeByName(
      function, nabla_ref(key),
      mlirArrayAttrGet(context, (intptr_t)count, attributes));
  nabla_free(walk->allocator, memory, count, sizeof(MlirAttribute));
  return NABLA_OK;
}

/* A buffer that is written to, and whether it could be. */
typedef struct output {
  nabla_buffer *buffer;
  nabla_status status;
  nabla_diag *diag;
} output;

static void write_chunk(MlirStringRef chunk, void *self) {
  output *o = self;
  if (!o->status && chunk.length)
    o->status =
        nabla_buffer_append(o->buffer, chunk.data, chunk.length, o->diag);
}

static nabla_status fill_module(const nabla_emitted_program *program,
                                MlirModule module, nabla_diag *diag) {
  const nabla_walk *walk = program->walk;
  MlirOperation function;
  const transfer t = {nabla_recorder_module(walk->recorder), module,
                      program->has_rules};
  NABLA_TRY(add_function(walk, "main", false, module, &function, diag));
  mlirOperationWalk(function, copy_callee, (void *)&t, MlirWalkPreOrder);
  NABLA_TRY(nabla_mesh_check_one(module, diag));
  if (program->ports) {
    NABLA_TRY(set_ports(walk, function, "arg_attrs", walk->leaf_count,
                        program->ports, diag));
    NABLA_TRY(set_ports(walk, function, "res_attrs", walk->result_count,
                        program->ports + walk->leaf_count, diag));
  }
  if (!mlirOperationVerify(mlirModuleGetOperation(module)))
    return nabla_fail(diag, NABLA_CORRUPT, "the graph does not verify");
  return NABLA_OK;
}

nabla_status nabla_program_emit(void *self, nabla_buffer *out,
                                nabla_diag *diag) {
  const nabla_emitted_program *program = self;
  const MlirContext context = nabla_recorder_context(program->walk->recorder);
  const MlirModule module =
      mlirModuleCreateEmpty(mlirLocationUnknownGet(context));
  const MlirOperation op = mlirModuleGetOperation(module);
  output to = {out, NABLA_OK, diag};
  nabla_status status = fill_module(program, module, diag);
  if (!status) {
    if (program->is_text)
      mlirOperationPrint(op, write_chunk, &to);
    else
      mlirOperationWriteBytecode(op, write_chunk, &to);
    status = to.status;
  }
  mlirModuleDestroy(module);
  return status;
}
