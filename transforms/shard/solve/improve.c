/* Improvement of solutions by single nodes: see choice.h. */
#include "transforms/shard/solve/choice.h"

enum { ROUNDS = 8 };

/* What a node costs with choice `c`, its edges included. */
static double cost_at(const nabla_choice *p, const uint32_t *chosen,
                      uint32_t node, uint32_t c) {
  double all = p->nodes[node].costs[c];
  for (size_t k = 0; k < p->edge_count; k++) {
    const nabla_choice_edge *e = &p->edges[k];
    if (e->a == node)
      all += e->costs[(size_t)c * p->nodes[e->b].count + chosen[e->b]];
    else if (e->b == node)
      all += e->costs[(size_t)chosen[e->a] * p->nodes[node].count + c];
  }
  return all;
}

void nabla_choice_improve(const nabla_choice *problem, const uint32_t *fixed,
                          uint32_t *chosen) {
  bool changed = true;
  for (int round = 0; round < ROUNDS && changed; round++) {
    changed = false;
    for (uint32_t n = 0; n < problem->node_count; n++) {
      if (fixed[n] != UINT32_MAX) continue;
      double best = cost_at(problem, chosen, n, chosen[n]);
      for (uint32_t c = 0; c < problem->nodes[n].count; c++) {
        const double cost = cost_at(problem, chosen, n, c);
        if (cost >= best) continue;
        best = cost;
        chosen[n] = c;
        changed = true;
      }
    }
  }
}
