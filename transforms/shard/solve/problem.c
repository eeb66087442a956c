/* See problem.h. */
#include "transforms/shard/solve/problem.h"

#include <stdlib.h>
#include <string.h>

#include "transforms/cost/cost_count.h"
#include "transforms/shard/shard_map.h"
#include "transforms/shard/solve/room.h"
#include "transforms/shard/ties.h"
#include "transforms/state/state.h"

/* ---- values ---- */

static size_t slot_of(const nabla_shard_values *v, const void *key) {
  size_t at = ((uintptr_t)key >> 3) * 0x9e3779b97f4a7c15u;
  at = (at >> 20) & (v->capacity - 1);
  while (v->slots[at].key && v->slots[at].key != key)
    at = (at + 1) & (v->capacity - 1);
  return at;
}

static bool grow(nabla_shard_values *v) {
  nabla_shard_values larger = {.capacity = v->capacity ? 2 * v->capacity : 256};
  larger.slots = calloc(larger.capacity, sizeof *larger.slots);
  if (!larger.slots) return false;
  for (size_t i = 0; i < v->capacity; i++)
    if (v->slots[i].key)
      larger.slots[slot_of(&larger, v->slots[i].key)] = v->slots[i];
  larger.count = v->count;
  free(v->slots);
  *v = larger;
  return true;
}

static void set_value(nabla_shard_problem *p, MlirValue value, size_t node,
                      intptr_t result) {
  nabla_shard_values *v = &p->values;
  if (2 * (v->count + 1) > v->capacity && !grow(v)) {
    p->failed = true;
    return;
  }
  const size_t at = slot_of(v, value.ptr);
  v->slots[at].key = value.ptr;
  v->slots[at].node = (uint32_t)node;
  v->slots[at].result = result;
  v->count++;
}

/* The node that a value is of; false: none. */
static bool node_of(const nabla_shard_problem *p, MlirValue value,
                    uint32_t *out_node, intptr_t *out_result) {
  const nabla_shard_values *v = &p->values;
  const size_t at = v->capacity ? slot_of(v, value.ptr) : 0;
  if (!v->capacity || !v->slots[at].key) return false;
  *out_node = v->slots[at].node;
  *out_result = v->slots[at].result;
  return true;
}

/* ---- nodes ---- */

static void add_node(nabla_shard_problem *p, nabla_shard_node node) {
  void *room =
      nabla_room(p->nodes, p->node_count, &p->node_capacity, sizeof *p->nodes);
  if (!room) {
    p->failed = true;
    return;
  }
  p->nodes = room;
  if (!node.options) p->failed = true;
  p->nodes[p->node_count++] = node;
}

static void add_use(nabla_shard_problem *p, nabla_shard_use use) {
  void *room =
      nabla_room(p->uses, p->use_count, &p->use_capacity, sizeof *p->uses);
  if (!room) {
    p->failed = true;
    return;
  }
  p->uses = room;
  if (use.a != use.b) p->uses[p->use_count++] = use;
}

static uint32_t add_loop(nabla_shard_problem *p, uint32_t parent) {
  void *room =
      nabla_room(p->loops, p->loop_count, &p->loop_capacity, sizeof *p->loops);
  if (!room) {
    p->failed = true;
    return 0;
  }
  p->loops = room;
  p->loops[p->loop_count] = (nabla_shard_loop){.parent = parent};
  return (uint32_t)p->loop_count++;
}

/* Whether an operation has to do with arrays as such: notes without results
 * exchange nothing. */
static bool counts(MlirOperation op) {
  if (nabla_is(op, "tensor.dim") ||
      (nabla_is_sharding_note(op) && !mlirOperationGetNumResults(op)))
    return false;
  bool any = mlirOperationGetNumRegions(op) > 0;
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++)
    any = any || nabla_layout_takes(nabla_operand_type(op, i));
  for (intptr_t r = 0; r < mlirOperationGetNumResults(op); r++)
    any = any || nabla_layout_takes(nabla_result_type(op, r));
  return any;
}

/* ---- uses ---- */

/* What a result that is a state replaces; -1. */
static intptr_t replaced(const nabla_shard_problem *p, MlirOperation op,
                         intptr_t operand) {
  if (!nabla_is(op, "func.return")) return -1;
  MlirStringRef name = nabla_state_name(p->function, NABLA_RESULTS, operand);
  return name.data ? nabla_state_argument(p->function, name) : -1;
}

typedef struct inside {
  nabla_shard_problem *p;
  uint32_t node;
} inside;

static MlirWalkResult use_inside(MlirOperation op, void *self) {
  const inside *in = self;
  uint32_t from;
  intptr_t result;
  if (mlirOperationEqual(op, in->p->nodes[in->node].op))
    return MlirWalkResultAdvance;
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++) {
    MlirValue value = mlirOperationGetOperand(op, i);
    if (nabla_layout_takes(mlirValueGetType(value)) &&
        node_of(in->p, value, &from, &result))
      add_use(in->p, (nabla_shard_use){from, in->node, result, -1,
                                       in->p->nodes[in->node].times});
  }
  return MlirWalkResultAdvance;
}

static void use_value(nabla_shard_problem *p, MlirValue value, uint32_t node,
                      intptr_t operand, uint64_t times) {
  uint32_t from;
  intptr_t result;
  if (!mlirValueIsNull(value) && nabla_layout_takes(mlirValueGetType(value)) &&
      node_of(p, value, &from, &result))
    add_use(p, (nabla_shard_use){from, node, result, operand, times});
}

/* What is given to a scan, and what its rounds end with. */
static void read_port(nabla_shard_problem *p, uint32_t node) {
  const nabla_shard_node *n = &p->nodes[node];
  const nabla_shard_port port = nabla_shard_port_of(n->op, n->argument);
  const uint64_t rounds =
      nabla_cost_times(n->times, nabla_shard_scan_rounds(n->op));
  use_value(p, port.given, node, 0, n->times);
  use_value(p, port.ended, node, port.kind == NABLA_PORT_CARRY, rounds);
}

static void read_uses(nabla_shard_problem *p, uint32_t node) {
  MlirOperation op = p->nodes[node].op;
  if (mlirOperationIsNull(op)) return;
  if (nabla_shard_node_is_port(&p->nodes[node])) {
    read_port(p, node);
    return;
  }
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++) {
    const intptr_t argument = replaced(p, op, i);
    if (argument >= 0)
      use_value(p, mlirOperationGetOperand(op, i), (uint32_t)argument, -2, 1);
    else
      use_value(p, mlirOperationGetOperand(op, i), node, i,
                p->nodes[node].times);
  }
  inside in = {p, node};
  if (mlirOperationGetNumRegions(op))
    mlirOperationWalk(op, use_inside, &in, MlirWalkPreOrder);
}

/* Uses by the node that uses, in the order in which they were found. */
static bool sort_uses(nabla_shard_problem *p) {
  size_t *at = calloc(p->node_count + 2, sizeof *at);
  nabla_shard_use *sorted = malloc((p->use_count + 1) * sizeof *sorted);
  const bool good = at && sorted;
  for (size_t i = 0; good && i < p->use_count; i++) at[p->uses[i].b + 1]++;
  for (size_t n = 0; good && n < p->node_count; n++) at[n + 1] += at[n];
  for (size_t i = 0; good && i < p->use_count; i++)
    sorted[at[p->uses[i].b]++] = p->uses[i];
  free(at);
  if (!good) {
    free(sorted);
    return false;
  }
  free(p->uses);
  p->uses = sorted;
  p->use_capacity = p->use_count + 1;
  return true;
}

const nabla_division *nabla_shard_use_from(const nabla_shard_problem *p,
                                           const nabla_shard_use *use,
                                           uint32_t choice) {
  return &p->nodes[use->a].options->all[choice].results[use->result];
}

nabla_division nabla_shard_use_to(const nabla_shard_problem *p,
                                  const nabla_shard_use *use, uint32_t choice) {
  const nabla_shard_option *o = &p->nodes[use->b].options->all[choice];
  if (use->operand >= 0) return o->operands[use->operand];
  if (use->operand == -2) return o->results[0];
  return nabla_layout_whole(nabla_shard_use_from(p, use, 0)->type);
}

/* ---- costs ---- */

static nabla_exchange exchange_of(const nabla_shard_problem *p,
                                  const nabla_shard_use *use, uint32_t a,
                                  uint32_t b) {
  nabla_exchange e = {0};
  const nabla_division to = nabla_shard_use_to(p, use, b);
  (void)nabla_exchange_reshard(p->grid, p->machine,
                               nabla_shard_use_from(p, use, a), &to, &e);
  return e;
}

/* Uses by what their costs depend on. */
typedef struct kinship {
  const nabla_shard_options *a, *b;
  intptr_t result, operand;
  uint64_t times;
  size_t use;
} kinship;

#define ORDER(x, y) \
  if ((x) != (y)) return (x) < (y) ? -1 : 1

static int compare(const void *left, const void *right) {
  const kinship *x = left, *y = right;
  ORDER((uintptr_t)x->a, (uintptr_t)y->a);
  ORDER((uintptr_t)x->b, (uintptr_t)y->b);
  ORDER(x->result, y->result);
  ORDER(x->operand, y->operand);
  ORDER(x->times, y->times);
  return 0;
}

#undef ORDER

/* The first option of `a` whose users find the same as those of `choice`. */
static uint32_t alike(const nabla_shard_problem *p, const nabla_shard_use *use,
                      uint32_t choice) {
  uint32_t i = 0;
  while (i < choice &&
         !nabla_layout_equal(nabla_shard_use_from(p, use, i),
                             nabla_shard_use_from(p, use, choice)))
    i++;
  return i;
}

static const double *costs_of(nabla_shard_problem *p,
                              const nabla_shard_use *use) {
  const uint32_t rows = p->nodes[use->a].options->count;
  const uint32_t columns = p->nodes[use->b].options->count;
  double *costs = malloc((size_t)rows * columns * sizeof *costs);
  if (!costs) return NULL;
  p->tables[p->table_count++] = costs;
  for (uint32_t i = 0; i < rows; i++) {
    const uint32_t same = alike(p, use, i);
    double *row = costs + (size_t)i * columns;
    for (uint32_t k = 0; k < columns; k++)
      row[k] = same < i
                   ? costs[(size_t)same * columns + k]
                   : (double)use->times * exchange_of(p, use, i, k).seconds;
  }
  return costs;
}

static bool fill_nodes(nabla_shard_problem *p) {
  nabla_choice_node *nodes = calloc(p->node_count + 1, sizeof *nodes);
  p->choice.nodes = nodes;
  if (!nodes) return false;
  p->choice.node_count = p->node_count;
  for (size_t n = 0; n < p->node_count; n++) {
    const nabla_shard_options *o = p->nodes[n].options;
    double *costs = malloc((o->count + 1) * sizeof *costs);
    nodes[n] = (nabla_choice_node){o->count, costs};
    p->cut_count += o->is_cut;
    if (!costs) return false;
    for (uint32_t i = 0; i < o->count; i++)
      costs[i] = (double)p->nodes[n].times * o->all[i].seconds;
  }
  return true;
}

/* Uses of alike operations share their costs. */
static bool fill_edges(nabla_shard_problem *p) {
  nabla_choice_edge *edges = calloc(p->use_count + 1, sizeof *edges);
  kinship *kin = malloc((p->use_count + 1) * sizeof *kin);
  const double *costs = NULL;
  p->choice.edges = edges;
  p->tables = calloc(p->use_count + 1, sizeof *p->tables);
  bool good = edges && kin && p->tables;
  for (size_t i = 0; good && i < p->use_count; i++) {
    const nabla_shard_use *use = &p->uses[i];
    kin[i] = (kinship){p->nodes[use->a].options,
                       p->nodes[use->b].options,
                       use->result,
                       use->operand,
                       use->times,
                       i};
  }
  if (good) qsort(kin, p->use_count, sizeof *kin, compare);
  for (size_t k = 0; good && k < p->use_count; k++) {
    const nabla_shard_use *use = &p->uses[kin[k].use];
    if (!k || compare(&kin[k - 1], &kin[k])) costs = costs_of(p, use);
    edges[kin[k].use] = (nabla_choice_edge){use->a, use->b, costs};
    good = costs != NULL;
  }
  free(kin);
  if (good) p->choice.edge_count = p->use_count;
  return good;
}

/* ---- the function ---- */

static void read_block(nabla_shard_problem *p, MlirBlock block, uint32_t loop,
                       uint64_t times);

static void read_scan(nabla_shard_problem *p, MlirOperation op, uint32_t loop,
                      uint64_t times) {
  const intptr_t count = nabla_shard_scan_ports(op);
  for (intptr_t i = 0; i < count && !p->failed; i++) {
    const nabla_shard_port port = nabla_shard_port_of(op, i);
    if (!mlirValueIsNull(port.inside))
      set_value(p, port.inside, p->node_count, 0);
    if (!mlirValueIsNull(port.result))
      set_value(p, port.result, p->node_count, 0);
    add_node(p,
             (nabla_shard_node){op, i, nabla_options_of_port(p->lists, op, i),
                                times, loop});
  }
  const uint32_t own = p->failed ? 0 : add_loop(p, loop);
  if (p->failed) return;
  read_block(p, mlirRegionGetFirstBlock(mlirOperationGetRegion(op, 0)), own,
             nabla_cost_times(times, nabla_shard_scan_rounds(op)));
  p->loops[own].last = (uint32_t)p->node_count - 1;
}

static void read_block(nabla_shard_problem *p, MlirBlock block, uint32_t loop,
                       uint64_t times) {
  for (MlirOperation op = mlirBlockGetFirstOperation(block);
       !mlirOperationIsNull(op) && !p->failed;
       op = mlirOperationGetNextInBlock(op)) {
    if (nabla_shard_scan_is_open(op)) {
      read_scan(p, op, loop, times);
      continue;
    }
    if (!counts(op) || (loop && nabla_is(op, "nabla.yield"))) continue;
    for (intptr_t r = 0; r < mlirOperationGetNumResults(op); r++)
      set_value(p, mlirOperationGetResult(op, r), p->node_count, r);
    add_node(p, (nabla_shard_node){op, -1, nabla_options_of_op(p->lists, op),
                                   times, loop});
  }
}

bool nabla_shard_problem_read(MlirOperation function, nabla_option_lists *lists,
                              nabla_shard_problem *p) {
  MlirBlock body = nabla_function_body(function);
  *p = (nabla_shard_problem){.grid = lists->grid,
                             .machine = lists->machine,
                             .function = function,
                             .lists = lists};
  p->choice.memory = UINT64_MAX;
  (void)add_loop(p, 0); /* no loop */
  for (intptr_t i = 0; i < mlirBlockGetNumArguments(body) && !p->failed; i++) {
    set_value(p, mlirBlockGetArgument(body, i), p->node_count, 0);
    add_node(
        p, (nabla_shard_node){
               {NULL}, i, nabla_options_of_argument(lists, function, i), 1, 0});
  }
  if (!p->failed) read_block(p, body, 0, 1);
  for (uint32_t n = 0; n < p->node_count && !p->failed; n++) read_uses(p, n);
  p->answer.chosen = calloc(p->node_count + 1, sizeof *p->answer.chosen);
  return !p->failed && !lists->failed && p->answer.chosen && sort_uses(p) &&
         fill_nodes(p) && fill_edges(p) && nabla_shard_problem_hold(p);
}

uint64_t nabla_shard_problem_bytes(const nabla_shard_problem *p,
                                   const uint32_t *chosen) {
  uint64_t all = 0;
  for (size_t n = 0; n < p->node_count; n++)
    all = nabla_cost_add(
        all, nabla_cost_times(p->nodes[n].times,
                              p->nodes[n].options->all[chosen[n]].joins.bytes));
  for (size_t i = 0; i < p->use_count; i++) {
    const nabla_shard_use *use = &p->uses[i];
    const uint64_t bytes =
        exchange_of(p, use, chosen[use->a], chosen[use->b]).bytes;
    all = nabla_cost_add(all, nabla_cost_times(use->times, bytes));
  }
  return all;
}

void nabla_shard_problem_deinit(nabla_shard_problem *p) {
  for (size_t i = 0; i < p->table_count; i++) free(p->tables[i]);
  free((void *)p->tables);
  for (size_t n = 0; p->choice.nodes && n < p->node_count; n++)
    free((void *)p->choice.nodes[n].costs);
  for (size_t i = 0; i < p->choice.load_count; i++)
    free((void *)p->loads[i].bytes);
  free(p->loads);
  free((void *)p->choice.nodes);
  free((void *)p->choice.edges);
  free(p->nodes);
  free(p->uses);
  free(p->loops);
  free(p->values.slots);
  free(p->answer.chosen);
}
