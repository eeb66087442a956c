/* See prices.h. */
#include "transforms/shard/solve/prices.h"

#include <stdlib.h>
#include <string.h>

/* The entries of a node's or an edge's costs. */
static size_t entries_of(const nabla_choice *p, bool is_edge, size_t at) {
  return !is_edge ? p->nodes[at].count
                  : (size_t)p->nodes[p->edges[at].a].count *
                        p->nodes[p->edges[at].b].count;
}

static double *room_for(const nabla_choice *p, bool is_edge, size_t at) {
  return calloc(entries_of(p, is_edge, at) + 1, sizeof(double));
}

bool nabla_choice_prices_init(nabla_choice_prices *p,
                              const nabla_choice *given) {
  const size_t moments = (size_t)given->moments + 1;
  *p = (nabla_choice_prices){
      .given = given,
      .nodes = calloc(given->node_count + 1, sizeof *p->nodes),
      .edges = calloc(given->edge_count + 1, sizeof *p->edges),
      .weights = calloc(moments, sizeof *p->weights),
      .sums = calloc(moments, sizeof *p->sums),
      .held = calloc(moments, sizeof *p->held)};
  p->priced = *given;
  if (!p->nodes || !p->edges || !p->weights || !p->sums || !p->held)
    return false;
  p->priced.nodes = p->nodes;
  p->priced.edges = p->edges;
  if (given->node_count)
    memcpy(p->nodes, given->nodes, given->node_count * sizeof *p->nodes);
  if (given->edge_count)
    memcpy(p->edges, given->edges, given->edge_count * sizeof *p->edges);
  for (size_t i = 0; i < given->load_count; i++) {
    const nabla_choice_load *l = &given->loads[i];
    const double **costs =
        l->is_edge ? &p->edges[l->at].costs : &p->nodes[l->at].costs;
    const double *old =
        l->is_edge ? given->edges[l->at].costs : given->nodes[l->at].costs;
    if (*costs == old && !(*costs = room_for(given, l->is_edge, l->at)))
      return false;
  }
  return true;
}

void nabla_choice_prices_deinit(nabla_choice_prices *p) {
  for (size_t n = 0; p->nodes && n < p->given->node_count; n++)
    if (p->nodes[n].costs != p->given->nodes[n].costs)
      free((void *)p->nodes[n].costs);
  for (size_t k = 0; p->edges && k < p->given->edge_count; k++)
    if (p->edges[k].costs != p->given->edges[k].costs)
      free((void *)p->edges[k].costs);
  free(p->nodes);
  free(p->edges);
  free(p->weights);
  free(p->sums);
  free(p->held);
}

void nabla_choice_prices_set(nabla_choice_prices *p, double price) {
  const nabla_choice *given = p->given;
  for (uint32_t t = 0; t < given->moments; t++)
    p->sums[t + 1] =
        p->sums[t] + (p->all > 0 ? price * p->weights[t] / p->all : 0);
  for (size_t i = 0; i < given->load_count; i++) {
    const nabla_choice_load *l = &given->loads[i];
    const double *old =
        l->is_edge ? given->edges[l->at].costs : given->nodes[l->at].costs;
    memcpy((void *)(l->is_edge ? p->edges[l->at].costs : p->nodes[l->at].costs),
           old, entries_of(given, l->is_edge, l->at) * sizeof *old);
  }
  for (size_t i = 0; i < given->load_count; i++) {
    const nabla_choice_load *l = &given->loads[i];
    double *costs =
        (double *)(l->is_edge ? p->edges[l->at].costs : p->nodes[l->at].costs);
    const double each = p->sums[l->last + 1] - p->sums[l->first];
    const size_t count = entries_of(given, l->is_edge, l->at);
    for (size_t k = 0; each > 0 && k < count; k++)
      costs[k] += each * (double)l->bytes[k];
  }
}

/* Loads are added where they begin, and taken away behind their end. With more
 * than 2^18 of them, each counts as less at most: sums do not wrap. */
static void add_load(nabla_choice_prices *p, const nabla_choice_load *l,
                     uint64_t bytes) {
  const uint64_t most = UINT64_MAX / p->given->load_count;
  if (bytes > most) bytes = most;
  p->held[l->first] += bytes;
  p->held[l->last + 1] -= bytes;
}

static nabla_choice_held sum_up(nabla_choice_prices *p) {
  nabla_choice_held out = {0};
  double mean = 0;
  for (uint32_t t = 0; t < p->given->moments; t++) {
    if (t) p->held[t] += p->held[t - 1];
    mean += p->weights[t] * (double)p->held[t];
    if (p->held[t] <= out.most) continue;
    out.most = p->held[t];
    out.moment = t;
  }
  out.mean = p->all > 0 ? mean / p->all : 0;
  return out;
}

nabla_choice_held nabla_choice_prices_held(nabla_choice_prices *p,
                                           const uint32_t *chosen) {
  const nabla_choice *given = p->given;
  memset(p->held, 0, ((size_t)given->moments + 1) * sizeof *p->held);
  for (size_t i = 0; i < given->load_count; i++) {
    const nabla_choice_load *l = &given->loads[i];
    size_t entry = l->is_edge ? 0 : chosen[l->at];
    if (l->is_edge) {
      const nabla_choice_edge *e = &given->edges[l->at];
      entry = (size_t)chosen[e->a] * given->nodes[e->b].count + chosen[e->b];
    }
    add_load(p, l, l->bytes[entry]);
  }
  return sum_up(p);
}

uint64_t nabla_choice_prices_least(nabla_choice_prices *p,
                                   const uint32_t *fixed) {
  const nabla_choice *given = p->given;
  memset(p->held, 0, ((size_t)given->moments + 1) * sizeof *p->held);
  for (size_t i = 0; i < given->load_count; i++) {
    const nabla_choice_load *l = &given->loads[i];
    const uint32_t a = l->is_edge ? given->edges[l->at].a : l->at;
    const uint32_t b = l->is_edge ? given->edges[l->at].b : 0;
    const uint32_t columns = l->is_edge ? given->nodes[b].count : 1;
    uint64_t least = UINT64_MAX;
    for (uint32_t x = 0; x < given->nodes[a].count; x++)
      for (uint32_t y = 0; y < columns; y++) {
        if ((fixed[a] != UINT32_MAX && fixed[a] != x) ||
            (l->is_edge && fixed[b] != UINT32_MAX && fixed[b] != y))
          continue;
        const uint64_t bytes = l->bytes[(size_t)x * columns + y];
        least = bytes < least ? bytes : least;
      }
    add_load(p, l, least);
  }
  return sum_up(p).most;
}
