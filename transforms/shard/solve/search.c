/* Branch and bound, and limits of memory: see choice.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "transforms/shard/solve/prices.h"
#include "transforms/shard/solve/room.h"

enum { PRICES = 48, BISECTIONS = 12, ROUNDS = 8 };

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

/* ---- one subproblem ---- */

typedef struct search {
  const nabla_choice *problem;
  nabla_choice_answer *out;
  nabla_choice_prices prices;
  nabla_choice_index index;
  uint64_t *spread; /* of the bytes of each node's choices */
  uint32_t *chosen; /* scratch */
  double work;
  bool failed; /* out of memory */
} search;

static bool is_spent(const search *s) {
  const double limit = s->problem->work_limit;
  return s->work > (limit > 0 ? limit : WORK_LIMIT);
}

/* Keeps a solution that is better than the one that is there. */
static nabla_choice_held keep(search *s) {
  nabla_choice_answer *out = s->out;
  const double cost = nabla_choice_cost(s->problem, s->chosen);
  const nabla_choice_held held =
      nabla_choice_prices_held(&s->prices, s->chosen);
  const bool fits = held.most <= s->problem->memory;
  const bool is_better = fits != out->is_feasible ? fits
                         : fits                   ? cost < out->cost
                                                  : held.most < out->bytes;
  if (!is_better) return held;
  out->cost = cost;
  out->bytes = held.most;
  out->is_feasible = fits;
  memcpy(out->chosen, s->chosen, s->problem->node_count * sizeof *out->chosen);
  return held;
}

/* A bound and a solution for a price of memory. `*out_held`: of the solution
 * that elimination gave. */
static double priced(search *s, const uint32_t *fixed, double price,
                     nabla_choice_held *out_held, uint32_t *out_split) {
  const double nodes = (double)s->problem->node_count;
  const nabla_choice *problem = price > 0 ? &s->prices.priced : s->problem;
  nabla_choice_pass pass = {.fixed = fixed, .chosen = s->chosen};
  if (price > 0) nabla_choice_prices_set(&s->prices, price);
  if (!nabla_choice_eliminate(problem, &pass)) {
    s->failed = true;
    return -INFINITY;
  }
  s->work += pass.work + 10 * nodes * nodes;
  *out_split = pass.split;
  *out_held = keep(s);
  if (pass.split != UINT32_MAX) {
    s->work += nabla_choice_improve(problem, &s->index, fixed, s->chosen);
    (void)keep(s);
  }
  return price > 0 ? pass.bound - price * (double)s->problem->memory
                   : pass.bound;
}

/* The largest bound that a price gives, with the weights that moments have: the
 * bound is a concave function of the price, whose slope is by how many bytes
 * its solution passes the limit. `*held`: of the last solution within it. */
static double bound_along(search *s, const uint32_t *fixed, double *high,
                          nabla_choice_held *held) {
  uint32_t split;
  nabla_choice_held now;
  const double memory = (double)s->problem->memory;
  double best = -INFINITY, low = 0;
  for (int i = 0; i < PRICES && !s->failed; i++) {
    if (i && is_spent(s) && s->out->is_feasible) break;
    const double found = priced(s, fixed, *high, &now, &split);
    if (found > best) best = found;
    *held = now;
    if (now.mean <= memory) break;
    low = *high;
    *high *= 8;
  }
  for (int i = 0; i < BISECTIONS && !s->failed && !is_spent(s); i++) {
    const double price = low > 0 ? sqrt(low * *high) : *high / 2;
    const double found = priced(s, fixed, price, &now, &split);
    if (found > best) best = found;
    if (now.mean <= memory) {
      *high = price;
      *held = now;
    } else {
      low = price;
    }
  }
  return best;
}

/* Weights grow in the moments that have most, until the solution for the best
 * price is within the limit in all. */
static double bound_of(search *s, const uint32_t *fixed, uint32_t *out_split) {
  nabla_choice_held held;
  const uint64_t memory = s->problem->memory;
  double best = priced(s, fixed, 0, &held, out_split), high = 1e-15;
  if (s->failed || held.most <= memory) return best;
  memset(s->prices.weights, 0, s->problem->moments * sizeof(double));
  s->prices.all = 0;
  if (nabla_choice_prices_least(&s->prices, fixed) > memory) {
    if (s->out->subproblems) return INFINITY;
    s->prices.all = s->prices.weights[held.moment] = 1;
    (void)priced(s, fixed, 1, &held, out_split); /* for the error */
    return INFINITY;
  }
  for (int i = 0; i < ROUNDS && !s->failed && !(i && is_spent(s)); i++) {
    s->prices.weights[held.moment]++;
    s->prices.all++;
    const double found = bound_along(s, fixed, &high, &held);
    if (found > best) best = found;
    if (held.most <= memory) break;
    high /= 512;
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
  void *room = nabla_room(t->nodes, t->count, &t->capacity, sizeof *t->nodes);
  if (!room) return false;
  t->nodes = room;
  t->nodes[t->count++] = node;
  return true;
}

/* The free node to fix: the one that was split, else the one with most bytes
 * between its choices. */
static uint32_t branch_at(const search *s, const open_node *from) {
  uint32_t best = from->split;
  if (best != UINT32_MAX && from->fixed[best] == UINT32_MAX) return best;
  best = UINT32_MAX;
  for (uint32_t n = 0; n < s->problem->node_count; n++)
    if (from->fixed[n] == UINT32_MAX && s->problem->nodes[n].count > 1 &&
        (best == UINT32_MAX || s->spread[n] > s->spread[best]))
      best = n;
  return best;
}

/* How far the bytes of the choices of nodes lie apart. */
static void fill_spread(search *s) {
  for (size_t i = 0; i < s->problem->load_count; i++) {
    const nabla_choice_load *l = &s->problem->loads[i];
    uint64_t low = UINT64_MAX, high = 0;
    for (uint32_t c = 0; !l->is_edge && c < s->problem->nodes[l->at].count;
         c++) {
      low = l->bytes[c] < low ? l->bytes[c] : low;
      high = l->bytes[c] > high ? l->bytes[c] : high;
    }
    if (high > low) s->spread[l->at] += high - low;
  }
}

static bool is_done(const search *s, double bound) {
  return bound == INFINITY ||
         (s->out->is_feasible &&
          bound >= s->out->cost - TOLERANCE * fabs(s->out->cost));
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
              .spread = calloc(count + 1, sizeof *s.spread),
              .chosen = calloc(count + 1, sizeof *s.chosen)};
  s.failed = !nabla_choice_prices_init(&s.prices, problem) ||
             !nabla_choice_index_init(&s.index, problem) || !fixed ||
             !s.spread || !s.chosen;
  if (!s.failed) {
    memset(fixed, 0xff, count * sizeof *fixed);
    fill_spread(&s);
    out->cost = nabla_choice_cost(problem, out->chosen);
    out->bytes = nabla_choice_prices_held(&s.prices, out->chosen).most;
    out->is_feasible = out->bytes <= problem->memory;
    walk(&s, fixed);
  }
  nabla_choice_prices_deinit(&s.prices);
  nabla_choice_index_deinit(&s.index);
  free(fixed);
  free(s.spread);
  free(s.chosen);
  return !s.failed;
}
