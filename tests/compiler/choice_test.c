/* Problems of choice of nabla-auto-shard, compared with all solutions, one by
 * one, with tables of any size and with limits of memory. */
#include "transforms/shard/solve/choice.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

enum { NODES = 6, CHOICES = 3, EDGES = 12, LOADS = 10, MOMENTS = 4 };

static uint64_t state;

static uint64_t number(uint64_t below) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (state >> 33) % below;
}

typedef struct random_problem {
  double node_costs[NODES][CHOICES], edge_costs[EDGES][CHOICES * CHOICES];
  uint64_t bytes[LOADS][CHOICES * CHOICES];
  nabla_choice_node nodes[NODES];
  nabla_choice_edge edges[EDGES];
  nabla_choice_load loads[LOADS];
  nabla_choice choice;
} random_problem;

static void make(random_problem *p, uint64_t seed) {
  state = seed;
  *p = (random_problem){.choice = {.node_count = NODES,
                                   .edge_count = EDGES,
                                   .load_count = LOADS,
                                   .nodes = p->nodes,
                                   .edges = p->edges,
                                   .loads = p->loads,
                                   .moments = MOMENTS,
                                   .memory = UINT64_MAX}};
  for (uint32_t n = 0; n < NODES; n++) {
    for (int c = 0; c < CHOICES; c++) p->node_costs[n][c] = (double)number(50);
    p->nodes[n] = (nabla_choice_node){CHOICES, p->node_costs[n]};
  }
  for (int k = 0; k < EDGES; k++) {
    const uint32_t a = (uint32_t)number(NODES);
    const uint32_t b = (a + 1 + (uint32_t)number(NODES - 1)) % NODES;
    for (int c = 0; c < CHOICES * CHOICES; c++)
      p->edge_costs[k][c] = (double)number(40);
    p->edges[k] = (nabla_choice_edge){a, b, p->edge_costs[k]};
  }
  for (int i = 0; i < LOADS; i++) {
    const bool is_edge = number(2);
    const uint32_t first = (uint32_t)number(MOMENTS);
    for (int c = 0; c < CHOICES * CHOICES; c++) p->bytes[i][c] = number(100);
    p->loads[i] = (nabla_choice_load){
        is_edge, (uint32_t)number(is_edge ? EDGES : NODES), first,
        first + (uint32_t)number(MOMENTS - first), p->bytes[i]};
  }
}

/* The bytes of the moment that has most. */
static uint64_t held(const random_problem *p, const uint32_t *chosen) {
  uint64_t most = 0;
  for (uint32_t t = 0; t < MOMENTS; t++) {
    uint64_t now = 0;
    for (int i = 0; i < LOADS; i++) {
      const nabla_choice_load *l = &p->loads[i];
      const nabla_choice_edge *e = &p->edges[l->at];
      if (t < l->first || t > l->last) continue;
      now += l->bytes[l->is_edge ? chosen[e->a] * CHOICES + chosen[e->b]
                                 : chosen[l->at]];
    }
    most = now > most ? now : most;
  }
  return most;
}

/* The least cost of all solutions within the limit; infinity: there is none.
 * `*out_least`: the least bytes of all. */
static double least_of(const random_problem *p, uint64_t *out_least) {
  double best = INFINITY;
  uint32_t chosen[NODES] = {0};
  *out_least = UINT64_MAX;
  for (uint32_t n = 0; n < NODES;) {
    const uint64_t bytes = held(p, chosen);
    const double cost = nabla_choice_cost(&p->choice, chosen);
    if (bytes < *out_least) *out_least = bytes;
    if (bytes <= p->choice.memory && cost < best) best = cost;
    for (n = 0; n < NODES && ++chosen[n] == CHOICES; n++) chosen[n] = 0;
  }
  return best;
}

static void check(random_problem *p) {
  uint64_t least;
  uint32_t chosen[NODES] = {0};
  const double best = least_of(p, &least);
  nabla_choice_answer answer = {.chosen = chosen};
  cr_assert(nabla_choice_solve(&p->choice, &answer));
  cr_assert_eq(answer.is_feasible, best < INFINITY);
  if (!answer.is_feasible) return;
  cr_assert_eq(answer.bytes, held(p, chosen));
  cr_assert_float_eq(answer.cost, nabla_choice_cost(&p->choice, chosen), 1e-9);
  cr_assert_float_eq(answer.cost, best, 1e-6);
  cr_assert_leq(answer.bound, best + 1e-6);
}

Test(choice, is_the_best_of_all_solutions) {
  static random_problem p;
  static const size_t tables[] = {0, 9, 3};
  for (uint64_t seed = 1; seed <= 60; seed++) {
    make(&p, seed);
    p.choice.table_limit = tables[seed % 3];
    check(&p);
    uint64_t least;
    (void)least_of(&p, &least);
    for (uint64_t more = 0; more <= 60; more += 20) {
      p.choice.memory = least + more;
      check(&p);
    }
    p.choice.memory = least - 1;
    check(&p);
  }
}

/* A solution is improved where no single node does better. */
Test(choice, improves_single_nodes) {
  static random_problem p;
  for (uint64_t seed = 1; seed <= 60; seed++) {
    uint32_t fixed[NODES], chosen[NODES] = {0};
    nabla_choice_index index;
    make(&p, seed);
    for (int n = 0; n < NODES; n++) fixed[n] = n ? UINT32_MAX : 0;
    cr_assert(nabla_choice_index_init(&index, &p.choice));
    const double before = nabla_choice_cost(&p.choice, chosen);
    cr_assert_gt(nabla_choice_improve(&p.choice, &index, fixed, chosen), 0);
    const double after = nabla_choice_cost(&p.choice, chosen);
    cr_assert_leq(after, before);
    cr_assert_eq(chosen[0], 0);
    for (int n = 1; n < NODES; n++)
      for (uint32_t c = 0; c < CHOICES; c++) {
        const uint32_t was = chosen[n];
        chosen[n] = c;
        cr_assert_geq(nabla_choice_cost(&p.choice, chosen), after - 1e-9);
        chosen[n] = was;
      }
    nabla_choice_index_deinit(&index);
  }
}

/* Sums of bytes do not wrap: 2^18 loads of the most bytes are 2^64. */
Test(choice, many_loads_are_not_none) {
  enum { MANY = 1 << 18 };
  const double costs[] = {0, 1};
  const uint64_t bytes[] = {NABLA_CHOICE_MOST_BYTES, 0};
  const nabla_choice_node node = {2, costs};
  nabla_choice_load *loads = malloc(MANY * sizeof *loads);
  cr_assert_not_null(loads);
  for (int i = 0; i < MANY; i++)
    loads[i] = (nabla_choice_load){false, 0, 0, 0, bytes};
  uint32_t chosen = 0;
  const nabla_choice choice = {.node_count = 1,
                               .load_count = MANY,
                               .nodes = &node,
                               .loads = loads,
                               .moments = 1,
                               .memory = (uint64_t)1 << 50};
  nabla_choice_answer answer = {.chosen = &chosen};
  cr_assert(nabla_choice_solve(&choice, &answer));
  cr_assert(answer.is_feasible);
  cr_assert_eq(chosen, 1);
  cr_assert_eq(answer.bytes, 0);
  free(loads);
}
