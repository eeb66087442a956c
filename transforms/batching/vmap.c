/* nabla-vmap: the function of a batch beside a function. */
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dialect/control.h"
#include "dialect/verify/checks.h"
#include "transforms/batching/batching.h"
#include "transforms/ir/call_graph.h"
#include "transforms/passes.h"
#include "transforms/shard/layout.h"

enum { MAX = NABLA_MAX_OPERANDS };

static MlirOperation find_function(MlirOperation module, const char *name) {
  MlirOperation none = {NULL};
  for (MlirOperation op =
           mlirBlockGetFirstOperation(nabla_region_block(module, 0));
       !mlirOperationIsNull(op); op = mlirOperationGetNextInBlock(op)) {
    MlirAttribute own =
        mlirOperationGetAttributeByName(op, nabla_ref("sym_name"));
    if (nabla_is(op, "func.func") &&
        nabla_text_equals(mlirStringAttrGetValue(own), name))
      return op;
  }
  nabla_error_at(module, "nabla-vmap: there is no function @%s", name);
  return none;
}

/* ---- axes ---- */

/* A list of axes: "0,none,-1". `rank` has the rank of each array, with its
 * batch. */
typedef struct axes {
  const char *option, *text;
  MlirOperation function;
  intptr_t count;
  const intptr_t *ranks;
} axes;

static bool refuse_axes(const axes *a, const char *why, intptr_t index) {
  nabla_error_at(a->function,
                 "nabla-vmap: %s=%s: %s (number %d); one axis for all, or one "
                 "of each: a dimension of the batched array, from its end if "
                 "negative, or none",
                 a->option, a->text, why, (int)index);
  return false;
}

/* Reads the entry at `*at` and steps behind it. */
static bool read_axis(const axes *a, const char **at, intptr_t index,
                      intptr_t *out) {
  size_t length = strcspn(*at, ",");
  if (length == 4 && !strncmp(*at, "none", 4)) {
    *out = NABLA_BATCH_NO_AXIS;
    *at += length;
    return true;
  }
  char *end;
  long value = strtol(*at, &end, 10);
  if (length == 0 || end != *at + length || value < -NABLA_MAX_RANK ||
      value > NABLA_MAX_RANK)
    return refuse_axes(a, "is no axis", index);
  *out = (intptr_t)value;
  *at = end;
  return true;
}

/* Counts from the end where negative, and checks. */
static bool settle(const axes *a, intptr_t index, intptr_t *axis) {
  intptr_t rank = a->ranks[index];
  if (*axis == NABLA_BATCH_NO_AXIS || rank == 0) return true;
  if (*axis < 0) *axis += rank;
  return (*axis >= 0 && *axis < rank) ||
         refuse_axes(a, "is no dimension of it", index);
}

static bool read_axes(const axes *a, intptr_t *out) {
  const char *at = a->text;
  intptr_t found = 0;
  for (bool more = true; more; found++) {
    intptr_t axis;
    if (!read_axis(a, &at, found, &axis)) return false;
    if (found < a->count) out[found] = axis;
    more = *at == ',';
    at += more;
  }
  if (found != a->count && found != 1)
    return refuse_axes(a, "there are more or fewer arrays", found);
  for (intptr_t i = 1; found == 1 && i < a->count; i++) out[i] = out[0];
  for (intptr_t i = 0; i < a->count; i++)
    if (!settle(a, i, &out[i])) return false;
  return true;
}

/* The rank of an array with its batch; 0: no array. */
static intptr_t batched_rank(MlirType type) {
  bool is_array = nablaTypeIsAImplicit(type) || mlirTypeIsARankedTensor(type);
  return is_array ? nabla_array_rank(type) + 1 : 0;
}

static bool read_size(MlirOperation function, const char *text, int64_t *out) {
  char *end;
  *out = mlirShapedTypeGetDynamicSize();
  if (!strcmp(text, "?")) return true;
  *out = strtoll(text, &end, 10);
  if (*text && !*end && *out >= 0 && *out <= INT64_C(1) << 40) return true;
  nabla_error_at(function,
                 "nabla-vmap: axis-size=%s is no size: a number from 0 on, or "
                 "? for one that is known when it runs",
                 text);
  return false;
}

/* ---- a mesh ---- */

/* The axis that the batch stands on; "": none. */
static bool find_spmd(MlirOperation function, const char *axis, int64_t size,
                      nabla_grid *grid, nabla_batch_run *out) {
  size_t meshes = 0;
  if (!*axis) return true;
  MlirOperation module = mlirOperationGetParentOperation(function);
  if (!nabla_shard_begin(module, grid, &meshes)) return false;
  const int at = meshes ? nabla_mesh_axis(&grid->mesh, axis) : -1;
  if (at < 0) {
    nabla_error_at(
        function, "nabla-vmap: spmd-axis=%s: %s", axis,
        meshes ? "the mesh has no such axis" : "the module has no mesh");
    return false;
  }
  if (nabla_is_dynamic(size) || size % grid->mesh.sizes[at]) {
    nabla_error_at(function,
                   "nabla-vmap: spmd-axis=%s: axis-size is a multiple of the "
                   "axis, of size %d",
                   axis, (int)grid->mesh.sizes[at]);
    return false;
  }
  out->spmd_axis = axis;
  out->mesh = grid->mesh.name;
  out->spmd_size = grid->mesh.sizes[at];
  return true;
}

/* ---- the pass ---- */

static bool make(MlirOperation module, MlirOperation function,
                 const nablaPassValue *values) {
  intptr_t in[MAX + 1], out[MAX + 1], ranks[MAX + 1];
  int64_t size;
  MlirType type = mlirTypeAttrGetValue(
      mlirOperationGetAttributeByName(function, nabla_ref("function_type")));
  intptr_t inputs = mlirFunctionTypeGetNumInputs(type);
  intptr_t results = mlirFunctionTypeGetNumResults(type);
  if (inputs > MAX || results > MAX) {
    nabla_error_at(function,
                   "nabla-vmap: has more than %d arguments or results", MAX);
    return false;
  }
  for (intptr_t i = 0; i < inputs; i++)
    ranks[i] = batched_rank(mlirFunctionTypeGetInput(type, i));
  axes a = {"in-axes", values[1].string, function, inputs, ranks};
  if (!read_axes(&a, in)) return false;
  for (intptr_t i = 0; i < results; i++)
    ranks[i] = batched_rank(mlirFunctionTypeGetResult(type, i));
  a = (axes){"out-axes", values[2].string, function, results, ranks};
  if (!read_axes(&a, out) || !read_size(function, values[3].string, &size))
    return false;
  char name[256];
  MlirStringRef own = mlirStringAttrGetValue(
      mlirOperationGetAttributeByName(function, nabla_ref("sym_name")));
  (void)snprintf(name, sizeof name, "%.*s.vmap",
                 (int)(own.length < 240 ? own.length : 240), own.data);
  if (nabla_module_has(function, name)) {
    nabla_error_at(function, "nabla-vmap: there is a function @%s already",
                   name);
    return false;
  }
  nabla_grid grid;
  nabla_batch_run run = {.module = module};
  if (!find_spmd(function, values[4].string, size, &grid, &run)) return false;
  const nabla_batch_function how = {.function = function,
                                    .name = name,
                                    .size = size,
                                    .in_axes = in,
                                    .out_axes = out};
  nabla_batching batching = {.run = &run};
  MlirOperation made = nabla_batch_make(&run, &how);
  bool good =
      !mlirOperationIsNull(made) && nabla_batch_arguments(&batching, made, in);
  while (run.functions) {
    nabla_batched_function *next = run.functions->next;
    free(run.functions);
    run.functions = next;
  }
  return good;
}

MlirLogicalResult nabla_run_vmap(MlirOperation op, const nablaPassValue *values,
                                 void *prepared) {
  (void)prepared;
  MlirOperation function = find_function(op, values[0].string);
  bool good = !mlirOperationIsNull(function) && nabla_call_graph_check(op) &&
              make(op, function, values);
  return good ? mlirLogicalResultSuccess() : mlirLogicalResultFailure();
}
