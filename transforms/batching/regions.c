/* See regions.h. */
#include "transforms/batching/regions.h"

#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>

#include "dialect/control.h"
#include "transforms/autodiff/loops.h"

MlirOperation nabla_batch_open(const nabla_batching *s, const char *name,
                               const nabla_batch_copy *copy, intptr_t count,
                               const intptr_t *arguments,
                               const MlirType *types) {
  MlirOperation none = {NULL};
  MlirRegion regions[NABLA_BATCH_MAX_REGIONS];
  MlirLocation location = mlirOperationGetLocation(copy->op);
  for (intptr_t i = 0; i < copy->operand_count; i++)
    if (mlirValueIsNull(copy->operands[i])) return none;
  MlirOperationState state = mlirOperationStateGet(nabla_ref(name), location);
  for (intptr_t i = 0; i < count; i++) {
    regions[i] = mlirRegionCreate();
    MlirBlock block = mlirBlockCreate(0, NULL, NULL);
    for (intptr_t a = 0; a < arguments[i]; a++)
      mlirBlockAddArgument(block, *types++, location);
    mlirRegionAppendOwnedBlock(regions[i], block);
  }
  mlirOperationStateAddOperands(&state, copy->operand_count, copy->operands);
  mlirOperationStateAddResults(&state, copy->result_count, copy->results);
  mlirOperationStateAddOwnedRegions(&state, count, regions);
  mlirOperationStateAddAttributes(&state, copy->change_count, copy->changes);
  MlirOperation made = mlirOperationCreate(&state);
  if (mlirOperationIsNull(made)) return made;
  mlirBlockInsertOwnedOperationBefore(mlirOperationGetBlock(s->b.before),
                                      s->b.before, made);
  if (nabla_is(copy->op, name)) nabla_loop_attributes_keep(copy->op, made);
  return made;
}

/* A terminator holds the place until its operands are known. */
nabla_batch_place nabla_batch_begin(nabla_batching *s, MlirOperation op,
                                    intptr_t region) {
  MlirOperationState state = mlirOperationStateGet(
      nabla_ref("nabla.yield"), mlirOperationGetLocation(op));
  nabla_batch_place place = {s->b, mlirOperationCreate(&state)};
  mlirBlockAppendOwnedOperation(nabla_region_block(op, region), place.last);
  s->b.before = place.last;
  return place;
}

bool nabla_batch_end(nabla_batching *s, nabla_batch_place place,
                     const char *name, intptr_t count,
                     const MlirValue *values) {
  bool good = true;
  for (intptr_t i = 0; i < count; i++)
    good = good && !mlirValueIsNull(values[i]);
  nabla_op_spec spec = {name, count, values, 0, NULL, 0, NULL};
  good = good && !mlirOperationIsNull(nabla_op_create(place.last, &spec));
  if (good) mlirOperationDestroy(place.last);
  s->b = place.outside;
  return good;
}

MlirValue nabla_batch_as(const nabla_batching *s, MlirValue value,
                         bool batched) {
  MlirValue none = {NULL};
  if (!batched) return nabla_batch_get(s, value).value;
  MlirType type = nabla_batch_type(s, mlirValueGetType(value));
  if (mlirTypeIsNull(type)) return none;
  return nabla_batch_cast(s, nabla_batch_dense(s, value), type);
}

/* ---- harm ---- */

typedef struct harm_search {
  const nabla_batching *s;
  nabla_batch_harm worst;
  MlirOperation culprit;
  int depth; /* of calls */
} harm_search;

static MlirOperation callee_of(const nabla_batching *s, MlirOperation call) {
  MlirAttribute name =
      mlirOperationGetAttributeByName(call, nabla_ref("callee"));
  MlirSymbolTable table = mlirSymbolTableCreate(s->run->module);
  MlirOperation callee =
      mlirSymbolTableLookup(table, mlirFlatSymbolRefAttrGetValue(name));
  mlirSymbolTableDestroy(table);
  return callee;
}

/* Those of arith are undefined where they divide by 0. */
static bool is_integer_division(MlirOperation op) {
  static const char *const names[] = {
      "arith.divsi",     "arith.divui",     "arith.remsi",     "arith.remui",
      "arith.ceildivsi", "arith.ceildivui", "arith.floordivsi"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (nabla_is(op, names[i]))
      return mlirTypeIsATensor(nabla_operand_type(op, 0));
  return (nabla_is(op, "nabla.div") || nabla_is(op, "nabla.mod")) &&
         mlirTypeIsAInteger(nabla_array_element(nabla_operand_type(op, 0)));
}

static MlirWalkResult add_harm(MlirOperation op, void *self) {
  enum { MAX_DEPTH = 64 };
  harm_search *all = self;
  nabla_batch_harm harm = NABLA_BATCH_HARMLESS;
  if (is_integer_division(op)) harm = NABLA_BATCH_CAN_FAIL;
  if (nabla_is(op, "nabla.custom_call") &&
      mlirAttributeIsNull(
          mlirOperationGetAttributeByName(op, nabla_ref("pure"))))
    harm = NABLA_BATCH_HAS_EFFECTS;
  if (harm > all->worst) {
    all->worst = harm;
    all->culprit = op;
  }
  if (!nabla_is(op, "func.call")) return MlirWalkResultAdvance;
  MlirOperation callee = callee_of(all->s, op);
  if (mlirOperationIsNull(callee) || all->depth >= MAX_DEPTH)
    return MlirWalkResultAdvance;
  all->depth++;
  mlirOperationWalk(callee, add_harm, self, MlirWalkPreOrder);
  all->depth--;
  return MlirWalkResultAdvance;
}

nabla_batch_harm nabla_batch_harm_of(const nabla_batching *s, MlirOperation op,
                                     MlirOperation *out_culprit) {
  harm_search all = {s, NABLA_BATCH_HARMLESS, op, 0};
  mlirOperationWalk(op, add_harm, &all, MlirWalkPreOrder);
  *out_culprit = all.culprit;
  return all.worst;
}
