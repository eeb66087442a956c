/* The batch of a while: it runs until the last example is done; examples that
 * are done keep their carries. */
#include "transforms/batching/control_while.h"

#include <mlir-c/BuiltinTypes.h>

#include "dialect/control.h"
#include "transforms/batching/regions.h"

enum { MAX = NABLA_MAX_OPERANDS, ANY = 5 };

typedef struct while_batch {
  MlirOperation op;
  MlirBlock condition, body;
  intptr_t count; /* of carries */
  bool batched[MAX];
  bool differs;   /* by example, when it ends */
  bool passes_on; /* the condition's region passes on other values than its
                   * arguments: they are carries too, behind the others */
} while_batch;

/* Carries and the condition that are batched, whichever region makes them. */
static void find_batched(const nabla_batching *s, while_batch *w) {
  bool passed[MAX + 1], yielded[MAX];
  for (intptr_t i = 0; i < w->count; i++)
    w->batched[i] = nabla_batch_is(s, mlirOperationGetOperand(w->op, i));
  for (bool changes = true; changes;) {
    changes = false;
    nabla_batch_flow(s, w->condition, w->batched, passed);
    nabla_batch_flow(s, w->body, passed + 1, yielded);
    for (intptr_t i = 0; i < w->count; i++) {
      bool is = passed[i + 1] || yielded[i] || passed[0];
      changes = changes || (is && !w->batched[i]);
      w->batched[i] = w->batched[i] || is;
    }
    w->differs = passed[0];
  }
}

static MlirOperation end_of(MlirBlock block) { return nabla_block_end(block); }

static bool passes_on(const while_batch *w) {
  for (intptr_t i = 0; i < w->count; i++)
    if (!mlirValueEqual(mlirOperationGetOperand(end_of(w->condition), i + 1),
                        mlirBlockGetArgument(w->condition, i)))
      return true;
  return false;
}

/* Makes the operations of the condition's region for the arguments of `to`;
 * stores what the condition is. */
static bool write_condition(nabla_batching *s, const while_batch *w,
                            MlirBlock to, MlirValue *out) {
  bool good = nabla_batch_region(s, w->condition, to, w->batched);
  if (!good) return false;
  MlirValue source = mlirOperationGetOperand(end_of(w->condition), 0);
  *out = w->differs ? nabla_batch_as(s, source, true)
                    : nabla_batch_get(s, source).value;
  return !mlirValueIsNull(*out);
}

/* The values that the condition's region passes on. */
static void passed_values(const nabla_batching *s, const while_batch *w,
                          MlirValue *out) {
  for (intptr_t i = 0; i < w->count; i++)
    out[i] = nabla_batch_as(
        s, mlirOperationGetOperand(end_of(w->condition), i + 1), w->batched[i]);
}

static bool write_test(nabla_batching *s, const while_batch *w,
                       MlirOperation made) {
  MlirValue values[2 * MAX + 1];
  MlirBlock to = nabla_region_block(made, 0);
  nabla_batch_place place = nabla_batch_begin(s, made, 0);
  intptr_t count = 1;
  bool good = write_condition(s, w, to, &values[0]);
  if (good && w->differs)
    values[0] = nabla_build_reduce(&s->b, ANY, values[0], 0);
  for (intptr_t i = 0; good && w->passes_on && w->differs && i < w->count; i++)
    values[count++] = mlirBlockGetArgument(to, i);
  if (good) passed_values(s, w, values + count);
  return nabla_batch_end(s, place, "nabla.condition",
                         good ? count + w->count : 0, values) &&
         good;
}

/* The body's arguments: those of the body, behind those of the condition where
 * these differ. */
static bool write_body(nabla_batching *s, const while_batch *w,
                       MlirOperation made) {
  MlirValue values[2 * MAX], active = {NULL};
  MlirBlock to = nabla_region_block(made, 1);
  intptr_t first = w->passes_on && w->differs ? w->count : 0;
  nabla_batch_place place = nabla_batch_begin(s, made, 1);
  bool good = !w->differs || write_condition(s, w, to, &active);
  for (intptr_t i = 0; good && i < w->count; i++)
    good = nabla_batch_set(
        s, mlirBlockGetArgument(w->body, i),
        (nabla_batched){mlirBlockGetArgument(to, first + i), w->batched[i]});
  good = good && nabla_batch_block(s, w->body);
  for (intptr_t i = 0; good && i < w->count; i++) {
    values[i] = nabla_batch_as(s, mlirOperationGetOperand(end_of(w->body), i),
                               w->batched[i]);
    if (w->differs)
      values[i] =
          nabla_batch_choose(s, active, values[i], mlirBlockGetArgument(to, i));
  }
  for (intptr_t i = 0; good && first && i < w->count; i++)
    values[first + i] = mlirBlockGetArgument(to, first + i);
  return nabla_batch_end(s, place, "nabla.yield", good ? first + w->count : 0,
                         values) &&
         good;
}

static bool make_while(nabla_batching *s, const while_batch *w) {
  MlirValue initial[2 * MAX];
  MlirType types[4 * MAX];
  intptr_t times = w->passes_on && w->differs ? 2 : 1;
  intptr_t count = times * w->count;
  for (intptr_t i = 0; i < w->count; i++) {
    initial[i] =
        nabla_batch_as(s, mlirOperationGetOperand(w->op, i), w->batched[i]);
    if (mlirValueIsNull(initial[i])) return false;
  }
  for (intptr_t i = 0; i < 2 * count; i++) {
    if (i < count) initial[i] = initial[i % w->count];
    types[i] = mlirValueGetType(initial[i % w->count]);
  }
  nabla_batch_copy copy = {.op = w->op,
                           .operand_count = count,
                           .operands = initial,
                           .result_count = count,
                           .results = types};
  const intptr_t arguments[] = {count, count};
  MlirOperation made =
      nabla_batch_open(s, "nabla.while", &copy, 2, arguments, types);
  bool good = !mlirOperationIsNull(made) && write_test(s, w, made) &&
              write_body(s, w, made);
  for (intptr_t i = 0; good && i < w->count; i++)
    good = nabla_batch_set(
        s, mlirOperationGetResult(w->op, i),
        (nabla_batched){mlirOperationGetResult(made, count - w->count + i),
                        w->batched[i]});
  return good;
}

bool nabla_batch_while(nabla_batching *s, MlirOperation op) {
  while_batch w = {.op = op,
                   .condition = nabla_region_block(op, 0),
                   .body = nabla_region_block(op, 1),
                   .count = mlirOperationGetNumOperands(op)};
  MlirOperation culprit;
  find_batched(s, &w);
  w.passes_on = passes_on(&w);
  if (!w.differs) return make_while(s, &w);
  nabla_batch_harm harm = nabla_batch_harm_of(s, op, &culprit);
  if (harm == NABLA_BATCH_CAN_FAIL) return nabla_batch_each(s, op);
  if (harm == NABLA_BATCH_HARMLESS) return make_while(s, &w);
  nabla_error_at(culprit,
                 "nabla-vmap: has effects, and stands in a while that ends at "
                 "another step for each example: it would run for those that "
                 "are done");
  return false;
}
