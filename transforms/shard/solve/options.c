/* Options of operations that have factors: see options.h. */
#include "transforms/shard/solve/options.h"

#include <math.h>
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <stdlib.h>
#include <string.h>

#include "dialect/bridge.h"
#include "dialect/ops.h"
#include "transforms/cost/cost_count.h"
#include "transforms/shard/reshard.h"

typedef struct finder {
  nabla_option_lists *lists;
  MlirOperation op;
  nabla_factors factors;
  nabla_shard_options *out;
  nabla_cost cost; /* of the whole */
} finder;

static nabla_division join_as(const finder *f, uint32_t array,
                              const nabla_atom_list *lists) {
  const nabla_factor_array *a = &f->factors.arrays[array];
  nabla_division layout =
      nabla_factors_join(f->lists->grid, &f->factors, a, lists);
  layout.type = mlirValueGetType(a->value);
  return layout;
}

/* ---- what an option costs ---- */

/* The joins of a result that has factors, as nabla-partition makes them. */
static bool add_joins(const finder *f, const nabla_atom_list *lists,
                      nabla_division now, const nabla_division *to,
                      nabla_exchange *out) {
  char message[NABLA_MESSAGE_SIZE];
  MlirType from, type;
  const nabla_grid *grid = f->lists->grid;
  const nabla_shard_machine *machine = f->lists->machine;
  for (uint32_t i = 0; i < f->factors.count; i++) {
    if (f->factors.all[i].kind != NABLA_FACTOR_REDUCE || !lists[i].count)
      continue;
    const intptr_t dim = nabla_reshard_scatters(grid, &now, to, &lists[i]);
    nabla_division after = now;
    if (dim >= 0) after.dims[dim] = to->dims[dim];
    if (!nabla_layout_local(grid, &now, &from, message)) return false;
    if (dim >= 0 && nabla_layout_local(grid, &after, &type, message)) {
      nabla_exchange_add(grid, machine, "nabla.reduce_scatter", &lists[i], from,
                         type, out);
      now = after;
    } else {
      nabla_exchange_add(grid, machine, "nabla.all_reduce", &lists[i], from,
                         from, out);
    }
  }
  return nabla_exchange_reshard(grid, machine, &now, to, out);
}

/* The share of an operation's work that a device does. */
static double share_of(const finder *f, const nabla_atom_list *lists) {
  double share = 1;
  for (uint32_t i = 0; i < f->factors.count; i++) {
    const int64_t n = nabla_atoms_product(&f->lists->grid->atoms, &lists[i]);
    const int64_t size = f->factors.all[i].size;
    if (n < 2) continue;
    share *= nabla_is_dynamic(size) || size < 1
                 ? 1 / (double)n
                 : (double)((size + n - 1) / n) / (double)size;
  }
  return share;
}

/* Computing and moving hide each other, but not wholly. Measured times are 1.05
 * to 1.4 of this root for products of 32 rows, which take about as long for
 * either, and .9 to 1.0 for 256 rows (bench/shard_times.py, under load). */
static double compute_seconds(const finder *f, const nabla_shard_option *o,
                              double share) {
  const nabla_shard_machine *m = f->lists->machine;
  const nabla_grid *grid = f->lists->grid;
  double whole = 0, pieces = 0;
  for (intptr_t i = 0; i < f->out->operand_count; i++) {
    whole += (double)nabla_cost_array_bytes(o->operands[i].type, 1);
    pieces += (double)nabla_piece_bytes(grid, &o->operands[i]);
  }
  for (intptr_t r = 0; r < f->out->result_count; r++) {
    whole += (double)nabla_cost_array_bytes(o->results[r].type, 1);
    pieces += (double)nabla_piece_bytes(grid, &o->results[r]);
  }
  const double moved = ((double)f->cost.read + (double)f->cost.written) *
                       (whole > 0 ? pieces / whole : 1);
  const double computing =
      (double)f->cost.operations * share / m->operations_per_second;
  const double moving = moved / m->bytes_per_second;
  return sqrt(computing * computing + moving * moving);
}

/* Products pack their first operand: f32 on CPUs with AMX as three terms of
 * bf16 (lib/kernels/f32/pack_a.c), half as much again as it takes, which is
 * counted on all CPUs. What is joined is another array than what comes of it.
 */
static uint64_t bytes_beside(const finder *f, const nabla_shard_option *o,
                             const nabla_atom_list *lists) {
  uint64_t all = 0;
  const nabla_grid *grid = f->lists->grid;
  const bool is_product =
      nabla_is(f->op, "nabla.linear") || nabla_is(f->op, "nabla.dot_general");
  if (is_product) all += nabla_piece_bytes(grid, &o->operands[0]) / 2 * 3;
  for (uint32_t a = 0; a < f->factors.array_count && o->joins.bytes; a++) {
    if (!f->factors.arrays[a].is_result) continue;
    const nabla_division natural = join_as(f, a, lists);
    all += nabla_piece_bytes(grid, &natural);
  }
  return all;
}

/* ---- one option ---- */

/* The plan that nabla-partition would make of these layouts. */
static void plan_of(finder *f, const nabla_atom_list *lists,
                    const nabla_division *result, nabla_shard_plan *out) {
  for (uint32_t a = 0; a < f->factors.array_count; a++) {
    nabla_division *at =
        nabla_layout_at(&f->lists->map, f->factors.arrays[a].value);
    if (!at) {
      f->lists->failed = true;
      return;
    }
    *at = f->factors.arrays[a].is_result && result ? *result
                                                   : join_as(f, a, lists);
  }
  nabla_shard_plan_try(f->lists->grid, &f->lists->map, f->op, out);
}

static bool lists_equal(const finder *f, const nabla_atom_list *a,
                        const nabla_atom_list *b) {
  for (uint32_t i = 0; i < f->factors.count; i++)
    if (!nabla_atoms_equal(&a[i], &b[i])) return false;
  return true;
}

/* Whether the option is there. */
static bool has(const finder *f, const nabla_atom_list *lists,
                const nabla_division *result) {
  for (uint32_t i = 0; i < f->out->count; i++)
    if (lists_equal(f, f->out->all[i].lists, lists) &&
        (!result || nabla_layout_equal(&f->out->all[i].results[0], result)))
      return true;
  return false;
}

/* Adds an option whose first result its users find in layout `to`; NULL: all
 * as the operation gives them. */
static void add_option(finder *f, const nabla_atom_list *lists,
                       const nabla_division *to) {
  nabla_shard_plan plan;
  nabla_exchange joins = {0};
  if (f->out->is_cut || has(f, lists, to)) return;
  plan_of(f, lists, to, &plan);
  if (f->lists->failed || !plan.is_divided ||
      !lists_equal(f, plan.lists, lists))
    return;
  for (uint32_t a = 0; a < f->factors.array_count; a++) {
    if (!f->factors.arrays[a].is_result) continue;
    const nabla_division natural = join_as(f, a, lists);
    if (!add_joins(f, lists, natural, to ? to : &natural, &joins)) return;
  }
  f->out->is_cut = f->out->count >= NABLA_MOST_OPTIONS;
  nabla_shard_option *o =
      f->out->is_cut ? NULL : nabla_option_add(f->lists, f->out);
  if (!o) return;
  memcpy(o->lists, lists, sizeof o->lists);
  for (intptr_t i = 0; i < f->out->operand_count; i++)
    o->operands[i] = nabla_layout_whole(nabla_operand_type(f->op, i));
  for (intptr_t r = 0; r < f->out->result_count; r++)
    o->results[r] = nabla_layout_whole(nabla_result_type(f->op, r));
  for (uint32_t a = 0; a < f->factors.array_count; a++) {
    const nabla_factor_array *at = &f->factors.arrays[a];
    const nabla_division layout = join_as(f, a, lists);
    if (!at->is_result)
      o->operands[at->index] = layout;
    else
      o->results[at->index] = layout;
  }
  o->joins = joins;
  o->at_once = bytes_beside(f, o, lists);
  o->seconds = joins.seconds + compute_seconds(f, o, share_of(f, lists));
  if (to) o->results[0] = *to;
}

/* Results that joins leave divided, or that are gathered at once. */
static void add_results(finder *f, const nabla_atom_list *lists) {
  uint32_t first = 0;
  while (!f->factors.arrays[first].is_result) first++;
  const nabla_division natural = join_as(f, first, lists);
  add_option(f, lists, NULL);
  if (f->out->result_count != 1) return;
  for (uint32_t i = 0; i < f->factors.count; i++) {
    if (f->factors.all[i].kind != NABLA_FACTOR_REDUCE || !lists[i].count)
      continue;
    for (intptr_t d = 0; d < natural.rank; d++) {
      nabla_division to = natural;
      nabla_atom_list *dim = &to.dims[d];
      if (nabla_is_dynamic(nabla_array_dim(to.type, d)) ||
          nabla_array_dim(to.type, d) < 2)
        continue;
      memcpy(dim->at + dim->count, lists[i].at, lists[i].count);
      dim->count += lists[i].count;
      add_option(f, lists, &to);
    }
  }
  const nabla_division whole = nabla_layout_whole(natural.type);
  if (!nabla_layout_is_whole(&natural)) add_option(f, lists, &whole);
}

/* Adds the options of lists, divided less where they cannot be divided so.
 * False where no more are wanted. */
static bool try_lists(void *self, const nabla_atom_list *lists) {
  finder *f = self;
  nabla_shard_plan plan;
  nabla_atom_list fitting[NABLA_MAX_FACTORS];
  if (f->lists->failed) return false;
  plan_of(f, lists, NULL, &plan);
  if (!plan.is_divided) return true;
  memcpy(fitting, plan.lists, sizeof fitting);
  if (!has(f, fitting, NULL)) add_results(f, fitting);
  return !f->out->is_cut && !f->lists->failed;
}

/* ---- operations ---- */

static MlirAttribute annotation_of(MlirOperation op) {
  const bool is_note = nabla_is(op, "nabla.sharding_constraint") ||
                       nabla_is(op, "nabla.reshard");
  MlirAttribute list = mlirOperationGetAttributeByName(
      op, nabla_ref(is_note ? "sharding" : NABLA_SHARDINGS));
  if (is_note || mlirAttributeIsNull(list) || !mlirAttributeIsAArray(list) ||
      mlirArrayAttrGetNumElements(list) < 1)
    return is_note ? list : mlirAttributeGetNull();
  return mlirArrayAttrGetElement(list, 0);
}

/* The options of what an annotation asks for itself, which may have axes in
 * another order, or parts of axes. */
static void try_annotation(finder *f, MlirAttribute annotation) {
  nabla_atom_list lists[NABLA_MAX_FACTORS];
  nabla_factor_array *y = NULL;
  for (uint32_t a = 0; a < f->factors.array_count && !y; a++)
    if (f->factors.arrays[a].is_result) y = &f->factors.arrays[a];
  if (!nabla_sharding_is(annotation) || !y) return;
  const nabla_sharding sharding = nabla_sharding_read(annotation);
  nabla_division layout = nabla_layout_whole(mlirValueGetType(y->value));
  if (nabla_layout_read(f->lists->grid, &sharding, &layout) &&
      nabla_factors_split(f->lists->grid, &f->factors, y, &layout, lists))
    (void)try_lists(f, lists);
}

/* Removes options that do not keep an annotation, unless none does. */
static void keep_annotated(finder *f, MlirAttribute annotation) {
  uint32_t kept = 0;
  if (!nabla_sharding_is(annotation) || !f->out->result_count) return;
  for (uint32_t i = 0; i < f->out->count; i++) {
    if (!nabla_option_keeps(f->lists->grid, annotation,
                            &f->out->all[i].results[0]))
      continue;
    const nabla_shard_option option = f->out->all[kept];
    f->out->all[kept++] = f->out->all[i];
    f->out->all[i] = option;
  }
  if (!kept) return;
  for (uint32_t i = kept; i < f->out->count; i++) {
    free(f->out->all[i].operands);
    free(f->out->all[i].results);
  }
  f->out->count = kept;
}

static void find_divided(finder *f) {
  int64_t sizes[NABLA_MAX_FACTORS];
  MlirAttribute annotation = annotation_of(f->op);
  for (uint32_t i = 0; i < f->factors.count; i++) {
    const nabla_factor *factor = &f->factors.all[i];
    const bool takes =
        nabla_factor_divides(factor) && !nabla_is_dynamic(factor->size) &&
        factor->size > 1 &&
        (factor->kind != NABLA_FACTOR_REDUCE || factor->join != NABLA_JOIN_OWN);
    sizes[i] = takes ? factor->size : 0;
  }
  try_annotation(f, annotation);
  if (!nabla_options_assign(f->lists->grid, f->factors.count, sizes, try_lists,
                            f))
    f->out->is_cut = true;
  keep_annotated(f, annotation);
}

/* Attributes and types say all of an operation that factors depend on. */
static const void **key_of(MlirOperation op, size_t *out_count) {
  const intptr_t attributes = mlirOperationGetNumAttributes(op);
  const intptr_t operands = mlirOperationGetNumOperands(op);
  const intptr_t results = mlirOperationGetNumResults(op);
  size_t n = 0;
  const void **key = calloc(
      (size_t)(2 * attributes + 2 * operands + results) + 5, sizeof *key);
  if (!key) return NULL;
  key[n++] = nabla_name(op).data;
  if (nabla_options_are_given(op)) key[n++] = op.ptr;
  for (intptr_t i = 0; i < attributes; i++) {
    const MlirNamedAttribute at = mlirOperationGetAttribute(op, i);
    key[n++] = mlirIdentifierStr(at.name).data;
    key[n++] = at.attribute.ptr;
  }
  for (intptr_t i = 0; i < operands; i++) {
    intptr_t same = 0;
    while (!mlirValueEqual(mlirOperationGetOperand(op, same),
                           mlirOperationGetOperand(op, i)))
      same++;
    key[n++] = nabla_operand_type(op, i).ptr;
    key[n++] = (const void *)(uintptr_t)(same + 1);
  }
  for (intptr_t r = 0; r < results; r++)
    key[n++] = nabla_result_type(op, r).ptr;
  *out_count = n;
  return key;
}

static void add_whole(finder *f) {
  nabla_shard_option *o = nabla_option_add(f->lists, f->out);
  if (!o) return;
  for (intptr_t i = 0; i < f->out->operand_count; i++)
    o->operands[i] = nabla_layout_whole(nabla_operand_type(f->op, i));
  for (intptr_t r = 0; r < f->out->result_count; r++)
    o->results[r] = nabla_layout_whole(nabla_result_type(f->op, r));
  o->seconds = compute_seconds(f, o, 1);
}

const nabla_shard_options *nabla_options_of_op(nabla_option_lists *lists,
                                               MlirOperation op) {
  size_t key_count = 0;
  const void **key = key_of(op, &key_count);
  nabla_shard_options *out =
      key ? nabla_options_find(lists, key, key_count) : NULL;
  if (!out || out->count) return out;
  finder f = {.lists = lists, .op = op, .out = out};
  out->operand_count = mlirOperationGetNumOperands(op);
  out->result_count = mlirOperationGetNumResults(op);
  if (nabla_options_are_given(op)) {
    nabla_options_give(lists, op, out);
    return out;
  }
  if (nabla_op_find(op) && !nabla_cost_of(op, 1, &f.cost)) lists->failed = true;
  out->is_divided = nabla_op_factors(op, &f.factors);
  if (out->is_divided) find_divided(&f);
  if (!out->count) add_whole(&f);
  return lists->failed ? NULL : out;
}
