/* Running operations again for the pass back, in the function that does all:
 * behind a barrier of what they begin with, as late as possible. */
#include <mlir-c/BuiltinTypes.h>
#include <stdlib.h>

#include "dialect/control.h"
#include "transforms/autodiff/saved.h"

typedef struct again {
  nabla_saved s;
  nabla_value_map map;   /* what runs again, of the function's values */
  nabla_value_map waits; /* what it begins with, behind barriers */
  bool *pending;         /* for each operation before the mark */
  size_t *list;          /* the pending ones */
  size_t count;
  MlirOperation before; /* operation of the pass back */
  MlirValue after;      /* an array that is computed before it */
} again;

/* ---- which operations ---- */

/* The number of the operation that makes a value and runs again; SIZE_MAX: the
 * value is used as it is. */
static size_t runs_again(const again *a, MlirValue value) {
  const size_t number = nabla_block_index_definition(&a->s.index, value);
  if (number == SIZE_MAX || number >= a->s.mark) return SIZE_MAX;
  if (!mlirOperationEqual(nabla_defining_op(value), a->s.index.ops[number]))
    return SIZE_MAX; /* inside */
  return a->s.needed[number] && nabla_is_kept(value) ? number : SIZE_MAX;
}

static MlirWalkResult ask(MlirOperation op, void *self) {
  again *a = self;
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++) {
    MlirValue value = mlirOperationGetOperand(op, i);
    const size_t number = runs_again(a, value);
    if (number == SIZE_MAX || a->pending[number] ||
        nabla_value_map_has(&a->map, value))
      continue;
    a->pending[number] = true;
    a->list[a->count++] = number;
  }
  return MlirWalkResultAdvance;
}

static int compare(const void *x, const void *y) {
  const size_t a = *(const size_t *)x, b = *(const size_t *)y;
  return a < b ? -1 : a > b;
}

/* All that `op` needs, directly or not, and does not have yet. */
static void find_pending(again *a, MlirOperation op) {
  a->count = 0;
  mlirOperationWalk(op, ask, a, MlirWalkPreOrder);
  for (size_t i = 0; i < a->count; i++)
    mlirOperationWalk(a->s.index.ops[a->list[i]], ask, a, MlirWalkPreOrder);
  qsort(a->list, a->count, sizeof *a->list, compare);
}

/* ---- what they begin with ---- */

typedef struct beginning {
  again *a;
  MlirOperation op;
  nabla_value_list values;
  nabla_value_map seen;
} beginning;

static MlirWalkResult add_beginning(MlirOperation op, void *self) {
  beginning *g = self;
  MlirBlock entry = nabla_region_block(g->a->s.function, 0);
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++) {
    MlirValue value = mlirOperationGetOperand(op, i);
    const bool outside =
        mlirValueIsABlockArgument(value)
            ? mlirBlockEqual(mlirBlockArgumentGetOwner(value), entry)
            : mlirBlockEqual(mlirOperationGetBlock(nabla_defining_op(value)),
                             entry);
    if (!outside || !nabla_is_kept(value) ||
        runs_again(g->a, value) != SIZE_MAX ||
        nabla_value_map_has(&g->a->waits, value) ||
        nabla_value_map_has(&g->seen, value))
      continue;
    nabla_value_map_set(&g->seen, value, value);
    nabla_value_list_add(&g->values, value);
  }
  return MlirWalkResultAdvance;
}

static bool add_barrier(again *a) {
  const nabla_builder b = {a->before};
  beginning g = {.a = a};
  for (size_t i = 0; i < a->count; i++)
    mlirOperationWalk(a->s.index.ops[a->list[i]], add_beginning, &g,
                      MlirWalkPreOrder);
  const bool good = !g.values.failed && !g.seen.failed &&
                    nabla_barrier_add(&b, &g.values, a->after, &a->waits);
  nabla_value_list_deinit(&g.values);
  nabla_value_map_deinit(&g.seen);
  return good;
}

/* ---- running them ---- */

static MlirWalkResult rename_copy(MlirOperation op, void *self) {
  const again *a = self;
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++) {
    MlirValue value = mlirOperationGetOperand(op, i);
    MlirValue to = nabla_value_map_get(&a->map, value);
    if (mlirValueIsNull(to)) to = nabla_value_map_get(&a->waits, value);
    if (!mlirValueIsNull(to)) mlirOperationSetOperand(op, i, to);
  }
  return MlirWalkResultAdvance;
}

static MlirWalkResult rename_use(MlirOperation op, void *self) {
  const again *a = self;
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++) {
    MlirValue to = nabla_value_map_get(&a->map, mlirOperationGetOperand(op, i));
    if (!mlirValueIsNull(to)) mlirOperationSetOperand(op, i, to);
  }
  return MlirWalkResultAdvance;
}

static void run(again *a, size_t number) {
  MlirOperation op = a->s.index.ops[number], copy = mlirOperationClone(op);
  mlirBlockInsertOwnedOperationBefore(mlirOperationGetBlock(a->before),
                                      a->before, copy);
  mlirOperationWalk(copy, rename_copy, a, MlirWalkPreOrder);
  for (intptr_t i = 0; i < mlirOperationGetNumResults(op); i++)
    nabla_value_map_set(&a->map, mlirOperationGetResult(op, i),
                        mlirOperationGetResult(copy, i));
  a->pending[number] = false;
}

/* An operation of the pass back uses what runs again. */
static bool change(again *a, MlirOperation op) {
  a->before = op;
  find_pending(a, op);
  if (a->count && !add_barrier(a)) return false;
  for (size_t i = 0; i < a->count; i++) run(a, a->list[i]);
  mlirOperationWalk(op, rename_use, a, MlirWalkPreOrder);
  for (intptr_t i = 0; i < mlirOperationGetNumResults(op); i++)
    if (nabla_is_kept(mlirOperationGetResult(op, i)))
      a->after = mlirOperationGetResult(op, i);
  return !a->map.failed && !a->waits.failed;
}

/* The gradients alone; results are those of the function. */
static bool change_end(again *a, MlirOperation end) {
  const intptr_t count = mlirOperationGetNumOperands(end);
  MlirValue *results = calloc((size_t)a->s.results + 1, sizeof *results);
  if (!results) return false;
  for (intptr_t i = 0; i < a->s.results; i++) {
    results[i] = mlirOperationGetOperand(end, i);
    if (count > a->s.results) /* not asked for */
      mlirOperationSetOperand(end, i, a->after);
  }
  const bool good = change(a, end);
  for (intptr_t i = 0; i < a->s.results; i++)
    mlirOperationSetOperand(end, i, results[i]);
  free(results);
  return good;
}

bool nabla_derive_again(nabla_derived *d, MlirOperation made, nabla_save save,
                        intptr_t arguments, intptr_t results) {
  MlirBlock entry = nabla_region_block(made, 0);
  again a = {.s = {.d = d, .function = made, .save = save, .results = results}};
  bool good = nabla_saved_find(&a.s);
  if (good && mlirBlockGetNumArguments(entry) > arguments) {
    a.after = mlirBlockGetArgument(entry, arguments); /* a cotangent */
    a.pending = calloc(a.s.mark + 1, sizeof *a.pending);
    a.list = calloc(a.s.mark + 1, sizeof *a.list);
    good = a.pending && a.list;
    for (size_t i = a.s.mark + 1; good && i < a.s.index.count; i++)
      good = change(&a, a.s.index.ops[i]);
    good = good && change_end(&a, nabla_block_end(entry));
  }
  if (good) {
    nabla_op_erase(a.s.index.ops[a.s.mark]);
    nabla_unused_erase(d->module, entry);
  }
  free(a.pending);
  free(a.list);
  nabla_value_map_deinit(&a.map);
  nabla_value_map_deinit(&a.waits);
  nabla_saved_deinit(&a.s);
  return good;
}
