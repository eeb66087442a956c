/* The arrays of a cluster, which grow: a function of 30,000 operations may have
 * as many clusters, most of one operation. */
#include <stdlib.h>

#include "transforms/cluster/cluster.h"

enum { FEWEST = 2 };

/* Memory for at least `count` elements, `*room` of which are there. */
static bool grow(void **items, int *room, int count, size_t size) {
  int more = *room ? *room : FEWEST;
  if (count <= *room) return true;
  while (more < count) more *= 2;
  void *made = realloc(*items, (size_t)more * size);
  if (!made) return false;
  *items = made;
  *room = more;
  return true;
}

/* An array by its type, with the variables that hold it and its room. */
#define GROW(name, count)                                                     \
  do {                                                                        \
    void *items = c->name;                                                    \
    const bool grown = grow(&items, &c->name##_room, count, sizeof *c->name); \
    c->name = items;                                                          \
    if (!grown) return false;                                                 \
  } while (0)

bool nabla_cluster_reserve(nabla_cluster *c, int nodes, int inputs, int checks,
                           int members) {
  GROW(nodes, nodes);
  GROW(inputs, inputs);
  GROW(checks, checks);
  GROW(members, members);
  return true;
}

void nabla_cluster_deinit(nabla_cluster *c) {
  free(c->nodes);
  free(c->inputs);
  free(c->checks);
  free(c->members);
  *c = (nabla_cluster){0};
}
