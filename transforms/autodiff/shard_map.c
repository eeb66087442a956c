/* See shard_map.h. The region runs again in the shard_map that is made: what it
 * computes is not kept. */
#include "transforms/autodiff/shard_map.h"

#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <stdlib.h>
#include <string.h>

#include "dialect/control.h"
#include "transforms/shard/varying.h"
#include "transforms/state/state.h"

/* ---- the mesh ---- */

static bool read_grid(MlirOperation op, nabla_grid *out) {
  char name[NABLA_MESH_NAME];
  if (nabla_shard_map_mesh(op, name) && nabla_mesh_find(op, name, &out->mesh) &&
      nabla_atoms_of(&out->mesh, &out->atoms))
    return true;
  nabla_error_at(op, "has no derivative: its mesh has too many factors");
  return false;
}

static MlirAttribute sharding_at(MlirOperation op, const char *key,
                                 intptr_t index) {
  return mlirArrayAttrGetElement(
      mlirOperationGetAttributeByName(op, nabla_ref(key)), index);
}

/* A sharding that divides nothing. */
static MlirAttribute sharding_whole(const nabla_grid *grid, MlirValue value) {
  const nabla_division whole = nabla_layout_whole(mlirValueGetType(value));
  return nabla_layout_attribute(
      grid, mlirTypeGetContext(mlirValueGetType(value)), &whole);
}

/* ---- a shard_map in the making ---- */

typedef struct making {
  MlirOperation op;      /* the old one */
  intptr_t inputs, outs; /* so far */
  MlirValue *operands, *yields;
  MlirAttribute *in, *out;
  MlirType *results; /* of the wholes */
  MlirBlock block;
  MlirOperation last; /* holds the place of the terminator */
  nabla_builder b;    /* in the region */
} making;

static void making_deinit(making *m) {
  free(m->operands);
  free(m->yields);
  free(m->in);
  free(m->out);
  free(m->results);
}

static bool making_init(making *m, MlirOperation op, intptr_t most_inputs,
                        intptr_t most_outs) {
  const size_t in = (size_t)most_inputs + 1, out = (size_t)most_outs + 1;
  MlirOperationState state = mlirOperationStateGet(
      nabla_ref("nabla.yield"), mlirOperationGetLocation(op));
  *m = (making){.op = op,
                .operands = calloc(in, sizeof *m->operands),
                .yields = calloc(out, sizeof *m->yields),
                .in = calloc(in, sizeof *m->in),
                .out = calloc(out, sizeof *m->out),
                .results = calloc(out, sizeof *m->results),
                .block = mlirBlockCreate(0, NULL, NULL),
                .last = mlirOperationCreate(&state)};
  m->b.before = m->last;
  mlirBlockAppendOwnedOperation(m->block, m->last);
  return m->operands && m->yields && m->in && m->out && m->results;
}

static MlirValue add_input(making *m, MlirValue whole, MlirAttribute sharding,
                           MlirType piece) {
  m->operands[m->inputs] = whole;
  m->in[m->inputs++] = sharding;
  return mlirBlockAddArgument(m->block, piece, mlirOperationGetLocation(m->op));
}

static void add_out(making *m, MlirValue piece, MlirAttribute sharding,
                    MlirType whole) {
  m->yields[m->outs] = piece;
  m->out[m->outs] = sharding;
  m->results[m->outs++] = whole;
}

/* Makes the op before `before`; null, and nothing is left, after an error. */
static MlirOperation finish(making *m, MlirOperation before, bool good) {
  MlirContext context = nabla_op_context(m->op);
  for (intptr_t i = 0; good && i < m->outs; i++)
    good = !mlirValueIsNull(m->yields[i]);
  const nabla_op_spec end = {"nabla.yield", m->outs, m->yields, 0,
                             NULL,          0,       NULL};
  good = good && !mlirOperationIsNull(nabla_op_create(m->last, &end));
  mlirOperationDestroy(m->last);
  if (!good) {
    mlirBlockDestroy(m->block);
    return (MlirOperation){NULL};
  }
  const MlirNamedAttribute attributes[] = {
      nabla_named(context, "in", mlirArrayAttrGet(context, m->inputs, m->in)),
      nabla_named(context, "out", mlirArrayAttrGet(context, m->outs, m->out))};
  MlirRegion region = mlirRegionCreate();
  mlirRegionAppendOwnedBlock(region, m->block);
  MlirOperationState state = mlirOperationStateGet(
      nabla_ref("nabla.shard_map"), mlirOperationGetLocation(m->op));
  mlirOperationStateAddOperands(&state, m->inputs, m->operands);
  mlirOperationStateAddResults(&state, m->outs, m->results);
  mlirOperationStateAddOwnedRegions(&state, 1, &region);
  mlirOperationStateAddAttributes(&state, 2, attributes);
  MlirOperation made = mlirOperationCreate(&state);
  if (!mlirOperationIsNull(made))
    mlirBlockInsertOwnedOperationBefore(mlirOperationGetBlock(before), before,
                                        made);
  return made;
}

/* ---- reverse ---- */

typedef struct pulled {
  nabla_reverse *r;
  MlirOperation op;
  const MlirValue *cotangents;
  nabla_grid grid;
  nabla_value_list captured;
  nabla_value_map copies;
  nabla_varying varying;
  making m;
  intptr_t inputs, results; /* of the old op */
} pulled;

static bool has(const pulled *p, MlirValue value) {
  return nabla_value_map_has(p->r->varied, value);
}

/* The operands of the old op, then the cotangents that are there; the arguments
 * of the new block vary along what divides them. */
static void add_inputs(pulled *p, MlirValue *given) {
  MlirBlock body = nabla_region_block(p->op, 0);
  MlirOperation end = nabla_block_end(body);
  for (intptr_t i = 0; i < p->inputs; i++) {
    MlirValue old = mlirBlockGetArgument(body, i);
    MlirValue whole = mlirOperationGetOperand(p->op, i);
    MlirValue made = add_input(&p->m, whole, sharding_at(p->op, "in", i),
                               mlirValueGetType(old));
    nabla_value_map_set(&p->copies, old, made);
    if (has(p, whole)) nabla_varied_add(p->r->varied, made);
  }
  for (intptr_t i = 0; i < p->results; i++) {
    if (mlirValueIsNull(p->cotangents[i])) continue;
    MlirType piece = mlirValueGetType(mlirOperationGetOperand(end, i));
    given[i] = add_input(&p->m, p->cotangents[i], sharding_at(p->op, "out", i),
                         nabla_dense_type(piece));
  }
  nabla_varying_divide(&p->grid, p->m.block, p->m.in, &p->varying);
}

/* The pass back over the copy in the new block. */
static bool pull(pulled *p, nabla_reverse *inner, const MlirValue *given) {
  MlirBlock body = nabla_region_block(p->op, 0);
  MlirOperation end = nabla_block_end(body);
  if (!nabla_block_copy(body, p->m.last, &p->copies)) return false;
  nabla_varied_mark(p->r->varied, p->m.block);
  if (!nabla_varying_visit(&p->grid, p->m.block, &p->varying)) return false;
  for (intptr_t i = 0; i < p->results; i++) {
    if (mlirValueIsNull(p->cotangents[i])) continue;
    MlirValue value = nabla_copied(&p->copies, mlirOperationGetOperand(end, i));
    inner->atoms = nabla_sharding_atoms(&p->grid, sharding_at(p->op, "out", i));
    nabla_reverse_add(inner, value, given[i]);
  }
  return nabla_reverse_block(inner, p->m.block);
}

static void add_gradients(pulled *p, nabla_reverse *inner) {
  for (intptr_t i = 0; i < p->inputs; i++) {
    MlirValue whole = mlirOperationGetOperand(p->op, i);
    if (!has(p, whole)) continue;
    MlirValue piece = mlirBlockGetArgument(p->m.block, i);
    add_out(&p->m, nabla_reverse_sum_or_zeros(inner, piece),
            sharding_at(p->op, "in", i),
            nabla_dense_type(mlirValueGetType(whole)));
  }
  for (size_t i = 0; i < p->captured.count; i++) {
    MlirValue value = p->captured.values[i];
    add_out(&p->m, nabla_reverse_sum_or_zeros(inner, value),
            sharding_whole(&p->grid, value),
            nabla_dense_type(mlirValueGetType(value)));
  }
}

static void give_gradients(pulled *p, MlirOperation made) {
  intptr_t next = 0;
  for (intptr_t i = 0; i < p->inputs; i++) {
    MlirValue whole = mlirOperationGetOperand(p->op, i);
    if (has(p, whole))
      nabla_reverse_add(p->r, whole, mlirOperationGetResult(made, next++));
  }
  for (size_t i = 0; i < p->captured.count; i++)
    nabla_reverse_add(p->r, p->captured.values[i],
                      mlirOperationGetResult(made, next++));
}

static bool check(const nabla_reverse *r, MlirOperation op) {
  if (!nabla_has_effects(r->derived->module, op)) return true;
  nabla_error_at(op,
                 "has effects, which its derivative would have twice: declare "
                 "its custom calls pure, or move them outside");
  return false;
}

static bool reverse(pulled *p) {
  MlirValue *given = calloc((size_t)p->results + 1, sizeof *given);
  nabla_reverse inner = {.varied = p->r->varied,
                         .derived = p->r->derived,
                         .grid = &p->grid,
                         .varying = &p->varying};
  bool good = given && making_init(&p->m, p->op, p->inputs + p->results,
                                   p->inputs + (intptr_t)p->captured.count);
  if (good) {
    inner.b = p->m.b;
    add_inputs(p, given);
    good = pull(p, &inner, given);
    if (good) add_gradients(p, &inner);
    MlirOperation made = finish(&p->m, p->r->b.before, good);
    good = !mlirOperationIsNull(made);
    if (good) give_gradients(p, made);
  }
  nabla_reverse_deinit(&inner);
  making_deinit(&p->m);
  free(given);
  return good;
}

bool nabla_reverse_shard_map(nabla_reverse *r, MlirOperation op,
                             const MlirValue *cotangents) {
  pulled p = {.r = r,
              .op = op,
              .cotangents = cotangents,
              .inputs = mlirOperationGetNumOperands(op),
              .results = mlirOperationGetNumResults(op)};
  nabla_varied_captured(r->varied, op, &p.captured);
  const bool good = !p.captured.failed && check(r, op) &&
                    read_grid(op, &p.grid) && reverse(&p);
  nabla_value_list_deinit(&p.captured);
  nabla_value_map_deinit(&p.copies);
  nabla_varying_deinit(&p.varying);
  return good;
}

/* ---- annotations ---- */

void nabla_gradient_divide(MlirOperation function, intptr_t argument,
                           MlirValue gradient) {
  MlirAttribute sharding = nabla_state_attribute(function, NABLA_ARGUMENTS,
                                                 argument, NABLA_SHARDING);
  if (mlirAttributeIsNull(sharding) || mlirValueIsNull(gradient)) return;
  MlirOperation op = nabla_defining_op(gradient);
  if (mlirOperationIsNull(op) || mlirOperationGetNumResults(op) != 1) return;
  mlirOperationSetAttributeByName(
      op, nabla_ref(NABLA_SHARDINGS),
      mlirArrayAttrGet(nabla_op_context(op), 1, &sharding));
}

MlirAttribute nabla_divide_as(MlirOperation function, const char *list,
                              intptr_t index, MlirAttribute attributes) {
  MlirNamedAttribute entries[8];
  MlirContext context = nabla_op_context(function);
  MlirAttribute sharding =
      nabla_state_attribute(function, list, index, NABLA_SHARDING);
  const intptr_t count = mlirDictionaryAttrGetNumElements(attributes);
  if (mlirAttributeIsNull(sharding) || count > 7) return attributes;
  for (intptr_t i = 0; i < count; i++)
    entries[i] = mlirDictionaryAttrGetElement(attributes, i);
  entries[count] = nabla_named(context, NABLA_SHARDING, sharding);
  return mlirDictionaryAttrGet(context, count + 1, entries);
}

/* ---- forward ---- */

typedef struct pushed {
  nabla_forward *f;
  MlirOperation op;
  nabla_value_map copies;
  making m;
} pushed;

/* Operands, then their tangents. */
static void push_inputs(pushed *p) {
  MlirBlock body = nabla_region_block(p->op, 0);
  const intptr_t count = mlirOperationGetNumOperands(p->op);
  for (intptr_t i = 0; i < count; i++) {
    MlirValue old = mlirBlockGetArgument(body, i);
    nabla_value_map_set(
        &p->copies, old,
        add_input(&p->m, mlirOperationGetOperand(p->op, i),
                  sharding_at(p->op, "in", i), mlirValueGetType(old)));
  }
  for (intptr_t i = 0; i < count; i++) {
    MlirValue whole = mlirOperationGetOperand(p->op, i);
    MlirValue tangent = nabla_value_map_get(&p->f->tangents, whole);
    if (mlirValueIsNull(tangent)) continue;
    MlirValue piece = mlirBlockGetArgument(p->m.block, i);
    const nabla_builder outside = {p->op};
    MlirValue made = add_input(
        &p->m, nabla_diff_narrow(&outside, tangent, whole),
        sharding_at(p->op, "in", i), nabla_dense_type(mlirValueGetType(piece)));
    nabla_varied_add(p->f->varied, piece);
    nabla_value_map_set(&p->f->tangents, piece, made);
  }
}

/* Results, then the tangents of those that vary. `hold` keeps what the copy
 * yields while operations are replaced. */
static bool push(pushed *p) {
  MlirBlock body = nabla_region_block(p->op, 0);
  const intptr_t count = mlirOperationGetNumResults(p->op);
  if (!nabla_block_copy(body, p->m.last, &p->copies)) return false;
  nabla_varied_mark(p->f->varied, p->m.block);
  MlirOperation hold = mlirOperationClone(nabla_block_end(body));
  mlirBlockInsertOwnedOperationBefore(p->m.block, p->m.last, hold);
  for (intptr_t i = 0; i < count; i++)
    mlirOperationSetOperand(
        hold, i, nabla_copied(&p->copies, mlirOperationGetOperand(hold, i)));
  const nabla_builder b = {hold};
  const bool good = nabla_forward_block(p->f, p->m.block);
  for (intptr_t i = 0; good && i < count; i++)
    add_out(&p->m, mlirOperationGetOperand(hold, i),
            sharding_at(p->op, "out", i), nabla_result_type(p->op, i));
  for (intptr_t i = 0; good && i < count; i++) {
    MlirValue result = mlirOperationGetResult(p->op, i);
    if (!nabla_value_map_has(p->f->varied, result)) continue;
    add_out(&p->m,
            nabla_forward_or_zeros(p->f, &b, mlirOperationGetOperand(hold, i)),
            sharding_at(p->op, "out", i),
            nabla_dense_type(mlirValueGetType(result)));
  }
  nabla_op_erase(hold);
  return good;
}

static bool replace(pushed *p, MlirOperation made) {
  const intptr_t count = mlirOperationGetNumResults(p->op);
  MlirValue *values = calloc((size_t)count + 1, sizeof *values);
  if (!values) return false;
  for (intptr_t i = 0, next = count; i < count; i++) {
    values[i] = mlirOperationGetResult(made, i);
    if (!nabla_value_map_has(p->f->varied, mlirOperationGetResult(p->op, i)))
      continue;
    nabla_varied_add(p->f->varied, values[i]);
    nabla_value_map_set(&p->f->tangents, values[i],
                        mlirOperationGetResult(made, next++));
  }
  nabla_derived_replace(p->f->derived, p->op, values);
  free(values);
  return true;
}

bool nabla_forward_shard_map(nabla_forward *f, MlirOperation op) {
  pushed p = {.f = f, .op = op};
  bool good = making_init(&p.m, op, 2 * mlirOperationGetNumOperands(op),
                          2 * mlirOperationGetNumResults(op));
  if (good) {
    push_inputs(&p);
    MlirOperation made = finish(&p.m, op, push(&p));
    good = !mlirOperationIsNull(made) && replace(&p, made);
  }
  making_deinit(&p.m);
  nabla_value_map_deinit(&p.copies);
  return good;
}
