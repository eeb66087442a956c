/* Branch and bound, and limits of memory: see choice.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "transforms/shard/solve/choice.h"

enum { PRICES = 48, BISECTIONS = 12 };

static const double WORK_LIMIT = 4e8; /* a second or two */

/* Solutions whose costs differ by less are equal. */
static const double TOLERANCE = 1e-9;

double nabla_choice_cost(const nabla_choice *problem, const uint32_t *chosen) {
  double all = 0;
  for (size_t n = 0; n < problem->node_count; n++)
    all += problem->nodes[n].costs[chosen[n]];
  for (size_t k = 0; k < problem->edge_count; k++) {
    const nabla_choice_edge *e = &problem->edges[k];
    all += e->costs[(size_t)chosen[e->a] * problem->nodes[e->b].count +
                    chosen[e->b]];
  }
  return all;
}

uint64_t nabla_choice_bytes(const nabla_choice *problem,
                            const uint32_t *chosen) {
  uint64_t all = 0;
  for (size_t n = 0; n < problem->node_count; n++) {
    const uint64_t more = problem->nodes[n].bytes[chosen[n]];
    all = all > UINT64_MAX - more ? UINT64_MAX : all + more;
  }
  return all;
}

/* ---- one subproblem ---- */

typedef struct search {
  const nabla_choice *problem;
  nabla_choice_answer *out;
  uint32_t *chosen; /* scratch */
  double work;
  bool failed; /* out of memory */
} search;

static bool is_spent(const search *s) {
  const double limit = s->problem->work_limit;
  return s->work > (limit > 0 ? limit : WORK_LIMIT);
}

/* Keeps a solution that is better than the one that is there. */
static void keep(search *s) {
  nabla_choice_answer *out = s->out;
  const double cost = nabla_choice_cost(s->problem, s->chosen);
  const uint64_t bytes = nabla_choice_bytes(s->problem, s->chosen);
  const bool fits = bytes <= s->problem->memory;
  const bool is_better = fits != out->is_feasible ? fits
                         : fits                   ? cost < out->cost
                                                  : bytes < out->bytes;
  if (!is_better) return;
  out->cost = cost;
  out->bytes = bytes;
  out->is_feasible = fits;
  memcpy(out->chosen, s->chosen, s->problem->node_count * sizeof *out->chosen);
}

/* A bound and a solution for a price of memory. `*out_bytes`: of the solution
 * that elimination gave. */
static double priced(search *s, const uint32_t *fixed, double price,
                     uint64_t *out_bytes, uint32_t *out_split) {
  const double nodes = (double)s->problem->node_count;
  nabla_choice_pass pass = {
      .fixed = fixed, .price = price, .chosen = s->chosen};
  if (!nabla_choice_eliminate(s->problem, &pass)) {
    s->failed = true;
    return -INFINITY;
  }
  s->work += pass.work + 10 * nodes * nodes;
  *out_split = pass.split;
  *out_bytes = nabla_choice_bytes(s->problem, s->chosen);
  keep(s);
  if (pass.split != UINT32_MAX) {
    nabla_choice_improve(s->problem, fixed, price, s->chosen);
    keep(s);
  }
  return price > 0 ? pass.bound - price * (double)s->problem->memory
                   : pass.bound;
}

/* The largest bound that a price gives: the bound is a concave function of the
 * price, whose slope is by how many bytes its solution passes the limit. */
static double bound_of(search *s, const uint32_t *fixed, uint32_t *out_split) {
  uint64_t bytes;
  uint32_t split;
  double best = priced(s, fixed, 0, &bytes, out_split);
  if (s->failed || bytes <= s->problem->memory) return best;
  double low = 0, high = 1e-15;
  for (int i = 0; i < PRICES && !s->failed; i++) {
    const double found = priced(s, fixed, high, &bytes, &split);
    if (found > best) best = found;
    if (bytes <= s->problem->memory) break;
    low = high;
    high *= 8;
  }
  for (int i = 0; i < BISECTIONS && !s->failed && !is_spent(s); i++) {
    const double price = low > 0 ? sqrt(low * high) : high / 2;
    const double found = priced(s, fixed, price, &bytes, &split);
    if (found > best) best = found;
    if (bytes <= s->problem->memory)
      high = price;
    else
      low = price;
  }
  return best;
}

/* ---- the tree ---- */

typedef struct open_node {
  uint32_t *fixed;
  double bound;
  uint32_t split;
} open_node;

typedef struct tree {
  open_node *nodes;
  size_t count, capacity;
} tree;

static bool add_open(tree *t, open_node node) {
  if (t->count == t->capacity) {
    const size_t capacity = t->capacity ? 2 * t->capacity : 64;
    open_node *more = realloc(t->nodes, capacity * sizeof *more);
    if (!more) return false;
    t->nodes = more;
    t->capacity = capacity;
  }
  t->nodes[t->count++] = node;
  return true;
}

/* The free node to fix: the one that was split, else the one with most bytes
 * between its choices. */
static uint32_t branch_at(const search *s, const open_node *from) {
  uint32_t best = from->split;
  uint64_t most = 0;
  if (best != UINT32_MAX && from->fixed[best] == UINT32_MAX) return best;
  best = UINT32_MAX;
  for (uint32_t n = 0; n < s->problem->node_count; n++) {
    const nabla_choice_node *node = &s->problem->nodes[n];
    uint64_t low = UINT64_MAX, high = 0;
    for (uint32_t c = 0; c < node->count; c++) {
      low = node->bytes[c] < low ? node->bytes[c] : low;
      high = node->bytes[c] > high ? node->bytes[c] : high;
    }
    if (from->fixed[n] != UINT32_MAX || node->count < 2 ||
        (best != UINT32_MAX && high - low <= most))
      continue;
    best = n;
    most = high - low;
  }
  return best;
}

static bool is_done(const search *s, double bound) {
  return s->out->is_feasible &&
         bound >= s->out->cost - TOLERANCE * fabs(s->out->cost);
}

/* Fixes one more node to each of its choices; false where work is spent before
 * all are. */
static bool branch(search *s, tree *t, const open_node *from) {
  const size_t count = s->problem->node_count;
  const uint32_t node = branch_at(s, from);
  if (node == UINT32_MAX) return true; /* all are fixed */
  for (uint32_t c = 0; c < s->problem->nodes[node].count; c++) {
    if (s->failed || is_spent(s)) return false;
    uint32_t *fixed = malloc((count + 1) * sizeof *fixed), split;
    if (!fixed) {
      s->failed = true;
      return false;
    }
    memcpy(fixed, from->fixed, count * sizeof *fixed);
    fixed[node] = c;
    double bound = bound_of(s, fixed, &split);
    if (bound < from->bound) bound = from->bound;
    s->out->subproblems++;
    if (is_done(s, bound)) {
      free(fixed);
      continue;
    }
    if (add_open(t, (open_node){fixed, bound, split})) continue;
    free(fixed);
    s->failed = true;
    return false;
  }
  return true;
}

/* The least bound of what is open; removes it into `out`. */
static bool take_least(tree *t, open_node *out) {
  size_t best = 0;
  if (!t->count) return false;
  for (size_t i = 1; i < t->count; i++)
    if (t->nodes[i].bound < t->nodes[best].bound) best = i;
  *out = t->nodes[best];
  t->nodes[best] = t->nodes[--t->count];
  return true;
}

static void walk(search *s, uint32_t *fixed) {
  tree t = {0};
  open_node at = {.fixed = fixed};
  nabla_choice_answer *out = s->out;
  at.bound = out->bound = bound_of(s, fixed, &at.split);
  out->subproblems = 1;
  bool is_open = !is_done(s, at.bound);
  while (is_open && !s->failed && branch(s, &t, &at)) {
    if (at.fixed != fixed) free(at.fixed);
    at.fixed = fixed; /* nothing is to be freed */
    is_open = take_least(&t, &at) && !is_done(s, at.bound);
    if (is_open) out->bound = at.bound;
  }
  /* nothing is open: the solution is the best, or there is none */
  if (!is_open) out->bound = out->is_feasible ? out->cost : INFINITY;
  if (at.fixed != fixed) free(at.fixed);
  for (size_t i = 0; i < t.count; i++) free(t.nodes[i].fixed);
  free(t.nodes);
}

bool nabla_choice_solve(const nabla_choice *problem, nabla_choice_answer *out) {
  const size_t count = problem->node_count;
  uint32_t *fixed = malloc((count + 1) * sizeof *fixed);
  search s = {.problem = problem,
              .out = out,
              .chosen = calloc(count + 1, sizeof *s.chosen)};
  s.failed = !fixed || !s.chosen;
  if (!s.failed) {
    memset(fixed, 0xff, count * sizeof *fixed);
    out->cost = nabla_choice_cost(problem, out->chosen);
    out->bytes = nabla_choice_bytes(problem, out->chosen);
    out->is_feasible = out->bytes <= problem->memory;
    walk(&s, fixed);
  }
  free(fixed);
  free(s.chosen);
  return !s.failed;
}
