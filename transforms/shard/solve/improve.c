/* Improvement of solutions by single nodes: see choice.h. */
#include <stdlib.h>

#include "transforms/shard/solve/choice.h"

enum { ROUNDS = 8 };

bool nabla_choice_index_init(nabla_choice_index *index, const nabla_choice *p) {
  *index = (nabla_choice_index){
      .first = calloc(p->node_count + 2, sizeof *index->first),
      .edges = calloc(2 * p->edge_count + 1, sizeof *index->edges)};
  if (!index->first || !index->edges) return false;
  size_t *at =
      index->first + 1; /* one node ahead: ends where the next begins */
  for (size_t k = 0; k < p->edge_count; k++) {
    at[p->edges[k].a + 1]++;
    at[p->edges[k].b + 1]++;
  }
  for (size_t n = 0; n < p->node_count; n++) at[n + 1] += at[n];
  for (size_t k = 0; k < p->edge_count; k++) {
    index->edges[at[p->edges[k].a]++] = k;
    index->edges[at[p->edges[k].b]++] = k;
  }
  return true;
}

void nabla_choice_index_deinit(nabla_choice_index *index) {
  free(index->first);
  free(index->edges);
}

/* What a node costs with choice `c`, its edges included. */
static double cost_at(const nabla_choice *p, const nabla_choice_index *index,
                      const uint32_t *chosen, uint32_t node, uint32_t c) {
  double all = p->nodes[node].costs[c];
  for (size_t i = index->first[node]; i < index->first[node + 1]; i++) {
    const nabla_choice_edge *e = &p->edges[index->edges[i]];
    all += e->a == node
               ? e->costs[(size_t)c * p->nodes[e->b].count + chosen[e->b]]
               : e->costs[(size_t)chosen[e->a] * p->nodes[node].count + c];
  }
  return all;
}

double nabla_choice_improve(const nabla_choice *problem,
                            const nabla_choice_index *index,
                            const uint32_t *fixed, uint32_t *chosen) {
  bool changed = true;
  double work = 0;
  for (int round = 0; round < ROUNDS && changed; round++) {
    changed = false;
    for (uint32_t n = 0; n < problem->node_count; n++) {
      const uint32_t count = problem->nodes[n].count;
      if (fixed[n] != UINT32_MAX) continue;
      work += (double)(count + 1) *
              (double)(index->first[n + 1] - index->first[n] + 1);
      double best = cost_at(problem, index, chosen, n, chosen[n]);
      for (uint32_t c = 0; c < count; c++) {
        const double cost = cost_at(problem, index, chosen, n, c);
        if (cost >= best) continue;
        best = cost;
        chosen[n] = c;
        changed = true;
      }
    }
  }
  return work;
}
