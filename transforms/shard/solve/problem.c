/* See problem.h. */
#include "transforms/shard/solve/problem.h"

#include <stdlib.h>
#include <string.h>

#include "transforms/shard/ties.h"
#include "transforms/state/state.h"

/* ---- nodes ---- */

static void add_node(nabla_shard_problem *p, MlirOperation op,
                     intptr_t argument, const nabla_shard_options *options) {
  if (p->node_count == p->node_capacity) {
    const size_t capacity = p->node_capacity ? 2 * p->node_capacity : 64;
    nabla_shard_node *more = realloc(p->nodes, capacity * sizeof *more);
    if (!more) {
      p->failed = true;
      return;
    }
    p->nodes = more;
    p->node_capacity = capacity;
  }
  if (!options) p->failed = true;
  p->nodes[p->node_count++] = (nabla_shard_node){op, argument, options};
}

static void add_use(nabla_shard_problem *p, uint32_t a, intptr_t result,
                    uint32_t b, intptr_t operand) {
  if (p->use_count == p->use_capacity) {
    const size_t capacity = p->use_capacity ? 2 * p->use_capacity : 64;
    nabla_shard_use *more = realloc(p->uses, capacity * sizeof *more);
    if (!more) {
      p->failed = true;
      return;
    }
    p->uses = more;
    p->use_capacity = capacity;
  }
  if (a != b)
    p->uses[p->use_count++] = (nabla_shard_use){a, b, result, operand};
}

/* The node of an operation, by halving: nodes are in the order of the block. */
static bool node_of(const nabla_shard_problem *p, MlirValue value,
                    uint32_t *out_node, intptr_t *out_result) {
  MlirBlock body = nabla_function_body(p->function);
  *out_result = 0;
  if (mlirValueIsABlockArgument(value)) {
    *out_node = (uint32_t)mlirBlockArgumentGetArgNumber(value);
    return mlirBlockEqual(mlirBlockArgumentGetOwner(value), body);
  }
  MlirOperation op = mlirOpResultGetOwner(value);
  if (!mlirBlockEqual(mlirOperationGetBlock(op), body)) return false;
  *out_result = mlirOpResultGetResultNumber(value);
  size_t low = (size_t)mlirBlockGetNumArguments(body), high = p->node_count;
  while (low < high) {
    const size_t middle = (low + high) / 2;
    if (mlirOperationEqual(p->nodes[middle].op, op)) {
      *out_node = (uint32_t)middle;
      return true;
    }
    if (mlirOperationIsBeforeInBlock(p->nodes[middle].op, op))
      low = middle + 1;
    else
      high = middle;
  }
  return false;
}

/* Whether an operation has to do with arrays as such. */
static bool counts(MlirOperation op) {
  if (nabla_is(op, "tensor.dim")) return false;
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
      add_use(in->p, from, result, in->node, -1);
  }
  return MlirWalkResultAdvance;
}

static void read_uses(nabla_shard_problem *p, uint32_t node) {
  MlirOperation op = p->nodes[node].op;
  uint32_t from;
  intptr_t result;
  if (mlirOperationIsNull(op)) return;
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++) {
    MlirValue value = mlirOperationGetOperand(op, i);
    if (!nabla_layout_takes(mlirValueGetType(value)) ||
        !node_of(p, value, &from, &result))
      continue;
    const intptr_t argument = replaced(p, op, i);
    if (argument >= 0)
      add_use(p, from, result, (uint32_t)argument, -2);
    else
      add_use(p, from, result, node, i);
  }
  inside in = {p, node};
  if (mlirOperationGetNumRegions(op))
    mlirOperationWalk(op, use_inside, &in, MlirWalkPreOrder);
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

/* Uses of alike operations share the costs of an earlier one. */
static const double *costs_of(nabla_shard_problem *p,
                              const nabla_choice_edge *edges, size_t index) {
  const nabla_shard_use *use = &p->uses[index];
  const nabla_shard_options *a = p->nodes[use->a].options,
                            *b = p->nodes[use->b].options;
  for (size_t i = 0; i < index; i++) {
    const nabla_shard_use *other = &p->uses[i];
    if (p->nodes[other->a].options == a && p->nodes[other->b].options == b &&
        other->result == use->result && other->operand == use->operand)
      return edges[i].costs;
  }
  double *costs = malloc((size_t)a->count * b->count * sizeof *costs);
  if (!costs) return NULL;
  for (uint32_t i = 0; i < a->count; i++)
    for (uint32_t k = 0; k < b->count; k++)
      costs[(size_t)i * b->count + k] = exchange_of(p, use, i, k).seconds;
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
    if (!costs) return false;
    for (uint32_t i = 0; i < o->count; i++) costs[i] = o->all[i].seconds;
  }
  return true;
}

static bool fill_edges(nabla_shard_problem *p) {
  nabla_choice_edge *edges = calloc(p->use_count + 1, sizeof *edges);
  p->choice.edges = edges;
  if (!edges) return false;
  for (size_t i = 0; i < p->use_count; i++) {
    edges[i] =
        (nabla_choice_edge){p->uses[i].a, p->uses[i].b, costs_of(p, edges, i)};
    if (!edges[i].costs) return false;
    p->choice.edge_count++;
  }
  return true;
}

bool nabla_shard_problem_read(MlirOperation function, nabla_option_lists *lists,
                              nabla_shard_problem *p) {
  MlirBlock body = nabla_function_body(function);
  *p = (nabla_shard_problem){.grid = lists->grid,
                             .machine = lists->machine,
                             .function = function,
                             .lists = lists};
  p->choice.memory = UINT64_MAX;
  for (intptr_t i = 0; i < mlirBlockGetNumArguments(body); i++)
    add_node(p, (MlirOperation){NULL}, i,
             nabla_options_of_argument(lists, function, i));
  for (MlirOperation op = mlirBlockGetFirstOperation(body);
       !mlirOperationIsNull(op) && !p->failed;
       op = mlirOperationGetNextInBlock(op))
    if (counts(op)) add_node(p, op, -1, nabla_options_of_op(lists, op));
  for (uint32_t n = 0; n < p->node_count && !p->failed; n++) read_uses(p, n);
  p->answer.chosen = calloc(p->node_count + 1, sizeof *p->answer.chosen);
  return !p->failed && !lists->failed && p->answer.chosen && fill_nodes(p) &&
         fill_edges(p) && nabla_shard_problem_hold(p);
}

uint64_t nabla_shard_problem_bytes(const nabla_shard_problem *p,
                                   const uint32_t *chosen) {
  uint64_t all = 0;
  for (size_t n = 0; n < p->node_count; n++)
    all += p->nodes[n].options->all[chosen[n]].joins.bytes;
  for (size_t i = 0; i < p->use_count; i++)
    all +=
        exchange_of(p, &p->uses[i], chosen[p->uses[i].a], chosen[p->uses[i].b])
            .bytes;
  return all;
}

void nabla_shard_problem_deinit(nabla_shard_problem *p) {
  for (size_t i = 0; i < p->choice.edge_count; i++) {
    bool is_shared = false;
    for (size_t k = 0; k < i && !is_shared; k++)
      is_shared = p->choice.edges[k].costs == p->choice.edges[i].costs;
    if (!is_shared) free((void *)p->choice.edges[i].costs);
  }
  for (size_t n = 0; p->choice.nodes && n < p->node_count; n++)
    free((void *)p->choice.nodes[n].costs);
  for (size_t i = 0; i < p->choice.load_count; i++)
    free((void *)p->loads[i].bytes);
  free(p->loads);
  free((void *)p->choice.nodes);
  free((void *)p->choice.edges);
  free(p->nodes);
  free(p->uses);
  free(p->answer.chosen);
}
