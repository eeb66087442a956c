/* Tangents through cond, while and scan: the operation is made again with
 * tangents beside its values. */
#include <assert.h>
#include <stdlib.h>

#include "dialect/control.h"
#include "transforms/autodiff/forward.h"
#include "transforms/autodiff/loops.h"
#include "transforms/ir/build_control.h"

/* A region that is made again: `arguments` of its block, then the tangents of
 * those for which `has` is true. It yields `fixed` values as they are, then the
 * others, of which the first `pairs` have tangents behind them. */
typedef struct region {
  nabla_forward *f;
  MlirBlock block;
  intptr_t arguments;
  /* Positions in the new block of each argument and of its tangent; -1: none */
  intptr_t place[2 * NABLA_BUILD_MAX_CARRIES];
  intptr_t tangent[2 * NABLA_BUILD_MAX_CARRIES];
  /* What the region yields: number of an operand of its terminator, and whether
   * its tangent is meant */
  intptr_t yields;
  struct {
    intptr_t operand;
    bool tangent;
  } yield[NABLA_BUILD_MAX_CARRIES];
  bool failed;
} region;

static void add_yield(region *r, intptr_t operand, bool tangent) {
  if (r->yields < NABLA_BUILD_MAX_CARRIES) {
    r->yield[r->yields].operand = operand;
    r->yield[r->yields].tangent = tangent;
  }
  r->yields++;
}

static bool fill(region *r, const nabla_builder *b, const MlirValue *arguments,
                 MlirValue *results) {
  nabla_value_map copies = {0};
  MlirOperation end = nabla_block_end(r->block);
  for (intptr_t i = 0; i < r->arguments; i++) {
    MlirValue old = mlirBlockGetArgument(r->block, i);
    MlirValue value = arguments[r->place[i]];
    if (!nablaTypeIsAImplicit(mlirValueGetType(old)))
      value = nabla_build_dense(b, value);
    nabla_value_map_set(&copies, old, value);
    if (r->tangent[i] < 0) continue;
    nabla_varied_add(r->f->varied, value);
    nabla_value_map_set(&r->f->tangents, value, arguments[r->tangent[i]]);
  }
  bool good = nabla_block_copy(r->block, b->before, &copies);
  MlirBlock here = mlirOperationGetBlock(b->before);
  if (good) nabla_varied_mark(r->f->varied, here);
  /* operations that are replaced change what the copy yields: hold it */
  MlirOperation hold = {NULL};
  if (good) {
    hold = mlirOperationClone(end);
    mlirBlockInsertOwnedOperationBefore(here, b->before, hold);
    for (intptr_t i = 0; i < mlirOperationGetNumOperands(hold); i++)
      mlirOperationSetOperand(
          hold, i, nabla_copied(&copies, mlirOperationGetOperand(hold, i)));
    nabla_builder before = {hold};
    good = nabla_forward_block(r->f, here);
    for (intptr_t i = 0; good && i < r->yields; i++) {
      MlirValue value = mlirOperationGetOperand(hold, r->yield[i].operand);
      results[i] = r->yield[i].tangent
                       ? nabla_forward_or_zeros(r->f, &before, value)
                       : value;
    }
    nabla_op_erase(hold);
  }
  nabla_value_map_deinit(&copies);
  return good;
}

static void write_region(const nabla_builder *b, const MlirValue *arguments,
                         MlirValue *results, void *data) {
  region *r = data;
  r->failed = !fill(r, b, arguments, results);
}

static bool check_size(MlirOperation op, intptr_t count) {
  if (count <= NABLA_BUILD_MAX_CARRIES) return true;
  nabla_error_at(op,
                 "has no derivative: with tangents it would have %d values, "
                 "more than %d",
                 (int)count, NABLA_BUILD_MAX_CARRIES);
  return false;
}

/* Replaces `op` by `made`, whose results at `place` are the old ones, those at
 * `tangent`, where it is not -1, their tangents. */
static bool replace(nabla_forward *f, MlirOperation op, MlirOperation made,
                    const intptr_t *place, const intptr_t *tangent) {
  MlirValue values[NABLA_BUILD_MAX_CARRIES];
  if (mlirOperationIsNull(made)) return false;
  for (intptr_t i = 0; i < mlirOperationGetNumResults(op); i++) {
    values[i] = mlirOperationGetResult(made, place[i]);
    if (tangent[i] < 0) continue;
    nabla_varied_add(f->varied, values[i]);
    nabla_value_map_set(&f->tangents, values[i],
                        mlirOperationGetResult(made, tangent[i]));
  }
  nabla_derived_replace(f->derived, op, values);
  return true;
}

static bool varies(const nabla_forward *f, MlirValue value) {
  return nabla_value_map_has(f->varied, value);
}

/* Results, and where those that vary have their tangents: behind all others. */
static intptr_t place_results(const nabla_forward *f, MlirOperation op,
                              intptr_t *place, intptr_t *tangent) {
  const intptr_t count = mlirOperationGetNumResults(op);
  intptr_t next = count;
  for (intptr_t i = 0; i < count; i++) {
    place[i] = i;
    tangent[i] = varies(f, mlirOperationGetResult(op, i)) ? next++ : -1;
  }
  return next;
}

/* ---- cond ---- */

bool nabla_forward_cond(nabla_forward *f, MlirOperation op) {
  intptr_t place[NABLA_BUILD_MAX_CARRIES], tangent[NABLA_BUILD_MAX_CARRIES];
  nabla_built_region how[NABLA_BUILD_MAX_BRANCHES];
  const intptr_t count = mlirOperationGetNumRegions(op);
  const intptr_t results = mlirOperationGetNumResults(op);
  if (!check_size(op, 2 * results) || count > NABLA_BUILD_MAX_BRANCHES)
    return false;
  (void)place_results(f, op, place, tangent);
  region *regions = calloc((size_t)count, sizeof *regions);
  if (!regions) return false;
  for (intptr_t i = 0; i < count; i++) {
    regions[i] = (region){.f = f, .block = nabla_region_block(op, i)};
    for (intptr_t j = 0; j < results; j++) add_yield(&regions[i], j, false);
    for (intptr_t j = 0; j < results; j++)
      if (tangent[j] >= 0) add_yield(&regions[i], j, true);
    how[i] = (nabla_built_region){write_region, &regions[i], regions[i].yields};
  }
  nabla_builder b = {op};
  MlirOperation made =
      nabla_build_cond(&b, mlirOperationGetOperand(op, 0), count, how);
  free(regions);
  return replace(f, op, made, place, tangent);
}

/* ---- while ---- */

/* Carries that vary have a tangent behind all carries. */
static void read_carries(region *r, intptr_t count, const intptr_t *tangent) {
  r->arguments = count;
  for (intptr_t i = 0; i < count; i++) {
    r->place[i] = i;
    r->tangent[i] = tangent[i];
  }
}

static void yield_carries(region *r, intptr_t first, intptr_t count,
                          const intptr_t *tangent) {
  for (intptr_t i = 0; i < count; i++) add_yield(r, first + i, false);
  for (intptr_t i = 0; i < count; i++)
    if (tangent[i] >= 0) add_yield(r, first + i, true);
}

bool nabla_forward_while(nabla_forward *f, MlirOperation op) {
  intptr_t place[NABLA_BUILD_MAX_CARRIES], tangent[NABLA_BUILD_MAX_CARRIES];
  MlirValue initial[NABLA_BUILD_MAX_CARRIES];
  const intptr_t count = mlirOperationGetNumOperands(op);
  nabla_builder b = {op};
  if (!check_size(op, 2 * count + 1)) return false;
  const intptr_t all = place_results(f, op, place, tangent);
  for (intptr_t i = 0; i < count; i++) {
    initial[i] = mlirOperationGetOperand(op, i);
    if (tangent[i] >= 0)
      initial[tangent[i]] = nabla_forward_or_zeros(f, &b, initial[i]);
  }
  region test = {.f = f, .block = nabla_region_block(op, 0)}, body = test;
  body.block = nabla_region_block(op, 1);
  read_carries(&test, count, tangent);
  read_carries(&body, count, tangent);
  add_yield(&test, 0, false);
  yield_carries(&test, 1, count, tangent);
  yield_carries(&body, 0, count, tangent);
  const nabla_built_region how[2] = {{write_region, &test, test.yields},
                                     {write_region, &body, body.yields}};
  MlirOperation made = nabla_build_while(&b, all, initial, &how[0], &how[1]);
  if (!mlirOperationIsNull(made)) nabla_loop_attributes_keep(op, made);
  return replace(f, op, made, place, tangent);
}

/* ---- scan ---- */

/* A scan with tangents. */
typedef struct scanned {
  nabla_forward *f;
  nabla_builder b;
  MlirOperation op;
  nabla_scan_parts scan;
  MlirBlock body;
  MlirValue carries[NABLA_BUILD_MAX_CARRIES], inputs[NABLA_BUILD_MAX_CARRIES];
  MlirValue sizes[NABLA_BUILD_MAX_CARRIES];
  intptr_t carry_count, input_count, size_count;
  intptr_t place[NABLA_BUILD_MAX_CARRIES], tangent[NABLA_BUILD_MAX_CARRIES];
  region region;
} scanned;

static void add_carries(scanned *s) {
  const intptr_t count = s->scan.carries;
  s->carry_count = count;
  for (intptr_t i = 0; i < count; i++) {
    s->carries[i] = mlirOperationGetOperand(s->op, i);
    s->place[i] = s->region.place[i] = i;
    s->tangent[i] = s->region.tangent[i] = -1;
    if (!varies(s->f, mlirBlockGetArgument(s->body, i))) continue;
    s->tangent[i] = s->region.tangent[i] = s->carry_count;
    s->carries[s->carry_count++] =
        nabla_forward_or_zeros(s->f, &s->b, s->carries[i]);
  }
}

/* Their slices stand behind all carries in the block. */
static void add_inputs(scanned *s) {
  const intptr_t first = s->scan.carries;
  for (intptr_t i = 0; i < s->scan.inputs; i++) {
    MlirValue x = mlirOperationGetOperand(s->op, first + i);
    s->region.place[first + i] = s->carry_count + s->input_count;
    s->region.tangent[first + i] = -1;
    s->inputs[s->input_count++] = x;
  }
  for (intptr_t i = 0; i < s->scan.inputs; i++) {
    MlirValue tangent = nabla_value_map_get(&s->f->tangents, s->inputs[i]);
    if (mlirValueIsNull(tangent)) continue;
    s->region.tangent[first + i] = s->carry_count + s->input_count;
    s->inputs[s->input_count++] = tangent;
  }
}

/* The carries, the tangents of carries, stacked outputs, their tangents. */
static void add_outputs(scanned *s) {
  const intptr_t first = s->scan.carries;
  assert(first >= 0);
  intptr_t at = s->carry_count;
  for (intptr_t i = 0; i < first; i++) add_yield(&s->region, i, false);
  for (intptr_t i = 0; i < first; i++)
    if (s->tangent[i] >= 0) add_yield(&s->region, i, true);
  for (intptr_t i = 0; i < s->scan.outputs; i++) {
    add_yield(&s->region, first + i, false);
    s->place[first + i] = at++;
  }
  for (intptr_t i = 0; i < s->scan.outputs; i++) {
    s->tangent[first + i] = -1;
    if (!varies(s->f, mlirOperationGetResult(s->op, first + i))) continue;
    add_yield(&s->region, first + i, true);
    s->tangent[first + i] = at++;
  }
}

/* The sizes of the outputs, and again of those that have tangents. */
static void add_sizes(scanned *s) {
  const intptr_t first = s->scan.carries + s->scan.inputs + s->scan.lengths;
  assert(s->scan.carries >= 0);
  for (int again = 0; again < 2; again++) {
    intptr_t next = first;
    for (intptr_t i = s->scan.carries; i < s->scan.carries + s->scan.outputs;
         i++) {
      MlirType type = nabla_result_type(s->op, i);
      for (intptr_t d = 1; d < nabla_array_rank(type); d++) {
        if (!nabla_is_dynamic(nabla_array_dim(type, d))) continue;
        MlirValue size = mlirOperationGetOperand(s->op, next++);
        if ((!again || s->tangent[i] >= 0) &&
            s->size_count < NABLA_BUILD_MAX_CARRIES)
          s->sizes[s->size_count++] = size;
      }
    }
  }
}

static bool check_outputs(const scanned *s) {
  for (intptr_t i = s->scan.carries; i < s->scan.carries + s->scan.outputs;
       i++) {
    if (!nablaTypeIsAImplicit(nabla_result_type(s->op, i))) continue;
    nabla_error_at(s->op,
                   "has no derivative: it stacks packed arrays; quantize the "
                   "stacked array behind it");
    return false;
  }
  return true;
}

static MlirOperation make_scan(scanned *s) {
  const nabla_built_scan how = {
      .carry_count = s->carry_count,
      .input_count = s->input_count,
      .size_count = s->size_count,
      .carries = s->carries,
      .inputs = s->inputs,
      .length = s->scan.lengths ? mlirOperationGetOperand(
                                      s->op, s->scan.carries + s->scan.inputs)
                                : (MlirValue){NULL},
      .sizes = s->sizes,
      .reverse = s->scan.reverse};
  const nabla_built_region body = {write_region, &s->region, s->region.yields};
  return nabla_build_scan(&s->b, &how, &body);
}

bool nabla_forward_scan(nabla_forward *f, MlirOperation op) {
  const nabla_scan_parts scan = nabla_scan_read(op);
  if (!check_size(op, 2 * (scan.carries + scan.inputs + scan.outputs)))
    return false;
  scanned *s = calloc(1, sizeof *s);
  if (!s) return false;
  *s = (scanned){.f = f,
                 .b = {op},
                 .op = op,
                 .scan = scan,
                 .body = nabla_region_block(op, 0)};
  s->region.f = f;
  s->region.block = s->body;
  s->region.arguments = scan.carries + scan.inputs;
  bool good = check_outputs(s);
  if (good) {
    add_carries(s);
    add_inputs(s);
    add_outputs(s);
    add_sizes(s);
    MlirOperation made = make_scan(s);
    if (!mlirOperationIsNull(made)) nabla_loop_attributes_keep(op, made);
    good = replace(f, op, made, s->place, s->tangent);
  }
  free(s);
  return good;
}
