/* What a device holds at each moment of a run: see problem.h. A moment is an
 * operation of the function. Arguments and results are held all the time. Other
 * values are held from the operation that computes them to the last one that
 * uses them: nabla-plan-memory gives values of other times the same memory. */
#include <stdlib.h>

#include "dialect/ops.h"
#include "transforms/cost/cost_count.h"
#include "transforms/shard/solve/problem.h"
#include "transforms/shard/solve/room.h"
#include "transforms/shard/ties.h"

/* A value of a node. */
typedef struct lifetime {
  uint32_t end; /* the last moment */
  bool is_free; /* takes no memory of its own */
} lifetime;

typedef struct holding {
  nabla_shard_problem *p;
  uint32_t arguments, moments;
  lifetime *values;  /* of all nodes, result by result */
  size_t *first;     /* of each node's values         */
  size_t *first_use; /* of each node, in `uses`       */
  size_t *uses;      /* by their node `a`             */
  bool *takes;       /* a node writes over an operand */
  size_t capacity;   /* of loads                      */
} holding;

/* ---- operations ---- */

static bool is_any(MlirOperation op, const char *const *names, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (nabla_is(op, names[i])) return true;
  return false;
}

/* Results that lie where the operand does, unless that is exchanged. */
static bool is_alias(MlirOperation op) {
  static const char *const names[] = {
      "nabla.reshape", "nabla.reshard", "nabla.sharding_constraint",
      "nabla.propagation_barrier", "tensor.cast"};
  return is_any(op, names, sizeof names / sizeof *names);
}

/* Results that are made where they are read. */
static bool is_made_late(MlirOperation op) {
  static const char *const names[] = {"nabla.full", "nabla.iota", "nabla.tri",
                                      "nabla.broadcast_in_dim",
                                      "arith.constant"};
  return is_any(op, names, sizeof names / sizeof *names);
}

/* Whether a result may be written over operand `index`, where nothing uses that
 * later: elementwise operations are parts of loops or of products. */
static bool writes_over(MlirOperation op, intptr_t index) {
  if (mlirOperationGetNumResults(op) != 1 ||
      !mlirTypeEqual(nabla_operand_type(op, index), nabla_result_type(op, 0)))
    return false;
  const nabla_op_row *row = nabla_op_find(op);
  return nabla_is(op, "nabla.dynamic_update_slice")
             ? index == 0
             : row && row->shard == NABLA_SHARD_elementwise;
}

static uint64_t bounded(uint64_t bytes) {
  return bytes < NABLA_CHOICE_MOST_BYTES ? bytes : NABLA_CHOICE_MOST_BYTES;
}

static uint64_t piece_of(const nabla_shard_problem *p,
                         const nabla_division *layout) {
  return bounded(nabla_piece_bytes(p->grid, layout));
}

/* ---- lifetimes ---- */

static uint32_t moment_of(const holding *h, uint32_t node) {
  return node < h->arguments ? 0 : node - h->arguments;
}

static lifetime *value_at(const holding *h, uint32_t node, intptr_t result) {
  return &h->values[h->first[node] + (size_t)result];
}

static bool is_slice(const nabla_shard_node *node) {
  return nabla_shard_node_is_port(node) &&
         nabla_shard_port_of(node->op, node->argument).kind == NABLA_PORT_SLICE;
}

/* The last moment of the outermost loop that is around a node and not around
 * another: `around`, the loop of that; 0: none. */
static uint32_t end_of_loop(const holding *h, uint32_t loop, uint32_t around) {
  uint32_t end = 0;
  for (; loop && loop != around; loop = h->p->loops[loop].parent)
    end = moment_of(h, h->p->loops[loop].last);
  return end;
}

/* The loop that a scan is, from a port: that of the node behind the ports. */
static uint32_t loop_of_port(const holding *h, uint32_t node) {
  const nabla_shard_node *port = &h->p->nodes[node];
  size_t n = node;
  while (n < h->p->node_count &&
         mlirOperationEqual(h->p->nodes[n].op, port->op))
    n++;
  return n < h->p->node_count && h->p->nodes[n].loop != port->loop
             ? h->p->nodes[n].loop
             : 0;
}

/* The last moment of a use. Loops use what is around them until they end. */
static uint32_t end_of_use(const holding *h, const nabla_shard_use *use) {
  if (use->operand == -2) return h->moments - 1;
  const nabla_shard_node *b = &h->p->nodes[use->b];
  if (is_slice(b) ||
      (use->operand == 0 && !nabla_shard_node_is_port(b) && is_alias(b->op)))
    return value_at(h, use->b, 0)->end;
  const uint32_t own = moment_of(h, use->b);
  const uint32_t loop = end_of_loop(h, b->loop, h->p->nodes[use->a].loop);
  return loop > own ? loop : own;
}

/* Whether an argument is a state that the function replaces. */
static bool is_replaced(const holding *h, uint32_t node) {
  for (size_t i = 0; i < h->p->use_count; i++)
    if (h->p->uses[i].operand == -2 && h->p->uses[i].b == node) return true;
  return false;
}

/* The operation that uses a value last writes over it, if it can. */
static void take_over(holding *h, uint32_t node, intptr_t result,
                      const nabla_shard_use *last) {
  if (!last || last->operand < 0 || h->takes[last->b] ||
      nabla_shard_node_is_port(&h->p->nodes[last->b]) ||
      !writes_over(h->p->nodes[last->b].op, last->operand))
    return;
  if (node < h->arguments) {
    if (!is_replaced(h, node)) return;
    value_at(h, last->b, 0)->is_free = true; /* in the state's memory */
  } else {
    lifetime *value = value_at(h, node, result);
    if (value->end != moment_of(h, last->b) || !value->end) return;
    value->end--;
  }
  h->takes[last->b] = true;
}

/* Nodes in the reverse order: users first. */
static void find_lifetimes(holding *h) {
  for (size_t n = h->p->node_count; n-- > 0;) {
    const nabla_shard_node *node = &h->p->nodes[n];
    const uint32_t own = moment_of(h, (uint32_t)n);
    for (intptr_t r = 0; r < node->options->result_count; r++) {
      lifetime *value = value_at(h, (uint32_t)n, r);
      const nabla_shard_use *last = NULL;
      value->end = own;
      if (nabla_shard_node_is_port(node)) {
        const uint32_t loop =
            end_of_loop(h, loop_of_port(h, (uint32_t)n), node->loop);
        if (loop > own) value->end = loop;
        value->is_free = is_slice(node);
      } else if (!mlirOperationIsNull(node->op)) {
        value->is_free =
            value->is_free || is_alias(node->op) || is_made_late(node->op);
      }
      for (size_t i = h->first_use[n]; i < h->first_use[n + 1]; i++) {
        const nabla_shard_use *use = &h->p->uses[h->uses[i]];
        if (use->result != r) continue;
        const uint32_t end = end_of_use(h, use);
        if (end < value->end || (last && end == value->end)) continue;
        value->end = end;
        last = use;
      }
      take_over(h, (uint32_t)n, r, last);
    }
  }
}

/* ---- loads ---- */

static uint64_t *add_load(holding *h, bool is_edge, size_t at, uint32_t first,
                          uint32_t last, size_t entries) {
  nabla_shard_problem *p = h->p;
  void *room = nabla_room(p->loads, p->choice.load_count, &h->capacity,
                          sizeof *p->loads);
  if (!room) return p->failed = true, NULL;
  p->loads = room;
  p->choice.loads = room;
  uint64_t *bytes = calloc(entries + 1, sizeof *bytes);
  if (!bytes) return p->failed = true, NULL;
  p->loads[p->choice.load_count++] =
      (nabla_choice_load){is_edge, (uint32_t)at, first, last, bytes};
  return bytes;
}

/* Loads of nothing are left away. */
static void drop_if_empty(nabla_shard_problem *p, const uint64_t *bytes,
                          size_t entries) {
  for (size_t i = 0; i < entries; i++)
    if (bytes[i]) return;
  free((void *)bytes);
  p->choice.load_count--;
}

/* The operand of func.return that a value is as it is; NULL: none. */
static const nabla_shard_use *returned(const holding *h, uint32_t node,
                                       intptr_t result) {
  for (size_t i = h->first_use[node]; i < h->first_use[node + 1]; i++) {
    const nabla_shard_use *use = &h->p->uses[h->uses[i]];
    if (use->result == result && use->operand >= 0 &&
        nabla_is(h->p->nodes[use->b].op, "func.return"))
      return use;
  }
  return NULL;
}

static void hold_results(holding *h, uint32_t node) {
  const nabla_shard_options *o = h->p->nodes[node].options;
  const bool is_argument = node < h->arguments;
  const uint32_t own = moment_of(h, node);
  for (intptr_t r = 0; r < o->result_count && !h->p->failed; r++) {
    const lifetime *value = value_at(h, node, r);
    const nabla_shard_use *out = returned(h, node, r);
    uint64_t *bytes = value->is_free
                          ? NULL
                          : add_load(h, false, node, is_argument ? 0 : own,
                                     is_argument        ? h->moments - 1
                                     : value->end > own ? value->end
                                                        : own,
                                     o->count);
    for (uint32_t i = 0; bytes && i < o->count; i++) {
      const nabla_division *layout = &o->all[i].results[r];
      const nabla_division to =
          out ? nabla_shard_use_to(h->p, out, 0) : (nabla_division){0};
      /* a value that is returned as it is: the result is counted */
      if (is_argument || !out || !nabla_layout_equal(layout, &to))
        bytes[i] = piece_of(h->p, layout);
    }
    if (bytes) drop_if_empty(h->p, bytes, o->count);
  }
}

/* Work space of the operation, and results of func.return. */
static void hold_moment(holding *h, uint32_t node) {
  const nabla_shard_options *o = h->p->nodes[node].options;
  MlirOperation op = h->p->nodes[node].op;
  const uint32_t own = moment_of(h, node);
  if (mlirOperationIsNull(op) || nabla_shard_node_is_port(&h->p->nodes[node]))
    return;
  const bool is_return = nabla_is(op, "func.return");
  uint64_t *bytes = add_load(h, false, node, is_return ? 0 : own,
                             is_return ? h->moments - 1 : own, o->count);
  for (uint32_t i = 0; bytes && i < o->count; i++)
    bytes[i] = bounded(o->all[i].at_once);
  for (size_t u = 0; bytes && is_return && u < h->p->use_count; u++) {
    const nabla_shard_use *use = &h->p->uses[u];
    if (use->b != node || use->operand < 0) continue;
    const nabla_division to = nabla_shard_use_to(h->p, use, 0);
    bytes[0] = bounded(bytes[0] + piece_of(h->p, &to));
  }
  if (bytes) drop_if_empty(h->p, bytes, o->count);
}

/* Copies of values that are divided in another way for a use; results are
 * counted, and states are written where they lie. */
static void hold_copies(holding *h, size_t index) {
  const nabla_shard_problem *p = h->p;
  const nabla_shard_use *use = &p->uses[index];
  MlirOperation op = p->nodes[use->b].op;
  if (use->operand == -2 || nabla_is(op, "func.return")) return;
  const uint32_t rows = p->nodes[use->a].options->count;
  const uint32_t columns = p->nodes[use->b].options->count;
  const uint32_t own = moment_of(h, use->b), end = end_of_use(h, use);
  uint64_t *bytes = add_load(h, true, index, own, end > own ? end : own,
                             (size_t)rows * columns);
  for (uint32_t b = 0; bytes && b < columns; b++) {
    const nabla_division to = nabla_shard_use_to(p, use, b);
    const uint64_t piece = piece_of(p, &to);
    for (uint32_t a = 0; a < rows; a++)
      if (!nabla_layout_equal(nabla_shard_use_from(p, use, a), &to))
        bytes[(size_t)a * columns + b] = piece;
  }
  if (bytes) drop_if_empty(h->p, bytes, (size_t)rows * columns);
}

/* ---- the function ---- */

/* Uses by the node whose value they use. */
static void sort_uses(holding *h) {
  const nabla_shard_problem *p = h->p;
  for (size_t i = 0; i < p->use_count; i++) h->first_use[p->uses[i].a + 1]++;
  for (size_t n = 0; n < p->node_count; n++)
    h->first_use[n + 1] += h->first_use[n];
  for (size_t i = p->use_count; i-- > 0;)
    h->uses[--h->first_use[p->uses[i].a + 1]] = i;
  for (size_t n = 0; n < p->node_count; n++)
    h->first_use[n] = h->first_use[n + 1];
  h->first_use[p->node_count] = p->use_count;
}

bool nabla_shard_problem_hold(nabla_shard_problem *p) {
  size_t values = 0;
  holding h = {.p = p,
               .arguments = (uint32_t)mlirBlockGetNumArguments(
                   nabla_function_body(p->function)),
               .first = calloc(p->node_count + 1, sizeof *h.first),
               .first_use = calloc(p->node_count + 2, sizeof *h.first_use),
               .uses = calloc(p->use_count + 1, sizeof *h.uses),
               .takes = calloc(p->node_count + 1, sizeof *h.takes)};
  for (size_t n = 0; h.first && n < p->node_count; n++) {
    h.first[n] = values;
    values += (size_t)p->nodes[n].options->result_count;
  }
  h.values = calloc(values + 1, sizeof *h.values);
  h.moments = (uint32_t)p->node_count - h.arguments;
  if (!h.moments) h.moments = 1;
  p->choice.moments = h.moments;
  bool good = h.first && h.first_use && h.uses && h.takes && h.values;
  if (good) {
    sort_uses(&h);
    find_lifetimes(&h);
    for (uint32_t n = 0; n < p->node_count && !p->failed; n++) {
      hold_results(&h, n);
      if (!p->failed) hold_moment(&h, n);
    }
    for (size_t i = 0; i < p->use_count && !p->failed; i++) hold_copies(&h, i);
    good = !p->failed;
  }
  free(h.first);
  free(h.first_use);
  free(h.uses);
  free(h.takes);
  free(h.values);
  return good;
}
