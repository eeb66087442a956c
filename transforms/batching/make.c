/* Makes the function of a batch from a function; see batching.h. */
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <stdio.h>

#include "dialect/bridge.h"
#include "dialect/control.h"
#include "dialect/verify/checks.h"
#include "transforms/batching/batching.h"
#include "transforms/ir/call_graph.h"

enum { MAX = NABLA_MAX_OPERANDS };

/* A function under construction. */
typedef struct making {
  const nabla_batch_function *how;
  MlirOperation source, made; /* a clone of the function, the new one */
  MlirBlock from, to;
  nabla_batching batching;
} making;

/* ---- types ---- */

/* An array type with the batch as dimension `axis`; null where there is none.
 */
static MlirType with_axis(int64_t size, MlirType type, intptr_t axis) {
  int64_t dims[NABLA_MAX_RANK + 1];
  MlirType none = {NULL};
  intptr_t rank = nabla_array_rank(type), next = 0;
  if (rank >= NABLA_MAX_RANK) return none;
  for (intptr_t i = 0; i <= rank; i++)
    dims[i] = i == axis ? size : nabla_array_dim(type, next++);
  if (!nablaTypeIsAImplicit(type))
    return mlirRankedTensorTypeGet(rank + 1, dims, nabla_array_element(type),
                                   mlirAttributeGetNull());
  nablaImplicit p = nablaImplicitTypeParts(type);
  MlirType packed = axis == 0 ? nabla_batch_implicit(size, type) : none;
  if (!mlirTypeIsNull(packed)) return packed;
  char message[NABLA_MESSAGE_SIZE];
  nablaImplicitType whole = {.rank = rank + 1,
                             .shape = dims,
                             .elementType = p.elementType,
                             .encoding = p.encoding};
  if (p.storageRank >= 0 || nabla_is_dynamic(size) ||
      !nablaHookImplicitVerify(&whole, message))
    return none;
  return nablaHookImplicitCanonical(mlirTypeGetContext(type), &whole);
}

static bool is_array(MlirType type) {
  return nablaTypeIsAImplicit(type) || mlirTypeIsARankedTensor(type);
}

static bool find_argument_types(making *m, MlirType *types) {
  const nabla_batch_function *how = m->how;
  for (intptr_t i = 0; i < mlirBlockGetNumArguments(m->from); i++) {
    MlirType type = mlirValueGetType(mlirBlockGetArgument(m->from, i));
    types[i] = how->types ? how->types[i] : type;
    if (how->types || how->in_axes[i] == NABLA_BATCH_NO_AXIS) continue;
    if (is_array(type)) types[i] = with_axis(how->size, type, how->in_axes[i]);
    if (is_array(type) && !mlirTypeIsNull(types[i])) continue;
    nabla_error_at(how->function,
                   "nabla-vmap: argument %d has no batch (%s): say none for it "
                   "in in-axes",
                   (int)i,
                   !is_array(type) ? "it is a number"
                   : nablaTypeIsAImplicit(type)
                       ? "packed arrays have static sizes: give axis-size"
                       : "it has as many dimensions as there can be");
    return false;
  }
  return true;
}

/* ---- the new function ---- */

static bool is_kept(const making *m, MlirIdentifier name) {
  static const char *const own[] = {"sym_name", "function_type",
                                    "sym_visibility", "arg_attrs", "res_attrs"};
  const int count = m->how->is_private ? 5 : 2;
  for (int i = 0; i < count; i++)
    if (nabla_text_equals(mlirIdentifierStr(name), own[i])) return false;
  return true;
}

/* Creates the function, with a terminator that holds the place of its last
 * operation, behind the one that it is made from. */
static void open_function(making *m, const MlirType *types) {
  enum { MAX_ATTRIBUTES = 32 };
  MlirNamedAttribute list[MAX_ATTRIBUTES];
  MlirContext context = nabla_op_context(m->how->function);
  MlirLocation location = mlirOperationGetLocation(m->how->function);
  intptr_t count = 0, all = mlirOperationGetNumAttributes(m->how->function);
  for (intptr_t i = 0; i < all && count < MAX_ATTRIBUTES - 3; i++) {
    MlirNamedAttribute one = mlirOperationGetAttribute(m->how->function, i);
    if (is_kept(m, one.name)) list[count++] = one;
  }
  list[count++] = nabla_named(
      context, "sym_name", mlirStringAttrGet(context, nabla_ref(m->how->name)));
  list[count++] = nabla_named(
      context, "function_type",
      mlirTypeAttrGet(mlirFunctionTypeGet(context, 0, NULL, 0, NULL)));
  if (m->how->is_private)
    list[count++] =
        nabla_named(context, "sym_visibility",
                    mlirStringAttrGet(context, nabla_ref("private")));
  MlirOperationState state =
      mlirOperationStateGet(nabla_ref("func.func"), location);
  MlirRegion region = mlirRegionCreate();
  m->to = mlirBlockCreate(0, NULL, NULL);
  for (intptr_t i = 0; i < mlirBlockGetNumArguments(m->from); i++)
    mlirBlockAddArgument(m->to, types[i], location);
  mlirRegionAppendOwnedBlock(region, m->to);
  mlirOperationStateAddAttributes(&state, count, list);
  mlirOperationStateAddOwnedRegions(&state, 1, &region);
  m->made = mlirOperationCreate(&state);
  mlirBlockInsertOwnedOperationAfter(mlirOperationGetBlock(m->how->function),
                                     m->how->function, m->made);
  MlirOperationState hold =
      mlirOperationStateGet(nabla_ref("func.return"), location);
  m->batching.b.before = mlirOperationCreate(&hold);
  mlirBlockAppendOwnedOperation(m->to, m->batching.b.before);
}

/* ---- arguments ---- */

/* The size of the batch, of the first argument that has one. */
static bool find_count(making *m) {
  nabla_batching *s = &m->batching;
  if (!nabla_is_dynamic(s->size)) return true;
  for (intptr_t i = 0; i < mlirBlockGetNumArguments(m->to); i++) {
    if (m->how->in_axes[i] == NABLA_BATCH_NO_AXIS) continue;
    nabla_built_shape shape =
        nabla_build_shape_of(&s->b, mlirBlockGetArgument(m->to, i));
    s->count = nabla_build_size(&s->b, &shape, m->how->in_axes[i]);
    return true;
  }
  nabla_error_at(m->how->function,
                 "nabla-vmap: no argument has a batch: give axis-size");
  return false;
}

/* A size that is known when it runs is that of the first argument: a reshape
 * checks it. */
static MlirValue with_count(const making *m, MlirValue x, intptr_t axis) {
  const nabla_batching *s = &m->batching;
  nabla_built_shape shape = nabla_build_shape_of(&s->b, x);
  if (!nabla_is_dynamic(s->size) || nablaTypeIsAImplicit(mlirValueGetType(x)))
    return x;
  shape.sizes[axis] = s->count;
  return nabla_build_reshape(&s->b, x, &shape);
}

static void report_decoded(const making *m, intptr_t index, intptr_t axis) {
  char text[256];
  (void)snprintf(
      text, sizeof text,
      "nabla-vmap: argument %d is decoded: its examples are %s", (int)index,
      axis ? "not along its first dimension" : "not whole blocks of it");
  nablaEmitWarning(mlirOperationGetLocation(m->how->function), text);
}

static MlirValue argument_value(making *m, intptr_t index, bool *first) {
  nabla_batching *s = &m->batching;
  intptr_t axis = m->how->in_axes[index];
  MlirValue x = mlirBlockGetArgument(m->to, index);
  MlirType one = mlirValueGetType(mlirBlockGetArgument(m->from, index));
  if (axis == NABLA_BATCH_NO_AXIS) return x;
  if (!*first) x = with_count(m, x, axis);
  *first = false;
  if (nablaTypeIsAImplicit(mlirValueGetType(x))) {
    MlirType packed = nabla_batch_implicit(s->size, one);
    bool stays = !mlirTypeIsNull(packed) &&
                 mlirTypeEqual(packed, mlirValueGetType(x)) && axis == 0;
    if (stays || m->how->types) return x;
    report_decoded(m, index, axis);
    x = nabla_batch_materialized(s, x);
  }
  return nabla_batch_move(s, x, axis, 0);
}

static bool map_arguments(making *m) {
  bool good = true, first = true;
  for (intptr_t i = 0; good && i < mlirBlockGetNumArguments(m->from); i++)
    good = nabla_batch_set(
        &m->batching, mlirBlockGetArgument(m->from, i),
        (nabla_batched){argument_value(m, i, &first),
                        m->how->in_axes[i] != NABLA_BATCH_NO_AXIS});
  return good;
}

/* ---- results ---- */

static MlirValue refuse_result(const making *m, intptr_t index,
                               const char *why) {
  nabla_error_at(m->how->function, "nabla-vmap: result %d %s", (int)index, why);
  return (MlirValue){NULL};
}

/* A result with its batch where out-axes says. */
static MlirValue result_value(making *m, intptr_t index, MlirValue source) {
  nabla_batching *s = &m->batching;
  nabla_batched of = nabla_batch_get(s, source);
  if (m->how->out_batched) m->how->out_batched[index] = of.batched;
  if (!m->how->out_axes) return of.value;
  intptr_t axis = m->how->out_axes[index];
  if (axis == NABLA_BATCH_NO_AXIS && of.batched)
    return refuse_result(m, index,
                         "differs by example: out-axes says none for it");
  if (axis == NABLA_BATCH_NO_AXIS) return of.value;
  if (!is_array(mlirValueGetType(source)))
    return refuse_result(m, index,
                         "is a number, which has no batch: say none for it in "
                         "out-axes");
  bool packed = of.batched && nablaTypeIsAImplicit(mlirValueGetType(of.value));
  if (packed && axis == 0) return of.value;
  MlirType type = nabla_batch_type(s, mlirValueGetType(source));
  if (mlirTypeIsNull(type)) return (MlirValue){NULL};
  MlirValue x = nabla_batch_cast(s, nabla_batch_dense(s, source), type);
  return nabla_batch_move(s, x, 0, axis);
}

static bool close_function(making *m) {
  nabla_batching *s = &m->batching;
  MlirValue values[MAX];
  MlirType types[MAX], arguments[MAX];
  MlirContext context = nabla_op_context(m->made);
  MlirOperation end = nabla_block_end(m->from), last = s->b.before;
  intptr_t count = mlirOperationGetNumOperands(end);
  for (intptr_t i = 0; i < count; i++) {
    values[i] = result_value(m, i, mlirOperationGetOperand(end, i));
    if (mlirValueIsNull(values[i])) return false;
    types[i] = mlirValueGetType(values[i]);
  }
  intptr_t inputs = mlirBlockGetNumArguments(m->to);
  for (intptr_t i = 0; i < inputs; i++)
    arguments[i] = mlirValueGetType(mlirBlockGetArgument(m->to, i));
  nabla_op_spec spec = {"func.return", count, values, 0, NULL, 0, NULL};
  if (mlirOperationIsNull(nabla_op_create(last, &spec))) return false;
  mlirOperationDestroy(last);
  mlirOperationSetAttributeByName(
      m->made, nabla_ref("function_type"),
      mlirTypeAttrGet(
          mlirFunctionTypeGet(context, inputs, arguments, count, types)));
  return true;
}

/* ---- what can be batched ---- */

static bool has(MlirOperation function, const char *key) {
  return !mlirAttributeIsNull(
      mlirOperationGetAttributeByName(function, nabla_ref(key)));
}

/* Derivatives of one's own are of one example; those of functions that are
 * called are batched too (call.c). Straight through goes the
 * cotangent of the first argument, which must be a batch as the results are. */
static bool check_derivatives(const nabla_batch_function *how) {
  if (!how->has_rules &&
      (has(how->function, "nabla.vjp") || has(how->function, "nabla.jvp"))) {
    nabla_error_at(how->function,
                   "nabla-vmap: has a derivative of its own, which is that of "
                   "one example: run nabla-vjp (nabla-jvp) before nabla-vmap");
    return false;
  }
  if (!has(how->function, "nabla.straight_through") || how->in_axes[0] == 0)
    return true;
  nabla_error_at(how->function,
                 "nabla-vmap: passes cotangents straight through to its first "
                 "argument: give that a batch, as its first dimension");
  return false;
}

static bool check_function(const nabla_batch_function *how) {
  MlirRegion region = mlirOperationGetRegion(how->function, 0);
  MlirBlock block = mlirRegionGetFirstBlock(region);
  if (mlirBlockIsNull(block) ||
      !mlirBlockIsNull(mlirBlockGetNextInRegion(block))) {
    nabla_error_at(how->function,
                   "nabla-vmap: has no body, or one of several blocks: use "
                   "nabla.cond, nabla.while and nabla.scan");
    return false;
  }
  if (mlirBlockGetNumArguments(block) <= MAX &&
      mlirOperationGetNumOperands(nabla_block_end(block)) <= MAX)
    return check_derivatives(how);
  nabla_error_at(how->function,
                 "nabla-vmap: has more than %d arguments or results", MAX);
  return false;
}

MlirOperation nabla_batch_make(nabla_batch_run *run,
                               const nabla_batch_function *how) {
  MlirType types[MAX];
  making m = {.how = how, .batching = {.run = run, .size = how->size}};
  MlirOperation none = {NULL};
  if (!check_function(how)) return none;
  m.source = mlirOperationClone(how->function);
  m.from = nabla_region_block(m.source, 0);
  bool good = find_argument_types(&m, types);
  if (good) open_function(&m, types);
  good = good && find_count(&m) && map_arguments(&m) &&
         nabla_batch_block(&m.batching, m.from) && close_function(&m);
  if (m.batching.map.failed)
    nabla_error_at(how->function, "nabla-vmap: out of memory");
  nabla_batch_values_deinit(&m.batching.map);
  mlirOperationDestroy(m.source);
  return good ? m.made : none;
}
