/* Elimination of nodes: see choice.h. */
#include <stdlib.h>
#include <string.h>

#include "transforms/shard/solve/choice.h"
#include "transforms/shard/solve/room.h"

enum { SCOPE = 12, TABLE_LIMIT = 1 << 20 };

/* A function of some nodes: a table with an entry for each combination of their
 * choices, of which the last node's vary fastest. */
typedef struct table {
  uint32_t count, nodes[SCOPE];
  size_t size; /* of entries */
  double *entries;
  bool is_used; /* was summed into another one */
  int32_t next; /* of the same bucket */
} table;

typedef struct elimination {
  const nabla_choice *problem;
  nabla_choice_pass *pass;
  table *tables;
  size_t count, capacity;
  uint32_t *order, *place; /* of nodes; each node's place in it */
  int32_t *buckets;        /* first table of each node's bucket; -1 */
  size_t table_limit;
  bool failed; /* out of memory */
} elimination;

static uint32_t size_of(const elimination *e, uint32_t node) {
  return e->pass->fixed[node] == UINT32_MAX ? e->problem->nodes[node].count : 1;
}

/* The choice that is number `i` of those that are left. */
static uint32_t choice_of(const elimination *e, uint32_t node, uint32_t i) {
  return e->pass->fixed[node] == UINT32_MAX ? i : e->pass->fixed[node];
}

static table *add_table(elimination *e, uint32_t count, const uint32_t *nodes) {
  size_t size = 1;
  if (e->count == e->capacity) {
    const size_t capacity = e->capacity ? 2 * e->capacity : 256;
    table *more = realloc(e->tables, capacity * sizeof *more);
    if (!more) return e->failed = true, NULL;
    e->tables = more;
    e->capacity = capacity;
  }
  table *t = &e->tables[e->count];
  *t = (table){.count = count, .next = -1};
  for (uint32_t i = 0; i < count; i++) {
    t->nodes[i] = nodes[i];
    size *= size_of(e, nodes[i]);
  }
  t->size = size;
  t->entries = malloc(size * sizeof *t->entries);
  if (!t->entries) return e->failed = true, NULL;
  e->count++;
  return t;
}

static bool read_problem(elimination *e) {
  const nabla_choice *p = e->problem;
  for (uint32_t n = 0; n < p->node_count; n++) {
    table *t = add_table(e, 1, &n);
    for (uint32_t i = 0; t && i < size_of(e, n); i++)
      t->entries[i] = p->nodes[n].costs[choice_of(e, n, i)];
  }
  for (size_t k = 0; k < p->edge_count; k++) {
    const nabla_choice_edge *edge = &p->edges[k];
    const uint32_t ends[] = {edge->a, edge->b};
    const uint32_t rows = size_of(e, edge->a), columns = size_of(e, edge->b);
    table *t = add_table(e, 2, ends);
    for (uint32_t i = 0; t && i < rows; i++)
      for (uint32_t j = 0; j < columns; j++)
        t->entries[i * columns + j] =
            edge->costs[(size_t)choice_of(e, edge->a, i) *
                            p->nodes[edge->b].count +
                        choice_of(e, edge->b, j)];
  }
  return !e->failed;
}

/* ---- the order: first the node whose table is smallest ---- */

typedef struct neighbours {
  uint32_t count, *at;
  size_t capacity;
} neighbours;

static bool join(neighbours *n, uint32_t other) {
  for (uint32_t i = 0; i < n->count; i++)
    if (n->at[i] == other) return true;
  void *room = nabla_room(n->at, n->count, &n->capacity, sizeof *n->at);
  if (!room) return false;
  n->at = room;
  n->at[n->count++] = other;
  return true;
}

static void part(neighbours *n, uint32_t other) {
  for (uint32_t i = 0; i < n->count; i++)
    if (n->at[i] == other) {
      n->at[i] = n->at[--n->count];
      return;
    }
}

static double weight(const elimination *e, const neighbours *n) {
  double product = 1;
  for (uint32_t i = 0; i < n->count; i++) product *= size_of(e, n->at[i]);
  return product;
}

/* Removes `node`, whose neighbours become neighbours of each other. */
static bool remove_node(neighbours *all, uint32_t node) {
  neighbours *n = &all[node];
  for (uint32_t i = 0; i < n->count; i++) part(&all[n->at[i]], node);
  for (uint32_t i = 0; i < n->count && n->count < 64; i++)
    for (uint32_t j = 0; j < n->count; j++)
      if (i != j && !join(&all[n->at[i]], n->at[j])) return false;
  return true;
}

static bool find_order(elimination *e) {
  const size_t count = e->problem->node_count;
  neighbours *all = calloc(count + 1, sizeof *all);
  double *weights = calloc(count + 1, sizeof *weights);
  bool good = all && weights;
  for (size_t k = 0; good && k < e->problem->edge_count; k++) {
    const nabla_choice_edge *edge = &e->problem->edges[k];
    good = join(&all[edge->a], edge->b) && join(&all[edge->b], edge->a);
  }
  for (size_t n = 0; good && n < count; n++) {
    weights[n] = weight(e, &all[n]);
    e->place[n] = UINT32_MAX;
  }
  for (uint32_t at = 0; good && at < count; at++) {
    uint32_t best = UINT32_MAX;
    for (uint32_t n = 0; n < count; n++)
      if (e->place[n] == UINT32_MAX &&
          (best == UINT32_MAX || weights[n] < weights[best]))
        best = n;
    e->order[at] = best;
    e->place[best] = at;
    good = remove_node(all, best);
    for (uint32_t i = 0; good && i < all[best].count; i++)
      weights[all[best].at[i]] = weight(e, &all[all[best].at[i]]);
  }
  for (size_t n = 0; all && n < count; n++) free(all[n].at);
  free(all);
  free(weights);
  e->failed = e->failed || !good;
  return good;
}

/* ---- sums ---- */

/* Puts a table where the first of its nodes is eliminated. */
static void put(elimination *e, size_t index) {
  table *t = &e->tables[index];
  uint32_t first = t->nodes[0];
  for (uint32_t i = 1; i < t->count; i++)
    if (e->place[t->nodes[i]] < e->place[first]) first = t->nodes[i];
  t->next = e->buckets[first];
  e->buckets[first] = (int32_t)index;
}

/* Adds the nodes of `t` to a scope, in which `node` stays last; whether the
 * table of the others is small enough. */
static bool widen(const elimination *e, const table *t, uint32_t node,
                  uint32_t *count, uint32_t scope[SCOPE + 1]) {
  uint32_t n = *count, wide[SCOPE + 1];
  double size = 1;
  memcpy(wide, scope, n * sizeof *wide);
  for (uint32_t i = 0; i < t->count; i++) {
    bool has = t->nodes[i] == node;
    for (uint32_t k = 0; k < n; k++) has = has || wide[k] == t->nodes[i];
    if (has) continue;
    if (n == SCOPE) return false;
    wide[n++] = t->nodes[i];
  }
  for (uint32_t k = 0; k < n; k++) size *= size_of(e, wide[k]);
  if (size > (double)e->table_limit) return false;
  memcpy(scope, wide, n * sizeof *wide);
  *count = n;
  return true;
}

/* How far entries of `t` lie apart whose choices of `node` differ by one. */
static size_t stride(const elimination *e, const table *t, uint32_t node) {
  size_t all = 1;
  for (uint32_t i = t->count; i-- > 0;) {
    if (t->nodes[i] == node) return all;
    all *= size_of(e, t->nodes[i]);
  }
  return 0;
}

enum { TERMS = 64 };

typedef struct sum {
  uint32_t count; /* of terms */
  const double *terms[TERMS];
  size_t strides[TERMS][SCOPE + 1]; /* along each node of the scope, and last
                                       the one that is eliminated */
} sum;

/* Adds terms [first, end) for each choice of the last node to `sums`. */
static void add_terms(const sum *s, const size_t *at, uint32_t first,
                      uint32_t end, uint32_t last, uint32_t choices,
                      double *restrict sums) {
  for (uint32_t t = first; t < end; t++) {
    const double *from = s->terms[t] + at[t];
    const size_t stride = s->strides[t][last];
    if (stride == 1)
      for (uint32_t c = 0; c < choices; c++) sums[c] += from[c];
    else
      for (uint32_t c = 0; c < choices; c++) sums[c] += from[c * stride];
  }
}

enum { LANES = 8 }; /* least values side by side: of vectors of doubles */

static double least_of(const double *sums, uint32_t count) {
  double lanes[LANES], best = sums[0];
  uint32_t c = 0;
  for (int k = 0; k < LANES; k++) lanes[k] = sums[0];
  for (; c + LANES <= count; c += LANES)
    for (int k = 0; k < LANES; k++)
      lanes[k] =
          sums[c + (uint32_t)k] < lanes[k] ? sums[c + (uint32_t)k] : lanes[k];
  for (; c < count; c++)
    if (sums[c] < best) best = sums[c];
  for (int k = 0; k < LANES; k++)
    if (lanes[k] < best) best = lanes[k];
  return best;
}

/* Puts terms that do not vary with the last node of the scope first; returns
 * how many they are. */
static uint32_t sort_terms(sum *s, uint32_t scope) {
  uint32_t kept = 0;
  for (uint32_t t = 0; scope && t < s->count; t++) {
    if (s->strides[t][scope - 1]) continue;
    if (t == kept++) continue;
    size_t strides[SCOPE + 1];
    const double *terms = s->terms[t];
    memcpy(strides, s->strides[t], sizeof strides);
    s->terms[t] = s->terms[kept - 1];
    memcpy(s->strides[t], s->strides[kept - 1], sizeof strides);
    s->terms[kept - 1] = terms;
    memcpy(s->strides[kept - 1], strides, sizeof strides);
  }
  return kept;
}

/* Fills `out` by the least sums over the choices of `node`, its scope in
 * row-major order. `sums` is scratch memory: two numbers for each choice. */
static void fill(const elimination *e, sum *s, const table *out, uint32_t node,
                 double *sums) {
  uint32_t digits[SCOPE] = {0};
  size_t at[TERMS] = {0};
  const uint32_t choices = size_of(e, node), last = out->count;
  const uint32_t kept = sort_terms(s, last);
  double *row = sums + choices;
  for (size_t entry = 0; entry < out->size; entry++) {
    if (!last || !digits[last - 1]) { /* a row of the scope */
      memset(row, 0, choices * sizeof *row);
      add_terms(s, at, 0, kept, last, choices, row);
    }
    memcpy(sums, row, choices * sizeof *sums);
    add_terms(s, at, kept, s->count, last, choices, sums);
    out->entries[entry] = least_of(sums, choices);
    for (uint32_t d = out->count; d-- > 0;) {
      const bool more = digits[d] + 1 < size_of(e, out->nodes[d]);
      for (uint32_t t = 0; t < s->count; t++)
        at[t] = more ? at[t] + s->strides[t][d]
                     : at[t] - digits[d] * s->strides[t][d];
      digits[d] = more ? digits[d] + 1 : 0;
      if (more) break;
    }
  }
  e->pass->work += (double)out->size * (double)choices * (double)s->count;
}

/* Sums tables of the bucket of `node`, as many as one table has room for, and
 * keeps the least over its choices; whether any is left. */
static bool eliminate_some(elimination *e, uint32_t node) {
  uint32_t count = 0, scope[SCOPE + 1], used = 0;
  int32_t taken[TERMS];
  bool left = false;
  for (int32_t i = e->buckets[node]; i >= 0; i = e->tables[i].next) {
    if (e->tables[i].is_used) continue;
    if (used == TERMS || !widen(e, &e->tables[i], node, &count, scope)) {
      left = true;
      continue;
    }
    e->tables[i].is_used = true;
    taken[used++] = i;
  }
  table *out = used ? add_table(e, count, scope) : NULL;
  double *sums = calloc(2 * (size_t)size_of(e, node) + 1, sizeof *sums);
  if (!out || !sums) {
    free(sums);
    e->failed = true;
    return false;
  }
  sum s = {.count = used};
  for (uint32_t t = 0; t < used; t++) {
    const table *from = &e->tables[taken[t]];
    s.terms[t] = from->entries;
    for (uint32_t k = 0; k < count; k++)
      s.strides[t][k] = stride(e, from, scope[k]);
    s.strides[t][count] = stride(e, from, node);
  }
  fill(e, &s, out, node, sums);
  free(sums);
  if (count)
    put(e, e->count - 1);
  else
    e->pass->bound += out->entries[0];
  return left;
}

/* ---- the solution ---- */

/* The sum of the bucket of `node` for one of its choices, and for those of the
 * nodes behind it in the order, which are known. */
static double value_of(const elimination *e, uint32_t node, uint32_t choice) {
  double value = 0;
  for (int32_t i = e->buckets[node]; i >= 0; i = e->tables[i].next) {
    const table *t = &e->tables[i];
    size_t entry = 0;
    for (uint32_t k = 0; k < t->count; k++) {
      const uint32_t other = t->nodes[k];
      entry = entry * size_of(e, other) +
              (other == node ? choice : e->pass->chosen[other]);
    }
    value += t->entries[entry];
  }
  return value;
}

/* Nodes in the reverse order: the best choice for those that are known. */
static void decode(elimination *e) {
  uint32_t *chosen = e->pass->chosen;
  for (size_t at = e->problem->node_count; at-- > 0;) {
    const uint32_t node = e->order[at];
    double best = 0;
    uint32_t found = 0;
    for (uint32_t c = 0; c < size_of(e, node); c++) {
      const double value = value_of(e, node, c);
      if (c && value >= best) continue;
      best = value;
      found = c;
    }
    chosen[node] = found;
  }
  for (uint32_t n = 0; n < e->problem->node_count; n++)
    chosen[n] = choice_of(e, n, chosen[n]);
}

bool nabla_choice_eliminate(const nabla_choice *problem,
                            nabla_choice_pass *pass) {
  const size_t count = problem->node_count;
  elimination e = {
      .problem = problem,
      .pass = pass,
      .order = calloc(count + 1, sizeof(uint32_t)),
      .place = calloc(count + 1, sizeof(uint32_t)),
      .buckets = malloc((count + 1) * sizeof(int32_t)),
      .table_limit = problem->table_limit ? problem->table_limit : TABLE_LIMIT};
  pass->bound = pass->work = 0;
  pass->split = UINT32_MAX;
  e.failed = !e.order || !e.place || !e.buckets;
  if (!e.failed && find_order(&e) && read_problem(&e)) {
    for (size_t n = 0; n < count; n++) e.buckets[n] = -1;
    const size_t given = e.count;
    for (size_t i = 0; i < given; i++) put(&e, i);
    for (size_t at = 0; at < count && !e.failed; at++)
      while (eliminate_some(&e, e.order[at]))
        if (pass->split == UINT32_MAX) pass->split = e.order[at];
    if (!e.failed) decode(&e);
  }
  for (size_t i = 0; i < e.count; i++) free(e.tables[i].entries);
  free(e.tables);
  free(e.order);
  free(e.place);
  free(e.buckets);
  return !e.failed;
}
